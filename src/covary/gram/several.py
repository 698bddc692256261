"""The base class of factors of several latent functions: values have shape (n, L), and each function has its own K."""

from __future__ import annotations

import numpy as np

from covary.data import Inputs
from covary.gram.base import AbstractBound, AbstractFactor, Bars, Pulled
from covary.gram.linalg import Lapack
from covary.kernels import tiles


class SeveralFactor(AbstractFactor):
    """Prior times sites that couple L latent functions; subclasses implement products with R = (K + W⁻¹)⁻¹."""

    K: list[np.ndarray]

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Return R B for B of shape (n, L)."""
        raise NotImplementedError

    def pull(self, bound: AbstractBound, shift: np.ndarray, bars: Bars) -> Pulled:
        """Return the gradients with respect to the kernels and the shift, with the sites held fixed."""
        raise NotImplementedError

    def conditional(self, bound: AbstractBound, alpha: np.ndarray, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Return the latent means (m, L) and covariances (m, L, L) at new inputs (for classes R&W, algorithm 3.4)."""
        kernels = [bound.kernels[c if len(bound.kernels) > 1 else 0] for c in range(len(self.K))]
        Ks = [tiles.cross(k, bound.X, X) for k in kernels]
        mean = np.stack([K.T @ alpha[:, c] for c, K in enumerate(Ks)], axis=1)
        return mean, self.covariances(Ks, [tiles.diag(k, X) for k in kernels])

    def covariances(self, Ks: list[np.ndarray], prior: list[np.ndarray]) -> np.ndarray:
        """Return latent covariances (m, L, L) at m new inputs, from K(X, X*) and k(x*, x*) of every function."""
        raise NotImplementedError

    def apply_W(self, v: np.ndarray) -> np.ndarray:
        """Return W v for v of shape (n, L)."""
        raise NotImplementedError

    def root_W(self, z: np.ndarray) -> np.ndarray:
        """Return C z for z of shape (n, L), where W = C Cᵀ."""
        raise NotImplementedError

    def apply_K(self, v: np.ndarray) -> np.ndarray:
        """Return K v, function by function."""
        return np.stack([Lapack.times(K, v[:, c]) for c, K in enumerate(self.K)], axis=1)

    def alpha(self, shift: np.ndarray) -> np.ndarray:
        """Return the weights of the posterior mean, b − R K b (R&W, algorithms 3.1, 3.3: stable however large K is)."""
        return shift - self.solve(self.apply_K(shift))

    def sigma(self, B: np.ndarray) -> np.ndarray:
        """Return Σ B = K (B − R K B)."""
        return self.apply_K(self.alpha(B))

    def mean(self, shift: np.ndarray) -> np.ndarray:
        """Return the posterior mean at the training rows."""
        return self.sigma(shift)

    def quad(self, shift: np.ndarray) -> float:
        """Return the quadratic term −bᵀΣb."""
        return -float((shift * self.sigma(shift)).sum())
