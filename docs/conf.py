"""Configuration of the documentation: ``make docs`` builds ``site/`` with Sphinx, without network access."""

from __future__ import annotations

import csv
import inspect
import os
import sys
from html import escape
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_extensions"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import covary  # noqa: E402

project = "covary"
author = "the covary developers"
copyright = author
release = version = covary.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
]
exclude_patterns = ["_build", "**/make_*.py"]
nitpicky = True  # an unresolved reference is a warning, and `make docs` fails on warnings

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4

autodoc_default_options = {
    "members": True,
    "inherited-members": "Module, BaseEstimator, RegressorMixin, ClassifierMixin, Sequence, Mapping, Exception, object",
}
autodoc_typehints = "none"
add_module_names = True
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "furo"
html_title = "covary"
html_static_path = ["_static"]
html_css_files = ["covary.css"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
pygments_style = "friendly"


def equations(app: Sphinx) -> None:
    """Write the table of equations as a page, from ``coverage.csv``."""
    with (HERE / "coverage.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = ("book", "equation", "symbol", "test", "call")
    lines = [
        "# Table of equations",
        "",
        f"{len(rows)} equations, algorithms and experiments of the books, with the code that implements each, the test that",
        "checks it, and a call that uses it. Generated from `docs/coverage.csv`, which is tested. Codes such as R 82, T40 and",
        "item 68 number the entries of the project's specification. W&B is Williams & Barber (1998); the other abbreviations",
        "are explained in the [notation](../notation.md).",
        "",
        '<div class="equations"><table class="docutils">',
        "<thead><tr>" + "".join(f"<th>{column}</th>" for column in columns) + "</tr></thead>",
        "<tbody>",
    ]
    for row in rows:
        cells = [escape(row[column]) for column in columns]
        cells[2:] = [f"<code>{cell}</code>" for cell in cells[2:]]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    text = "\n".join([*lines, "</tbody></table></div>", ""])
    page = HERE / "reference" / "equations.md"
    if not page.exists() or page.read_text("utf-8") != text:
        page.write_text(text, "utf-8")


BASES = {
    f"Abstract{name}" for name in ("Kernel", "Stationary", "Mean", "Likelihood", "Inference", "Gram", "Rule", "Distribution")
}


def skipped(app: Sphinx, what: str, name: str, thing: object, skip: bool, options: object) -> bool | None:
    """Omit methods that are documented in their abstract base class, and scikit-learn's metadata requests."""
    if what == "module":
        return None
    if name.endswith("_request") or name == "get_metadata_routing":
        return True
    inner = getattr(thing, "__func__", getattr(thing, "fget", getattr(thing, "func", thing)))
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    home = getattr(module, getattr(inner, "__qualname__", "").split(".")[0], None)
    if not inspect.isclass(home):
        return None
    if home.__name__ in BASES and not str(app.env.temp_data.get("autodoc:class", "")).endswith(home.__name__):
        return True
    return True if any(base.__name__ in BASES and hasattr(base, name) for base in home.__mro__[1:]) else None


def setup(app: Sphinx) -> None:
    app.add_lexer("output", TextLexer)
    app.connect("autodoc-skip-member", skipped)
    app.connect("builder-inited", equations)
