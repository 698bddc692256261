"""Levels of a search, from few rows to all: what is evaluated on each, for every way of handling K."""

from __future__ import annotations

from typing import Any

import numpy as np

from covary._precision import precision
from covary.data import Data
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.low_rank import LowRank
from covary.gram.subset import Subset
from covary.inference.ep import EP
from covary.inference.exact import Exact
from covary.inference.laplace import Laplace
from covary.inference.svgp import SVGP
from covary.kernels.tiles import tile_size
from covary.likelihoods.gaussian import Gaussian
from covary.optimise.clock import Clock
from covary.parameters import POSITIVE

GAIN = 0.01  # nats: stop when a step would gain less
COARSEST = 400  # rows below which there is no coarser level
ITERATED = 250  # ... where every evaluation iterates: several factorisations each, and fewer fixed costs beside them
DENSE_ROWS = 2000  # the finest dense level below a low-rank one
SOME_ROWS = 16_000  # the rows of a low-rank level between those and all
TERMS, COARSE_TERMS = 4000, 8000  # the fewest and the most terms of Vecchia's evidence on the coarse level
MOST_TERMS = 60_000  # beyond which more of them say nothing more about a few hyperparameters


def row_levels(rows: int, coarsest: int = COARSEST) -> tuple[int, ...]:
    """The numbers of rows from coarse to fine."""
    if rows < 2 * coarsest:
        return (rows,)
    coarse = max(coarsest, rows // 4)
    return (coarse, rows) if coarse <= 1500 else (max(coarsest, coarse // 4), coarse, rows)


def coarse_inference(likelihood: Any) -> Any:
    """What stands for variational inference on the few rows of a coarse level."""
    if isinstance(likelihood, Gaussian):
        return Exact()
    return Laplace() if likelihood.smooth else EP()


class Levels:
    """The levels of one search.

    A dense gram is searched on subsets of the rows; a low-rank one on dense subsets first (they cost less and know the short
    scales as well), then with its inducing inputs on some rows and on all; Vecchia's sum of conditionals is thinned, every
    term keeping its neighbours among all rows; a Markov gram, linear in n, is evaluated as it is.
    """

    def __init__(self, data: Data, gram: AbstractGram, inference: Any, *, coarse: bool, key: int) -> None:
        self.data, self.gram, self.key = data, gram, key
        self.settled: tuple[AbstractGram, Data] | None = None
        self.model: Any = None
        self.version = 0  # how often it was settled
        self.batches = isinstance(inference, SVGP)  # then every level is dense: what comes after is no level
        coarsest = COARSEST if isinstance(inference, Exact) else ITERATED
        n = data.rows
        self.sizes: tuple[int, ...] = (n,)
        if isinstance(gram, Subset):
            n = min(n, gram.rows)
            self.sizes = row_levels(n, coarsest) if coarse else (n,)
        elif coarse and isinstance(gram, Dense):
            self.sizes = row_levels(n, coarsest)
        elif isinstance(inference, SVGP):
            self.sizes = row_levels(min(n, DENSE_ROWS // 2), coarsest)
        elif coarse and isinstance(gram, LowRank) and n > 2 * DENSE_ROWS:
            between = (SOME_ROWS,) if n >= 4 * SOME_ROWS else ()
            self.sizes = (*row_levels(DENSE_ROWS, coarsest), *between, n)
        elif coarse and gram.thins and n > 4 * TERMS:
            self.sizes = (min(max(TERMS, n // 16), COARSE_TERMS), min(n, MOST_TERMS))
        self.order = np.random.default_rng(key).permutation(data.rows)

    def gain(self, rows: int) -> float:
        """What a step must gain to be worth taking: where K is approximated, no less than 0.00001 nats a row."""
        gram = self.gram
        approximate = gram.thins or (isinstance(gram, LowRank) and rows > DENSE_ROWS)
        return GAIN * max(1.0, rows / 1000) if approximate else GAIN

    def costs(self) -> list[float]:
        """What an evaluation costs on each level, in operations, roughly."""
        dense = [float(n) ** 2 * (n + 2000.0) for n in self.sizes]
        if isinstance(self.gram, LowRank):
            m = float(self.gram.count())
            return [6 * n * m * (m + 500.0) if n > DENSE_ROWS else d for n, d in zip(self.sizes, dense, strict=True)]
        return dense if isinstance(self.gram, Dense | Subset) else [float(n) for n in self.sizes]

    def settle(self, model: Any, clock: Clock) -> None:
        """Settle what depends on the kernel (inducing inputs, neighbours, a subset) for this model."""
        self.version += 1
        with clock.timing("settle"):
            self.settled, self.model = self.gram.prepare(model, self.data, key=self.key), model

    def seconds(self, rows: int, clock: Clock) -> float:
        """How long an evaluation on this level will take: as the last one there, or as those on another level let expect."""
        if rows in clock.took:
            return clock.took[rows]
        costs = dict(zip(self.sizes, self.costs(), strict=True))
        known = [size for size in self.sizes if size in clock.took]
        return clock.took[known[-1]] * costs[rows] / costs[known[-1]] if known and rows in costs else 0.0

    def again(self, clock: Clock) -> float:
        """How long it takes to settle once more and to evaluate once on the finest level."""
        return clock.took.get("settle", 0.0) + self.seconds(self.sizes[-1], clock)

    def begun(self, packing: Any) -> np.ndarray:
        """The vector of the model that was settled for last."""
        return packing.pack(self.model)

    def settled_gram(self) -> AbstractGram:
        """The gram as it was settled last."""
        return self.gram if self.settled is None else self.settled[0]

    def whole(self) -> tuple[Data, AbstractGram]:
        """What is conditioned on in the end: all rows, unless the gram itself takes fewer."""
        gram, data = self.settled or (self.gram, self.data)
        return (data, gram) if gram.thins else self.at(self.sizes[-1])

    def at(self, rows: int) -> tuple[Data, AbstractGram]:
        """What is evaluated on this level."""
        gram, data = self.settled or (self.gram, self.data)
        if rows == data.rows and not self.batches:
            if isinstance(gram, Dense) and gram.tile is None:
                gram = gram.replace(tile=tile_size(data.rows))
            return data, gram
        if gram.thins:
            return data, gram.thinned(rows, key=self.key)
        order = self.order if data.rows == len(self.order) else np.random.default_rng(self.key).permutation(data.rows)
        part = data.take(np.sort(order[:rows]))
        if isinstance(gram, LowRank) and rows > DENSE_ROWS:
            return part, gram
        dense = gram if isinstance(gram, Dense) else Dense()
        if dense.tile is None:
            dense = dense.replace(tile=tile_size(data.rows if dense is gram else DENSE_ROWS))
        return part, dense

    def arrive(self, rows: int, packing: Any, theta: np.ndarray) -> np.ndarray | None:
        """Where to begin on a level whose evidence is of another kind than the one below; None where it is not.

        Few inducing inputs leave something unexplained that a dense subset explains; to begin with it is called noise, so
        that the noise of the subset, however small, does not end the search before it starts.
        """
        gram, data = self.settled or (self.gram, self.data)
        first = next((size for size in self.sizes if size > DENSE_ROWS), None)
        if not isinstance(gram, LowRank) or rows != first or len(self.sizes) == 1:
            return None
        theta, model = theta.copy(), packing.unpack(theta)
        some = data.X.take(np.sort(self.order[:DENSE_ROWS]))
        with precision(data.dtype):
            left = float(gram.bind(model.prior.kernels, some).unexplained().mean())
        for slot in packing.slots:
            if slot.paths[0] == "likelihood.variance" and slot.space is POSITIVE:
                part = slice(slot.start, slot.stop)
                theta[part] = np.log(np.exp(theta[part]) + left)
        return theta
