"""Every sentence of the library that a command may have to say, read from its source.

Errors are the calls that raise one (``fail`` and the like, and functions that hand their own arguments on to them); advice is
every text of the modules that give some. Numbers stand in for what is filled in, ``'a'`` for quoted values, and the name of a
class for other words.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import covary
from covary.cli.words import PYTHON

SRC = Path(covary.__file__).parent
SAYERS = ("fail", "CovaryError", "NotPositiveDefinite", "NotEnoughMemory", "BadFile")
MOST = 64  # readings of one call

UNREACHED = {  # rooms that no command enters
    "metrics": "the command has scores of its own",
    "smoother.py": "looking inside, in Python",
    "updates.py": "rows that come and go, in Python",
    "models": "weight space, in Python",
    "paths.py": "draws of whole functions, in Python",
    "components.py": "looking inside, in Python",
    "kernels/features.py": "random features, in Python",
    "kernels/spectrum.py": "spectra, in Python",
    "selection/closed_forms.py": "looking inside, in Python",
}
UNSAID = {  # functions whose complaints no command can bring about
    ("_checks.py", "check_matrix"): "tables have rows and columns",
    ("_checks.py", "as_array"): "tables are dense",
    ("_module.py", "_check_author"): "of a class of one's own",
    ("_pieces.py", "__init__"): "keys are made by the library itself",
    ("committee/rules.py", "combine"): "committees combine by themselves",
    ("diagnosis/record.py", "__getitem__"): "checks by name, in Python",
    ("estimators/base.py", "_check_method"): "the option takes no other name",
    ("estimators/base.py", "_kernels"): "kernels come as text",
    ("estimators/base.py", "_opened"): "the command opens files itself",
    ("estimators/base.py", "_default_kernel"): "refused by the command itself",
    ("estimators/classifier.py", "_class_weights"): "the command gives no weights of classes",
    ("estimators/encoding.py", "encode_likelihood"): "likelihoods have names",
    ("estimators/encoding.py", "encode_mean"): "means have names",
    ("estimators/encoding.py", "encode_prior"): "priors of the command are the default ones",
    ("estimators/encoding.py", "encode_inference"): "inferences have names",
    ("estimators/encoding.py", "encode_kernel"): "kernels of the command come from text",
    ("estimators/entries.py", "function_name"): "the command has no functions",
    ("estimators/arguments.py", "_objective_out"): "objectives have names",
    ("estimators/given.py", "check_bounds"): "the command gives no bounds",
    ("estimators/given.py", "read_kernel"): "kernels come as text",
    ("estimators/inputs.py", "_check_dimensions"): "tables have rows and columns",
    ("estimators/inputs.py", "_numbers"): "tables have rows and columns",
    ("estimators/options.py", "check_options"): "the command has options, not arrays",
    ("gram/subset.py", "bind"): "learning prepares it",
    ("inference/separation.py", "check_weights"): "the command knows no basis functions",
    ("kernels/base.py", "block"): "of a kernel of one's own",
    ("kernels/networks.py", "__call__"): "networks are drawn in Python",
    ("likelihoods/averages.py", "average_logistic"): "the command averages exactly",
    ("likelihoods/base.py", "log_prob"): "of a likelihood of one's own",
    ("likelihoods/base.py", "fisher"): "of a likelihood of one's own",
    ("means/functions.py", "check"): "means have names",
    ("model.py", "__post_init__"): "the command builds its models itself",
    ("means/basis.py", "basis_weights"): "the command knows no basis functions",
    ("parameters.py", "__init__"): "the command ties no parameters",
    ("plots/calibration.py", "_checked"): "reports draw what they have computed",
    ("plots/fit.py", "_shown"): "the same",
    ("plots/history.py", "_learned"): "the same",
    ("plots/kernel.py", "_kernel"): "the same",
    ("posterior.py", "sample_prior"): "the command draws nothing from the prior",
    ("prediction.py", "quantile"): "levels are looked at by the command itself",
    ("selection/left_out.py", "error"): "asked for by tests and programs",
    ("selection/priors.py", "__init__"): "the command gives no priors",
}
UNSET = tuple(f"{who}: {name} " for who in ("GPRegressor", "GPClassifier", "fit") for name in PYTHON)  # nobody has set these
ADVICE = ("diagnosis", "estimators/summary.py", "estimators/frames.py", "estimators/method.py", "gram/diagnostics.py")

Texts = dict[str, list[str]]


@dataclass(frozen=True)
class Said:
    """A sentence, and where it stands."""

    text: str
    where: str


def read(node: ast.AST | None, known: Texts) -> list[str]:
    """The texts an expression may stand for."""
    match node:
        case ast.Constant(value=value):
            return [str(value)]
        case ast.JoinedStr(values=values):
            return _joined([read(v, known) for v in values])
        case ast.FormattedValue(conversion=114):
            return ["'a'"]
        case ast.FormattedValue(format_spec=ast.JoinedStr()):
            return ["3"]
        case ast.FormattedValue(value=value):
            return read(value, known)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined([read(left, known), read(right, known)])
        case ast.BinOp(op=ast.Mult()):
            return [""]
        case ast.IfExp(body=body, orelse=other):
            return read(body, known) + read(other, known)
        case ast.Call(func=ast.Name(id="counted"), args=[_, ast.Constant(value=noun), *plural]):
            return [f"1 {noun}", f"3 {read(plural[0], known)[0] if plural else f'{noun}s'}"]
        case ast.Name(id=name) if name in known:
            return known[name]
    return ["Dense"]


def _joined(parts: list[list[str]]) -> list[str]:
    return ["".join(some) for some in itertools.islice(itertools.product(*parts), MOST)]


def assigned(node: ast.AST, known: Texts) -> Texts:
    """The texts that names stand for inside a function, or in a module."""
    found: Texts = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Assign | ast.AugAssign | ast.AnnAssign) and part.value is not None:
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            if _speaks(part.value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).extend(read(part.value, known | found))
        elif isinstance(part, ast.FunctionDef):
            arguments = [*part.args.posonlyargs, *part.args.args]
            for name, value in zip(arguments[::-1], part.args.defaults[::-1], strict=False):
                if _speaks(value):
                    found.setdefault(name.arg, []).extend(read(value, known))
    return found


def _speaks(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node))


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""


def modules() -> dict[str, ast.Module]:
    """The library, without the command and the rooms it does not enter."""
    names = {path.relative_to(SRC).as_posix(): path for path in sorted(SRC.rglob("*.py"))}
    return {n: ast.parse(path.read_text("utf-8")) for n, path in names.items() if not n.startswith(("cli/", *UNREACHED))}


def relays(every: dict[str, ast.Module]) -> set[str]:
    """Functions that hand texts they are given on to those that raise."""
    found = set(SAYERS)
    while True:
        before = len(found)
        for module in every.values():
            for function in (f for f in ast.walk(module) if isinstance(f, ast.FunctionDef)):
                own = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)} - {"who", "self", "path", "error"}
                for call in (c for c in ast.walk(function) if isinstance(c, ast.Call) and _name(c) in found):
                    if own & {name for a in (*call.args, *(k.value for k in call.keywords)) for name in _whole(a)}:
                        found.add(function.name)
        if len(found) == before:
            return found


def _whole(node: ast.AST) -> set[str]:
    """Names whose text is part of a sentence as it is."""
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.BinOp(left=left, right=right):
            return _whole(left) | _whole(right)
        case ast.JoinedStr(values=values):
            return {n for v in values for n in _whole(v)}
        case ast.FormattedValue(value=ast.Name(id=name), conversion=-1, format_spec=None):
            return {name}
    return set()


def errors() -> Iterator[Said]:
    """Every sentence of an error."""
    every = modules()
    constants = {place: {n: t for n, t in assigned(module, {}).items() if n.isupper()} for place, module in every.items()}
    for place, module in every.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom) and node.module:
                there = node.module.removeprefix("covary").removeprefix(".").replace(".", "/")
                found = constants.get(f"{there}.py") or constants.get(f"{there}/__init__.py", {})
                constants[place] |= {a.name: found[a.name] for a in node.names if a.name in found}
    known_relays = relays(every)
    for place, module in every.items():
        functions = [f for f in ast.walk(module) if isinstance(f, ast.FunctionDef)]
        for function in functions:
            inside = constants[place] | assigned(function, constants[place])
            for call in (c for c in ast.walk(function) if isinstance(c, ast.Call) and _name(c) in known_relays):
                where = f"{place}:{call.lineno}"
                if (place, function.name) not in UNSAID:
                    for text in _sentences(call, inside):
                        if not text.startswith(UNSET) and not re.match(r"[\w.]+: got ", text):  # an argument of another type
                            yield Said(text, where)


def _sentences(call: ast.Call, known: Texts) -> Iterator[str]:
    if _name(call) == "fail" and len(call.args) == 3:
        who, what, do = (read(a, known) for a in call.args)
        who = ["fit" if w == "Dense" else w for w in who]
        yield from _joined([who, [": "], what, ["; "], do, ["."]])
        return
    for given in (*call.args, *(k.value for k in call.keywords)):
        if _speaks(given):
            yield from (f"{text}." if " " in text else "" for text in read(given, known))


def advice() -> Iterator[Said]:
    """Every text of the modules whose words are shown in a summary."""
    for place, module in modules().items():
        if not place.startswith(ADVICE):
            continue
        quiet = {id(part) for call in ast.walk(module) if isinstance(call, ast.Raise) for part in ast.walk(call)}
        for node in ast.walk(module):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                quiet |= {id(part) for part in ast.walk(body[0])}  # docstrings
        for node in ast.walk(module):
            if isinstance(node, ast.JoinedStr):
                quiet |= {id(part) for part in ast.walk(node) if part is not node}
        for node in ast.walk(module):
            if id(node) not in quiet and isinstance(node, ast.JoinedStr | ast.Constant):
                for text in read(node, {}):
                    if " " in text.strip() and not re.search(r"[<\\]", text):  # neither HTML nor a pattern
                        yield Said(text, f"{place}:{node.lineno}")
