r"""The kernels in NumPy alone, for exported predictors.

Exported files contain copies of the functions they need, so functions here may only use NumPy, ``math``, other functions of
this file and the profiles imported below. Every kernel takes two stacks of points, x (..., n, d) and z (..., m, d), and returns
(..., n, m). Formulas and references are in the docstrings of :mod:`covary.kernels`; numbers that need special functions (Matérn
and Bessel expansions) are computed when the file is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from covary.kernels.host import (
    half_integer_profile,
    matern32_profile,
    matern52_profile,
    squared_exponential_profile,
)

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]
Profile = Callable[[np.ndarray], np.ndarray]


# distances ---------------------------------------------------------------------------------------------------------
def flip(z: np.ndarray) -> np.ndarray:
    """Transpose the last two axes."""
    return np.swapaxes(z, -1, -2)


def apart(x: np.ndarray, z: np.ndarray, k: int) -> np.ndarray:
    """Return the differences between all rows in column k."""
    return x[..., :, None, k] - z[..., None, :, k]


def square(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike) -> np.ndarray:
    """Return all squared distances in length-scales, exactly zero between equal rows."""
    weight = np.broadcast_to(1 / np.square(np.asarray(lengthscale, float)), x.shape[-1:])
    total = weight[0] * apart(x, z, 0) ** 2
    for k in range(1, x.shape[-1]):
        total += weight[k] * apart(x, z, k) ** 2
    return total


def horner(coefficients: list[float], x: np.ndarray) -> np.ndarray:
    """Evaluate the polynomial with these coefficients, the constant first."""
    total = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def diag(kernel: Kernel, x: np.ndarray) -> np.ndarray:
    """Return k(x, x) of every row."""
    alone = x[..., :, None, :]
    return kernel(alone, alone)[..., 0, 0]


def on(kernel: Kernel, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Evaluate a kernel at mapped points."""
    return kernel(x, z)


def demand(right: ArrayLike, words: str) -> None:
    """Raise an error for points where a kernel is not defined."""
    if not np.all(right):
        raise ValueError(words)


# functions of distance ---------------------------------------------------------------------------------------------
def profiled(x: np.ndarray, z: np.ndarray, profile: Profile, lengthscale: ArrayLike) -> np.ndarray:
    """Evaluate a function of the squared distance."""
    return profile(square(x, z, lengthscale))


def squared_exponential(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike) -> np.ndarray:
    return squared_exponential_profile(square(x, z, lengthscale), False)[0]


def matern12(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike) -> np.ndarray:
    return np.exp(-np.sqrt(square(x, z, lengthscale)))


def matern32(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike) -> np.ndarray:
    return matern32_profile(square(x, z, lengthscale), False)[0]


def matern52(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike) -> np.ndarray:
    return matern52_profile(square(x, z, lengthscale), False)[0]


def matern_half_integer(x: np.ndarray, z: np.ndarray, coefficients: list[float], lengthscale: ArrayLike) -> np.ndarray:
    return half_integer_profile(square(x, z, lengthscale), np.asarray(coefficients))[0]


def matern(
    x: np.ndarray,
    z: np.ndarray,
    nu: float,
    near: tuple[list[float], list[float], float] | None,
    nodes: list[tuple[float, float]],
    lengthscale: ArrayLike,
) -> np.ndarray:
    """Evaluate any smoothness: a mixture of exponentials or, for s < 1 if ``near`` is given, the power series R + E S."""
    s = nu / 2 * square(x, z, lengthscale)
    k = np.zeros_like(s)
    for weight, rate in nodes:
        k += weight * np.exp(-rate * s)
    if near is not None:
        R, S, rest = near
        log = np.log(np.where(s > 0, s, 1.0))
        growth = log if rest == 0 else np.expm1(rest * log) / rest
        small = np.minimum(s, 1.0)
        k = np.where(s < 1, horner(R, small) + growth * horner(S, small), k)
    return np.where(s > 0, k, 1.0)


