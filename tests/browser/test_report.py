"""The report in a real browser: no console errors, no overflow, everything reachable by keyboard.

Chromium and its driver are Debian packages. If they are missing, they are installed when running as root; otherwise the tests
are skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from browser.driver import ENTER, TAB, Browser, browser, install
from covary import GPClassifier, GPRegressor
from covary.plots.style import COLOURS, ON_DARK

mpl.use("Agg")

WIDTHS = (400, 1400)
OVERFLOW = "return document.documentElement.scrollWidth - window.innerWidth"
FOCUS = "const a = document.activeElement; return [a.tagName, a.getAttribute('href'), a.innerText]"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    lacking = install()
    if lacking:
        pytest.skip(lacking)
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A regression with warnings and long names, and a classification."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    names = ["a_column_with_a_very_long_name_that_nobody_would_break_by_hand", "dose [mg]", "time since the first visit"]
    x = pd.DataFrame(rng.uniform(-2, 2, (90, 3)), columns=names)
    y = np.sin(2 * x.iloc[:, 0].to_numpy()) + 0.2 * rng.normal(size=90)
    y[7] += 5.0
    kernel = "1.0 * Matern52(lengthscale=[1.0, 1.0, 1.0]) + 1.0 * Linear()"
    made = {"regression": GPRegressor(kernel).fit(x, y).report(folder / "regression.html")}
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [-0.5, 0.5])]
    model: Any = GPClassifier("4.0 * Matern52()").fit(x.iloc[:, :2], labels)
    return made | {"classification": model.report(folder / "classification.html")}


def test_a_dark_page_has_colours_of_its_own(window: Browser, pages: dict[str, Path]) -> None:
    """Every line in a colour of the palette takes its counterpart; a map of classes stays on white."""
    for dark, wanted in ((False, COLOURS), (True, tuple(ON_DARK.values()))):
        window.look(pages["classification"], width=1400, dark=dark)
        for light, shown in zip(COLOURS[:3], wanted, strict=False):
            find = f"figure:not(.paper) svg path[style*='stroke: {light.lower()}']"
            script = f'return [...document.querySelectorAll("{find}")].map(e => getComputedStyle(e).stroke)'
            found = window.run(script)
            r, g, b = (round(255 * part) for part in to_rgb(shown))
            assert set(found) == {f"rgb({r}, {g}, {b})"}
        paper = window.run("return getComputedStyle(document.querySelector('figure.paper svg')).backgroundColor")
        assert paper == ("rgb(255, 255, 255)" if dark else "rgba(0, 0, 0, 0)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["regression", "classification"])
def test_a_page_is_shown_without_complaint(
    window: Browser, pages: dict[str, Path], name: str, width: int, dark: bool, tmp_path: Path
) -> None:
    window.look(pages[name], width=width, dark=dark)
    assert window.console() == []
    assert window.run(OVERFLOW) <= 0
    ink, paper = window.run(
        "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).map(Number))"
    )
    assert contrast(ink, paper) > 7
    assert (sum(paper) < sum(ink)) == dark
    window.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000


def contrast(a: list[int], b: list[int]) -> float:
    """The contrast of two colours by the rule of WCAG 2."""

    def light(colour: list[int]) -> float:
        parts = [c / 255 for c in colour[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def roles(window: Browser) -> dict[str, list[str]]:
    """The names of what screen readers see, by role."""
    found: dict[str, list[str]] = {}
    for node in window.devtools("Accessibility.getFullAXTree")["nodes"]:
        if not node.get("ignored"):
            found.setdefault(node["role"].get("value", ""), []).append(node.get("name", {}).get("value", ""))
    return found


@pytest.mark.parametrize("name", ["regression", "classification"])
def test_every_figure_has_a_text(window: Browser, pages: dict[str, Path], name: str) -> None:
    """By the browser's own view for screen readers: images with a name, one main part, headings without a gap."""
    window.look(pages[name], width=1400)
    drawn = window.run("return document.querySelectorAll('figure svg').length")
    by_role, images = {}, []
    for _ in range(40):  # the browser builds this view in its own time
        by_role = roles(window)
        images = [*by_role.get("image", []), *by_role.get("img", [])]
        if len(images) == drawn:
            break
        time.sleep(0.25)
    assert len(images) == drawn > 5
    assert all(len(text) > 20 for text in images)
    assert len(by_role["main"]) == len(by_role["navigation"]) == 1
    levels = window.run("return [...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_small_figures_are_readable_on_a_phone(window: Browser, pages: dict[str, Path]) -> None:
    """At 400 px no figure is wider than the window, and its text is no smaller than 7 px."""
    window.look(pages["regression"], width=400)
    sizes = window.run(
        "return [...document.querySelectorAll('figure')].filter(f => f.offsetParent).map(f => {"
        "const s = f.querySelector('svg'), t = s.querySelector('text');"
        "return [f.getBoundingClientRect().right, t ? t.getBoundingClientRect().height : 99]})"
    )
    assert len(sizes) > 5
    assert all(right <= 400 for right, _ in sizes)
    assert all(height >= 7 for _, height in sizes)


def test_the_keyboard_reaches_everything(window: Browser, pages: dict[str, Path]) -> None:
    """Tab: the skip link, then the navigation; Enter follows it; details open without a mouse."""
    window.look(pages["regression"], width=1400)
    window.press(TAB)
    tag, target, text = window.run(FOCUS)
    assert (tag, target) == ("A", "#content")
    assert "Skip" in text
    seen = []
    for _ in range(12):
        window.press(TAB)
        tag, target, _ = window.run(FOCUS)
        seen.append(target)
        if target == "#kernel":
            break
    assert seen[0] == "#trust"
    assert "#kernel" in seen
    window.press(ENTER)
    assert window.run("return location.hash") == "#kernel"
    for _ in range(30):
        window.press(TAB)
        if window.run("return document.activeElement.tagName") == "SUMMARY":
            break
    before = window.run("return document.querySelectorAll('details[open]').length")
    if window.run("return document.activeElement.tagName") != "SUMMARY":  # below the kernel there may be none: go back up
        window.run("document.querySelector('summary').focus()")
    window.press(ENTER)
    assert window.run("return document.querySelectorAll('details[open]').length") != before


def test_it_prints(window: Browser, pages: dict[str, Path]) -> None:
    """On paper: no navigation, dark ink on white even on a dark machine, a few pages."""
    window.look(pages["regression"], width=1400, dark=True)
    window.devtools("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    style = "return getComputedStyle(document.querySelector('nav')).display + getComputedStyle(document.body).backgroundColor"
    assert window.run(style) == "nonergb(255, 255, 255)"
    import base64

    paper = base64.b64decode(
        window.devtools("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)["data"]
    )
    assert paper.startswith(b"%PDF")
    assert 2 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") <= 14
