r"""Stochastic variational inference: a bound on the evidence that is a sum over rows (Hensman et al. 2013, 2015).

.. math:: \log p(y) \ge \sum_i w_i\, E_q \log p(y_i\mid f_i) - KL(q(v)\,\|\,N(0, I))

with q(v) over whitened inducing values (:mod:`covary.inference.svgp.whitened`). With g and h the slopes of the sum
with respect to the mean and variance of f at a row, and a = L⁻¹k(Z, x), the natural gradient of q points towards

.. math:: S^{-1} = I - 2\sum_i h_i a_i a_i^\top,\qquad S^{-1}m = \sum_i (g_i - 2 h_i \mu_i)\, a_i

(Hensman, Fusi & Lawrence 2013, for Gaussian noise; Salimbeni, Eleftheriadis & Hensman 2018). Under Gaussian noise this is the
optimum itself, and the bound there is Titsias' collapsed one (2009, eq. 9). The bound depends on rows only through sums, so a
rescaled batch gives unbiased gradients: :meth:`SVGP.train`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from os import PathLike
from typing import ClassVar

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._module import static
from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.base import AbstractBound
from covary.gram.low_rank import LowRank, LowRankBound
from covary.inference.base import AbstractInference, Gradient, Memory, Solved
from covary.inference.svgp.stochastic import HasPriors, Trained, Training
from covary.inference.svgp.variational import Run, Seen
from covary.inference.svgp.whitened import Whitened, WhitenedFactor, sites_seen
from covary.model import Model
from covary.optimise.base import NOT_CONVERGED, of_kind
from covary.parameters import Packing

SEARCHING = 1e-4  # tolerance within a search over hyperparameters
ROUGHLY = 0.05  # maximum movement of q whose bound is still accepted in a search


def _whole(name: str) -> Callable[[float | None], int | None]:
    def convert(value: float | None) -> int | None:
        if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
            raise fail("inference.SVGP", f"{name} is {value}", "give a whole number of 1 or more", argument=name)
        return None if value is None else int(value)

    return convert


def _between(name: str) -> Callable[[float | None], float | None]:
    def convert(value: float | None) -> float | None:
        if value is not None and not 0 < float(value) <= 1:
            raise fail("inference.SVGP", f"{name} is {value}", "give a number above 0 and at most 1", argument=name)
        return None if value is None else float(value)

    return convert


@dataclass(frozen=True)
class Visited(Solved):
    """The result of variational inference, with the run and its last pass over the rows."""

    _: KW_ONLY
    run: Run
    seen: Seen


class SVGP(AbstractInference):
    """Variational inference over inducing values, for any likelihood and any number of rows; needs ``gram=LowRank(...)``.

    Parameters
    ----------
    batch_size
        Number of rows per training step.
    steps
        Number of training steps; by default thirty passes over the data, but at least 1,500 and at most 10,000.
    rate
        Initial step size of Adam, for the logarithm of positive hyperparameters and in standard deviations of the inducing
        inputs; it decays to zero along a cosine.
    natural
        Initial fraction of a natural-gradient step, with the same decay. By default, q averages over about ten rows per
        inducing input.
    max_passes
        Maximum number of passes over all rows when only q is optimised.
    tolerance
        Stop when no row's mean changes by more than this in units of its standard deviation, nor its variance relatively.

    References
    ----------
    Hensman, Fusi & Lawrence (2013), *Gaussian processes for big data*; Hensman, Matthews & Ghahramani (2015), *Scalable
    variational Gaussian process classification*; Salimbeni, Eleftheriadis & Hensman (2018), *Natural gradients in practice*.
    """

    batch_size: int = static(1024, convert=_whole("batch_size"))
    _: KW_ONLY
    steps: int | None = static(None, convert=_whole("steps"))
    rate: float = static(0.02, convert=_between("rate"))
    natural: float | None = static(None, convert=_between("natural"))
    max_passes: int = static(200, convert=_whole("max_passes"))
    tolerance: float = static(1e-7)

    in_batches: ClassVar[bool] = True

    def solve(
        self, model: Model, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None, memory: Memory | None = None
    ) -> Solved:
        run = Run.of(model, data, bound)
        start = None if memory is None else memory.q
        if start is None or start.shift.shape != (run.bound.Z.rows, run.bound.latents):
            start = None
        q, seen, status, steps = run.settle(start, self.tolerance if memory is None else SEARCHING, self.max_passes)
        if memory is not None:
            if of_kind(status, NOT_CONVERGED) and seen.moved > ROUGHLY:  # a rejected step
                raise NotPositiveDefinite("inference.SVGP", status)
            memory.q, memory.spread = q, float(np.std(seen.mean, axis=0).max())
        return self._solved(run, q, seen, status, steps)

    @staticmethod
    def _solved(run: Run, q: Whitened, seen: Seen, status: str, steps: int) -> Solved:
        latent, own, rest = seen.mean, seen.own, seen.rest
        nu = seen.first - 2 * seen.second * latent
        alpha = np.stack([run.bound.inverses[run.bound.of(i)].T @ m for i, m in enumerate(q.means.T)], axis=1)
        shift, spread = nu, None
        if run.bound.latents == 1:
            latent, own, rest, alpha = latent[:, 0], own[:, 0], rest[:, 0], alpha[:, 0]
            spread, shift = sites_seen(latent, own, rest, -2 * seen.second[:, 0], nu[:, 0])
        factor = WhitenedFactor(q, run.bound.jitter, latent, own + rest, spread)
        return Visited(factor, shift, alpha, seen.value, status, steps, bound=run.bound, run=run, seen=seen)

    def gradient(self, model: Model, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Gradient:
        learned = bound.gram.learned if isinstance(bound, LowRankBound) else True
        assert isinstance(solved, Visited)
        return Gradient(*solved.run.gradient(solved.seen, inputs=learned))

    def train(
        self,
        packing: Packing[Model],
        priors: HasPriors | None,
        data: Data,
        gram: LowRank,
        *,
        key: int = 0,
        box: tuple[np.ndarray, np.ndarray] | None = None,
        learn_inducing: bool = True,
        max_time: float | None = None,
        note: Callable[[int, int, float], None] | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Trained:
        """Train hyperparameters, inducing inputs and q together, on batches of rows.

        q is updated by natural gradients, everything else by Adam (Kingma & Ba 2015); both step sizes decay to zero along a
        cosine. At the end, q is optimised on all rows, together with the noise if it is Gaussian with a single level. The
        same is done on some of the rows at the start, so that error bars do not depend on the number of steps. The same
        arguments give bit-identical results, even if the run is interrupted and resumed from its checkpoint. With
        ``max_time``, the decay follows the clock, and results are only approximately reproducible.

        Parameters
        ----------
        packing
            The free parameters (``covary.parameters.Packing``); training starts at its model.
        priors
            Priors over them (an object with ``log_prob_and_grad(packing, model)``), or None.
        data
            The observations.
        gram
            A low-rank gram with its inducing inputs settled.
        key
            Seed of the batches.
        box
            Bounds of the unconstrained vector; those of the packing by default.
        learn_inducing
            Whether the inducing inputs are trained too.
        max_time
            Seconds for training, including one pass over all rows at the end.
        note
            Called periodically as ``note(step, steps, bound)`` with the bound (including log priors), averaged over steps.
        checkpoint
            File for the state of the run, written every 30 seconds and when interrupted. If it exists, the run resumes
            from it.
        """
        with precision(np.float64):
            training = Training(self, packing, priors, data, gram, key, box, learn_inducing)
            with blas_threads(training.Z.rows):
                return training.run(max_time, note, checkpoint)
