"""The diagnosis: verdicts on simulated problems, and messages of the checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import covary
from covary import GP, Data, GPClassifier, GPRegressor, Model, condition
from covary._checks import CovaryError
from covary.diagnosis import Judged, diagnose
from covary.diagnosis.association import group_difference
from covary.diagnosis.classes import check_classes
from covary.distributions import LogNormal
from covary.families.gaussian_process.processes import Process, Processes
from covary.fits import Fit, Labels, family_of
from covary.fits.checks import LEVEL
from covary.gram import Dense, LowRank
from covary.inference import EP, SVGP, Exact, Laplace
from covary.kernels import Matern52, bounded, fixed
from covary.likelihoods import Gaussian
from covary.tables.columns import Columns

mpl.use("Agg")


def fit_of(post: Any) -> Fit[Processes]:
    part = Process(post, post.model, Exact(), Dense(), None, {}, post.log_evidence)
    return Fit("gaussian_process", Processes((part,)), Columns.of_numbers(post.data.X.columns))


# simulated problems ---------------------------------------------------------------------------------------------

WANTED = {"noise": "noise", "outliers": "outliers", "varying": "heteroscedastic", "beyond": "extrapolation"}


def problem(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """A smooth random function seen with noise; inputs, observations, new inputs, and the noise that is stated."""
    rng = np.random.default_rng([seed, 77])
    n, d = int(rng.integers(80, 151)), int(rng.integers(1, 4))
    x, queries = rng.uniform(-2, 2, (n, d)), rng.uniform(-2, 2, (50, d))
    W, phase = rng.normal(size=(30, d)) * rng.uniform(0.6, 1.2), rng.uniform(0, 2 * np.pi, 30)
    f = np.cos(x @ W.T + phase) @ rng.normal(size=30) * np.sqrt(2 / 30)
    s = rng.uniform(0.1, 0.3)
    e, stated = s * rng.normal(size=n), None
    if kind == "noise":
        stated = fixed(float(s**2) * (9.0 if seed % 2 else 1 / 9))
    elif kind == "outliers":
        wild = rng.choice(n, max(3, n // 25), replace=False)
        e[wild] += rng.choice([-1, 1], len(wild)) * rng.uniform(6, 12, len(wild)) * s
    elif kind == "varying":
        e *= np.exp(0.75 * x[:, 0])
    elif kind == "beyond":
        queries[:10, 0] = rng.uniform(4, 6, 10)
    return x, f + e, queries, stated


def warnings_on(kind: str, seed: int) -> set[str]:
    x, y, queries, stated = problem(kind, seed)
    kernel = "1.0 * SquaredExponential()" if seed % 2 else "1.0 * Matern52()"
    found = GPRegressor(kernel, noise=stated).fit(x, y).diagnose(queries)
    return {check.name for check in found.warnings}


def test_warnings_are_right_on_forty_problems() -> None:
    """Eight of each kind: the intended warning fires in nine of ten, and no more than one right model is warned about."""
    fired = {kind: sum(want in warnings_on(kind, seed) for seed in range(8)) for kind, want in WANTED.items()}
    assert sum(fired.values()) >= 0.9 * 32, fired
    assert sum(bool(warnings_on("right", seed)) for seed in range(8)) <= 1


@pytest.mark.slow
def test_warnings_are_right_on_many_problems() -> None:
    """Twenty of each kind, and a hundred right models of which one in twenty may be warned about."""
    for kind, want in WANTED.items():
        assert sum(want in warnings_on(kind, seed) for seed in range(100, 120)) >= 18, kind
    assert sum(bool(warnings_on("right", seed)) for seed in range(100, 200)) <= 5


# what each check says -------------------------------------------------------------------------------------------


def fitted(change: Callable[[np.random.Generator, np.ndarray], np.ndarray] | None = None, **options: Any) -> Any:
    rng = np.random.default_rng(5)
    x = rng.uniform(-3, 3, (100, 2))
    y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=100)
    y = y if change is None else change(rng, y)
    return GPRegressor("1.0 * Matern52(lengthscale=[1.0, 1.0])", **options).fit(x, y)


def test_every_check_says_what_it_found() -> None:
    found = fitted().diagnose([[0.0, 0.0]])
    assert found.ok
    assert len(found) == 13
    for check in found:
        assert check.sentence.endswith(".")
        assert check.verdict in ("ok", "warning", "not available")
        assert check.value is None or np.isfinite(check.value)
        assert not check.advice
    assert found["coverage"].value == pytest.approx(
        float((np.abs(found.judged.z) <= stats.norm.ppf(0.975)).mean())  # type: ignore[union-attr]
    )
    assert "No warning" in str(found)
    assert list(found.to_frame()["name"]) == [check.name for check in found]
    with pytest.raises(CovaryError, match="choose one of coverage"):
        found["nonsense"]


def test_every_picture_draws() -> None:
    import matplotlib.pyplot as plt

    found = fitted(lambda rng, y: y + np.where(np.arange(100) == 7, 5.0, 0.0)).diagnose([[0.0, 0.0], [9.0, 9.0]])
    drawn = 0
    for check in found:
        if check.draw is None:
            with pytest.raises(CovaryError, match="no plot"):
                check.plot()
            continue
        ax = check.plot()
        assert ax.get_xlabel()
        plt.close(ax.figure)
        drawn += 1
    assert drawn >= 8


def test_a_wild_row_is_named_and_reaches_the_summary() -> None:
    model = fitted(lambda rng, y: y + np.where(np.arange(100) == 7, 5.0, 0.0))
    check = model.diagnose()["outliers"]
    assert check.verdict == "warning"
    assert "rows 7," in check.sentence
    assert "student_t" in check.advice
    assert check.sentence in str(model.summary())
    robust = fitted(lambda rng, y: y + np.where(np.arange(100) == 7, 5.0, 0.0), likelihood="student_t")
    assert robust.diagnose()["outliers"].verdict == "ok"


def test_structure_that_a_kernel_cannot_see_is_found() -> None:
    rng = np.random.default_rng(6)
    x = np.sort(rng.uniform(0, 10, 120))[:, None]
    model = GPRegressor("1.0 * Linear()").fit(x, np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=120))
    check = model.diagnose()["structure"]
    assert check.verdict == "warning"
    assert "neighbouring rows are similar" in check.sentence


SMOOTH: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "wave": lambda x: np.sin(3 * x[:, 0]),
    "bump": lambda x: 7 + 2 * np.exp(-4 * x[:, 0] ** 2),
    "cubic": lambda x: x[:, 0] ** 3 - x[:, 0],
    "surface": lambda x: np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1]) + x[:, 0],
}


@pytest.mark.parametrize("name", SMOOTH)
def test_wide_error_bars_round_tiny_errors_are_a_note(name: str) -> None:
    """A smooth function without noise under the default kernel: no warning, a note, and error bars that hold every row."""
    x = np.random.default_rng(1).uniform(-1, 1, (80, 2 if name == "surface" else 1))
    model = GPRegressor(random_state=0).fit(x, SMOOTH[name](x))
    found = model.diagnose()
    assert found.ok, found
    seen: Any = found.judged
    assert np.abs(seen.z).max() < 4
    error, spread = np.sqrt(np.square(seen.y - seen.mean).mean()), seen.y.std()
    assert 1 - (error / spread) ** 2 > 0.999
    note = found["coverage50"]
    assert note.verdict == "note"
    assert note.ok
    assert "wider than needed" in note.sentence
    assert f"at most {100 * np.abs(seen.y - seen.mean).max() / spread:.2g} %" in note.sentence
    assert "SquaredExponential" in note.advice
    assert "warning" not in str(model.summary())
    assert "  note " in str(found)


def test_small_errors_are_still_warned_about() -> None:
    """Tiny noise whose error bars are right on the whole, but not row by row; noise that is stated; one row far out."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (120, 1))
    f = np.sin(3 * x[:, 0])
    varying = GPRegressor(random_state=0).fit(x, f + 0.004 * np.exp(2 * x[:, 0]) * rng.normal(size=120)).diagnose()
    assert "heteroscedastic" in {check.name for check in varying.warnings}
    stated = GPRegressor(noise=fixed(1e-3), random_state=0).fit(x, f).diagnose()
    assert "coverage" in {check.name for check in stated.warnings} or "noise" in {check.name for check in stated.warnings}
    wild = GPRegressor(random_state=0).fit(x, f + np.where(np.arange(120) == 7, 0.05, 0.0)).diagnose()
    assert "outliers" in {check.name for check in wild.warnings}
    smooth = GPRegressor("1.0 * SquaredExponential()", random_state=0).fit(x, f + 0.01 * rng.normal(size=120)).diagnose()
    assert smooth.ok
    assert "note" not in {check.verdict for check in smooth}


