"""X, y, weights and options of the wrong kind: each raises one of covary's errors, or gives a finite result."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy import sparse

from covary import GP, Data, GPClassifier, GPRegressor, Model, condition
from covary._checks import CovaryError
from covary.kernels import Matern52
from covary.likelihoods import Gaussian
from robustness.record import Case

TITLE = "X, y, weights and options of the wrong kind"
LEAST = 4800

ROWS = 12
Value = Callable[[], Any]


class Strange:
    """Says it is a number and is none."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __float__(self) -> float:
        raise self.error

    __int__ = __index__ = __len__ = __float__  # type: ignore[assignment]


class Raising:
    """Says it is an array and is none."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")


def among(item: Any, rows: int = ROWS) -> list[Any]:
    """A thing among numbers."""
    return [0.1 * i for i in range(rows - 1)] + [item]


ITEMS: dict[str, Value] = {  # entries that are no numbers, or not ones that can be used
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "sNaN": lambda: Decimal("sNaN"),
    "decimal NaN": lambda: Decimal("NaN"),
    "decimal infinity": lambda: Decimal("Infinity"),
    "a fraction too large": lambda: Fraction(10**400, 3),
    "complex": lambda: 1 + 2j,
    "None": lambda: None,
    "NA": lambda: pd.NA,
    "NaT": lambda: pd.NaT,
    "masked": lambda: np.ma.masked,
    "text": lambda: "north",
    "empty text": lambda: "",
    "bytes": lambda: b"north",
    "a date": lambda: dt.datetime(2020, 1, 1),
    "numpy date": lambda: np.datetime64("2020-01-01"),
    "a duration": lambda: dt.timedelta(1),
    "a list": lambda: [1.0, 2.0],
    "a dict": lambda: {"a": 1},
    "a set": lambda: {1},
    "an array": lambda: np.zeros(3),
    "a function": lambda: len,
    "a type": lambda: int,
    "ellipsis": lambda: ...,
    "refuses to be a number": lambda: Strange(RuntimeError("no")),
    "is no number": lambda: Strange(TypeError("no")),
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "1e300": lambda: 1e300,
}


def columns() -> dict[str, Value]:
    """What may stand where one number per row is wanted."""
    out: dict[str, Value] = {}
    for name, item in ITEMS.items():
        out[f"{name} in a list"] = lambda item=item: among(item())
        out[f"{name} in a column"] = lambda item=item: pd.Series(among(item()), dtype=object)
    ramp = np.linspace(0, 1, ROWS)

    def objects(item: Any) -> np.ndarray:
        array = np.empty(ROWS, dtype=object)
        array[:] = ramp
        array[-1] = item
        return array

    for name in ("10**400", "sNaN", "complex", "masked", "a dict", "a date", "refuses to be a number"):
        out[f"{name} among objects"] = lambda name=name: objects(ITEMS[name]())
    out |= {
        "masked array": lambda: np.ma.array(ramp, mask=ramp > 0.8),
        "masked whole numbers": lambda: np.ma.array(np.arange(ROWS), mask=np.arange(ROWS) > 8),
        "masked dates": lambda: np.ma.array(np.arange(ROWS).astype("M8[D]"), mask=np.arange(ROWS) > 8),
        "masked objects": lambda: np.ma.array(list("abcdefghijkl"), dtype=object, mask=np.arange(ROWS) > 8),
        "all masked": lambda: np.ma.array(ramp, mask=True),
        "a list of masked": lambda: [np.ma.masked] * ROWS,
        "nullable with gaps": lambda: pd.Series([*range(ROWS - 1), None], dtype="Int64"),
        "nullable floats with gaps": lambda: pd.Series([*ramp[:-1], None], dtype="Float64"),
        "nullable booleans with gaps": lambda: pd.Series([True] * (ROWS - 1) + [None], dtype="boolean"),
        "nullable text": lambda: pd.Series(["a"] * (ROWS - 1) + [None], dtype="string"),
        "categories with gaps": lambda: pd.Series(["1"] * (ROWS - 1) + [None], dtype="category"),
        "periods": lambda: pd.Series(pd.period_range("2020-01", periods=ROWS, freq="M")),
        "intervals": lambda: pd.Series(pd.interval_range(0, ROWS)),
        "dates": lambda: pd.Series(pd.date_range("2020", periods=ROWS)),
        "dates with a zone": lambda: pd.Series(pd.date_range("2020", periods=ROWS, tz="Europe/Berlin")),
        "durations": lambda: pd.Series(pd.to_timedelta(range(ROWS), unit="h")),
        "numpy durations": lambda: np.arange(ROWS).astype("m8[h]"),
        "complex array": lambda: ramp + 1j,
        "structured": lambda: np.zeros(ROWS, dtype=[("a", float), ("b", int)]),
        "void": lambda: np.zeros(ROWS, dtype="V8"),
        "bytes array": lambda: np.array([b"x"] * ROWS),
        "text array": lambda: np.array(["x"] * ROWS),
        "half precision": lambda: ramp.astype(np.float16),
        "long doubles": lambda: ramp.astype(np.longdouble) * np.longdouble(10) ** 400,
        "sparse column": lambda: sparse.csr_matrix(ramp[:, None]),
        "sparse row": lambda: sparse.coo_array(ramp[None]),
        "no dimension": lambda: np.array(1.0),
        "a number": lambda: 1.0,
        "a huge number": lambda: 10**400,
        "a decimal": lambda: Decimal("1"),
        "text": lambda: "abc",
        "bytes": lambda: b"abc",
        "a generator": lambda: (v for v in ramp),
        "a map": lambda: map(float, ramp),
        "a set": lambda: set(ramp),
        "a dict": lambda: dict(enumerate(ramp)),
        "a function": lambda: len,
        "a type": lambda: float,
        "an object": lambda: object(),
        "refuses to be an array": lambda: Raising(),
        "ragged": lambda: [[1.0, 2.0], [3.0]] * (ROWS // 2),
        "deep": lambda: np.zeros((ROWS, 1, 1)),
        "wide": lambda: np.zeros((ROWS, 0)),
        "empty": list,
        "too few": lambda: ramp[:-1],
        "too many": lambda: np.append(ramp, 1.0),
        "nested deep": _nest,
        "itself": _itself,
        "a frame": lambda: pd.DataFrame({"a": ramp, "b": ["x"] * ROWS}),
        "a frame of nothing": lambda: pd.DataFrame(index=range(ROWS)),
        "slice": lambda: slice(3),
        "range": lambda: range(ROWS),
    }
    return out


def _nest() -> Any:
    deep: Any = 1.0
    for _ in range(5000):
        deep = [deep]
    return [deep] * ROWS


def _itself() -> Any:
    own: list[Any] = [1.0]
    own.append(own)
    return [own] * ROWS


def tables() -> dict[str, Value]:
    """What may stand where rows of inputs are wanted."""
    out: dict[str, Value] = {}
    for name, item in ITEMS.items():
        out[f"{name} in a row"] = lambda item=item: [[v, 1.0] for v in among(item())]
        out[f"{name} in a frame"] = lambda item=item: pd.DataFrame({"a": pd.Series(among(item()), dtype=object), "b": 1.0})
    grid = np.column_stack([np.linspace(0, 1, ROWS), np.linspace(1, 3, ROWS) ** 2])
    one = {name: make for name, make in columns().items() if " in a " not in name}
    out |= {f"column: {name}": make for name, make in one.items()}
    out |= {
        "masked table": lambda: np.ma.array(grid, mask=grid > 8),
        "masked whole numbers in a table": lambda: np.ma.array((9 * grid).astype(int), mask=grid > 8),
        "all masked in a table": lambda: np.ma.array(grid, mask=True),
        "rows that are masked": lambda: [np.ma.array(row, mask=row > 8) for row in grid],
        "a frame from masked": lambda: pd.DataFrame(np.ma.array(grid, mask=grid > 8), columns=["a", "b"]),
        "sparse": lambda: sparse.csr_matrix(grid),
        "sparse array": lambda: sparse.coo_array(grid),
        "sparse frame": lambda: pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(grid)),
        "structured table": lambda: np.zeros((ROWS, 2), dtype=[("a", float)]),
        "records": lambda: np.rec.fromarrays([grid[:, 0], grid[:, 1]], names="a,b"),
        "complex table": lambda: grid + 1j,
        "dates in an array": lambda: np.arange(2 * ROWS).astype("M8[D]").reshape(ROWS, 2),
        "frame of periods": lambda: pd.DataFrame({"a": pd.period_range("2020-01", periods=ROWS, freq="M"), "b": 1.0}),
        "frame of intervals": lambda: pd.DataFrame({"a": pd.interval_range(0, ROWS), "b": 1.0}),
        "frame of nullable": lambda: pd.DataFrame({"a": pd.array([*range(ROWS - 1), None], dtype="Int64"), "b": 1.0}),
        "frame of complex": lambda: pd.DataFrame({"a": grid[:, 0] + 1j, "b": 1.0}),
        "names of two kinds": lambda: pd.DataFrame({"a": grid[:, 0], 1: grid[:, 1]}),
        "two columns of one name": lambda: pd.DataFrame(grid, columns=["a", "a"]),
        "names in levels": lambda: pd.DataFrame(grid, columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])),
        "three columns": lambda: np.column_stack([grid, grid[:, 0]]),
        "frame of other names": lambda: pd.DataFrame(grid, columns=["p", "q"]),
        "huge": lambda: grid * 1e100,
        "tiny": lambda: grid * 1e-100,
        "matrix": lambda: np.asmatrix(grid),
        "memory": lambda: memoryview(grid),
        "a file": lambda: "table.csv",
        "a path": lambda: Path("table.csv"),
        "a dict of columns": lambda: {"a": grid[:, 0], "b": grid[:, 1]},
        "a list of dicts": lambda: [{"a": 1.0}] * ROWS,
    }
    return out


# verbs ----------------------------------------------------------------------------------------------------------------
def finite(answer: Any) -> None:
    """Numbers that can be used."""
    for part in answer if isinstance(answer, tuple) else (answer,):
        array = np.asarray(part)
        if array.dtype.kind == "f":
            assert np.isfinite(array).all(), f"not finite: {array.ravel()[:5]}"


def ends_well(call: Callable[[], Any]) -> None:
    """A finite answer, or one sentence of covary's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            finite(call())
        except CovaryError as error:
            text = str(error)
            assert len(text) < 900, f"too long: {text[:300]!r}"
            assert "\n" not in text or "feature names" in text, f"more than one line: {text!r}"  # scikit-learn's own wording
            assert ": " in text, f"nobody complains: {text!r}"


