"""Laws that every likelihood obeys, over a table of members; the authors of new ones add a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from covary import likelihoods as lk
from covary._checks import CovaryError
from covary.likelihoods import AbstractLikelihood
from covary.likelihoods.base import Tilted
from covary.parameters import parameters, positive


@dataclass(frozen=True)
class Row:
    """A likelihood, observations it may meet, and log p(y | f) by other means (of y, size and one latent value)."""

    id: str
    likelihood: Any
    y: np.ndarray
    reference: Callable[[Any, Any, Any], Any]

    @property
    def size(self) -> np.ndarray:
        return self.y[:, 1] if self.y.ndim == 2 else np.ones(len(self.y))

    @property
    def value(self) -> np.ndarray:
        return self.y[:, 0] if self.y.ndim == 2 else self.y

    def given(self, rows: int) -> np.ndarray | None:
        """The first size, for so many new observations; None where there are none."""
        return np.full(rows, self.size[0]) if self.y.ndim == 2 else None


def softplus(f: Any) -> Any:
    return np.log1p(np.exp(f))


def ordinal(thresholds: np.ndarray) -> Callable[..., Any]:
    b = np.concatenate([[-np.inf], thresholds, [np.inf]])

    def log_prob(y: Any, n: Any, f: Any) -> Any:
        j = np.asarray(y).astype(int)
        return np.log(np.abs(np.where(f < b[j], stats.norm.sf(b[j] - f) - stats.norm.sf(b[j + 1] - f),
                                      stats.norm.cdf(b[j + 1] - f) - stats.norm.cdf(b[j] - f))))  # fmt: skip

    return log_prob


def nbinom(alpha: float, rate: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda y, n, f: stats.nbinom.logpmf(y, 1 / alpha, 1 / (1 + alpha * n * rate(f)))


NUMBERS = np.array([-1.3, 0.4, 3.0])
COUNTS = np.array([0.0, 1.0, 7.0])
SIZED = np.array([[0.0, 0.5], [3.0, 2.0], [40.0, 10.0]])
TRIALS = np.array([[0.0, 3.0], [7.0, 10.0], [40.0, 40.0]])
AMOUNTS = np.array([0.05, 1.0, 6.0])
LABELS = np.array([0.0, 1.0])
LEVELS = np.arange(4.0)
UNEVEN = np.array([-0.4, -0.35, 2.65])

TABLE = [
    Row("gaussian", lk.Gaussian(0.3), NUMBERS, lambda y, n, f: stats.norm.logpdf(y, f, np.sqrt(0.3))),
    Row("logit", lk.Bernoulli("logit"), LABELS, lambda y, n, f: stats.logistic.logcdf((2 * y - 1) * f)),
    Row("probit", lk.Bernoulli("probit"), LABELS, lambda y, n, f: stats.norm.logcdf((2 * y - 1) * f)),
    Row("t-4", lk.StudentT(0.5), NUMBERS, lambda y, n, f: stats.t.logpdf(y, 4.0, f, 0.5)),
    Row("t-1", lk.StudentT(0.05, degrees=1.0), NUMBERS, lambda y, n, f: stats.cauchy.logpdf(y, f, 0.05)),
    Row("t-1e9", lk.StudentT(0.8, degrees=1e9), NUMBERS, lambda y, n, f: stats.norm.logpdf(y, f, 0.8)),
    Row("laplace", lk.DoubleExponential(0.7), NUMBERS, lambda y, n, f: stats.laplace.logpdf(y, f, 0.7)),
    Row("laplace-sharp", lk.DoubleExponential(0.02), NUMBERS, lambda y, n, f: stats.laplace.logpdf(y, f, 0.02)),
    Row("poisson", lk.Poisson(), COUNTS, lambda y, n, f: stats.poisson.logpmf(y, np.exp(f))),
    Row("poisson-sized", lk.Poisson(), SIZED, lambda y, n, f: stats.poisson.logpmf(y, n * np.exp(f))),
    Row("poisson-softplus", lk.Poisson("softplus"), SIZED, lambda y, n, f: stats.poisson.logpmf(y, n * softplus(f))),
    Row("poisson-square", lk.Poisson("square"), SIZED, lambda y, n, f: stats.poisson.logpmf(y, n * f * f)),
    Row("negative-binomial", lk.NegativeBinomial(0.4), COUNTS, nbinom(0.4, np.exp)),
    Row("negative-binomial-sized", lk.NegativeBinomial(0.02), SIZED, nbinom(0.02, np.exp)),
    Row("negative-binomial-softplus", lk.NegativeBinomial(2.0, link="softplus"), SIZED, nbinom(2.0, softplus)),
    Row("binomial", lk.Binomial(), TRIALS, lambda y, n, f: stats.binom.logpmf(y, n, special.expit(f))),
    Row("binomial-probit", lk.Binomial("probit"), TRIALS, lambda y, n, f: stats.binom.logpmf(y, n, stats.norm.cdf(f))),
    Row("binomial-one", lk.Binomial(), LABELS, lambda y, n, f: stats.bernoulli.logpmf(y, special.expit(f))),
    Row("gamma-1", lk.Gamma(), AMOUNTS, lambda y, n, f: stats.expon.logpdf(y, scale=np.exp(f))),
    Row("gamma-20", lk.Gamma(20.0), AMOUNTS, lambda y, n, f: stats.gamma.logpdf(y, 20.0, scale=np.exp(f) / 20.0)),
    Row("gamma-softplus", lk.Gamma(3.0, link="softplus"), AMOUNTS,
        lambda y, n, f: stats.gamma.logpdf(y, 3.0, scale=softplus(f) / 3.0)),
    Row("ordinal-4", lk.Ordinal.of(4), LEVELS, ordinal(np.array([-1.0, 0.0, 1.0]))),
    Row("ordinal-uneven", lk.Ordinal(-0.4, gaps=[0.05, 3.0]), LEVELS, ordinal(UNEVEN)),
]  # fmt: skip
ROWS = [pytest.param(row, id=row.id) for row in TABLE]
SMOOTH = [pytest.param(row, id=row.id) for row in TABLE if not isinstance(row.likelihood, lk.DoubleExponential)]
LEARNED = [pytest.param(row, id=row.id) for row in TABLE if parameters(row.likelihood)]
LATENT = np.array([-6.3, -2.1, -0.8, -0.11, 0.13, 0.9, 2.7, 5.2])
CAVITIES = [(0.2, 1.0), (0.6, 1e-4), (-2.0, 0.05), (1.0, 25.0), (-0.5, 1e4), (6.0, 0.3), (-9.0, 4.0), (40.0, 16.0)]


def crossed(row: Row, f: np.ndarray = LATENT) -> tuple[np.ndarray, np.ndarray]:
    """Every observation with every latent value."""
    return np.repeat(row.y, len(f), axis=0), np.tile(f, len(row.y))


def dense(row: Row, log_g: Callable[[np.ndarray], np.ndarray], low: float, high: float, *hints: float) -> tuple[Any, Any]:
    """Very many nodes between low and high, and log weights, refined around the hints and the peak of exp(log_g)."""
    wide = high - low
    places = [h for h in hints if low < h < high]
    grid = np.unique(np.concatenate([np.linspace(low, high, 401), *(p + np.linspace(-1, 1, 201) * wide / 200 for p in places)]))
    for _ in range(3):
        grid = np.clip(grid, low, high)
        top = grid[np.argmax(log_g(grid))]
        grid = top + np.linspace(-1, 1, 401) * wide
        wide = wide / 100
    away = np.geomspace(1e-9, 1.0, 150) * (high - low)
    marks = [np.linspace(low, high, 300)] + [p + s * away for p in (*places, top) for s in (-1, 1)]
    marks = np.unique(np.clip(np.concatenate([*marks, places, [top]]), low, high))
    x, w = np.polynomial.legendre.leggauss(10)
    f = (marks[:-1, None] + np.diff(marks)[:, None] * (x + 1) / 2).ravel()
    return f, np.log((np.diff(marks)[:, None] * w / 2).ravel())


def log_prob(row: Row, i: int, f: np.ndarray) -> np.ndarray:
    """log p(y_i | f) for many latent values: a member's own, which is compared with the formula; a user's by the formula."""
    if type(row.likelihood).log_probs is not AbstractLikelihood.log_probs:
        return row.likelihood.log_probs(row.y[i : i + 1], f[None, :])[0]
    with np.errstate(all="ignore"):
        return np.nan_to_num(row.reference(row.value[i], row.size[i], f), nan=-np.inf, neginf=-np.inf)


def brute(row: Row, i: int, mean: float, variance: float, power: float = 1.0) -> tuple[float, float, float]:
    """log Z, mean and variance of p(y_i | f)^power N(f), without the library's quadrature."""
    sd = np.sqrt(variance)

    def log_g(f: np.ndarray) -> np.ndarray:
        return power * log_prob(row, i, f) - 0.5 * ((f - mean) / sd) ** 2

    f, log_w = dense(row, log_g, mean - 45 * sd, mean + 45 * sd, float(row.value[i]), 0.0)
    terms = log_g(f) + log_w
    log_z = special.logsumexp(terms)
    share = np.exp(terms - log_z)
    centre = (share * f).sum()
    return log_z - 0.5 * np.log(2 * np.pi * variance), centre, (share * (f - centre) ** 2).sum()


