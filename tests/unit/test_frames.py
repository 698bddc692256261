"""Real-world tables in the estimators: dates, categories, missing values, names and units, also in model files."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_predict

from covary import GPClassifier, GPRegressor, load
from covary._checks import CovaryError
from covary.data import Inputs
from covary.tables.cells import read_cells
from covary.tables.columns import Columns

QUICK: dict[str, Any] = {"n_restarts": 0, "random_state": 0}
ROWS = 60


def table(rows: int = ROWS, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "depth [m]": rng.uniform(0, 10, rows),
            "when": pd.Timestamp("2015-01-05") + pd.to_timedelta(rng.integers(0, 2000, rows), "D"),
            "soil": rng.choice(["clay", "sand", "silt"], rows),
            "wet": rng.random(rows) < 0.5,
        }
    )
    offset = frame["soil"].map({"clay": 0.0, "sand": 2.0, "silt": -1.0})
    y = np.sin(frame["depth [m]"] / 2) + offset + 0.3 * frame["wet"] + 0.05 * rng.normal(size=rows)
    return frame, y.to_numpy()


FRAME, Y = table()
MODEL: Any = GPRegressor(**QUICK).fit(FRAME, Y)
CLASSES: Any = GPClassifier(**QUICK).fit(FRAME, Y > 0)


# what the kernels see --------------------------------------------------------------------------------------------
def test_the_matrix_is_what_one_would_write_by_hand() -> None:
    days = (FRAME["when"] - FRAME["when"].min()).dt.days.to_numpy()
    codes = FRAME["soil"].map({"clay": 0, "sand": 1, "silt": 2}).to_numpy()
    own = np.column_stack([FRAME["depth [m]"], days / 365.25, codes, FRAME["wet"]]).astype(float)
    found = MODEL.columns_.matrix("test", FRAME).x
    np.testing.assert_allclose(found, own, rtol=1e-15)
    assert MODEL.columns_.names == ["depth (m)", "when (years)", "soil", "wet"]
    assert list(MODEL.feature_names_in_) == list(FRAME.columns)
    assert MODEL.n_features_in_ == 4
    kernel = "1.0 * Matern52(lengthscale=[1, 1, 1]).on(0, 1, 3) * Hamming(lengthscale=[2]).on(2)"
    hand = GPRegressor(kernel, **QUICK, priors=None, fixed=("kernel.*",), noise=0.1).fit(own, Y)
    mine = GPRegressor(kernel, **QUICK, priors=None, fixed=("kernel.*",), noise=0.1).fit(FRAME, Y)
    np.testing.assert_array_equal(mine.predict(Inputs(own)), hand.predict(own))


@pytest.mark.parametrize(
    ("span", "unit", "size"),
    [
        (dt.timedelta(days=4000), "years", 365.25 * 86400),
        (dt.timedelta(days=40), "days", 86400.0),
        (dt.timedelta(hours=50), "hours", 3600.0),
        (dt.timedelta(seconds=90), "seconds", 1.0),
    ],
)
def test_the_unit_of_dates_follows_their_span(span: dt.timedelta, unit: str, size: float) -> None:
    first = dt.datetime(1999, 3, 7, 11, 30)
    times = [first + span * f for f in (0.3, 0.0, 1.0)]
    for frame in (pd.DataFrame({"t": times}), pl.DataFrame({"t": times}), pd.DataFrame({"t": [t.isoformat() for t in times]})):
        columns = Columns.fit("test", frame)
        assert columns.each[0].unit == unit
        assert columns.each[0].origin.startswith("1999-03-07T11:30")
        own = np.array([0.3, 0.0, 1.0]) * span.total_seconds() / size
        np.testing.assert_allclose(columns.matrix("test", frame).x[:, 0], own, rtol=1e-12)


COLUMNS = {
    "whole": (pd.Series([1, 2, None], dtype="Int64"), "number", [1, 2, np.nan]),
    "truth with gaps": (pd.Series([True, None, False], dtype=object), "boolean", [1, np.nan, 0]),
    "words for truth": (pd.Series(["True", " false", None]), "boolean", [1, 0, np.nan]),
    "numbers as text": (pd.Series(["1.5", "2"]), "number", [1.5, 2]),
    "iso text": (pd.Series(["2020-01-01", "2020-01-11"]), "date", None),
    "months": (pd.Series(["2020-01", "2020-02"]), "date", None),
    "slashes": (pd.Series(["2020/01/31", "2020/02/29"]), "date", None),
    "zones": (pd.Series(["2020-01-01T00:00+01:00", "2020-01-02T12:00:00Z"]), "date", None),
    "dates of Python": (pd.Series([dt.date(2020, 1, 1), None], dtype=object), "date", None),
    "periods": (pd.Series(pd.period_range("2020-01", periods=2, freq="M")), "date", None),
    "durations": (pd.Series(pd.to_timedelta([1, 2], "D")), "duration", None),
    "no such day": (pd.Series(["2020-13-01", "2020-02-01", "2020-02-01"]), "category", None),
    "words": (pd.Series(["a", "b", "a"]), "category", None),
    "codes among words": (pd.Series(["1", "b", "b", "b"]), "category", None),
    "categories of numbers": (pd.Series([3, 1, 3]).astype("category"), "category", None),
    "polars categories": (pl.Series(["x", None, "y"], dtype=pl.Categorical), "category", None),
    "polars enum": (pl.Series(["x", "y"], dtype=pl.Enum(["z", "y", "x"])), "category", None),
    "polars dates": (pl.Series([dt.date(2020, 1, 1), None]), "date", None),
    "polars truth": (pl.Series([True, None]), "boolean", [1, np.nan]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_kinds_of_columns(name: str) -> None:
    column, kind, values = COLUMNS[name]
    cells = read_cells("test", "column", column)
    assert cells.kind == kind
    gone = column.is_null().to_numpy() if isinstance(column, pl.Series) else column.isna().to_numpy()
    np.testing.assert_array_equal(cells.missing, gone)
    if values is not None:
        np.testing.assert_array_equal(cells.values, values)


def test_declared_categories_keep_their_order() -> None:
    frame = pd.DataFrame({"size": pd.Categorical(["M", "S", "M"], ["S", "M", "L"])})
    columns = Columns.fit("test", frame)
    assert (columns.each[0].levels, columns.each[0].counts) == (("S", "M", "L"), (1, 2, 0))
    np.testing.assert_array_equal(columns.matrix("test", frame).x[:, 0], frame["size"].cat.codes)
    large = columns.matrix("test", pd.DataFrame({"size": ["L", "XL", "XL", "S"]}))
    np.testing.assert_array_equal(large.x[:, 0], [2, 3, 3, 0])  # a declared level without a row was never seen either
    assert {k: v.tolist() for k, v in large.unseen["size"].items()} == {
        "L": [True, False, False, False],
        "XL": [False, True, True, False],
    }


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            [f"id-{i}" for i in range(40)],
            "40 distinct texts in 40 rows, such as 'id-0': identifiers rather than categories; leave",
        ),
        ([f"id-{i % 30}" for i in range(40)], "30 distinct texts in 40 rows"),
        (["1.5", "2.5", "oops", "4"] * 10, r"contains text among numbers \('oops' at row 2, 10 such entries in all\)"),
        ([None] * 40, "column 'c' of X is empty; leave it out"),
        ([dt.time(3, 4)] * 40, "contains time .'03:04:00' at row 0"),
        ([1 + 2j] * 40, "Complex data not supported"),
    ],
)
def test_columns_that_cannot_be_used_are_named(values: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        GPRegressor(**QUICK).fit(pd.DataFrame({"x": np.arange(40.0), "c": values}), np.arange(40.0))


# matching by name ------------------------------------------------------------------------------------------------
def test_columns_are_matched_by_name_in_any_order_and_any_frame() -> None:
    mean, std = MODEL.predict(FRAME, return_std=True)
    shuffled = FRAME.iloc[:, [2, 0, 3, 1]].assign(extra="ignored")
    for other in (
        shuffled,
        pl.from_pandas(FRAME),
        FRAME.astype({"soil": "category"}),
        FRAME.assign(when=FRAME["when"].map(str)),
    ):
        again = MODEL.predict(other, return_std=True)
        np.testing.assert_array_equal(again[0], mean)
        np.testing.assert_array_equal(again[1], std)
    with pytest.raises(ValueError, match="GPRegressor: X has no column 'soil', 'wet'; give every column"):
        MODEL.predict(FRAME[["when", "depth [m]"]])
    with pytest.raises(ValueError, match="X has no column names"):
        MODEL.predict(FRAME.to_numpy())
    with pytest.raises(ValueError, match=r"column 'depth \[m\]' of X contains text .* but contained numbers during fit"):
        MODEL.predict(FRAME.assign(**{"depth [m]": "deep"}))
    with pytest.raises(ValueError, match="has a time zone but had none in fit"):
        MODEL.predict(FRAME.assign(when=FRAME["when"].dt.tz_localize("Europe/Rome")))


def test_time_zones_are_one_clock() -> None:
    frame = FRAME.assign(when=FRAME["when"].dt.tz_localize("UTC"))
    model: Any = GPRegressor("1.0 * Matern52()", **QUICK).fit(frame[["when"]], Y)
    rome = frame[["when"]].assign(when=frame["when"].dt.tz_convert("Europe/Rome"))
    np.testing.assert_array_equal(model.predict(rome), model.predict(frame[["when"]]))
    np.testing.assert_array_equal(model.predict(pl.from_pandas(rome)), model.predict(frame[["when"]]))


def test_tables_of_numbers_keep_the_rule_and_the_bits_of_before() -> None:
    numbers = pd.DataFrame({"a": FRAME["depth [m]"], "b": FRAME["wet"]})
    model: Any = GPRegressor(**QUICK).fit(numbers, Y)
    bare: Any = GPRegressor(**QUICK).fit(numbers.to_numpy(float), Y)
    np.testing.assert_array_equal(model.predict(numbers), bare.predict(numbers.to_numpy(float)))
    assert not hasattr(bare, "columns_")
    with pytest.raises(ValueError, match="same order as they were in fit"):  # scikit-learn's contract for numbers
        model.predict(numbers[["b", "a"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(numbers.to_numpy(float))


# unseen categories -----------------------------------------------------------------------------------------------
def test_an_unseen_category_widens_the_error_bar_and_is_named() -> None:
    new = FRAME[:3].assign(soil=[FRAME["soil"][0], "rock", "rock"])
    with pytest.warns(UserWarning, match="column 'soil' contains 'rock' in 2 rows, never seen in fit") as caught:
        mean, cov = MODEL.predict(new, return_cov=True, latent=True)
    assert caught[0].filename == __file__
    _, std = MODEL.predict(FRAME[:3], return_std=True, latent=True)
    wide = np.sqrt(np.diag(cov))
    assert wide[0] == pytest.approx(std[0], rel=1e-6)
    assert (wide[1:] > 5 * std[1:]).all()
    # by hand: a category of its own, as unlike each known one as these are unlike each other
    x = MODEL.columns_.matrix("test", FRAME).x[:3]
    x[1:, 2] = 7.0
    np.testing.assert_array_equal(mean, MODEL.predict(Inputs(x)))
    k = MODEL.model_.kernel.gram(x)
    assert k[1, 2] / k[0, 0] > 0.5 * np.exp(-1 / MODEL.model_.kernel.kernel.factors[1].kernel.lengthscale[0])
    with pytest.raises(
        ValueError, match="'rock', never seen in fit, and the kernel has a fixed number of categories; use Hamming"
    ):
        GPRegressor("1.0 * Categories(3).on(2)", **QUICK).fit(FRAME, Y).predict(new)


REGRESSED: dict[str, Callable[[Any, pd.DataFrame], Any]] = {
    "predict": lambda model, new: model.predict(new),
    "predict_interval": lambda model, new: model.predict_interval(new),
    "predict_quantiles": lambda model, new: model.predict_quantiles(new),
    "sample_y": lambda model, new: model.sample_y(new),
    "sample_y of f": lambda model, new: model.sample_y(new, latent=True),
    "score": lambda model, new: model.score(new, Y[: len(new)]),
    "diagnose": lambda model, new: model.diagnose(new),
    "update": lambda model, new: clone(model).fit(FRAME, Y).update(new, Y[: len(new)]),
    "cross_val_predict": lambda model, new: cross_val_predict(model, joined(new), Y[: len(new) + 30], cv=KFold(2)),
}
CLASSIFIED: dict[str, Callable[[Any, pd.DataFrame], Any]] = {
    "predict": lambda model, new: model.predict(new),
    "predict_proba": lambda model, new: model.predict_proba(new),
    "predict_log_proba": lambda model, new: model.predict_log_proba(new),
    "predict_latent": lambda model, new: model.predict_latent(new),
    "predict_interval": lambda model, new: model.predict_interval(new),
    "decision_function": lambda model, new: model.decision_function(new),
    "decide": lambda model, new: model.decide(new, [[0, 1], [1, 0]]),
    "sample_y": lambda model, new: model.sample_y(new),
    "score": lambda model, new: model.score(new, Y[: len(new)] > 0),
}


def joined(new: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([FRAME[:30], new], ignore_index=True)


@pytest.mark.parametrize(
    ("classes", "verb"), [(False, verb) for verb in REGRESSED] + [(True, verb) for verb in CLASSIFIED], ids=str
)
def test_every_verb_warns_of_an_unseen_category_at_the_line_of_the_caller(classes: bool, verb: str) -> None:
    new = FRAME[:4].assign(soil="rock")
    model = CLASSES if classes else MODEL
    call = (CLASSIFIED if classes else REGRESSED)[verb]
    with pytest.warns(UserWarning, match="contains 'rock' in 4 rows, never seen in fit") as caught:
        call(model, new)
    said = [w for w in caught if "never seen" in str(w.message)]
    assert [w.filename for w in said] == [__file__]


def test_new_categories_can_be_learned_from_later() -> None:
    frame, y = table(30, seed=3)
    model: Any = GPRegressor(**QUICK).fit(frame[:25], y[:25])
    more = frame[25:].assign(soil="rock")
    with pytest.warns(UserWarning, match="never seen"):
        model.update(more, y[25:])
    assert model.columns_.each[2].levels == ("clay", "sand", "silt", "rock")
    assert model.columns_.each[2].counts[-1] == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.abs(model.predict(more) - y[25:]).max() < 0.5


# missing entries -------------------------------------------------------------------------------------------------
def gappy() -> pd.DataFrame:
    frame = FRAME.copy()
    frame.loc[[3, 8], "depth [m]"] = np.nan
    frame.loc[5, "soil"] = None
    frame.loc[[8, 9], "when"] = pd.NaT
    return frame


def test_missing_inputs_are_refused_unless_something_is_said() -> None:
    with pytest.raises(ValueError, match=r"X is NaN at row 3, column 'depth \[m\]' \(5 such .*missing='drop', 'indicator' or"):
        GPRegressor(**QUICK).fit(gappy(), Y)
    with pytest.raises(ValueError, match="missing is 'mean'; choose one of 'refuse', 'drop', 'indicator', 'impute'"):
        GPRegressor(missing="mean", **QUICK).fit(gappy(), Y)


def test_rows_with_gaps_can_be_dropped() -> None:
    weight, noise = np.linspace(0.5, 1.5, ROWS), np.full(ROWS, 0.01)
    kernel = "1.0 * Matern52().on('depth [m]', 'when', 'wet') * Hamming().on('soil')"
    model: Any = GPRegressor(kernel, missing="drop", **QUICK).fit(gappy(), Y, noise, weight)
    kept = ~gappy().isna().any(axis=1).to_numpy()
    own: Any = GPRegressor(kernel, **QUICK).fit(FRAME[kept], Y[kept], noise[kept], weight[kept])
    np.testing.assert_array_equal(model.predict(FRAME), own.predict(FRAME))
    assert "4 rows left out for missing inputs" in str(model.summary())
    with pytest.raises(ValueError, match=r"X is NaN at row 3, column 'depth \[m\]'"):
        model.predict(gappy())


@pytest.mark.parametrize("missing", ["impute", "indicator"])
def test_gaps_can_be_filled(missing: str) -> None:
    model: Any = GPRegressor(missing=missing, **QUICK).fit(gappy(), Y)
    full = gappy()
    full["depth [m]"] = full["depth [m]"].fillna(full["depth [m]"].median())
    full["soil"] = full["soil"].fillna(full["soil"].mode()[0])
    x = model.columns_.matrix("test", gappy()).x
    np.testing.assert_allclose(x[:, [0, 2]], model.columns_.matrix("test", full).x[:, [0, 2]])
    assert x[8, 1] == np.median(x[~gappy()["when"].isna(), 1])
    text = str(model.summary())
    assert "depth: 2 entries replaced by the median" in text
    assert "soil: 1 entry replaced by the most frequent category" in text
    assert np.isfinite(model.predict(gappy())).all()
    if missing == "indicator":
        assert model.columns_.keys[4:] == ["depth [m] missing", "when missing", "soil missing"]
        np.testing.assert_array_equal(x[:, 4:], gappy()[["depth [m]", "when", "soil"]].isna())
        assert model.n_features_in_ == 4
        with pytest.warns(
            UserWarning,
            match="column 'wet' has missing values but had none in fit: they are replaced by the more frequent value",
        ):
            model.predict(FRAME.astype({"wet": "boolean"}).assign(wet=pd.NA))
    else:
        assert x.shape[1] == 4


def test_arrays_with_gaps() -> None:
    x = FRAME[["depth [m]"]].to_numpy(copy=True)
    x[4] = np.nan
    model: Any = GPRegressor(missing="impute", **QUICK).fit(np.column_stack([x, Y]), Y)
    own = np.where(np.isnan(x), np.nanmedian(x), x)
    np.testing.assert_array_equal(
        model.predict(np.column_stack([x, Y])), GPRegressor(**QUICK).fit(np.c_[own, Y], Y).predict(np.c_[own, Y])
    )
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.zeros((2, 3)))


def test_missing_targets_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"y is NaN at row 2; drop these rows .* can be predicted after the fit"):
        GPRegressor(**QUICK).fit(FRAME, np.where(np.arange(ROWS) == 2, np.nan, Y))


# seasons ---------------------------------------------------------------------------------------------------------
def test_seasons_are_offered_and_found() -> None:
    days = np.arange(0, 1500, 13)
    frame = pd.DataFrame({"when": pd.Timestamp("2001-05-01") + pd.to_timedelta(days, "D")})
    y = 0.001 * days + np.sin(2 * np.pi * days / 365.25) + 0.05 * np.random.default_rng(0).normal(size=len(days))
    plain: Any = GPRegressor(n_restarts=0, random_state=0).fit(frame, y)
    words = "a yearly season of when: seasonality='yearly', or + Periodic(period=fixed(1)).on(0) in a kernel of your own"
    assert words in str(plain.summary())
    model: Any = GPRegressor(seasonality="yearly", n_restarts=0, random_state=0).fit(frame, y)
    assert "season" not in dict(model.summary().facts)
    later = np.arange(1500, 2200, 10)
    ahead = pd.DataFrame({"when": pd.Timestamp("2001-05-01") + pd.to_timedelta(later, "D")})
    truth = 0.001 * later + np.sin(2 * np.pi * later / 365.25)
    error, blind = (np.sqrt(np.mean((m.predict(ahead) - truth) ** 2)) for m in (model, plain))
    assert error < 0.3
    assert error < 0.4 * blind
    assert model.log_marginal_likelihood_ > plain.log_marginal_likelihood_
    with pytest.raises(ValueError, match="seasonality='yearly' is given but no column of X contains dates"):
        GPRegressor(seasonality="yearly").fit(days[:, None], y)
    with pytest.raises(ValueError, match="seasonality is 'monthly'; choose from 'yearly', 'weekly', 'daily'"):
        GPRegressor(seasonality="monthly").fit(frame, y)
    with pytest.raises(ValueError, match="seasonality is given together with a kernel"):
        GPRegressor("Matern52()", seasonality="yearly").fit(frame, y)


def test_which_seasons_are_offered() -> None:
    def offered(count: int, step: str) -> tuple[str, ...]:
        return Columns.fit("test", pd.DataFrame({"t": pd.date_range("2020", periods=count, freq=step)})).each[0].seasons

    assert offered(40, "D") == ("weekly",)
    assert offered(800, "D") == ("yearly", "weekly")
    assert offered(100, "7D") == ()  # not two years
    assert offered(120, "7D") == ("yearly",)
    assert offered(100, "h") == ("daily",)
    assert offered(30, "YS") == ()


# the rest of the front doors -------------------------------------------------------------------------------------
def test_the_summary_names_columns_and_units() -> None:
    text = str(MODEL.summary())
    for words in (
        "Matern52().on(0, 1, 3) * Hamming().on(2)",
        "kernel.0.lengthscale[depth (m)]",
        "kernel.0.lengthscale[when (years)]",
        "kernel.1.lengthscale[soil]",
        "when: years since 20",
        "soil: 3 categories (clay, sand, silt)",
    ):
        assert words in text


def test_length_scales_of_categories_start_and_are_held_by_a_prior_of_their_own() -> None:
    path = "kernel.1.lengthscale"
    start = MODEL.learned_.restarts[0].start.kernel.kernel.factors[1].kernel.lengthscale
    np.testing.assert_array_equal(start, [2.0])  # not the spread of the codes
    (prior,) = MODEL.priors_[path]
    assert (np.exp(prior.location) if hasattr(prior, "location") else 2.0) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="mean is 'linear' but some columns of X are categories"):
        GPRegressor(mean="linear", **QUICK).fit(FRAME, Y)


@pytest.mark.parametrize("multi", ["softmax", "one_vs_rest"])
def test_classes_from_text_and_dates(multi: str, tmp_path: Any) -> None:
    labels = np.where(FRAME["soil"] == "sand", "rough", np.where(FRAME["depth [m]"] > 5, "deep", "flat"))
    model: Any = GPClassifier(multi_class=multi, missing="impute", **QUICK).fit(gappy(), labels)
    assert (model.predict(FRAME) == labels).mean() > 0.9
    model.save(tmp_path / "m.covary")
    again: Any = load(tmp_path / "m.covary")
    assert again.columns_ == model.columns_
    assert again.n_features_in_ == 4
    np.testing.assert_array_equal(again.predict_proba(gappy()), model.predict_proba(gappy()))
    assert "Hamming" in str(again.estimators_[0].model_.kernel if multi == "one_vs_rest" else again.model_.kernel)
    assert model.predict_latent(FRAME).shape == (ROWS, 3)


def test_files_keep_the_columns(tmp_path: Any) -> None:
    model: Any = GPRegressor(missing="indicator", seasonality=["yearly"], **QUICK).fit(gappy(), Y)
    model.save(tmp_path / "m.covary")
    again: Any = load(tmp_path / "m.covary")
    assert again.columns_ == model.columns_
    assert (again.missing, list(again.seasonality)) == ("indicator", ["yearly"])
    assert list(again.feature_names_in_) == list(FRAME.columns)
    np.testing.assert_array_equal(again.predict(gappy()), model.predict(gappy()))
    np.testing.assert_array_equal(again.predict(FRAME.iloc[:, ::-1]), model.predict(FRAME))


def test_a_damaged_record_of_columns_is_refused() -> None:
    record = MODEL.columns_.to_record()
    assert Columns.from_record(record) == MODEL.columns_
    for change in ({"kind": "colour"}, {"levels": ["a"], "counts": []}, {"counts": [-1], "levels": ["a"]}, {"fill": "nan"}):
        with pytest.raises((ValueError, TypeError)):
            Columns.from_record(record | {"each": [record["each"][0] | change]})


def test_the_target_keeps_its_name(tmp_path) -> None:
    frame = pd.DataFrame({"x": np.linspace(0.0, 3.0, 12), "yield": np.arange(12.0) % 5, "kind": ["a", "b"] * 6})
    model = GPRegressor("Matern52()").fit(frame[["x"]], frame["yield"])
    assert model.target_names_ == ["yield"]
    model.save(tmp_path / "m.covary")
    assert load(tmp_path / "m.covary").target_names_ == ["yield"]
    assert GPClassifier("Matern52()").fit(frame[["x"]], frame["kind"]).target_names_ == ["kind"]
    assert not hasattr(model.fit(frame[["x"]], frame["yield"].to_numpy()), "target_names_")


def test_a_lazy_table_is_asked_for_in_full() -> None:
    table = pl.DataFrame({"x": [0.0, 1.0, 2.0]})
    with pytest.raises(CovaryError, match=r"GPRegressor: X is a LazyFrame, which is evaluated lazily; collect it first"):
        GPRegressor().fit(table.lazy(), [1.0, 2.0, 3.0])
