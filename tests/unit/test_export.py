"""Exported predictors: every kernel and posterior, executed without JAX and covary."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from covary import GPClassifier, GPRegressor
from covary import kernels as ks
from covary._checks import CovaryError
from covary.export import MODULES, copies, export_model, formulas
from covary.export.kernels import source
from covary.gram import LowRank, NearestNeighbours, Subset, Vecchia
from covary.inference import EP, SVGP, Laplace
from covary.kernels.stationary import AbstractStationary
from covary.means import Function as MeanFunction
from covary.parameters import positive
from laws.tables import EVERY_KERNEL, KernelRow

REFUSED = {  # rows of the table of kernels that hold a function of the user's, and one form that is here for comparison
    *("Function", "Function-smooth", "Mapped", "BasisFunctions", "Invariant-printed"),
    *("VaryingLengthscale-function", "VaryingAmplitude-function", "PaciorekSchervish-full"),
}
HELD = ("*",)

ALONE = """
import importlib.util, sys
for name in ("jax", "jaxlib", "covary", "scipy", "pandas", "sklearn", "matplotlib"):
    sys.modules[name] = None
import numpy as np
path, table, out = sys.argv[1:]
spec = importlib.util.spec_from_file_location("predictor", path)
predictor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(predictor)
X = np.load(table)
if hasattr(predictor, "predict_proba"):
    np.savez(out, p=predictor.predict_proba(X), label=predictor.predict(X))
else:
    mean, std = predictor.predict(X, return_std=True)
    bare, latent = predictor.predict(X, return_std=True, latent=True)
    assert (predictor.predict(X) == mean).all() and (bare == mean).all()
    np.savez(out, mean=mean, std=std, latent=latent)
assert not [m for m in sys.modules if m.split(".")[0] in ("jax", "covary", "scipy") and sys.modules[m] is not None]
"""


def alone(path: Path, X: np.ndarray) -> dict[str, np.ndarray]:
    """What the file predicts in a process that has NumPy only."""
    table, out = path.with_suffix(".npy"), path.with_suffix(".npz")
    np.save(table, X)
    subprocess.run([sys.executable, "-I", "-c", ALONE, str(path), str(table), str(out)], check=True, timeout=120)
    return dict(np.load(out))


def here(path: Path) -> dict[str, Any]:
    """The file's own names."""
    space: dict[str, Any] = {"__name__": "predictor"}
    exec(path.read_text(), space)
    return space


