r"""Expectation propagation: Gaussian sites by moment matching (R&W, section 3.6).

The evidence is log Z of the gram plus a term from the cavity of each site. With a fraction α of every site removed (power EP;
α = 1 is eq. 3.65), and without inverting any site, it is

.. math:: \log Z_{EP} = -\tfrac12(\mathrm{quad}+\mathrm{logdet}) + \frac1\alpha\sum_i \Bigl[\log\hat Z_i
    + \tfrac12\log(1+\alpha\tilde\tau_i\sigma_{-i}^2)
    - \frac{\alpha^2\tilde\nu_i^2\sigma_{-i}^2 + 2\alpha\tilde\nu_i\mu_{-i} - \alpha\tilde\tau_i\mu_{-i}^2}
      {2(1+\alpha\tilde\tau_i\sigma_{-i}^2)}\Bigr].

At the fixed point, it can be differentiated with the sites held constant (eq. 5.26).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option
from covary._module import static
from covary.data import Data
from covary.gram.base import AbstractBound, AbstractFactor, Bars
from covary.gram.dense import DiagonalFactor
from covary.inference.base import AbstractInference, Gradient, Memory, Solved, centred, observations, prior_spread
from covary.likelihoods.base import Tilted
from covary.model import Model, shaped
from covary.optimise.base import CONVERGED, NOT_CONVERGED, STUCK, of_kind
from covary.sites import Diagonal

MOSTLY = 0.9  # fraction of a marginal's precision from its own site above which cancellation makes the cavity inaccurate
LEAST = 1e-10  # minimum fraction of a marginal's precision that a cavity must keep
SEARCHING = 1e-6  # tolerance within a search: the error of the evidence is its square, that of the gradient the same
ROUGHLY = 1e-3  # maximum movement of sites whose evidence is still accepted in a search
NEAR, MIXED = 0.1, 5  # movement, in units of the marginals, below which sweeps are mixed, and the number of mixed sweeps
PATIENCE, SHORTEST = 4, 0.02  # sweeps without progress before more damping, and the smallest step fraction


def _share(name: str) -> Callable[[float], float]:
    def convert(value: float) -> float:
        if not 0 < float(value) <= 1:
            raise fail("inference.EP", f"{name} is {value}", "give a number above 0 and at most 1", argument=name)
        return float(value)

    return convert


def _schedule(value: str) -> str:
    if value not in ("parallel", "sequential"):
        raise fail("inference.EP", Option("schedule") + f" is {value!r}", "choose 'parallel' or 'sequential'")
    return value


class EP(AbstractInference):
    """Expectation propagation, for any likelihood with one latent function.

    Parameters
    ----------
    max_sweeps
        Maximum number of sweeps over all sites.
    damping
        Fraction of each update that is applied, 0 < damping ≤ 1; it is halved if the sites do not converge.
    tolerance
        Stop when no site would change its own marginal by more than this, relative to the marginal's spread.
    schedule
        ``"parallel"``: update all sites simultaneously, with any gram; ``"sequential"``: update one site at a time, and the
        posterior after each (algorithm 3.5), with :class:`~covary.gram.Dense` only.
    power
        Fraction α of a site that is removed and matched; 1 is EP, and towards 0 it approaches the variational bound.
    """

    max_sweeps: int = static(200)
    _: KW_ONLY
    damping: float = static(0.8, convert=_share("damping"))
    tolerance: float = static(1e-8)
    schedule: str = static("parallel", convert=_schedule)
    power: float = static(1.0, convert=_share("power"))

    def solve(
        self, model: Model, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None, memory: Memory | None = None
    ) -> Solved:
        run = _Run(self, model, data, bound)
        sweep = self._together if self.schedule == "parallel" else self._one_by_one
        tolerance = self.tolerance if memory is None else max(self.tolerance, SEARCHING)
        warm = run.begin(memory)
        status, steps = sweep(run, tolerance)
        if warm and not of_kind(status, CONVERGED):  # the sites of another model may be a poor starting point
            run.begin(None)
            status, steps = sweep(run, tolerance)
        moments = run.moments
        alpha, tau, nu, cavity, mu = self.power, run.tau, run.nu, moments.cavity, moments.cavity_mean
        grown = 1 + alpha * tau * cavity
        inside = alpha**2 * nu**2 * cavity + 2 * alpha * nu * mu - alpha * tau * mu**2
        sites = (moments.tilted.log_z + 0.5 * np.log(grown) - inside / (2 * grown)) / alpha
        value = float(sites.sum()) - 0.5 * (float(run.factor.quad(nu)) + float(run.factor.logdet()))
        if not np.isfinite(value):
            what = "the evidence is undefined at these sites"
            raise NotPositiveDefinite("inference.EP", what, "try " + Option("inference", "Laplace()"))
        if memory is not None:
            if not of_kind(status, CONVERGED) and run.moved > ROUGHLY:  # too inaccurate for a search
                do = "try " + Option("inference", "Laplace()") + ", or more sweeps"
                raise NotPositiveDefinite("inference.EP", status, do)
            memory.sites, memory.spread = (tau, nu), float(np.std(run.mean))
        return Matched(run.factor, nu, run.factor.alpha(nu), value, status, steps, moments=moments, run=run)

    def _together(self, run: _Run, tolerance: float) -> tuple[str, int]:
        """Update all sites simultaneously in damped sweeps, with Anderson mixing near convergence (Anderson 1965).

        Many sites that depend on the same direction of f overshoot together, so plain sweeps oscillate. Mixing corrects the
        few directions concerned, once a linear extrapolation is accurate; without progress, the damping is increased.
        """
        share, best, worse, settled = self.damping, np.inf, 0, 0
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        for steps in range(self.max_sweeps + 1):
            here = np.concatenate([run.tau, run.nu])
            change = np.concatenate(run.match()) - here
            scale = np.concatenate([run.variance, np.sqrt(run.variance)])  # effect of a site on its own marginal
            moved = run.moved = float(np.abs(scale * change).max())
            if moved < tolerance:
                return CONVERGED, steps
            if steps == self.max_sweeps:
                break
            if moved > 2 * best and kept:  # mixing failed
                kept = []
            worse = 0 if moved < best else worse + 1
            if worse >= PATIENCE:
                share, worse, kept = max(SHORTEST, share / 2), 0, []
            settled = settled + 1 if best < 1e-4 and moved > best / 2 else 0
            if settled == 25:  # the rest is rounding error
                return f"{CONVERGED} to {best:.0e}", steps
            best = min(best, moved)
            kept = [*kept, (here, change)][-MIXED:] if moved < NEAR else []
            step, first = (_mixed(kept, scale, share) if kept else share * change), True
            while not run.move(*np.split(here + step, 2)):  # no proper posterior: shorten the step
                step = share * change if first else step / 4
                first = False
                if np.abs(scale * step).max() < 1e-9:
                    run.move(*np.split(here, 2))
                    run.match()
                    return f"{STUCK}: no proper posterior ahead", steps
        return f"{NOT_CONVERGED}: sites still move by {run.moved:.0e}", self.max_sweeps

    def _one_by_one(self, run: _Run, tolerance: float) -> tuple[str, int]:
        """Run algorithm 3.5: a rank-one update of the posterior after every site, recomputed after every sweep."""
        run.match()
        for steps in range(1, self.max_sweeps + 1):
            tau, nu = run.tau.copy(), run.nu.copy()
            S, mean = run.posterior()
            for i in range(len(tau)):
                new_tau, new_nu = run.match_one(i, mean[i], S[i, i], tau[i], nu[i])
                d_tau = self.damping * (new_tau - tau[i])
                d_nu = self.damping * (new_nu - nu[i])
                if 1 + d_tau * S[i, i] <= LEAST:
                    continue
                tau[i], nu[i] = tau[i] + d_tau, nu[i] + d_nu
                s = S[:, i].copy()
                gain = d_tau / (1 + d_tau * s[i])  # line 11 (3.70)
                mean = mean + s * (d_nu - gain * (mean[i] + d_nu * s[i]))  # line 12, without a product by Σ
                S -= gain * np.outer(s, s)
            run.moved = float(
                max(np.abs(run.variance * (tau - run.tau)).max(), np.abs(np.sqrt(run.variance) * (nu - run.nu)).max())
            )
            if not run.move(tau, nu):  # lines 14 to 16
                return f"{STUCK}: no proper posterior ahead", steps
            run.match()
            if run.moved < tolerance:
                return CONVERGED, steps
        return f"{NOT_CONVERGED}: sites still move by {run.moved:.0e}", self.max_sweeps

    def gradient(self, model: Model, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Gradient:
        pulled = bound.pull(solved.factor, solved.shift, solved.alpha, Bars(quad=-0.5, logdet=-0.5))
        assert isinstance(solved, Matched)
        run, moments = solved.run, solved.moments
        mean = model.mean.pull(data.X, moments.slope / self.power)
        bar = np.full(data.rows, 1 / self.power)
        where = (run.y, run.prior_mean + moments.cavity_mean, moments.cavity)
        likelihood = model.likelihood.tilted_pull(*where, run.power, bar)
        return Gradient(shaped(model, pulled.kernel, mean, likelihood), pulled.inducing)


@dataclass
class _Moments:
    """Cavities and tilted moments; cavity means have the prior mean subtracted."""

    cavity_mean: np.ndarray
    cavity: np.ndarray
    tilted: Tilted

    @property
    def slope(self) -> np.ndarray:
        """∂ log Ẑ / ∂ mean."""
        return self.shift / self.cavity

    shift: np.ndarray


@dataclass(frozen=True)
class Matched(Solved):
    """The result of EP, with the run and its moments."""

    _: KW_ONLY
    moments: _Moments
    run: _Run


class _Run:
    """One run of EP: sites, posterior, moments."""

    factor: AbstractFactor
    moments: _Moments
    moved: float = np.inf

    def __init__(self, ep: EP, model: Model, data: Data, bound: AbstractBound) -> None:
        self.ep, self.likelihood, self.bound = ep, model.likelihood, bound
        if self.likelihood.latents != 1:
            name = type(self.likelihood).__name__
            what = f"{name} has {self.likelihood.latents} latent functions"
            raise fail("inference.EP", what, "use " + Option("inference", "Laplace()"), argument=name)
        y, self.weight = observations("inference.EP", self.likelihood, data)
        self.y, self.prior_mean = centred(self.likelihood, y, model.mean.evaluate(data.X))
        alpha = ep.power
        self.power = alpha * self.weight if self.weight is not None else None if alpha == 1 else np.full(data.rows, alpha)

    def begin(self, memory: Memory | None) -> bool:
        """Start from the sites of the last run if they are proper, else from zero (line 2), or small ones for vague weights.

        Return whether the sites are those of the last run.
        """
        held = None if memory is None else memory.sites
        if held is not None and held[0].shape == self.prior_mean.shape and self.move(*held):
            return True
        first = 0.0 if self.bound.basis is None else 0.5 / prior_spread(self.bound) ** 2
        self.move(np.full_like(self.prior_mean, first), np.zeros_like(self.prior_mean))
        return False

    def move(self, tau: np.ndarray, nu: np.ndarray) -> bool:
        """Set the sites and compute the posterior; return False if it is improper."""
        if self.likelihood.log_concave:
            tau = np.maximum(tau, 0.0)  # sites of log-concave likelihoods are never negative, up to rounding
        try:
            factor = self.bound.factor(Diagonal(tau))
        except NotPositiveDefinite:
            return False
        mean, variance = factor.mean(nu), factor.variance()
        if not (np.isfinite(mean).all() and (variance > 0).all()):
            return False
        self.tau, self.nu, self.factor, self.mean, self.variance = tau, nu, factor, mean, variance
        return True

    def match(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the moment-matching sites of all rows (lines 5 to 10); rows without a proper cavity keep theirs."""
        alpha, precision = self.ep.power, 1 / self.variance
        cavity_tau = (self.left() + (1 - alpha) * self.tau * self.variance) * precision  # line 5
        proper = cavity_tau > LEAST * precision
        cavity = 1 / np.where(proper, cavity_tau, precision)
        cavity_mean = self.mean - np.where(proper, alpha * cavity * self.factor.alpha(self.nu), 0.0)  # line 6
        tilted = self.likelihood.tilted(self.y, self.prior_mean + cavity_mean, cavity, self.power)  # line 7
        shift = tilted.mean - self.prior_mean - cavity_mean
        self.moments = _Moments(cavity_mean, cavity, tilted, shift)
        with np.errstate(divide="ignore", invalid="ignore"):
            new_tau = (1 / tilted.variance - cavity_tau) / alpha  # lines 8 and 9
            new_nu = shift / tilted.variance / alpha + cavity_mean * new_tau  # line 10
        sound = proper & np.isfinite(new_tau) & np.isfinite(new_nu)
        if self.likelihood.log_concave:
            new_tau = np.maximum(new_tau, 0.0)
        return np.where(sound, new_tau, self.tau), np.where(sound, new_nu, self.nu)

    def left(self) -> np.ndarray:
        """Return the fraction of every marginal's precision that is not from its own site, 1 − τΣ.

        Small values are computed from R_ii = τ(1 − τΣ) to avoid cancellation.
        """
        own = self.tau * self.variance
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(own > MOSTLY, self.factor.diag_inverse() / self.tau, 1 - own)

    def match_one(self, i: int, mean: float, variance: float, tau: float, nu: float) -> tuple[float, float]:
        """Return the moment-matching site of one row, as :meth:`match`."""
        alpha, precision = self.ep.power, 1 / variance
        cavity_tau = precision - alpha * tau
        if cavity_tau <= LEAST * precision:
            return tau, nu
        cavity_mean = (mean * precision - alpha * nu) / cavity_tau
        one = slice(i, i + 1)
        where = np.array([self.prior_mean[i] + cavity_mean]), np.array([1 / cavity_tau])
        tilted = self.likelihood.tilted(self.y[one], *where, None if self.power is None else self.power[one])
        new_tau = (1 / tilted.variance[0] - cavity_tau) / alpha
        new_nu = ((tilted.mean[0] - self.prior_mean[i]) / tilted.variance[0] - cavity_mean * cavity_tau) / alpha
        return (max(new_tau, 0.0) if self.likelihood.log_concave else new_tau), new_nu

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Return dense Σ and the mean at the current sites."""
        if not isinstance(self.factor, DiagonalFactor):
            kind = type(self.bound).__name__.removesuffix("Bound")
            what = "the sequential schedule cannot be combined with " + Option("gram", kind)
            raise fail("inference.EP", what, "use " + Option("schedule", "'parallel'"))
        return self.factor.full_sigma(), self.mean.copy()


def _mixed(kept: list[tuple[np.ndarray, np.ndarray]], scale: np.ndarray, share: float) -> np.ndarray:
    """Return the step from the last sites: the combination of recent sweeps with the smallest residual change."""
    here, change = kept[-1]
    if len(kept) == 1:
        return share * change
    moves = np.stack([here - x for x, _ in kept[:-1]], axis=1)
    changes = np.stack([change - c for _, c in kept[:-1]], axis=1)
    weights = np.linalg.lstsq(scale[:, None] * changes, scale * change, rcond=1e-10)[0]
    return share * (change - changes @ weights) - moves @ weights
