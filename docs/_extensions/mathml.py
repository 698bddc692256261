"""Convert formulas to MathML when the site is built, so that pages need no script, web font or network."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
FUNCTIONS = {"arccos", "arcsin", "arctan", "arg", "cos", "cosh", "exp", "ln", "log", "sin", "sinh", "tan", "tanh"}
ElementTree.register_namespace("", NAMESPACE)


def mathml(formula: str, display: str) -> str:
    """Convert a formula, with thin spaces around function names as LaTeX has them: log p, not logp."""
    root = ElementTree.fromstring(convert(formula, display=display))
    for row in [element for element in root.iter() if element.tag.endswith(("}math", "}mrow", "}mtd", "}mstyle"))]:
        parts = list(row)
        for before, after in reversed(list(pairwise(parts))):
            bar = after.text == "|" and function(before)
            letters = not before.tag.endswith("}mo") and not after.tag.endswith("}mo")
            if bar or (letters and (function(before) or function(after))):
                row.insert(list(row).index(after), ElementTree.Element(f"{{{NAMESPACE}}}mspace", width="0.17em"))
    return ElementTree.tostring(root, encoding="unicode")


def function(element: ElementTree.Element) -> bool:
    """Whether an element is the name of a function, perhaps with an index or exponent."""
    inner = element[0] if element.tag.endswith(("}msub", "}msup")) else element
    return inner.tag.endswith("}mi") and inner.text in FUNCTIONS


def inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    text = node.astext()
    if "\n\n" in text.strip():  # several formulas, one after the other
        parts = [part for part in text.split("\n\n") if part.strip()]
    else:
        parts = [text]
    self.body.append('<div class="formula">')
    self.body += [mathml(part.strip(), "block") for part in parts]
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