def averaging(mean: float, variance: float, *hints: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights over N(mean, variance), refined around the hints."""
    sd = np.sqrt(variance)
    f, log_w = dense(TABLE[0], lambda f: -0.5 * ((f - mean) / sd) ** 2, mean - 16 * sd, mean + 16 * sd, *hints)
    w = np.exp(log_w - 0.5 * ((f - mean) / sd) ** 2)
    return f, w / w.sum()


def test_every_exported_likelihood_has_a_row():
    exported = {v for v in vars(lk).values() if isinstance(v, type) and issubclass(v, AbstractLikelihood)}
    elsewhere = {AbstractLikelihood, lk.Softmax, lk.HeteroscedasticGaussian}
    elsewhere |= {lk.BasisNoise}  # Gaussian, with a variance for every place: tests/unit/test_noise_basis.py
    assert exported - elsewhere == {type(row.likelihood) for row in TABLE}


# log p and its slopes ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", ROWS)
def test_log_prob_is_the_formula(row: Row):
    y, f = crossed(row)
    each = row.reference(np.repeat(row.value, len(LATENT)), np.repeat(row.size, len(LATENT)), f)
    many = np.tile(LATENT, (len(row.y), 1))
    near = 1e-7 if row.id == "t-1e9" else 1e-10
    for found in (
        row.likelihood.log_probs(y, f),
        AbstractLikelihood.log_probs(row.likelihood, y, f),
        row.likelihood.log_probs(row.y, many).ravel(),
        row.likelihood.slopes(y, f).log_prob,
    ):
        np.testing.assert_allclose(found, each, rtol=near, atol=near)


@pytest.mark.parametrize("row", ROWS)
def test_slopes_are_those_of_automatic_differentiation(row: Row):
    y, f = crossed(row)
    for mine, theirs in zip(row.likelihood.slopes(y, f), AbstractLikelihood.slopes(row.likelihood, y, f), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-8 * (1 + np.abs(theirs).max()))


@pytest.mark.parametrize("row", ROWS)
def test_slopes_are_differences_of_one_another(row: Row):
    y, f = crossed(row)
    h = 1e-5 * (0.05 if "t-1" in row.id else 1.0)
    here, up, down = (row.likelihood.slopes(y, f + d) for d in (0.0, h, -h))
    for k in range(3):
        found = (up[k] - down[k]) / (2 * h)
        np.testing.assert_allclose(found, here[k + 1], rtol=1e-5, atol=1e-6 * (1 + np.abs(here[k + 1]).max()))


@pytest.mark.parametrize("row", ROWS)
def test_log_concave_is_said_truly(row: Row):
    f = np.concatenate([np.linspace(-30, 30, 241), [-200.0, 200.0]]) + 0.003
    y, f_all = crossed(row, f)
    second = row.likelihood.slopes(y, f_all).second
    a, b = (v.ravel() for v in np.meshgrid(f[::6], f[::7]))
    bent = 0.0
    for i in range(len(row.y)):
        at = [row.likelihood.log_probs(row.y[i : i + 1], v[None, :])[0] for v in (a, b, (a + b) / 2)]
        bent = max(bent, np.max((0.5 * (at[0] + at[1]) - at[2]) / (1 + np.abs(at[2]))))
    assert (bent < 1e-12) == (row.likelihood.log_concave or row.id == "t-1e9")  # all but Gaussian on this grid
    if row.likelihood.log_concave:
        assert (second <= 1e-12 * (1 + np.abs(second))).all()


@pytest.mark.parametrize("row", ROWS)
def test_extreme_latent_values_are_never_nan(row: Row):
    y, f = crossed(row, np.array([-700.0, -300.0, -41.0, -17.0, 0.0, 17.0, 41.0, 300.0, 700.0]))
    for values in row.likelihood.slopes(y, f):
        assert not np.isnan(values).any()
    for values in (row.likelihood.log_probs(y, f), AbstractLikelihood.log_probs(row.likelihood, y, f)):
        assert not np.isnan(values).any()
        assert (values < np.inf).all()
    mine, theirs = row.likelihood.log_probs(y, f), AbstractLikelihood.log_probs(row.likelihood, y, f)
    some = theirs > -1e300  # beyond, a member may put one very small number for another
    np.testing.assert_allclose(mine[some], theirs[some], rtol=1e-9, atol=1e-9)
    assert (mine[~some] < -1e300).all()


@pytest.mark.parametrize("row", ROWS)
def test_single_precision_is_close(row: Row):
    y, f = crossed(row)
    low = row.likelihood.slopes(y.astype(np.float32), f.astype(np.float32))
    for mine, exact in zip(low, row.likelihood.slopes(y, f), strict=True):
        np.testing.assert_allclose(mine, exact, rtol=2e-3, atol=2e-4 * (1 + np.abs(exact).max()))


@pytest.mark.parametrize("row", LEARNED)
def test_pull_is_the_slope_over_the_parameters(row: Row):
    y, f = crossed(row, LATENT[1:-1])
    weights = np.random.default_rng(0).standard_normal((3, len(f)))

    def total(likelihood: Any) -> float:
        return sum(float(w @ s) for w, s in zip(weights, likelihood.slopes(y, f), strict=False))

    compare_slopes(row.likelihood, row.likelihood.pull(y, f, *weights), total, 1e-6)


@pytest.mark.parametrize("row", LEARNED)
@pytest.mark.parametrize("power", [None, 0.5])
def test_tilted_pull_is_the_slope_over_the_parameters(row: Row, power: float | None):
    y, mean = crossed(row, np.array([-0.7, 1.2]))
    variance = np.resize([0.3, 1.7, 6.0], len(y))
    bar = np.random.default_rng(1).standard_normal(len(y))
    each = None if power is None else np.full(len(y), power)
    found = row.likelihood.tilted_pull(y, mean, variance, each, bar)
    compare_slopes(row.likelihood, found, lambda m: float(bar @ m.tilted(y, mean, variance, each).log_z), 1e-6)


def compare_slopes(likelihood: Any, gradient: Any, total: Callable[[Any], float], near: float) -> None:
    """A gradient of the likelihood's shape against central differences of a function of it."""
    slopes = parameters(gradient)
    assert list(slopes) == list(parameters(likelihood))
    for name, parameter in parameters(likelihood).items():
        value = np.asarray(parameter.value)
        for k in range(value.size):
            step = np.zeros(value.size)
            step[k] = 1e-4 * max(abs(value.ravel()[k]), 0.05)
            step = step.reshape(value.shape)
            ends = [total(likelihood.replace(**{name: value + s * step})) for s in (-2, -1, 1, 2)]
            expected = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step.sum())
            size = np.max(np.abs(ends)) / (abs(value.ravel()[k]) + 0.05)
            np.testing.assert_allclose(np.ravel(slopes[name].value)[k], expected, rtol=near, atol=near * (1e-3 + size))


