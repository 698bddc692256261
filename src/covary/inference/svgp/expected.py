r"""E log p(y | f) over independent Gaussians, row by row, with its slopes, for the variational bound.

For one latent function f ~ N(μ, v) and g = log p(y | f),

.. math:: \partial_\mu E g = E[g\,(f - \mu)]/v,\qquad \partial_v E g = E[g\,((f-\mu)^2/v - 1)]/2v ,

which equal E g′ and ½ E g″ (Opper & Archambeau 2009) but need no derivatives of g and also hold if g has kinks. They are
computed by quadrature; Gaussian noise, constant or input-dependent, has closed forms. For the softmax,

.. math:: E \log\textstyle\sum_c e^{f_c} = E \max_c (f_c + \gamma_c) - 0.5772\ldots
    = \int \Bigl(1[x > 0] - \prod_c E\exp(-e^{f_c - x})\Bigr)\,dx - 0.5772\ldots

with independent Gumbel variables γ_c: one-dimensional integrals for any number of classes (errors of about 1e-6, and 1e-4 for
latent standard deviations of eight). Other likelihoods of several functions are averaged over fixed quasi-random points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
from scipy import special

from covary._checks import check_positive, fail
from covary._errors import Option
from covary._types import Parts
from covary.data import Data
from covary.inference.base import observations
from covary.likelihoods import quadrature
from covary.likelihoods.base import AVERAGE, AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.likelihoods.heteroscedastic import HeteroscedasticGaussian
from covary.likelihoods.softmax import Softmax

LEAST = 1e-150  # minimum standard deviation
REACH, PANELS, NODES = 8.0, 6, 8  # range, panels and nodes per panel for likelihoods with a sharp peak
TAILS, SPACING = (6.5, 3.2, 8.0), 0.55  # softmax integral: standard deviations, the two Gumbel tails, and the step
NARROW = 1e-5  # smaller standard deviations are lost in rounding
FINE, MOST = ((1.0, 12), (1.8, 16), (2.5, 24), (4.0, 64)), 96  # number of nodes by the largest standard deviation
FAR = 350.0  # length of the integration range at which exponentials approach overflow
POINTS = 256  # number of quasi-random points, without their mirror images
CHUNK = 2**21  # maximum number of values in memory


@dataclass(frozen=True)
class Rows:
    """The observations of some rows: values, weights, known noise variances, and scatter of merged rows."""

    y: np.ndarray
    weight: np.ndarray | None = None
    noise: np.ndarray | None = None
    scatter: np.ndarray | None = None

    @staticmethod
    def of(who: str, likelihood: AbstractLikelihood, data: Data) -> Rows:
        """Check and return the observations of all rows."""
        if isinstance(likelihood, Gaussian):
            likelihood.check(data.y, who)
            check_positive("likelihoods.Gaussian", "variance", likelihood.variance, zero=likelihood.mark_of("variance").fixed)
            if float(likelihood.variance) == 0 and (data.noise_variance is None or not data.noise_variance.all()):
                do = "give a positive noise variance, or use " + Option("gram", "Dense()")
                raise fail(who, "the noise is zero at some rows", do)
        else:
            observations(who, likelihood, data)
        parts = (data.y, data.weight, data.noise_variance, data.scatter)
        return Rows(*(None if v is None else np.asarray(v, np.float64) for v in parts))  # type: ignore[arg-type]

    def take(self, rows: Parts) -> Rows:
        """Select rows."""
        return Rows(*(None if v is None else v[rows] for v in (self.y, self.weight, self.noise, self.scatter)))  # type: ignore[arg-type]


class Expected(NamedTuple):
    """Weighted E log p (n,), and its slopes with respect to the means and variances of the latent values (n, L)."""

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray


Rule: TypeAlias = Callable[..., Expected]


def expected(likelihood: AbstractLikelihood, rows: Rows, mean: np.ndarray, variance: np.ndarray) -> Expected:
    """Compute weighted E log p(y | f) for latent values N(mean, variance), both (n, L), and its slopes."""
    w = np.ones(len(mean)) if rows.weight is None else rows.weight
    if isinstance(likelihood, Gaussian):
        v, miss = _noise(likelihood, rows), rows.y - mean[:, 0]
        value = -0.5 * w * (np.log(2 * np.pi * v) + (miss * miss + variance[:, 0]) / v)
        value -= 0.0 if rows.scatter is None else 0.5 * rows.scatter / v
        return Expected(value, (w * miss / v)[:, None], (-0.5 * w / v)[:, None])
    rule: Rule = _one if likelihood.latents == 1 else _softmax if isinstance(likelihood, Softmax) else _several
    if isinstance(likelihood, HeteroscedasticGaussian):
        rule = _heteroscedastic
    step = max(1, CHUNK // (likelihood.latents * _count(likelihood)))
    parts = [rule(likelihood, rows.y[i : i + step], mean[i : i + step], variance[i : i + step]) for i in range(0, len(w), step)]
    value, first, second = (np.concatenate(p) for p in zip(*parts, strict=True))
    return Expected(w * value, w[:, None] * first, w[:, None] * second)


def expected_pull(
    likelihood: AbstractLikelihood, rows: Rows, mean: np.ndarray, variance: np.ndarray, scale: float = 1.0
) -> AbstractLikelihood:
    """Compute the gradient of ``scale`` Σ E log p with respect to the parameters of the likelihood."""
    if not jax.tree_util.tree_leaves(likelihood):
        return likelihood
    w = scale * (np.ones(len(mean)) if rows.weight is None else rows.weight)
    if isinstance(likelihood, Gaussian):
        v, miss = _noise(likelihood, rows), rows.y - mean[:, 0]
        slope = 0.5 * w * ((miss * miss + variance[:, 0]) / v - 1) / v
        slope += 0.0 if rows.scatter is None else 0.5 * scale * rows.scatter / v**2
        return likelihood.replace(variance=float(slope.sum()))
    if isinstance(likelihood, HeteroscedasticGaussian):
        v, (miss, precise) = float(likelihood.variance), _sharpness(likelihood, rows.y, mean, variance)
        return likelihood.replace(variance=float((0.5 * w * (miss * precise - 1)).sum()) / v)
    if likelihood.latents > 1:
        f, weight, _ = _points(mean, variance)
        return likelihood.pull_nodes(rows.y, f, w[:, None] * weight)
    step, parts = max(1, CHUNK // _count(likelihood)), []
    for i in range(0, len(w), step):
        part = slice(i, i + step)
        f, weight = _nodes(likelihood, rows.y[part], mean[part, 0], variance[part, 0])
        parts.append(likelihood.pull_nodes(rows.y[part], f, w[part, None] * weight))
    return jax.tree_util.tree_map(lambda *leaves: sum(np.asarray(leaf) for leaf in leaves), *parts)


def _noise(likelihood: Gaussian, rows: Rows) -> np.ndarray:
    v = np.full(len(rows.y), float(likelihood.variance))
    return v if rows.noise is None else v + rows.noise


def _count(likelihood: AbstractLikelihood) -> int:
    """Return the approximate number of nodes per row."""
    if likelihood.latents == 1:
        return 4 * PANELS * NODES
    return 60 * 16 if isinstance(likelihood, Softmax) else 2 * POINTS


# one latent function ------------------------------------------------------------------------------------------------------
def _nodes(
    likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights (n, q) to average log p over N(mean, variance).

    Gauss–Hermite if that is the likelihood's own rule, else panels around the mean and the peak of p(y | f), wide enough
    for e^f.
    """
    sd = np.maximum(np.sqrt(variance), LEAST)
    if type(likelihood).expected_log_prob is AbstractLikelihood.expected_log_prob:
        z, weight = quadrature.hermite(AVERAGE)
        return mean[:, None] + sd[:, None] * z, np.broadcast_to(weight, (len(mean), AVERAGE))
    sd = np.maximum(sd, 1e-12 * np.abs(mean))
    reach = (REACH + np.minimum(sd, REACH)) * sd
    low, high = (mean - reach)[:, None], (mean + reach)[:, None]
    if getattr(likelihood, "link", "") == "square":  # log f² has a pole at zero
        centre, width, panels = np.zeros_like(mean), 1e-9, 24
    else:
        centre, width, panels = *likelihood.peak(y, mean), PANELS
    middle = np.clip(centre, low[:, 0], high[:, 0])
    marks = [
        quadrature.around(mean, sd, reach, panels=PANELS),
        quadrature.around(middle, np.clip(width, 1e-12 * sd, sd), reach + np.abs(middle - mean), panels=panels),
    ]
    f, step = quadrature.fill(np.sort(np.clip(np.concatenate(marks, axis=1), low, high), axis=1), NODES)
    weight = step * np.exp(-0.5 * ((f - mean[:, None]) / sd[:, None]) ** 2)
    return f, weight / weight.sum(1, keepdims=True)


