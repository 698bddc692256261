"""Convert formulas to MathML when the site is built, so that pages need no script, web font or network."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    text = node.astext()
    if "\n\n" in text.strip():  # several formulas, one after the other
        parts = [part for part in text.split("\n\n") if part.strip()]
    else:
        parts = [text]
    self.body.append('<div class="formula">')
    self.body += [convert(part.strip(), display="block") for part in parts]
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