# times a Gaussian -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("power", [None, 0.5, 2.0])
def test_tilted_moments_are_integrals(row: Row, power: float | None):
    for i in range(len(row.y)):
        mean, variance = (np.array(v) for v in zip(*CAVITIES, strict=True))
        y = np.repeat(row.y[i : i + 1], len(mean), axis=0)
        found = row.likelihood.tilted(y, mean, variance, None if power is None else np.full(len(mean), power))
        expected = Tilted(*np.array([brute(row, i, m, v, power or 1.0) for m, v in CAVITIES]).T)
        close_moments(found, expected)


def close_moments(found: Tilted, expected: Tilted) -> None:
    """Eight digits, six where the Gaussian is a hundred times wider than everything else."""
    wide = np.array([variance > 1e3 for _, variance in CAVITIES])
    for part, near in ((~wide, 1e-8), (wide, 1e-6)):
        f, e = Tilted(*(v[part] for v in found)), Tilted(*(v[part] for v in expected))
        np.testing.assert_allclose(f.log_z, e.log_z, rtol=near, atol=near)
        np.testing.assert_allclose((f.mean - e.mean) / np.sqrt(e.variance), 0.0, atol=30 * near)
        np.testing.assert_allclose(f.variance, e.variance, rtol=100 * near)


@pytest.mark.parametrize("row", ROWS)
def test_brute_force_agrees_with_scipy(row: Row):
    """The witness above against another one: adaptive integration from peak to peak."""
    mean, variance, y, size = 0.4, 2.0, row.value[1], row.size[1]

    def g(f: float) -> float:
        return float(np.exp(row.reference(y, size, f) - (f - mean) ** 2 / (2 * variance)))

    ends = np.unique([-10.0, -3.0, -1.0, 0.0, 1.0, 3.0, y - 0.1, y, y + 0.1, 10.0])
    total = sum(integrate.quad(g, a, b, epsabs=1e-12)[0] for a, b in pairwise(ends))
    np.testing.assert_allclose(brute(row, 1, mean, variance)[0], np.log(total / np.sqrt(2 * np.pi * variance)), atol=1e-7)


