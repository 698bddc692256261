"""``learn``: results, fixed parameters, and stopping."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from covary import GP, Data, GPRegressor, Model, condition, learn, log_evidence, log_evidence_and_grad, sample_prior
from covary._checks import CovaryError
from covary._module import Mark
from covary.distributions import LogNormal, Normal
from covary.gram.traced import terms
from covary.inference import Laplace
from covary.inference.plan import AbstractPlan
from covary.kernels import Matern12, Matern52, Periodic, SquaredExponential, bounded, fixed
from covary.likelihoods import Bernoulli, Gaussian
from covary.means import Constant
from covary.parameters import Packing, parameters
from covary.selection.learn import Learned
from covary.selection.objectives import difference_hessian
from covary.selection.starts import spread_equal, starting_values
from covary.sites import Noise

RNG = np.random.default_rng(8)
X = RNG.uniform(-4.0, 4.0, size=(60, 1))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0] + 0.15 * RNG.normal(size=60)
DATA = Data(X, Y)
MODEL = Model(GP(1.0 * Matern52(1.0), mean=Constant(0.0)), likelihood=Gaussian(0.1))


def values(learned: Any) -> dict[str, np.ndarray]:
    return {path: p.value for path, p in parameters(getattr(learned, "model", learned)).items()}


@pytest.fixture(scope="module")
def plain() -> Learned:
    return learn(MODEL, DATA)


# what it finds --------------------------------------------------------------------------------------------------


def test_it_recovers_the_hyperparameters_of_data_drawn_from_the_model() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 40.0, size=(200, 1))
    truth = Model(GP(2.0 * Matern52(1.5), mean=Constant(3.0)), likelihood=Gaussian(0.05))
    y = sample_prior(truth.prior, x, key=5)[0] + np.sqrt(0.05) * rng.normal(size=200)
    got = learn(MODEL, Data(x, y))
    assert got.status == "converged"
    assert got.value > log_evidence(truth, Data(x, y))
    assert float(got.kernel.kernel.lengthscale) == pytest.approx(1.5, rel=0.3)
    assert float(got.kernel.variance) == pytest.approx(2.0, rel=0.6)
    assert float(got.likelihood.variance) == pytest.approx(0.05, rel=0.4)
    assert float(got.model.mean.value) == pytest.approx(3.0, abs=1.0)
    for path, wide in got.log_errors.items():  # and its own error bars say how far off it may be
        off = (
            values(got)[path] - values(truth)[path] if path == "mean.value" else np.log(values(got)[path] / values(truth)[path])
        )
        assert abs(off) < 3.5 * wide, path


def test_it_ends_where_the_evidence_is_flat(plain: Learned) -> None:
    packing = Packing(plain.model)
    value, gradient = log_evidence_and_grad(plain.model, DATA)
    assert plain.value == pytest.approx(value, abs=1e-9)
    slope = packing.pull(plain.model, gradient)
    assert 0.5 * slope @ np.linalg.solve(plain.hessian, slope) < 0.05


@pytest.mark.parametrize("lengthscale", [0.003, 0.05, 1.0, 30.0, 2000.0])
def test_it_never_ends_below_the_plain_start(lengthscale: float) -> None:
    start = Model(GP(1.0 * Matern52(lengthscale), mean=Constant(0.0)), likelihood=Gaussian(0.1))
    got = learn(start, DATA, n_restarts=1)
    assert got.value >= log_evidence(start, DATA)
    assert got.value == pytest.approx(log_evidence(got, DATA), abs=1e-8)


def test_the_verbs_take_what_it_returns(plain: Learned) -> None:
    assert log_evidence(plain, DATA) == log_evidence(plain.model, DATA)
    assert condition(plain, DATA).log_evidence == pytest.approx(plain.value, abs=1e-8)
    assert (plain.prior, plain.kernel, plain.likelihood) == (plain.model.prior, plain.model.kernel, plain.model.likelihood)
    again = learn(plain, DATA)
    assert again.value >= plain.value - 1e-9


# what it keeps --------------------------------------------------------------------------------------------------


def test_fixed_parameters_stay_where_they_are() -> None:
    model = Model(GP(fixed(2.5) * Matern52(1.0), mean=Constant(fixed(0.7))), likelihood=Gaussian(0.1))
    got = learn(model, DATA)
    assert float(got.kernel.variance) == 2.5
    assert float(got.model.mean.value) == 0.7
    assert float(got.kernel.kernel.lengthscale) != 1.0
    assert set(got.log_errors) == {"kernel.lengthscale", "likelihood.variance"}


def test_bounded_parameters_stay_inside_and_reach_the_edge(plain: Learned) -> None:
    free = float(plain.kernel.kernel.lengthscale)
    model = Model(
        GP(1.0 * Matern52(bounded(0.2, 0.1, 0.5 * free)), mean=Constant(0.0)), likelihood=Gaussian(bounded(0.5, 0.2, 1.0))
    )
    got = learn(model, DATA)
    assert float(got.kernel.kernel.lengthscale) == pytest.approx(0.5 * free)
    assert float(got.likelihood.variance) == pytest.approx(0.2)
    assert got.value < plain.value


def test_a_bound_far_from_the_datas_scale_is_kept() -> None:
    got = learn(Model(GP(1.0 * Matern52(bounded(1.0, 1e8, np.inf))), likelihood=Gaussian(0.1)), DATA)
    assert float(got.kernel.kernel.lengthscale) >= 1e8 * (1 - 1e-9)


def test_what_it_returns_carries_no_mark_that_was_not_the_users(plain: Learned) -> None:
    """The floor of the noise belongs to these data: it must not bind the model on others."""
    assert {p.mark for p in parameters(plain.model).values()} == {Mark()}
    tiny = Data(X, 1e-5 * Y)
    assert float(learn(plain, tiny, n_restarts=1).likelihood.variance) < 1e-6 * DATA.y.var()


def test_tied_parameters_share_one_value() -> None:
    model = Model(GP(1.0 * Matern52(0.7) + 0.5 * SquaredExponential(2.0)), likelihood=Gaussian(0.1))
    got = learn(model, DATA, tie=[["kernel.*.lengthscale"], ["kernel.1.variance", "kernel.0.variance"]])
    found = values(got)
    assert found["kernel.0.lengthscale"] == found["kernel.1.lengthscale"] != 0.7
    assert found["kernel.0.variance"] == found["kernel.1.variance"]
    free = learn(got, DATA)
    assert free.value >= got.value
    assert values(free)["kernel.0.lengthscale"] != values(free)["kernel.1.lengthscale"]
    assert got.log_errors["kernel.0.lengthscale"] == got.log_errors["kernel.1.lengthscale"]


@pytest.mark.parametrize("centre", [0.2, 5.0])
def test_priors_pull_towards_where_they_are(plain: Learned, centre: float) -> None:
    free = float(plain.kernel.kernel.lengthscale)
    scales = []
    for width in (2.0, 0.5, 0.02):
        prior = LogNormal(float(np.log(centre)), scale=width)
        got = learn(MODEL, DATA, priors={"kernel.lengthscale": prior})
        scales.append(float(got.kernel.kernel.lengthscale))
        extra = -0.5 * (np.log(scales[-1] / centre) / width) ** 2 - np.log(width * np.sqrt(2 * np.pi))
        assert got.value == pytest.approx(log_evidence(got, DATA) + extra, abs=1e-8)
    distance = np.abs(np.log([free, *scales]) - np.log(centre))
    assert (np.diff(distance) < 0).all()  # the narrower, the closer
    assert scales[-1] == pytest.approx(centre, rel=0.05)


def test_noise_does_not_fall_below_its_floor() -> None:
    smooth = Data(X, np.sin(X[:, 0]))
    got = learn(Model(GP(1.0 * Matern52(1.0)), likelihood=Gaussian(0.1)), smooth)
    assert float(got.likelihood.variance) >= 1e-6 * smooth.y.var() * (1 - 1e-9)
    held = learn(Model(GP(1.0 * Matern52(1.0)), likelihood=Gaussian(fixed(0.0))), smooth)
    assert float(held.likelihood.variance) == 0.0
    assert held.value > got.value


# equal summands -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_scales() -> Data:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 20.0, 120))[:, None]
    return Data(x, np.sin(x[:, 0] / 3) + np.sin(9 * x[:, 0]) + 0.05 * rng.normal(size=120))


def test_equal_summands_move_apart(two_scales: Data) -> None:
    model = Model(GP(Matern52() + Matern52()), likelihood=Gaussian(0.1))
    got = learn(model, two_scales)
    found = values(got)
    assert found["kernel.0.lengthscale"] > 4 * found["kernel.1.lengthscale"]
    tied = learn(model, two_scales, tie=[["kernel.*.lengthscale"]])
    assert got.value > tied.value + 5.0


@pytest.mark.parametrize(
    ("kernel", "equal"),
    [
        (Matern52() + Matern52(), ["kernel.0.lengthscale", "kernel.1.lengthscale"]),
        (2.0 * (Matern52() + Matern52()), ["kernel.0.lengthscale", "kernel.1.lengthscale"]),
        ((Matern52() + Matern52()) * Periodic(), ["kernel.0.0.lengthscale", "kernel.0.1.lengthscale"]),
        ((2.0 * Matern52() + 2.0 * Matern52()).on(0), ["kernel.0.variance", "kernel.1.variance"]),
        (Matern52() + Periodic() + Matern52() + Matern52(), [f"kernel.{i}.lengthscale" for i in (0, 2, 3)]),
    ],
    ids=repr,
)
def test_equal_summands_never_start_at_equal_values(kernel: Any, equal: list[str]) -> None:
    for start in (spread_equal(Model(GP(kernel))), spread_equal(starting_values(Model(GP(kernel)), DATA))):
        found = values(start)
        assert len({float(found[path]) for path in equal}) == len(equal)
    assert values(spread_equal(Model(GP(kernel))))[equal[0]] == values(Model(GP(kernel)))[equal[0]]


def test_summands_that_differ_are_left_alone() -> None:
    model = Model(GP(Matern52() + SquaredExponential() + Matern52(2.0) + Matern52(fixed(1.0))))
    assert spread_equal(model) == model


# when it stops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [60, 820])
def test_a_time_limit_returns_quickly_with_what_there_is(rows: int, large: Data) -> None:
    data, model = (DATA, MODEL) if rows == 60 else (large, LARGE)
    log_evidence_and_grad(model, data)  # compiled before the clock starts
    got = learn(model, data, n_restarts=50, max_time=0.05)
    assert got.steps < 300  # of the thousands that fifty starts take
    assert got.status in ("out of time", "converged")
    assert len(got.restarts) < 51
    assert got.value >= log_evidence(model, data) - 1e-9
    assert got.value == pytest.approx(log_evidence(got, data), abs=1e-7)  # told on all rows, also if it never got there


def test_time_that_is_spent_before_it_begins_returns_the_start(large: Data) -> None:
    got = learn(LARGE, large, max_time=0.0)
    assert got.status == "out of time"
    assert got.value == pytest.approx(log_evidence(LARGE, large))
    assert got.history[-1][0] == 820


def test_everything_fixed_is_refused() -> None:
    with pytest.raises(CovaryError, match=re.escape("learn: every parameter is fixed; free one, or call condition directly.")):
        learn(Model(GP(fixed(1.0) * Matern52(fixed(1.0))), likelihood=Gaussian(fixed(0.1))), DATA)


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (GP(Matern52()), {}, "learn: got GP for the model; give a Model(GP(kernel), likelihood=...)."),
        (Model(GP(Matern52([1.0, 2.0]))), {}, "lengthscale has 2 entries but X has 1 column"),
        (MODEL, {"priors": {"kernel.nonsense": LogNormal()}}, "priors: no parameter is called 'kernel.nonsense'"),
        (MODEL, {"tie": [["kernel.nonsense", "kernel.variance"]]}, "learn(tie=...): no parameter is called 'kernel.nonsense'"),
        (Model(GP(Matern52()), likelihood=Bernoulli()), {}, "the likelihood is Bernoulli; use inference=Laplace() or EP()."),
        (Model(GP(0.0 * Matern52())), {}, "variance is 0.0; give positive, finite numbers."),
    ],
    ids=["no model", "columns", "prior", "tie", "likelihood", "zero"],
)
def test_what_does_not_fit_is_refused_before_any_work(model: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CovaryError, match=re.escape(sentence)):
        learn(model, DATA, **options)


# restarts, history, keys ----------------------------------------------------------------------------------------


def test_every_restart_is_kept(plain: Learned) -> None:
    far = Model(GP(5.0 * Matern52(0.02), mean=Constant(1.0)), likelihood=Gaussian(1.0))
    got = learn(MODEL, DATA, n_restarts=3, starts=[far], key=4)
    assert len(got.restarts) == 5
    for restart, start in zip(got.restarts, (MODEL, far), strict=False):
        for path, value in values(restart.start).items():
            assert float(value) == pytest.approx(float(values(start)[path])), path
    assert got.value >= max(r.value for r in got.restarts)  # the starts are searched roughly, the best end is polished
    assert got.value >= plain.value - 0.01
    for restart in got.restarts:
        assert restart.value == pytest.approx(log_evidence(restart.model, DATA), abs=1e-7)
        assert restart.value >= log_evidence(restart.start, DATA) - 1e-9
        assert restart.steps >= 1
    starts = [float(values(r.start)["kernel.lengthscale"]) for r in got.restarts]
    assert len(set(starts)) == 3  # the given two; the data's own scale, which the noisy and the crisp start share


def test_the_first_restart_is_at_the_datas_own_scales() -> None:
    got = learn(MODEL, DATA, n_restarts=1)
    natural = values(starting_values(MODEL, DATA))
    for path, value in values(got.restarts[1].start).items():
        assert float(value) == pytest.approx(float(natural[path])), path


def test_then_come_more_noise_less_noise_and_draws() -> None:
    got = learn(MODEL, DATA, n_restarts=5, key=1)
    noise = [float(values(r.start)["likelihood.variance"]) for r in got.restarts]
    lengths = [float(values(r.start)["kernel.lengthscale"]) for r in got.restarts]
    assert noise[2] > 10 * noise[1] > 100 * noise[3]
    assert lengths[1] == lengths[2] == lengths[3]
    assert len({*lengths[3:]}) == 3


def test_a_narrow_peak_does_not_win_over_a_broad_one_that_holds_more() -> None:
    """Two peaks of a made-up objective: the one a little higher is much narrower."""
    from covary.optimise.base import Result
    from covary.selection.peaks import weigh
    from covary.selection.priors import Priors

    packing = Packing(MODEL)
    covered = Priors(MODEL, {"*": LogNormal(0.0, scale=1.0)})
    size = packing.size
    narrow, broad = np.full(size, -3.0), np.full(size, 3.0)

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        first, second = 200.0 * ((x - narrow) ** 2).sum() - 1.0, 0.5 * ((x - broad) ** 2).sum()
        return (first, 400.0 * (x - narrow)) if first < second else (second, x - broad)

    ends = [Result(x, *function(x), "converged", 1) for x in (narrow, broad)]
    peaks = weigh(ends, function, covered, packing, None)
    assert [peak.end for peak in peaks] == ends[::-1]
    # the mass of a Gaussian of height exp(h) and Hessian aI is exp(h) (2π/a)^(d/2); the powers of 2π are left out
    assert [p.mass() for p in peaks] == pytest.approx([0.0, 1.0 - 0.5 * size * np.log(400.0)], abs=1e-6)
    assert weigh(ends, function, Priors(MODEL, None), packing, None)[0].end is ends[0]  # without priors there is no mass
    assert weigh(ends[:1], function, covered, packing, None)[0].end is ends[0]


def test_a_rival_takes_over_where_it_explains_clearly_more() -> None:
    x = np.linspace(0, 5, 60)[:, None]
    waves = Data(x, np.sin(x[:, 0]) + 0.1 * np.cos(5 * x[:, 0]))
    rough = MODEL.replace(prior=MODEL.prior.replace(kernel=1.0 * Matern12()))
    got = learn(rough, waves, rivals=[MODEL])
    assert type(got.kernel.kernel) is Matern52
    assert got.value == pytest.approx(learn(MODEL, waves).value, abs=0.05)
    held = learn(MODEL, waves, rivals=[rough])
    assert type(held.kernel.kernel) is Matern52
    assert [type(r.model.kernel.kernel) for r in held.restarts] == [Matern52, Matern12]
    with pytest.raises(CovaryError, match="has other parameters; give models with the same ones"):
        learn(MODEL, DATA, rivals=[MODEL.replace(prior=MODEL.prior.replace(kernel=Matern12() + Matern52()))])


def test_history_and_levels_tell_how_it_went(plain: Learned) -> None:
    assert plain.levels == (60,)
    assert plain.steps == len(plain.history) == plain.restarts[0].steps
    assert {rows for rows, _ in plain.history} == {60}
    assert plain.history[0] == (60, pytest.approx(log_evidence(MODEL, DATA)))
    assert max(value for _, value in plain.history) == plain.value
    assert 0 < plain.seconds < 60


def test_the_same_key_gives_the_same_answer() -> None:
    one, two, other = (learn(MODEL, DATA, n_restarts=4, key=key) for key in (7, 7, 8))
    assert one.value == two.value
    assert one.model == two.model
    assert one.history == two.history
    assert [r.model == s.model for r, s in zip(one.restarts, two.restarts, strict=True)] == [True] * 5
    assert one.history != other.history


# coarse to fine -------------------------------------------------------------------------------------------------

LARGE = Model(GP(1.0 * SquaredExponential([1.0, 1.0])), likelihood=Gaussian(0.1))


@pytest.fixture(scope="module")
def large() -> Data:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(820, 2))
    return Data(x, np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 + 0.2 * rng.normal(size=820))


def test_coarse_to_fine_ends_where_the_plain_search_does(large: Data) -> None:
    got, full = learn(LARGE, large), learn(LARGE, large, coarse=False)
    assert (got.levels, full.levels) == ((400, 820), (820,))
    assert got.status == full.status == "converged"
    assert got.value == pytest.approx(full.value, abs=0.1)
    assert got.value == pytest.approx(log_evidence(got, large), abs=1e-7)
    fine = [rows for rows, _ in got.history].count(820)
    assert fine <= 8 < len(full.history)  # the Hessian handed on from the coarse level saves most of the search
    assert [rows for rows, _ in got.history] == sorted(rows for rows, _ in got.history)
    assert got.restarts[0].value < got.value  # of 400 rows


# other objectives -----------------------------------------------------------------------------------------------


def test_a_custom_objective_written_with_jax(plain: Learned) -> None:
    """The log evidence again, from the terms of a gram inside compiled code: the same optimum."""
    seen = []

    def evidence(model: Any, data: Data) -> Any:
        seen.append(data.rows)
        r = data.y - model.mean.value
        t = terms(model.kernel, data.X, r, Noise(model.likelihood.variance * jnp.ones(data.rows)))
        # t.logdet is that of K + S under observed sites
        return -0.5 * (t.quad + t.logdet + data.rows * jnp.log(2 * jnp.pi))

    got = learn(MODEL, DATA, objective=evidence)
    assert seen == [60]  # traced once
    assert got.value == pytest.approx(plain.value, abs=0.01)
    assert got.value == pytest.approx(log_evidence(got, DATA), abs=1e-8)


@pytest.mark.parametrize("branches", [False, True], ids=["compiled", "branches on numbers"])
def test_a_custom_objective_decides_what_is_best(branches: bool) -> None:
    def nearest(model: Any, data: Data) -> Any:
        if branches and model.kernel.variance < 0:
            return jnp.inf
        return -((jnp.log(model.kernel.variance) - 1.0) ** 2) - (jnp.log(model.likelihood.variance) + 2.0) ** 2

    got = learn(MODEL, DATA, objective=nearest)
    assert float(np.log(got.kernel.variance)) == pytest.approx(1.0, abs=0.02)
    assert float(np.log(got.likelihood.variance)) == pytest.approx(-2.0, abs=0.02)
    assert float(got.kernel.kernel.lengthscale) == pytest.approx(1.0)
    assert np.isinf(got.log_errors["kernel.lengthscale"])  # nothing was said about it
    assert float(got.log_errors["kernel.variance"]) == pytest.approx(1 / np.sqrt(2), rel=1e-3)


def test_an_objective_may_bring_its_own_gradient(plain: Learned) -> None:
    class Tempered:
        """Twice the log evidence."""

        def value_and_grad(self, model: Any, data: Data) -> tuple[float, Any]:
            import jax

            value, gradient = log_evidence_and_grad(model, data)
            return 2 * value, jax.tree_util.tree_map(lambda g: 2 * np.asarray(g), gradient)

    got = learn(MODEL, DATA, objective=Tempered())  # type: ignore[arg-type]
    assert got.value == pytest.approx(2 * plain.value, abs=0.02)


# error bars -----------------------------------------------------------------------------------------------------


def test_the_error_of_a_noise_variance_is_that_of_a_normal_sample() -> None:
    """With no signal the evidence is n normal densities: the error of log σ² is √(2/n), σ² the mean square."""
    n = 150
    y = np.random.default_rng(2).normal(scale=3.0, size=n)
    x = np.arange(n)[:, None].astype(float)
    model = Model(GP(fixed(1e-9) * Matern52(fixed(0.1))), likelihood=Gaussian(1.0))
    got = learn(model, Data(x, y))
    assert float(got.likelihood.variance) == pytest.approx(np.mean(y**2), rel=0.02)
    assert float(got.log_errors["likelihood.variance"]) == pytest.approx(np.sqrt(2 / n), rel=0.03)


def test_the_error_of_a_constant_mean_is_generalised_least_squares() -> None:
    """With the covariance known, the mean has variance 1/(1ᵀ A⁻¹ 1), in the units of y."""
    y = 1e4 * (5.0 + Y)
    model = Model(GP(fixed(1e8) * Matern52(fixed(1.0)), mean=Constant(0.0)), likelihood=Gaussian(fixed(1e7)))
    got = learn(model, Data(X, y))
    A = model.kernel.gram(X) + 1e7 * np.eye(60)
    one = np.linalg.solve(A, np.ones(60))
    assert float(got.model.mean.value) == pytest.approx(one @ y / one.sum(), rel=1e-2)
    assert float(got.log_errors["mean.value"]) == pytest.approx(1 / np.sqrt(one.sum()), rel=1e-3)


def test_a_prior_narrows_the_error() -> None:
    """Curvatures add up: that of the evidence and that of a normal prior."""
    model = Model(GP(fixed(1.0) * Matern52(fixed(1.0)), mean=Constant(0.0)), likelihood=Gaussian(fixed(0.1)))
    free = float(learn(model, DATA).log_errors["mean.value"])
    got = float(learn(model, DATA, priors={"mean.value": Normal(0.0, std=0.5)}).log_errors["mean.value"])
    assert got == pytest.approx(1 / np.sqrt(1 / free**2 + 1 / 0.25), rel=1e-3)


def test_the_hessian_is_that_of_the_objective(plain: Learned) -> None:
    packing = plain.objective.packing
    function = plain.objective.at(DATA)
    H = plain.hessian
    assert H.shape == (4, 4)
    np.testing.assert_allclose(H, H.T)
    for i, j in ((0, 0), (1, 1), (0, 1), (2, 3)):
        step, e = 1e-3, np.eye(4)
        around = [function(plain.theta + step * (a * e[i] + b * e[j]))[0] for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
        numeric = (around[0] - around[1] - around[2] + around[3]) / (4 * step**2)
        assert H[i, j] == pytest.approx(numeric, rel=1e-3, abs=1e-2)
    assert packing.names() == ["kernel.variance", "kernel.lengthscale", "mean.value", "likelihood.variance"]


def test_one_sided_and_central_differences_agree_on_a_quadratic() -> None:
    H = np.array([[2.0, 0.5], [0.5, 1.0]])

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(0.5 * x @ H @ x), H @ x

    x = np.array([0.3, -0.4])
    np.testing.assert_allclose(difference_hessian(function, x, step=1e-2), H, atol=1e-10)
    np.testing.assert_allclose(difference_hessian(function, x, function(x)[1], step=1e-2), H, atol=1e-10)
    np.testing.assert_allclose(difference_hessian(function, x, step=1e-2, central=True), H, atol=1e-10)


# units ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("x_unit", "y_unit"), [(1.0, 1e6), (1e-3, 1.0), (1e4, 1e-5)], ids=["y", "x", "both"])
def test_a_change_of_units_changes_the_answer_by_nothing_else(x_unit: float, y_unit: float) -> None:
    """log p shifts by −n log b for y in units b times as large; every parameter moves with its unit."""
    start = starting_values(MODEL, DATA)
    other = Data(X * x_unit, Y * y_unit)
    one, two = learn(start, DATA, n_restarts=1), learn(starting_values(MODEL, other), other, n_restarts=1)
    assert two.value == pytest.approx(one.value - 60 * np.log(y_unit), abs=0.01)
    a, b = values(one), values(two)
    assert float(b["kernel.variance"]) == pytest.approx(y_unit**2 * float(a["kernel.variance"]), rel=0.05)
    assert float(b["likelihood.variance"]) == pytest.approx(y_unit**2 * float(a["likelihood.variance"]), rel=0.05)
    assert float(b["kernel.lengthscale"]) == pytest.approx(x_unit * float(a["kernel.lengthscale"]), rel=0.05)
    assert float(b["mean.value"]) == pytest.approx(y_unit * float(a["mean.value"]), abs=0.1 * y_unit)
    assert two.log_errors["mean.value"] == pytest.approx(y_unit * one.log_errors["mean.value"], rel=0.05)


def test_a_scale_far_from_the_datas_is_left() -> None:
    """At a length-scale where every row stands alone there is no slope to follow; the data's own scale is tried then."""
    rng = np.random.default_rng(0)
    X = 1e3 * rng.normal(size=(80, 3))
    y = (X[:, 0] > 0).astype(float)
    model = Model(GP("1.0 * SquaredExponential(lengthscale=0.01)"), likelihood=Bernoulli("logit"))
    fit = learn(model, Data(X, y), inference=Laplace())
    assert fit.value > 80 * np.log(0.5) + 10
    assert float(fit.kernel.kernel.lengthscale) > 100


