r"""Expectation propagation: Gaussian sites whose moments match (R&W, section 3.6).

The evidence is the gram's log Z plus what each site's cavity says; with a share α of every site taken out (power EP; α = 1 is
eq. 3.65) it is, in a form with no inverse of a site,

.. math:: \log Z_{EP} = -\tfrac12(\mathrm{quad}+\mathrm{logdet}) + \frac1\alpha\sum_i \Bigl[\log\hat Z_i
    + \tfrac12\log(1+\alpha\tilde\tau_i\sigma_{-i}^2)
    - \frac{\alpha^2\tilde\nu_i^2\sigma_{-i}^2 + 2\alpha\tilde\nu_i\mu_{-i} - \alpha\tilde\tau_i\mu_{-i}^2}
      {2(1+\alpha\tilde\tau_i\sigma_{-i}^2)}\Bigr].

At the fixed point the sites may be held when it is differentiated (eq. 5.26).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from covary._checks import NotPositiveDefinite, fail
from covary._module import static
from covary.data import Data
from covary.gram.base import AbstractBound, Bars
from covary.inference.base import AbstractInference, Solved, centred, observations, prior_spread, shaped
from covary.sites import Diagonal

MOSTLY = 0.9  # the share of a marginal's precision beyond which its own site leaves few digits to the cavity
LEAST = 1e-10  # the share of a marginal's precision that a cavity must keep
SEARCHING = 1e-6  # the tolerance within a search: the evidence is then right to its square, the gradient to as much
ROUGHLY = 1e-3  # how far from settled sites may be for their evidence to be of use in a search
NEAR, MIXED = 0.1, 5  # how near the end, in units of the marginals, sweeps are mixed, and how many of them
PATIENCE, SHORTEST = 4, 0.02  # sweeps without progress before they are damped, and the least share that is taken


def _share(name: str) -> Any:
    def convert(value: Any) -> float:
        if not 0 < float(value) <= 1:
            raise fail("inference.EP", f"{name} is {value}", "give a number above 0 and at most 1")
        return float(value)

    return convert


def _schedule(value: Any) -> str:
    if value not in ("parallel", "sequential"):
        raise fail("inference.EP", f"schedule is {value!r}", "choose 'parallel' or 'sequential'")
    return value


class EP(AbstractInference):
    """Expectation propagation, for any likelihood with one latent function.

    Parameters
    ----------
    max_sweeps
        The most sweeps over all sites.
    damping
        The share of each update that is taken, 0 < damping ≤ 1; it is halved when the sites do not settle.
    tolerance
        Stop when no site would change its own marginal by more than this, relative to the marginal's spread.
    schedule
        ``"parallel"``: all sites at once, any gram; ``"sequential"``: one site after the other with the posterior brought up
        to date in between (algorithm 3.5), on :class:`~covary.gram.Dense` only.
    power
        The share α of a site that is taken out and matched; 1 is EP, towards 0 it approaches the variational bound.
    """

    max_sweeps: int = static(200)
    _: KW_ONLY
    damping: float = static(0.8, convert=_share("damping"))
    tolerance: float = static(1e-8)
    schedule: str = static("parallel", convert=_schedule)
    power: float = static(1.0, convert=_share("power"))

    def solve(
        self, model: Any, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None, memory: Any = None
    ) -> Solved:
        run = _Run(self, model, data, bound)
        sweep = self._together if self.schedule == "parallel" else self._one_by_one
        tolerance = self.tolerance if memory is None else max(self.tolerance, SEARCHING)
        warm = run.begin(memory)
        status, steps = sweep(run, tolerance)
        if warm and not status.startswith("converged"):  # the sites of another model may lead nowhere
            run.begin(None)
            status, steps = sweep(run, tolerance)
        moments = run.moments
        alpha, tau, nu, cavity, mu = self.power, run.tau, run.nu, moments.cavity, moments.cavity_mean
        grown = 1 + alpha * tau * cavity
        inside = alpha**2 * nu**2 * cavity + 2 * alpha * nu * mu - alpha * tau * mu**2
        sites = (moments.tilted.log_z + 0.5 * np.log(grown) - inside / (2 * grown)) / alpha
        value = float(sites.sum()) - 0.5 * (float(run.factor.quad(nu)) + float(run.factor.logdet()))
        if not np.isfinite(value):
            raise NotPositiveDefinite("inference.EP: the sites have no proper evidence here; try inference=Laplace().")
        if memory is not None:
            if not status.startswith("converged") and run.moved > ROUGHLY:  # no step of a search may lean on it
                raise NotPositiveDefinite(f"inference.EP: {status}; try inference=Laplace(), or more sweeps.")
            memory["sites"], memory["spread"] = (tau, nu), float(np.std(run.mean))
        extra = {"moments": moments, "run": run}
        return Solved(run.factor, nu, run.factor.alpha(nu), value, status, steps, extra)

    def _together(self, run: _Run, tolerance: float) -> tuple[str, int]:
        """Sweeps that update all sites at once, damped; near the end they are mixed from the last few (Anderson 1965).

        Many sites that answer to the same direction of f overshoot together, and plain sweeps then circle. Mixing finds the
        few directions in which they do, once close enough for straight lines to tell; where sweeps bring the sites no
        closer, less of each is taken.
        """
        share, best, worse, settled = self.damping, np.inf, 0, 0
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        for steps in range(self.max_sweeps + 1):
            here = np.concatenate([run.tau, run.nu])
            change = np.concatenate(run.match()) - here
            scale = np.concatenate([run.variance, np.sqrt(run.variance)])  # what a site does to its own marginal
            moved = run.moved = float(np.abs(scale * change).max())
            if moved < tolerance:
                return "converged", steps
            if steps == self.max_sweeps:
                break
            if moved > 2 * best and kept:  # mixing led astray
                kept = []
            worse = 0 if moved < best else worse + 1
            if worse >= PATIENCE:
                share, worse, kept = max(SHORTEST, share / 2), 0, []
            settled = settled + 1 if best < 1e-4 and moved > best / 2 else 0
            if settled == 25:  # rounding decides from here on
                return f"converged to {best:.0e}", steps
            best = min(best, moved)
            kept = [*kept, (here, change)][-MIXED:] if moved < NEAR else []
            step, first = (_mixed(kept, scale, share) if kept else share * change), True
            while not run.move(*np.split(here + step, 2)):  # no proper posterior: less of it
                step = share * change if first else step / 4
                first = False
                if np.abs(scale * step).max() < 1e-9:
                    run.move(*np.split(here, 2))
                    run.match()
                    return "stuck: no proper posterior ahead", steps
        return f"not converged: sites still move by {moved:.0e}", self.max_sweeps

    def _one_by_one(self, run: _Run, tolerance: float) -> tuple[str, int]:
        """Algorithm 3.5: a rank-one change of the posterior after every site, the whole anew after every sweep."""
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
            moved = run.moved = float(
                max(np.abs(run.variance * (tau - run.tau)).max(), np.abs(np.sqrt(run.variance) * (nu - run.nu)).max())
            )
            if not run.move(tau, nu):  # lines 14 to 16
                return "stuck: no proper posterior ahead", steps
            run.match()
            if moved < tolerance:
                return "converged", steps
        return f"not converged: sites still move by {moved:.0e}", self.max_sweeps

    def gradient(self, model: Any, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Any:
        pulled = bound.pull(solved.factor, solved.shift, solved.alpha, Bars(quad=-0.5, logdet=-0.5))
        solved.extra["inducing"] = pulled.inducing
        run, moments = solved.extra["run"], solved.extra["moments"]
        mean = model.mean.pull(data.X, moments.slope / self.power)
        bar = np.full(data.rows, 1 / self.power)
        where = (run.y, run.prior_mean + moments.cavity_mean, moments.cavity)
        return shaped(model, pulled.kernel, mean, model.likelihood.tilted_pull(*where, run.power, bar))


@dataclass
class _Moments:
    """Cavities and what the likelihood makes of them; means are without the prior's own."""

    cavity_mean: np.ndarray
    cavity: np.ndarray
    tilted: Any

    @property
    def slope(self) -> np.ndarray:
        """∂ log Ẑ / ∂ mean."""
        return self.shift / self.cavity

    shift: np.ndarray