# kernels ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in EVERY_KERNEL])
def test_every_kernel_has_a_formula_or_is_refused(row: KernelRow) -> None:
    """Over the family's own table: blocks against the book's formula, stacks of blocks, diagonals. A new kernel is either in
    NumPy or in REFUSED."""
    if row.name in REFUSED:
        with pytest.raises(CovaryError, match="save the model"):
            source(row.kernel, "x", "z", row.columns)
        return
    X, Z = row.inputs(12, 0), row.inputs(12, 3)
    kernel = eval(f"lambda x, z: {source(row.kernel, 'x', 'z', row.columns)}", dict(vars(formulas)))
    K, own = row.reference(X, Z), row.reference(X, X)
    size = max(1, np.abs(K).max())
    np.testing.assert_allclose(kernel(X, Z), K, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(formulas.diag(kernel, X), np.diagonal(own), rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(kernel(np.stack([X, Z]), np.stack([Z, X])), np.stack([kernel(X, Z), kernel(Z, X)]), rtol=1e-13)


class OneExpression(AbstractStationary):
    """A user's kernel with a second parameter."""

    lengthscale: float | np.ndarray = positive(1.0)
    alpha: float = positive(0.7)

    def profile(self, s: Any) -> Any:
        """The formula."""
        return (1 + s / jnp.square(self.alpha)) ** -self.alpha


class TwoLines(OneExpression):
    def profile(self, s: Any) -> Any:
        u = 1 + s
        return 1 / u


class Elsewhere(OneExpression):
    def profile(self, s: Any) -> Any:
        return _cubed(s)


def test_a_stationary_kernel_of_one_expression_needs_no_formula() -> None:
    X, Z = np.random.default_rng(0).normal(size=(2, 5, 2))
    kernel: Any = OneExpression(np.array([0.4, 2.0]), alpha=1.3)
    own = eval(f"lambda x, z: {source(kernel, 'x', 'z', 2)}", dict(vars(formulas)))
    np.testing.assert_allclose(own(X, Z), kernel.cross(X, Z), rtol=1e-12)


class OfSquaredExponential(ks.SquaredExponential):
    def profile(self, s: Any) -> Any:
        return 1 / (1 + s)


class OfRationalQuadratic(ks.RationalQuadratic):
    def profile(self, s: Any) -> Any:
        return 1 / (1 + s / self.alpha)


class OfMatern12(ks.Matern12):  # whose matrix does not come from its profile
    def profile(self, s: Any) -> Any:
        return 1 / (1 + s)


@pytest.mark.parametrize("kernel", [OfSquaredExponential(0.5), OfRationalQuadratic(0.5, alpha=1.3)])
def test_a_subclass_is_exported_by_its_own_formula(kernel: Any) -> None:
    X, Z = np.random.default_rng(0).normal(size=(2, 5, 2))
    own = eval(f"lambda x, z: {source(kernel, 'x', 'z', 2)}", dict(vars(formulas)))
    s = np.square((X[:, None] - Z) / 0.5).sum(-1)
    expected = 1 / (1 + s / getattr(kernel, "alpha", 1.0))
    np.testing.assert_allclose(own(X, Z), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.cross(X, Z), expected, rtol=1e-12)
    assert not kernel.host  # the NumPy implementation of the parent has the parent's formula


@pytest.mark.parametrize("kernel", [TwoLines(), Elsewhere(), OfMatern12()])
def test_other_kernels_of_the_user_are_refused(kernel: Any) -> None:
    with pytest.raises(CovaryError, match=r"cannot be written with NumPy alone.*save the model"):
        source(kernel, "x", "z", 2)


@pytest.mark.parametrize("nu", [0.3, 1.0, 1.2, 7.7, 9.99, 10.0, 35.0])
def test_matern_of_any_smoothness(nu: float) -> None:
    from scipy.special import gamma, kv

    x = np.concatenate([np.linspace(0.05, 3, 40), [1e-3, 20.0]])[:, None]
    kernel = eval(f"lambda x, z: {source(ks.Matern(0.7, nu=nu), 'x', 'z', 1)}", dict(vars(formulas)))
    t = np.sqrt(2 * nu) * x[:, 0] / 0.7
    np.testing.assert_allclose(kernel(x, 0 * x[:1])[:, 0], 2 ** (1 - nu) / gamma(nu) * t**nu * kv(nu, t), rtol=0, atol=1e-12)
    assert kernel(x, x)[3, 3] == 1


def test_copied_code_needs_numpy_and_python_only() -> None:
    """Every function of the two files, copied together, uses nothing but its own names, builtins and the allowed modules."""
    every = [
        node.name
        for file in ("formulas", "rules")
        for node in ast.parse(Path(formulas.__file__).with_name(f"{file}.py").read_text()).body
        if isinstance(node, ast.FunctionDef)
    ]
    text = copies(set(every))
    tree = ast.parse(text)
    given = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)} | {*MODULES, "np", "Path", "Any", "print"}
    given |= {"COLUMNS", "GAPS", "TARGETS", "CLASSES", "LOCATION", "SCALE", "NOISE", "STD", "ROWS"}
    given |= {"posterior", "mean_function", "probabilities", *vars(builtins)}
    for function in tree.body:
        assert isinstance(function, ast.FunctionDef)
        bound = {a.arg for n in ast.walk(function) if isinstance(n, ast.FunctionDef | ast.Lambda) for a in n.args.args}
        bound |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        bound |= {n.name for n in ast.walk(function) if isinstance(n, ast.ExceptHandler) and n.name}
        read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        assert read - bound - given == set(), function.name
    assert "noqa" not in text


