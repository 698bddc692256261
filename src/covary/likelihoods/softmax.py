"""Softmax likelihood for several classes."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np
from scipy import special

from covary._checks import fail
from covary._errors import Option, Place
from covary._module import static
from covary._types import Array, ArrayLike
from covary.likelihoods.averages import average_logistic
from covary.likelihoods.base import AbstractLikelihood, Moments
from covary.likelihoods.quadrature import hermite
from covary.likelihoods.triangle import triangle

POINTS = 2048  # quasi-random points for averages over four or more classes
CHUNK = 2**21  # numbers in memory at a time


class Softmax(AbstractLikelihood):
    r"""C classes, :math:`p(y = c \mid f) = e^{f_c} / \sum_{c'} e^{f_{c'}}` (R&W, eq. 3.34).

    Labels are integers from 0 to C − 1; each class has its own latent function.

    Parameters
    ----------
    classes
        The number of classes C.

    Examples
    --------
    >>> Softmax(3).probabilities(np.array([[1.0, 0.0, 0.0]]), np.eye(3)[None]).round(3)
    array([[0.519, 0.241, 0.241]])
    """

    classes: int = static()

    support = "labels"
    log_concave = True

    @property
    def latents(self) -> int:
        return self.classes

    def log_prob(self, y: Array, f: Array) -> Array:
        return f[y.astype(int)] - jax.scipy.special.logsumexp(f)

    def probability(self, f: np.ndarray) -> np.ndarray:
        """Return class probabilities (n, C) at latent values (n, C)."""
        return special.softmax(f, axis=1)

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Return the one-hot matrix (n, C) of the labels."""
        return (y.astype(int)[:, None] == np.arange(self.classes)[None, :]).astype(np.float64)

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        p = self.probability(f)
        return Moments(p, p * (1 - p))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        """Draw labels at latent values (..., C)."""
        return (f + rng.gumbel(size=np.shape(f))).argmax(-1).astype(np.float64)

    def probabilities(self, mean: np.ndarray, variance: np.ndarray, average: str = "exact") -> np.ndarray:
        """Return class probabilities (m, C) averaged over N(mean (m, C), variance (m, C, C)), or at the mean (``"map"``).

        Two classes use the average of a logistic function, three a product rule over the two differences (R&W, exercise
        3.10.3), and more than three 2,048 fixed quasi-random points (errors of about 1e-3).
        """
        if average == "map":
            return self.probability(mean)
        if average != "exact":
            raise fail("likelihoods.Softmax", f"average is {average!r}", "choose 'exact' or 'map'", argument="average")
        if self.classes == 2:
            spread = variance[:, 0, 0] + variance[:, 1, 1] - 2 * variance[:, 0, 1]
            p = average_logistic(mean[:, 1] - mean[:, 0], np.maximum(spread, 0.0))
            return np.stack([1 - p, p], axis=1)
        T = np.eye(self.classes)[:-1] - np.eye(self.classes)[-1]  # differences from the last class, which are sufficient
        points, weight = _product(2) if self.classes == 3 else _spread(self.classes - 1)
        rows = max(1, CHUNK // (len(points) * self.classes))
        parts = [
            _average(mean[i : i + rows] @ T.T, T @ variance[i : i + rows] @ T.T, points, weight)
            for i in range(0, len(mean), rows)
        ]
        return np.concatenate(parts)

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None) -> Moments:
        """Return averaged class probabilities, and the variances of the 0/1 indicators."""
        p = self.probabilities(mean, variance)
        return Moments(p, p * (1 - p))

    def predictive_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.log(self.probabilities(mean, variance)[np.arange(len(y)), y.astype(int)])

    def check(self, y: np.ndarray, who: str) -> None:
        if y.ndim != 1:
            raise fail(who, Option("y") + f" has shape {y.shape}", "give one label per row")
        bad = (y != np.floor(y)) | (y < 0) | (y >= self.classes)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise fail(who, Option("y") + f" is {y[row]:g} " + Place(row), f"give labels 0 to {self.classes - 1}")

    def latent_values(self, y: np.ndarray) -> np.ndarray:
        return np.full(len(y), 1.2)  # only the size matters: the difference of two such functions is like Bernoulli's


def _average(mean: np.ndarray, variance: np.ndarray, points: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Average the softmax over N(mean, variance), given a rule for the standard normal.

    The product rule is aligned with the principal axes, where it is most accurate; the quasi-random points use a triangular
    root, which is at least as accurate for them and is not rotated by rounding errors.
    """
    variance = (variance + variance.transpose(0, 2, 1)) / 2
    if mean.shape[1] == 2:
        values, vectors = np.linalg.eigh(variance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    else:
        root = triangle(variance)
    f = mean[:, None, :] + np.einsum("ncd,sd->nsc", root, points)
    full = np.concatenate([f, np.zeros((*f.shape[:2], 1))], axis=2)
    return np.einsum("nsc,s->nc", special.softmax(full, axis=2), weight)


@cache
def _product(dimensions: int, count: int = 48) -> tuple[np.ndarray, np.ndarray]:
    """Return a product of Gauss–Hermite rules."""
    z, w = hermite(count)
    grids = np.meshgrid(*[z] * dimensions, indexing="ij")
    weights = np.ones(())
    for _ in range(dimensions):
        weights = np.multiply.outer(weights, w)
    return np.stack([g.ravel() for g in grids], axis=1), weights.ravel()


@cache
def _spread(dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a fixed set of scrambled Sobol points of the normal distribution, with their mirror images."""
    from scipy.stats import qmc  # imported here because scipy.stats takes half a second to import

    points = special.ndtri(qmc.Sobol(dimensions, scramble=True, rng=0).random(POINTS // 2))
    return np.concatenate([points, -points]), np.full(POINTS, 1 / POINTS)