class _Run:
    """One run of EP: sites, posterior, moments."""

    factor: Any
    moments: _Moments
    moved: float = np.inf

    def __init__(self, ep: EP, model: Any, data: Data, bound: AbstractBound) -> None:
        self.ep, self.likelihood, self.bound = ep, model.likelihood, bound
        if self.likelihood.latents != 1:
            name = type(self.likelihood).__name__
            raise fail("inference.EP", f"{name} has {self.likelihood.latents} latent functions", "use inference=Laplace()")
        y, self.weight = observations("inference.EP", self.likelihood, data)
        self.y, self.prior_mean = centred(self.likelihood, y, model.mean.evaluate(data.X))
        alpha = ep.power
        self.power = alpha * self.weight if self.weight is not None else None if alpha == 1 else np.full(data.rows, alpha)

    def begin(self, memory: Any) -> bool:
        """No sites (line 2), or those of the last run where they are proper; vague weights need some from the start.

        Whether they are those of the last run.
        """
        held = None if memory is None else memory.get("sites")
        if held is not None and held[0].shape == self.prior_mean.shape and self.move(*held):
            return True
        first = 0.0 if self.bound.basis is None else 0.5 / prior_spread(self.bound) ** 2
        self.move(np.full_like(self.prior_mean, first), np.zeros_like(self.prior_mean))
        return False

    def move(self, tau: np.ndarray, nu: np.ndarray) -> bool:
        """Take these sites and find the posterior; False where there is none."""
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
        """The sites whose moments match, all at once (lines 5 to 10); rows without a proper cavity keep theirs."""
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
        """The share of every marginal's precision that is not its own site's, 1 − τΣ.

        Where that is little, the difference would lose the digits: R_ii = τ(1 − τΣ) has them.
        """
        own = self.tau * self.variance
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(own > MOSTLY, self.factor.diag_inverse() / self.tau, 1 - own)

    def match_one(self, i: int, mean: float, variance: float, tau: float, nu: float) -> tuple[float, float]:
        """The same of one site."""
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
        """Σ and the mean at the present sites, dense."""
        if not hasattr(self.factor, "full_sigma"):
            kind = type(self.bound).__name__.removesuffix("Bound")
            raise fail("inference.EP", f"the sequential schedule does not go with gram={kind}", "use schedule='parallel'")
        return self.factor.full_sigma(), self.mean.copy()


def _mixed(kept: list[tuple[np.ndarray, np.ndarray]], scale: np.ndarray, share: float) -> np.ndarray:
    """The step from the last sites: the combination of recent sweeps whose changes cancel best."""
    here, change = kept[-1]
    if len(kept) == 1:
        return share * change
    moves = np.stack([here - x for x, _ in kept[:-1]], axis=1)
    changes = np.stack([change - c for _, c in kept[:-1]], axis=1)
    weights = np.linalg.lstsq(scale[:, None] * changes, scale * change, rcond=1e-10)[0]
    return share * (change - changes @ weights) - moves @ weights