# posteriors ---------------------------------------------------------------------------------------------------------------
def table(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 3, (n, 2))
    return X, 5.0 + 40 * (np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n))


def held(**options: Any) -> GPRegressor:
    """A model with parameters as they are, in a kernel of several parts."""
    kernel = "900.0 * Matern52(lengthscale=[1.2, 3.0]) + 100.0 * Periodic(lengthscale=2.0, period=1.5).on(0) + 9.0 * Linear()"
    return GPRegressor(kernel, noise=16.0, fixed=HELD, **options)


MODELS = {
    "dense": lambda: held().fit(*table()),
    "learned": lambda: GPRegressor(n_restarts=0).fit(*table()),
    "zero mean": lambda: held(mean="zero", standardise=False).fit(*table()),
    "linear mean": lambda: held(mean="linear").fit(*table()),
    "one column of y": lambda: held().fit(table()[0], table()[1][:, None]),
    "outputs": lambda: GPRegressor(n_restarts=0).fit(table()[0], np.stack([table()[1], 1e4 + 0.01 * table()[1] ** 2], axis=1)),
    "outputs as they are": lambda: held(standardise=False).fit(table()[0], np.stack([table()[1], -table()[1]], axis=1)),
    "weights": lambda: held().fit(*table(), noise_variance=np.linspace(0, 50, 60), sample_weight=np.arange(60) % 3 + 0.5),
    "repeated rows": lambda: held().fit(np.repeat(table(30)[0], 2, axis=0), table()[1]),
    "subset": lambda: held(method=Subset(40)).fit(*table()),
    "low rank": lambda: held(method=LowRank(25)).fit(*table()),
    "vfe": lambda: held(method=LowRank(25, rule="vfe")).fit(*table()),
    "sor": lambda: held(method=LowRank(25, rule="sor")).fit(*table()),
    "low rank outputs": lambda: held(method=LowRank(25), standardise=False).fit(
        table()[0], np.stack([table()[1], -table()[1]], axis=1)
    ),
    "vecchia": lambda: held(method=Vecchia(12)).fit(*table()),
    "vecchia jitter": lambda: held(method=Vecchia(12, jitter=1e-6, predict_with=200)).fit(*table()),
    "vecchia outputs": lambda: held(method=Vecchia(8), standardise=False).fit(
        table()[0], np.stack([table()[1], -table()[1]], axis=1)
    ),
    "neighbours": lambda: held(method=NearestNeighbours(10)).fit(*table()),
    "categories": lambda: GPRegressor("400.0 * Matern32().on(0) * Categories(3).on(1)", noise=9.0, fixed=HELD).fit(
        np.column_stack([table()[0][:, 0], np.arange(60) % 3]), table()[1]
    ),
    "few rows": lambda: held().fit(*table(3)),
}


@pytest.mark.parametrize("name", MODELS)
def test_regression_alone(name: str, tmp_path: Path) -> None:
    """In a process without JAX and covary: mean and std within 1e-10 of the scale of y, near the data and far from them."""
    model: Any = MODELS[name]()
    off = export_model(model, tmp_path / "predictor.py")
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.uniform(-0.5, 3.5, (80, 2)), [[50.0, -80.0]], model.posterior_.data.X.x[:2] + 1e-7])
    if name == "categories":
        X[:, 1] = np.arange(len(X)) % 3
    found = alone(tmp_path / "predictor.py", X)
    mean, std = model.predict(X, return_std=True)
    latent = model.predict(X, return_std=True, latent=True)[1]
    scale = np.std(model.posterior_.data.y, axis=0) * model.fit_.scale.scale
    assert found["mean"].shape == mean.shape
    assert found["std"].shape == std.shape
    assert (np.abs(found["mean"] - mean) / scale).max() < 1e-10
    assert (np.abs(found["std"] - std) / scale).max() < 1e-10
    assert (np.abs(found["latent"] - latent) / scale).max() < 1e-8
    assert max(off.values()) < 1e-10


