"""Temporary folders that go with the process that made them, however it ends.

A small shell waits at the other end of a pipe and removes the folder once nobody holds the pipe any more: the system closes it
when the process has ended, whether by itself, by a signal or by ``kill -9``. So no signal handler is needed. Where the shell
was killed as well, the next process that makes such a folder removes it.
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
    """A folder that only this user can read, below the system's folder for temporary files.

    Parameters
    ----------
    prefix
        What its name begins with; this process's number follows.

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
            what = f"no temporary folder can be made ({error.strerror or error})"
            raise fail("fit", what, "set TMPDIR to a folder that you may write to, with space left") from None
        lock = os.open(self.path, os.O_RDONLY)
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.flock(lock, fcntl.LOCK_SH)
        end, self.lifeline = os.pipe()  # the folder stays as long as somebody has the second end
        shell = None
        with contextlib.suppress(OSError):
            command = ["/bin/sh", "-c", WAIT, "covary", str(self.path)]
            quiet = subprocess.DEVNULL
            shell = subprocess.Popen(command, stdin=end, stdout=quiet, stderr=quiet, cwd="/", start_new_session=True)
        os.close(end)
        self._close = weakref.finalize(self, _remove, self.path, (lock, self.lifeline), shell, os.getpid())

    def close(self) -> None:
        """Remove it now."""
        self._close()


def _remove(path: Path, held: tuple[int, ...], shell: subprocess.Popen[bytes] | None, owner: int) -> None:
    mine = os.getpid() == owner  # a forked copy of this process lets go, and removes nothing
    if mine:
        shutil.rmtree(path, ignore_errors=True)
    for handle in held:
        with contextlib.suppress(OSError):
            os.close(handle)
    if mine and shell is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            shell.wait(5)


def _sweep(prefix: str) -> None:
    """Remove folders of this name whose process has ended."""
    pattern = re.compile(re.escape(prefix) + r"(\d+)-\w+")
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        found = pattern.fullmatch(path.name)
        if found and not alive(int(found[1])):
            with contextlib.suppress(OSError):
                _sweep_one(path)


def _sweep_one(path: Path) -> None:
    """Remove a folder unless somebody has it: process numbers mean nothing between containers that share a disk."""
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.getuid():
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