@pytest.mark.parametrize("row", SMOOTH)
def test_closed_forms_agree_with_quadrature(row: Row):
    for i in range(len(row.y)):
        mean, variance = (np.array(v) for v in zip(*CAVITIES, strict=True))
        y = np.repeat(row.y[i : i + 1], len(mean), axis=0)
        close_moments(row.likelihood.tilted(y, mean, variance), AbstractLikelihood.tilted(row.likelihood, y, mean, variance))


@pytest.mark.parametrize("row", ROWS)
def test_expected_log_prob_is_an_integral(row: Row):
    for mean, variance in [(0.2, 1.0), (-1.0, 1e-3), (0.7, 3.0)]:
        expected = []
        for i in range(len(row.y)):
            f, w = averaging(mean, variance, 0.0, float(row.value[i]))
            expected.append(w @ log_prob(row, i, f))
        found = row.likelihood.expected_log_prob(row.y, np.full(len(row.y), mean), np.full(len(row.y), variance))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# a new observation ------------------------------------------------------------------------------------------------------
def outcomes(row: Row, f: float) -> tuple[np.ndarray, np.ndarray]:
    """Observations and their probabilities at one latent value, from log p by other means."""
    size = float(row.size[0])
    kind = row.likelihood.support
    if isinstance(row.likelihood, lk.Binomial):
        y = np.arange(size + 1)
    elif kind == "labels":
        y = row.y
    elif kind == "counts":
        y = np.arange(4000.0)
    else:
        x, w = np.polynomial.legendre.leggauss(12)
        marks = np.unique(np.concatenate([-np.geomspace(1e-9, 1e9, 600), [0.0], np.geomspace(1e-9, 1e9, 600)]))
        y = (marks[:-1, None] + np.diff(marks)[:, None] * (x + 1) / 2).ravel()
        w = (np.diff(marks)[:, None] * w / 2).ravel()
        y, w = (y[y > 0], w[y > 0]) if kind == "positive" else (y + f, w)
        return y, w * np.exp(row.reference(y, size, f))
    return y, np.exp(row.reference(y, size, f))


