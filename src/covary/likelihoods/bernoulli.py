"""Two classes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from covary._checks import fail
from covary._module import static
from covary.likelihoods.base import AbstractLikelihood, Moments, Tilted


def _link(value: Any) -> str:
    if value not in ("probit", "logit"):
        raise fail("likelihoods.Bernoulli", f"link is {value!r}", "choose 'probit' or 'logit'")
    return value


class Bernoulli(AbstractLikelihood):
    r"""Two classes, :math:`p(y = \pm1 \mid f) = \sigma(y f)` (R&W, eq. 3.5).

    Labels above zero are the class +1, the others −1 (so 0/1 and ±1 both do).

    Parameters
    ----------
    link
        ``"probit"``, the cumulative Gaussian Φ, or ``"logit"``, the logistic function.
    """

    link: str = static("probit", convert=_link)

    def log_prob(self, y: Any, f: Any) -> Any:
        z = jnp.where(y > 0, f, -f)
        return jax.scipy.special.log_ndtr(z) if self.link == "probit" else -jnp.logaddexp(0.0, -z)

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Tilted:
        """Moments of Φ times a Gaussian (R&W, eq. 3.58)."""
        if self.link != "probit":
            return AbstractLikelihood.tilted(self, y, mean, variance)
        sign = np.where(y > 0, 1.0, -1.0)
        spread = np.sqrt(1 + variance)
        z = sign * mean / spread
        log_z = special.log_ndtr(z)
        ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_z)
        return Tilted(
            log_z,
            mean + sign * variance * ratio / spread,
            variance - variance**2 * ratio / (1 + variance) * (z + ratio),
        )

    def predictive(self, mean: np.ndarray, variance: np.ndarray) -> Moments:
        """The probability of the class +1 (R&W, eq. 3.63; for the logit MacKay's approximation, eq. 3.25 and W & B)."""
        if self.link == "probit":
            p = special.ndtr(mean / np.sqrt(1 + variance))
        else:
            p = special.expit(mean / np.sqrt(1 + np.pi * variance / 8))
        return Moments(p, p * (1 - p))
