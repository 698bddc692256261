"""The documentation builds without warnings and offline, its links work, and its examples run."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "covary"
WRITTEN = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def runner(script: str = "run_examples.py") -> ModuleType:
    """Import a script of the documentation, by default the one that runs the examples."""
    spec = importlib.util.spec_from_file_location(Path(script).stem, DOCS / script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run Sphinx on a folder, with the configuration of the documentation."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", str(DOCS)]
    return subprocess.run([*command, str(source), str(out)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(DOCS, out)
    assert done.returncode == 0, done.stderr
    return out


# the sources ------------------------------------------------------------------------------------------------------


def test_links_between_files_work() -> None:
    dead = []
    for file in WRITTEN:
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", file.read_text("utf-8"), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
            if not re.match(r"https?:|mailto:", link) and not (file.parent / unquote(link)).exists():
                dead.append(f"{file.relative_to(ROOT)}: {link}")
    assert not dead, "\n".join(dead)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["kernel", "likelihood", "inference"])
def test_code_of_the_guides_passes_the_type_check(page: str, tmp_path: Path) -> None:
    """The modules that a reader of the guides adds to the package."""
    text = (DOCS / "contributing" / f"{page}.md").read_text("utf-8")
    code = re.findall(r"^`src/covary/\S+\.py`:\n\n```python\n(.*?)^```", text, flags=re.M | re.S)
    assert code
    (tmp_path / "added.py").write_text("\n".join(code), "utf-8")
    settings = {"extraPaths": [str(ROOT / "src")], "pythonVersion": "3.11", "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_name_is_in_the_reference() -> None:
    """Names imported from other modules, such as ``positive``, are excluded."""
    reference = "".join(p.read_text() for p in DOCS.glob("reference/*.md"))
    listed = set(re.findall(r"^\.\. auto\w+:: (covary[\w.]*)", reference, re.M))
    whole = set(re.findall(r"^\.\. automodule:: (covary[\w.]*)", reference, re.M))
    missing = []
    for name in (ROOT / "tests" / "contracts" / "public_names.txt").read_text().split("\n\n")[0].split():
        module, _, last = name.rpartition(".")
        value = getattr(importlib.import_module(module), last)
        if str(getattr(value, "__module__", "")).startswith("covary") and name not in listed and module not in whole:
            missing.append(name)
    assert not missing


def formulas() -> list[tuple[str, str]]:
    """Return every formula in the pages and docstrings, with its file."""
    found = []
    for file in WRITTEN:
        text = file.read_text("utf-8")
        pattern = r"^```math\n(.*?)^```|\$\$(.*?)\$\$|(?<![\\$`])\$(?![\s`$])([^$\n]+)\$"
        found += [(file.name, "".join(m)) for m in re.findall(pattern, re.sub(r"`[^`\n]*`", "", text), re.M | re.S)]
    for file in SOURCE.rglob("*.py"):
        found += [(file.name, formula) for formula in re.findall(r":math:`(.*?)`", file.read_text("utf-8"), re.S)]
    return found


def test_every_formula_can_be_converted() -> None:
    """The converter copies unknown LaTeX commands to its output."""
    mathml = runner("_extensions/mathml.py").mathml
    found = formulas()
    assert len(found) > 200
    assert [(file, formula) for file, formula in found if "\\" in mathml(formula, "inline")] == []


def test_names_of_functions_stand_apart() -> None:
    mathml = runner("_extensions/mathml.py").mathml
    for formula, spaces in (
        (r"\log p(y)", 1),
        (r"n \log^2 2", 2),
        (r"\log|K|", 1),
        (r"a = \exp(-x)", 0),
        (r"\frac{\log a}{b}", 1),
    ):
        assert mathml(formula, "inline").count("<mspace") == spaces, formula


# the site ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_dead_link_anchor_or_picture_is_a_warning(tmp_path: Path) -> None:
    page = "# A\n\n[x](b.md) [x](#nowhere) ![x](no.png) {py:obj}`covary.nothing`\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "index.md").write_text(page)
    done = build(tmp_path / "in", tmp_path / "out")
    assert done.returncode != 0
    assert [word for word in ("b.md", "nowhere", "no.png", "covary.nothing") if word not in done.stderr] == []


@pytest.mark.slow
def test_every_page_of_the_documentation_is_on_the_site(site: Path) -> None:
    """Sphinx warns about a page that is in no table of contents."""
    pages = {p.relative_to(site).as_posix() for p in site.rglob("*.html")}
    assert {file.relative_to(DOCS).with_suffix(".html").as_posix() for file in DOCS.rglob("*.md")} <= pages


@pytest.mark.slow
def test_nothing_is_loaded_from_other_sites(site: Path) -> None:
    for file in site.rglob("*"):
        if file.suffix in (".html", ".css", ".js"):
            text = file.read_text("utf-8")
            assert not re.search(r'(?:<script[^>]*src|<img[^>]*src|@import|url\()\s*=?\s*["\']?(?:https?:)?//', text), file
            assert not re.search(r'<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//', text), file


@pytest.mark.slow
def test_formulas_of_docstrings_become_mathml(site: Path) -> None:
    page = (site / "reference" / "kernels.html").read_text("utf-8")
    assert page.count("<math") > 50
    for file in site.rglob("*.html"):
        text = re.sub(r"<pre>.*?</pre>", "", file.read_text("utf-8"), flags=re.S)
        assert not re.search(r"\\(frac|tilde|sum|hat|log|left|begin)\b", text), file
        assert ":math:" not in text, file


@pytest.mark.slow
def test_the_search_index_finds_pages_headings_and_names(site: Path) -> None:
    text = (site / "searchindex.js").read_text("utf-8")
    for word in ("GPRegressor", "predict_interval", "Start in five minutes"):
        assert word in text, word


@pytest.mark.slow
def test_the_table_of_equations_is_complete(site: Path) -> None:
    with (DOCS / "coverage.csv").open(encoding="utf-8", newline="") as file:
        rows = len(list(csv.DictReader(file)))
    assert (site / "reference" / "equations.html").read_text("utf-8").count("<tr>") == rows + 1


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1400])
def test_no_page_is_wider_than_the_window(site: Path, width: int) -> None:
    """In a real browser, if one is installed; wide elements scroll separately."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("chromium is not installed")
    send = 'addEventListener("load", () => parent.postMessage([PAGE, document.body.scrollWidth, innerWidth], "*"))'
    probe = f"<script>{send}</script></body>"
    pages = ["index.html", "how_to.html", "reference/equations.html", "matrix.html", "learn/kernels.html", "theory/sparse.html"]
    pages += ["reference/estimators.html", "reference/metrics.html", "benchmarks/classes.html", "gallery/kernels.html"]
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


# examples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page.relative_to(DOCS).as_posix() for page in runner().pages()])
def test_the_examples_of_a_page_run_and_print_the_documented_output(page: str) -> None:
    """``python docs/run_examples.py --write`` updates outputs and pictures."""
    faults = list(runner().run(DOCS / page))
    assert not faults, "\n".join(faults)


def test_documented_outputs_are_compared_with_printed_ones(tmp_path: Path) -> None:
    """Words must match exactly, numbers to two per cent; an ellipsis matches anything; errors are reported with a line."""
    examples = runner()
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
