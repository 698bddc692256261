"""Several classes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from scipy import special

from covary._module import static
from covary.likelihoods.base import AbstractLikelihood, Moments


class Softmax(AbstractLikelihood):
    r"""C classes, :math:`p(y = c \mid f) = e^{f_c} / \sum_{c'} e^{f_{c'}}` (R&W, eq. 3.34).

    Labels are whole numbers from 0 to C − 1; each class has its own latent function.

    Parameters
    ----------
    classes
        The number of classes C.
    """

    classes: int = static()

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

    def predictive(self, mean: np.ndarray, variance: np.ndarray) -> Moments:
        """Averaged class probabilities over N(mean, variance) by 1,024 fixed quasi-random points; variance is (n, C, C)."""
        from scipy.stats import qmc  # late: scipy.stats takes half a second to import

        points = special.ndtri(qmc.Sobol(self.classes, scramble=True, rng=0).random(1024))
        root = np.linalg.cholesky(variance + 1e-12 * np.eye(self.classes) * (1 + np.abs(variance).max()))
        p = special.softmax(mean[:, None, :] + np.einsum("ncd,sd->nsc", root, points), axis=2).mean(1)
        return Moments(p, p * (1 - p))
