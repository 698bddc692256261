"""Exact inference under Gaussian noise (R&W, algorithm 2.1, eqs. 2.30, 5.9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from covary._checks import fail
from covary.data import Data
from covary.gram.base import AbstractBound, Bars
from covary.inference.base import AbstractInference, Solved, shaped
from covary.likelihoods.gaussian import Gaussian


class Exact(AbstractInference):
    r"""Gaussian noise, no approximation.

    .. math:: \log p(y\mid X) = -\tfrac12 r^\top (K+S)^{-1} r - \tfrac12\log\det(K+S) - \tfrac n2\log 2\pi,\quad r = y - m(X)

    With m vague weights of explicit basis functions the last term has n − m (eq. 2.45). Several outputs share the factor
    and add up.
    Rows that stand for several observations add what their number and scatter say of the noise (:meth:`Gaussian.repeats`).

    References
    ----------
    Rasmussen & Williams (2006), eqs. 2.30, 2.42, 2.45, 5.8, 5.9, algorithm 2.1.
    """

    def solve(
        self, model: Any, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None, memory: Any = None
    ) -> Solved:
        likelihood = model.likelihood
        if not isinstance(likelihood, Gaussian):
            raise fail("inference.Exact", f"the likelihood is {type(likelihood).__name__}", "use Laplace() or EP()")
        sites = likelihood.sites(data)
        shift = residual(model, data)
        factor = bound.factor(sites, fixed_jitter=fixed_jitter)  # line 2: L
        alpha = factor.alpha(shift)  # line 3
        outputs = shift.shape[1] if shift.ndim == 2 else 1
        free = data.rows - vague_weights(bound.basis)
        value = -0.5 * (  # line 7
            float((shift * alpha).sum()) + outputs * float(factor.logdet()) + outputs * free * np.log(2 * np.pi)
        )
        value += outputs * bound.correction(sites) + likelihood.repeats(data)[0]
        return Solved(factor, shift, alpha, float(value))

    def gradient(self, model: Any, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Any:
        outputs = solved.shift.shape[1] if solved.shift.ndim == 2 else 1
        bars = Bars(quad=-0.5, logdet=-0.5, correction=float(outputs))
        pulled = bound.pull(solved.factor, solved.shift, solved.alpha, bars, consume=consume)
        shift_bar = pulled.shift if pulled.shift.ndim == 1 else pulled.shift.sum(1)
        solved.extra["inducing"] = pulled.inducing
        return shaped(
            model,
            pulled.kernel,
            model.mean.pull(data.X, -shift_bar),
            model.likelihood.pull_sites(data, pulled.sites.variance),
        )


def vague_weights(H: Any) -> int:
    """How many basis functions have vague weights."""
    return 0 if H is None else int(H.coordinates.prior.vague.sum())


def residual(model: Any, data: Data) -> np.ndarray:
    """y − m(X), for one output or several."""
    mean = model.mean.evaluate(data.X)
    return data.y - (mean if data.y.ndim == 1 else mean[:, None])
