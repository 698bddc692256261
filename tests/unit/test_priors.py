"""Priors: densities by path over the unconstrained vector, and default priors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from covary import GP, Data, Model, learn, log_evidence
from covary._checks import CovaryError
from covary.distributions import Gamma, HalfCauchy, InverseGamma, LogNormal, Normal, Uniform
from covary.kernels import AbstractKernel, Matern52, Periodic, RationalQuadratic, Traits, bounded, fixed
from covary.likelihoods import Gaussian
from covary.means import Constant, Linear
from covary.parameters import Packing, parameters, set_values, unit_interval
from covary.selection.priors import Priors, default_priors

RNG = np.random.default_rng(4)
X = RNG.normal(size=(30, 2)) * [1.0, 5.0]
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=30)
MODEL = Model(GP(1.7 * Matern52([0.6, 2.5]) + Periodic(0.9, period=1.4), mean=Constant(-0.4)), likelihood=Gaussian(0.07))


class Share(AbstractKernel):
    """A kernel with one parameter strictly between 0 and 1."""

    share: Any = unit_interval(0.3)

    @property
    def traits(self) -> Traits:
        return Traits()


def slopes_agree(packing: Packing, priors: Priors, theta: np.ndarray) -> None:
    _, slope = priors.log_prob_and_grad(packing, packing.unpack(theta))
    step, numeric = 1e-6, []
    for move in np.eye(packing.size) * step:
        up, down = (priors.log_prob_and_grad(packing, packing.unpack(theta + s * move))[0] for s in (1, -1))
        numeric.append((up - down) / (2 * step))
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-7)


EVERY = {
    "kernel.0.variance": Gamma(2.0, shape=3.0),
    "kernel.0.lengthscale": LogNormal(0.3, scale=0.7),
    "kernel.1.lengthscale": InverseGamma(1.2, shape=4.0),
    "kernel.1.period": HalfCauchy(2.0),
    "mean.value": Normal(1.0, std=3.0),
    "likelihood.variance": Uniform(0.01, upper=1.0),
}


def test_slopes_over_the_unconstrained_vector_equal_differences() -> None:
    packing = Packing(MODEL, scale={"mean.value": 2.5})
    slopes_agree(packing, Priors(MODEL, EVERY), packing.pack(MODEL))
    slopes_agree(packing, Priors(MODEL, EVERY), packing.pack(MODEL) + 0.3)


def test_the_value_is_the_density_of_the_unconstrained_vector() -> None:
    """log p(θ) + log θ for positive parameters, log p(θ) for real ones."""
    packing = Packing(MODEL)
    value, _ = Priors(MODEL, EVERY).log_prob_and_grad(packing, MODEL)
    expected = stats.gamma(1.5, scale=4 / 3).logpdf(1.7) + np.log(1.7)
    expected += stats.norm(0.3, 0.7).logpdf(np.log([0.6, 2.5])).sum()  # a log-normal is a normal of the logarithm
    expected += stats.invgamma(3.0, scale=2.4).logpdf(0.9) + np.log(0.9)
    expected += stats.halfcauchy(scale=2.0).logpdf(1.4) + np.log(1.4)
    expected += stats.norm(1.0, 3.0).logpdf(-0.4)
    expected += -np.log(0.99) + np.log(0.07)
    assert value == pytest.approx(expected, rel=1e-12)


def test_a_parameter_in_the_unit_interval_has_its_jacobian() -> None:
    model = Model(GP(Share(0.3)), likelihood=Gaussian(fixed(1.0)))
    packing, priors = Packing(model), Priors(model, {"kernel.share": Normal(0.5, std=0.2)})
    value, _ = priors.log_prob_and_grad(packing, model)
    assert value == pytest.approx(stats.norm(0.5, 0.2).logpdf(0.3) + np.log(0.3 * 0.7))
    for theta in (-1.7, 0.4, 2.0):
        slopes_agree(packing, priors, np.array([theta]))


def test_parameters_without_a_prior_and_fixed_ones_add_nothing() -> None:
    held = set_values(MODEL, {"kernel.0.variance": fixed(1.7)})
    packing = Packing(held)
    value, slope = Priors(held, {"kernel.0.variance": Gamma()}).log_prob_and_grad(packing, held)
    assert value == 0.0
    np.testing.assert_array_equal(slope, 0.0)


def test_a_list_gives_each_entry_its_own_prior() -> None:
    packing = Packing(MODEL)
    priors = Priors(MODEL, {"kernel.0.lengthscale": [LogNormal(0.0, scale=0.5), LogNormal(2.0, scale=1.5)]})
    value, slope = priors.log_prob_and_grad(packing, MODEL)
    expected = stats.norm([0.0, 2.0], [0.5, 1.5]).logpdf(np.log([0.6, 2.5])).sum()
    assert value == pytest.approx(expected)
    np.testing.assert_allclose(slope[1:3], -(np.log([0.6, 2.5]) - [0.0, 2.0]) / np.array([0.5, 1.5]) ** 2)
    slopes_agree(packing, priors, packing.pack(MODEL))


def test_a_list_of_the_wrong_length_is_refused() -> None:
    priors = Priors(MODEL, {"kernel.0.lengthscale": [LogNormal()] * 3})
    with pytest.raises(CovaryError, match=re.escape("kernel.0.lengthscale has 2 entries but 3 priors; give one, or one each.")):
        priors.log_prob_and_grad(Packing(MODEL), MODEL)


def test_a_pattern_reaches_every_parameter_it_fits_and_the_last_word_counts() -> None:
    wide, narrow = LogNormal(0.0, scale=3.0), LogNormal(0.0, scale=0.1)
    priors = Priors(MODEL, {"kernel.*.lengthscale": wide, "kernel.1.*": narrow})
    assert priors.by_path == {"kernel.0.lengthscale": wide, "kernel.1.lengthscale": narrow, "kernel.1.period": narrow}


@pytest.mark.parametrize("path", ["kernel.1.lengthscale", "kernel.1.period", "kernel.1.*"])
def test_tied_parameters_count_one_prior_whoever_it_was_given_to(path: str) -> None:
    packing = Packing(MODEL, tie=[["kernel.1.lengthscale", "kernel.1.period"]])
    model = packing.unpack(packing.pack(MODEL))
    value, _ = Priors(MODEL, {path: LogNormal(0.2, scale=0.4)}).log_prob_and_grad(packing, model)
    assert value == pytest.approx(stats.norm(0.2, 0.4).logpdf(np.log(0.9)))


def test_an_unknown_path_is_refused_with_the_paths_there_are() -> None:
    with pytest.raises(
        CovaryError, match=re.escape("priors: no parameter is called 'kernel.length'; choose from kernel.0.var")
    ):
        Priors(MODEL, {"kernel.length": LogNormal()})


@pytest.mark.parametrize(
    "wrong", [1.0, "LogNormal", [LogNormal(), 2.0], stats.norm()], ids=["number", "text", "mixed", "scipy's"]
)
def test_what_is_no_distribution_is_refused(wrong: Any) -> None:
    with pytest.raises(CovaryError, match=r"give a distribution from covary\.distributions"):
        Priors(MODEL, {"kernel.0.lengthscale": wrong})


# a uniform prior is a bound -------------------------------------------------------------------------------------

SMALL = Model(GP(1.0 * Matern52(1.0)), likelihood=Gaussian(0.1))
LINE = Data(X[:, :1], Y)


@pytest.mark.parametrize(("low", "high", "edge"), [(6.3, 9.0, 6.3), (0.05, 0.34, 0.34)], ids=["above", "below"])
def test_a_uniform_prior_keeps_the_parameter_inside(low: float, high: float, edge: float) -> None:
    """exp(log 6.3) < 6.3 and exp(log 0.34) > 0.34 in floating point: the edge itself must still be possible."""
    got = learn(SMALL, LINE, priors={"kernel.lengthscale": Uniform(low, upper=high)})
    assert float(got.kernel.kernel.lengthscale) == pytest.approx(edge, rel=1e-6)
    assert np.isfinite(got.value)


def test_a_uniform_prior_is_a_density_of_the_parameter_not_of_its_logarithm() -> None:
    """Inside, the objective is the evidence plus log ℓ (the Jacobian) minus log 9.9 (the density)."""
    got = learn(SMALL, LINE, priors={"kernel.lengthscale": Uniform(0.1, upper=10.0)})
    scale = float(got.kernel.kernel.lengthscale)
    assert 0.4 < scale < 6.0
    assert got.value == pytest.approx(log_evidence(got, LINE) + np.log(scale) - np.log(9.9), abs=1e-8)


def test_the_objective_is_the_penalised_likelihood() -> None:
    """W&B, section 2: the log evidence plus the log prior of every log parameter, N(−3, 3²); its slope is −(θ + 3)/9."""
    prior = LogNormal(-3.0, scale=3.0)
    got = learn(SMALL, LINE, priors={"kernel.*": prior, "likelihood.variance": prior})
    theta = np.log([float(p.value) for p in parameters(got.model).values() if float(p.value) > 0])
    assert len(theta) == 3
    assert got.value == pytest.approx(log_evidence(got, LINE) + stats.norm(-3, 3).logpdf(theta).sum(), abs=1e-8)
    packing = Packing(SMALL)
    _, slope = Priors(SMALL, {"kernel.*": prior, "likelihood.variance": prior}).log_prob_and_grad(packing, SMALL)
    np.testing.assert_allclose(slope, -(packing.pack(SMALL) + 3) / 9, atol=1e-12)


def test_uniform_priors_of_single_entries_are_bounds_too() -> None:
    model = Model(GP(1.0 * Matern52([1.0, 7.0])), likelihood=Gaussian(0.1))
    got = learn(model, Data(X, Y), priors={"kernel.lengthscale": [Uniform(0.01, upper=100.0), Uniform(6.5, upper=7.5)]})
    scales = got.kernel.kernel.lengthscale
    assert scales[1] == pytest.approx(7.5)  # the second column is noise: as long as it may be
    assert 1.2 < scales[0] < 3.0


def test_the_users_bounds_and_a_uniform_prior_both_hold() -> None:
    model = Model(GP(1.0 * Matern52(bounded(7.0, 6.5, 9.0))), likelihood=Gaussian(0.1))
    got = learn(model, LINE, priors={"kernel.lengthscale": Uniform(6.0, upper=8.0)})
    assert float(got.kernel.kernel.lengthscale) == pytest.approx(6.5)
    low = learn(model, LINE, priors={"kernel.lengthscale": Uniform(6.9, upper=8.0)})
    assert float(low.kernel.kernel.lengthscale) == pytest.approx(6.9)


def test_bounds_and_a_uniform_prior_with_nothing_in_common_are_refused() -> None:
    model = Model(GP(1.0 * Matern52(bounded(7.0, 6.5, 9.0))), likelihood=Gaussian(0.1))
    with pytest.raises(CovaryError, match=re.escape("the bounds and the uniform prior of kernel.lengthscale do not overlap")):
        learn(model, LINE, priors={"kernel.lengthscale": Uniform(1.0, upper=2.0)})


def test_box_is_in_unconstrained_coordinates() -> None:
    packing = Packing(MODEL, scale={"mean.value": 2.0})
    given = {"kernel.0.lengthscale": [LogNormal(), Uniform(0.5, upper=4.0)], "mean.value": Uniform(-3.0, upper=5.0)}
    lower, upper = Priors(MODEL, given).box(packing)
    names = packing.names()
    assert {n: (lo, up) for n, lo, up in zip(names, lower, upper, strict=True) if np.isfinite(lo)} == {
        "kernel.0.lengthscale[1]": pytest.approx((np.log(0.5), np.log(4.0))),
        "mean.value": (-1.5, 2.5),
    }


# the default priors ---------------------------------------------------------------------------------------------


def test_default_priors_cover_stationary_lengthscales_and_the_noise() -> None:
    kernel = Matern52([1.0, 1.0]) + 2.0 * RationalQuadratic().on(1) + Periodic()
    assert list(default_priors(Model(GP(kernel)), Data(X, Y))) == [
        "kernel.0.lengthscale",
        "kernel.1.lengthscale",
        "likelihood.variance",
    ]


def test_default_priors_sit_at_the_documented_scales() -> None:
    model = Model(GP(1.0 * Matern52([1.0, 1.0]), mean=Linear([0.0, 0.0])))
    priors = default_priors(model, Data(X, Y))
    spread = X.std(0)
    for entry, s in zip(priors["kernel.lengthscale"], spread, strict=True):
        assert np.exp(entry.location) == pytest.approx(np.exp(np.sqrt(2)) * np.sqrt(2) * s)
        assert entry.scale == pytest.approx(np.sqrt(3))
    assert np.exp(priors["likelihood.variance"].location) == pytest.approx(0.01 * Y.var())
    assert np.exp(priors["kernel.variance"].location) == pytest.approx(Y.var())
    assert priors["likelihood.variance"].scale == 2.0


@pytest.mark.parametrize("many", [True, False], ids=["one each", "one for all"])
def test_default_priors_follow_the_units_of_inputs_and_outputs(many: bool) -> None:
    """Scaling the columns by c and y by b moves each prior to that of c ℓ and b² σ²."""
    model = Model(GP(1.0 * Matern52([1.0, 1.0] if many else 1.0)))
    c, b = np.array([1e-3, 40.0]), 250.0
    before, after = default_priors(model, Data(X, Y)), default_priors(model, Data(X * c, Y * b))
    factors = c if many else [np.sqrt(c.prod())]
    for old, new, factor in zip(before["kernel.lengthscale"], after["kernel.lengthscale"], factors, strict=True):
        moved = old.scaled(factor)
        assert (new.location, new.scale) == pytest.approx((moved.location, moved.scale))
    moved = before["likelihood.variance"].scaled(b**2)
    assert after["likelihood.variance"].location == pytest.approx(moved.location)


def test_default_priors_of_a_subset_of_columns_use_those_columns() -> None:
    priors = default_priors(Model(GP(Matern52().on(1))), Data(X, Y))
    assert np.exp(priors["kernel.lengthscale"][0].location) == pytest.approx(np.exp(np.sqrt(2)) * X[:, 1].std())


def test_default_priors_fit_the_model_they_were_made_for() -> None:
    model = Model(GP(2.0 * Matern52([1.0, 1.0]) * Periodic().on(0) + RationalQuadratic()))
    packing = Packing(model)
    value, slope = Priors(model, default_priors(model, Data(X, Y))).log_prob_and_grad(packing, model)
    assert np.isfinite(value)
    assert np.count_nonzero(slope) == 4  # two length-scales of the Matérn, one of the rational quadratic, the noise
    assert set(parameters(model)) >= set(default_priors(model, Data(X, Y)))
