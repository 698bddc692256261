"""Runs the examples of the documentation: ``python docs/site/examples.py [--write] [page ...]``.

Every ``python`` block of a page is executed, in order and in one namespace. Where an ``output`` block follows, it holds what
the code prints: words exactly, numbers within two in a hundred, ``...`` for anything. Where a picture follows, it is the figure
the code left open. ``python peer`` blocks are other libraries' and are only shown. ``--write`` puts outputs and pictures in
their places.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n?```output\n(?P<output>.*?)^```\n)?(?:\n!\[.*?\]\((?P<figure>.*?)\)\n)?", re.M | re.S
)
CLOCK = re.compile(r"\d+(?:\.\d+)? s\b|\d+ evaluations")  # differ from machine to machine
NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


def pages() -> list[Path]:
    """The pages whose code runs."""
    return [
        *sorted((DOCS / "learn").glob("*.md")),
        DOCS / "how_to.md",
        DOCS / "coming_from.md",
        DOCS / "distributed.md",
        *sorted((DOCS / "theory").glob("*.md")),
    ]


def run(page: Path, *, write: bool = False) -> Iterator[str]:
    """Execute a page and say what is wrong with it."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    text, space, at = page.read_text("utf-8"), {"__name__": "__main__"}, 0
    pieces: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for found in BLOCK.finditer(text):
            line = text[: found.start()].count("\n") + 1
            printed = io.StringIO()
            plt.close("all")
            wrong = ""
            with contextlib.redirect_stdout(printed):
                try:
                    exec(compile("\n" * line + found["code"], str(page), "exec"), space)
                except Exception as error:
                    wrong = f"{page.name}:{line}: {type(error).__name__}: {error}"
            if wrong:
                yield wrong
                return
            said, meant = printed.getvalue(), found["output"]
            if write:
                pieces += [text[at : found.start()], replaced(found, said)]
                at = found.end()
                if found["figure"] and plt.get_fignums():
                    plt.gcf().savefig(page.parent / found["figure"], dpi=120, bbox_inches="tight")
                continue
            if found["figure"] and not (plt.get_fignums() and (page.parent / found["figure"]).is_file()):
                yield f"{page.name}:{line}: the code leaves no figure, or {found['figure']} is not there"
            if said and meant is None:
                yield f"{page.name}:{line}: prints {said!r} without an output block"
            elif meant is not None and not alike(said, meant):
                yield f"{page.name}:{line}: prints\n{said}\nnot\n{meant}"
        plt.close("all")
    if write:
        page.write_text("".join(pieces) + text[at:], "utf-8")


def replaced(found: re.Match[str], said: str) -> str:
    """A block with its output anew; one with an ellipsis is left as it is."""
    block = found[0]
    if not said or "..." in (found["output"] or ""):
        return block
    said = "\n".join(row.rstrip() for row in said.rstrip("\n").split("\n"))
    fresh = f"```python\n{found['code']}```\n\n```output\n{said}\n```\n"
    picture = re.search(r"\n!\[.*?\]\(.*?\)\n\Z", block)
    return fresh + (picture[0] if picture and found["figure"] else "")


def alike(said: str, meant: str) -> bool:
    """Whether two outputs agree: words exactly, numbers roughly, times, spaces and rules not at all."""
    said, meant = CLOCK.sub("so long", said), CLOCK.sub("so long", meant)
    patterns = [re.escape(" ".join(words(part))) for part in meant.split("...")]
    if not re.fullmatch(r"\s*(.*)\s*".join(patterns), " ".join(words(said)), re.S):
        return False
    if "..." in meant:
        return True
    numbers = [[float(n.replace("−", "-")) for n in NUMBER.findall(side)] for side in (said, meant)]
    return all(abs(a - b) <= 0.02 * max(abs(a), abs(b)) + 0.002 for a, b in zip(*numbers, strict=True))


def words(text: str) -> list[str]:
    return NUMBER.sub(" # ", re.sub(r"[─━\[\]]+", " ", text)).split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="*", type=Path, default=pages())
    parser.add_argument("--write", action="store_true", help="put outputs and pictures in their places")
    given: Any = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    wrong = 0
    for page in given.page:
        begun = time.perf_counter()
        for fault in run(page.resolve(), write=given.write):
            wrong += 1
            print(fault)
        print(f"{page.name}: {time.perf_counter() - begun:.1f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
