"""The documentation: it builds as a site that needs nothing from elsewhere, its links lead somewhere, its examples run."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS, SITE = ROOT / "docs", ROOT / "docs" / "site"
RUN = [
    *sorted(p.relative_to(DOCS).as_posix() for p in (DOCS / "learn").glob("*.md")),
    "how_to.md",
    "coming_from.md",
    "distributed.md",
]
THEORY = [p.relative_to(DOCS).as_posix() for p in sorted((DOCS / "theory").glob("*.md")) if "```python" in p.read_text("utf-8")]


def script(name: str) -> ModuleType:
    if str(SITE) not in sys.path:
        sys.path.insert(0, str(SITE))
    return importlib.import_module(name)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    begun = time.process_time()
    wrong = script("build").build(out)
    assert not wrong, "\n".join(wrong)
    assert time.process_time() - begun < 20
    return out


def test_every_page_of_the_documentation_is_on_the_site(site: Path) -> None:
    pages = {p.relative_to(site).as_posix() for p in site.rglob("*.html")}
    assert "index.html" in pages
    for file in DOCS.rglob("*.md"):
        source = file.relative_to(DOCS).as_posix()
        if source != "site/home.md":
            inner = source.removesuffix("README.md") + "index" if source.endswith("/README.md") else source.removesuffix(".md")
            assert f"{inner}.html" in pages
    front = (site / "index.html").read_text("utf-8")
    for page in pages - {"index.html"}:
        assert f'href="{page}"' in front, f"{page} is not in the navigation"


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for file in site.rglob("*"):
        if file.suffix in (".html", ".css", ".js"):
            text = file.read_text("utf-8")
            assert not re.search(r'(?:src|@import|url\()\s*=?\s*["\']?(?:https?:)?//', text), file
            assert not re.search(r'<link[^>]*href="(?:https?:)?//', text), file


def test_a_dead_link_anchor_or_picture_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html">x</a><a href="a.html#nowhere">x</a><img src="no.png"><a href="#top">x</a>'
        '<script src="https://example.org/x.js"></script><a href="https://example.org">fine</a>'
    )
    found = list(script("links").faults(tmp_path))
    assert len(found) == 4
    assert [word for word in ("b.html", "nowhere", "no.png", "x.js") if not any(word in f for f in found)] == []


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    names = (ROOT / "tests" / "contracts" / "public_names.txt").read_text().split()
    for name in names:
        module = name.rpartition(".")[0]
        page = (site / "reference" / f"{module}.html").read_text("utf-8")
        value = getattr(importlib.import_module(module), name.rpartition(".")[2])
        if str(getattr(value, "__module__", "")).startswith("covary"):
            assert f'id="{name}"' in page, name


def test_formulas_of_docstrings_become_mathml(site: Path) -> None:
    page = (site / "reference" / "covary.kernels.html").read_text("utf-8")
    assert page.count("<math") > 50
    assert "\\frac" not in page
    assert ".. math::" not in page
    assert ":math:" not in page
    for file in site.rglob("*.html"):
        assert not re.search(r"<dt><code>[^<]{70}", file.read_text("utf-8")), file
        assert not re.search(r"<(pre|code)>[^<]*\\(frac|tilde|sum|hat|log|left|begin)", file.read_text("utf-8")), file


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\tfrac12 x^\top A^{-1} x", ["<mfrac><mn>1</mn><mn>2</mn></mfrac>", "<msup>", "⊤"]),
        (r"\sum_{i=1}^n \lambda_i", ["<munderover>", "∑", "<msub><mi>λ</mi>"]),
        (r"k(x, x') = e^{-r^2/2}", ["<mo>′</mo>", "<mi>e</mi>"]),
        (r"\begin{cases} a & b \\ c & d \end{cases}", ["<mtable", "<mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr>"]),
    ],
)
def test_latex_to_mathml(latex: str, text: list[str]) -> None:
    from xml.etree import ElementTree

    found = script("formulas").mathml(latex)
    ElementTree.fromstring(found)  # well formed
    assert [part for part in text if part not in found] == []


def test_a_command_that_is_not_known_is_shown_as_it_is() -> None:
    assert script("formulas").mathml(r"\unheard{x}") == r"<code>\unheard{x}</code>"


def test_the_search_index_finds_pages_headings_and_names(site: Path) -> None:
    text = (site / "search.js").read_text("utf-8")
    entries = json.loads(text.removeprefix("INDEX="))
    assert len(text) < 2_000_000
    titles = {e[0] for e in entries}
    assert {"GPRegressor", "GPRegressor.predict", "Start in five minutes", "save and load?"} <= titles
    files = {p.relative_to(site).as_posix() for p in site.rglob("*.html")}
    assert {e[2].partition("#")[0] for e in entries} <= files


@pytest.mark.parametrize("width", [400, 1400])
def test_no_page_is_wider_than_the_window(site: Path, width: int) -> None:
    """In a real browser, where there is one: what is wide scrolls in a box of its own."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium here")
    send = 'addEventListener("load", () => parent.postMessage([PAGE, document.body.scrollWidth, innerWidth], "*"))'
    probe = f"<script>{send}</script></body>"
    pages = ["index.html", "how_to.html", "coverage.html", "matrix.html", "learn/kernels.html", "theory/sparse.html"]
    pages += ["reference/covary.html", "reference/covary.metrics.html", "benchmarks/classes.html", "gallery/kernels.html"]
    frames = ""
    for page in pages:
        file, copy = site / page, (site / page).with_name(f"probe_{Path(page).name}")
        copy.write_text(file.read_text("utf-8").replace("</body>", probe.replace("PAGE", json.dumps(page))), "utf-8")
        frames += f'<iframe src="{copy.relative_to(site).as_posix()}" width="{width}" height="600"></iframe>'
    listen = 'const seen = []; addEventListener("message", e => { seen.push(e.data); document.title = JSON.stringify(seen) })'
    wrapper = site / "probe.html"
    wrapper.write_text(f"<body><script>{listen}</script>{frames}</body>", "utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run([browser, *options, wrapper.as_uri()], capture_output=True, text=True, timeout=120)
    for copy in site.rglob("probe*.html"):
        copy.unlink()
    found = re.search(r"<title>(.*?)</title>", done.stdout)
    assert found is not None, done.stderr[-500:]
    seen = json.loads(found[1])
    assert {page for page, _, _ in seen} == set(pages)
    assert [row for row in seen if row[1] > row[2]] == []


def test_the_table_of_equations_is_whole(site: Path) -> None:
    import csv

    with (DOCS / "coverage.csv").open(encoding="utf-8", newline="") as file:
        rows = len(list(csv.DictReader(file)))
    page = (site / "coverage.html").read_text("utf-8")
    assert page.count("<tr>") == rows + 1


# examples --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", RUN + THEORY)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: str) -> None:
    """``python docs/site/examples.py --write`` puts outputs and pictures in their places."""
    wrong = list(script("examples").run(DOCS / page))
    assert not wrong, "\n".join(wrong)


def test_outputs_are_held_against_what_is_printed(tmp_path: Path) -> None:
    """Words exactly, numbers within two in a hundred, an ellipsis for anything; an error is told with its line."""
    examples = script("examples")
    page = tmp_path / "page.md"

    def faults(code: str, output: str | None) -> list[str]:
        page.write_text(f"# T\n\n```python\n{code}\n```\n" + (f"\n```output\n{output}\n```\n" if output is not None else ""))
        return list(examples.run(page))

    assert not faults("print('a', 1.000)", "a 1.01")
    assert faults("print('a', 1.0)", "a 1.1")
    assert faults("print('a', 1.0)", "b 1.0")
    assert faults("print('a')", None)
    assert faults("print('a')", "a\na")
    assert not faults("print('a lot of things')", "a ... things")
    assert "page.md:3: ZeroDivisionError" in faults("1 / 0", None)[0]
    page.write_text("```python peer other\n1 / 0\n```\n")
    assert not list(examples.run(page))
