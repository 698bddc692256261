"""What factors of several latent functions share: values have shape (n, L), and each function has a K of its own."""

from __future__ import annotations

import numpy as np

from covary.gram.linalg import Lapack


class SeveralFactor:
    """Prior times sites that couple L latent functions; a kind says how to apply R = (K + W⁻¹)⁻¹."""

    jitter = 0.0
    observed = False
    K: list[np.ndarray]

    def solve(self, v: np.ndarray) -> np.ndarray:
        """R v for v of shape (n, L)."""
        raise NotImplementedError

    def apply_K(self, v: np.ndarray) -> np.ndarray:
        """K v, function by function."""
        return np.stack([Lapack.times(K, v[:, c]) for c, K in enumerate(self.K)], axis=1)

    def alpha(self, shift: np.ndarray) -> np.ndarray:
        """The weights of the posterior mean, b − R K b (R&W, algorithms 3.1, 3.3: sound however large K is)."""
        return shift - self.solve(self.apply_K(shift))

    def sigma(self, v: np.ndarray) -> np.ndarray:
        """Σ v = K (v − R K v)."""
        return self.apply_K(self.alpha(v))

    def mean(self, shift: np.ndarray) -> np.ndarray:
        """The posterior mean at the training rows."""
        return self.sigma(shift)

    def quad(self, shift: np.ndarray) -> float:
        """−bᵀΣb."""
        return -float((shift * self.sigma(shift)).sum())
