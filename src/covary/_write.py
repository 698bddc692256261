"""Files are written whole or not at all: beside the target under another name, then renamed over it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from covary._checks import fail


@contextmanager
def whole_file(path: str | os.PathLike[str], who: str = "write") -> Iterator[IO[bytes]]:
    """A binary file to write to, which takes the place of ``path`` only when the block ends without an error.

    A reader, or whoever comes after a crash, sees the old file or the new one and never a part of one. What a killed
    writer left behind is removed by the next one.
    """
    target = Path(path)
    if target.is_dir():
        raise fail(who, f"{str(target)!r} is a folder", "give the name of a file")
    if not target.parent.is_dir():
        raise fail(who, f"the folder {str(target.parent)!r} does not exist", "create it, or write elsewhere")
    if target.is_symlink():  # what the link points to is replaced, not the link
        target = target.resolve()
    _clear(target)
    part = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        handle = open(part, "xb")  # noqa: SIM115
    except OSError as error:
        raise fail(who, f"{str(target)!r} cannot be written ({error.strerror})", "choose a place you may write to") from None
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        if target.exists():
            with suppress(OSError):
                os.chmod(part, target.stat().st_mode & 0o777)
        os.replace(part, target)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise fail(
                who, f"{str(target)!r} was not written ({error.strerror or error})", "free space or write elsewhere"
            ) from None
        raise
    _sync_folder(target.parent)


def _clear(target: Path) -> None:
    """Remove parts left behind by writers of this file that are no longer alive."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"(\d+)-[0-9a-f]{8}\.part")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            found = pattern.fullmatch(name)
            if found and not alive(int(found[1])):
                with suppress(OSError):
                    (target.parent / name).unlink()


def alive(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's process
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Make the renaming last through a power cut, where the system can."""
    with suppress(OSError):
        handle: Any = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
