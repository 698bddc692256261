r"""Subset of data: m rows alone, exactly (R&W, section 8.3.3), chosen at random or by the informative vector machine."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from covary._checks import fail
from covary._module import static
from covary._precision import precision
from covary.data import Data, Inputs
from covary.gram.base import AbstractBound, AbstractGram
from covary.gram.dense import Dense
from covary.kernels import tiles
from covary.likelihoods.gaussian import Gaussian

RULES = ("random", "entropy")
CANDIDATES = 20_000  # rows the entropy rule chooses among; of more, a random subset of this size


class Subset(AbstractGram):
    """Some of the rows, and those exactly: the verbs work with these rows alone.

    The evidence is that of the subset (R&W, eq. 8.31).

    Parameters
    ----------
    rows
        How many; all of them is the exact setting.
    select
        ``"random"``, or ``"entropy"``: always the row about which its own observation would tell most (the informative
        vector machine, R&W, eq. 8.19).
    seed
        Of the choice, so that what is learned from and what is conditioned on are the same rows.
    """

    rows: int = static()
    _: KW_ONLY
    select: str = static("random")
    seed: int = static(0)

    def check(self) -> None:
        """The numbers and names make sense."""
        if not isinstance(self.rows, int | np.integer) or self.rows < 1:
            raise fail("gram.Subset", f"rows is {self.rows!r}", "give how many rows to keep, one or more")
        if self.select not in RULES:
            raise fail("gram.Subset", f"select is {self.select!r}", f"choose one of {', '.join(map(repr, RULES))}")

    def prepare(self, model: Any, data: Data, *, key: int = 0) -> tuple[AbstractGram, Data]:
        """Dense, and the rows chosen."""
        self.check()
        if self.rows >= data.rows:
            return Dense(), data
        rng = np.random.default_rng(self.seed)
        if self.select == "random":
            return Dense(), data.take(np.sort(rng.choice(data.rows, self.rows, replace=False)))
        some = np.arange(data.rows)
        if data.rows > max(CANDIDATES, 2 * self.rows):
            some = np.sort(rng.choice(data.rows, max(CANDIDATES, 2 * self.rows), replace=False))
        return Dense(), data.take(np.sort(some[informative_rows(model, data.take(some), self.rows)]))

    def bind(
        self, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> AbstractBound:
        raise fail("gram.Subset", "it chooses rows of the data, not of X alone", "call prepare(model, data) first")


def informative_rows(model: Any, data: Data, count: int) -> np.ndarray:
    r"""Rows in the order in which the informative vector machine takes them (R&W, section 8.3.3, algorithm 8.1).

    The score of a row is how much its own site would shrink its entropy, :math:`\tfrac12\log(v_j/v_j^{new})`: under Gaussian
    noise :math:`\tfrac12\log(1+v_j/\sigma^2)` (eq. 8.19), else with the moments of :math:`p(y_j\mid f_j)N(f_j\mid\mu_j,v_j)`,
    as in one sweep of EP. Posterior means and variances of all rows are kept up to date by a growing Cholesky factor: O(n m²).
    """
    likelihood, kernel = model.likelihood, model.prior.kernels[0]
    if likelihood.latents != 1 or data.y.ndim != 1:
        raise fail("gram.Subset", "the entropy rule knows one latent function and one output only", "use select='random'")
    with precision(data.dtype):
        base = model.mean.evaluate(data.X)
        variance = tiles.diag(kernel, data.X).astype(np.float64)
        level = float(variance.max())
        mean, F = np.zeros(data.rows), np.zeros((data.rows, count), order="F")
        open_, chosen = np.ones(data.rows, bool), []
        for j in range(count):
            site, target, score = _sites(likelihood, data, base + mean, variance, level)
            pick = int(np.argmax(np.where(open_, score, -np.inf)))
            column = tiles.cross(kernel, data.X, data.X.take(slice(pick, pick + 1)))[:, 0] - F[:, :j] @ F[pick, :j]
            total = np.sqrt(max(variance[pick], 0.0) + site[pick])
            F[:, j] = column / total
            mean = mean + F[:, j] * (target[pick] - base[pick] - mean[pick]) / total
            variance = np.maximum(variance - F[:, j] ** 2, 0.0)
            open_[pick] = False
            chosen.append(pick)
    return np.array(chosen)


def _sites(
    likelihood: Any, data: Data, mean: np.ndarray, variance: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every row: the variance and place of the Gaussian that its observation amounts to, and its score."""
    if isinstance(likelihood, Gaussian):
        s = np.maximum(np.asarray(likelihood.sites(data).variance), 1e-300)
        return s, data.y, 0.5 * np.log1p(variance / s)
    variance = np.maximum(variance, 1e-12 * level)
    tilted = likelihood.tilted(data.y, mean, variance, data.weight)
    shrunk = np.maximum(tilted.variance, 1e-12 * variance)
    precision_gain = np.maximum(1 / shrunk - 1 / variance, 1e-10 / level)
    place = mean + (tilted.mean - mean) / shrunk / precision_gain
    return 1 / precision_gain, place, 0.5 * np.log(variance / shrunk)
