"""Several classes."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
from scipy import special

from covary._checks import fail
from covary._module import static
from covary.likelihoods.averages import average_logistic
from covary.likelihoods.base import AbstractLikelihood, Moments
from covary.likelihoods.quadrature import hermite

POINTS = 2048  # quasi-random points of an average over four classes or more
CHUNK = 2**21  # numbers held at once


class Softmax(AbstractLikelihood):
    r"""C classes, :math:`p(y = c \mid f) = e^{f_c} / \sum_{c'} e^{f_{c'}}` (R&W, eq. 3.34).

    Labels are whole numbers from 0 to C − 1; each class has its own latent function.

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

    def log_prob(self, y: Any, f: Any) -> Any:
        return f[y.astype(int)] - jax.scipy.special.logsumexp(f)

    def probability(self, f: np.ndarray) -> np.ndarray:
        """Class probabilities (n, C) at latent values (n, C)."""
        return special.softmax(f, axis=1)

    def targets(self, y: np.ndarray) -> np.ndarray:
        """The 0/1 matrix (n, C) of the labels."""
        return (y.astype(int)[:, None] == np.arange(self.classes)[None, :]).astype(np.float64)

    def moments(self, f: np.ndarray, size: Any = None) -> Moments:
        p = self.probability(f)
        return Moments(p, p * (1 - p))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Labels drawn at latent values (..., C)."""
        return (f + rng.gumbel(size=np.shape(f))).argmax(-1).astype(np.float64)

    def probabilities(self, mean: np.ndarray, variance: np.ndarray, average: str = "exact") -> np.ndarray:
        """Class probabilities (m, C) over latents N(mean (m, C), variance (m, C, C)): averaged, or at the mean (``"map"``).

        Two classes by the average of a logistic function, three by a product rule over the two differences (R&W, exercise
        3.10.3), more by 2,048 fixed quasi-random points (errors of about 1e-3).
        """
        if average == "map":
            return self.probability(mean)
        if average != "exact":
            raise fail("likelihoods.Softmax", f"average is {average!r}", "choose 'exact' or 'map'")
        if self.classes == 2:
            spread = variance[:, 0, 0] + variance[:, 1, 1] - 2 * variance[:, 0, 1]
            p = average_logistic(mean[:, 1] - mean[:, 0], np.maximum(spread, 0.0))
            return np.stack([1 - p, p], axis=1)
        T = np.eye(self.classes)[:-1] - np.eye(self.classes)[-1]  # differences from the last class: nothing else matters
        points, weight = _product(2) if self.classes == 3 else _spread(self.classes - 1)
        rows = max(1, CHUNK // (len(points) * self.classes))
        parts = [
            _average(mean[i : i + rows] @ T.T, T @ variance[i : i + rows] @ T.T, points, weight)
            for i in range(0, len(mean), rows)
        ]
        return np.concatenate(parts)

    def predictive(self, mean: np.ndarray, variance: np.ndarray, size: Any = None) -> Moments:
        """Averaged class probabilities, and the variances of the 0/1 indicators."""
        p = self.probabilities(mean, variance)
        return Moments(p, p * (1 - p))

    def predictive_log_prob(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.log(self.probabilities(mean, variance)[np.arange(len(y)), y.astype(int)])

    def check(self, y: np.ndarray, who: str) -> None:
        if y.ndim != 1:
            raise fail(who, f"y has shape {y.shape}", "give one label per row")
        bad = (y != np.floor(y)) | (y < 0) | (y >= self.classes)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise fail(who, f"y is {y[row]:g} at row {row}", f"give labels 0 to {self.classes - 1}")

    def latent_values(self, y: np.ndarray) -> np.ndarray:
        return np.full(len(y), 1.2)  # a size, no more: the difference of two such functions is like Bernoulli's


def _average(mean: np.ndarray, variance: np.ndarray, points: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Over N(mean, variance), by a rule for the standard normal.

    The product rule looks along the principal axes, where it is most accurate; the quasi-random points along a triangle's,
    which are at least as good for them and which rounding cannot turn.
    """
    variance = (variance + variance.transpose(0, 2, 1)) / 2
    if mean.shape[1] == 2:
        values, vectors = np.linalg.eigh(variance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    else:
        root = _triangle(variance)
    f = mean[:, None, :] + np.einsum("ncd,sd->nsc", root, points)
    full = np.concatenate([f, np.zeros((*f.shape[:2], 1))], axis=2)
    return np.einsum("nsc,s->nc", special.softmax(full, axis=2), weight)


def _triangle(variance: np.ndarray) -> np.ndarray:
    """Cholesky's lower triangles (n, d, d) of covariances that may be singular: what is nothing but rounding is left out."""
    L, top = np.zeros_like(variance), np.einsum("nii->ni", variance).max(1)
    for j in range(variance.shape[1]):
        rest = variance[:, j:, j] - np.einsum("nik,nk->ni", L[:, j:, :j], L[:, j, :j])
        own = rest[:, 0]
        kept = own > 1e-12 * top
        L[:, j:, j] = np.where(kept[:, None], rest / np.sqrt(np.where(kept, own, 1.0))[:, None], 0.0)
    return L


@cache
def _product(dimensions: int, count: int = 48) -> tuple[np.ndarray, np.ndarray]:
    """A product of Gauss–Hermite rules."""
    z, w = hermite(count)
    grids = np.meshgrid(*[z] * dimensions, indexing="ij")
    weights = np.ones(())
    for _ in range(dimensions):
        weights = np.multiply.outer(weights, w)
    return np.stack([g.ravel() for g in grids], axis=1), weights.ravel()


@cache
def _spread(dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Scrambled Sobol points of the normal distribution, with their mirror images: always the same ones."""
    from scipy.stats import qmc  # late: scipy.stats takes half a second to import

    points = special.ndtri(qmc.Sobol(dimensions, scramble=True, rng=0).random(POINTS // 2))
    return np.concatenate([points, -points]), np.full(POINTS, 1 / POINTS)
