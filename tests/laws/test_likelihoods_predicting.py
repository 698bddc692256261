"""Properties of every likelihood in the table: distribution of new observations, and validation of observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from covary import likelihoods as lk
from covary._checks import CovaryError
from covary.likelihoods import AbstractLikelihood
from covary.parameters import parameters
from laws.rows_likelihoods import ROWS, Row, averaging, brute, check_samples


# a new observation ------------------------------------------------------------------------------------------------------
def outcomes(row: Row, f: float) -> tuple[np.ndarray, np.ndarray]:
    """Return observations and their probabilities at one latent value, from the reference log p."""
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


# validation -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", ROWS)
def test_typical_observations_are_valid_and_have_scales(row: Row):
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
        (lk.StudentT(), [[1.0, 2.0]], "y has 2 columns"),
    ],
)
def test_impossible_observations_raise_an_error(likelihood: Any, y: Any, words: str):
    with pytest.raises(CovaryError, match="learn: ") as error:
        likelihood.check(np.array(y), "learn")
    assert words in str(error.value)


@pytest.mark.parametrize(
    "build", [lk.Poisson, lk.Binomial, lambda link: lk.Gamma(link=link), lambda link: lk.NegativeBinomial(link=link)]
)
def test_unknown_links_raise_an_error(build: Any):
    with pytest.raises(CovaryError, match="link is 'log'"):
        build("log")
    with pytest.raises(CovaryError, match="number of levels is 1"):
        lk.Ordinal.of(1)