class Half(AbstractPlan):
    """A plan that learns from every second row."""

    def learn(self, model: Model, data: Data, *, max_time: float | None, **options: Any) -> Any:
        found = learn(model, data.take(slice(None, None, 2)), max_time=max_time)
        return SimpleNamespace(model=found.model, gram=None, recipe=self, start=None)

    def condition(self, model: Any, data: Data, inference: Any) -> Any:
        return condition(model, data, inference=inference)

    def log_evidence_and_grad(self, model: Model, data: Data, inference: Any) -> tuple[float, Model]:
        return log_evidence_and_grad(model, data, inference=inference)


def test_a_plan_needs_no_more_than_its_protocol() -> None:
    x = np.linspace(0, 6, 40)[:, None]
    model, data = Model(GP("1.0 * Matern52()")), Data(x, np.sin(x[:, 0]))
    found = learn(model, data, gram=Half())
    assert found.model == learn(model, data.take(slice(None, None, 2))).model
    post = condition(found, data, gram=Half())
    assert post.log_evidence == log_evidence_and_grad(found.model, data, gram=Half())[0]
    fit = GPRegressor("1.0 * Matern52()", method=Half()).fit(x, data.y)
    assert np.abs(fit.predict(x) - data.y).max() < 0.01
    assert "Half" in str(fit.summary())
    assert fit.diagnose() is not None