def test_nothing_to_learn_is_said() -> None:
    model = fitted(lambda rng, y: rng.normal(size=100))
    assert model.diagnose()["sharpness"].verdict == "warning"


def test_a_prior_the_data_contradict_is_named() -> None:
    wrong = {"kernel.lengthscale": LogNormal(np.log(500.0), scale=0.5)}
    check = fitted(priors=wrong).diagnose()["priors"]
    assert check.verdict == "warning"
    assert "kernel.lengthscale" in check.sentence
    assert check.threshold == 3.0
    assert fitted().diagnose()["priors"].threshold == 5.0


def test_a_parameter_at_its_bound_is_named() -> None:
    x = np.linspace(0, 6, 60)[:, None]
    y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    kernel = 1.0 * Matern52(lengthscale=bounded(0.2, 0.1, 0.3))
    check = GPRegressor(kernel).fit(x, y).diagnose()["bounds"]
    assert check.verdict == "warning"
    assert "kernel.lengthscale = 0.3 at its upper bound" in check.sentence
    free = GPRegressor("1.0 * SquaredExponential()").fit(x, np.sin(x[:, 0])).diagnose()["bounds"]
    assert free.verdict == "ok"  # noise at its floor is what noise-free data look like


def test_two_explanations_of_few_rows_are_found() -> None:
    """Few rows: wiggles without noise, or noise without wiggles (R&W, figure 5.5)."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(-6, 6, 7))[:, None]
    y = np.sin(0.9 * x[:, 0]) + 0.25 * rng.normal(size=7)
    options: Any = {"priors": None, "mean": "zero", "random_state": 0}
    model = GPRegressor("1.0 * SquaredExponential()", n_restarts=6, **options).fit(x, y)
    check = model.diagnose()["peaks"]
    assert check.verdict == "warning"
    assert "Another explanation is only" in check.sentence
    alone = GPRegressor("1.0 * SquaredExponential()", n_restarts=0, **options).fit(x, y)
    assert alone.diagnose()["peaks"].verdict == "not available"


def test_digits_that_are_lost_are_said() -> None:
    x = np.linspace(0, 1, 40)[:, None]
    model = Model(GP("SquaredExponential(lengthscale=3.0)"), likelihood=Gaussian(fixed(1e-14)))
    found = diagnose(fit_of(condition(model, Data(x, np.sin(6 * x[:, 0])))))
    assert found["conditioning"].verdict == "warning"


def test_few_rows_and_constants_are_not_judged() -> None:
    x = np.linspace(0, 1, 5)[:, None]
    few = GPRegressor().fit(x, np.sin(x[:, 0])).diagnose()
    assert few["coverage"].verdict == "not available"
    assert "too few" in few["coverage"].sentence
    flat = GPRegressor().fit(np.linspace(0, 1, 30)[:, None], np.ones(30)).diagnose()
    assert flat["pit"].sentence == "The observations do not vary."


def test_too_little_to_learn_from_is_a_warning() -> None:
    """Of so few rows nothing is tested, and 95 % intervals contain far fewer: silence would read as approval."""
    x = np.linspace(0, 1, 40)[:, None]
    few = GPRegressor().fit(x[:5], np.sin(x[:5, 0]))
    assert few.diagnose().warnings[0].sentence.startswith("5 rows are too few to tell whether the error bars are right")
    assert "too few to tell" in str(few.summary())
    assert "data" not in [check.name for check in few.diagnose(x[5:], np.sin(x[5:, 0]))]  # tested on rows enough
    assert GPRegressor(fixed=("*",)).fit(x[:5], np.sin(x[:5, 0])).diagnose().ok  # nothing was learned from so few
    classes = GPClassifier().fit(x[:6], list("ababab")).diagnose()
    assert classes["data"].sentence == "6 rows are too few to tell whether the probabilities are right."
    flat = GPRegressor().fit(x, np.stack([np.sin(x[:, 0]), np.ones(40)], axis=1)).diagnose()
    assert flat["data"].sentence.startswith("The observations of y1 do not vary: there is nothing to learn")
    assert GPRegressor(likelihood="poisson").fit(x, np.zeros(40)).diagnose().ok  # no counts at all is a count


def test_categories_have_no_order() -> None:
    """Noise that is larger in one category is found between categories, whatever their codes; no error grows with a code."""
    rng = np.random.default_rng(12)
    x, kind = rng.uniform(-2, 2, 240), np.array(["a", "b", "c"])[rng.integers(0, 3, 240)]
    table = pd.DataFrame({"x": x, "kind": kind})
    calm = np.sin(2 * x) + 0.2 * rng.normal(size=240)
    wild = np.sin(2 * x) + np.where(kind == "b", 0.8, 0.1) * rng.normal(size=240)
    kernel = "1.0 * Matern52().on(0) + 0.1 * Hamming().on(1)"
    assert GPRegressor(kernel).fit(table, calm).diagnose()["heteroscedastic"].verdict == "ok"
    check = GPRegressor(kernel).fit(table, wild).diagnose()["heteroscedastic"]
    assert check.verdict == "warning"
    assert "differ in size between categories of kind" in check.sentence
    sizes, codes = np.abs(rng.normal(size=90)), rng.integers(0, 3, 90).astype(float)
    found, chance = group_difference(sizes, codes)
    again = group_difference(sizes, np.array([7.0, 3.0, 5.0])[codes.astype(int)])
    np.testing.assert_allclose(again, (found, chance))


def test_the_advice_fits_the_noise() -> None:
    """Noise that was learned is not asked to be freed; noise that is held is."""
    rng = np.random.default_rng(13)
    x = rng.uniform(-3, 3, (200, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.standard_t(2, size=200)
    learned = GPRegressor("1.0 * Matern52()").fit(x, y).diagnose()["coverage50"]
    assert learned.verdict == "warning"
    assert "student_t" in learned.advice
    assert "Learn the noise" not in learned.advice
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=200)
    held = GPRegressor("1.0 * Matern52()", noise=fixed(1.0)).fit(x, y).diagnose()["coverage50"]
    assert held.advice == "Learn the noise instead of fixing it."


# classes and new rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", ["softmax", "one_vs_rest"])
def test_classes_are_judged(many: str) -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(120, 2))
    labels = np.array(["low", "mid", "high"])[
        np.digitize(np.sin(2 * x[:, 0]) + x[:, 1] + 0.4 * rng.normal(size=120), [-0.6, 0.6])
    ]
    model = GPClassifier("4.0 * Matern52()", multi_class=many).fit(x, labels)
    found = model.diagnose(np.array([[0.0, 0.0], [30.0, 0.0], [31.0, 3.0]]))
    assert found["calibration"].verdict == "ok"
    assert found["sharpness"].value > 0.2  # type: ignore[operator]
    assert found.extrapolates.tolist() == [False, True, True]  # type: ignore[union-attr]
    assert found["extrapolation"].verdict == "warning"
    np.testing.assert_allclose(found.judged.p.sum(1), 1.0)  # type: ignore[union-attr]


def test_probabilities_that_are_wrong_are_found() -> None:
    """Labels of a third of the new rows are exchanged: the model is too sure of them."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(300, 2))
    labels = np.where(x[:, 0] + 0.1 * rng.normal(size=300) > 0, "yes", "no")
    model = GPClassifier("9.0 * SquaredExponential()").fit(x[:150], labels[:150])
    assert model.diagnose(x[150:], labels[150:])["calibration"].verdict == "ok"
    swapped = np.where(rng.uniform(size=150) < 0.33, np.where(labels[150:] == "yes", "no", "yes"), labels[150:])
    check = model.diagnose(x[150:], swapped)["calibration"]
    assert check.verdict == "warning"
    assert "overconfident" in check.sentence
    with pytest.raises(CovaryError, match="contains 'perhaps', which is not a class of the model"):
        model.diagnose(x[:1], ["perhaps"])


