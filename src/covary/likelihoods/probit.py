r"""Log of the cumulative Gaussian and its derivatives, accurate in both tails.

With :math:`r = N(z)/\Phi(z)`, the first three derivatives of :math:`\log\Phi(z)` are (R&W, eq. 3.16)

.. math:: r, \qquad -r\,(z + r), \qquad r\,(2r^2 + 3zr + z^2 - 1) ,

whose terms cancel for z ≪ 0. They are then computed from the asymptotic series of Mills' ratio, :math:`\Phi(-x)/N(x) =
\frac1x\sum_k (-1)^k (2k-1)!!\,x^{-2k}`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

FAR, TERMS = -14.0, 24  # the series is used below FAR


class Mills(NamedTuple):
    """log Φ(z), its first three derivatives, and the two terms in them that suffer from cancellation."""

    log_phi: np.ndarray
    first: np.ndarray
    second: np.ndarray
    third: np.ndarray
    excess: np.ndarray  # z + r: mean distance below z of a standard normal variable truncated at z
    spread: np.ndarray  # 1 − r (z + r): its variance


@cache
def _series() -> tuple[list[int], list[int], list[int]]:
    """Return coefficients in w = 1/z² of −z(z + r), of (log Φ)″ and of −z(log Φ)‴/w."""
    mills, rho = [1], [1]
    for k in range(1, TERMS + 2):
        mills.append(-mills[-1] * (2 * k - 1))
        rho.append(-sum(mills[j] * rho[k - j] for j in range(1, k + 1)))  # r = −z·ρ, where ρ is the reciprocal series
    excess = rho[1:]
    second = [-sum(rho[j] * excess[k - j] for j in range(k + 1)) for k in range(TERMS)]
    return excess[:TERMS], second, [2 * k * c for k, c in enumerate(second)][1:]


def mills(z: np.ndarray) -> Mills:
    """Return log Φ and its derivatives.

    >>> m = mills(np.array([-30.0, 0.0]))
    >>> m.first.round(6), m.second.round(6)
    (array([30.03326 ,  0.797885]), array([-0.998896, -0.63662 ]))
    """
    z = np.asarray(z)
    with np.errstate(over="ignore"):
        r = np.sqrt(2 / np.pi) / special.erfcx(-z / np.sqrt(2.0))
    near, small = np.maximum(z, FAR), np.minimum(r, 1 - FAR)
    excess, close = near + small, np.minimum(near, 40.0)  # r is zero above
    third = small * ((2 * small + close) * (small + close) - 1)
    second, spread = -small * excess, 1 - small * excess
    far = z < FAR
    if far.any():
        x = np.where(far, z, FAR)
        with np.errstate(over="ignore"):
            w = 1 / (x * x)
        a, b, c = (_horner(w, terms) for terms in _series())
        excess, third = np.where(far, -a / x, excess), np.where(far, -w * c / x, third)
        second, spread = np.where(far, b, second), np.where(far, w * _horner(w, _series()[1][1:]), spread)
    return Mills(special.log_ndtr(z), r, second, third, excess, spread)


def _horner(w: np.ndarray, terms: list[int]) -> np.ndarray:
    out = np.zeros_like(w)
    for c in reversed(terms):
        out = out * w + float(c)
    return out
