"""A constant predictor: the mean of the observations, with their standard deviation as the error bar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from covary.fits import AbstractFamily, Answer, Fit, Judged, Method, Observed, Stored


@dataclass(frozen=True)
class Constant:
    """The training rows: inputs (n, d) and targets (n, p)."""

    x: np.ndarray
    y: np.ndarray

    @property
    def std(self) -> np.ndarray:
        """The error bar of each target; never 0, also if the target is constant."""
        return np.maximum(self.y.std(0), 1e-13 * np.abs(self.y.mean(0)) + 1e-100)


class Family(AbstractFamily[Constant]):
    """Predict the mean of each target everywhere."""

    name = "constant"
    title = "Constant"

    def learn(self, observed: Observed) -> tuple[Constant, Method]:
        return Constant(observed.x, observed.y.reshape(len(observed.x), -1)), Method("mean", "nothing else is known")

    def predict(self, fit: Fit[Constant], x: np.ndarray, *, level: float = 0.95, latent=False, size=None, truth=None) -> Answer:
        mean, std = fit.state.y.mean(0), fit.state.std
        half = float(ndtri(0.5 + level / 2)) * std
        parts = np.stack([mean, std, mean - half, mean + half], axis=1).ravel()
        columns = {title: np.full(len(x), part) for title, part in zip(self.titles(fit), parts, strict=True)}
        if truth is None:
            return Answer(columns)
        z = (truth.reshape(len(x), -1) - mean) / std
        return Answer(columns, log_prob=(-0.5 * (np.log(2 * np.pi * std**2) + z**2)).reshape(truth.shape))

    def judged(self, fit: Fit[Constant], x: np.ndarray | None = None, y: np.ndarray | None = None) -> Judged:
        if x is not None and y is not None:
            return super().judged(fit, x, y)
        seen, n = fit.state.y, len(fit.state.y)
        mean, std = (n * seen.mean(0) - seen) / max(n - 1, 1), np.broadcast_to(fit.state.std, seen.shape)
        return Judged.of_numbers("leave-one-out", "from the mean of the others", fit.state.x, seen, mean, std)

    def encode(self, fit: Fit[Constant], *, factor: bool | None = None) -> Stored:
        return Stored({}, {"x": fit.state.x, "y": fit.state.y})

    def decode(self, stored: Stored, fit: Fit[None]) -> Constant:
        return Constant(stored.arrays["x"], stored.arrays["y"])


FAMILY = Family()
