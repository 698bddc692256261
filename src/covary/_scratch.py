"""Temporary folders that are removed when the process that created them ends, however it ends.

A small shell waits on a pipe and removes the folder when the pipe is closed. The system closes it when the process ends,
whether normally, by a signal or by ``kill -9``, so no signal handler is needed. If the shell was killed as well, the next
process that creates a folder with the same prefix removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path

from covary._checks import fail
from covary._write import alive

WAIT = 'trap "" HUP INT TERM; read -r _; rm -rf -- "$1"'


class Scratch:
    """Folder inside the system's temporary folder that only this user can read.

    Parameters
    ----------
    prefix
        The beginning of its name, which is followed by the process ID.

    Examples
    --------
    >>> scratch = Scratch("covary-example-")
    >>> scratch.path.is_dir()
    True
    >>> scratch.close()
    >>> scratch.path.exists()
    False
    """

    def __init__(self, prefix: str) -> None:
        _sweep(prefix)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-")).resolve()
        except OSError as error:
            what = f"cannot create a temporary folder ({error.strerror or error})"
            raise fail("fit", what, "set TMPDIR to a writable folder with enough space") from None
        lock = os.open(self.path, os.O_RDONLY)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_SH)
        end, self.lifeline = os.pipe()  # the folder remains as long as some process has the second end open
        shell = None
        with contextlib.suppress(OSError):
            command = ["/bin/sh", "-c", WAIT, "covary", str(self.path)]
            quiet = subprocess.DEVNULL
            shell = subprocess.Popen(command, stdin=end, stdout=quiet, stderr=quiet, cwd="/", start_new_session=True)
        os.close(end)
        self._close = weakref.finalize(self, _remove, self.path, (lock, self.lifeline), shell, os.getpid())

    def close(self) -> None:
        """Remove the folder now."""
        self._close()


def _remove(path: Path, held: tuple[int, ...], shell: subprocess.Popen[bytes] | None, owner: int) -> None:
    mine = os.getpid() == owner  # a forked copy of this process closes its handles and removes nothing
    if mine:
        shutil.rmtree(path, ignore_errors=True)
    for handle in held:
        with contextlib.suppress(OSError):
            os.close(handle)
    if mine and shell is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            shell.wait(5)


def _sweep(prefix: str) -> None:
    """Remove folders with this prefix whose process has ended."""
    pattern = re.compile(re.escape(prefix) + r"(\d+)-\w+")
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        found = pattern.fullmatch(path.name)
        if found and not alive(int(found[1])):
            with contextlib.suppress(OSError):
                _sweep_one(path)


def _sweep_one(path: Path) -> None:
    """Remove a folder unless a process has it locked: process IDs are not comparable between containers that share a disk."""
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.getuid():
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
