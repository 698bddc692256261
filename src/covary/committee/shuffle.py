"""From the rows of a Parquet table to the rows of each expert, without ever having them all in one place.

With a splitter the table is read once: each row group is encoded by a worker, its rows are sorted by expert, and the whole is
put into a folder that every worker can reach (the spool). A batch of experts then collects its own slice of each file. As the
data arrive, nothing is moved: an expert is a stretch of consecutive rows, read where it is needed. Either way the rows of an
expert stand in the order of the table, whoever read them and when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from covary._checks import CovaryError, fail
from covary._words import counted
from covary.committee import spool
from covary.committee.sources import Chunk, Frame, Parquet, read
from covary.committee.spool import Sorted
from covary.data import Data

Encode = Callable[[Frame], np.ndarray]
MISSING = ("refuse", "drop", "keep")
FILES = 32  # of the spool whose experts are counted in one go


class Told(NamedTuple):
    """Of a row group: how many rows are of use, how many have a gap by column, and, of classes, how many rows each has."""

    rows: int
    gaps: dict[str, int]
    classes: dict[int, int]


@dataclass(frozen=True)
class Reading:
    """How rows become numbers: which columns, what encodes them, and what happens to rows with gaps."""

    inputs: tuple[str, ...]
    target: str
    encode: Encode = field(repr=False)
    missing: str = "refuse"
    label: Callable[[Any], np.ndarray] | None = field(default=None, repr=False)

    def usable(self, frame: Frame) -> tuple[np.ndarray, dict[str, int]]:
        """Which rows count; and how many have a gap, by column, the target's under its own name."""
        observed = ~frame[self.target].isna().to_numpy(bool)
        keep, told = observed, {self.target: int((~observed).sum())}
        for name in self.inputs:
            gaps = frame[name].isna().to_numpy(bool)
            told[name] = int((gaps & observed).sum())
            keep = keep if self.missing == "keep" else keep & ~gaps
        return keep, {name: n for name, n in told.items() if n}

    def numbers(self, frame: Frame, chunk: Chunk) -> np.ndarray:
        """Inputs and, in the last column, targets of these rows: (n, d + 1)."""
        frame = frame.reset_index(drop=True)
        refuse_infinite(frame, self.inputs, self.target, str(chunk))
        y = frame[self.target]
        if self.label is not None:
            y = np.asarray(self.label(y), np.float64)
        else:
            try:
                y = np.asarray(y, np.float64)
            except (TypeError, ValueError):
                what = f"the target {self.target!r} holds {y.iloc[0]!r}, which is no number, in {chunk}"
                raise fail("fit", what, "give numbers, or encode classes first") from None
        if not np.isfinite(y).all():  # text can say so too
            what = (
                f"the target {self.target!r} is no finite number in {counted(int((~np.isfinite(y)).sum()), 'row')} of {chunk}"
            )
            raise fail("fit", what, "correct or drop such rows")
        x = np.asarray(self.encode(frame[list(self.inputs)]), np.float64)
        if x.ndim != 2 or len(x) != len(frame):
            raise fail(
                "spread", f"encode gave shape {x.shape} for {counted(len(frame), 'row')}", "return one row of numbers for each"
            )
        bad = ~np.isfinite(x).all(1)
        if bad.any():
            what = f"{counted(int(bad.sum()), 'row')} of {chunk} {'is' if bad.sum() == 1 else 'are'} not finite once encoded"
            raise fail("fit", what, "correct, drop or fill such rows")
        return np.column_stack([x, y])

    def classes(self, codes: np.ndarray) -> dict[int, int]:
        """How many of these targets are of each class, by its number; nothing where they are no classes."""
        if self.label is None:
            return {}
        found, counts = np.unique(codes.astype(np.int64), return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))


def refuse_infinite(frame: Frame, inputs: Sequence[str], target: str, where: str) -> None:
    """Refuse infinite entries, whatever is done about gaps: they are there, and wrong."""
    for name in (*inputs, target):
        column = frame[name]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f" and np.isinf(column).any():
            what = f"the {'target' if name == target else 'column'} {name!r} is infinite in "
            what += f"{counted(int(np.isinf(column).sum()), 'row')} of {where}"
            raise fail("fit", what, "correct or drop such rows: infinite is not missing")


# batches ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Spool:
    """Where sorted row groups lie, one file each, named by ``mark``: other fits may put theirs into the same folder."""

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
            rows = np.array(numbers[low : offsets[last]])  # one stretch: its experts follow each other
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
        return fail("fit", f"{str(file)!r} does not hold the rows that its experts had", "put the old files back, or fit again")


@dataclass(frozen=True)
class Arrival:
    """Stretches of the table: by expert (row group, first, one past the last), counted among the rows that are of use."""

    reading: Reading
    stretches: tuple[tuple[tuple[Chunk, int, int], ...], ...]
    whole: frozenset[Chunk]  # row groups in which every row is of use

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
    """The rows of some experts, by description: ``experts`` (their numbers), ``rows`` (of each), and where to find them."""

    experts: tuple[int, ...]
    rows: tuple[int, ...]
    where: Spool | Arrival = field(repr=False)

    def __str__(self) -> str:
        first, last = self.experts[0], self.experts[-1]
        which = f"expert {first}" if first == last else f"the experts {first} to {last}"
        return f"{which} ({counted(sum(self.rows), 'row')})"


