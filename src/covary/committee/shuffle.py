"""Distribution of the rows of a Parquet table to experts, without loading the table into one process.

With a splitter, the table is read once: each row group is encoded by a worker, sorted by expert, and written to a folder
that every worker can access (the spool). A batch of experts then reads its slice of each file. Without a splitter (the
partition ``"arrival"``), nothing is moved: an expert is a range of consecutive rows, which is read when needed. In both
cases, the rows of an expert are in the order of the table, regardless of where and when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike
from typing import NamedTuple, TypeVar

import numpy as np

from covary._checks import CovaryError, fail
from covary._errors import Option
from covary._words import counted
from covary.committee import spool
from covary.committee.partition import Divides
from covary.committee.spool import Sorted
from covary.data import Data
from covary.executors.choose import Executor
from covary.executors.pieces import Note
from covary.tables.parquet import Chunk, Frame, Parquet, read

Encode = Callable[[Frame], np.ndarray]
Label = Callable[[Frame], np.ndarray]  # encodes one column
Key = TypeVar("Key", str, int)
MISSING = ("refuse", "drop", "keep")
FILES = 32  # number of spool files whose experts are counted together


class Told(NamedTuple):
    """Counts of a row group: usable rows, rows with a missing value by column, and rows by class."""

    rows: int
    gaps: dict[str, int]
    classes: dict[int, int]


@dataclass(frozen=True)
class Reading:
    """Encoding of rows as numbers: the columns, their encoders, and the handling of missing values."""

    inputs: tuple[str, ...]
    target: str
    encode: Encode = field(repr=False)
    missing: str = "refuse"
    label: Label | None = field(default=None, repr=False)

    def usable(self, frame: Frame) -> tuple[np.ndarray, dict[str, int]]:
        """Return a mask of the usable rows, and the number of missing values by column, including the target."""
        observed = ~frame[self.target].isna().to_numpy(bool)
        keep, told = observed, {self.target: int((~observed).sum())}
        for name in self.inputs:
            gaps = frame[name].isna().to_numpy(bool)
            told[name] = int((gaps & observed).sum())
            keep = keep if self.missing == "keep" else keep & ~gaps
        return keep, {name: n for name, n in told.items() if n}

    def numbers(self, frame: Frame, chunk: Chunk) -> np.ndarray:
        """Return the inputs of these rows with the targets in the last column: (n, d + 1)."""
        frame = frame.reset_index(drop=True)
        refuse_infinite(frame, self.inputs, self.target, str(chunk))
        y = frame[self.target]
        if self.label is not None:
            y = np.asarray(self.label(y), np.float64)
        else:
            try:
                y = np.asarray(y, np.float64)
            except (TypeError, ValueError):
                what = f"the target {self.target!r} contains {y.iloc[0]!r}, which is not a number, in {chunk}"
                raise fail("fit", what, "give numbers, or encode classes first") from None
        if not np.isfinite(y).all():  # text such as "inf" converts to infinity
            what = f"the target {self.target!r} is not finite in {counted(int((~np.isfinite(y)).sum()), 'row')} of {chunk}"
            raise fail("fit", what, "correct or drop such rows")
        x = np.asarray(self.encode(frame[list(self.inputs)]), np.float64)
        if x.ndim != 2 or len(x) != len(frame):
            what = f"encode gave shape {x.shape} for {counted(len(frame), 'row')}"
            raise fail("spread", what, "return one row of numbers for each")
        bad = ~np.isfinite(x).all(1)
        if bad.any():
            what = f"{counted(int(bad.sum()), 'row')} of {chunk} {'is' if bad.sum() == 1 else 'are'} not finite once encoded"
            raise fail("fit", what, "correct, drop or fill such rows")
        return np.column_stack([x, y])

    def classes(self, codes: np.ndarray) -> dict[int, int]:
        """Count the targets of each class; empty if the target is numeric."""
        if self.label is None:
            return {}
        found, counts = np.unique(codes.astype(np.int64), return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))


def refuse_infinite(frame: Frame, inputs: Sequence[str], target: str, where: str) -> None:
    """Raise an error for infinite entries, which are invalid however missing values are handled."""
    for name in (*inputs, target):
        column = frame[name]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f" and np.isinf(column).any():
            what = f"the {'target' if name == target else 'column'} {name!r} is infinite in "
            what += f"{counted(int(np.isinf(column).sum()), 'row')} of {where}"
            raise fail("fit", what, "correct or drop such rows: infinity does not count as missing")


# batches ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Spool:
    """Folder of sorted row groups, one file each, whose names contain ``mark``, so that several fits can share the folder."""

    folder: str
    files: int
    mark: str = ""

    def load(self, batch: Batch) -> list[Data]:
        first, last = batch.experts[0], batch.experts[-1] + 1
        parts: list[list[np.ndarray]] = [[] for _ in batch.experts]
        for number in range(self.files):
            numbers, offsets, _ = spool.get(self.folder, number, self.mark)
            if not len(numbers):
                continue
            if last >= len(offsets):
                raise self._strange(number)
            low = offsets[first]
            rows = np.array(numbers[low : offsets[last]])  # a single range, since its experts are consecutive
            for part, expert in zip(parts, batch.experts, strict=True):
                part.append(rows[offsets[expert] - low : offsets[expert + 1] - low])
                if part[-1].shape[1] != part[0].shape[1]:
                    raise self._strange(number)
        if any(sum(map(len, part)) != rows for part, rows in zip(parts, batch.rows, strict=True)):
            raise self._strange(0)
        joined = [np.concatenate(part) for part in parts]
        return [Data(rows[:, :-1], rows[:, -1]) for rows in joined]

    def _strange(self, number: int) -> CovaryError:
        file = spool.place(self.folder, number, self.mark)
        what = f"{str(file)!r} does not contain the rows of its experts"
        return fail("fit", what, "restore the original files, or fit again")


@dataclass(frozen=True)
class Arrival:
    """Ranges of the table by expert, as (row group, start, stop), where only usable rows are counted."""

    reading: Reading
    stretches: tuple[tuple[tuple[Chunk, int, int], ...], ...]
    whole: frozenset[Chunk]  # row groups in which all rows are usable

    def load(self, batch: Batch) -> list[Data]:
        spans: dict[Chunk, tuple[int, int]] = {}  # a row group is read once for all experts of the batch
        for chunk, start, stop in (stretch for stretches in self.stretches for stretch in stretches):
            low, high = spans.get(chunk, (start, stop))
            spans[chunk] = min(low, start), max(high, stop)
        found = {chunk: self._span(chunk, *span) for chunk, span in spans.items()}
        out = []
        for stretches in self.stretches:
            parts = [found[chunk][a - spans[chunk][0] : b - spans[chunk][0]] for chunk, a, b in stretches]
            rows = np.concatenate(parts)
            out.append(Data(rows[:, :-1], rows[:, -1]))
        return out

    def _span(self, chunk: Chunk, start: int, stop: int) -> np.ndarray:
        columns = [*self.reading.inputs, self.reading.target]
        if chunk in self.whole:
            frame = read(chunk, columns, start, stop)
        else:
            frame = read(chunk, columns)
            frame = frame[self.reading.usable(frame)[0]].iloc[start:stop]
        return self.reading.numbers(frame, chunk)


@dataclass(frozen=True)
class Batch:
    """Description of the rows of some experts: ``experts`` (their indices), ``rows`` (of each), and where to read them."""

    experts: tuple[int, ...]
    rows: tuple[int, ...]
    where: Spool | Arrival = field(repr=False)

    def __str__(self) -> str:
        first, last = self.experts[0], self.experts[-1]
        which = f"expert {first}" if first == last else f"experts {first} to {last}"
        return f"{which} ({counted(sum(self.rows), 'row')})"


class Batches(list[Batch]):
    """Batches in the order of their experts.

    ``left_out`` is the number of rows with a missing value by column, which are left out unless missing values are kept.
    ``classes`` is the number of rows of each class. ``empty`` is the number of experts without rows, which are in no batch.
    """

    left_out: dict[str, int]
    classes: dict[int, int]
    empty: tuple[int, ...]


def load(batch: Batch) -> list[Data]:
    """Read the data of each expert of a batch, in the order of ``batch.experts``."""
    return batch.where.load(batch)


def spread(
    executor: Executor,
    source: Parquet,
    *,
    target: str,
    encode: Encode,
    splitter: Divides | None,
    experts: int,
    folder: str | PathLike[str] | None,
    per_batch: int,
    missing: str = "refuse",
    label: Label | None = None,
    mark: str = "",
    note: Note | None = None,
) -> Batches:
    """Assign every row of a table to an expert, and return the descriptions of batches of experts.

    Parameters
    ----------
    executor
        Executor that does the work.
    source
        The table. All columns except the target are inputs.
    target
        Name of the column to predict. Rows in which it is missing are left out and counted.
    encode
        Function that encodes the inputs of a frame of n rows as an array (n, d); must be picklable.
    splitter
        ``splitter.assign(x, key)`` gives the expert of each row, where ``key`` is the index of the row group. None divides
        the rows in order of arrival into ranges of equal size.
    experts
        Number of experts.
    folder
        Folder for sorted row groups, which every worker must be able to access. Not needed without a splitter.
    per_batch
        Number of experts per batch.
    missing
        Handling of rows with a missing input: ``"refuse"``, ``"drop"``, or ``"keep"`` (``encode`` handles them).
    label
        Function that encodes targets as numbers, if they are not numeric.
    mark
        Identifier in the names of the files in the folder.
    note
        If given, called with (finished, total) after each row group.
    """
    reading = _reading(source, target, encode, missing, label)
    if experts < 1 or per_batch < 1:
        raise fail("spread", f"{counted(experts, 'expert')} in batches of {per_batch}", "give positive integers")
    _enough(experts, source.rows)
    pieces = list(enumerate(source.chunks))
    place = ""
    if splitter is None:
        told = executor.map(_count, pieces, reading, note=note)
    else:
        assert folder is not None
        place = str(spool.made(folder))
        told = executor.map(_sort, pieces, reading, splitter, experts, place, mark, note=note)
    left_out = _gaps_in_all(told, reading, source.rows)
    _enough(experts, sum(t.rows for t in told))
    if splitter is None:
        out = _stretches(source.chunks, [t.rows for t in told], reading, experts, per_batch)
    else:
        files = [range(start, min(start + FILES, len(pieces))) for start in range(0, len(pieces), FILES)]
        rows = np.sum(executor.map(_sizes, files, place, mark, experts), axis=0)
        out = _batches(rows, per_batch, lambda _: Spool(place, len(pieces), mark))
    out.left_out, out.classes = left_out, _sums([t.classes for t in told])
    return out


def survey(
    executor: Executor,
    source: Parquet,
    *,
    target: str,
    encode: Encode,
    experts: int,
    folder: str | PathLike[str] | None = None,
    missing: str = "refuse",
    label: Label | None = None,
    note: Note | None = None,
) -> None:
    """Check every row of a table, so that errors of :func:`spread` are raised before other work begins.

    A ``folder`` for sorted rows that cannot be created, or that a worker cannot access, raises an error too. It is None if
    nothing is sorted.
    """
    reading = _reading(source, target, encode, missing, label)
    _enough(experts, source.rows)
    place = None if folder is None else str(spool.made(folder))
    told = executor.map(_look, list(enumerate(source.chunks)), reading, place, note=note)
    _gaps_in_all(told, reading, source.rows)
    _enough(experts, sum(t.rows for t in told))


def _reading(source: Parquet, target: str, encode: Encode, missing: str, label: Label | None) -> Reading:
    """Define how the rows are read, and check this against the footers of the files."""
    if missing not in MISSING:
        raise fail("spread", Option("missing") + f" is {missing!r}", f"choose one of {', '.join(map(repr, MISSING))}")
    source.check([target], "fit")
    reading = Reading(tuple(c for c in source.names if c != target), target, encode, missing, label)
    if not reading.inputs:
        raise fail("fit", f"there is no column besides the target {target!r}", "give at least one input")
    source.check(reading.inputs, "fit")
    if missing == "refuse":
        refuse_known_gaps(source, reading.inputs, target)
    return reading


def _sums(counts: Sequence[dict[Key, int]]) -> dict[Key, int]:
    """Add the counts of all row groups."""
    found: dict[Key, int] = {}
    for each in counts:
        for name, n in each.items():
            found[name] = found.get(name, 0) + n
    return found


def _gaps_in_all(told: Sequence[Told], reading: Reading, rows: int) -> dict[str, int]:
    """Count the missing values of all row groups by column; raise an error for missing inputs if ``missing="refuse"``."""
    found = _sums([t.gaps for t in told])
    if reading.missing == "refuse":
        _refuse({c: n for c, n in found.items() if c != reading.target}, rows)
    return found


def refuse_known_gaps(source: Parquet, inputs: Sequence[str], target: str) -> None:
    """Raise an error for missing inputs that are recorded in the footers of a table, before any row is read."""
    told = source.empty([*inputs, target])
    if not told[target]:  # an input may be missing in rows without a target
        _refuse({name: n for name, n in told.items() if n}, source.rows)


def _enough(experts: int, rows: int) -> None:
    if experts > rows:
        raise fail("fit", f"{counted(experts, 'expert')} for {counted(rows, 'row')}", "use fewer experts than rows")


def _refuse(gaps: dict[str, int], rows: int) -> None:
    if gaps:
        name, most = max(gaps.items(), key=lambda item: item[1])
        more = f" (and {counted(len(gaps) - 1, 'further column')})" if len(gaps) > 1 else ""
        what = f"the column {name!r} is missing in {most:,} of {counted(rows, 'row')}{more}"
        raise fail("fit", what, "fill them, or use " + Option("missing", "'drop'") + " or " + Option("missing", "'impute'"))


def _batches(rows: np.ndarray, per_batch: int, where: Callable[[Sequence[int]], Spool | Arrival]) -> Batches:
    """Combine consecutive experts into batches; experts without rows are left out."""
    out = Batches()
    for start in range(0, len(rows), per_batch):
        inside = tuple(int(e) for e in range(start, min(start + per_batch, len(rows))) if rows[e])
        if inside:
            out.append(Batch(inside, tuple(int(rows[e]) for e in inside), where(inside)))
    out.empty = tuple(int(e) for e in np.flatnonzero(rows == 0))
    return out


def _stretches(chunks: Sequence[Chunk], rows: list[int], reading: Reading, experts: int, per_batch: int) -> Batches:
    """Divide consecutive rows into equal ranges; larger row groups are split, smaller ones are joined."""
    ends = np.cumsum(rows)
    total = int(ends[-1])
    _enough(experts, total)
    cuts = [total * e // experts for e in range(experts + 1)]
    parts = []
    for low, high in pairwise(cuts):
        first, last = np.searchsorted(ends, low, "right"), np.searchsorted(ends, high, "left")
        inside = [(c, int(ends[c]) - rows[c]) for c in range(first, last + 1) if rows[c]]
        parts.append(tuple((chunks[c], max(low - s, 0), min(high - s, rows[c])) for c, s in inside))
    full = {chunk for chunk, n in zip(chunks, rows, strict=True) if n == chunk.rows}

    def where(inside: Sequence[int]) -> Arrival:
        mine = tuple(parts[e] for e in inside)
        return Arrival(reading, mine, frozenset(chunk for part in mine for chunk, _, _ in part if chunk in full))

    return _batches(np.diff(cuts), per_batch, where)


# on the workers ---------------------------------------------------------------------------------------------------
def _count(piece: tuple[int, Chunk], reading: Reading) -> Told:
    """Return the counts of a row group without encoding its inputs."""
    frame = read(piece[1], [*reading.inputs, reading.target])
    keep, gaps = reading.usable(frame)
    codes = np.empty(0) if reading.label is None or not keep.any() else reading.label(frame[reading.target][keep])
    return Told(int(keep.sum()), gaps, reading.classes(codes))


def _look(piece: tuple[int, Chunk], reading: Reading, folder: str | None) -> Told:
    """Return the counts of a row group without classes, and check that its rows can be encoded and written."""
    chunk = piece[1]
    if folder is not None:
        spool.reached(folder)
    frame = read(chunk, [*reading.inputs, reading.target])
    keep, gaps = reading.usable(frame)
    if keep.any():
        reading.numbers(frame[keep], chunk)
    return Told(int(keep.sum()), gaps, {})


def _sort(piece: tuple[int, Chunk], reading: Reading, splitter: Divides, experts: int, folder: str, mark: str) -> Told:
    """Write a row group to the spool, sorted by expert, unless it is already there, and return its counts."""
    number, chunk = piece
    if (before := _sorted_before(folder, number, mark, reading, experts)) is not None:
        return before
    frame = read(chunk, [*reading.inputs, reading.target])
    keep, gaps = reading.usable(frame)
    if reading.missing == "refuse" and gaps.keys() - {reading.target}:
        return Told(0, gaps, {})  # an error with the counts of all row groups follows
    spool.reached(folder)
    numbers = reading.numbers(frame[keep], chunk) if keep.any() else np.empty((0, 0))
    owner = np.asarray(splitter.assign(numbers[:, :-1], number), np.int64) if len(numbers) else np.empty(0, np.int64)
    if len(owner) != len(numbers) or (len(owner) and not 0 <= owner.min() <= owner.max() < experts):
        raise fail("spread", f"the splitter gave experts outside 0 to {experts - 1}", "fit it for that number of experts")
    counts = np.bincount(owner, minlength=experts)
    numbers = np.ascontiguousarray(numbers[np.argsort(owner, kind="stable")])
    spool.put(folder, number, mark, Sorted(numbers, np.concatenate([[0], np.cumsum(counts)]), gaps))
    return Told(len(numbers), gaps, reading.classes(numbers[:, -1]) if len(numbers) else {})


def _sorted_before(folder: str, number: int, mark: str, reading: Reading, experts: int) -> Told | None:
    """Return the counts of a row group that an interrupted fit wrote to the spool; None if it is not there."""
    if not mark or not spool.place(folder, number, mark).exists():
        return None
    try:
        numbers, _, gaps = spool.get(folder, number, mark, experts)
    except CovaryError:
        return None
    return Told(len(numbers), gaps, reading.classes(numbers[:, -1]) if len(numbers) else {})


def _sizes(files: range, folder: str, mark: str, experts: int) -> np.ndarray:
    """Count the rows of every expert in some files of the spool, summed here so that this scales to millions of experts."""
    rows = np.zeros(experts, np.int64)
    for number in files:
        rows += np.diff(spool.get(folder, number, mark, experts).offsets)
    return rows