def test_classes_named_right_more_often_than_said() -> None:
    """Every class is as frequent as predicted, and the likeliest is right far more often: too cautious."""
    rng = np.random.default_rng(14)
    codes, other = rng.integers(0, 3, 200), fitted()
    p = np.full((200, 3), 0.25)
    p[np.arange(200), codes] = 0.5
    seen = Judged.of_classes("new rows", "", rng.normal(size=(200, 2)), codes, p)
    for inference, said in ((Laplace(), "inference='ep'"), (EP(), "recalibrate")):
        part = replace(other.fit_.state.first, inference=inference)
        whose = replace(other.fit_, state=Processes((part,)), classes=Labels(np.array(["a", "b", "c"]), np.ones(3)))
        check = check_classes(whose, family_of(whose).training(whose), seen)[0]
        assert check.verdict == "warning"
        assert "underconfident" in check.sentence
        assert said in check.advice


def test_new_rows_with_their_truth_replace_leaving_out() -> None:
    model, rng = fitted(), np.random.default_rng(9)
    x = rng.uniform(-3, 3, (60, 2))
    y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.6 * rng.normal(size=60)  # six times the noise learned from
    found = model.diagnose(x, y)
    assert found.judged.kind == "new rows"  # type: ignore[union-attr]
    mean, std = model.predict(x, return_std=True)
    np.testing.assert_allclose(found.judged.z[:, 0], (y - mean) / std, rtol=1e-9)  # type: ignore[union-attr]
    assert found["coverage"].verdict == "warning"
    assert "too narrow" in found["coverage"].sentence
    with pytest.raises(CovaryError, match="without X"):
        model.diagnose(y=y)
    with pytest.raises(CovaryError, match="shape"):
        model.diagnose(x, np.stack([y, y], axis=1))


