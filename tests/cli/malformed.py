"""Three hundred malformed tables, generated deterministically.

Each kind is a function of a random generator that returns the bytes of a file, or (suffix, bytes). Most should raise an error;
some are unusual but valid and should be fitted.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Random = np.random.Generator


@dataclass(frozen=True)
class Case:
    """One file: its kind, its suffix and its bytes."""

    name: str
    suffix: str
    data: bytes


KINDS: dict[str, Callable[[Random], Any]] = {}


def kind(function: Callable[[Random], Any]) -> Callable[[Random], Any]:
    """Add a kind to the list."""
    KINDS[function.__name__] = function
    return function


def cases(count: int = 300, seed: int = 0) -> Iterator[Case]:
    """The tables, kind after kind, round and round."""
    names = list(KINDS)
    for i in range(count):
        name = names[i % len(names)]
        made = KINDS[name](np.random.default_rng([seed, i]))
        suffix, data = made if isinstance(made, tuple) else (".csv", made)
        yield Case(f"{i:03d}-{name}", suffix, data)


def good(rng: Random, rows: int | None = None) -> list[list[str]]:
    """A table without faults: header x, z, y and 4 to 20 rows."""
    n = int(rng.integers(4, 20)) if rows is None else rows
    x, z = rng.uniform(-3, 3, n), rng.normal(size=n)
    y = np.sin(x) + 0.1 * rng.normal(size=n)
    return [["x", "z", "y"], *([f"{v:.5g}" for v in row] for row in zip(x, z, y, strict=True))]


def text(cells: list[list[str]], delimiter: str = ",", end: str = "\n") -> str:
    """Cells as lines."""
    return end.join(delimiter.join(row) for row in cells) + end


def spoil(rng: Random, cells: list[list[str]], values: list[str], most: int = 3, column: int | None = None) -> bytes:
    """Some cells replaced."""
    for _ in range(int(rng.integers(1, most + 1))):
        row = int(rng.integers(1, len(cells)))
        cells[row][int(rng.integers(0, 3)) if column is None else column] = str(rng.choice(values))
    return text(cells).encode()


# gaps, words, extremes -------------------------------------------------------------------------------------------
@kind
def missing(rng: Random) -> bytes:
    return spoil(rng, good(rng), ["", "NA", "nan", "NULL", "?", "N/A", "None"])


@kind
def target_missing(rng: Random) -> bytes:
    return spoil(rng, good(rng), ["", "NaN"], column=2)


@kind
def infinite(rng: Random) -> bytes:
    return spoil(rng, good(rng), ["inf", "-inf", "Infinity", "1e999", "-1e400"])


@kind
def words(rng: Random) -> bytes:
    return spoil(
        rng, good(rng), ["high", "n.a.", "1.2.3", "12 kg", "5%", "1,5", "--", "$3", "0x1F", "1_000", "é", "[red]x[/red]"]
    )


@kind
def word_column(rng: Random) -> bytes:
    cells = good(rng)
    for row in cells[1:]:
        row[1] = str(rng.choice(["red", "green", "blue", "", "2020-01-01"]))
    return text(cells).encode()


@kind
def word_target(rng: Random) -> bytes:
    cells = good(rng)
    for row in cells[1:]:
        row[2] = str(rng.choice(["yes", "no"]))
    return text(cells).encode()


@kind
def label_target(rng: Random) -> bytes:
    sets = [
        ["a", "b", "c"],
        ["True", "false", ""],
        ["1", "yes", "2"],
        ["no ", " no", "NO"],
        ["0", "1", "NA"],
        ["x"],
        ["-1", "1"],
    ]
    chosen = sets[int(rng.integers(0, len(sets)))]
    cells = good(rng)
    for row in cells[1:]:
        row[2] = str(rng.choice(chosen))
    return text(cells).encode()


@kind
def count_target(rng: Random) -> bytes:
    cells = good(rng)
    for row in cells[1:]:
        row[2] = str(rng.poisson(3.0)) + ".0" * int(rng.random() < 0.3)
    return spoil(rng, cells, ["", "12", "-1", "1e3", "x", "0.5"], most=2, column=2)


@kind
def huge(rng: Random) -> bytes:
    return spoil(rng, good(rng), ["1e300", "-1e308", "1e155", "9" * 60, "1e90", "-1e60"])


@kind
def scales(rng: Random) -> bytes:
    cells = good(rng)
    for j in range(3):
        factor = 10.0 ** float(rng.integers(-150, 90))
        for row in cells[1:]:
            row[j] = repr(float(row[j]) * factor)
    return text(cells).encode()


@kind
def tiny_changes(rng: Random) -> bytes:
    cells = good(rng)
    for row in cells[1:]:
        row[0], row[2] = repr(1e6 + 1e-9 * float(row[0])), repr(1e9 + 1e-7 * float(row[2]))
    return text(cells).encode()


@kind
def outlier(rng: Random) -> bytes:
    return spoil(rng, good(rng), ["1e12", "-1e15", "1e30"])


# shape -----------------------------------------------------------------------------------------------------------
@kind
def nothing(rng: Random) -> bytes:
    return bytes(rng.choice([b"", b"\n", b"   \n\n", b"\xef\xbb\xbf", b"\t\t\n", b"\r\n\r\n"]))


@kind
def header_only(rng: Random) -> bytes:
    return bytes(rng.choice([b"x,z,y\n", b"x,z,y", b"\n\nx,z,y\n\n", b"\xef\xbb\xbfx;z;y\r\n"]))


@kind
def no_header(rng: Random) -> bytes:
    return text(good(rng)[1:]).encode()


@kind
def one_row(rng: Random) -> bytes:
    return text(good(rng, 1)).encode()


@kind
def two_rows(rng: Random) -> bytes:
    cells = good(rng, 2)
    if rng.random() < 0.5:
        cells[2] = cells[1]
    return text(cells).encode()


@kind
def constants(rng: Random) -> bytes:
    cells = good(rng)
    for j in range(3):
        if rng.random() < 0.6:
            for row in cells[1:]:
                row[j] = str(rng.choice(["0", "1", "3.5"])) if j == 3 else "3.5"
    return text(cells).encode()


@kind
def repeated_rows(rng: Random) -> bytes:
    cells = good(rng, 4)
    picked = [cells[int(rng.integers(1, 5))][:] for _ in range(12)]
    if rng.random() < 0.5:
        for row in picked:
            row[2] = f"{rng.normal():.4g}"
    return text([cells[0], *picked]).encode()


@kind
def one_column(rng: Random) -> bytes:
    return text([[row[2]] for row in good(rng)]).encode()


@kind
def duplicate_columns(rng: Random) -> bytes:
    cells = good(rng)
    cells[0] = [str(v) for v in rng.choice([["x", "x", "y"], ["x", "y", "y"], ["y", "y", "y"], ["x ", " x", "y"]])]
    return text(cells).encode()


@kind
def ragged(rng: Random) -> bytes:
    cells = good(rng)
    for _ in range(int(rng.integers(1, 4))):
        row = cells[int(rng.integers(1, len(cells)))]
        row.append("7") if rng.random() < 0.6 else row.pop()
    return text(cells).encode()


@kind
def longer_than_header(rng: Random) -> bytes:
    cells = good(rng)
    return text([cells[0], *([*row, str(rng.choice(["", "1", "x"]))] for row in cells[1:])]).encode()


@kind
def trailing_delimiters(rng: Random) -> bytes:
    return text([[*row, ""] for row in good(rng)]).encode()


@kind
def row_numbers(rng: Random) -> bytes:
    cells, first = good(rng), int(rng.integers(0, 3))
    return text([["", *cells[0]], *([str(i + first), *row] for i, row in enumerate(cells[1:]))]).encode()


@kind
def blank_lines(rng: Random) -> bytes:
    lines = text(good(rng)).splitlines()
    for _ in range(5):
        lines.insert(int(rng.integers(0, len(lines) + 1)), str(rng.choice(["", "   ", "\t", ",,"])))
    return "\n".join(lines).encode()


@kind
def footer(rng: Random) -> bytes:
    last = str(rng.choice(["total,,12.5", "# end of file", "(3 rows)", ",,,", "-- done --"]))
    return (text(good(rng)) + last + "\n").encode()


@kind
def title_above(rng: Random) -> bytes:
    return (str(rng.choice(["Experiment 7\n", "# made by hand\n", "Station;12\n\n", "a,b\n"])) + text(good(rng))).encode()


# form ------------------------------------------------------------------------------------------------------------
@kind
def other_delimiters(rng: Random) -> bytes:
    return text(good(rng), delimiter=str(rng.choice([";", "\t", "|", " ", ":", ", "]))).encode()


@kind
def mixed_delimiters(rng: Random) -> bytes:
    lines = text(good(rng)).splitlines()
    return "\n".join(line.replace(",", str(rng.choice([",", ";", "\t"]))) for line in lines).encode()


@kind
def decimal_comma(rng: Random) -> bytes:
    cells = [[c.replace(".", ",") for c in row] for row in good(rng)]
    if rng.random() < 0.4:
        cells[1][0] = "1.234,5"
    return text(cells, delimiter=str(rng.choice([";", ";", "\t", ","]))).encode()


@kind
def thousands(rng: Random) -> bytes:
    cells = good(rng)
    for row in cells[1:]:
        row[0] = f'"{int(rng.integers(1000, 99999)):,}"'
    return text(cells).encode()


@kind
def quotes(rng: Random) -> bytes:
    cells = [[f'"{c}"' for c in row] for row in good(rng)]
    fault = int(rng.integers(0, 4))
    if fault == 1:
        cells[2][1] = '"0.5'
    if fault == 2:
        cells[0][0] = '"x, in ""m"""'
    if fault == 3:
        cells[0][1] = '"two\nlines"'
    return text(cells).encode()