def rational_quadratic(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike, alpha: float) -> np.ndarray:
    return np.exp(-alpha * np.log1p(square(x, z, lengthscale) / (2 * alpha)))


def gamma_exponential(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike, gamma: float) -> np.ndarray:
    return np.exp(-(square(x, z, lengthscale) ** (gamma / 2)))


def squared_exponential_mixture(
    x: np.ndarray, z: np.ndarray, lengthscales: list[list[float]], weights: list[float]
) -> np.ndarray:
    parts = [w * squared_exponential(x, z, ell) for w, ell in zip(weights, lengthscales, strict=True)]
    return np.asarray(sum(parts) / sum(weights))


def piecewise_polynomial(
    x: np.ndarray, z: np.ndarray, power: int, coefficients: list[float], lengthscale: ArrayLike
) -> np.ndarray:
    r = np.sqrt(square(x, z, lengthscale))
    return np.maximum(1 - r, 0.0) ** power * horner(coefficients, r)


def bessel(
    x: np.ndarray, z: np.ndarray, order: float, end: float, series: list[float], hankel: list[float], lengthscale: ArrayLike
) -> np.ndarray:
    """Evaluate a Chebyshev series in the squared distance up to ``end``, and Hankel's expansion beyond."""
    s = square(x, z, lengthscale)
    near = s < end**2
    y = 2 * np.where(near, s, 0.0) / end**2 - 1
    first, second = np.zeros_like(s), np.zeros_like(s)
    for c in series[:0:-1]:
        first, second = 2 * y * first - second + c, first
    low = np.where(s > 0, y * first - second + series[0], 1.0)
    r = np.sqrt(np.where(near, end**2, s))
    u = end / r
    signed = [(1, 1, -1, -1)[i % 4] * c for i, c in enumerate(hankel)]
    P = horner(signed[::2], u**2)
    Q = u * horner(signed[1::2], u**2) if len(hankel) > 1 else 0.0
    phase = r - (order / 2 + 0.25) * math.pi
    height = math.exp(math.lgamma(order + 1) + order * math.log(2 / end)) * math.sqrt(2 / (math.pi * end))
    return np.where(near, low, height * u ** (order + 0.5) * (P * np.cos(phase) - Q * np.sin(phase)))


# waves ---------------------------------------------------------------------------------------------------------------
def periodic(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike, period: ArrayLike) -> np.ndarray:
    weight, period = (np.broadcast_to(np.asarray(v, float), x.shape[-1:]) for v in (lengthscale, period))
    return np.exp(sum(-2 * (np.sin(math.pi * apart(x, z, k) / period[k]) / weight[k]) ** 2 for k in range(x.shape[-1])))


def cosine(x: np.ndarray, z: np.ndarray, period: ArrayLike) -> np.ndarray:
    period = np.broadcast_to(np.asarray(period, float), x.shape[-1:])
    return np.cos(2 * math.pi * sum(apart(x, z, k) / period[k] for k in range(x.shape[-1])))


def spectral_mixture(
    x: np.ndarray, z: np.ndarray, weights: list[float], means: list[list[float]], scales: list[list[float]]
) -> np.ndarray:
    total = 0.0
    for w, mean, scale in zip(weights, means, scales, strict=True):
        phase = sum(mean[k] * apart(x, z, k) for k in range(x.shape[-1]))
        fall = sum((scale[k] * apart(x, z, k)) ** 2 for k in range(x.shape[-1]))
        total = total + w * np.cos(2 * math.pi * phase) * np.exp(-2 * math.pi**2 * fall)
    return np.asarray(total)


def spectral(x: np.ndarray, z: np.ndarray, frequencies: ArrayLike, power: ArrayLike) -> np.ndarray:
    centre, omega, power = z.mean(-2, keepdims=True), 2 * math.pi * np.asarray(frequencies), np.asarray(power)
    total = 1.0
    for k in range(x.shape[-1]):
        a, b = ((v - centre)[..., k, None] * omega for v in (x, z))
        total = total * ((np.cos(a) * power) @ flip(np.cos(b)) + (np.sin(a) * power) @ flip(np.sin(b)))
    return np.asarray(total)


