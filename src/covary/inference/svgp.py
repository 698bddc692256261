r"""Stochastic variational inference: a bound on the evidence that is a sum over rows (Hensman et al. 2013, 2015).

.. math:: \log p(y) \ge \sum_i w_i\, E_q \log p(y_i\mid f_i) - KL(q(v)\,\|\,N(0, I))

with q(v) over whitened inducing values (:mod:`covary.inference.whitened`). With g and h the slopes of the sum over the mean and
variance of f at a row, and a = L⁻¹k(Z, x), the natural gradient of q points at

.. math:: S^{-1} = I - 2\sum_i h_i a_i a_i^\top,\qquad S^{-1}m = \sum_i (g_i - 2 h_i \mu_i)\, a_i

(Hensman, Fusi & Lawrence 2013, for Gaussian noise; Salimbeni, Eleftheriadis & Hensman 2018). Under Gaussian noise that is the
optimum itself, and the bound there is Titsias' collapsed one (2009, eq. 9). Rows enter by sums alone, so that a batch of them,
scaled up, gives unbiased gradients: :meth:`SVGP.train`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._module import static
from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.base import AbstractBound
from covary.inference.base import AbstractInference, Solved
from covary.inference.stochastic import Trained, Training
from covary.inference.variational import Run, Seen
from covary.inference.whitened import Whitened, WhitenedFactor, sites_seen

SEARCHING = 1e-4  # the tolerance within a search over hyperparameters
ROUGHLY = 0.05  # how far from settled q may be for its bound to be of use in a search


def _whole(name: str) -> Any:
    def convert(value: Any) -> int | None:
        if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
            raise fail("inference.SVGP", f"{name} is {value}", "give a whole number of 1 or more")
        return None if value is None else int(value)

    return convert


def _between(name: str) -> Any:
    def convert(value: Any) -> float | None:
        if value is not None and not 0 < float(value) <= 1:
            raise fail("inference.SVGP", f"{name} is {value}", "give a number above 0 and at most 1")
        return None if value is None else float(value)

    return convert


class SVGP(AbstractInference):
    """Variational inference over inducing values, for any likelihood and any number of rows; needs ``gram=LowRank(...)``.

    Parameters
    ----------
    batch_size
        The rows of one step of training.
    steps
        The steps of training; by default thirty passes over the data, but not below 1,500 nor above 10,000.
    rate
        The first step of Adam, on the logarithm of positive hyperparameters and in standard deviations of the inducing
        inputs; it falls to zero along a cosine.
    natural
        The share of a natural-gradient step that is taken at first, falling likewise; by default as large as keeps ten
        rows in memory for every inducing input.
    max_passes
        The most visits of all rows when q alone is optimised.
    tolerance
        Stop when no row's mean moves by more than this in units of its standard deviation, nor its variance relatively.

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

    def solve(
        self, model: Any, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None, memory: Any = None
    ) -> Solved:
        run = Run.of(model, data, bound)
        start = None if memory is None else memory.get("q")
        if start is None or start.shift.shape != (run.bound.Z.rows, run.bound.latents):
            start = None
        q, seen, status, steps = run.settle(start, self.tolerance if memory is None else SEARCHING, self.max_passes)
        if memory is not None:
            if status.startswith("not converged") and seen.moved > ROUGHLY:  # a rejected step
                raise NotPositiveDefinite(f"inference.SVGP: {status}.")
            memory["q"], memory["spread"] = q, float(np.std(seen.mean, axis=0).max())
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
        extra = {"bound": run.bound, "q": q, "run": run, "seen": seen}
        return Solved(factor, shift, alpha, seen.value, status, steps, extra)

    def gradient(self, model: Any, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Any:
        learned = getattr(getattr(bound, "gram", None), "learned", True)
        found, inducing = solved.extra["run"].gradient(solved.extra["seen"], inputs=learned)
        solved.extra["inducing"] = inducing
        return found

    def train(
        self,
        packing: Any,
        priors: Any,
        data: Data,
        gram: Any,
        *,
        key: int = 0,
        box: tuple[np.ndarray, np.ndarray] | None = None,
        learn_inducing: bool = True,
        max_time: float | None = None,
        note: Callable[[int, int, float], None] | None = None,
        checkpoint: Any = None,
    ) -> Trained:
        """Hyperparameters, inducing inputs and q together, by steps on batches of rows.

        Natural gradients move q, Adam (Kingma & Ba 2015) the rest; both steps fall to zero along a cosine. At the end q is
        optimised on all rows, and under Gaussian noise of one level the noise with it, as it was on some of them at the
        beginning: error bars do not wait for the steps. The same arguments give the same result, bit for bit, also if the run
        was broken off in between and taken up again from its checkpoint; with ``max_time`` the steps follow the clock, and it
        is only near.

        Parameters
        ----------
        packing
            The free parameters (:class:`covary.parameters.Packing`); its model is where training starts.
        priors
            Priors over them (an object with ``log_prob_and_grad(packing, model)``), or None.
        data
            What was seen.
        gram
            A low-rank gram with its inducing inputs settled.
        key
            The seed of the batches.
        box
            Bounds of the unconstrained vector; the packing's own by default.
        learn_inducing
            Whether the inducing inputs move too.
        max_time
            Seconds for training, one visit of all rows at its end included.
        note
            Called now and then as ``note(step, steps, bound)`` with the bound (log priors included), averaged over steps.
        checkpoint
            A file that holds the state of the run, written every half minute and at an interruption; if it is there, the run
            is taken up from it.
        """
        with precision(np.float64):
            training = Training(self, packing, priors, data, gram, key, box, learn_inducing)
            with blas_threads(training.Z.rows):
                return training.run(max_time, note, checkpoint)
