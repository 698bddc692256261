"""The folder next to a model file that contains the rows of its experts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from covary._write import make_folder


@contextmanager
def folder_for(model: str, folder: str) -> Iterator[None]:
    """Create a folder for the rows of a model file, sorted by expert, and remove it again if the fit fails.

    Once the model is written it needs the folder, even if an error or Ctrl-C follows.
    """
    before, place = _file(model), Path(folder)
    new = not place.exists()
    make_folder(place, "fit", parents=False, argument="folder")
    try:
        yield
    except BaseException:
        if new and _file(model) == before:
            shutil.rmtree(place, ignore_errors=True)
        raise
    with suppress(OSError):
        place.rmdir()  # the partition "arrival" sorts nothing and leaves the folder empty


def _file(model: str) -> tuple[int, int] | None:
    """Return an identifier of a model file that changes when the file is replaced; None if there is no file."""
    try:
        about = Path(model).stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def clear(folder: str, used: Iterable[str]) -> None:
    """Remove the sorted rows of earlier fits from a folder: all files but those in use."""
    names = {Path(file).name for file in used}
    for file in Path(folder).glob("rows-*.spool"):
        if file.name not in names:
            with suppress(OSError):
                file.unlink()
