"""Builds the documentation as a site that opens from disk: ``python docs/site/build.py``. No network, no web font, no script
from elsewhere.

Pages are the Markdown files under ``docs``, the reference is written from docstrings, the table of equations from
``coverage.csv``. Every link, anchor and picture is checked; a dead one fails the build.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import sys
import time
from html import escape
from pathlib import Path
from posixpath import dirname, relpath

from jinja2 import Environment, FileSystemLoader

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import reference  # noqa: E402
from links import faults  # noqa: E402
from markup import Page, render  # noqa: E402

DOCS, ROOT = HERE.parent, HERE.parents[1]
# section of the navigation: pages in order; what a pattern finds beyond them follows by name
SECTIONS: dict[str, list[str]] = {
    "Start": ["site/home.md", "learn/start.md", "coming_from.md", "README.md"],
    "Learn": [
        "learn/first_fit.md",
        "learn/kernels.md",
        "learn/classification.md",
        "trust.md",
        "learn/large_data.md",
        "learn/*.md",
    ],
    "How to": [
        "how_to.md",
        "data.md",
        "command.md",
        "inside.md",
        "large_n.md",
        "distributed.md",
        "metrics.md",
        "datasets.md",
        "export.md",
    ],
    "Gallery": ["gallery/plots.md", "gallery/kernels.md", "gallery/book.md", "gallery/*.md"],
    "Theory": [
        "theory/evidence.md",
        "theory/laplace_and_ep.md",
        "theory/sparse.md",
        "theory/spectra.md",
        "theory/*.md",
        "notation.md",
    ],
    "Reference": ["reference/*.md", "matrix.md", "coverage.md", "*.md"],
    "Benchmarks": ["benchmarks/README.md", "benchmarks/*.md"],
    "Decisions": ["decisions/README.md", "decisions/*.md"],
    "Project": ["about/*.md"],
}


def sources() -> dict[str, Page]:
    """Every page of the site, by its source."""
    found = {}
    for file in sorted(DOCS.rglob("*.md")):
        source = file.relative_to(DOCS).as_posix()
        found[source] = Page(source, file.read_text("utf-8"))
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text("utf-8")
        found[f"about/{name}"] = Page(f"about/{name}", text)
    for source, text in [*reference.pages(), ("coverage.md", coverage())]:
        found[source] = Page(source, text)
    first = [re.search(r"^# (.*)", p.text, re.M) for s, p in found.items() if s.startswith("decisions/")]
    files = [s for s in found if s.startswith("decisions/")]
    items = "".join(f"- [{m[1]}]({s.split('/')[1]})\n" for s, m in zip(files, first, strict=True) if m)
    found["decisions/README.md"] = Page(
        "decisions/README.md", f"# Decisions\n\nWhy things are as they are, with what was measured.\n\n{items}"
    )
    return found


def navigation(pages: dict[str, Page]) -> dict[str, list[Page]]:
    """Sections with their pages; every page is in one."""
    left, sections = dict(pages), {}
    exact = {s for patterns in SECTIONS.values() for s in patterns}
    for section, patterns in SECTIONS.items():
        chosen: list[Page] = []
        for pattern in patterns:
            folder = dirname(pattern)
            hits = [s for s in left if s == pattern or ("*" in pattern and dirname(s) == folder and s not in exact)]
            if pattern == "reference/*.md":
                hits.sort(key=lambda s: list(reference.MODULES).index(s[10:-3]))
            chosen += [left.pop(s) for s in hits]
        for page in chosen:
            page.section = section
        sections[section] = chosen
    assert not left, f"no section for {sorted(left)}"
    return sections


def coverage() -> str:
    """The table of equations as a page."""
    with (DOCS / "coverage.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    place = reference.where_is()
    body = []
    for row in rows:
        symbol = row["symbol"].replace(":", ".")
        short = symbol.rsplit(".", 1)[-1]
        at = place.get(symbol) or place.get(f"{'.'.join(symbol.split('.')[:2])}.{short}")
        code = f"<code>{escape(row['symbol'].removeprefix('covary.'))}</code>"
        code = f'<a href="{at}">{code}</a>' if at else code
        test = f"<code>{escape(row['test'].split('::')[-1])}</code><br><small>{escape(row['test'].split('::')[0])}</small>"
        cells = [escape(row["book"]), escape(row["equation"]), code, test, f"<code>{escape(row['call'])}</code>"]
        body.append("<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    head = "".join(f"<th>{h}</th>" for h in ("book", "equation", "code", "test", "call at the front door"))
    return (
        f"# Which equation is where\n\n{len(rows)} equations, algorithms and experiments of the books, with the code "
        "that holds each, the test that restates it, and the call that uses it. From `docs/coverage.csv`, which is checked.\n\n"
        '<p><input class="filter" type="search" placeholder="Filter: 5.12, Laplace, Vecchia …" aria-label="Filter"></p>\n'
        f'<table class="filtered"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>\n'
    )


def build(out: Path) -> list[str]:
    """Write the site into ``out`` and return what is wrong with its links."""
    pages = sources()
    sections = navigation(pages)
    for page in pages.values():
        render(page, pages)
    order = [page for section in sections.values() for page in section]
    template = Environment(loader=FileSystemLoader(HERE), autoescape=False, trim_blocks=True, lstrip_blocks=True).get_template(
        "page.html"
    )
    index = []
    for at, page in enumerate(order):
        near = [order[i] if 0 <= i < len(order) else None for i in (at - 1, at + 1)]
        root = relpath(".", dirname(page.path) or ".")
        text = template.render(
            page=page,
            sections=sections,
            before=near[0],
            after=near[1],
            root=root,
            to=lambda other, page=page: relpath(other, dirname(page.path) or "."),
            home=page.path == "index.html",
        )
        file = out / page.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        index += [
            [t, page.title if a else page.section, f"{page.path}#{a}" if a else page.path, x.strip()] for t, a, x in page.search
        ]
    for name in ("style.css", "site.js"):
        shutil.copyfile(HERE / name, out / name)
    (out / "search.js").write_text("INDEX=" + json.dumps(index, ensure_ascii=False, separators=(",", ":")), "utf-8")
    for file in DOCS.rglob("*"):
        if file.suffix in (".png", ".svg"):
            copy = out / file.relative_to(DOCS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    return list(faults(out))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="folder to write (site)")
    out, begun = parser.parse_args().out, time.perf_counter()
    if out.exists() and (out / "search.js").exists():
        shutil.rmtree(out)
    wrong = build(out)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(list(out.rglob('*.html')))} pages in {out} ({time.perf_counter() - begun:.1f} s); open {out / 'index.html'}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
