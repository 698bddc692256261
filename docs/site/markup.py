"""Markdown to HTML: anchors, links of the site, formulas, code in colour, boxes round what is wide."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from functools import cache
from html import escape, unescape
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any
from urllib.parse import unquote

import reference
from formulas import mathml
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

ROOT = Path(__file__).resolve().parents[2]
LEXERS = {"python": "python", "pycon": "pycon", "bash": "console", "sh": "console", "toml": "toml", "json": "json"}
NAMES = {
    "site/home.md": "Home",
    "README.md": "All pages",
    "about/README.md": "README",
    "benchmarks/README.md": "Overview",
    "coming_from.md": "Coming from …",
}


@dataclass
class Page:
    """A page: where it comes from, its Markdown, where it goes."""

    source: str  # below docs
    text: str
    section: str = ""
    title: str = ""
    html: str = ""
    headings: list[tuple[int, str, str]] = field(default_factory=list)
    search: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return address(self.source)

    @property
    def name(self) -> str:
        return NAMES.get(self.source, self.title.removeprefix("covary."))


def address(source: str) -> str:
    """Where the page of a Markdown file goes."""
    if source == "site/home.md":
        return "index.html"
    if source.endswith("/README.md") and not source.startswith("about/"):
        return source.removesuffix("README.md") + "index.html"
    return source.removesuffix(".md") + ".html"


def slug(text: str, seen: set[str]) -> str:
    """The anchor of a heading, as GitHub makes it."""
    base = re.sub(r"[^\w\- ]", "", text.lower().strip()).replace(" ", "-") or "section"
    name, n = base, 0
    while name in seen:
        n += 1
        name = f"{base}-{n}"
    seen.add(name)
    return name


def code(text: str, language: str) -> str:
    lexer = get_lexer_by_name(LEXERS.get(language, "text"))
    return highlight(text, lexer, HtmlFormatter(nowrap=True)).rstrip("\n")


def fence(_self: Any, tokens: Any, at: int, _options: Any, env: Any) -> str:
    """A block of code: formulas, signatures, outputs, two libraries side by side."""
    token = tokens[at]
    language, *rest = token.info.split() or [""]
    if language == "math":
        return mathml(token.content, block=True)
    if rest and rest[0] == "signature":
        anchor = f' id="{rest[-1]}"' if len(rest) > 1 and "." in rest[-1] else ""
        if anchor:
            env["page"].search.append((".".join(rest[-1].split(".")[-2:]), rest[-1], ""))
        return f'<pre class="signature"{anchor}><code>{code(token.content, language)}</code></pre>'
    kind = "output" if language == "output" else f"code {language}"
    inner = code(token.content, language) if language in LEXERS else escape(token.content.rstrip("\n"))
    block = f'<pre class="{kind}" tabindex="0"><code>{inner}</code></pre>'
    follows = tokens[at + 1] if at + 1 < len(tokens) else None
    if "peer" in rest and follows is not None and follows.type == "fence":
        peer = escape(" ".join(rest[1:]))
        return f'<div class="beside"><div><p class="who">{peer}</p>{block}</div><div><p class="who">covary</p>'
    before = tokens[at - 1] if at else None
    if before is not None and before.type == "fence" and "peer" in before.info.split():
        return block + "</div></div>"
    return block


def code_inline(_self: Any, tokens: Any, at: int, _options: Any, env: Any) -> str:
    """Code in a line; a public name links to the reference."""
    text = tokens[at].content
    before = tokens[at - 1] if at else None
    if before is not None and before.type == "text" and before.content.endswith("$"):
        return mathml(text)
    depth = sum(t.nesting for t in tokens[:at] if t.type in ("link_open", "link_close"))
    name = text.removesuffix("()")
    place = reference.where_is().get(name) if not depth and ("." in name or name[:1].isupper()) else None
    inner = f"<code>{escape(text)}</code>"
    page: Page = env["page"]
    if place and not (page.source.startswith("reference/") and page.path == place.split("#")[0]):
        return f'<a class="name" href="{relpath(place, dirname(page.path) or ".")}">{inner}</a>'
    return inner


@cache
def markdown() -> MarkdownIt:
    md = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    md.add_render_rule("fence", fence)
    md.add_render_rule("code_inline", code_inline)
    return md


def render(page: Page, pages: dict[str, Page]) -> None:
    """Markdown to HTML: anchors, links, boxes round tables."""
    md, env, seen = markdown(), {"page": page}, set()
    tokens = md.parse(page.text, env)
    current = ("", "")
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            inline = tokens[at + 1]
            level = int(token.tag[1])
            own = re.search(r"\s*\{#([^}]+)\}$", inline.content)
            if own:
                inline.content = inline.content[: own.start()]
                last = inline.children[-1]
                last.content = re.sub(r"\s*\{#[^}]+\}$", "", last.content)
            title = "".join(t.content for t in inline.children or [] if t.type in ("text", "code_inline"))
            anchor = own[1] if own else slug(title, seen)
            token.attrSet("id", anchor)
            page.title = page.title or title
            current = (title, "" if level == 1 else anchor)
            page.search.append((title, current[1], ""))
            if level in (2, 3):
                page.headings.append((level, title, anchor))
        elif token.type == "inline" and page.search and tokens[at - 1].type != "heading_open":
            title, anchor, text = page.search[-1]
            words = "".join(t.content if t.type in ("text", "code_inline") else " " for t in token.children or [])
            if len(text) < 400:
                page.search[-1] = (title, anchor, f"{text} {words}"[:500])
    html = md.renderer.render(tokens, md.options, env)
    html = re.sub(r"\$(<(math|code|span)[^>]*>.*?</\2>)\$", r"\1", html, flags=re.S)
    html = re.sub(r"<table", '<div class="wide" tabindex="0"><table', html).replace("</table>", "</table></div>")
    html = re.sub(
        r'<h([2-4]) id="([^"]+)">(.*?)</h\1>',
        r'<h\1 id="\2">\3<a class="anchor" href="#\2" aria-label="link">#</a></h\1>',
        html,
    )
    html = re.sub(r"<p>(<img [^>]*?>)</p>", r"<figure>\1</figure>", html)
    html = re.sub(r'(href|src)="([^"]*)"', lambda m: f'{m[1]}="{escape(target(page, unescape(m[2]), pages))}"', html)
    html = re.sub(r'<a href="repository:[^"]*">(.*?)</a>', r"\1", html, flags=re.S)  # files that are not on the site
    page.html = re.sub(r'<img src="([^"]+)"', lambda m: f'<img loading="lazy"{size(page, m[1])} src="{m[1]}"', html)


def size(page: Page, link: str) -> str:
    """Width and height of a picture, so that the page does not jump; broad ones scroll on a phone."""
    file = ROOT / "docs" / normpath(join(dirname(page.path), unquote(link)))
    if file.suffix != ".png" or not file.is_file():
        return ""
    wide, high = struct.unpack(">II", file.read_bytes()[16:24])
    return f' width="{wide}" height="{high}"' + (' class="broad"' if wide > 2 * high else "")


def target(page: Page, link: str, pages: dict[str, Page]) -> str:
    """A link of the Markdown as a link of the site."""
    if re.match(r"[a-z]+:|#|//", link) or link.endswith(".html") or ".html#" in link:
        return link
    path, _, anchor = unquote(link).partition("#")
    home = "" if page.source.startswith("about/") else dirname(page.source)
    base = "docs/../" if page.source.startswith("about/") else "docs/" + (home + "/" if home and home != "site" else "")
    inside = normpath(base + path)
    source = inside.removeprefix("docs/") if inside.startswith("docs/") else f"about/{inside}"
    source = {"coverage.csv": "coverage.md", "decisions": "decisions/README.md", "benchmarks": "benchmarks/README.md"}.get(
        source, source
    )
    hash_ = f"#{anchor}" if anchor else ""
    if source in pages:
        return relpath(pages[source].path, dirname(page.path) or ".") + hash_
    if inside == "docs":
        return relpath("README.html", dirname(page.path) or ".")
    if (ROOT / inside).is_file() and inside.startswith("docs/") and (ROOT / inside).suffix in (".png", ".svg"):
        return relpath(inside.removeprefix("docs/"), dirname(page.path) or ".")
    return f"repository:{inside}" if (ROOT / inside).exists() else link
