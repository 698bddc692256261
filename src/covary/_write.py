"""Atomic writing of files: a file is written under another name in the folder of the target, then renamed over it.

Symbolic links are followed: the file a link points to is replaced and the link remains. Devices, FIFOs and open descriptors
(``/dev/stdout``, ``/dev/fd/3``) are never replaced; they are written to if a stream is allowed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

from covary._checks import CovaryError, fail

LONGEST = 255  # bytes of a name on common file systems
IN_MEMORY = 2**26  # bytes for a stream that are buffered in memory until the output is complete
ELSEWHERE = "choose a writable location"


class NotWritten(CovaryError):
    """Raised if a file cannot be written at the requested location."""


class Place(NamedTuple):
    """Location to write to: the file that all links resolve to, or an existing stream."""

    target: Path
    old: os.stat_result | None = None  # of the file that will be replaced
    stream: bool = False
    descriptor: int | None = None  # an open descriptor of this process, such as /dev/stdout


class Unfit(NamedTuple):
    """Reason why a location cannot be written to, and what to do."""

    what: str
    do: str


def where(path: Any, *, stream: bool = True) -> Place | Unfit:
    """Resolve a name to a location without opening anything.

    Parameters
    ----------
    path
        The name: a string, bytes or a path.
    stream
        Whether to allow a FIFO or a character device, from which the output cannot be read back.
    """
    try:
        name = os.fsdecode(path)
    except TypeError:
        return Unfit(f"the name is of type {type(path).__name__}", "give the name of a file as a string or a path")
    shown = repr(name if len(name) <= LONGEST else f"{name[:60]}...{name[-60:]}")
    if not name or "\0" in name:
        return Unfit(f"the name {shown} {'contains a NUL character' if name else 'is empty'}", "give the name of a file")
    try:
        if name.endswith(os.sep) and os.path.isdir(name):
            return Unfit(f"{shown} is a folder", "give the name of a file")
        found, descriptor = _followed(name)
        old = _stat(found) if descriptor is None else os.fstat(descriptor)
        if descriptor is not None or (old is not None and _flows(old)):
            if stream:
                return Place(found, None, True, descriptor)
            return Unfit(f"{shown} is a device or a pipe, which cannot be read back", "give the name of a file")
        if old is not None and stat.S_ISDIR(old.st_mode):
            return Unfit(f"{shown} is a folder", "give the name of a file")
        if old is not None and not stat.S_ISREG(old.st_mode):
            return Unfit(f"{shown} is a socket or a block device, not a file", "give the name of a file")
        if old is not None and not os.access(found, os.W_OK):
            return Unfit(f"{shown} is read-only", "make it writable, or write to another location")
        folder = _stat(found.parent)
        if folder is None or not stat.S_ISDIR(folder.st_mode) or name.endswith(os.sep):
            given = name.rstrip(os.sep) if name.endswith(os.sep) else os.path.dirname(name) or os.curdir
            lacking = given if os.path.realpath(given) in (str(found), str(found.parent)) else str(found.parent)
            lacking = lacking if len(lacking) <= LONGEST else f"{lacking[:60]}..."
            return Unfit(f"the folder {lacking!r} does not exist", "create it, or write elsewhere")
        if not os.access(found.parent, os.W_OK | os.X_OK):
            return Unfit(f"{shown} cannot be written: its folder is read-only", ELSEWHERE)
    except OSError as error:
        return Unfit(f"{shown} cannot be written ({error.strerror or error})", ELSEWHERE)
    except OverflowError:  # /dev/fd/ with a number too large for a descriptor
        return Unfit(f"{shown} cannot be written (no such descriptor)", ELSEWHERE)
    except UnicodeEncodeError:
        return Unfit(f"the name {shown} contains a character not allowed in file names", "give the name of a file")
    return Place(found, old)


@contextmanager
def whole_file(path: Any, who: str = "write", *, stream: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file for writing that replaces ``path`` only when the block ends without an error.

    A reader sees the old file or the new one, never a part, even after a crash. While it is written, the new file never has
    wider permissions than in the end. Files left behind by a killed writer on this machine are removed by the next writer.
    With ``stream``, FIFOs and devices are written to once the output is complete.
    """
    place = where(path, stream=stream)
    if isinstance(place, Unfit):
        raise fail(who, *place, NotWritten, argument="path")
    try:
        with _streamed(place) if place.stream else _renamed(place, who) as handle:
            yield handle
    except CovaryError:
        raise
    except OSError as error:
        what = f"{os.fsdecode(path)!r} was not written ({error.strerror or error})"
        raise fail(who, what, "free some space, or write to another location", NotWritten, argument="path") from None


def make_folder(path: Any, who: str, *, parents: bool = True, argument: str | None = None) -> Path:
    """Return a folder, after creating it (with its parents) if it does not exist."""
    try:
        folder = Path(os.fsdecode(path))
        folder.mkdir(parents=parents, exist_ok=True)
        return folder
    except FileExistsError:
        raise fail(who, f"{str(path)!r} is a file", "give the name of a folder", argument=argument) from None
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        what = f"the folder {str(path)!r} cannot be created ({reason})"
        raise fail(who, what, "choose another location", argument=argument) from None


