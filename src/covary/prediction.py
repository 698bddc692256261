"""Predictions: the latent function f and a new observation y, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special


@dataclass(frozen=True)
class Spread:
    """Mean and variance per row, and the joint covariance where it was asked for."""

    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray | None = None

    @property
    def std(self) -> np.ndarray:
        """The standard deviation per row."""
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central Gaussian interval that holds a share ``level`` of the mass."""
        half = special.ndtri(0.5 + level / 2)
        return self.mean - half * self.std, self.mean + half * self.std

    def log_prob(self, y: Any) -> np.ndarray:
        """The Gaussian log density of values, one per row (R&W, eq. 2.34 with the sign turned)."""
        return -0.5 * (np.log(2 * np.pi * self.variance) + (np.asarray(y) - self.mean) ** 2 / self.variance)


@dataclass(frozen=True)
class Prediction:
    """What is believed at new inputs: ``f``, the latent function, and ``y``, a new observation."""

    f: Spread
    y: Spread
