r"""Subset of data: exact inference on m rows (R&W, section 8.3.3), chosen at random or by the informative vector machine."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._module import static
from covary._precision import precision
from covary.data import Data, Inputs
from covary.gram.base import AbstractBound, AbstractGram, Kernels, Workspace, dense_cost, row_levels
from covary.gram.dense import Dense
from covary.kernels import tiles
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model

if TYPE_CHECKING:
    from covary.means.basis import Basis

RULES = ("random", "entropy")
CANDIDATES = 20_000  # maximum number of rows that the entropy rule chooses from; larger data are subsampled at random


class Subset(AbstractGram):
    """Exact inference on a subset of the rows; all other rows are ignored.

    The evidence is that of the subset (R&W, eq. 8.31).

    Parameters
    ----------
    rows
        The number of rows to keep; with all rows the results are exact.
    select
        ``"random"``, or ``"entropy"``: repeatedly the row whose observation is most informative about its latent value (the
        informative vector machine, R&W, eq. 8.19).
    seed
        The seed of the selection, so that learning and conditioning use the same rows.
    """

    rows: int = static()
    _: KW_ONLY
    select: str = static("random")
    seed: int = static(0)

    settles_first: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    def probe(self) -> AbstractGram:
        return Dense()

    def check(self) -> None:
        """Raise an error for invalid settings."""
        if not isinstance(self.rows, int | np.integer) or self.rows < 1:
            raise fail("gram.Subset", f"rows is {self.rows!r}", "give the number of rows to keep", argument="rows")
        if self.select not in RULES:
            raise fail("gram.Subset", Option("select") + f" is {self.select!r}", f"choose one of {', '.join(map(repr, RULES))}")

    def prepare(self, model: Model, data: Data, *, key: int = 0) -> tuple[AbstractGram, Data]:
        """Return a dense gram and the selected rows."""
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

    def levels(self, rows: int, coarsest: int | None) -> tuple[int, ...]:
        count = min(rows, self.rows)
        return (count,) if coarsest is None else row_levels(count, coarsest)

    def cost(self, rows: int) -> float:
        return dense_cost(rows)

    def bind(
        self, kernels: Kernels, X: Inputs, basis: Basis | None = None, workspace: Workspace | None = None
    ) -> AbstractBound:
        what = "it chooses rows of the data, not of " + Option("X") + " alone"
        raise fail("gram.Subset", what, "call prepare(model, data) first")


def informative_rows(model: Model, data: Data, count: int) -> np.ndarray:
    r"""Return rows in the order in which the informative vector machine selects them (R&W, section 8.3.3, algorithm 8.1).

    The score of a row is the reduction of its entropy by its own site, :math:`\tfrac12\log(v_j/v_j^{new})`: under Gaussian
    noise :math:`\tfrac12\log(1+v_j/\sigma^2)` (eq. 8.19), else with the moments of :math:`p(y_j\mid f_j)N(f_j\mid\mu_j,v_j)`,
    as in one sweep of EP. Posterior means and variances of all rows are updated through a growing Cholesky factor: O(n m²).
    """
    likelihood, kernel = model.likelihood, model.prior.kernels[0]
    if likelihood.latents != 1 or data.y.ndim != 1:
        what = "the entropy rule supports only one latent function and one output"
        raise fail("gram.Subset", what, "use " + Option("select", "'random'"))
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
    likelihood: AbstractLikelihood, data: Data, mean: np.ndarray, variance: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variance and the mean of every row's equivalent Gaussian observation, and the row's score."""
    if isinstance(likelihood, Gaussian):
        s = np.maximum(np.asarray(likelihood.sites(data).variance), 1e-300)
        return s, data.y, 0.5 * np.log1p(variance / s)
    variance = np.maximum(variance, 1e-12 * level)
    tilted = likelihood.tilted(data.y, mean, variance, data.weight)
    shrunk = np.maximum(tilted.variance, 1e-12 * variance)
    precision_gain = np.maximum(1 / shrunk - 1 / variance, 1e-10 / level)
    place = mean + (tilted.mean - mean) / shrunk / precision_gain
    return 1 / precision_gain, place, 0.5 * np.log(variance / shrunk)
