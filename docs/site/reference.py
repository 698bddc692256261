"""The reference: one page for each public module, from its docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from textwrap import dedent
from typing import Any

from formulas import mathml

MODULES = {
    "covary": "The front doors and the verbs of the trunk.",
    "covary.kernels": "What is believed of the function before any data are seen.",
    "covary.means": "Mean functions and explicit basis functions.",
    "covary.likelihoods": "What lies between the function and the observations.",
    "covary.inference": "How the posterior is found.",
    "covary.gram": "How the matrix of covariances is handled: many rows live here.",
    "covary.committee": "Experts on parts of the rows, and how they are combined.",
    "covary.executors": "Where experts work: this process, every core, a cluster.",
    "covary.selection": "Objectives for the hyperparameters beside the evidence.",
    "covary.distributions": "Priors of parameters.",
    "covary.parameters": "Parameters by path: read, set, hold, bound, tie.",
    "covary.metrics": "Scores of predictions and of classes.",
    "covary.plots": "Pictures of what was fitted.",
    "covary.datasets": "Data that ship with the package, and generators.",
    "covary.models": "Gaussian processes in another guise.",
    "covary.smoother": "A posterior mean as a linear smoother.",
    "covary.components": "What a fit is made of, term by term.",
    "covary.updates": "Rows that come and go.",
}
ALSO = {"covary": {"Posterior": "covary.posterior", "Learned": "covary.selection.learn", "Diagnosis": "covary.diagnosis"}}
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):`~?([^`<]+?)`")
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.M)


@cache
def public(module: str) -> dict[str, Any]:
    """The public names of a module and what they are."""
    where = importlib.import_module(module)
    names = getattr(where, "__all__", None) or [n for n in vars(where) if n[0] != "_"]
    found = {n: getattr(where, n) for n in names}
    own = {n: v for n, v in found.items() if str(getattr(v, "__module__", "")).startswith("covary") and hasattr(v, "__doc__")}
    if not hasattr(where, "__path__") and module != "covary":  # a file: what is written in it
        own = {n: v for n, v in own.items() if v.__module__ == module}
    for name, home in ALSO.get(module, {}).items():
        value = getattr(importlib.import_module(home), name, None)
        if value is not None:
            own[name] = value
    return {n: own[n] for n in sorted(own, key=lambda n: (n.startswith("Abstract"), not inspect.isclass(own[n]), n.lower()))}


@cache
def where_is() -> dict[str, str]:
    """Page and anchor of every public name, short where only one module has it."""
    found: dict[str, str] = {}
    twice = set()
    for module in MODULES:
        for name in public(module):
            place = f"reference/{module}.html#{module}.{name}"
            found[f"{module}.{name}"] = place
            found[f"{module}.{name}".removeprefix("covary.")] = place
            if name in found and found[name] != place and module != "covary.inference":
                twice.add(name)
            found.setdefault(name, place)
        found[module] = f"reference/{module}.html"
    return {name: place for name, place in found.items() if name not in twice and len(name) > 1}


def signature(thing: Any, name: str) -> str:
    try:
        given = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    kept = [
        p.replace(annotation=inspect.Parameter.empty, default=p.default if _short(p.default) else ...)
        for p in given.parameters.values()
        if p.name not in ("self", "cls")
    ]
    text = str(given.replace(parameters=kept, return_annotation=inspect.Signature.empty))
    text = re.sub(r"Ellipsis", "...", text).replace("<object object>", "...")
    return (
        name + text if len(name + text) < 90 else name + text.replace("(", "(\n    ", 1).replace(", ", ",\n    ")[:-1] + ",\n)"
    )


def _short(value: Any) -> bool:
    return value is inspect.Parameter.empty or (len(repr(value)) < 40 and "<" not in repr(value))


def blocks(doc: str) -> Iterator[str]:
    """A docstring, reStructuredText with numpydoc's sections, as Markdown."""
    parts = SECTION.split(inspect.cleandoc(doc))
    yield prose(parts[0])
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        yield f'\n\n<p class="part">{title}</p>\n\n'
        body = body.strip("\n")
        if title in ("Parameters", "Attributes", "Returns", "Yields", "Raises") and re.search(r"^\S.*\n {4}", body, re.M):
            yield from entries(body)
        else:
            yield prose(body)


def entries(body: str) -> Iterator[str]:
    """Names with an indented description each."""
    yield '<dl class="entries">\n'
    for item in re.split(r"\n(?=\S)", dedent(body)):
        name, _, rest = item.partition("\n")
        yield f"<dt><code>{escape(name)}</code></dt>\n<dd>\n\n{prose(dedent(rest))}\n\n</dd>\n"
    yield "</dl>\n\n"


