"""Run the examples of the documentation: ``python docs/run_examples.py [--write] [page ...]``.

All ``python`` blocks of a page are executed in order, in one namespace. An ``output`` block after a block contains the printed
text: words are compared exactly, numbers to two per cent, and ``...`` matches anything. A picture after a block is the figure
that the code leaves open. Blocks marked ``python peer`` contain code of other libraries and are not executed. ``--write``
updates outputs and pictures.
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

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n?```output\n(?P<output>.*?)^```\n)?(?:\n!\[.*?\]\((?P<figure>.*?)\)\n)?", re.M | re.S
)
CLOCK = re.compile(r"\d+(?:\.\d+)? s\b|\d+ evaluations")  # different on other machines
NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


def pages() -> list[Path]:
    """Return the pages whose code is executed."""
    folders = [page for folder in ("learn", "theory", "contributing") for page in sorted((DOCS / folder).glob("*.md"))]
    named = [DOCS / name for name in ("how_to.md", "coming_from.md", "distributed.md")]
    return [page for page in [*folders, *named] if "```python\n" in page.read_text("utf-8")]


@contextlib.contextmanager
def jax_restored() -> Iterator[None]:
    """Restore JAX's precision at the end, because a page may change it as a user's script does."""
    import jax

    before = jax.config.jax_enable_x64
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def run(page: Path, *, write: bool = False) -> Iterator[str]:
    """Execute a page and yield its errors."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    text, at = page.read_text("utf-8"), 0
    space: dict[str, object] = {"__name__": "__main__"}
    pieces: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), jax_restored():
        for found in BLOCK.finditer(text):
            line = text[: found.start()].count("\n") + 1
            output = io.StringIO()
            plt.close("all")
            try:
                with contextlib.redirect_stdout(output):
                    exec(compile("\n" * line + found["code"], str(page), "exec"), space)
            except Exception as error:
                yield f"{page.name}:{line}: {type(error).__name__}: {error}"
                return
            printed, expected = output.getvalue(), found["output"]
            if write:
                pieces += [text[at : found.start()], updated(found, printed)]
                at = found.end()
                if found["figure"] and plt.get_fignums():
                    plt.gcf().savefig(page.parent / found["figure"], dpi=120, bbox_inches="tight")
                continue
            if found["figure"] and not (plt.get_fignums() and (page.parent / found["figure"]).is_file()):
                yield f"{page.name}:{line}: the code leaves no figure open, or {found['figure']} is missing"
            if printed and expected is None:
                yield f"{page.name}:{line}: prints {printed!r} without an output block"
            elif expected is not None and not alike(printed, expected):
                yield f"{page.name}:{line}: prints\n{printed}\nnot\n{expected}"
        plt.close("all")
    if write:
        page.write_text("".join(pieces) + text[at:], "utf-8")


def updated(found: re.Match[str], printed: str) -> str:
    """Return a block with its new output; an output with an ellipsis is not changed."""
    block = found[0]
    if not printed or "..." in (found["output"] or ""):
        return block
    printed = "\n".join(row.rstrip() for row in printed.rstrip("\n").split("\n"))
    fresh = f"```python\n{found['code']}```\n\n```output\n{printed}\n```\n"
    picture = re.search(r"\n!\[.*?\]\(.*?\)\n\Z", block)
    return fresh + (picture[0] if picture and found["figure"] else "")


def alike(printed: str, expected: str) -> bool:
    """Check whether two outputs agree: words exactly, numbers roughly; times, spaces and rules are ignored."""
    printed, expected = CLOCK.sub("a time", printed), CLOCK.sub("a time", expected)
    patterns = [re.escape(" ".join(words(part))) for part in expected.split("...")]
    if not re.fullmatch(r"\s*(.*)\s*".join(patterns), " ".join(words(printed)), re.S):
        return False
    if "..." in expected:
        return True
    numbers = [[float(n.replace("−", "-")) for n in NUMBER.findall(side)] for side in (printed, expected)]
    return all(abs(a - b) <= 0.02 * max(abs(a), abs(b)) + 0.002 for a, b in zip(*numbers, strict=True))


def words(text: str) -> list[str]:
    return NUMBER.sub(" # ", re.sub(r"[─━\[\]]+", " ", text)).split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="*", type=Path, default=pages())
    parser.add_argument("--write", action="store_true", help="update outputs and pictures")
    given = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    faults = 0
    for page in given.page:
        begun = time.perf_counter()
        for fault in run(page.resolve(), write=given.write):
            faults += 1
            print(fault)
        print(f"{page.name}: {time.perf_counter() - begun:.1f} s")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