@kind
def line_ends(rng: Random) -> bytes:
    return text(good(rng), end=str(rng.choice(["\r\n", "\r", "\n\r\n"]))).encode()


@kind
def encodings(rng: Random) -> bytes:
    cells = good(rng)
    cells[0][0] = "größe µ"
    return text(cells).encode(str(rng.choice(["latin-1", "utf-8-sig", "utf-16", "cp1252", "utf-16-le", "utf-8"])))


@kind
def headers(rng: Random) -> bytes:
    cells = good(rng)
    names = [
        "",
        "1",
        "x y",
        "-x",
        "x,y",
        "[bold]",
        "y.1",
        "мера",
        "a" * 300,
        "mean",
        "=1+1",
        "\x07bell",
        "None",
        "\u202e",
        "nan",
    ]
    cells[0][int(rng.integers(0, 2))] = str(rng.choice(names))
    return text(cells).encode()


@kind
def upper_target(rng: Random) -> bytes:
    cells = good(rng)
    cells[0][2] = str(rng.choice(["Y", " y ", "y_", "target"]))
    return text(cells).encode()


@kind
def booleans(rng: Random) -> bytes:
    cells = good(rng)
    for row in cells[1:]:
        row[1] = str(rng.choice(["True", "False", "true", "FALSE"] + ["", "1"] * int(rng.random() < 0.4)))
    return text(cells).encode()