GRID = np.column_stack([np.linspace(0, 1, ROWS), np.linspace(1, 3, ROWS) ** 2])
TARGET = np.sin(3 * GRID[:, 0])
LABELS = np.array(["a", "b"])[(TARGET > 0.6).astype(int)]
QUICK: dict[str, Any] = {"kernel": "Matern52()", "fixed": ("*",)}
SHORT: dict[str, Any] = {"kernel": "Matern52()", "n_restarts": 0, "max_time": 0.01, "random_state": 0}


def fitted(**options: Any) -> dict[str, Any]:
    """Models that are asked."""
    frame = pd.DataFrame(GRID, columns=["a", "b"])
    regressor: Any = GPRegressor(**QUICK).fit(GRID, TARGET)
    named: Any = GPRegressor(**QUICK).fit(frame, TARGET)
    mixed: Any = GPRegressor(fixed=("*",), missing="impute").fit(frame.assign(c=list("xy") * 6), TARGET)
    classes: Any = GPClassifier(**QUICK).fit(GRID, LABELS)
    counts: Any = GPRegressor(**QUICK, likelihood="poisson").fit(GRID, np.arange(ROWS))
    return {"regressor": regressor, "named": named, "mixed": mixed, "classes": classes, "counts": counts}


def by_X(models: dict[str, Any]) -> dict[str, Callable[[Any], Any]]:
    """What takes rows of inputs."""
    trunk = condition(Model(GP(Matern52()), likelihood=Gaussian(0.1)), Data(GRID, TARGET))
    regressor, classes = models["regressor"], models["classes"]
    out: dict[str, Callable[[Any], Any]] = {
        "fit": lambda X: GPRegressor(**QUICK).fit(X, TARGET).predict(X),
        "fit and impute": lambda X: GPRegressor(**{**QUICK, "kernel": None}, missing="impute").fit(X, TARGET).predict(X),
        "fit and drop": lambda X: GPRegressor(**{**QUICK, "kernel": None}, missing="drop").fit(X, TARGET) and 0.0,
        "fit and mark": lambda X: GPRegressor(**{**QUICK, "kernel": None}, missing="indicator").fit(X, TARGET).predict(X),
        "fit classes": lambda X: GPClassifier(**QUICK).fit(X, LABELS).predict_proba(X),
        "predict": lambda X: regressor.predict(X, return_std=True),
        "predict by name": lambda X: models["named"].predict(X, return_std=True),
        "predict with a category": lambda X: models["mixed"].predict(X),
        "predict counts": lambda X: models["counts"].predict(X),
        "interval": lambda X: regressor.predict_interval(X),
        "sample": lambda X: regressor.sample_y(X),
        "score": lambda X: regressor.score(X, TARGET),
        "update": lambda X: GPRegressor(**QUICK).fit(GRID, TARGET).update(X, TARGET).predict(GRID),
        "diagnose": lambda X: regressor.diagnose(X) and 0.0,
        "probabilities": lambda X: classes.predict_proba(X),
        "score classes": lambda X: classes.score(X, LABELS),
        "sample classes": lambda X: classes.sample_y(X) is None or 0.0,
        "diagnose classes": lambda X: classes.diagnose(X) and 0.0,
        "Data": lambda X: Data(X, TARGET).X.x,
        "posterior": lambda X: trunk.predict(X).y.mean,
        "posterior draws": lambda X: trunk.sample(X, 2, key=0),
        "gram": lambda X: Matern52().gram(X),
    }
    return out