SHARP = "30 * Matern52(lengthscale=[0.6, 3.0]) + 2 * Constant()"


def labels(cuts: Any) -> np.ndarray:
    return np.digitize(table()[1], cuts)


CLASSIFIERS = {
    "logit": lambda: GPClassifier().fit(table()[0], labels([10])),
    "probit by EP": lambda: GPClassifier(link="probit", inference=EP()).fit(table()[0], np.array(["no", "yes"])[labels([10])]),
    "with a mean": lambda: GPClassifier(mean="constant").fit(table()[0], labels([0]) > 0),
    "low rank": lambda: GPClassifier(method=LowRank(15), inference=Laplace()).fit(table()[0], labels([10])),
    "in batches": lambda: GPClassifier(method=LowRank(12), inference=SVGP(), max_time=3).fit(table()[0], labels([10])),
    "softmax": lambda: GPClassifier(max_time=20).fit(table()[0], np.array(["a", "b", "c"])[labels([-5, 25])]),
    "softmax of four": lambda: GPClassifier(fixed="*").fit(table()[0], labels([-10, 10, 30])),
    "softmax of six": lambda: GPClassifier(SHARP, fixed="*").fit(table()[0], labels([-15, 0, 12, 25, 40])),
    "one kernel": lambda: GPClassifier(class_kernels="shared").fit(table()[0], labels([-5, 25])),
    "one against the rest": lambda: GPClassifier(multi_class="one_vs_rest").fit(table()[0], labels([-10, 10, 30])),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_alone(name: str, tmp_path: Path) -> None:
    model: Any = CLASSIFIERS[name]()
    export_model(model, tmp_path / "predictor.py")
    X = np.concatenate([np.random.default_rng(1).uniform(-0.5, 3.5, (60, 2)), [[50.0, -80.0]]])
    found = alone(tmp_path / "predictor.py", X)
    p = model.predict_proba(X)
    assert np.abs(found["p"] - p).max() < 1e-10
    assert np.abs(np.log(found["p"]) - np.log(p)).max() < 1e-8  # small probabilities keep their digits
    sure = np.sort(p)[:, -1] - np.sort(p)[:, -2] > 1e-9
    assert (found["label"] == model.predict(X))[sure].all()
    assert found["label"].dtype == model.classes_.dtype


# tables -------------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    X, y = table()
    frame = pd.DataFrame(X, columns=["width [m]", 'a "b" \\ c'])
    model: Any = held().fit(frame, y)
    model.target_names_ = ["height"]
    path = tmp_path_factory.mktemp("named") / "predictor.py"
    export_model(model, path)
    return model, path


def test_columns_are_found_by_name(named: tuple[Any, Path]) -> None:
    model, path = named
    predict = here(path)["predict"]
    frame = pd.DataFrame(np.random.default_rng(3).uniform(0, 3, (9, 2)), columns=["width [m]", 'a "b" \\ c'])
    wanted = model.predict(frame)
    np.testing.assert_allclose(predict(frame), wanted, rtol=1e-12)
    np.testing.assert_allclose(predict(frame.iloc[:, ::-1].assign(more=1)), wanted, rtol=1e-12)
    np.testing.assert_allclose(predict({c: frame[c].tolist() for c in frame}), wanted, rtol=1e-12)
    np.testing.assert_allclose(predict(frame.to_numpy()), wanted, rtol=1e-12)
    polars = pytest.importorskip("polars")
    np.testing.assert_allclose(predict(polars.from_pandas(frame)), wanted, rtol=1e-12)
    assert len(predict(frame.iloc[:0])) == 0


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.zeros((3, 3)), "3 columns; give a table of 2"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), r"nan at row 1, column 'a"),
        (np.array([[np.inf, 2.0]]), r"inf at row 0, column 'width"),
        (pd.DataFrame({"width [m]": [1.0]}), "no column 'a"),
        (pd.DataFrame({"width [m]": ["wide"], 'a "b" \\ c': [1.0]}), "contains 'wide', which is not a number"),
    ],
)
def test_tables_that_do_not_fit_are_refused(named: tuple[Any, Path], X: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        here(named[1])["predict"](X)


def test_the_file_reads_well(named: tuple[Any, Path]) -> None:
    text = named[1].read_text()
    head = text.split('"""')[1]
    for words in (
        "covary",
        "GPRegressor, method exact, 60 rows",
        "Matern52(lengthscale=fixed([1.2, 3.0]))",
        "width [m]",
        "python pre",
    ):
        assert words in head
    modules = {n.names[0].name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import)}
    assert modules == {*MODULES, "numpy"}
    assert max(map(len, text.splitlines()[20:])) < 400
    assert "def matern52" in text
    assert "def rational_quadratic" not in text


