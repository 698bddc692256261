"""Experts whose rows are on disk, in model files: where the rows lie, and what tells that they are still the same."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from covary._checks import fail, shown
from covary._read import open_plain
from covary.committee.bound import CommitteeBound, CommitteeFactor
from covary.committee.expert import Recipe, expert
from covary.committee.experts import Dealt, collect
from covary.committee.settings import Committee
from covary.committee.shuffle import Arrival, Batch, Reading, Spool
from covary.committee.sources import SUFFIXES, Chunk
from covary.committee.spool import spool_files
from covary.data import Data, Inputs
from covary.estimators.entries import agree, whole
from covary.estimators.tables import Codes, Encoder
from covary.inference.base import Solved
from covary.inference.exact import residual
from covary.likelihoods.gaussian import Gaussian
from covary.posterior import Posterior

ENDS = 4096  # bytes at either end of a file that are looked at
MOST = 2**31  # rows, experts and files that a description may speak of


def dealt_out(settled: Dealt, folder: str | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Where the rows of every expert lie, as record and arrays.

    Parameters
    ----------
    settled
        Who has which rows.
    folder
        The folder that was given for sorted rows; None if they are in a temporary one.
    """
    every = ([] if settled.first is None else [settled.first]) + list(settled.batches)
    where = every[0].where
    if isinstance(where, Spool) and folder is None:
        what = "the rows of its experts are in a temporary folder, which ends with the model"
        raise fail("save", what, "fit again with a folder that stays: Committee(folder='...')")
    arrays = {
        "expert_batches": np.array([len(batch.experts) for batch in every], np.int64),
        "expert_numbers": np.array([number for batch in every for number in batch.experts], np.int64),
        "expert_sizes": np.array([rows for batch in every for rows in batch.rows], np.int64),
    }
    if isinstance(where, Spool):
        record: dict[str, Any] = {"folder": where.folder, "files": where.files, "mark": where.mark}
        files = spool_files(where.folder, where.files, where.mark)
    else:
        record, own = _arrival_out([batch.where for batch in every])  # type: ignore[misc]
        files, arrays = record["files"], arrays | own
    try:
        arrays["expert_files"] = np.array([signature(file) for file in files], np.int64).reshape(-1, 2)
    except OSError as error:
        raise fail("save", f"the rows of its experts are gone ({error})", "fit again") from None
    record |= {
        "common": settled.first is not None,
        "shift": settled.shift,
        "merge": settled.merge,
        "left_out": dict(settled.left_out),
    }
    return record, arrays


def _arrival_out(places: Sequence[Arrival]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Stretches of row groups: the files by name, everything else as numbers."""
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
    """Size of a file and a checksum of its two ends: another table, target or partition changes them."""
    with open_plain(file) as handle:
        head = handle.read(ENDS)
        size = handle.seek(0, 2)
        handle.seek(max(0, size - ENDS))
        return size, zlib.crc32(handle.read(ENDS), zlib.crc32(head))


# back ---------------------------------------------------------------------------------------------------------------
def dealt_in(record: dict[str, Any], arrays: dict[str, np.ndarray], splitter: Any, estimator: Any, beside: str | None) -> Dealt:
    """What :func:`dealt_out` wrote, after a look at the files: what has moved along with the model is found beside it."""
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
        places: list[Any] = [Spool(folder, files, mark)] * len(counts)
    else:
        places = _arrival_in(record, arrays, counts, estimator, beside)
    batches = [
        Batch(tuple(map(int, mine)), tuple(map(int, rows)), place) for (mine, rows), place in zip(pairs, places, strict=True)
    ]
    common = bool(record["common"])
    left_out = {str(name): whole(n, 2**53) for name, n in record["left_out"].items()}
    first = batches[0] if common else None
    agree(whole(record["shift"], 1) in (int(common), 1))
    return Dealt(tuple(batches[common:]), first, splitter, bool(record["merge"]), left_out, record["shift"])


def _arrival_in(
    record: dict[str, Any], arrays: dict[str, np.ndarray], counts: np.ndarray, estimator: Any, beside: str | None
) -> list[Arrival]:
    columns, who = estimator.columns_, type(estimator).__name__
    inputs, target = tuple(map(str, record["inputs"])), str(record["target"])
    agree(set(inputs) == {column.name for column in columns.each} and target not in inputs)
    agree(record["missing"] in ("refuse", "drop", "keep"))
    label = Codes(estimator.classes_, target, who) if record["labels"] else None
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
    """Where a file or folder is now: where it was, else beside the model file under its own name."""
    moved = None if beside is None else Path(beside) / Path(path).name
    return str(moved) if moved is not None and not os.path.exists(path) and os.path.exists(moved) else path


def _unchanged(files: Sequence[str], known: np.ndarray) -> None:
    """Refuse files that are gone, or that are not those the model was fitted to."""
    agree(known.shape == (len(files), 2))
    for file, was in zip(files, known.tolist(), strict=True):
        try:
            now = signature(file)
        except OSError as error:
            what = f"the rows of its experts should be in {shown(str(file), 300)}, which cannot be read ({error.strerror})"
            raise fail("load", what, "put them back, or beside the model file, or fit again") from None
        if list(now) != was:
            what = f"{str(file)!r}, which holds rows of its experts, has changed since the model was saved"
            raise fail("load", what, "put the old file back, or fit again")


def dealt_again(
    committee: Committee, models: Any, model: Any, data: Data, inference: Any, evidence: float, status: str
) -> Posterior:
    """The posterior of a committee whose rows are on disk: its experts are asked for nothing yet."""
    held, common = committee.held(data), committee.settled.common(data)
    recipe = Recipe(inference, committee.gram)
    bound = CommitteeBound(
        committee.combined, model, models, held, recipe, common, data.X, committee.settled, committee.nearest
    )
    gaussian = isinstance(model.likelihood, Gaussian)
    sites = model.likelihood.sites(data) if gaussian else None  # type: ignore[attr-defined]
    shift = residual(model, data) if gaussian else np.zeros(data.rows)
    return Posterior(model, data, bound, Solved(CommitteeFactor(sites), shift, np.empty(0), evidence, status))


def first_opinion(bound: CommitteeBound, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """What the first expert alone says of some inputs: a check of a file that does not ask them all."""
    if not bound.held.items:
        assert bound.common is not None
        said = bound.common.latent(X)
        return said.mean, said.std
    group = collect(bound.held.items[0])
    models = bound.models
    model = models[group.numbers[0]] if isinstance(models, dict) else models
    said = expert(group.rows[0], model, bound.recipe, None).latent(X)
    return said.mean, said.std
