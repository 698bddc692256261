"""The page of kernels is the one the code writes, with a picture for every kernel of the catalogue."""

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

    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_code_writes() -> None:
    """``python docs/gallery/make_kernels.py`` writes it anew."""
    assert (GALLERY / "kernels.md").read_text() == _script("make_kernels").page()


def test_every_kernel_of_the_catalogue_has_its_picture() -> None:
    names = {entry.name for family in _script("make_kernels").families() for entry in family.entries}
    assert names == set(CATALOGUE)
    assert not [name for name in names if not (GALLERY / f"{name}.png").exists()]
