r"""Expectation propagation: Gaussian sites whose moments match (R&W, section 3.6).

All sites are updated together, with damping; the evidence is the gram's log Z plus what each site's cavity says,

.. math:: \log Z_{EP} = -\tfrac12(\mathrm{quad}+\mathrm{logdet}) + \sum_i \Bigl[\log\hat Z_i
    + \tfrac12\log(1+\tilde\tau_i\sigma_{-i}^2)
    - \frac{\tilde\nu_i^2\sigma_{-i}^2 + 2\tilde\nu_i\mu_{-i} - \tilde\tau_i\mu_{-i}^2}{2(1+\tilde\tau_i\sigma_{-i}^2)}\Bigr],

eq. 3.65 in a form with no inverse of a site. At the fixed point the sites may be held when it is differentiated (5.26).
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from covary._module import static
from covary.data import Data
from covary.gram.base import AbstractBound, Bars
from covary.inference.base import AbstractInference, Solved, check_plain, shaped, zeros_like
from covary.sites import Diagonal


class EP(AbstractInference):
    """Expectation propagation with parallel updates, for likelihoods with tilted moments.

    Parameters
    ----------
    max_sweeps
        The most sweeps over all sites.
    damping
        The share of each update that is taken, 0 < damping ≤ 1.
    tolerance
        Stop when no site moves the evidence or its own precision by more than this.
    """

    max_sweeps: int = static(200)
    _: KW_ONLY
    damping: float = static(0.8)
    tolerance: float = static(1e-11)

    def solve(self, model: Any, data: Data, bound: AbstractBound, *, fixed_jitter: float | None = None) -> Solved:
        check_plain("inference.EP", data)
        prior_mean = model.mean.evaluate(data.X)
        tau, nu = np.zeros_like(data.y), np.zeros_like(data.y)  # algorithm 3.5, line 2
        if bound.basis is not None:
            tau += 0.5  # vague weights are improper until the sites speak
        status, steps = "reached max_sweeps", 0
        while True:
            factor = bound.factor(Diagonal(tau))
            mean, variance = factor.mean(nu), factor.variance()
            cavity_tau = 1 / variance - tau  # line 5
            cavity = 1 / cavity_tau
            cavity_mean = cavity * (mean / variance - nu)  # line 6
            tilted = model.likelihood.tilted(data.y, prior_mean + cavity_mean, cavity)  # line 7
            new_tau = np.maximum(1 / tilted.variance - cavity_tau, 0.0)  # lines 8 and 9
            new_nu = (tilted.mean - prior_mean) / tilted.variance - cavity_mean * cavity_tau  # line 10
            moved = max(
                np.abs(new_tau - tau).max() / (1 + np.abs(tau).max()), np.abs(new_nu - nu).max() / (1 + np.abs(nu).max())
            )
            if moved < self.tolerance or steps >= self.max_sweeps:
                status = "converged" if moved < self.tolerance else status
                break
            tau, nu = tau + self.damping * (new_tau - tau), nu + self.damping * (new_nu - nu)
            steps += 1
        grown = 1 + tau * cavity
        sites = (
            tilted.log_z + 0.5 * np.log(grown) - (nu**2 * cavity + 2 * nu * cavity_mean - tau * cavity_mean**2) / (2 * grown)
        )
        value = float(sites.sum()) - 0.5 * (float(factor.quad(nu)) + float(factor.logdet()))
        slope = (tilted.mean - prior_mean - cavity_mean) / cavity  # ∂ log Ẑ / ∂ (prior mean), cavity held
        return Solved(factor, nu, factor.alpha(nu), value, status, steps, {"slope": slope})

    def gradient(self, model: Any, data: Data, bound: AbstractBound, solved: Solved, *, consume: bool = False) -> Any:
        pulled = bound.pull(solved.factor, solved.shift, solved.alpha, Bars(quad=-0.5, logdet=-0.5))
        mean = model.mean.pull(data.X, solved.extra["slope"])
        return shaped(model, pulled.kernel, mean, zeros_like(model.likelihood))