def by_row(models: dict[str, Any]) -> dict[str, Callable[[Any], Any]]:
    """What takes one number, or one label, per row."""
    regressor, classes, counts = models["regressor"], models["classes"], models["counts"]

    def fresh() -> Any:
        return GPRegressor(**QUICK)

    return {
        "y of fit": lambda y: fresh().fit(GRID, y).predict(GRID),
        "y of student_t": lambda y: GPRegressor(**QUICK, likelihood="student_t").fit(GRID, y).predict(GRID),
        "y of counts": lambda y: GPRegressor(**QUICK, likelihood="poisson").fit(GRID, y).predict(GRID),
        "y of classes": lambda y: GPClassifier(**QUICK).fit(GRID, y).predict_proba(GRID),
        "y of score": lambda y: regressor.score(GRID, y),
        "y of score of classes": lambda y: classes.score(GRID, y),
        "y of update": lambda y: fresh().fit(GRID[:3], TARGET[:3]).update(GRID, y).predict(GRID),
        "y of diagnose": lambda y: regressor.diagnose(GRID, y) and 0.0,
        "y of diagnose of classes": lambda y: classes.diagnose(GRID, y) and 0.0,
        "weights of fit": lambda w: fresh().fit(GRID, TARGET, sample_weight=w).predict(GRID),
        "weights of classes": lambda w: GPClassifier(**QUICK).fit(GRID, LABELS, sample_weight=w).predict_proba(GRID),
        "weights of score": lambda w: regressor.score(GRID, TARGET, sample_weight=w),
        "weights of score of classes": lambda w: classes.score(GRID, LABELS, sample_weight=w),
        "noise of fit": lambda v: fresh().fit(GRID, TARGET, noise_variance=v).predict(GRID),
        "size of fit": lambda s: GPRegressor(**QUICK, likelihood="poisson").fit(GRID, np.arange(ROWS), size=s).predict(GRID),
        "size of predict": lambda s: counts.predict(GRID, size=s),
        "y of Data": lambda y: Data(GRID, y).y,
        "weight of Data": lambda w: Data(GRID, TARGET, weight=w).weight,
        "noise of Data": lambda v: Data(GRID, TARGET, noise_variance=v).noise_variance,
        "scatter of Data": lambda v: Data(GRID, TARGET, scatter=v).scatter,
    }


