"""Student-t noise: a few wild observations do not move the fit."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from covary.likelihoods.base import AbstractLikelihood, Moments
from covary.parameters import positive


class StudentT(AbstractLikelihood):
    r"""Student-t noise with scale s and ν degrees of freedom; not log-concave.

    .. math:: p(y\mid f) = \frac{\Gamma(\frac{\nu+1}2)}{\Gamma(\frac\nu2)\sqrt{\nu\pi}\,s}
        \Bigl(1 + \frac{(y-f)^2}{\nu s^2}\Bigr)^{-\frac{\nu+1}2}

    Parameters
    ----------
    scale
        The scale s, in the units of y.
    degrees
        The degrees of freedom ν; ν → ∞ is Gaussian noise of variance s².
    """

    scale: Any = positive(1.0)
    _: KW_ONLY
    degrees: Any = positive(4.0)

    def log_prob(self, y: Any, f: Any) -> Any:
        nu, z = self.degrees, (y - f) / self.scale
        norm = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * jnp.pi) - jnp.log(self.scale)
        return norm - (nu + 1) / 2 * jnp.log1p(z**2 / nu)

    def predictive(self, mean: np.ndarray, variance: np.ndarray) -> Moments:
        nu = float(self.degrees)
        own = float(self.scale) ** 2 * nu / (nu - 2) if nu > 2 else np.inf
        return Moments(mean, variance + own)