@pytest.mark.parametrize("row", ROWS)
def test_probabilities_add_up_and_have_the_moments_and_the_cdf(row: Row):
    f = np.array([-1.7, 0.3, 1.9])
    found, size = row.likelihood.moments(f, row.given(3)), row.given(1)
    for k, value in enumerate(f):
        y, p = outcomes(row, value)
        np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-8)
        if not row.id.startswith("t-1") or row.id == "t-1e9":
            mean = p @ y
            np.testing.assert_allclose(found.mean[k], mean, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(found.variance[k], p @ (y - mean) ** 2, rtol=1e-6)
        for t in np.array([-0.5, 0.0, 0.5, 1.0, 2.0, 3.7]) + (value if row.likelihood.support == "real" else 0.0):
            np.testing.assert_allclose(
                row.likelihood.cdf(np.array([t]), np.array([value]), size)[0],
                p[y <= t].sum(),
                atol=2e-3 if len(y) > 4000 else 1e-9,
            )


@pytest.mark.parametrize("row", ROWS)
def test_samples_have_the_moments_and_the_cdf(row: Row):
    check_samples(row, 20_000)


def check_samples(row: Row, n: int) -> None:
    for value in (-1.1, 0.8):
        f = np.full(n, value)
        y = row.likelihood.sample(f, np.random.default_rng(7), row.given(n))
        assert y.shape == (n,)
        assert y.dtype == np.float64
        found = row.likelihood.moments(f[:1], row.given(1))
        if np.isfinite(found.variance[0]):
            np.testing.assert_allclose(y.mean(), found.mean[0], atol=5 * np.sqrt(found.variance[0] / n) + 1e-12)
        at = np.quantile(y, np.linspace(0.02, 0.98, 25), method="inverted_cdf")
        share = (y[None, :] <= at[:, None]).mean(1)
        cdf = row.likelihood.cdf(at, np.full(25, value), row.given(25))
        assert np.abs(share - cdf).max() < np.sqrt(np.log(2 / 1e-6) / (2 * n))
    many = row.likelihood.sample(np.zeros((3, 4)), np.random.default_rng(0), row.given(4))
    assert many.shape == (3, 4)


@pytest.mark.parametrize("row", ROWS)
def test_predictions_are_averages_over_the_latent_value(row: Row):
    one = np.ones(1)
    for mean, variance in [(0.3, 0.5), (-1.0, 4.0), (1.2, 1e-4), (0.0, 9.0)]:
        m, v, size = mean * one, variance * one, row.given(1)
        f, w = averaging(mean, variance, 0.0)
        given = row.likelihood.moments(f, row.given(len(f)))
        centre = w @ given.mean
        found = row.likelihood.predictive(m, v, size)
        np.testing.assert_allclose(found.mean[0], centre, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.variance[0], w @ (given.variance + (given.mean - centre) ** 2), rtol=1e-6)
        for i in range(len(row.y)):
            log_p = row.likelihood.predictive_log_prob(row.y[i : i + 1], m, v)
            np.testing.assert_allclose(log_p, brute(row, i, mean, variance)[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("row", ROWS)
def test_predictive_quantiles_invert_the_averaged_cdf(row: Row):
    """Narrow and wide latent values, also far wider than the step of P(Y ≤ y | f)."""
    likelihood, cases = row.likelihood, np.array([(0.3, 0.5), (1.2, 1e-4), (-0.5, 9.0)])
    near = 1e-3 if type(likelihood).predictive_cdf is AbstractLikelihood.predictive_cdf else 1e-7

    def cdf(t: float, mean: float, variance: float) -> float:
        root = float(np.sqrt(max(t, 0.0)))
        f, w = averaging(mean, variance, t, 0.0, float(np.log(max(t, 0.0) + 0.5)), float(np.log(max(t, 1e-9))), root, -root)
        return float(w @ likelihood.cdf(np.full(len(f), t), f, row.given(len(f))))

    for p in (0.05, 0.5, 0.9):
        found = likelihood.predictive_quantile(p, *cases.T, row.given(3))
        np.testing.assert_allclose(likelihood.predictive_cdf(found, *cases.T, row.given(3)) >= p - 1e-9, True)
        for y, (mean, variance) in zip(found, cases, strict=True):
            if likelihood.support in ("counts", "labels"):
                assert cdf(y, mean, variance) >= p - near
                assert cdf(y - 1, mean, variance) < p + near
            else:
                np.testing.assert_allclose(cdf(y, mean, variance), p, atol=near)


# at the doors -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", ROWS)
def test_typical_observations_pass_and_give_scales(row: Row):
    row.likelihood.check(row.y, "learn")
    values = row.likelihood.latent_values(row.y)
    assert values.shape == (len(row.y),)
    assert np.isfinite(values).all()
    assert (np.diff(values) >= 0).all()
    start = row.likelihood.starting(row.value if row.y.ndim == 1 else row.y)
    assert set(start) <= set(parameters(row.likelihood))
    for name, value in start.items():
        assert np.shape(value) == np.shape(getattr(row.likelihood, name))
    ready = row.likelihood.replace(**start)
    assert np.isfinite(ready.log_probs(row.y, values)).all()


@pytest.mark.parametrize(
    ("likelihood", "y", "words"),
    [
        (lk.Poisson(), [1.0, -2.0], "-2 at row 1"),
        (lk.Poisson(), [1.0, 2.5], "2.5 at row 1"),
        (lk.Poisson(), [[1.0, 1.0], [2.0, 0.0]], "size is 0 at row 1"),
        (lk.NegativeBinomial(), [0.5, 1.0, 0.5], "0.5 at row 0 (2 such rows)"),
        (lk.Binomial(), [[1.0, 2.0], [3.0, 2.0]], "successes is 3 at row 1"),
        (lk.Binomial(), [[1.0, 2.5]], "trials is 2.5 at row 0"),
        (lk.Binomial(), [[-1.0, 2.0]], "-1 at row 0"),
        (lk.Binomial(), [0.0, 2.0], "2 at row 1"),
        (lk.Gamma(), [1.0, 0.0], "0 at row 1"),
        (lk.Gamma(), [1.0, -1.0], "-1 at row 1"),
        (lk.Ordinal.of(3), [0.0, 3.0], "3 at row 1"),
        (lk.Ordinal.of(3), [0.5], "0.5 at row 0"),
        (lk.StudentT(), [[1.0, 2.0]], "shape (1, 2)"),
    ],
)
def test_impossible_observations_are_refused(likelihood: Any, y: Any, words: str):
    with pytest.raises(CovaryError, match="learn: ") as error:
        likelihood.check(np.array(y), "learn")
    assert words in str(error.value)


@pytest.mark.parametrize(
    "build", [lk.Poisson, lk.Binomial, lambda link: lk.Gamma(link=link), lambda link: lk.NegativeBinomial(link=link)]
)
def test_unknown_links_are_refused(build: Any):
    with pytest.raises(CovaryError, match="link is 'log'"):
        build("log")
    with pytest.raises(CovaryError, match="number of levels is 1"):
        lk.Ordinal.of(1)


# written by a user: log_prob and nothing else ------------------------------------------------------------------------------
class Skewed(AbstractLikelihood):
    """Noise with a longer tail on one side: the type-I generalised logistic distribution."""

    scale: Any = positive(0.5)
    shape: Any = positive(3.0)

    log_concave = True

    def log_prob(self, y: Any, f: Any) -> Any:
        z = (y - f) / self.scale
        return jnp.log(self.shape / self.scale) - z - (self.shape + 1) * jnp.logaddexp(0.0, -z)


class Geometric(AbstractLikelihood):
    """Counts of mean e^f whose probabilities fall by a constant factor."""

    support = "counts"
    log_concave = True

    def log_prob(self, y: Any, f: Any) -> Any:
        return -y * jnp.logaddexp(0.0, -f) - jnp.logaddexp(0.0, f)


class Weibull(AbstractLikelihood):
    """Positive amounts of scale e^f."""

    shape: Any = positive(1.5)
    support = "positive"

    def log_prob(self, y: Any, f: Any) -> Any:
        z = self.shape * (jnp.log(y) - f)
        return jnp.log(self.shape) - jnp.log(y) + z - jnp.exp(z)


CUSTOM = [
    Row("skewed", Skewed(), NUMBERS, lambda y, n, f: stats.genlogistic.logpdf(y, 3.0, f, 0.5)),
    Row("geometric", Geometric(), COUNTS, lambda y, n, f: stats.geom.logpmf(y + 1, special.expit(-f))),
    Row("weibull", Weibull(), AMOUNTS, lambda y, n, f: stats.weibull_min.logpdf(y, 1.5, scale=np.exp(f))),
]
FROZEN = {
    "skewed": lambda f: stats.genlogistic(3.0, f, 0.5),
    "geometric": lambda f: stats.geom(special.expit(-f), loc=-1),
    "weibull": lambda f: stats.weibull_min(1.5, scale=np.exp(f)),
}


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in CUSTOM])
def test_log_prob_is_all_that_has_to_be_written(row: Row):
    likelihood, truth = row.likelihood, FROZEN[row.id]
    test_log_prob_is_the_formula(row)
    test_slopes_are_differences_of_one_another(row)
    test_tilted_moments_are_integrals(row, None)
    test_tilted_moments_are_integrals(row, 0.5)
    test_expected_log_prob_is_an_integral(row)
    if parameters(likelihood):
        test_tilted_pull_is_the_slope_over_the_parameters(row, None)
    f = np.array([-1.2, 0.4, 2.5])
    found = likelihood.moments(f)
    np.testing.assert_allclose(found.mean, truth(f).mean(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.variance, truth(f).var(), rtol=1e-5)
    for y in (0.0, 0.7, 2.0, 6.0):
        np.testing.assert_allclose(likelihood.cdf(np.full(3, y), f), truth(f).cdf(y), atol=1e-5)
    check_samples(row, 4000)
    mean, variance = np.array([0.3, -0.5]), np.array([0.2, 1.0])
    new = likelihood.predictive(mean, variance)
    quantiles = {p: likelihood.predictive_quantile(p, mean, variance) for p in (0.1, 0.95)}
    for k in range(2):
        nodes, w = averaging(mean[k], variance[k])
        given = truth(nodes)
        centre = w @ given.mean()
        np.testing.assert_allclose(new.mean[k], centre, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(new.variance[k], w @ (given.var() + (given.mean() - centre) ** 2), rtol=1e-5)
        for p, y in quantiles.items():
            if likelihood.support == "counts":
                assert w @ given.cdf(y[k] - 1) - 1e-6 < p <= w @ given.cdf(y[k]) + 1e-6
            else:
                np.testing.assert_allclose(w @ given.cdf(y[k]), p, atol=1e-4)