class Batches(list[Batch]):
    """Batches in the order of their experts; ``left_out``, how many rows have a gap by column (left out, unless gaps are
    kept); ``classes``, rows of each class by its number; ``empty``, experts that got no rows and are in no batch."""

    left_out: dict[str, int]
    classes: dict[int, int]
    empty: tuple[int, ...]


def load(batch: Batch) -> list[Data]:
    """The data of each expert of a batch, in the order of ``batch.experts``."""
    return batch.where.load(batch)


def spread(
    executor: Any,
    source: Parquet,
    *,
    target: str,
    encode: Encode,
    splitter: Any,
    experts: int,
    folder: Any,
    per_batch: int,
    missing: str = "refuse",
    label: Callable[[Any], np.ndarray] | None = None,
    mark: str = "",
    note: Callable[[int, int], Any] | None = None,
) -> Batches:
    """Give every row of a table to an expert; what comes back are descriptions, a few numbers for each.

    Parameters
    ----------
    executor
        Where the work is done.
    source
        The table; its columns but the target are the inputs.
    target
        The column to foretell. Rows in which it is missing are left out, and counted.
    encode
        Inputs as numbers: a frame of n rows to an array (n, d). Must be picklable.
    splitter
        ``splitter.assign(x, key)`` gives the expert of each row; ``key`` is the number of the row group. None: as the data
        arrive, in stretches of equally many rows.
    experts
        How many.
    folder
        Where sorted row groups are put; every worker must reach it. Not needed as the data arrive.
    per_batch
        How many experts travel together.
    missing
        Rows with a gap in an input: ``"refuse"``, ``"drop"``, or ``"keep"`` (the encoding knows what to do).
    label
        Targets as numbers, where they are not.
    mark
        By which the files in the folder are known again.
    note
        Called with (finished, in all) after each row group.
    """
    reading = _reading(source, target, encode, missing, label)
    if experts < 1 or per_batch < 1:
        raise fail("spread", f"{counted(experts, 'expert')} in batches of {per_batch}", "give whole numbers, one or more")
    _enough(experts, source.rows)
    pieces = list(enumerate(source.chunks))
    if splitter is None:
        told = executor.map(_count, pieces, reading, note=note)
    else:
        place = spool.made(folder)
        told = executor.map(_sort, pieces, reading, splitter, experts, str(place), mark, note=note)
    left_out = _gaps_in_all(told, reading, source.rows)
    _enough(experts, sum(t.rows for t in told))
    if splitter is None:
        out = _stretches(source.chunks, [t.rows for t in told], reading, experts, per_batch)
    else:
        files = [range(start, min(start + FILES, len(pieces))) for start in range(0, len(pieces), FILES)]
        rows = np.sum(executor.map(_sizes, files, str(place), mark, experts), axis=0)
        out = _batches(rows, per_batch, lambda _: Spool(str(place), len(pieces), mark))
    out.left_out, out.classes = left_out, _sums([t.classes for t in told])
    return out


def survey(
    executor: Any,
    source: Parquet,
    *,
    target: str,
    encode: Encode,
    experts: int,
    folder: Any = None,
    missing: str = "refuse",
    label: Callable[[Any], np.ndarray] | None = None,
    note: Callable[[int, int], Any] | None = None,
) -> None:
    """Look at every row of a table, so that what :func:`spread` would refuse is refused before other work begins.

    So is a ``folder`` for sorted rows that cannot be made, or that a worker does not reach; None where nothing is sorted.
    """
    reading = _reading(source, target, encode, missing, label)
    _enough(experts, source.rows)
    place = None if folder is None else str(spool.made(folder))
    told = executor.map(_look, list(enumerate(source.chunks)), reading, place, note=note)
    _gaps_in_all(told, reading, source.rows)
    _enough(experts, sum(t.rows for t in told))


def _reading(source: Parquet, target: str, encode: Encode, missing: str, label: Any) -> Reading:
    """How the rows are read, checked against what the footers tell."""
    if missing not in MISSING:
        raise fail("spread", f"missing is {missing!r}", f"choose one of {', '.join(map(repr, MISSING))}")
    source.check([target], "fit")
    reading = Reading(tuple(c for c in source.names if c != target), target, encode, missing, label)
    if not reading.inputs:
        raise fail("fit", f"there is no column but the target {target!r}", "give at least one input")
    source.check(reading.inputs, "fit")
    if missing == "refuse":
        refuse_known_gaps(source, reading.inputs, target)
    return reading


def _sums(counts: Sequence[dict[Any, int]]) -> dict[Any, int]:
    """The counts of all row groups together."""
    found: dict[Any, int] = {}
    for each in counts:
        for name, n in each.items():
            found[name] = found.get(name, 0) + n
    return found


