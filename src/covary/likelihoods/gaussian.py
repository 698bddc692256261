"""Gaussian likelihood."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import special

from covary._checks import check_positive, fail, namespace
from covary._errors import Place
from covary._module import Numbers
from covary._types import Array, ArrayLike
from covary.data import Data
from covary.likelihoods.base import AbstractLikelihood, Moments, Slopes, Tilted
from covary.parameters import positive
from covary.sites import Noise


class Gaussian(AbstractLikelihood):
    r"""Gaussian noise, :math:`y = f + \varepsilon`, :math:`\varepsilon \sim N(0, \sigma^2)` (R&W, eq. 2.20).

    ``variance`` is learned. A known noise variance of a row is added to it, and a row of weight w counts w times.
    Use ``Gaussian(variance=fixed(0.0))`` for noise-free data.

    Parameters
    ----------
    variance
        The noise variance σ², in the units of y squared.
    """

    variance: Numbers = positive(1.0)

    log_concave = True
    location = True

    def log_prob(self, y: Array, f: Array) -> Array:
        return -0.5 * ((y - f) ** 2 / self.variance + jnp.log(2 * jnp.pi * self.variance))

    def sites(self, data: Data) -> Noise:
        """Return the noise variance of every row."""
        check_positive("likelihoods.Gaussian", "variance", self.variance, zero=self.mark_of("variance").fixed)
        v = self.variances(data)
        return Noise(v if data.weight is None else v / data.weight)

    def pull_sites(self, data: Data, bar: np.ndarray) -> Gaussian:
        """Return the gradient with respect to the noise variance, given that with respect to the sites."""
        return self.replace(variance=float((bar if data.weight is None else bar / data.weight).sum()) + self.repeats(data)[1])

    def variances(self, data: Data) -> np.ndarray:
        """Return the learned plus known variance of a single observation, per row; also in compiled code."""
        learned = namespace(self.variance).full(data.rows, self.variance, data.dtype)
        return learned if data.noise_variance is None else learned + data.noise_variance

    def repeats(self, data: Data) -> tuple[float, float]:
        r"""Return what weights w ≠ 1 add to the log evidence of the means, and its slope in the noise variance.

        .. math:: w\log N(y\mid f, v) - \frac{S}{2v} = \log N(y\mid f, v/w)
                  - \tfrac12\big[(w-1)\log 2\pi v + \log w + S/v\big]
        """
        if data.weight is None and data.scatter is None:
            return 0.0, 0.0
        v = self.variances(data).astype(np.float64)
        w = np.ones(data.rows) if data.weight is None else data.weight.astype(np.float64)
        S = np.zeros(data.rows) if data.scatter is None else data.scatter.astype(np.float64)
        sharp = v == 0
        if sharp.any():  # noise-free rows: equal observations count once, different ones are inconsistent
            if (S[sharp] > 0).any():
                row = int(np.flatnonzero(sharp & (S > 0))[0])
                what = "the inputs " + Place(row) + " are repeated with different targets"
                raise fail("likelihoods.Gaussian", what, "allow some noise")
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

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: np.ndarray | float | None = None) -> Tilted:
        """Return the moments of the product of two Gaussians (R&W, eqs. A.7, A.8)."""
        v = float(self.variance)
        w = np.ones_like(mean) if power is None else power
        both = variance + v / w
        log_z = -0.5 * (np.log(2 * np.pi * both) + (y - mean) ** 2 / both) - 0.5 * ((w - 1) * np.log(2 * np.pi * v) + np.log(w))
        return Tilted(log_z, mean + variance / both * (y - mean), variance * (v / w) / both)

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        return Moments(f, np.full_like(f, float(self.variance)))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        return special.ndtr((y - f) / np.sqrt(float(self.variance)))

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None
    ) -> np.ndarray:
        return special.ndtr((y - mean) / np.sqrt(variance + float(self.variance)))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        return f + np.sqrt(float(self.variance)) * rng.standard_normal(np.shape(f))

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        return Moments(mean, variance + np.asarray(self.variance, variance.dtype))
