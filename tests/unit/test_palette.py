"""The colours of classes are distinguishable on light and dark pages, also by colour-blind readers."""

from __future__ import annotations

import re
from importlib import resources
from itertools import combinations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from covary import GPClassifier, plots
from covary.plots.style import COLOURS, ON_DARK, look
from covary.report.page import _dark

mpl.use("Agg")

# Machado, Oliveira & Fernandes (2009): linear RGB as it is seen where one kind of cone is missing
SEEN = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
# Two patches side by side are told apart from about 2.3 on (Mahy et al. 1994); a thin line and its name in a legend stand
# apart, so nine times that are asked for. Okabe and Ito's six, which are widely used, reach 17.9. One reader in 30,000 sees no
# blue: for them three quarters.
LEAST = {"all cones": 25.0, "no red": 20.0, "no green": 20.0, "no blue": 15.0}


def linear(colour: str) -> np.ndarray:
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(colour: str, eyes: str) -> np.ndarray:
    """CIE-Lab (1976) of a colour under daylight, as it is seen."""
    t = TO_XYZ @ np.clip(np.asarray(SEEN[eyes]) @ linear(colour), 0, 1) / TO_XYZ.sum(1)
    x, y, z = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(a: str, b: str, eyes: str = "all cones") -> float:
    return float(np.linalg.norm(lab(a, eyes) - lab(b, eyes)))


def contrast(a: str, b: str) -> float:
    """As the Web Content Accessibility Guidelines define it."""
    low, high = sorted(float(TO_XYZ[1] @ linear(c)) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


def pages() -> tuple[str, str]:
    """The backgrounds of a report, light and dark."""
    style = resources.files("covary.report").joinpath("style.css").read_text("utf-8")
    light, dark = re.findall(r"--page: (#\w{6})", style)[:2]
    return light, dark


def test_the_measure_is_that_of_the_textbooks() -> None:
    np.testing.assert_allclose(lab("#FFFFFF", "all cones"), [100, 0, 0], atol=0.01)
    np.testing.assert_allclose(lab("#FF0000", "all cones"), [53.24, 80.09, 67.20], atol=0.02)
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert distance("#4AA8E0", "#56B4E9") < 5 < 60 < distance("#00AA00", "#DD0000")
    assert distance("#708000", "#B06000", "no green") < 0.7 * distance("#708000", "#B06000")


@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_any_two_of_eight_colours_and_the_page_are_apart(eyes: str, page: str) -> None:
    light, dark = pages()
    colours = [*COLOURS, light] if page == "light" else [*ON_DARK.values(), dark]
    assert len(set(colours)) == 9
    near = min((distance(a, b, eyes), a, b) for a, b in combinations(colours, 2))
    assert near[0] >= LEAST[eyes], near


@pytest.mark.parametrize("eyes", ["all cones", "no red", "no green"])
def test_pictures_for_a_light_page_are_seen_on_a_dark_one_too(eyes: str) -> None:
    """``plots.theme`` has one set of colours."""
    assert min(distance(c, pages()[1], eyes) for c in COLOURS) >= LEAST[eyes]


def test_contrast_with_the_page() -> None:
    light, dark = pages()
    assert min(contrast(c, dark) for c in ON_DARK.values()) >= 4
    least = sorted(contrast(c, light) for c in COLOURS)
    assert least[0] >= 2
    assert least[2] >= 3  # all but gold and sky, which are lines of dashes with marks
    assert min(contrast(a, b) for a in COLOURS[:4] for b in (light, dark)) >= 3


def test_the_page_changes_every_colour_where_it_is_dark() -> None:
    rules = _dark()
    for light, dark in ON_DARK.items():
        for what in ("fill", "stroke"):
            assert f'[style*="{what}: {light.lower()}"] {{ {what}: {dark.lower()} !important' in rules


def test_lines_have_a_second_cue() -> None:
    looks = [look(i, 30) for i in range(8)]
    assert len({(str(one["ls"]), one["marker"]) for one in looks}) == 8
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (70, 2))
    y = np.digitize(X[:, 0], [-1, -0.5, 0, 0.5, 1])
    model = GPClassifier("4 * Matern52()", fixed="*", multi_class="one_vs_rest").fit(X, y)
    for ax in (plots.plot_dependence(model, 0, points=8), plots.plot_reliability(y, model.predict_proba(X))):
        handles, labels = ax.get_legend_handles_labels()
        assert labels == list("012345")
        lines = [handle[0] if isinstance(handle, tuple) else handle for handle in handles]
        assert [line.get_color() for line in lines] == list(COLOURS[:6])
        assert len({(str(line._unscaled_dash_pattern), line.get_marker()) for line in lines}) == 6
    plt.close("all")