def periodised(x: np.ndarray, z: np.ndarray, kernel: Kernel, period: float, terms: int) -> np.ndarray:
    centre = z.mean(-2, keepdims=True)
    x, z = ((v - centre) - period * np.floor((v - centre) / period) for v in (x, z))
    return np.asarray(sum(kernel(x + m * period, z) for m in range(-terms, terms + 1)))


# products ------------------------------------------------------------------------------------------------------------
def constant(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.ones((*np.broadcast_shapes(x.shape[:-2], z.shape[:-2]), x.shape[-2], z.shape[-2]))


def linear(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike) -> np.ndarray:
    return (x / np.asarray(lengthscale)) @ flip(z / np.asarray(lengthscale))


def polynomial(x: np.ndarray, z: np.ndarray, degree: int, bias: float, lengthscale: ArrayLike) -> np.ndarray:
    return (bias + linear(x, z, lengthscale)) ** degree


def tilde(x: np.ndarray, lengthscale: ArrayLike, bias: float) -> np.ndarray:
    """Return the rows (√b, x/ℓ)."""
    return np.concatenate([np.full((*x.shape[:-1], 1), math.sqrt(bias)), x / np.asarray(lengthscale)], axis=-1)


def neural_network(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike, bias: float) -> np.ndarray:
    a, b = (tilde(v, lengthscale, bias) for v in (x, z))
    a, b = (2**0.5 * v / np.sqrt(1 + 2 * (v * v).sum(-1, keepdims=True)) for v in (a, b))
    most = 1 - np.finfo(float).eps
    return 2 / math.pi * np.arcsin(np.clip(a @ flip(b), -most, most))


def tanh_network(
    x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike, bias: float, scales: list[float], weights: list[float]
) -> np.ndarray:
    a, b = (tilde(v, lengthscale, bias) for v in (x, z))
    both, most = a @ flip(b), 1 - np.finfo(float).eps
    p, q = ([1 / np.sqrt(s * s + (v * v).sum(-1)) for s in scales] for v in (a, b))
    total = np.zeros_like(both)
    for i, left in enumerate(p):
        for j, right in enumerate(q):
            inside = both * left[..., :, None] * right[..., None, :]
            total += weights[i] * weights[j] * np.arcsin(np.clip(inside, -most, most))
    return 2 / math.pi * total


def arc_cosine(x: np.ndarray, z: np.ndarray, order: int, lengthscale: ArrayLike, bias: float) -> np.ndarray:
    a, b = (tilde(v, lengthscale, bias) for v in (x, z))
    p, q = (np.sqrt((v * v).sum(-1, keepdims=True)) for v in (a, b))
    s = square(a / p, b / q, 1.0)
    theta, c = 2 * np.arcsin(np.minimum(0.5 * np.sqrt(s), 1.0)), 1 - 0.5 * s
    sine = np.sqrt(np.maximum(s * (1 - 0.25 * s), 0.0))
    J = math.pi - theta
    if order == 1:
        J = sine + J * c
    elif order == 2:
        J = 3 * sine * c + J * (1 + 2 * c**2)
    return J / math.pi * (p * flip(q)) ** order


# processes, categories, the sphere -----------------------------------------------------------------------------------
def wiener(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    demand(x >= 0, "the kernel Wiener is defined for inputs of zero or more")
    return np.minimum(x, flip(z))


def integrated_wiener(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    demand(x >= 0, "the kernel IntegratedWiener is defined for inputs of zero or more")
    low, high = np.minimum(x, flip(z)), np.maximum(x, flip(z))
    return low * low * (3 * high - low) / 6


def brownian_bridge(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    demand((x >= 0) & (x <= 1), "the kernel BrownianBridge is defined for inputs from 0 to 1")
    return np.minimum(x, flip(z)) * (1 - np.maximum(x, flip(z)))


def fractional_brownian(x: np.ndarray, z: np.ndarray, hurst: float) -> np.ndarray:
    a, b = ((v**2).sum(-1) ** hurst for v in (x, z))
    return 0.5 * (a[..., :, None] + b[..., None, :] - square(x, z, 1.0) ** hurst)


def whole(x: np.ndarray, levels: int | None = None) -> None:
    """Raise an error for values that are not codes of categories."""
    allowed = (x >= 0) & (x == np.floor(x)) & (x < (np.inf if levels is None else levels))
    known = "" if levels is None else f" below {levels}"
    demand(allowed, f"a column of categories must contain their codes, integers from 0{known}")


def hamming(x: np.ndarray, z: np.ndarray, lengthscale: ArrayLike) -> np.ndarray:
    whole(x)
    weight = np.broadcast_to(1 / np.asarray(lengthscale, float), x.shape[-1:])
    return np.exp(-sum(weight[k] * (apart(x, z, k) != 0) for k in range(x.shape[-1])))


def exchangeable(x: np.ndarray, z: np.ndarray, correlation: float, levels: int | None = None) -> np.ndarray:
    whole(x, levels)
    return np.where(apart(x, z, 0) == 0, 1.0, correlation)


def categories(x: np.ndarray, z: np.ndarray, factor: ArrayLike) -> np.ndarray:
    factor = np.asarray(factor, float)
    whole(x, len(factor))
    own = 1 / (1 + (factor**2).sum(1))
    unit = factor * np.sqrt(own)[:, None]
    a, b = (v[..., 0].astype(int) for v in (x, z))
    return unit[a] @ flip(unit[b]) + np.where(a[..., :, None] == b[..., None, :], own[a][..., :, None], 0.0)


def on_sphere(x: np.ndarray) -> np.ndarray:
    """Convert latitude and longitude in degrees to points on the unit sphere."""
    demand(np.abs(x[..., 0]) <= 90, "latitudes are degrees from -90 to 90")
    latitude, longitude = np.deg2rad(x[..., 0]), np.deg2rad(np.mod(x[..., 1], 360.0))
    level = np.cos(latitude)
    return np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=-1)


def great_circle(x: np.ndarray, z: np.ndarray, lengthscale: float, family: str) -> np.ndarray:
    a, b = on_sphere(x), on_sphere(z)
    s, t = square(a, b, 1.0), square(a, -b, 1.0)
    near = 2 * np.arcsin(0.5 * np.sqrt(np.minimum(s, t)))
    tau = np.where(s <= t, near, math.pi - near) / lengthscale
    return np.exp(-tau) if family == "exponential" else (1 + 4 * tau) * np.maximum(1 - tau, 0.0) ** 4


def sine_power(x: np.ndarray, z: np.ndarray, hurst: float) -> np.ndarray:
    return 1 - (0.25 * square(on_sphere(x), on_sphere(z), 1.0)) ** hurst


# kernels made of kernels ---------------------------------------------------------------------------------------------
def factor_map(x: np.ndarray, loadings: ArrayLike, lengthscale: ArrayLike) -> np.ndarray:
    return np.concatenate([x / np.asarray(lengthscale), x @ np.asarray(loadings)], axis=-1)


def additive(parts: list[np.ndarray], orders: list[int], weights: list[float]) -> np.ndarray:
    """Return a weighted sum of elementary symmetric polynomials of the kernels of single columns."""
    sums = [np.ones_like(parts[0])] + [np.zeros_like(parts[0]) for _ in range(max(orders))]
    for k in parts:
        sums = [sums[0], *(sums[i + 1] + k * sums[i] for i in range(max(orders)))]
    return np.asarray(sum(w * sums[order] for w, order in zip(weights, orders, strict=True)))


def normalised(x: np.ndarray, z: np.ndarray, kernel: Kernel) -> np.ndarray:
    a, b = (1 / np.sqrt(diag(kernel, v)) for v in (x, z))
    return kernel(x, z) * a[..., :, None] * b[..., None, :]


def invariant(x: np.ndarray, z: np.ndarray, kernel: Kernel, group: list[list[list[float]]], one_sided: bool) -> np.ndarray:
    """Return the mean over the images of z, and of x unless one side is sufficient."""
    images = [x] if one_sided else [x @ np.asarray(M).T for M in group]
    parts = [kernel(a, z @ np.asarray(M).T) for M in group for a in images]
    return np.asarray(sum(parts) / len(parts))


def gaussian_basis(x: np.ndarray, z: np.ndarray, centres: ArrayLike, width: ArrayLike, weight: ArrayLike) -> np.ndarray:
    a, b = (squared_exponential(v, np.asarray(centres, float), width) for v in (x, z))
    return (a * np.asarray(weight)) @ flip(b)


def modulated_squared_exponential(x: np.ndarray, z: np.ndarray, width: ArrayLike, spread: ArrayLike) -> np.ndarray:
    width, spread = np.asarray(width, float), np.asarray(spread, float)
    a, b = ((v**2 / (2 * spread**2 + width**2)).sum(-1) for v in (x, z))
    local = np.sqrt(2 + (width / spread) ** 2) * width
    return np.exp(-0.5 * (square(x, z, local) + a[..., :, None] + b[..., None, :]))


def gaussian_field(x: np.ndarray, centres: ArrayLike, width: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """Return the exponential of a sum of Gaussian bumps: (..., n), or (..., n, d)."""
    return np.exp(squared_exponential(x, np.asarray(centres, float), width) @ np.asarray(beta).T)


def local_scales(
    x: np.ndarray, z: np.ndarray, g: np.ndarray, h: np.ndarray, lengthscale: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the prefactor and the quadratic form of a varying length-scale, from its values at x and z."""
    d = x.shape[-1]
    if g.ndim < x.ndim:
        g, h = (np.repeat(v[..., None], d, axis=-1) for v in (g, h))
    weight = np.broadcast_to(1 / np.square(np.asarray(lengthscale, float)), (d,))
    product, quadratic = 1.0, 0.0
    for k in range(d):
        a, b = g[..., :, None, k], h[..., None, :, k]
        product = product * (2 * a * b / (a**2 + b**2))
        quadratic = quadratic + 2 * weight[k] * apart(x, z, k) ** 2 / (a**2 + b**2)
    return np.sqrt(product), np.asarray(quadratic)


def varying_lengthscale(x: np.ndarray, z: np.ndarray, g: np.ndarray, h: np.ndarray, lengthscale: ArrayLike) -> np.ndarray:
    prefactor, quadratic = local_scales(x, z, g, h, lengthscale)
    return prefactor * np.exp(-0.5 * quadratic)


def paciorek_schervish(x: np.ndarray, z: np.ndarray, kernel: Kernel, g: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Evaluate a kernel of distance at a scaled distance, for pairs of points in one column."""
    prefactor, quadratic = local_scales(x, z, g, h, 1.0)
    far = np.sqrt(quadratic)[..., None, None]
    return prefactor * kernel(far, np.zeros_like(far))[..., 0, 0]


def varying_amplitude(K: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., :, None] * K * b[..., None, :]


def change_point(
    x: np.ndarray, z: np.ndarray, before: np.ndarray, after: np.ndarray, at: float, width: float, column: int
) -> np.ndarray:
    s, t = (0.5 * (1 + np.tanh((v[..., column] - at) / width / 2)) for v in (x, z))
    return (1 - s)[..., :, None] * before * (1 - t)[..., None, :] + s[..., :, None] * after * t[..., None, :]


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function of every entry."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), dtype=float)


def warp(x: np.ndarray, centres: ArrayLike, width: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """Transform every column by its own monotone map."""
    d = x.shape[-1]
    width = np.broadcast_to(np.asarray(width, float), (d,))
    centres, slope = (np.broadcast_to(v, (d, np.shape(v)[-1])) for v in (np.asarray(centres, float), np.exp(np.asarray(beta))))
    each = [erf((x[..., k, None] - centres[k]) / (2**0.5 * width[k])) @ slope[k] * width[k] for k in range(d)]
    return (math.pi / 2) ** 0.5 * np.stack(each, axis=-1)
