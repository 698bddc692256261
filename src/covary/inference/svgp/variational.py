r"""The variational bound of a model on rows of data: its value, its natural gradient for q, and the other gradients.

With g and h the slopes of the expected log likelihood with respect to the mean and variance of f at a row, and
a = L⁻¹k(Z, x), the natural gradient of q points towards

.. math:: S^{-1} = I - 2\sum_i h_i a_i a_i^\top,\qquad S^{-1}m = \sum_i (g_i - 2 h_i \mu_i)\, a_i

(Hensman, Fusi & Lawrence 2013, for Gaussian noise, where that is the optimum itself; Salimbeni, Eleftheriadis & Hensman 2018).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option
from covary.data import Data, Inputs
from covary.gram.base import AbstractBound
from covary.gram.low_rank import LowRankBound
from covary.inference.base import centred
from covary.inference.svgp.expected import Rows, expected, expected_pull
from covary.inference.svgp.whitened import Pull, Whitened, WhitenedBound, times, weighted
from covary.likelihoods.gaussian import Gaussian
from covary.likelihoods.softmax import Softmax
from covary.model import Model, shaped
from covary.optimise.base import CONVERGED, NOT_CONVERGED, STUCK

CHUNK = 2048  # number of rows per chunk in a pass over all rows
NEAR, MIXED = 1.0, 8  # maximum length of steps to be mixed, in standard deviations of the rows, and their number
FLAT, ROUNDING = (
    1e-13,
    1e-12,
)  # relative to rows plus divergence, in any units of y: negligible gains of the bound, and tolerated losses
KEPT = 2**28  # maximum bytes of features cached between passes


@dataclass
class Seen:
    """One pass over the rows at one q: latent means without the prior mean, the two parts of the variances, slopes, the sum
    of expected log likelihoods, the target of the natural gradient, and C⁻¹A if there is only one chunk of rows."""

    q: Whitened
    mean: np.ndarray
    own: np.ndarray
    rest: np.ndarray
    first: np.ndarray
    second: np.ndarray
    fit: float
    target: Whitened | None
    halves: list[np.ndarray] | None = None
    moved: float = np.inf

    @property
    def value(self) -> float:
        """The bound."""
        return self.fit - self.q.kl


class Run:
    """A model at given hyperparameters with rows of data, each counted ``scale`` times."""

    def __init__(self, model: Model, X: Inputs, rows: Rows, bound: WhitenedBound, scale: float = 1.0) -> None:
        y, mean = centred(model.likelihood, rows.y, np.asarray(model.mean.evaluate(X), np.float64))
        self.model, self.X, self.rows, self.bound, self.scale = model, X, rows, bound, scale
        self.seen = replace(rows, y=y)  # matches the prior means
        self.prior_mean = mean[:, None] * model.likelihood.has_mean
        self.kept: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self.keep = X.rows * bound.Z.rows * len(bound.kernels) * 8 <= KEPT

    @staticmethod
    def of(model: Model, data: Data, bound: AbstractBound) -> Run:
        """Return a run over all rows, after checks."""
        who = "inference.SVGP"
        if not isinstance(bound, LowRankBound):
            name = type(bound).__name__.removesuffix("Bound")
            raise fail(who, Option("gram", name) + " has no inducing inputs", "give " + Option("gram", "LowRank(...)"))
        if bound.basis is not None:
            raise fail(who, "explicit basis functions are not supported", "use a mean function")
        rows = Rows.of(who, model.likelihood, data)
        whitened = WhitenedBound(bound.kernels, data.X, bound.Z, bound.gram.jitter, model.likelihood.latents)
        return Run(model, data.X, rows, whitened)

    def features(self, start: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return A and k(x, x) of a chunk of rows."""
        if start not in self.kept:
            found = self.bound.features(self.X.take(slice(start, start + CHUNK)))
            if not self.keep:
                return found
            self.kept[start] = found
        return self.kept[start]

    def visit(self, q: Whitened, *, target: bool = True) -> Seen:
        """Compute everything at one q; the natural gradient only if ``target``."""
        n, L, bound = self.X.rows, self.bound.latents, self.bound
        mean, own, rest, first, second = (np.empty((n, L)) for _ in range(5))
        shift = np.zeros((bound.Z.rows, L), order="F")
        inner: list[np.ndarray] = [np.asfortranarray(np.eye(bound.Z.rows)) for _ in range(L)]
        fit, halves = 0.0, list[np.ndarray]()
        for start in range(0, n, CHUNK):
            part, features = slice(start, start + CHUNK), self.features(start)
            halves = [q.halves(features[bound.of(i)][0], i) for i in range(L)]
            for i, B in enumerate(halves):
                A, prior = features[bound.of(i)]
                mean[part, i] = times(A, q.means[:, i], left=True)
                rest[part, i] = np.maximum(prior - np.einsum("ij,ij->j", A, A), 0.0)
                own[part, i] = np.einsum("ij,ij->j", B, B)
            at = expected(
                self.model.likelihood, self.seen.take(part), self.prior_mean[part] + mean[part], own[part] + rest[part]
            )
            fit += float(at.value.sum())
            first[part], second[part] = self.scale * at.first, self.scale * at.second
            if not target:
                continue
            for i in range(L):
                A = features[bound.of(i)][0]
                shift[:, i] += times(A, first[part, i] - 2 * second[part, i] * mean[part, i])
                inner[i] += weighted(A, -2 * second[part, i])
        if not np.isfinite(fit):
            raise NotPositiveDefinite("inference.SVGP", "the expected log likelihood is not finite here", "use shorter steps")
        goal = Whitened(shift, tuple(inner)) if target else None
        return Seen(q, mean, own, rest, first, second, self.scale * fit, goal, halves if n <= CHUNK else None)

    def settle(self, q: Whitened | None, tolerance: float, most: int) -> tuple[Whitened, Seen, str, int]:
        """Optimise q by natural-gradient steps, which are halved if the bound would decrease."""
        if isinstance(self.model.likelihood, Gaussian):  # one step is exact, and none is needed if q is optimal already
            seen = self.visit(q or Whitened.prior(self.bound.Z.rows, 1))
            assert seen.target is not None
            if q is None or not q.near(seen.target):
                q = seen.target
                seen = self.visit(q)
            seen.moved = 0.0
            return q, seen, "exact", 1
        seen = self.begin(q)
        share, flat, steps, halved = 1.0, 0, 1, False
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        while steps < most:
            steps += 1
            kept = [*kept, (seen.q.means, seen.target.means)][-MIXED:] if near(seen) else []  # type: ignore[union-attr]
            new = self.attempt(seen, mixed_step(seen, kept)) if len(kept) > 1 else None
            if new is None and kept:
                kept = kept[-1:]
            new = new or self.attempt(seen, short_step(seen, share))
            if new is None:
                share, halved = share / 2, True
                if share < 1e-10:
                    return seen.q, seen, CONVERGED if seen.moved < 1e-3 else f"{STUCK}: no step raises the bound", steps
                continue
            sd = np.sqrt(np.maximum(new.own + new.rest, 1e-300))
            change = np.abs((new.own + new.rest) / np.maximum(seen.own + seen.rest, 1e-300) - 1)
            new.moved = float(max((np.abs(new.mean - seen.mean) / sd).max(), change.max())) / share
            flat = flat + 1 if new.value - seen.value < FLAT * (1 + self.X.rows + new.q.kl) else 0
            seen = new
            if seen.moved < tolerance or flat == 3:
                return seen.q, seen, CONVERGED, steps
            share, halved = (share if halved else min(1.0, 2 * share)), False
        return seen.q, seen, f"{NOT_CONVERGED}: rows still move by {seen.moved:.0e} standard deviations", steps

    def attempt(self, seen: Seen, q: Whitened) -> Seen | None:
        """Return a pass over the rows at another q, or None if the bound is lower there."""
        try:
            new = self.visit(self.centred(q))
            return new if new.value >= seen.value - ROUNDING * (1 + self.X.rows + seen.q.kl) else None
        except NotPositiveDefinite:
            return None

    def centred(self, q: Whitened) -> Whitened:
        """Subtract the mean over classes from q, which reduces the divergence and does not change a softmax.

        The natural gradient would do this only slowly. It is not done if every class has its own kernel.
        """
        if not isinstance(self.model.likelihood, Softmax) or len(self.bound.kernels) > 1:
            return q
        return q.with_means(q.means - q.means.mean(1, keepdims=True))

    def begin(self, q: Whitened | None) -> Seen:
        """Make the first pass, at the given q if that is better than the prior, else at the prior."""
        try:
            plain = self.visit(Whitened.prior(self.bound.Z.rows, self.bound.latents))
        except NotPositiveDefinite:
            what = f"the observations are impossible under {type(self.model.likelihood).__name__} under the prior of f"
            do = "give the prior another mean, such as " + Option("mean", "'constant'") + ", or a smaller variance"
            raise fail("inference.SVGP", what, do) from None
        if q is not None:
            try:
                held = self.visit(q)
                return held if held.value > plain.value else plain
            except NotPositiveDefinite:
                pass
        return plain

    def gradient(self, seen: Seen, *, inputs: bool = True, sites: bool = False) -> tuple[Model, np.ndarray]:
        """Compute the gradient of the bound for hyperparameters, as a model, and for Z if ``inputs``; q or sites stay fixed."""
        q, n = seen.q, self.X.rows
        assert seen.target is not None
        pull = Pull(self.bound, q, seen.target, inputs, sites)
        for start in range(0, n, CHUNK):
            part, features = slice(start, start + CHUNK), self.features(start)
            halves, seen.halves = seen.halves, None
            if halves is None:
                halves = [q.halves(features[self.bound.of(i)][0], i) for i in range(self.bound.latents)]
            pull.add(self.X.take(part), features, halves, seen.first[part], seen.second[part])
        kernel, inducing = pull.finish()
        variance = seen.own + seen.rest
        likelihood = expected_pull(self.model.likelihood, self.seen, self.prior_mean + seen.mean, variance, self.scale)
        mean_bar = (seen.first @ self.model.likelihood.has_mean).astype(self.X.x.dtype)
        return shaped(self.model, kernel, self.model.mean.pull(self.X, mean_bar), likelihood), inducing


