"""Gaussian noise."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from covary._checks import check_positive
from covary.data import Data
from covary.likelihoods.base import AbstractLikelihood, Moments, Tilted
from covary.parameters import positive
from covary.sites import Noise


class Gaussian(AbstractLikelihood):
    r"""Gaussian noise, :math:`y = f + \varepsilon`, :math:`\varepsilon \sim N(0, \sigma^2)` (R&W, eq. 2.20).

    One learned ``variance``; rows with a known noise variance have it added, rows with a weight w have the learned part
    divided by w. ``Gaussian(variance=fixed(0.0))`` is noise-free data.

    Parameters
    ----------
    variance
        The noise variance σ², in the units of y squared.
    """

    variance: Any = positive(1.0)

    def log_prob(self, y: Any, f: Any) -> Any:
        return -0.5 * ((y - f) ** 2 / self.variance + jnp.log(2 * jnp.pi * self.variance))

    def sites(self, data: Data) -> Noise:
        """The noise variance of every row."""
        check_positive("likelihoods.Gaussian", "variance", self.variance, zero=self.mark_of("variance").fixed)
        learned = np.full(data.rows, self.variance, data.dtype)
        if data.weight is not None:
            learned = learned / data.weight
        return Noise(learned if data.noise_variance is None else learned + data.noise_variance)

    def pull_sites(self, data: Data, bar: np.ndarray) -> Gaussian:
        """The gradient over the noise variance, from one over the sites."""
        return self.replace(variance=float((bar if data.weight is None else bar / data.weight).sum()))

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Tilted:
        """The product of two Gaussians (R&W, eqs. A.7, A.8)."""
        noise = np.asarray(self.variance, mean.dtype)
        both = variance + noise
        log_z = -0.5 * (np.log(2 * np.pi * both) + (y - mean) ** 2 / both)
        return Tilted(log_z, mean + variance / both * (y - mean), variance * noise / both)

    def predictive(self, mean: np.ndarray, variance: np.ndarray) -> Moments:
        return Moments(mean, variance + np.asarray(self.variance, variance.dtype))