WHOLE = ("fit", "fit and impute", "predict", "Data", "probabilities", "y of fit", "y of classes", "weights of fit", "y of Data")
SHARE = 0.6  # of the things that are given to the other verbs, which read them in the same place


def outcome(call: Callable[[], Any]) -> Any:
    """The answer, or the sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except CovaryError as error:
            return str(error)


def alike(call: Callable[[Any], Any], one: Any, other: Any) -> None:
    """Both end alike: in the same sentence, or in the same numbers."""
    left, right = outcome(lambda: call(one)), outcome(lambda: call(other))
    assert isinstance(left, str) == isinstance(right, str), (left, right)
    if isinstance(left, str):
        assert left == right
    else:
        np.testing.assert_array_equal(left, right)


def masked(models: dict[str, Any]) -> Iterator[Case]:
    """A masked entry is a missing one, whatever stands behind the mask."""
    hidden = np.zeros(GRID.shape, bool)
    hidden[[2, 5], [0, 1]] = True
    gaps = np.where(hidden, np.nan, GRID)
    behind = np.where(hidden, 1e5, GRID)
    for verb, call in by_X(models).items():
        ways = {"array": np.ma.array(behind, mask=hidden), "rows": list(np.ma.array(behind, mask=hidden))}
        for what, X in ways.items():
            yield Case(f"{verb}: masked {what} is NaN", lambda c=call, X=X: alike(c, X, gaps))
        frame = pd.DataFrame(gaps, columns=["a", "b"])
        nullable = frame.convert_dtypes()
        yield Case(f"{verb}: NA is NaN", lambda c=call, X=nullable, f=frame: alike(c, X, f))
    for verb, call in by_row(models).items():
        if "classes" in verb:
            continue
        values = np.linspace(0.5, 1.5, ROWS)
        own = np.where(hidden[:, 0], np.nan, values)
        for what, y in {
            "array": np.ma.array(np.where(hidden[:, 0], 1e5, values), mask=hidden[:, 0]),
            "list": [np.ma.masked if h else v for h, v in zip(hidden[:, 0], values, strict=True)],
        }.items():
            yield Case(f"{verb}: masked {what} is NaN", lambda c=call, y=y, o=own: alike(c, y, o))


ANYTHING: dict[str, Value] = {
    "a number": lambda: 5,
    "minus one": lambda: -1,
    "a half": lambda: 0.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "10**400": lambda: 10**400,
    "text": lambda: "no such thing",
    "empty text": lambda: "",
    "a list": lambda: [1, 2],
    "a list of text": lambda: ["a", "b"],
    "a dict": lambda: {"a": 1},
    "an array": lambda: np.zeros(3),
    "None": lambda: None,
    "True": lambda: True,
    "a function": lambda: len,
    "an object": lambda: object(),
    "a type": lambda: int,
    "NA": lambda: pd.NA,
    "sNaN": lambda: Decimal("sNaN"),
    "a set": lambda: {1},
    "bytes": lambda: b"x",
    "a date": lambda: dt.date(2020, 1, 1),
    "a generator": lambda: (v for v in (1, 2)),
}


def options(models: dict[str, Any]) -> Iterator[Case]:
    """Every option of the estimators, and of the verbs, of every wrong kind."""
    import inspect

    for kind, y in ((GPRegressor, TARGET), (GPClassifier, LABELS)):
        for name in inspect.signature(kind).parameters:
            if name in ("checkpoint", "executor"):
                continue  # places: attacked elsewhere
            for what, make in ANYTHING.items():
                if (name, what) == ("objective", "a function"):
                    continue  # what a function of the user's own raises is the user's

                def run(kind: Any = kind, y: Any = y, name: str = name, make: Value = make) -> Any:
                    return kind(**{**SHORT, name: make()}).fit(GRID, y).predict(GRID)

                yield Case(f"{kind.__name__}({name}={what})", lambda r=run: ends_well(r))
    regressor, classes = models["regressor"], models["classes"]
    asked: dict[str, Callable[[Any], Any]] = {
        "level": lambda v: regressor.predict_interval(GRID, v),
        "p": lambda v: regressor.predict_quantiles(GRID, v),
        "n_samples": lambda v: regressor.sample_y(GRID, v),
        "random_state of sample_y": lambda v: regressor.sample_y(GRID, random_state=v),
        "level of classes": lambda v: classes.predict_interval(GRID, v),
        "average": lambda v: classes.predict_proba(GRID, v),
        "n_samples of classes": lambda v: classes.sample_y(GRID, v) is None or 0.0,
    }
    for name, call in asked.items():
        for what, make in ANYTHING.items():
            yield Case(f"{name}={what}", lambda c=call, m=make: ends_well(lambda: c(m())))


# likelihoods, gaps and constant inputs --------------------------------------------------------------------------------
def gapped(values: Any) -> pd.Series:
    """Every fifth entry missing."""
    column = pd.Series(values)
    return column.where(np.arange(len(column)) % 5 != 2)


def mixtures(n: int = ROWS) -> dict[str, pd.DataFrame]:
    """Tables with dates, categories and constant columns, with and without gaps."""
    x, dates = np.linspace(0, 3, n), pd.Series(pd.date_range("2020-01-01", periods=n, freq="7D"))
    letters, same = (list("ab") * n)[:n], pd.Series([pd.Timestamp("2020-01-01")] * n)
    return {
        "a date beside gaps": pd.DataFrame({"d": dates, "x": gapped(x)}),
        "a date with gaps": pd.DataFrame({"d": gapped(dates), "x": x}),
        "a category with gaps": pd.DataFrame({"c": gapped(letters), "x": x}),
        "a constant beside gaps": pd.DataFrame({"k": np.ones(n), "x": gapped(x)}),
        "a constant": pd.DataFrame({"k": np.ones(n)}),
        "constants with gaps": pd.DataFrame({"k": np.ones(n), "m": gapped(np.full(n, 2.5))}),
        "a constant date": pd.DataFrame({"d": gapped(same)}),
        "a constant category": pd.DataFrame({"c": gapped(["a"] * n)}),
        "everything": pd.DataFrame({"d": gapped(dates), "c": gapped(letters), "k": 1.0, "x": gapped(x)}),
    }


def observed(n: int = ROWS) -> dict[str, np.ndarray]:
    """Targets by likelihood."""
    wave, count = np.sin(np.arange(n)) + 0.1 * np.cos(7 * np.arange(n)), np.arange(n)
    return {
        **dict.fromkeys(("gaussian", "student_t", "laplace", "heteroscedastic"), wave),
        **dict.fromkeys(("poisson", "negative_binomial"), count % 4),
        "binomial": count % 2,
        "gamma": 1.5 + np.sin(count),
        "ordinal": count % 3,
        "two classes": np.array(["p", "q"])[count % 2],
        "three classes": np.array(["p", "q", "r"])[count % 3],
    }


def learned(likelihood: str, table: pd.DataFrame, y: np.ndarray, missing: str) -> Any:
    """What a model of the table predicts; gaps are refused or filled, never in the way."""
    short: Any = {"missing": missing, "n_restarts": 0, "random_state": 0}
    if likelihood.endswith("classes"):
        return GPClassifier(**short).fit(table, y).predict_proba(table.dropna())
    model: Any = GPRegressor(likelihood=likelihood, **short).fit(table, y)
    return (model.predict(table.dropna()), *model.predict_interval(table.dropna()))


def answers(likelihood: str, table: pd.DataFrame, y: np.ndarray, missing: str) -> None:
    """A finite answer wherever gaps are not refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            finite(learned(likelihood, table, y, missing))
            return
        except CovaryError as error:
            said = str(error)
    assert missing == "refuse", said
    assert "NaN" in said, said