@pytest.mark.parametrize("method", [LowRank(30), "vecchia", "markov", "svgp", "subset"], ids=str)
def test_every_method_has_a_diagnosis(method: Any) -> None:
    rng = np.random.default_rng(10)
    x = rng.uniform(-3, 3, (150, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=150)
    held: Any = {"noise": fixed(0.04), "mean": "zero", "fixed": ("kernel.*",), "random_state": 0}
    if method == "svgp":
        method, held["inference"] = LowRank(20), SVGP()
    found = GPRegressor("0.7 * Matern52(lengthscale=1.5)", method=method, **held).fit(x, y).diagnose([[0.0], [20.0]])
    assert found.judged.kind == "leave-one-out"  # type: ignore[union-attr]
    assert 0.9 <= found["coverage"].value <= 1.0  # type: ignore[operator]
    assert found.extrapolates.tolist() == [False, True]  # type: ignore[union-attr]


def test_a_model_from_a_file_is_judged_the_same(tmp_path: Any) -> None:
    model = fitted()
    model.save(tmp_path / "m.covary")
    again = covary.load(tmp_path / "m.covary").diagnose()
    assert again.to_frame().equals(model.diagnose().to_frame())


def test_the_level_is_shared() -> None:
    """Seven tests share one false alarm in a hundred (Bonferroni)."""
    assert pytest.approx(0.01) == 7 * LEVEL
