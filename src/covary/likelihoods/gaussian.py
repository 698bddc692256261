"""Gaussian noise."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import special

from covary._checks import check_positive, fail
from covary.data import Data
from covary.likelihoods.base import AbstractLikelihood, Moments, Slopes, Tilted
from covary.parameters import positive
from covary.sites import Noise


class Gaussian(AbstractLikelihood):
    r"""Gaussian noise, :math:`y = f + \varepsilon`, :math:`\varepsilon \sim N(0, \sigma^2)` (R&W, eq. 2.20).

    One learned ``variance``; rows with a known noise variance have it added, a row of weight w counts w times.
    ``Gaussian(variance=fixed(0.0))`` is noise-free data.

    Parameters
    ----------
    variance
        The noise variance σ², in the units of y squared.
    """

    variance: Any = positive(1.0)

    log_concave = True
    location = True

    def log_prob(self, y: Any, f: Any) -> Any:
        return -0.5 * ((y - f) ** 2 / self.variance + jnp.log(2 * jnp.pi * self.variance))

    def sites(self, data: Data) -> Noise:
        """The noise variance of every row."""
        check_positive("likelihoods.Gaussian", "variance", self.variance, zero=self.mark_of("variance").fixed)
        v = self._each(data)
        return Noise(v if data.weight is None else v / data.weight)

    def pull_sites(self, data: Data, bar: np.ndarray) -> Gaussian:
        """The gradient over the noise variance, from one over the sites."""
        return self.replace(variance=float((bar if data.weight is None else bar / data.weight).sum()) + self.repeats(data)[1])

    def _each(self, data: Data) -> np.ndarray:
        """The variance of one observation at every row, learned and known."""
        learned = np.full(data.rows, self.variance, data.dtype)
        return learned if data.noise_variance is None else learned + data.noise_variance

    def repeats(self, data: Data) -> tuple[float, float]:
        r"""What rows of weight w ≠ 1 add to the log evidence of their means, and its slope over the noise variance.

        .. math:: w\log N(y\mid f, v) - \frac{S}{2v} = \log N(y\mid f, v/w)
                  - \tfrac12\big[(w-1)\log 2\pi v + \log w + S/v\big]
        """
        if data.weight is None and data.scatter is None:
            return 0.0, 0.0
        v = self._each(data).astype(np.float64)
        w = np.ones(data.rows) if data.weight is None else data.weight.astype(np.float64)
        S = np.zeros(data.rows) if data.scatter is None else data.scatter.astype(np.float64)
        sharp = v == 0
        if sharp.any():  # noise-free rows: equal observations are one observation, others contradict each other
            if (S[sharp] > 0).any():
                row = int(np.flatnonzero(sharp & (S > 0))[0])
                raise fail("likelihoods.Gaussian", f"row {row} repeats its inputs with other targets", "allow some noise")
            v, w, S = v[~sharp], w[~sharp], S[~sharp]
        outputs = data.y.shape[1] if data.y.ndim == 2 else 1
        value = -0.5 * (outputs * ((w - 1) * np.log(2 * np.pi * v) + np.log(w)) + S / v).sum()
        return float(value), float(-0.5 * (outputs * (w - 1) / v - S / v / v).sum())

    def log_probs(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        v = float(self.variance)
        return -0.5 * (((y if f.ndim == 1 else y[:, None]) - f) ** 2 / v + np.log(2 * np.pi * v))

    def slopes(self, y: np.ndarray, f: np.ndarray) -> Slopes:
        v = float(self.variance)
        return Slopes(self.log_probs(y, f), (y - f) / v, np.full_like(f, -1 / v), np.zeros_like(f))

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: Any = None) -> Tilted:
        """The product of two Gaussians (R&W, eqs. A.7, A.8)."""
        v = float(self.variance)
        w = np.ones_like(mean) if power is None else power
        both = variance + v / w
        log_z = -0.5 * (np.log(2 * np.pi * both) + (y - mean) ** 2 / both) - 0.5 * ((w - 1) * np.log(2 * np.pi * v) + np.log(w))
        return Tilted(log_z, mean + variance / both * (y - mean), variance * (v / w) / both)

    def moments(self, f: np.ndarray, size: Any = None) -> Moments:
        return Moments(f, np.full_like(f, float(self.variance)))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: Any = None) -> np.ndarray:
        return special.ndtr((y - f) / np.sqrt(float(self.variance)))

    def predictive_cdf(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Any = None) -> np.ndarray:
        return special.ndtr((y - mean) / np.sqrt(variance + float(self.variance)))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        return f + np.sqrt(float(self.variance)) * rng.standard_normal(np.shape(f))

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: Any = None) -> Moments:
        return Moments(mean, variance + np.asarray(self.variance, variance.dtype))
