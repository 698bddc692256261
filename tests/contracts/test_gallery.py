"""The gallery pages are up to date, with a picture for every entry."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from covary.kernels import CATALOGUE

GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery"


def _script(name: str):
    spec = importlib.util.spec_from_file_location(name, GALLERY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


def test_the_page_of_kernels_is_up_to_date() -> None:
    """``python docs/gallery/make_kernels.py`` updates it."""
    assert (GALLERY / "kernels.md").read_text() == _script("make_kernels").page()


def test_every_kernel_of_the_catalogue_has_a_picture() -> None:
    names = {entry.name for family in _script("make_kernels").families() for entry in family.entries}
    assert names == set(CATALOGUE)
    assert not [name for name in names if not (GALLERY / f"{name}.png").exists()]


def test_the_page_of_plots_is_up_to_date() -> None:
    """``python docs/gallery/make_plots.py`` updates it."""
    assert (GALLERY / "plots.md").read_text() == _script("make_plots").page()


def test_every_kind_of_plot_is_shown_in_a_small_file() -> None:
    from covary import plots

    script = _script("make_plots")
    text = script.page()
    assert not [name for name in vars(plots) if name.startswith("plot_") and name != "plot_series" and name not in text]
    files = {f"{entry.name}.png" for entry in script.entries()}
    assert {path.name for path in GALLERY.glob("plot_*.png")} == files
    assert not [name for name in files if (GALLERY / name).stat().st_size > 60_000]


def test_the_code_of_the_page_of_plots_runs() -> None:
    """Runs only plots that need at most one quick fit; the others are run when the page is written."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    script = _script("make_plots")
    space = script.namespace([script.MODELS["friedman"]])
    quick = [entry for entry in script.entries() if "surface" in entry.code or entry in script.PARTS[-1].entries]
    assert len(quick) >= 9
    for entry in quick:
        plt.close(script.draw(entry, space))