def command(path: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(path), *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_file_is_a_command(named: tuple[Any, Path], tmp_path: Path) -> None:
    model, path = named
    frame = pd.DataFrame(np.random.default_rng(3).uniform(0, 3, (9, 2)), columns=['a "b" \\ c', "width [m]"])
    frame.assign(note="x").to_csv(tmp_path / "new.csv", index=False)
    done = command(path, str(tmp_path / "new.csv"), str(tmp_path / "out.csv"))
    assert done.returncode == 0, done.stderr
    out = pd.read_csv(tmp_path / "out.csv")
    assert list(out) == ["mean", "std"]
    mean, std = model.predict(frame[["width [m]", 'a "b" \\ c']], return_std=True)
    np.testing.assert_allclose(out, np.stack([mean, std], axis=1), rtol=1e-12)
    seen = command(path, "-", stdin=frame.to_csv(index=False, sep=";"))
    assert seen.stdout.splitlines()[0] == "mean,std"
    assert len(seen.stdout.splitlines()) == 10
    assert command(path).returncode == 2
    for text, words in (
        ("a,b\n1,2\n", "no column"),
        ("width [m]\n", "no rows"),
        ('width [m],"a ""b"" \\ c"\n1,2\n3\n', "row 3 has 1 entry and the header has 2"),
    ):
        bad = command(path, "-", stdin=text)
        assert (bad.returncode, bad.stdout) == (1, "")
        assert words in bad.stderr
    assert "error" in command(path, str(tmp_path / "none.csv")).stderr


def test_classes_and_outputs_as_commands(tmp_path: Path) -> None:
    X, y = table()
    two: Any = held(standardise=False).fit(X, np.stack([y, -y], axis=1))
    two.target_names_ = ["up", "down"]
    export_model(two, tmp_path / "two.py")
    lines = command(tmp_path / "two.py", "-", stdin="a,b\n1,2\n").stdout.splitlines()
    assert lines[0] == "up_mean,up_std,down_mean,down_std"
    up, bar, down, _ = map(float, lines[1].split(","))
    assert up == pytest.approx(-down)
    assert bar == pytest.approx(two.predict([[1.0, 2.0]], return_std=True)[1][0, 0])
    export_model(GPClassifier().fit(X, np.where(y > 10, "yes, sir", "no")), tmp_path / "c.py")
    done = command(tmp_path / "c.py", "-", stdin="a,b\n1,2\n")
    assert done.stdout.splitlines()[0] == 'class,p_no,"p_yes, sir"'
    export_model(held().fit(X, y), tmp_path / "bare.py", std=False)
    assert command(tmp_path / "bare.py", "-", stdin="a,b\n1,2\n").stdout.splitlines()[0] == "mean"
    with pytest.raises(ValueError, match="without error bars"):
        here(tmp_path / "bare.py")["predict"]([[1.0, 2.0]], return_std=True)


def test_dates_categories_and_gaps(tmp_path: Path) -> None:
    """Columns as people have them become the numbers the fit made of them, in frames and in CSV files."""
    rng = np.random.default_rng(0)
    n = 60
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2020-01-01", periods=n, freq="13h"),
            "soil": np.array(["clay", "sand", "loam"])[rng.integers(0, 3, n)],
            "depth": rng.uniform(0, 5, n),
            "wet": rng.random(n) > 0.5,
        }
    )
    frame.loc[[3, 9], "depth"] = np.nan
    y = np.sin(frame["depth"].fillna(2.0)) + (frame["soil"] == "clay") + 0.1 * rng.normal(size=n)
    model: Any = GPRegressor(missing="indicator", fixed=HELD).fit(frame, y)
    assert [c.kind for c in model.columns_.each] == ["date", "category", "number", "boolean"]
    export_model(model, tmp_path / "p.py")
    predict = here(tmp_path / "p.py")["predict"]
    new = frame.iloc[5:30].copy()
    new.iloc[2, 1] = "peat"
    with pytest.warns(UserWarning, match="peat"):
        mean, std = model.predict(new, return_std=True)
    found = predict(new, return_std=True)
    np.testing.assert_allclose(found[0], mean, rtol=1e-10)
    np.testing.assert_allclose(found[1], std, rtol=1e-10)
    new.to_csv(tmp_path / "new.csv", index=False)
    done = command(tmp_path / "p.py", str(tmp_path / "new.csv"))
    assert done.returncode == 0, done.stderr
    assert "is also the input" in command(tmp_path / "p.py", *[str(tmp_path / "new.csv")] * 2).stderr
    rows = np.array([line.split(",") for line in done.stdout.splitlines()[1:]], float)
    np.testing.assert_allclose(rows[:, 0], mean, rtol=1e-10)
    with pytest.raises(ValueError, match="no column names"):
        predict(np.zeros((2, 4)))
    zoned = frame.assign(when=frame["when"].dt.tz_localize("UTC"))
    with pytest.raises(CovaryError, match="time zone"):
        export_model(GPRegressor(missing="impute", fixed=HELD).fit(zoned, y), tmp_path / "q.py")