def short_step(seen: Seen, share: float) -> Whitened:
    """Return a fraction of the way to the target, with linear interpolation of the means.

    A small fraction is then a small change of f even far from the optimum, where slopes are steep. An improper target, which
    occurs if the likelihood is not log-concave, is approached in natural parameters.
    """
    q, goal = seen.q, seen.target
    assert goal is not None
    between = q.towards(goal, share)
    return between if share == 1.0 or not goal.proper else between.with_means((1 - share) * q.means + share * goal.means)


def near(seen: Seen) -> bool:
    """Return whether the last step was short enough for linear extrapolation."""
    return seen.moved < NEAR and seen.target is not None and seen.target.proper


def mixed_step(seen: Seen, kept: list[tuple[np.ndarray, np.ndarray]]) -> Whitened:
    """Return the precision of the target with means mixed from the last few steps (Anderson 1965).

    Functions coupled by the likelihood are independent under q, so the natural gradient updates each separately; together
    they overshoot or converge slowly. Mixing minimises the residual change.
    """
    assert seen.target is not None
    changes = [goal - here for here, goal in kept]
    moves = np.stack([(kept[-1][0] - here).ravel() for here, _ in kept[:-1]], axis=1)
    turns = np.stack([(changes[-1] - change).ravel() for change in changes[:-1]], axis=1)
    weights = np.linalg.lstsq(turns, changes[-1].ravel(), rcond=1e-10)[0]
    means = (kept[-1][1].ravel() - (turns + moves) @ weights).reshape(kept[-1][0].shape)
    return seen.target.with_means(means)
