"""Committees in model files: the rows of each expert, and the partition that assigns new inputs to experts.

Rows in memory are stored in the file, rows on disk by location (:mod:`covary.families.gaussian_process.dealt`).
"""

from __future__ import annotations

import numpy as np

from covary.committee.experts import Experts
from covary.committee.members import Members
from covary.committee.partition import Centres, Random, Tree
from covary.committee.settings import Committee, posterior
from covary.committee.shuffle import Spool
from covary.data import Data
from covary.families.gaussian_process.committee_settings import MOST, agree
from covary.families.gaussian_process.dealt import Splitter, dealt_in, dealt_out
from covary.files.pages import Page, whole
from covary.fits import Fit
from covary.inference.base import AbstractInference
from covary.model import Model
from covary.parameters import Packing
from covary.posterior import Combination
from covary.selection.learned import Learned


def experts_out(
    post: Combination[Members], learned: Learned | None, committee: Committee
) -> tuple[Page, dict[str, np.ndarray]]:
    """Return the rows of each expert as a record and arrays."""
    settled = post.experts.settled
    record: Page = {}
    if isinstance(settled, Experts):
        arrays = _rows_out(settled)
    else:
        record["dealt"], arrays = dealt_out(settled, committee.folder)
    kind, held = _splitter_out(settled.splitter)
    arrays |= {f"part_{name}": a for name, a in held.items()}
    if learned is not None and learned.thetas is not None:
        arrays["expert_thetas"] = learned.thetas
    elif learned is not None:
        arrays["hessian"] = learned.hessian
    return record | {"partition": kind}, arrays


def _rows_out(settled: Experts) -> dict[str, np.ndarray]:
    """Return the row indices of each expert as arrays."""
    arrays = {
        "expert_rows": np.concatenate(settled.rows) if settled.rows else np.empty(0, np.int64),
        "expert_sizes": np.array([len(rows) for rows in settled.rows], np.int64),
    }
    return arrays if settled.shared is None else arrays | {"expert_shared": settled.shared}


def _splitter_out(splitter: Splitter | None) -> tuple[list[str | int] | None, dict[str, np.ndarray]]:
    if isinstance(splitter, Centres):
        return ["centres"], {"unit": splitter.unit, "centres": splitter.centres, "handicap": splitter.handicap}
    if isinstance(splitter, Tree):
        fields = ("column", "threshold", "left", "right", "unit")
        return ["tree", splitter.experts], {name: getattr(splitter, name) for name in fields}
    if isinstance(splitter, Random):
        return ["random", splitter.experts, splitter.seed], {}
    return None, {}


def _splitter_in(record: list[str | int] | None, arrays: dict[str, np.ndarray], columns: int) -> Splitter | None:
    """Return the partition written by :func:`_splitter_out`, validated."""
    if record is None:
        return None
    held = {name[len("part_") :]: a for name, a in arrays.items() if name.startswith("part_")}
    if record[0] == "centres":
        found = Centres(held["unit"], held["centres"], held["handicap"])
        k = len(found.centres)
        agree(found.centres.shape == (k, columns) and found.unit.shape == (columns,) and found.handicap.shape == (k,))
        return found
    experts = whole(record[1], MOST, 1)
    if record[0] == "tree":
        column, left, right = (held[name].astype(np.int64) for name in ("column", "left", "right"))
        nodes = np.arange(len(column))
        inner = column >= 0
        agree(column.shape == left.shape == right.shape == held["threshold"].shape and (column < columns).all())
        agree(bool((left[inner] > nodes[inner]).all() and (right[inner] > nodes[inner]).all()))  # no cycles
        agree(bool((left < len(column)).all() and (right < len(column)).all() and (-column[~inner] <= experts).all()))
        agree(held["unit"].shape == (columns,))
        return Tree(column, held["threshold"], left, right, experts, held["unit"])
    agree(record[0] == "random")
    return Random(experts, whole(record[2], 2**63))


def experts_in(
    record: Page, arrays: dict[str, np.ndarray], committee: Committee, data: Data, fit: Fit[None], beside: str
) -> Committee:
    """Return the committee with its original assignment of rows to experts.

    Parameters
    ----------
    record, arrays
        The output of :func:`experts_out`.
    committee, data
        The settings of the committee, and the rows in the file.
    fit
        A fit with the columns and classes used to convert rows on disk to numbers.
    beside
        The folder of the model file, where rows on disk are also searched for.
    """
    splitter = _splitter_in(record["partition"], arrays, data.X.columns)
    if "dealt" in record:
        settled = dealt_in(record["dealt"], arrays, splitter, fit, beside)
        where = (settled.first or settled.batches[0]).where
        folder = where.folder if isinstance(where, Spool) else None  # of its rows; files determine no other output folder
        return committee.replace(settled=settled, folder=folder)
    rows, sizes = arrays["expert_rows"].astype(np.int64), arrays["expert_sizes"].astype(np.int64)
    shared = arrays.get("expert_shared")
    shared = None if shared is None else shared.astype(np.int64)
    every = rows if shared is None else np.concatenate([rows, shared])
    agree(bool((sizes >= 0).all()) and int(sizes.sum()) == len(rows))
    agree(len(every) == data.rows and bool((np.sort(every) == np.arange(data.rows)).all()))
    parts = np.split(rows, np.cumsum(sizes)[:-1]) if len(sizes) else []
    return committee.replace(settled=Experts(list(parts), shared, splitter))


def committee_again(
    committee: Committee,
    arrays: dict[str, np.ndarray],
    model: Model,
    data: Data,
    inference: AbstractInference,
    packing: Packing[Model] | None,
    said: tuple[float, str],
) -> Combination[Members]:
    """Return the posterior of a committee read from a file; experts condition on their rows again, lazily if on disk.

    ``said`` is the evidence and the status of inference in the file.
    """
    settled = committee.divided
    models = model
    if "expert_thetas" in arrays:
        thetas = arrays["expert_thetas"]
        agree(packing is not None and thetas.shape == (len(settled.numbers()), packing.size))
        assert packing is not None
        models = {k: packing.unpack(theta) for k, theta in zip(settled.numbers(), thetas, strict=True)}
    known = None if isinstance(settled, Experts) else said  # avoids reading rows on disk before they are needed
    return posterior(committee, model, models, data, committee.held(data), settled.common(data), inference, known)