def test_masked_entries_are_gaps(named: tuple[Any, Path], tmp_path: Path) -> None:
    predict = here(named[1])["predict"]
    X = np.random.default_rng(3).uniform(0, 3, (9, 2))
    hidden = np.zeros((9, 2), bool)
    hidden[4, 0] = True
    masked = np.ma.array(np.where(hidden, 99.0, X), mask=hidden)
    for given in (masked, list(masked), masked.astype(object), dict(zip(["width [m]", 'a "b" \\ c'], masked.T, strict=True))):
        with pytest.raises(ValueError, match="nan at row 4, column 'width"):
            predict(given)
    frame = pd.DataFrame({"number": X[:, 0], "kind": ["NA", "x", "null"] * 3, "when": pd.date_range("2020", periods=9)})
    frame.loc[4, "number"], frame.loc[5, "kind"], frame.loc[6, "when"] = np.nan, None, pd.NaT
    model: Any = GPRegressor(missing="indicator", fixed=HELD).fit(frame, X[:, 1])
    export_model(model, tmp_path / "p.py")
    predict, wanted = here(tmp_path / "p.py")["predict"], model.predict(frame)
    filled = {
        "number": frame["number"].fillna(99.0),
        "kind": frame["kind"].fillna("x"),
        "when": frame["when"].fillna("2000-01-01"),
    }
    for text in (str, object):
        columns = {name: np.ma.array(v.to_numpy(), mask=frame[name].isna()) for name, v in filled.items()}
        columns["kind"] = np.ma.array(filled["kind"].to_numpy().astype(text), mask=frame["kind"].isna())
        np.testing.assert_allclose(predict(columns), wanted, rtol=1e-10)
    np.testing.assert_allclose(predict({**columns, "kind": list(columns["kind"])}), wanted, rtol=1e-10)
    frame.to_csv(tmp_path / "new.csv", index=False)
    done = command(tmp_path / "p.py", str(tmp_path / "new.csv"))
    np.testing.assert_allclose([float(line.split(",")[0]) for line in done.stdout.splitlines()[1:]], wanted, rtol=1e-10)