def _gaps_in_all(told: Sequence[Told], reading: Reading, rows: int) -> dict[str, int]:
    """The gaps of all row groups by column; refused, if gaps in inputs are."""
    found = _sums([t.gaps for t in told])
    if reading.missing == "refuse":
        _refuse({c: n for c, n in found.items() if c != reading.target}, rows)
    return found


def refuse_known_gaps(source: Parquet, inputs: Sequence[str], target: str) -> None:
    """Refuse gaps in inputs that the footers of a table know of, before any row is read."""
    told = source.empty([*inputs, target])
    if not told[target]:  # a gap beside a missing target does not count
        _refuse({name: n for name, n in told.items() if n}, source.rows)


def _enough(experts: int, rows: int) -> None:
    if experts > rows:
        raise fail("fit", f"{counted(experts, 'expert')} for {counted(rows, 'row')}", "ask for fewer experts than rows")


def _refuse(gaps: dict[str, int], rows: int) -> None:
    if gaps:
        name, most = max(gaps.items(), key=lambda item: item[1])
        more = f" (and {counted(len(gaps) - 1, 'further column')})" if len(gaps) > 1 else ""
        what = f"the column {name!r} is missing in {most:,} of {counted(rows, 'row')}{more}"
        raise fail("fit", what, "fill the gaps, or use missing='drop' or missing='impute'")


def _batches(rows: np.ndarray, per_batch: int, where: Callable[[Sequence[int]], Any]) -> Batches:
    """Consecutive experts together; those without rows are left out."""
    out = Batches()
    for start in range(0, len(rows), per_batch):
        inside = tuple(int(e) for e in range(start, min(start + per_batch, len(rows))) if rows[e])
        if inside:
            out.append(Batch(inside, tuple(int(rows[e]) for e in inside), where(inside)))
    out.empty = tuple(int(e) for e in np.flatnonzero(rows == 0))
    return out


def _stretches(chunks: Sequence[Chunk], rows: list[int], reading: Reading, experts: int, per_batch: int) -> Batches:
    """Consecutive rows in equal parts: row groups that are larger are cut, smaller ones are joined."""
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
    """What is told of a row group, none of whose inputs is encoded."""
    frame = read(piece[1], [*reading.inputs, reading.target])
    keep, gaps = reading.usable(frame)
    codes = np.empty(0) if reading.label is None or not keep.any() else reading.label(frame[reading.target][keep])
    return Told(int(keep.sum()), gaps, reading.classes(codes))


def _look(piece: tuple[int, Chunk], reading: Reading, folder: str | None) -> Told:
    """The same without the classes, and whether these rows can be encoded, and written where they will be."""
    chunk = piece[1]
    if folder is not None:
        spool.reached(folder)
    frame = read(chunk, [*reading.inputs, reading.target])
    keep, gaps = reading.usable(frame)
    if keep.any():
        reading.numbers(frame[keep], chunk)
    return Told(int(keep.sum()), gaps, {})


def _sort(piece: tuple[int, Chunk], reading: Reading, splitter: Any, experts: int, folder: str, mark: str) -> Told:
    """Put a row group into the spool, sorted by expert, unless an earlier try has: what is told of it."""
    number, chunk = piece
    if (before := _sorted_before(folder, number, mark, reading, experts)) is not None:
        return before
    frame = read(chunk, [*reading.inputs, reading.target])
    keep, gaps = reading.usable(frame)
    if reading.missing == "refuse" and gaps.keys() - {reading.target}:
        return Told(0, gaps, {})  # the whole will be refused, with what the others find
    spool.reached(folder)
    numbers = reading.numbers(frame[keep], chunk) if keep.any() else np.empty((0, 0))
    owner = np.asarray(splitter.assign(numbers[:, :-1], number), np.int64) if len(numbers) else np.empty(0, np.int64)
    if len(owner) != len(numbers) or (len(owner) and not 0 <= owner.min() <= owner.max() < experts):
        raise fail("spread", f"the splitter gave experts outside 0 to {experts - 1}", "fit it for so many experts")
    counts = np.bincount(owner, minlength=experts)
    numbers = np.ascontiguousarray(numbers[np.argsort(owner, kind="stable")])
    spool.put(folder, number, mark, Sorted(numbers, np.concatenate([[0], np.cumsum(counts)]), gaps))
    return Told(len(numbers), gaps, reading.classes(numbers[:, -1]) if len(numbers) else {})


def _sorted_before(folder: str, number: int, mark: str, reading: Reading, experts: int) -> Told | None:
    """What is told of a row group that was put into the spool before the work was broken off; None if it was not."""
    if not mark or not spool.place(folder, number, mark).exists():
        return None
    try:
        numbers, _, gaps = spool.get(folder, number, mark, experts)
    except CovaryError:
        return None
    return Told(len(numbers), gaps, reading.classes(numbers[:, -1]) if len(numbers) else {})


def _sizes(files: range, folder: str, mark: str, experts: int) -> np.ndarray:
    """How many rows every expert has in some files of the spool: summed here, so that millions of experts can be counted."""
    rows = np.zeros(experts, np.int64)
    for number in files:
        rows += np.diff(spool.get(folder, number, mark, experts).offsets)
    return rows
