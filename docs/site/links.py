"""Every link, anchor and picture of a built site, checked; nothing may be loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote


class Links(HTMLParser):
    """Anchors and links of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append((tag, value))


def faults(out: Path) -> Iterator[str]:
    """Dead links, anchors and pictures; anything that would be loaded from elsewhere."""
    found = {}
    for file in sorted(out.rglob("*.html")):
        found[file.relative_to(out).as_posix()] = parser = Links()
        parser.feed(file.read_text("utf-8"))
    for page, parser in found.items():
        for tag, link in parser.links:
            if re.match(r"https?:|mailto:", link):
                if tag != "a":
                    yield f"{page}: <{tag}> loads {link}"
                continue
            path, _, anchor = unquote(link).partition("#")
            other = normpath(join(dirname(page), path)) if path else page
            if not (out / other).is_file():
                yield f"{page}: {link} does not exist"
            elif anchor and other in found and anchor not in found[other].ids:
                yield f"{page}: {link} has no such anchor"