def test_entries_that_are_no_numbers_to_a_file(named: tuple[Any, Path]) -> None:
    predict = here(named[1])["predict"]
    for entry, words in ((Decimal("sNaN"), "X is nan"), (10**400, "X is inf"), (1 + 0j, "not a number")):
        for given in ([[entry, 1.0]], {"width [m]": [entry], 'a "b" \\ c': [1.0]}):
            with pytest.raises(ValueError, match=words):
                predict(given)
    assert predict({"width [m]": 1.0, 'a "b" \\ c': 2.0}) == predict([[1.0, 2.0]])
    with pytest.raises(ValueError, match="the columns of X have 1, 2 entries"):
        predict({"width [m]": [1.0], 'a "b" \\ c': [1.0, 2.0]})


def test_a_time_zone_that_fit_did_not_have_is_refused_by_a_file(tmp_path: Path) -> None:
    frame = pd.DataFrame({"when": pd.date_range("2020", periods=9)})
    export_model(GPRegressor(fixed=HELD).fit(frame, np.arange(9.0)), tmp_path / "p.py")
    zoned = frame["when"].dt.tz_localize("Europe/Berlin")
    for given in (zoned, zoned.astype(str), zoned.dt.to_pydatetime()):
        with pytest.raises(ValueError, match="not a date without a time zone"):
            here(tmp_path / "p.py")["predict"]({"when": given})


def test_gaps_in_arrays(tmp_path: Path) -> None:
    X, y = table()
    X[[2, 7], 1] = np.nan
    model: Any = GPRegressor(missing="indicator", fixed=HELD).fit(X, y)
    export_model(model, tmp_path / "p.py")
    new = np.array([[1.0, np.nan], [2.0, 1.0]])
    np.testing.assert_allclose(here(tmp_path / "p.py")["predict"](new), model.predict(new), rtol=1e-10)


# refusals -------------------------------------------------------------------------------------------------------------------
def _cubed(x: Any) -> Any:
    return x[0] ** 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GPRegressor(), "not fitted"),
        (lambda: _other(), "StudentT likelihood"),
        (lambda: GPRegressor("1.0 * Matern32()", method="markov", fixed=HELD).fit(table()[0][:, :1], table()[1]), "Markov"),
        (lambda: held(method=LowRank(20, rule="nystrom")).fit(*table()), "nystrom"),
        (lambda: held(mean=MeanFunction(_cubed)).fit(*table()), "function of your own"),
        (lambda: GPRegressor(ks.Function(_close), noise=9.0, fixed=HELD).fit(*table()), "kernel Function"),
        (
            lambda: GPClassifier(method=LowRank(12), inference=SVGP(), max_time=1).fit(table()[0], labels([-10, 10, 30])),
            "4 latent functions, fitted in batches",
        ),
    ],
)
def test_what_cannot_be_exported_says_why(make: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(CovaryError, match=words):
        export_model(make(), tmp_path / "predictor.py")
    assert not list(tmp_path.iterdir())


def _other() -> Any:
    return GPRegressor(likelihood="student_t", fixed=HELD).fit(*table())


def _close(x: Any, z: Any) -> Any:
    import jax.numpy as jnp

    return 900 * jnp.exp(-jnp.abs(x - z).sum())


def test_a_model_beyond_rounding_and_one_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(150, 2))
    sharp = GPRegressor("1e6 * SquaredExponential(lengthscale=30.0)", noise=1e-7, fixed=HELD).fit(X, 4 * X[:, 0] * X[:, 1])
    with pytest.raises(CovaryError, match="nearly singular"):
        export_model(sharp, tmp_path / "p.py")
    off = export_model(sharp, tmp_path / "p.py", tolerance=1.0)
    assert max(off.values()) > 1e-10
    monkeypatch.setattr("covary.families.gaussian_process.export.MOST", 4000)
    with pytest.raises(CovaryError, match="std=False"):
        export_model(held().fit(*table()), tmp_path / "q.py")
    assert not (tmp_path / "q.py").exists()
    with pytest.raises(CovaryError, match="does not exist"):
        export_model(held().fit(*table(10)), tmp_path / "no" / "p.py")