# a file ------------------------------------------------------------------------------------------------------------
@contextmanager
def _renamed(place: Place, who: str) -> Iterator[IO[bytes]]:
    target = place.target
    clear_parts(target.parent, _prefix(target))
    part = target.with_name(f"{_prefix(target)}{_host()}.{os.getpid()}-{_start(os.getpid()) or 0}.{os.urandom(4).hex()}.part")
    try:
        handle = _made(part, place.old)
    except OSError as error:
        raise fail(who, f"{str(target)!r} cannot be written ({error.strerror})", ELSEWHERE, NotWritten) from None
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _sync_folder(target.parent)


def _made(part: Path, old: os.stat_result | None) -> IO[bytes]:
    """Create a file with the owner and the permissions of the one it will replace, or the default ones."""
    if old is None:
        return open(part, "xb")
    handle = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, old.st_mode & 0o700), "wb")
    with suppress(OSError, AttributeError):
        os.fchown(handle.fileno(), old.st_uid, old.st_gid)
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if os.fstat(handle.fileno()).st_gid != old.st_gid:  # another group: it gets the permissions of others
        mode = (mode & 0o707) | ((mode & 0o007) << 3)
    with suppress(OSError):
        os.chmod(part, mode)
    return handle


# a stream ----------------------------------------------------------------------------------------------------------
@contextmanager
def _streamed(place: Place) -> Iterator[IO[bytes]]:
    """Buffer the output until it is complete, then write it to the stream."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as held:
        yield held
        held.seek(0)
        for known in (sys.stdout, sys.stderr):  # earlier output comes first
            with suppress(AttributeError, ValueError, OSError):
                known.flush()
        source = place.target if place.descriptor is None else os.dup(place.descriptor)
        with open(source, "wb", buffering=0) as out:
            shutil.copyfileobj(held, _Patient(out))


class _Patient:
    """Raw file whose ``write`` repeats until every byte is written."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while len(rest):
            rest = rest[self.raw.write(rest) or 0 :]
        return len(data)


# names -------------------------------------------------------------------------------------------------------------
def _followed(name: str) -> tuple[Path, int | None]:
    """Resolve all links, and return the path and, if it is an open descriptor of this process, its number."""
    while True:
        place = os.path.join(os.path.realpath(os.path.dirname(name) or "."), os.path.basename(name.rstrip(os.sep)))
        found = re.fullmatch(rf"(?:/proc/{os.getpid()}(?:/task/\d+)?|/dev)/fd/(\d+)", place)
        if found:
            return Path(place), int(found[1])
        behind = _stat(Path(place))  # raises if the links make a circle
        if behind is not None and _flows(behind):
            return Path(place), None
        try:
            name = os.path.join(os.path.dirname(place), os.readlink(place))
        except OSError:  # not a link
            return Path(place), None


def _flows(about: os.stat_result) -> bool:
    """Return whether it is a FIFO or a character device."""
    return stat.S_ISFIFO(about.st_mode) or stat.S_ISCHR(about.st_mode)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _prefix(target: Path) -> str:
    """Return the prefix of the names of a file's parts; a long name is replaced with its hash."""
    name = os.fsencode(target.name)
    if len(name) > LONGEST - 80:
        return f".{hashlib.sha256(name).hexdigest()[:32]}."
    return f".{target.name}."


# writers -----------------------------------------------------------------------------------------------------------
def clear_parts(folder: Path, prefix: str = "") -> None:
    """Remove parts of files left behind by writers on this machine that have ended. Those of other machines are kept."""
    pattern = re.compile(re.escape(prefix) + r".*" + re.escape(f"{_host()}.") + r"(\d+)-(\d+)\.[0-9a-f]{8}\.part")
    with suppress(OSError):
        for name in os.listdir(folder):
            found = pattern.fullmatch(name)
            if found and not alive(int(found[1]), int(found[2])):
                with suppress(OSError):
                    (folder / name).unlink()


@cache
def _host() -> str:
    """Return an identifier of this machine or container, to distinguish its files from others' on a shared disk."""
    about = [socket.gethostname()]
    with suppress(OSError):
        about.append(os.readlink("/proc/self/ns/pid"))
    with suppress(OSError):
        about.append(Path("/etc/machine-id").read_text().strip())
    return hashlib.sha256("\n".join(about).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def alive(pid: int, start: int = 0) -> bool:
    """Return whether a process with this ID exists, and is the one started at ``start`` if that is given."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # a process of another user
        pass
    now = _start(pid)
    return now is None or start == 0 or now == start


def _start(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot, or None if the system does not report it."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _sync_folder(folder: Path) -> None:
    """Make the renaming survive a power failure, if the system supports it."""
    with suppress(OSError):
        handle: Any = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