def _one(likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Expected:
    mu = mean[:, 0]
    v = np.maximum(variance[:, 0], LEAST**2)
    f, weight = _nodes(likelihood, y, mu, v)
    with np.errstate(over="ignore", invalid="ignore"):
        base = likelihood.log_probs(y, mu)
        base = np.where(np.isfinite(base), base, 0.0)
        g = np.where(weight > 0, likelihood.log_probs(y, f) - base[:, None], 0.0) * weight
        away = f - mu[:, None]
        value, first = g.sum(1), (g * away).sum(1) / v
        second = ((g * away * away).sum(1) / v - value) / (2 * v)
    return Expected(base + value, first[:, None], second[:, None])


# several latent functions -------------------------------------------------------------------------------------------------
def _sharpness(
    likelihood: HeteroscedasticGaussian, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute E (y − g)², and E e^−h/σ²."""
    with np.errstate(over="ignore"):
        precise = np.exp(0.5 * variance[:, 1] - mean[:, 1]) / float(likelihood.variance)
    return (y - mean[:, 0]) ** 2 + variance[:, 0], precise


def _heteroscedastic(likelihood: HeteroscedasticGaussian, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Expected:
    """Compute the closed forms, with g and h independent under q (Lázaro-Gredilla & Titsias 2011)."""
    miss, precise = _sharpness(likelihood, y, mean, variance)
    each = miss * precise
    value = -0.5 * (np.log(2 * np.pi * float(likelihood.variance)) + mean[:, 1] + each)
    first = np.stack([(y - mean[:, 0]) * precise, 0.5 * (each - 1)], axis=1)
    return Expected(value, first, np.stack([-0.5 * precise, -0.25 * each], axis=1))


def _softmax(likelihood: Softmax, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Expected:
    r"""Compute μ_y − E log Σ e^f by the integral above, with slopes of the sum over nodes, E π_c and ½ E π_c(1 − π_c).

    The tail at the low end is negligible. Beyond the high end, h, the difference from 1 is :math:`\sum_c E e^{f_c - x}` to
    first order, and the rest of the sum over nodes is a geometric series.
    """
    sd = np.maximum(np.sqrt(variance), NARROW)
    widest = float(sd.max(initial=0.0))
    z, weight = quadrature.hermite(next((n for limit, n in FINE if widest < limit), MOST))
    low, high = (mean - TAILS[0] * sd).max(1) - TAILS[1], (mean + TAILS[0] * sd).max(1) + TAILS[2]
    reach = float((high - low).max())
    count = int(np.ceil(reach / SPACING)) + 1
    step = (high - low) / (count - 1)
    x = step[:, None] * np.arange(count)  # from the low end
    f = mean[:, :, None] + sd[:, :, None] * z - low[:, None, None]
    if reach < FAR:  # e^(f - x), with two exponentials for a row and a column of nodes instead of one for each pair
        t = np.exp(f)[:, :, None, :] * np.exp(-x)[:, None, :, None]
    else:
        t = np.exp(np.minimum(f[:, :, None, :] - x[:, None, :, None], 600.0))
    e = np.exp(-t)
    log_below = np.log(np.maximum(e @ weight, 1e-300))  # of every class alone
    t *= e
    slopes = t @ np.stack([weight, weight * z], axis=1)
    all_below = log_below.sum(1)
    others = np.exp(all_below[:, None] - log_below) * step[:, None, None]
    beyond = np.exp(mean + 0.5 * np.minimum(sd, TAILS[0]) ** 2 - high[:, None]) * (step / np.expm1(step))[:, None]
    value = high + 0.5 * step - step * np.exp(all_below).sum(1) + beyond.sum(1) - np.euler_gamma
    first = (slopes[..., 0] * others).sum(2) + beyond
    second = (slopes[..., 1] * others).sum(2) / (2 * sd) + 0.5 * beyond
    at = np.arange(len(y)), y.astype(int)
    return Expected(mean[at] - value, likelihood.targets(y) - first, -second)


def _several(likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Expected:
    """Average any likelihood of several latent functions over quasi-random points."""
    f, weight, z = _points(mean, variance)
    shape = f.shape
    found = likelihood.coupled(np.repeat(y, shape[1], axis=0), f.reshape(-1, shape[2]))
    first = found.first.reshape(shape)
    second = 0.5 * np.einsum("nsc,sc->nc", first, weight[:, None] * z) / np.sqrt(np.maximum(variance, LEAST**2))
    return Expected(found.log_prob.reshape(shape[:2]) @ weight, np.einsum("nsc,s->nc", first, weight), second)


def _points(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return fixed quasi-random points (n, s, L), their weights (s,), and the underlying standard normal points (s, L)."""
    z = _spread(mean.shape[1])
    return mean[:, None, :] + np.sqrt(np.maximum(variance, LEAST**2))[:, None, :] * z, np.full(len(z), 1 / len(z)), z


@cache
def _spread(dimensions: int) -> np.ndarray:
    """Return scrambled Sobol points of the normal distribution with their mirror images, scaled to unit variance."""
    from scipy.stats import qmc  # a local import, since scipy.stats takes half a second

    z = special.ndtri(qmc.Sobol(dimensions, scramble=True, rng=0).random(POINTS))
    z /= np.sqrt((z**2).mean(0))
    return np.concatenate([z, -z])