# damage ----------------------------------------------------------------------------------------------------------
@kind
def truncated(rng: Random) -> bytes:
    data = text(good(rng)).encode()
    return data[: int(rng.integers(1, len(data)))]


@kind
def flipped_bytes(rng: Random) -> bytes:
    data = bytearray(text(good(rng)).encode())
    for _ in range(int(rng.integers(1, 6))):
        data[int(rng.integers(0, len(data)))] = int(rng.integers(0, 256))
    return bytes(data)


@kind
def binary(rng: Random) -> bytes:
    start = bytes(rng.choice([b"", b"x,z,y\n", b"PK\x03\x04", b"PAR1", b"\x89PNG\r\n", b"%PDF-1.4\n"]))
    return start + rng.bytes(int(rng.integers(1, 600)))


@kind
def nul_bytes(rng: Random) -> bytes:
    data = text(good(rng)).encode()
    return data[:40] + b"\x00" * int(rng.integers(1, 50)) + data[40:]


@kind
def zipped(rng: Random) -> tuple[str, bytes]:
    data = gzip.compress(text(good(rng)).encode(), mtime=0)
    fault = int(rng.integers(0, 4))
    return ".csv.gz", [data, data[: len(data) // 2], data[:20] + bytes(9) + data[29:], text(good(rng)).encode()][fault]


@kind
def parquet(rng: Random) -> tuple[str, bytes]:
    import pandas as pd

    cells = good(rng)
    frame: Any = pd.DataFrame(cells[1:], columns=cells[0]).astype(float)
    fault = int(rng.integers(0, 6))
    if fault == 1:
        frame.loc[1, "x"] = np.nan
    if fault == 2:
        frame["z"] = pd.Timestamp("2020-01-01")
    if fault == 3:
        frame["z"] = [[1.0, 2.0]] * len(frame)
    stream = io.BytesIO()
    frame.to_parquet(stream)
    data = stream.getvalue()
    return ".parquet", data[: len(data) // 2] if fault == 4 else rng.bytes(200) if fault == 5 else data


@kind
def other_suffix(rng: Random) -> tuple[str, bytes]:
    return str(rng.choice([".tsv", ".txt", "", ".CSV", ".xlsx", ".json", ".gz"])), text(good(rng)).encode()


@kind
def pages(rng: Random) -> bytes:
    shapes = [
        "<html><body>404, not found</body></html>\n",
        '{"error": "no such table"}\n',
        "[[1, 2], [3, 4]]\n",
        "x z y\n1 2 3\n",
    ]
    return str(rng.choice(shapes)).encode()
