"""Properties of every likelihood in the table: log p, its derivatives, and moments of its product with a Gaussian."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from covary import likelihoods as lk
from covary.likelihoods import AbstractLikelihood
from covary.likelihoods.base import Tilted
from covary.parameters import parameters, positive
from laws.rows_likelihoods import (
    AMOUNTS,
    CAVITIES,
    COUNTS,
    LATENT,
    LEARNED,
    NUMBERS,
    ROWS,
    SMOOTH,
    TABLE,
    Row,
    averaging,
    brute,
    check_samples,
    compare_slopes,
    crossed,
    log_prob,
)


def test_every_exported_likelihood_has_a_row():
    exported = {v for v in vars(lk).values() if isinstance(v, type) and issubclass(v, AbstractLikelihood)}
    elsewhere = {AbstractLikelihood, lk.Softmax, lk.HeteroscedasticGaussian}
    elsewhere |= {lk.BasisNoise}  # Gaussian with a variance that depends on the input: tests/unit/test_noise_basis.py
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
def test_log_concave_is_declared_correctly(row: Row):
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
    some = theirs > -1e300  # below, very small numbers may differ
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
    """Compare to eight digits, or six if the Gaussian is a hundred times wider than everything else."""
    wide = np.array([variance > 1e3 for _, variance in CAVITIES])
    for part, near in ((~wide, 1e-8), (wide, 1e-6)):
        f, e = Tilted(*(v[part] for v in found)), Tilted(*(v[part] for v in expected))
        np.testing.assert_allclose(f.log_z, e.log_z, rtol=near, atol=near)
        np.testing.assert_allclose((f.mean - e.mean) / np.sqrt(e.variance), 0.0, atol=30 * near)
        np.testing.assert_allclose(f.variance, e.variance, rtol=100 * near)


@pytest.mark.parametrize("row", ROWS)
def test_brute_force_agrees_with_scipy(row: Row):
    """Compare the reference integral with SciPy's adaptive integration between peaks."""
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


# user-defined: log_prob only ------------------------------------------------------------------------------
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
def test_a_user_defined_likelihood_only_needs_log_prob(row: Row):
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