def swept() -> Iterator[Case]:
    """Every likelihood with every kind of table, and ways with gaps."""
    for likelihood, y in observed().items():
        ways = ("refuse", "drop", "impute", "indicator") if likelihood in ("student_t", "heteroscedastic") else ("impute",)
        for what, table in mixtures().items():
            for missing in ways:
                run = lambda a=(likelihood, table, y, missing): answers(*a)  # noqa: E731
                yield Case(f"{likelihood}, {missing}: {what}", run)
    for rows in (1, 2, 3, 4, 7):
        for width in (1, 2):
            for likelihood in ("gaussian", "student_t", "laplace", "heteroscedastic"):
                table = pd.DataFrame(np.ones((rows, width)), columns=list("ab")[:width])
                y = np.array([0.0, 1.0, 5.0, 1.0, -3.0, 2.0, 2.5])[:rows]
                run = lambda a=(likelihood, table, y, "impute"): answers(*a)  # noqa: E731
                yield Case(f"{likelihood}: {rows} rows of {width} constants", run)


# configurations -------------------------------------------------------------------------------------------------------
TOML = {
    "lists in lists": "[" * 10_000 + "]" * 10_000,
    "tables in tables": "{a=" * 3_000 + "1" + "}" * 3_000,
    "a number of 400 digits": "1" + "0" * 400,
    "a number of 5000 digits": "1" + "0" * 5_000,
    "a date": "2020-01-01",
    "a time": "07:00:00",
    "nested": "[[1], [2]]",
    "mixed": '["a", 1]',
    "a NUL": '"a\\u0000b"',
    "a table": "{a = 1}",
    "not a number": "nan",
    "infinite": "inf",
}


