"""Exact inference under Gaussian noise (R&W, algorithm 2.1, eqs. 2.30, 5.9)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary.data import Data
from covary.gram.base import AbstractBound, Bars
from covary.inference.base import AbstractInference, Gradient, Memory, Solved
from covary.likelihoods.gaussian import Gaussian
from covary.means.basis import Evaluated
from covary.model import Model, shaped
from covary.sites import Noise


class Exact(AbstractInference):
    r"""Exact inference under Gaussian noise.

    .. math:: \log p(y\mid X) = -\tfrac12 r^\top (K+S)^{-1} r - \tfrac12\log\det(K+S) - \tfrac n2\log 2\pi,\quad r = y - m(X)

    With m vague weights of explicit basis functions the last term has n − m (eq. 2.45). Several outputs share the factor,
    and their values are summed. Rows that represent several observations contribute terms from their number and scatter
    (``Gaussian.repeats``).

    References
    ----------
    Rasmussen & Williams (2006), eqs. 2.30, 2.42, 2.45, 5.8, 5.9, algorithm 2.1.
    """

    iterates: ClassVar[bool] = False

    def solve(
        self, model: Model, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None, memory: Memory | None = None
    ) -> Solved:
        likelihood = model.likelihood
        if not isinstance(likelihood, Gaussian):
            what = f"the likelihood is {type(likelihood).__name__}"
            raise fail("inference.Exact", what, "use " + Option("inference", "Laplace()", "EP()"))
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

    def gradient(self, model: Model, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Gradient:
        outputs = solved.shift.shape[1] if solved.shift.ndim == 2 else 1
        bars = Bars(quad=-0.5, logdet=-0.5, correction=float(outputs))
        pulled = bound.pull(solved.factor, solved.shift, solved.alpha, bars, consume=consume)
        shift_bar = pulled.shift if pulled.shift.ndim == 1 else pulled.shift.sum(1)
        assert isinstance(model.likelihood, Gaussian)
        assert isinstance(pulled.sites, Noise)
        mean, likelihood = model.mean.pull(data.X, -shift_bar), model.likelihood.pull_sites(data, pulled.sites.variance)
        return Gradient(shaped(model, pulled.kernel, mean, likelihood), pulled.inducing)


def vague_weights(H: Evaluated | None) -> int:
    """Return the number of basis functions with vague weights."""
    return 0 if H is None else int(H.coordinates.prior.vague.sum())


def residual(model: Model, data: Data) -> np.ndarray:
    """Compute y − m(X), for one output or several."""
    mean = model.mean.evaluate(data.X)
    return data.y - (mean if data.y.ndim == 1 else mean[:, None])
