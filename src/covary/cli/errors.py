"""Errors and exit codes of commands: one message on stderr, and a traceback only with ``--debug``."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import typer

from covary._errors import CovaryError, Text

OK, INTERNAL, USAGE, DATA, MODEL, NUMERICAL, MEMORY, INTERRUPTED, ENDED = 0, 1, 2, 3, 4, 5, 6, 130, 143

CODES = {
    OK: "success",
    INTERNAL: "an error inside covary (run again with --debug)",
    USAGE: "usage error: an option, a kernel, the name of an output file",
    DATA: "data error: the table cannot be read or used",
    MODEL: "model file error: it cannot be read or used",
    NUMERICAL: "the computation failed",
    MEMORY: "not enough memory",
    INTERRUPTED: "interrupted (Ctrl-C)",
    ENDED: "terminated by SIGTERM (129: by SIGHUP)",
}


class Failure(CovaryError):
    """Error with a known exit code; the code of any other error follows from its cause."""

    code = INTERNAL


class BadUsage(Failure):
    """Error in the options."""

    code = USAGE


class BadModel(Failure):
    """Error in a model file."""

    code = MODEL


def usage(argument: str, what: Text, do: Text) -> BadUsage:
    """Return the error about an option, by the name of its argument; "" for options together."""
    return BadUsage("covary", what, do, argument=argument)


class Ended(SystemExit):
    """Exit after a signal; temporary files are removed first."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def end_on_signals() -> None:
    """Make SIGTERM and SIGHUP end the command cleanly, unless the parent process ignores them (``nohup``)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _ended)


def _ended(number: int, _: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends it immediately
    raise Ended(number)


class Run:
    """Files that a command has written so far, for the message if it is interrupted."""

    def __init__(self) -> None:
        self.written: list[str] = []


@contextmanager
def reported(debug: bool) -> Iterator[Run]:
    """Silence warnings in a block, and turn every error into a message and an exit code."""
    run = Run()
    for stream in (sys.stdout, sys.stderr):  # for characters that the terminal cannot show
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace" if stream is sys.stderr else "replace")  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("jax").setLevel(logging.ERROR)
        try:
            yield run
            sys.stdout.flush()
        except typer.Exit:
            raise
        except (KeyboardInterrupt, Ended) as error:
            done = f"already written: {', '.join(run.written)}" if run.written else "nothing was written"
            if isinstance(error, Ended):
                _end(128 + error.number, f"terminated by {signal.Signals(error.number).name}; {done}.", debug)
            _end(INTERRUPTED, f"interrupted; {done}.", debug)
        except BrokenPipeError:  # the reader has closed the pipe
            _give_up_stdout()
            raise typer.Exit(OK) from None
        except Exception as error:
            if isinstance(error, OSError):
                _give_up_stdout()
            _end(*verdict(error), debug)


def _give_up_stdout() -> None:
    """Discard what could not be written to stdout, which Python would write again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def verdict(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message of an error, in terms of the command's options."""
    if isinstance(error, CovaryError):
        from covary.cli.rendering import code_of, message

        return error.code if isinstance(error, Failure) else code_of(error), message(error)
    from numpy.linalg import LinAlgError

    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        return MEMORY, "the machine ran out of memory; use fewer rows, or a machine with more."
    if isinstance(error, OSError) and error.strerror:
        place = repr(str(error.filename)) if error.filename else "the output"
        return USAGE, f"{place} cannot be used ({error.strerror}); choose a writable location with free space."
    if isinstance(error, LinAlgError):
        return NUMERICAL, f"the linear algebra failed ({text}); check for duplicate rows and columns of very different scale."
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return INTERNAL, f"something went wrong inside covary ({reason[:300]}); run again with --debug and report the output."


def _end(code: int, text: str, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc(file=sys.stderr)
    say_error(text)
    raise typer.Exit(code) from None


def say_error(text: str) -> None:
    """Print ``covary: error: ...`` on stderr, in red on a terminal."""
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    head = "\x1b[1;31mcovary: error:\x1b[0m" if colour else "covary: error:"
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{head} {printable(text)}\n")
        sys.stderr.flush()


def printable(text: str) -> str:
    """Escape control characters, and characters that stderr cannot encode."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
