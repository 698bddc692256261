"""Samples of frequencies from the spectra of further kernels, for :func:`covary.kernels.random_features`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import special

from covary._precision import precision
from covary.kernels.features import NEGLIGIBLE, Waves, _at_most, _each, convolved, isotropic, strata, waves
from covary.kernels.isotropic import Bessel, GammaExponential, SquaredExponentialMixture
from covary.kernels.matern import Matern, MaternHalfInteger
from covary.kernels.metric import FactorMetric
from covary.kernels.spectral import Periodised, Spectral, SpectralMixture
from covary.kernels.spectrum import spectral_density
from covary.kernels.stationary import SquaredExponential

MOST_HARMONICS = 100_000  # of a periodised kernel


@waves.register(Matern)
@waves.register(MaternHalfInteger)
def _(kernel: Matern | MaternHalfInteger, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """Eq. 4.15, as for Matern12, 32, 52."""
    nu = float(kernel.nu) if isinstance(kernel, Matern) else kernel.order + 0.5
    tail, power = strata(count, rng)
    beta = special.betaincinv(nu, columns / 2, tail)
    return isotropic(np.sqrt(2 * nu * (1 - beta) / beta), power, kernel.lengthscale, columns, rng)


@waves.register
def _(kernel: GammaExponential, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """e^(−r^γ) = E e^(−Sr²) with S positive and stable of index a = γ/2 (Kanter 1975): normal of variance 2S."""
    a = float(kernel.gamma) / 2
    tail, power = strata(count, rng)
    if a < 1:
        angle, wait = np.pi * rng.permutation(strata(count, rng, 1)[0]), -np.log1p(-tail)
        shape = np.sin(a * angle) ** (a / (1 - a)) * np.sin((1 - a) * angle) / np.sin(angle) ** (1 / (1 - a))
        scale = (shape / wait) ** ((1 - a) / a)
    else:
        scale = np.ones(count)
    chi = np.sqrt(2 * special.gammainccinv(columns / 2, rng.permutation(strata(count, rng, 1)[0]) if a < 1 else tail))
    return isotropic(np.sqrt(2 * scale) * chi, power, kernel.lengthscale, columns, rng)


def _mixed(parts: list[Waves], count: int, rng: np.random.Generator) -> Waves:
    both = Waves(np.concatenate([p.frequencies for p in parts]), np.concatenate([p.power for p in parts]), False)
    return _at_most(both, count, rng)


@waves.register
def _(kernel: SquaredExponentialMixture, columns: int, count: int, rng: np.random.Generator) -> Waves:
    share = np.asarray(kernel.weights) / np.sum(kernel.weights)
    parts = []
    for p, ell in zip(share, kernel.lengthscales, strict=True):
        inner = waves(SquaredExponential(ell), columns, max(1, int(p * count)), rng)
        parts.append(replace(inner, power=p * inner.power))
    return _mixed(parts, count, rng)


@waves.register
def _(kernel: SpectralMixture, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """Normal with means ±2πμ and standard deviation 2πσ."""
    weights, shape = np.asarray(kernel.weights), (-1, columns)
    parts = []
    for w, mean, scale in zip(weights, np.reshape(kernel.means, shape), np.reshape(kernel.scales, shape), strict=True):
        inner = waves(SquaredExponential(1 / (2 * np.pi * scale)), columns, max(1, int(w / weights.sum() * count)), rng)
        sign = rng.choice([-1.0, 1.0], size=(len(inner.power), 1))
        parts.append(Waves(2 * np.pi * mean + sign * inner.frequencies, w * inner.power, False))
    return _mixed(parts, count, rng)


@waves.register
def _(kernel: Bessel, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """|ω|² is a Beta(D/2, ν − D/2 + 1) number: one for ν = D/2 − 1."""
    tail, power = strata(count, rng)
    rest = kernel.order - columns / 2 + 1
    radius = np.sqrt(1 - special.betaincinv(rest, columns / 2, tail)) if rest > 1e-9 else np.ones(count)
    return isotropic(radius, power, kernel.lengthscale, columns, rng)


@waves.register
def _(kernel: Spectral, columns: int, count: int, rng: np.random.Generator) -> Waves:
    with precision(np.float64):
        s, power = (np.asarray(v) for v in kernel.power())
    parts = []
    for k in range(columns):
        frequencies = np.zeros((len(s), columns))
        frequencies[:, k] = 2 * np.pi * s
        parts.append(Waves(frequencies, power, True))
    return _at_most(convolved(parts, count, rng), count, rng)


@waves.register
def _(kernel: Periodised, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """Poisson's sum: harmonics n of power S(n/p)/p, twice for n > 0."""
    n, period = np.arange(MOST_HARMONICS), float(kernel.period)
    power = np.where(n > 0, 2, 1) * spectral_density(kernel.kernel, n / period) / period
    top = kernel.diag([[0.0]])[0]
    last = np.flatnonzero(power > NEGLIGIBLE * top)[-1]
    power = power[: last + 1]
    power[-1] += max(top - power.sum(), 0.0)  # the power beyond the last harmonic kept
    return _at_most(Waves(2 * np.pi / period * n[: last + 1, None], power * top / power.sum(), True), count, rng)


@waves.register
def _(kernel: FactorMetric, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """k(τ) = κ(Lᵀτ) with LLᵀ = M: frequencies are mapped by L."""
    loadings = np.asarray(kernel.loadings)
    values, axes = np.linalg.eigh(loadings @ loadings.T + np.diag(_each(kernel.lengthscale, columns) ** -2.0))
    inner = waves(kernel.kernel, columns, count, rng)
    return replace(inner, frequencies=inner.frequencies @ (axes * np.sqrt(np.maximum(values, 0))).T)
