"""How a command ends: one sentence on stderr and an exit code, a traceback only with ``--debug``."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer

from covary._checks import CovaryError, NotEnoughMemory, NotPositiveDefinite
from covary._write import NotWritten
from covary.cli.words import complaint

OK, INTERNAL, USAGE, DATA, MODEL, NUMERICAL, MEMORY, INTERRUPTED, ENDED = 0, 1, 2, 3, 4, 5, 6, 130, 143

CODES = {
    OK: "all went well",
    INTERNAL: "an error inside covary (run again with --debug)",
    USAGE: "wrong usage: an option, a kernel, a name of a file to write",
    DATA: "bad data: the table cannot be read or used",
    MODEL: "bad model file: it cannot be read or used",
    NUMERICAL: "the computation failed",
    MEMORY: "not enough memory",
    INTERRUPTED: "interrupted (Ctrl-C)",
    ENDED: "ended by SIGTERM (129: by SIGHUP)",
}


class Failure(CovaryError):
    """An error of the command: one sentence, and the code to end with."""

    code = INTERNAL


class BadUsage(Failure):
    """What was asked for does not make sense."""

    code = USAGE


class BadData(Failure):
    """The table cannot be read or used."""

    code = DATA


class BadModel(Failure):
    """The model file cannot be read or used."""

    code = MODEL


class NoAnswer(Failure):
    """The computation did not end with finite numbers."""

    code = NUMERICAL


class Ended(SystemExit):
    """A signal asks the command to end: temporary files are removed on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def end_on_signals() -> None:
    """From now on SIGTERM and SIGHUP end the command in order, unless whoever started it has them ignored (``nohup``)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _ended)


def _ended(number: int, _: Any) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # the second one ends it at once
    raise Ended(number)


class Run:
    """What one call of the command has written so far, for the sentence said when it is interrupted."""

    def __init__(self) -> None:
        self.written: list[str] = []


@contextmanager
def door(debug: bool) -> Iterator[Run]:
    """Inside this block warnings are silent, and every error becomes one sentence and an exit code."""
    run = Run()
    for stream in (sys.stdout, sys.stderr):  # a letter the terminal does not know is no reason to stop
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
            done = f"{' and '.join(run.written)} had been written" if run.written else "nothing was written"
            if isinstance(error, Ended):
                _end(128 + error.number, f"ended by {signal.Signals(error.number).name}; {done}.", debug)
            _end(INTERRUPTED, f"interrupted; {done}.", debug)
        except BrokenPipeError:  # whoever read our output has seen enough
            _give_up_stdout()
            raise typer.Exit(OK) from None
        except Exception as error:
            if isinstance(error, OSError):
                _give_up_stdout()
            _end(*verdict(error), debug)


def _give_up_stdout() -> None:
    """What could not be written to stdout is not tried again at the end of the process."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def verdict(error: BaseException) -> tuple[int, str]:
    """The exit code and the sentence for an error, in the words of the command."""
    text = complaint(sentence(error)) if isinstance(error, CovaryError) else sentence(error)
    if isinstance(error, Failure):
        return error.code, text
    if isinstance(error, NotEnoughMemory):
        return MEMORY, text
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        return MEMORY, "the machine ran out of memory; use fewer rows, or a machine with more."
    if isinstance(error, NotWritten):
        return USAGE, text
    if isinstance(error, NotPositiveDefinite):
        return NUMERICAL, text
    if type(error).__name__ == "BadFile" and isinstance(error, CovaryError):
        return MODEL, text
    if isinstance(error, CovaryError):
        return DATA, text
    if isinstance(error, OSError) and error.strerror:
        place = repr(str(error.filename)) if error.filename else "the output"
        return USAGE, f"{place} cannot be used ({error.strerror}); choose a place you may write to, with space left."
    if type(error).__name__ == "LinAlgError":
        return NUMERICAL, f"the linear algebra failed ({text}); look for repeated rows and columns of very different size."
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return INTERNAL, f"something went wrong inside covary ({reason[:300]}); run again with --debug and report what it says."


def sentence(error: BaseException) -> str:
    """The message of an error on one line."""
    return " ".join(str(error).split())


def _end(code: int, text: str, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc(file=sys.stderr)
    say_error(text)
    raise typer.Exit(code) from None


def say_error(text: str) -> None:
    """``covary: error: ...`` on stderr, in red on a terminal."""
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    head = "\x1b[1;31mcovary: error:\x1b[0m" if colour else "covary: error:"
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{head} {printable(text)}\n")
        sys.stderr.flush()


def printable(text: str) -> str:
    """Text without control characters, and without what the stream cannot show."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
