"""Experts with rows on disk, in model files: the location of the rows, and signatures to detect changes."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from covary._checks import fail, shown
from covary._errors import Option
from covary._read import open_plain
from covary.committee.expert import expert
from covary.committee.experts import Dealt, group_of
from covary.committee.members import Members
from covary.committee.partition import Centres, Random, Tree
from covary.committee.shuffle import Arrival, Batch, Reading, Spool
from covary.committee.spool import spool_files
from covary.data import Inputs
from covary.families.gaussian_process.committee_settings import MOST, agree
from covary.files.pages import Page, whole
from covary.fits import Fit
from covary.tables.codes import Codes, Encoder
from covary.tables.parquet import SUFFIXES, Chunk

Splitter = Centres | Tree | Random

ENDS = 4096  # bytes at either end of a file that enter its checksum


def dealt_out(settled: Dealt, folder: str | None) -> tuple[Page, dict[str, np.ndarray]]:
    """Return the location of the rows of every expert as a record and arrays.

    Parameters
    ----------
    settled
        The assignment of rows to experts.
    folder
        The folder given for sorted rows; None if they are in a temporary one.
    """
    every = ([] if settled.first is None else [settled.first]) + list(settled.batches)
    where = every[0].where
    if isinstance(where, Spool) and folder is None:
        what = "the rows of its experts are in a temporary folder, which is removed with the model"
        raise fail("save", what, "fit again with a permanent folder: " + Option("folder", "..."))
    arrays = {
        "expert_batches": np.array([len(batch.experts) for batch in every], np.int64),
        "expert_numbers": np.array([number for batch in every for number in batch.experts], np.int64),
        "expert_sizes": np.array([rows for batch in every for rows in batch.rows], np.int64),
    }
    if isinstance(where, Spool):
        record: Page = {"folder": where.folder, "files": where.files, "mark": where.mark}
        files = spool_files(where.folder, where.files, where.mark)
    else:
        record, own = _arrival_out([batch.where for batch in every])  # type: ignore[misc]
        files, arrays = record["files"], arrays | own
    try:
        arrays["expert_files"] = np.array([signature(file) for file in files], np.int64).reshape(-1, 2)
    except OSError as error:
        raise fail("save", f"the rows of its experts cannot be read ({error})", "fit again") from None
    record |= {
        "common": settled.first is not None,
        "shift": settled.shift,
        "merge": settled.merge,
        "left_out": dict(settled.left_out),
    }
    return record, arrays


def _arrival_out(places: Sequence[Arrival]) -> tuple[Page, dict[str, np.ndarray]]:
    """Return ranges of row groups: files by name, everything else as numbers."""
    chunks = list(dict.fromkeys(chunk for place in places for part in place.stretches for chunk, _, _ in part))
    files = list(dict.fromkeys(chunk.file for chunk in chunks))
    number, whole = {chunk: i for i, chunk in enumerate(chunks)}, set().union(*(place.whole for place in places))
    parts = [part for place in places for part in place.stretches]
    reading = places[0].reading
    record = {
        "files": files,
        "inputs": list(reading.inputs),
        "target": reading.target,
        "missing": reading.missing,
        "labels": reading.label is not None,
    }
    return record, {
        "chunks": np.array([[files.index(c.file), c.group, c.rows, c in whole] for c in chunks], np.int64),
        "stretch_counts": np.array([len(part) for part in parts], np.int64),
        "stretches": np.array([[number[c], a, b] for part in parts for c, a, b in part], np.int64).reshape(-1, 3),
    }


def signature(file: str | Path) -> tuple[int, int]:
    """Return the size of a file and a checksum of its two ends, which differ for another table, target or partition."""
    with open_plain(file) as handle:
        head = handle.read(ENDS)
        size = handle.seek(0, 2)
        handle.seek(max(0, size - ENDS))
        return size, zlib.crc32(handle.read(ENDS), zlib.crc32(head))


# back ---------------------------------------------------------------------------------------------------------------
def dealt_in(record: Page, arrays: dict[str, np.ndarray], splitter: Splitter | None, fit: Fit[None], beside: str) -> Dealt:
    """Return the assignment written by :func:`dealt_out`; files are checked, and also searched for next to the model."""
    counts, numbers, sizes = (arrays[name].astype(np.int64) for name in ("expert_batches", "expert_numbers", "expert_sizes"))
    agree(counts.ndim == numbers.ndim == 1 and numbers.shape == sizes.shape and len(counts) > 0 and (counts > 0).all())
    agree(counts.sum() == len(numbers) and numbers.min() >= 0 and numbers.max() < MOST and (sizes > 0).all())
    cuts = np.cumsum(counts)[:-1]
    pairs = list(zip(np.split(numbers, cuts), np.split(sizes, cuts), strict=True))
    agree(all((np.diff(mine) > 0).all() for mine, _ in pairs))
    if "folder" in record:
        files, mark = whole(record["files"], len(arrays["expert_files"]), 1), str(record.get("mark", ""))
        agree(re.fullmatch("[0-9a-f]{0,64}", mark))
        folder = _found(str(record["folder"]), beside)
        _unchanged(spool_files(folder, files, mark), arrays["expert_files"])
        places: list[Spool] | list[Arrival] = [Spool(folder, files, mark)] * len(counts)
    else:
        places = _arrival_in(record, arrays, counts, fit, beside)
    batches = [
        Batch(tuple(map(int, mine)), tuple(map(int, rows)), place) for (mine, rows), place in zip(pairs, places, strict=True)
    ]
    common = bool(record["common"])
    left_out = {str(name): whole(n, 2**53) for name, n in record["left_out"].items()}
    first = batches[0] if common else None
    agree(whole(record["shift"], 1) in (int(common), 1))
    return Dealt(tuple(batches[common:]), first, splitter, bool(record["merge"]), left_out, record["shift"])


def _arrival_in(record: Page, arrays: dict[str, np.ndarray], counts: np.ndarray, fit: Fit[None], beside: str) -> list[Arrival]:
    columns, who = fit.columns, fit.origin.estimator or fit.family
    inputs, target = tuple(map(str, record["inputs"])), str(record["target"])
    agree(set(inputs) == {column.name for column in columns.each} and target not in inputs)
    agree(record["missing"] in ("refuse", "drop", "keep"))
    label = Codes(fit.classes.values, target, who) if fit.classes is not None and record["labels"] else None
    reading = Reading(inputs, target, Encoder(columns, who), str(record["missing"]), label)
    files = [_found(str(file), beside) for file in record["files"]]
    agree(all(Path(file).suffix.lower() in SUFFIXES for file in files))
    _unchanged(files, arrays["expert_files"])
    table, stretches, per_expert = (arrays[name].astype(np.int64) for name in ("chunks", "stretches", "stretch_counts"))
    agree(table.ndim == stretches.ndim == 2 and table.shape[1] == 4 and stretches.shape[1] == 3)
    agree((table >= 0).all() and (table[:, 0] < len(files)).all() and len(per_expert) == counts.sum())
    agree(per_expert.sum() == len(stretches) and (stretches >= 0).all() and (stretches[:, 0] < len(table)).all())
    chunks = [Chunk(files[file], int(group), int(rows)) for file, group, rows, _ in table]
    whole = {chunk for chunk, flag in zip(chunks, table[:, 3], strict=True) if flag}
    parts = [tuple((chunks[c], int(a), int(b)) for c, a, b in part) for part in np.split(stretches, np.cumsum(per_expert)[:-1])]
    ends = np.concatenate([[0], np.cumsum(counts)])
    mine = [tuple(parts[a:b]) for a, b in pairwise(ends)]
    return [Arrival(reading, own, frozenset(c for part in own for c, _, _ in part if c in whole)) for own in mine]


def _found(path: str, beside: str | None) -> str:
    """Return the path of a file or folder: the original one, or that of the same name next to the model file."""
    moved = None if beside is None else Path(beside) / Path(path).name
    return str(moved) if moved is not None and not os.path.exists(path) and os.path.exists(moved) else path


def _unchanged(files: Sequence[str], known: np.ndarray) -> None:
    """Raise an error if files are missing or have changed since the model was saved."""
    agree(known.shape == (len(files), 2))
    for file, was in zip(files, known.tolist(), strict=True):
        try:
            now = signature(file)
        except OSError as error:
            what = f"the rows of its experts should be in {shown(str(file), 300)}, which cannot be read ({error.strerror})"
            raise fail("load", what, "restore them, put them next to the model file, or fit again") from None
        if list(now) != was:
            what = f"{str(file)!r}, which holds rows of its experts, has changed since the model was saved"
            raise fail("load", what, "restore the old file, or fit again")


def first_opinion(members: Members, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Return the predictions of the first expert alone, to check a file without using all experts."""
    if not members.held.items:
        assert members.common is not None
        said = members.common.latent(X)
        return said.mean, said.std
    group = group_of(members.held.items[0])
    models = members.models
    model = models[group.numbers[0]] if isinstance(models, dict) else models
    said = expert(group.rows[0], model, members.recipe, None).latent(X)
    return said.mean, said.std