def prose(text: str) -> str:
    """Paragraphs, formulas, doctests and lists."""
    out, lines = [], text.strip("\n").split("\n")
    while lines:
        line = lines.pop(0)
        if line.lstrip().startswith(">>>"):
            code = [line]
            while lines and lines[0].strip():
                code.append(lines.pop(0))
            out += ["", "```pycon", *dedent("\n".join(code)).strip("\n").split("\n"), "```", ""]
        elif line.lstrip().startswith(".. math::"):
            inside = [line.split("::", 1)[1]]
            while lines and (lines[0].startswith(" ") or not lines[0].strip()) and not (inside[-1] == "" and len(inside) > 2):
                inside.append(lines.pop(0).strip())
            out += ["", "```math", *[part for part in inside if part], "```", ""]
        elif line.rstrip().endswith("::") and not line.lstrip().startswith(".."):
            out += [line.rstrip()[:-1], ""]
            code = []
            while lines and (lines[0].startswith(" ") or not lines[0].strip()):
                code.append(lines.pop(0))
            out += ["```python", *dedent("\n".join(code)).strip("\n").split("\n"), "```", ""]
        else:
            out.append(line)
    text = "\n".join(out)
    text = re.sub(r":math:`([^`]*)`", r"$`\1`$", text)
    text = ROLE.sub(r"`\1`", text)
    return re.sub(r"(?<!`)``([^`]+)``(?!`)", r"`\1`", text)


def methods(thing: Any) -> list[tuple[str, Any]]:
    """Public methods with a docstring of covary's own."""
    found = []
    for name in dir(thing):
        if name[0] == "_":
            continue
        value = inspect.getattr_static(thing, name)
        inner = getattr(value, "__func__", getattr(value, "fget", getattr(value, "func", value)))
        if not str(getattr(inner, "__module__", "")).startswith("covary") or not getattr(inner, "__doc__", None):
            continue
        if inspect.isfunction(inner) and inner.__module__ != "covary._module":
            found.append((name, value))
    return found


def entry(module: str, name: str, thing: Any) -> Iterator[str]:
    """One name: heading, signature, docstring, methods."""
    full = f"{module}.{name}"
    yield f"\n## {name} {{#{full}}}\n\n"
    shown = "callable" if callable(thing) else "value"
    if shown == "callable":
        yield f"```python signature\n{signature(thing, full)}\n```\n\n"
    yield from blocks(thing.__doc__ or "")
    if not inspect.isclass(thing):
        return
    own = methods(thing)
    brief = [(n, v) for n, v in own if not _inherited(thing, n)]
    for method, value in brief:
        inner = getattr(value, "__func__", getattr(value, "fget", getattr(value, "func", value)))
        kind = "" if callable(getattr(thing, method, None)) else " property"
        head = signature(inner, method) if not kind else method
        yield f'\n<section class="method">\n\n```python signature{kind} {full}.{method}\n{head}\n```\n\n'
        yield from blocks(inner.__doc__)
        yield "\n</section>\n"


def _inherited(thing: Any, name: str) -> bool:
    """Whether a method is written in an abstract base that has an entry of its own."""
    home = next((base for base in thing.__mro__ if name in vars(base)), thing)
    return home is not thing and home.__name__.startswith("Abstract")


def pages() -> Iterator[tuple[str, str]]:
    """Address and Markdown of every page of the reference."""
    for module, text in MODULES.items():
        names = public(module)
        body = [f"# {module}\n\n{text}\n\n"]
        if module in ("covary.kernels", "covary.plots"):
            page = module.split(".")[1]
            body.append(f"With pictures: [the gallery](../gallery/{page}.md).\n\n")
        body.append('<ul class="names">\n')
        body += [f'<li><a href="#{module}.{n}">{n}</a> {_first(v)}</li>\n' for n, v in names.items()]
        body.append("</ul>\n")
        for name, thing in names.items():
            body += entry(module, name, thing)
        yield f"reference/{module}.md", "".join(body)


def _first(thing: Any) -> str:
    first = prose((inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " "))
    parts = re.split(r"\$`([^`]*)`\$", first)  # every second one is a formula
    plain = [re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(part, quote=False)) for part in parts[::2]]
    shown = [mathml(part) for part in parts[1::2]] + [""]
    return "".join(a + b for a, b in zip(plain, shown, strict=True))
