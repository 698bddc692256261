"""``method="auto"``: which way of handling K suits a table, by the rules of one list, and the sentence that says so.

The first rule that fits is taken; ``docs/large_n.md`` prints the same list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._checks import fail
from covary._words import counted
from covary.committee.settings import Committee
from covary.data import Data
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.low_rank import LowRank
from covary.gram.markov import Markov
from covary.gram.state_space import representable
from covary.gram.subset import Subset
from covary.gram.vecchia import Vecchia
from covary.inference.base import AbstractInference
from covary.inference.exact import Exact
from covary.inference.svgp import SVGP
from covary.likelihoods.gaussian import Gaussian
from covary.optimise.clock import Clock
from covary.parameters import Packing

EXACT_ROWS = 10_000  # under Gaussian noise; a fit then takes minutes on two cores
EXACT_OTHERS = 3_000  # under another likelihood: several factorisations for every one of exact inference
MARKOV_ROWS = 2_000  # below which a dense fit is done sooner than the filter is compiled
NEIGHBOURS = 30
NEIGHBOUR_COLUMNS = 3  # inputs like places, in which near rows tell most
QUIET = 0.8  # the share of noise up to which near rows may tell more than a smooth surface through inducing inputs
SHARE = 0.1  # of the time for a fit that may go into that judgement
SAMPLE = 800  # rows from which that share is judged
INDUCING = 500
MEMORY_SHARE = 0.7  # of what is free that a fit may take

NAMES = ("auto", "exact", "low_rank", "svgp", "vecchia", "markov", "subset", "committee")


@dataclass(frozen=True)
class Choice:
    """How a table is handled: the gram, the inference, its name, and why."""

    name: str
    gram: AbstractGram
    inference: AbstractInference
    why: str


def choose(
    who: str,
    method: Any,
    model: Any,
    data: Data,
    inference: AbstractInference,
    *,
    free: int,
    given: bool,
    clock: Clock | None = None,
) -> Choice:
    """What ``method`` stands for with this model and these data.

    Parameters
    ----------
    who
        Whose error messages.
    method
        A name of :data:`NAMES`, or a gram.
    model, data
        What will be learned from what.
    inference
        What the user asked for, or what the likelihood suggests.
    free
        Bytes of memory to be had.
    given
        Whether the user asked for this inference by name: it is then not exchanged.
    clock
        The time there is for the whole fit; no limit by default.
    """
    if isinstance(method, AbstractGram):
        name = "committee" if isinstance(method, Committee) else type(method).__name__
        return Choice(name, method, inference, "you asked for it")
    if method not in NAMES:
        raise fail(who, f"method is {method!r}", f"choose one of {', '.join(map(repr, NAMES))}, or give a gram")
    if method != "auto":
        return _named(method, inference)
    n, gaussian = data.rows, isinstance(model.likelihood, Gaussian)
    one = model.likelihood.latents == 1
    dense = need(model, data)
    why = counted(n, "row")
    markov = data.X.columns == 1 and not data.X.tags and len(model.prior.kernels) == 1 and representable(model.kernel)
    plain = gaussian or (one and model.likelihood.log_concave)
    if markov and plain and n > MARKOV_ROWS and not isinstance(inference, SVGP):
        return Choice("markov", Markov(), inference, f"{why} on one input and a kernel with a state space form: exact in O(n)")
    limit = EXACT_ROWS if gaussian else EXACT_OTHERS
    if not isinstance(inference, SVGP) and n <= _rows_for(model, limit) and dense <= MEMORY_SHARE * free:
        return Choice("exact", Dense(), inference, f"{why}: the whole matrix fits in memory and is soon done")
    if (gaussian or one) and not isinstance(inference, SVGP) and crowd(data) > MEMORY_SHARE * free:
        what = f"{why}, more than neighbours or inducing inputs find room for: parted among experts"
        return Choice("committee", Committee(partition="kd_tree"), inference, what)
    if gaussian and isinstance(inference, Exact):
        if data.X.columns <= NEIGHBOUR_COLUMNS:
            return Choice("vecchia", Vecchia(NEIGHBOURS), inference, f"{why} on few inputs: each given its nearest neighbours")
        share = noise_share(model, data, clock)
        said = f"{why}, of whose scatter {100 * share:.0f} % looks like noise in a sample"
        if share <= QUIET:
            return Choice("vecchia", Vecchia(NEIGHBOURS), inference, f"{said}: each given its nearest neighbours")
        return Choice("low_rank", LowRank(INDUCING, rule="vfe"), inference, f"{said}: through {INDUCING} inducing inputs")
    if given and one and not isinstance(inference, SVGP):
        return Choice("low_rank", LowRank(INDUCING), inference, f"{why}: {type(inference).__name__} through inducing inputs")
    return Choice(
        "svgp",
        LowRank(INDUCING),
        _batches(inference),
        f"{why} under a {type(model.likelihood).__name__} likelihood: variational, in batches",
    )


def noise_share(model: Any, data: Data, clock: Clock | None = None) -> float:
    """How much of the scatter of y a quick fit to a sample calls noise; it takes at most a tenth of the time there is."""
    from covary.selection.learn import learn
    from covary.selection.starts import target_scale

    rows = np.sort(np.random.default_rng(0).permutation(data.rows)[:SAMPLE])
    some = data.take(rows)
    if not Packing(model).size:
        return float(np.mean(model.likelihood.variance)) / target_scale(some) ** 2
    limit = None if clock is None or clock.end is None else SHARE * max(clock.left(), 0.0)
    return float(np.mean(learn(model, some, max_time=limit).likelihood.variance)) / target_scale(some) ** 2


def _named(method: str, inference: AbstractInference) -> Choice:
    why = "you asked for it"
    if method == "svgp":
        return Choice(method, LowRank(INDUCING), _batches(inference), why)
    grams = {"exact": Dense, "low_rank": lambda: LowRank(INDUCING), "vecchia": lambda: Vecchia(NEIGHBOURS), "markov": Markov}
    grams |= {"subset": lambda: Subset(EXACT_OTHERS), "committee": Committee}
    return Choice(method, grams[method](), inference, why)


def _batches(inference: AbstractInference) -> AbstractInference:
    """The user's own variational inference, or the plain one."""
    return inference if isinstance(inference, SVGP) else SVGP()


def _rows_for(model: Any, limit: int) -> int:
    """The rows of C coupled functions that cost as much as so many of one: C n³."""
    return int(limit / model.likelihood.latents ** (1 / 3))


def crowd(data: Data) -> int:
    """Bytes that neighbours or inducing inputs take at their peak, besides the rows."""
    return (4 * NEIGHBOURS + 2 * data.X.columns) * data.rows * data.dtype.itemsize


def need(model: Any, data: Data) -> int:
    """Bytes of a dense fit at its peak."""
    from covary.inference.condition import dense_buffers

    return dense_buffers(model) * data.rows**2 * data.dtype.itemsize
