"""Typical mistakes of new users in arguments: they work as expected, or the error states the correct call."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import covary.families.gaussian_process.start as first_models
import covary.kernels
from covary import (
    GP,
    Data,
    GPClassifier,
    GPRegressor,
    Model,
    condition,
    enable_cache,
    learn,
    load,
    log_evidence,
    log_evidence_and_grad,
    plots,
    sample_prior,
    save,
)
from covary._checks import CovaryError
from covary.distributions import LogNormal
from covary.gram import Dense, LowRank
from covary.inference import EP, Laplace
from covary.kernels import (
    RBF,
    AbstractKernel,
    Categories,
    Constant,
    Function,
    Hamming,
    Matern,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    bounded,
    fixed,
    learned,
    parse,
)
from covary.likelihoods import Gaussian, StudentT
from covary.means import Constant as ConstantMean
from covary.means import Linear as LinearMean
from covary.means import LinearBasis
from covary.metrics import cross_validate, learning_curve
from covary.parameters import Packing, freeze, parameters, positive, set_values
from covary.selection import LeaveOneOut

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (25, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(25)
SOILS = np.array(["clay", "sand", "silt"])[np.arange(25) % 3]
TABLE = pd.DataFrame({"depth": X[:, 0], "soil": SOILS, "wet": X[:, 1] > 2.5}, index=[f"r{i}" for i in range(25)])
LABELS = np.where(Y > 0, "up", "down")


def regressor(kernel: Any = None, **options: Any) -> GPRegressor:
    return GPRegressor(kernel, **{"n_restarts": 0, "random_state": 0, **options})


def sentence(call: Any) -> str:
    with pytest.raises(CovaryError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


class Laplacian(AbstractKernel):
    lengthscale: Any = positive(1.0)

    def block(self, X, Z):
        return jnp.exp(-jnp.abs(X.x[:, None, :] - Z.x[None, :, :]).sum(-1) / self.lengthscale)


# categories under a kernel of the user's own -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kernel", "do"),
    [
        (Matern52(), "write Matern52(lengthscale=1.0).on('depth', 'wet') * Hamming().on('soil')."),
        ("2*Matern52() + Constant()", "write (2*Matern52() + Constant()).on('depth', 'wet') * Hamming().on('soil')."),
        (Matern52().on("depth", "soil"), "write Hamming().on('soil') for them, multiplied by kernels on the other columns"),
        (Matern52().on(0) * RationalQuadratic().on(1), "write Hamming().on('soil')"),
        (Laplacian(), "write Laplacian(lengthscale=1.0).on('depth', 'wet') * Hamming().on('soil')."),
    ],
)
@pytest.mark.parametrize("door", [GPRegressor, GPClassifier])
def test_codes_of_categories_never_pass_for_numbers(door: Any, kernel: Any, do: str) -> None:
    text = sentence(lambda: door(kernel).fit(TABLE, Y if door is GPRegressor else LABELS))
    assert text.startswith(f"{door.__name__}: kernel has ")
    assert "on 'soil', where X contains categories" in text
    assert do in text


@pytest.mark.parametrize(
    "kernel",
    [
        "Matern52().on('depth', 'wet') * Hamming().on('soil')",
        Matern52().on("depth") * Categories(3).on("soil") + Constant(),
        2.0 * Matern52().on(0),
        Matern52().on(0, 2) * (1.0 * Hamming() + Constant()).on("soil"),
        Matern52().on("depth") * Laplacian().on("soil"),
        Matern52().on("depth") * Function(lambda x, z: jnp.where(x[0] == z[0], 1.0, 0.5)).on("soil"),
    ],
)
def test_kernels_that_leave_categories_to_their_own_are_taken(kernel: Any) -> None:
    model = regressor(kernel, fixed="*").fit(TABLE, Y)
    assert np.isfinite(model.predict(TABLE[["wet", "soil", "depth"]])).all()
    assert "'" not in repr(model.kernel_)  # columns by number


def test_an_old_model_with_codes_under_its_kernel_loads_and_a_refit_is_refused(tmp_path: Any, monkeypatch: Any) -> None:
    with monkeypatch.context() as before:
        before.setattr(first_models, "check_categories", lambda *given: None)
        model = regressor("Matern52()").fit(TABLE, Y)
        model.save(tmp_path / "old.covary")
    again = load(tmp_path / "old.covary")
    np.testing.assert_array_equal(again.predict(TABLE), model.predict(TABLE))
    assert "where X contains categories" in sentence(lambda: again.fit(TABLE, Y))


def test_a_linear_mean_of_categories_is_refused_as_an_object_too() -> None:
    assert "but some columns of X are categories, whose codes have no order" in sentence(
        lambda: regressor(mean=LinearMean(weight=np.zeros(3))).fit(TABLE, Y)
    )


def test_columns_by_name() -> None:
    names = sentence(lambda: regressor(Matern52().on("dept")).fit(TABLE, Y))
    assert names == "GPRegressor: the kernel uses column 'dept' but X has no such column; did you mean 'depth'?"
    assert "but X has no names" in sentence(lambda: regressor(Matern52().on("depth")).fit(X, Y))
    assert "is given by name" in sentence(lambda: Matern52().on("depth").gram(X))
    assert Matern52().on([0, 1]) == Matern52().on(0, 1)
    by_name = regressor("1.0 * Matern52().on('b')").fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    np.testing.assert_array_equal(
        by_name.predict(pd.DataFrame(X, columns=["a", "b"])), regressor("1.0 * Matern52().on(1)").fit(X, Y).predict(X)
    )


# ν of Matern -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kernel", [Matern(nu=2.5), parse("Matern(nu=2.5)"), parse("Matern(nu=5/2)"), Matern(nu=fixed(2.5))])
def test_a_smoothness_that_is_given_is_held(kernel: Any) -> None:
    assert repr(kernel) == "Matern(lengthscale=1.0, nu=fixed(2.5))"
    assert Packing(Model(GP(kernel))).names() == ["kernel.lengthscale", "likelihood.variance"]


@pytest.mark.parametrize(
    "kernel", [Matern(nu=learned(1.5)), parse("Matern(nu=learned(1.5))"), Matern(nu=bounded(1.5, 0.1, 10.0))]
)
def test_a_smoothness_is_learned_when_asked_for_and_within_bounds(kernel: Any) -> None:
    packing = Packing(kernel)
    assert packing.names() == ["lengthscale", "nu"]
    np.testing.assert_allclose(np.exp(packing.box()[1][1]), 10.0)


@pytest.mark.slow
def test_fits_hold_the_smoothness_or_learn_it() -> None:
    found = regressor("Matern(nu=2.5)").fit(X, Y)
    assert repr(found.kernel_).endswith("nu=fixed(2.5))")
    np.testing.assert_allclose(found.predict(X), regressor("Matern52()").fit(X, Y).predict(X), rtol=1e-6)
    free = regressor("Matern(nu=learned(1.5))").fit(X, Y).kernel_
    assert 0.0999 < float(free.nu) < 10.001
    assert float(free.nu) != 1.5


def test_marks_of_a_held_parameter_survive_copies() -> None:
    k = Matern(nu=2.5)
    assert k.replace(lengthscale=3.0).mark_of("nu").fixed
    assert k.replace(nu=3.0).mark_of("nu").fixed
    assert k.replace(nu=learned(3.0)).mark_of("nu").bounds == (0.1, 10.0)
    assert set_values(k, {"nu": 3.0}).mark_of("nu").fixed
    assert set_values(k, {"nu": learned(3.0)}) == Matern(nu=learned(3.0))
    assert pickle.loads(pickle.dumps(k)) == k
    assert parse(repr(2.0 * k.on(0))) == 2.0 * k.on(0)
    assert Matern52(lengthscale=learned(2.0)) == Matern52(2.0)


def test_bounds_of_what_is_held_say_how_to_learn_it() -> None:
    said = sentence(lambda: regressor(Matern(nu=2.5), bounds={"kernel.nu": (1.0, 5.0)}).fit(X, Y))
    assert said.startswith("GPRegressor: 'kernel.nu' is given bounds but fixed at 2.5; write nu=bounded(...) or learned(...)")


# attributes and frames -------------------------------------------------------------------------------------------------
def test_kernel_and_relevance_are_attributes() -> None:
    from covary.plots import relevance

    bare = GPRegressor()
    assert not hasattr(bare, "kernel_")
    assert not hasattr(bare, "relevance_")
    with pytest.raises(AttributeError, match="Call 'fit'"):
        _ = bare.relevance_
    few = TABLE.iloc[:8]
    model = regressor("1.0 * Matern52().on('depth') * Hamming().on('soil')", fixed="*").fit(few, Y[:8])
    assert model.kernel_ is model.model_.kernel
    shares, found = model.relevance_, relevance(model)
    assert dict(zip(model.feature_names_in_, shares, strict=True)) == pytest.approx(
        dict(zip(found.names, found.values, strict=True))
    )
    assert shares[2] < 1e-9 < shares[0]


@pytest.mark.slow
def test_relevance_is_told_of_the_columns_of_fit_alone() -> None:
    gaps = regressor("1.0 * Matern52()", missing="indicator", fixed="*").fit(np.where(X > 4.9, np.nan, X), Y)
    assert gaps.relevance_.shape == (2,)


def test_a_fit_that_failed_is_not_fitted() -> None:
    model = regressor(Matern52)
    with pytest.raises(CovaryError):
        model.fit(X, Y)
    with pytest.raises(AttributeError, match="Call 'fit'"):
        model.predict(X)


def test_predictions_as_a_frame() -> None:
    model = regressor("Matern52().on('depth') * Hamming().on('soil')").fit(TABLE, pd.Series(Y, name="yield"))
    frame = model.predict_frame(TABLE.iloc[[3, 1]], level=0.5)
    mean, std = model.predict(TABLE.iloc[[3, 1]], return_std=True)
    low, high = model.predict_interval(TABLE.iloc[[3, 1]], 0.5)
    assert list(frame.index) == ["r3", "r1"]
    expected = pd.DataFrame({"mean": mean, "std": std, "lower": low, "upper": high}, index=["r3", "r1"])
    pd.testing.assert_frame_equal(frame, expected)
    two = regressor("Matern52()", fixed="*").fit(X, pd.DataFrame({"a": Y, "b": -Y}))
    frame = two.predict_frame(X[:3])
    assert list(frame)[:5] == ["a_mean", "a_std", "a_lower", "a_upper", "b_mean"]
    assert list(frame.index) == [0, 1, 2]
    np.testing.assert_allclose(frame["b_mean"], -frame["a_mean"])
    assert "level is 95" in sentence(lambda: model.predict_frame(TABLE, level=95))


@pytest.mark.parametrize("multi", ["softmax", "one_vs_rest"])
def test_classes_as_a_frame_keep_their_labels(multi: str) -> None:
    codes = np.digitize(Y, [-0.3, 0.3]) + 5
    model = GPClassifier("Matern52()", fixed="*", multi_class=multi).fit(X, codes)
    frame = model.predict_frame(X[:4])
    assert list(frame) == ["class", "p_5", "p_6", "p_7"]
    assert frame["class"].dtype == codes.dtype
    np.testing.assert_array_equal(frame.iloc[:, 1:], model.predict_proba(X[:4]))
    assert len(model.kernel_) == 3
    assert "does not apply to a classifier" in sentence(lambda: model.predict_frame(X, size=3))


def test_a_frame_of_counts_takes_sizes_and_names_its_target(tmp_path: Any) -> None:
    pairs = pd.DataFrame({"hits": np.arange(25) % 3, "trials": np.full(25, 3)})
    model = regressor("Matern52()", likelihood="binomial", fixed="*").fit(X, pairs)
    assert model.target_names_ == ["hits"]
    frame = model.predict_frame(X[:2], size=[3, 6])
    assert frame["upper"].iloc[1] > 3
    model.save(tmp_path / "hits.covary")
    pd.testing.assert_frame_equal(load(tmp_path / "hits.covary").predict_frame(X[:2], size=[3, 6]), frame)


# kernels as functions, and kernels of the user's own -------------------------------------------------------------------
def test_a_kernel_takes_points_and_tables() -> None:
    k = Matern52()
    np.testing.assert_array_equal(k(X, X[:3]), k.cross(X, X[:3]))
    np.testing.assert_array_equal(k.block(X, X[:3]), k.cross(X, X[:3]))
    np.testing.assert_array_equal(k(X), k.gram(X))
    np.testing.assert_array_equal(k(pd.DataFrame(X), X), k(X, X))
    assert k(X[0], X[1]) == k(X)[0, 1]
    assert k(0.0, 1.0) == k([0.0], [1.0])
    for x, z in ((X, X[0]), (X[:, 0], X), (X[None], X)):
        assert "give two points (d,), or tables of rows (n, d) and (m, d)" in sentence(lambda x=x, z=z: k(x, z))
    assert "X has 2 columns and Z has 1" in sentence(lambda: k(X, X[:, :1]))


def test_a_kernel_class_with_a_block_alone_does_everything(tmp_path: Any) -> None:
    model = regressor(1.0 * Laplacian() + Constant()).fit(X, Y)
    np.testing.assert_allclose(Laplacian()(X), np.exp(-np.abs(X[:, None] - X[None]).sum(-1)))
    assert float(parameters(model.model_)["kernel.0.lengthscale"].value) != 1.0  # learned
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()
    assert model.diagnose() is not None
    assert "the kernel contains Laplacian, which cannot be stored in a model file" in sentence(
        lambda: model.save(tmp_path / "own.covary")
    )
    assert not (tmp_path / "own.covary").exists()
    assert "Laplacian" in sentence(lambda: model.export(tmp_path / "own.py"))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


class Nothing(AbstractKernel):
    lengthscale: Any = positive(1.0)


class InNumPy(AbstractKernel):
    def block(self, X, Z):
        return np.exp(-np.abs(np.asarray(X.x)[:, :1] - np.asarray(Z.x)[:, 0]))


class OneRow(AbstractKernel):
    def block(self, X, Z):
        return jnp.exp(-(X.x**2).sum(1))


class OfRecords(AbstractKernel):
    def block(self, X, Z):
        return jnp.exp(-((X - Z.T) ** 2))


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (Nothing(), "Nothing: the class has no method block; write block(self, X, Z)"),
        (InNumPy(), "InNumPy: block uses NumPy, which JAX cannot differentiate; write it with jax.numpy"),
        (OneRow(), "OneRow: block returns shape (3,) for 3 and 2 rows; return k between every row"),
        (OfRecords(), "OfRecords: block fails (AttributeError: 'Inputs' object has no attribute 'T'); it must take X.x"),
        (Function(lambda x, z: np.exp(-x)), "kernels.Function: the function uses NumPy"),
        (Function(lambda x: x), "kernels.Function: the function fails (TypeError"),
    ],
)
def test_what_is_missing_in_a_kernel_of_ones_own_is_said(kernel: Any, said: str) -> None:
    assert said in sentence(lambda: regressor(1.0 * kernel).fit(X, Y))


def test_fields_need_no_annotation_and_a_constructor_is_refused() -> None:
    class Bare(AbstractKernel):
        lengthscale = positive(2.0)

        def block(self, X, Z):
            return jnp.exp(-jnp.abs(X.x[:, :1] - Z.x[:, 0]) / self.lengthscale)

    assert repr(Bare()) == "Bare(lengthscale=2.0)"
    assert list(parameters(Bare(3.0))) == ["lengthscale"]

    def define() -> None:
        class Own(AbstractKernel):
            def __init__(self, lengthscale):
                self.lengthscale = lengthscale

    assert sentence(define).startswith("Own: the class defines __init__")


@pytest.mark.parametrize(
    ("mean", "said"),
    [
        (lambda x: np.sin(x[0]), "mean: the function uses NumPy"),
        (lambda x: x, r"mean: the function returns shape (2,) at one point"),
        (lambda x: x[:, 0], "mean: the function fails (IndexError"),
    ],
)
def test_what_is_wrong_with_a_mean_function_is_said(mean: Any, said: str) -> None:
    assert said in sentence(lambda: regressor(mean=mean).fit(X, Y))


# constructors ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: GPRegressor(kernal=1), "GPRegressor: unknown argument 'kernal'; did you mean 'kernel'?"),
        (
            lambda: GPRegressor(n_restarts_optimizer=1),
            "GPRegressor: unknown argument 'n_restarts_optimizer'; did you mean 'n_restarts'?",
        ),
        (lambda: GPRegressor(alpha=0.1), "GPRegressor: unknown argument 'alpha'; write noise=fixed(...)"),
        (
            lambda: GPRegressor(X, Y),
            "GPRegressor: 2 arguments given by position but it takes 1 (kernel); give the others by name, and data",
        ),
        (
            lambda: GPClassifier(likelihood="probit"),
            "GPClassifier: unknown argument 'likelihood'; choose link='logit' or 'probit'",
        ),
        (lambda: Matern52(length_scale=1.0), "kernels.Matern52: unknown argument 'length_scale'; did you mean 'lengthscale'?"),
        (lambda: Matern52(variance=2.0), "kernels.Matern52: unknown argument 'variance'; multiply the kernel by it"),
        (lambda: Matern52(1.0, 2.0), "kernels.Matern52: 2 arguments given by position but it takes 1 (lengthscale)"),
        (lambda: Matern52(1.0, lengthscale=2.0), "'lengthscale' is given by position and by name; give it once"),
        (lambda: StudentT(df=3.0), "likelihoods.StudentT: unknown argument 'df'; did you mean 'degrees'?"),
        (lambda: LowRank(number=3), "gram.LowRank: unknown argument 'number'; choose from"),
        (lambda: ConstantMean(valeu=1.0), "means.Constant: unknown argument 'valeu'; did you mean 'value'?"),
        (lambda: Laplacian(scale=1.0), "Laplacian: unknown argument 'scale'; did you mean 'lengthscale'?"),
        (lambda: Data(X, Y, weights=1), "Data: unknown argument 'weights'; did you mean 'weight'?"),
        (lambda: GP(), "GP: 'kernel' is missing; write GP(kernel=...)"),
        (lambda: GP(Matern52), "GP: kernel is the class Matern52; write Matern52()"),
        (lambda: Model(GP(Matern52()), likelihood=Gaussian), "Model: likelihood is the class Gaussian; write Gaussian()"),
        (lambda: Periodic() + Matern52, "kernels: a term is the class Matern52; write Matern52()"),
        (lambda: Matern52 * Periodic(), "kernels: a factor is the class Matern52; write Matern52()"),
    ],
)
def test_constructors_name_the_class_and_the_argument(call: Any, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert said in str(caught.value)
    assert isinstance(caught.value, CovaryError)
    assert "__init__" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{"kernel": Matern52}, {"likelihood": StudentT}, {"mean": ConstantMean}, {"method": LowRank}, {"inference": Laplace}],
)
def test_a_class_in_the_place_of_an_object_is_told_its_brackets(options: Any) -> None:
    (name, kind), *_ = options.items()
    said = sentence(lambda: regressor(**options).fit(X, Y))
    assert said == f"GPRegressor: {name} is the class {kind.__name__}; write {kind.__name__}()."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_restarts": "5"}, "n_restarts is '5'; give an integer"),
        ({"n_restarts": -1}, "n_restarts is -1"),
        ({"max_time": "1 h"}, "max_time is '1 h'; give a positive number of seconds, or None"),
        ({"priors": 3}, "priors is 3; give 'default', None, or distributions by path"),
        ({"bounds": [(1, 2)]}, "bounds is [(1, 2)]; give bounds by path"),
        ({"bounds": {"kernel.lengthscale": 3}}, "bounds is {'kernel.lengthscale': 3}; give bounds by path"),
        ({"fixed": True}, "fixed is True; give paths of parameters"),
        ({"kernel": X}, "kernel is a table or array of shape (25, 2); give data to fit(X, y)"),
        ({"kernel": [Matern52(), Periodic()]}, "kernel is a list of 2; give one kernel, or their sum"),
        ({"kernel": "rbf"}, "no kernel is called 'rbf'; write one such as RBF()"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(options: Any, said: str) -> None:
    assert said in sentence(lambda: regressor(**options).fit(X, Y))


@pytest.mark.parametrize("y", [LABELS, LABELS.tolist(), pd.Series(LABELS), pd.Series(LABELS, dtype="category")])
def test_text_targets_name_the_classifier(y: Any) -> None:
    assert "y contains text" in (said := sentence(lambda: regressor().fit(X, y)))
    assert said.endswith("use GPClassifier for classes, or give numbers.")
    assert "GPRegressor" in sentence(lambda: GPClassifier().fit(X, Y))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: regressor().fit(X[:, 0], Y), "X has one dimension (25 entries); Reshape your data: X.reshape(-1, 1)"),
        (lambda: regressor().fit(pd.Series(X[:, 0], name="a"), Y), "X is one column ('a'); Reshape your data: X.to_frame()"),
        (lambda: regressor().fit(X, "target"), "y is 'target'; give one entry per row"),
        (lambda: regressor("Matern52()", fixed="*").fit(X, Y).predict(X[0]), "X has one dimension (2 entries)"),
        (lambda: regressor("Matern52()", fixed="*").fit(X, Y).predict(5.0), "X is a single number"),
        (lambda: regressor("Matern52()", fixed="*").fit(X, Y).sample_y(X, 0), "n_samples is 0; give an integer"),
        (lambda: load(regressor()), "load: the path is of type GPRegressor; give the name of a file"),
        (
            lambda: regressor("Matern52()", fixed="*").fit(X, Y).predict(np.full((1, 2), np.nan)),
            "or choose how with missing='drop', 'indicator' or 'impute' in the constructor, before fitting.",
        ),
        (
            lambda: regressor(objective="loo", likelihood="student_t").fit(X, Y),
            "objective is 'loo', which requires Gaussian noise and exact inference, but likelihood is 'student_t' and the "
            "inference Laplace;",
        ),
        (
            lambda: regressor(checkpoint=__file__).fit(X, Y),
            f"learn: checkpoint is {__file__!r}, which is not a checkpoint; give the name of a new file.",
        ),
        (lambda: plots.plot_predicted("model"), "plots.plot_predicted: got str; give a fitted estimator or a posterior."),
        (lambda: plots.plot_residuals("model"), "plots.plot_residuals: got str"),
        (lambda: plots.plot_calibration("model"), "plots.plot_calibration: got str"),
        (lambda: plots.plot_relevance("model"), "plots.plot_relevance: got str"),
        (
            lambda: covary.learn(Model(GP("Matern52()")), Data(X, Y), priors={"kernel.lengthscale": 1}),
            "learn: priors: 'kernel.lengthscale' has 1;",
        ),
    ],
)
def test_data_of_the_wrong_shape_are_named(call: Any, said: str) -> None:
    assert said in sentence(call)


def test_small_courtesies() -> None:
    assert sum([Matern52(), Periodic()]) == Matern52() + Periodic()
    assert Matern52() / 4 == 0.25 * Matern52()
    assert RBF is SquaredExponential
    assert fixed(2.0 * Matern52()) == fixed(2.0) * Matern52(fixed(1.0)) == parse("fixed(2.0 * Matern52())")
    with pytest.raises(
        dataclasses.FrozenInstanceError, match=r"lengthscale cannot be assigned; write replace\(lengthscale=...\)"
    ):
        Matern52().lengthscale = 3.0  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"Matern52 has no attribute 'K'; write k\(X, Z\)"):
        Matern52().K(X)
    with pytest.raises(AttributeError, match=r"'ExpSineSquared'; write Periodic\(\)"):
        covary.kernels.ExpSineSquared  # noqa: B018
    assert regressor([Matern52()], fixed="*").fit(X, Y).kernel_ == fixed(Matern52())


# powers of numbers in kernel text --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("66**2 * SquaredExponential()", "4356 * SquaredExponential()"),
        ("2*3*Matern52()", "6 * Matern52()"),
        ("2**-2 * Matern52(lengthscale=[1/4, -1 + 2])", "0.25 * Matern52(lengthscale=[0.25, 1])"),
        ("2**0.5 * Matern52()", "1.4142135623730951 * Matern52()"),
        ("fixed(3**2) * Periodic(period=bounded(2 * 3.5, 7/2, 2**4))", "fixed(9) * Periodic(period=bounded(7, 3.5, 16))"),
        ("MaternHalfInteger(1 + 2)", "MaternHalfInteger(3)"),
        ("2 * 3", "6"),
        ("10**2**2 * Matern52()", "10000 * Matern52()"),
    ],
)
def test_numbers_in_kernel_text_may_be_computed(text: str, same: str) -> None:
    assert parse(text) == parse(same)


# the core functions ----------------------------------------------------------------------------------------------------
PLAIN = Model(GP(Matern52()))
ROWS = Data(X, Y)


@pytest.mark.parametrize("function", [learn, condition, log_evidence, log_evidence_and_grad])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"gram": "low_rank"}, "gram is 'low_rank'; write gram=LowRank(...)."),
        ({"gram": "exact"}, "gram is 'exact'; give an object such as gram=Dense()."),
        ({"gram": None}, "gram is None; give an object such as gram=Dense()."),
        ({"gram": Dense}, "gram is the class Dense; write Dense()."),
        ({"inference": "ep"}, "inference is 'ep'; write inference=EP(...)."),
        ({"inference": EP}, "inference is the class EP; write EP()."),
        ({"grams": Dense()}, "unknown argument 'grams'; did you mean 'gram'?"),
        ({"model": Model(GP(3))}, "GP: kernel is 3; give an object such as kernel=Matern52()."),
        ({"model": Model(GP(Matern52(), mean="linear"))}, "GP: mean is 'linear'; write mean=Linear(...)."),
        ({"model": Model(GP(Matern52(), mean=jnp.sum))}, "give an object such as mean=Function(f)."),
        ({"model": Model(GP(Matern52(), basis="linear"))}, "GP: basis is 'linear'; write basis=LinearBasis(...)."),
        ({"model": Model(GP(Matern52(), basis=LinearBasis))}, "GP: basis is a function; write basis=LinearBasis(...)."),
        (
            {"model": Model(PLAIN.prior, likelihood="gaussian")},
            "Model: likelihood is 'gaussian'; write likelihood=Gaussian(...).",
        ),
        ({"model": Model(3)}, "Model: prior is 3; give an object such as prior=GP(kernel)."),
        ({"model": "Matern52()"}, "got str for the model; give a Model(GP(kernel), likelihood=...)."),
        ({"data": (X, Y)}, "got tuple for the data; give Data(X, y)."),
    ],
)
def test_core_functions_check_the_kinds_of_their_arguments(function: Any, arguments: Any, said: str) -> None:
    text = sentence(lambda: function(**{"model": PLAIN, "data": ROWS, **arguments}))
    assert text.endswith(said)
    assert text.startswith((f"{function.__name__}: ", "GP: ", "Model: "))


@pytest.mark.parametrize(
    ("call", "argument", "said"),
    [
        (lambda: learn(PLAIN, ROWS, objective="loo"), "objective", "learn: objective is 'loo'; give one such as LeaveOneOut()"),
        (lambda: learn(PLAIN, ROWS, objective=LeaveOneOut), "objective", "is the class LeaveOneOut; write LeaveOneOut()."),
        (lambda: learn(PLAIN, ROWS, max_time="a"), "max_time", "max_time is 'a'; give a number of seconds, or None."),
        (lambda: learn(PLAIN, ROWS, starts=PLAIN.kernel), "starts", "give a list of models."),
        (lambda: learn(PLAIN, ROWS, rivals=[3]), "rivals", "rivals is [3]; give a list of models."),
        (lambda: learn(PLAIN), "data", "learn: 'data' is missing; write learn(model, data)."),
        (lambda: learn(PLAIN, ROWS, priors={"nothing": LogNormal()}), "priors", "no parameter is called 'nothing'"),
        (lambda: learn(PLAIN, ROWS, priors={"kernel.*": [LogNormal()] * 3}), "priors", "give one, or one each."),
        (lambda: learn(PLAIN, ROWS, tie=[["nothing"]]), "tie", "no parameter is called 'nothing'"),
        (lambda: regressor("Matern52()", fixed="nothing").fit(X, Y), "fixed", "no parameter is called 'nothing'"),
        (lambda: regressor("Matern52()", bounds={"nothing": (1, 2)}).fit(X, Y), "bounds", "no parameter is called 'nothing'"),
        (lambda: regressor("Matern52()", bounds={"*.lengthscale": (2, 1)}).fit(X, Y), "bounds", "give lower < upper."),
        (lambda: freeze(PLAIN, "nothing"), "patterns", "parameters.freeze: no parameter is called 'nothing'"),
        (lambda: Packing(PLAIN).unpack([1.0]), "theta", "theta has shape (1,) but the model has 2 free parameters; give one"),
        (
            lambda: condition(Model(GP(Matern52([1.0] * 3))), ROWS),
            "lengthscale",
            "lengthscale has 3 entries but X has 2 columns",
        ),
        (lambda: condition(PLAIN, ROWS, gram=LowRank(X[:5, :1])), "inducing", "the inducing inputs have 1 column and X has 2"),
        (lambda: LowRank("many"), "inducing", "gram.LowRank: inducing is 'many'; give a number or an array of numbers."),
        (lambda: sample_prior(Matern52(), X, key=0), "prior", "give an object such as prior=GP(kernel)."),
        (lambda: sample_prior(PLAIN.prior, X, keys=0), "keys", "unknown argument 'keys'; did you mean 'key'?"),
        (lambda: cross_validate("m", X, Y), "estimator", "estimator is 'm'; give an object with the methods fit and predict."),
        (lambda: learning_curve(GPRegressor, X, Y), "estimator", "estimator is the class GPRegressor; write GPRegressor()."),
        (lambda: load("no.covary", functions=3), "functions", "is not a dict of functions by name; give functions={"),
        (lambda: load("no.covary", function={}), "function", "load: unknown argument 'function'; did you mean 'functions'?"),
        (lambda: load("no.covary"), "path", "load: 'no.covary' does not exist; check the name."),
        (lambda: load(3), "path", "load: the path is of type int; give the name of a file."),
        (
            lambda: save(regressor("Matern52()", fixed="*").fit(X, Y), "no/such/folder.covary"),
            "path",
            "save: the folder 'no/such' does not exist; create it",
        ),
        (lambda: enable_cache("/proc/foo"), "directory", "enable_cache: the folder '/proc/foo' cannot be created"),
    ],
)
def test_errors_name_the_argument(call: Any, argument: str, said: str) -> None:
    with pytest.raises(CovaryError) as caught:
        call()
    assert said in str(caught.value)
    assert caught.value.argument == argument
    assert caught.value.do


def test_functions_keep_their_signatures() -> None:
    assert list(inspect.signature(learn).parameters)[:4] == ["model", "data", "objective", "inference"]
    assert inspect.signature(load).parameters["functions"].kind is inspect.Parameter.KEYWORD_ONLY
    assert learn.__doc__ is not None
    assert learn.__module__ == "covary.selection.learn"
