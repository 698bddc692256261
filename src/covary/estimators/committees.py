"""Committees in model files: who has which rows, by what rule, and the partition that tells whose a new input is.

Rows at hand are in the file; of rows on disk it says where they lie (:mod:`covary.estimators.dealt`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covary._checks import fail
from covary.committee.bound import CommitteeBound
from covary.committee.experts import Experts
from covary.committee.partition import Centres, Random, Tree
from covary.committee.rules import RULES, AbstractRule, GPoE, as_rule
from covary.committee.settings import Committee, posterior
from covary.data import Data
from covary.estimators.dealt import MOST, dealt_again, dealt_in, dealt_out
from covary.estimators.entries import agree, whole
from covary.gram.base import AbstractGram


def encode_committee(committee: Committee, gram: Any) -> dict[str, Any]:
    """A committee's own settings; ``gram`` writes that of its experts."""
    rule = as_rule(committee.rule)
    name = next((text for text, kind in RULES.items() if type(rule) is kind), None)
    if name is None:
        raise fail("save", f"the rule is {rule!r}", "use a rule of covary's own")
    return {
        "type": "Committee",
        "experts": None if committee.experts is None else int(committee.experts),
        "rule": name,
        "weights": rule.weights if isinstance(rule, GPoE) else None,
        "partition": str(committee.partition),
        "names": None if committee.names is None else list(committee.names),
        "learning": str(committee.learning),
        "nearest": None if committee.nearest is None else int(committee.nearest),
        "gram": gram(committee.gram),
    }


def decode_committee(record: dict[str, Any], gram: Any) -> Committee:
    """What :func:`encode_committee` wrote."""
    name, weights = str(record["rule"]), record["weights"]
    rule: AbstractRule | str = GPoE(str(weights)) if name == "gpoe" and weights not in (None, "equal") else name
    as_rule(rule, "load")
    experts = record["experts"]
    inner: AbstractGram = gram(record["gram"])
    found = Committee(
        None if experts is None else whole(experts, MOST),
        rule=rule,
        partition=str(record["partition"]),
        names=None if record.get("names") is None else tuple(map(str, record["names"])),
        learning=str(record["learning"]),
        nearest=None if record.get("nearest") is None else whole(record["nearest"], MOST),
        gram=inner,
    )
    found.check(1 if experts is None else experts)
    return found


def experts_out(post: Any, learned: Any, committee: Committee) -> tuple[dict[str, Any], dict[str, Any]]:
    """Who has which rows, as record and arrays."""
    bound: CommitteeBound = post.bound
    settled = bound.settled
    record: dict[str, Any] = {}
    if isinstance(settled, Experts):
        arrays = _rows_out(settled)
    else:
        record["dealt"], arrays = dealt_out(settled, committee.folder)
    kind, held = _splitter_out(settled.splitter)
    arrays |= {f"part_{name}": a for name, a in held.items()}
    own = getattr(learned, "start", None)
    if isinstance(own, dict) and "thetas" in own:
        arrays["expert_thetas"] = own["thetas"]
    elif learned is not None:
        arrays["hessian"] = learned.hessian
    return record | {"partition": kind}, arrays


def _rows_out(settled: Experts) -> dict[str, Any]:
    """The rows of every expert, by their numbers."""
    arrays = {
        "expert_rows": np.concatenate(settled.rows) if settled.rows else np.empty(0, np.int64),
        "expert_sizes": np.array([len(rows) for rows in settled.rows], np.int64),
    }
    return arrays if settled.shared is None else arrays | {"expert_shared": settled.shared}


def _splitter_out(splitter: Any) -> tuple[Any, dict[str, Any]]:
    if isinstance(splitter, Centres):
        return ["centres"], {"unit": splitter.unit, "centres": splitter.centres, "handicap": splitter.handicap}
    if isinstance(splitter, Tree):
        fields = ("column", "threshold", "left", "right", "unit")
        return ["tree", splitter.experts], {name: getattr(splitter, name) for name in fields}
    if isinstance(splitter, Random):
        return ["random", splitter.experts, splitter.seed], {}
    return None, {}


def _splitter_in(record: Any, arrays: dict[str, np.ndarray], columns: int) -> Any:
    """The partition that :func:`_splitter_out` wrote, sound enough to be asked."""
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
        agree(bool((left[inner] > nodes[inner]).all() and (right[inner] > nodes[inner]).all()))  # no way leads back
        agree(bool((left < len(column)).all() and (right < len(column)).all() and (-column[~inner] <= experts).all()))
        agree(held["unit"].shape == (columns,))
        return Tree(column, held["threshold"], left, right, experts, held["unit"])
    agree(record[0] == "random")
    return Random(experts, whole(record[2], 2**63))


def experts_in(
    record: dict[str, Any], arrays: dict[str, np.ndarray], committee: Committee, data: Data, estimator: Any, beside: Any
) -> Committee:
    """The committee with every row given to the expert that had it.

    Parameters
    ----------
    record, arrays
        What :func:`experts_out` wrote.
    committee, data
        The settings, and the rows in the file.
    estimator
        Whose columns and classes say how rows on disk become numbers.
    beside
        The folder of the model file, if it is known: rows on disk that have moved along with it are found there.
    """
    splitter = _splitter_in(record["partition"], arrays, data.X.columns)
    if "dealt" in record:
        settled = dealt_in(record["dealt"], arrays, splitter, estimator, beside)
        where = (settled.first or settled.batches[0]).where
        folder = getattr(where, "folder", None)  # where its rows are; a file names no other to write to
        if folder is not None and isinstance(estimator.method, Committee):
            estimator.method = estimator.method.replace(folder=folder)
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
    model: Any,
    data: Data,
    inference: Any,
    packing: Any,
    said: tuple[float, str],
) -> Any:
    """The posterior of a committee read from a file: every expert conditions on its rows again, if they are on disk when asked.

    ``said`` is the evidence in the file, and how inference ended.
    """
    settled = committee.settled
    models = model
    if "expert_thetas" in arrays:
        thetas = arrays["expert_thetas"]
        agree(packing is not None and thetas.shape == (len(settled.numbers()), packing.size))
        assert packing is not None
        models = {k: packing.unpack(theta) for k, theta in zip(settled.numbers(), thetas, strict=True)}
    if not isinstance(settled, Experts):
        return dealt_again(committee, models, model, data, inference, *said)
    common = settled.common(data)
    return posterior(committee, model, models, data, committee.held(data), common, inference)