def configured(folder: Path, name: str, text: str) -> None:
    """``covary fit --config`` ends with a code of its own and without a traceback."""
    from typer.testing import CliRunner

    from covary.cli.app import app

    (folder / "t.csv").write_text("x,y\n1,2\n2,1\n3,5\n")
    (folder / "c.toml").write_text(f"{name} = {text}\n")
    command = ["fit", str(folder / "t.csv"), "--config", str(folder / "c.toml"), "--quiet", "--out", str(folder / "m.covary")]
    with patch("covary.enable_cache", lambda directory=None: "nowhere"):  # a setting of the whole process
        found = CliRunner().invoke(app, [*command, *([] if name == "target" else ["-t", "y"])], prog_name="covary")
    assert found.exit_code in (0, 2, 3), f"{found.exit_code}: {found.stderr[-300:]}"
    assert "inside covary" not in found.stderr


def cases(folder: Path) -> Iterator[Case]:
    """All of them."""
    for name in ("target", "inputs", "kernel", "seed", "max_time", "restarts", "report", "checkpoint", "experts", "folder"):
        for what, text in TOML.items():
            yield Case(f"{name} = {what}", lambda n=name, t=text: configured(folder, n, t))
    yield from swept()
    models, rng = fitted(), np.random.default_rng(0)
    for verb, call in by_X(models).items():
        for what, make in tables().items():
            if verb not in WHOLE and rng.random() > SHARE:
                continue
            yield Case(f"{verb}: {what}", lambda c=call, m=make: ends_well(lambda: c(m())))
    for verb, call in by_row(models).items():
        for what, make in columns().items():
            if verb not in WHOLE and rng.random() > SHARE:
                continue
            yield Case(f"{verb}: {what}", lambda c=call, m=make: ends_well(lambda: c(m())))
    yield from masked(models)
    yield from options(models)
