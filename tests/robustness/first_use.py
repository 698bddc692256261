"""Typical mistakes of new users: misspelt arguments, classes instead of objects, codes as numbers, odd calls of kernels.

Calls that a user of scikit-learn, GPy or pandas might try without reading the documentation. They must either work as
expected or raise an error that states the correct call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

from covary import GPClassifier, GPRegressor, distributions, gram, inference, kernels, likelihoods, load, means
from covary._checks import CovaryError
from covary._module import Module
from covary._precision import precision
from covary.data import Inputs
from covary.families.gaussian_process.settings import Context
from covary.families.gaussian_process.start import _kernels
from covary.kernels import AbstractKernel, Constant, Hamming, Matern, Matern12, Matern52, parse
from covary.kernels.combine import placed
from covary.parameters import Packing, positive
from covary.tables.columns import Columns
from laws.tables import EVERY_KERNEL
from robustness.record import Case, refuses

TITLE = "typical mistakes of new users in Python"
LEAST = 2000

ROWS = 12
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (ROWS, 2))
Y = np.sin(X[:, 0])
LABELS = np.where(Y > 0, "up", "down")
DOORS: tuple[tuple[Any, Any], ...] = ((GPRegressor, Y), (GPClassifier, LABELS))


def cases(folder: Path) -> Iterator[Case]:
    """Every variant, the same every time."""
    yield from misspelt()
    yield from misspelt_in_methods()
    yield from arguments_of_the_wrong_kind(folder)
    yield from codes()
    yield from computed_text()
    yield from called()
    yield from held()
    yield from own_kernels(folder)
    yield from frames()
    yield from data_of_the_wrong_shape()


# constructors ----------------------------------------------------------------------------------------------------------
def _classes() -> list[Any]:
    rooms = (kernels, likelihoods, means, gram, inference, distributions)
    found = {c for room in rooms for c in vars(room).values() if isinstance(c, type) and issubclass(c, Module)}
    public = [c for c in found if not c.__name__.startswith("Abstract") and c is not Module]
    return [*sorted(public, key=lambda c: (c.__module__, c.__name__)), GPRegressor, GPClassifier]


def misspelt() -> Iterator[Case]:
    """Every argument of every class with a slip of the pen; too many by position; classes in the place of objects."""
    rng = np.random.default_rng(1)
    for cls in _classes():
        known = list(inspect.signature(cls).parameters.values())
        for p in known:
            for wrong in sorted(_slips(p.name, rng) - {q.name for q in known}):
                yield Case(
                    f"{cls.__name__}({wrong}=...)", partial(_named, cls, (), {wrong: 1.0}, f"unknown argument {wrong!r}")
                )
            if p.kind is p.POSITIONAL_OR_KEYWORD:
                yield Case(f"{cls.__name__}({p.name} twice)", partial(_named, cls, (1.0,) * len(known), {p.name: 1.0}, ""))
        yield Case(f"{cls.__name__}(too many)", partial(_named, cls, (1.0,) * 30, {}, "30 arguments given by position"))
        for p in known:
            needed = {q.name: Matern52() if q.name == "kernel" else 1.0 for q in known if q.default is q.empty and q is not p}
            if cls not in (GPRegressor, GPClassifier):
                said = f"{p.name} is the class Matern12; write Matern12()"
                yield Case(f"{cls.__name__}({p.name}=Matern12)", partial(_named, cls, (), needed | {p.name: Matern12}, said))


def misspelt_in_methods() -> Iterator[Case]:
    """The same of every public method of the estimators, which need not be fitted to say so."""
    rng = np.random.default_rng(4)
    for door, _ in DOORS:
        public = {name: getattr(door, name) for name in dir(door) if not name.startswith("_")}
        for name, method in public.items():
            if not inspect.isfunction(method) or not method.__module__.startswith("covary.") or name == "set_params":
                continue
            known = list(inspect.signature(method).parameters.values())[1:]
            free = any(p.kind is p.VAR_KEYWORD for p in known)
            for p in known:
                for wrong in sorted(_slips(p.name, rng) - {q.name for q in known}) if not free else ():
                    said = f"{door.__name__}.{name}: unknown argument {wrong!r}"
                    yield Case(f"{door.__name__}.{name}({wrong}=...)", partial(_said, door(), name, (), {wrong: 1.0}, said))
            said = f"{door.__name__}.{name}: 30 arguments given by position"
            yield Case(f"{door.__name__}.{name}(too many)", partial(_said, door(), name, (1.0,) * 30, {}, said))
            if any(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in known):
                yield Case(f"{door.__name__}.{name}()", partial(_said, door(), name, (), {}, f"{door.__name__}.{name}: '"))


def _said(model: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], said: str) -> None:
    text = refuses(lambda: getattr(model, name)(*args, **kwargs))
    assert text.startswith(said), text


def _slips(name: str, rng: np.random.Generator) -> set[str]:
    """A letter left out, doubled, swapped with the next, and a capital."""
    i = int(rng.integers(len(name)))
    swapped = name[:i] + name[i + 1 : i + 2] + name[i : i + 1] + name[i + 2 :]
    return {s for s in (name[:i] + name[i + 1 :], name[: i + 1] + name[i:], swapped, name.capitalize()) if s.isidentifier()}


def _named(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], said: str) -> None:
    text = refuses(lambda: cls(*args, **kwargs))  # anything else than an error of covary's own fails
    assert cls.__name__ in text.split(":")[0], f"does not name the class: {text}"
    assert "__init__" not in text
    assert said in text, text


JUNK: dict[str, Any] = {
    "None": None,
    "3": 3,
    "-1": -1,
    "0": 0,
    "2.5": 2.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "text": "nonsense",
    "no text": "",
    "list": [],
    "texts": ["a", "b"],
    "dict": {},
    "dict of text": {"a": "b"},
    "object": object(),
    "function": lambda *given: None,
    "class": dict,
    "kernel class": Matern52,
    "array": X,
    "bool": True,
    "tuple": (1, 2),
    "set": {1},
    "bytes": b"abc",
    "frame": pd.DataFrame(X),
    "complex": 1j,
    "kernel": Matern52(),
    "kernels": [Matern52()],
    "nested": {"kernel.lengthscale": None},
}


def arguments_of_the_wrong_kind(folder: Path) -> Iterator[Case]:
    """Every argument of both estimators given everything: the fit is refused in a sentence, or predicts."""
    for door, target in DOORS:
        for name in list(inspect.signature(door).parameters):
            for label, value in JUNK.items():
                given = folder / "journal" if name == "checkpoint" and label == "text" else value
                yield Case(f"{door.__name__}({name}={label})", partial(_fits_or_refuses, door, target, {name: given}))


def _fits_or_refuses(door: Any, target: Any, options: dict[str, Any]) -> None:
    plain = {"kernel": "Matern52()", "n_restarts": 0, "max_time": 20}

    def run() -> Any:
        return door(**(plain | options)).fit(X, target)

    try:
        found = run()
    except CovaryError:
        refuses(run)  # one line, not too long
        return
    assert len(found.predict(X)) == ROWS
    assert found.kernel_ is not None


# categories ------------------------------------------------------------------------------------------------------------
TABLE = pd.DataFrame(
    {
        "depth": X[:, 0],
        "soil": np.array(["clay", "sand", "silt"])[np.arange(ROWS) % 3],
        "wet": X[:, 1] > 2.5,
        "site": pd.Categorical(np.arange(ROWS) % 4 + 10),
        "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(ROWS), "D"),
    }
)
NUMBERS = [
    Matern52(),
    Matern(nu=0.9),
    kernels.Linear(),
    kernels.Periodic(period=2.7),
    kernels.RationalQuadratic(),
    kernels.RBF(),
]
ALIKE = [Hamming(), Hamming(0.5), Constant()]


def codes() -> Iterator[Case]:
    """Random kernels on random columns: refused exactly if another numbering of the categories would change them."""
    rng = np.random.default_rng(2)
    for i in range(400):
        kernel = _expression(rng, 2)
        yield Case(f"codes {i}: {kernel!r}", partial(_codes, kernel, text=i % 3 == 0, door=DOORS[i % 2][0]))


def _expression(rng: np.random.Generator, depth: int) -> Any:
    pick = rng.random()
    if depth and pick < 0.5:
        left, right = _expression(rng, depth - 1), _expression(rng, depth - 1)
        return left + right if pick < 0.25 else left * right
    if depth and pick < 0.6:
        return 2.0 * _expression(rng, depth - 1)
    names = list(TABLE.columns)
    if rng.random() < 0.5:
        kernel, columns = ALIKE[rng.integers(len(ALIKE))], ["soil", "site"]
        columns = names if isinstance(kernel, Constant) and rng.random() < 0.3 else columns
    else:
        kernel = NUMBERS[rng.integers(len(NUMBERS))]
        columns = ["depth", "wet", "when"] if rng.random() < 0.8 else names
    some = [columns[j] for j in rng.permutation(len(columns))[: rng.integers(1, len(columns) + 1)]]
    if rng.random() < 0.1 and columns == names:
        return kernel  # on the whole table
    return kernel.on(*(names.index(c) if rng.random() < 0.5 else c for c in some))


def _codes(kernel: Any, text: bool, door: Any) -> None:
    columns = Columns.fit("attack", TABLE)
    x = columns.matrix("attack", TABLE).x
    other = x.copy()
    other[:, 1] = np.array([2.0, 0.0, 1.0])[x[:, 1].astype(int)]
    other[:, 3] = np.array([2.0, 3.0, 1.0, 0.0])[x[:, 3].astype(int)]
    by_number = placed(kernel, list(TABLE.columns), "attack")
    with precision(np.float64):  # not compiled: every expression is another
        one, two = (np.asarray(by_number.block(Inputs(jnp.asarray(v)), Inputs(jnp.asarray(v)))) for v in (x, other))
    same = np.allclose(one, two, rtol=1e-9, atol=1e-12)
    context = Context(door(repr(kernel) if text else kernel)._settings(), columns)
    if same:
        found, given = _kernels(context, None, 1)
        assert given
        assert repr(found) == repr(by_number)
        found.check(Inputs(x))
    else:
        said = refuses(lambda: _kernels(context, None, 1))
        assert "where X contains categories" in said, said
        assert "Hamming()" in said
        assert said.startswith(door.__name__)


# numbers in kernel text ------------------------------------------------------------------------------------------------
def computed_text() -> Iterator[Case]:
    """Arithmetic at random, against Python's; what overflows is refused."""
    rng = np.random.default_rng(3)
    for _ in range(400):
        text = _arithmetic(rng, 3)
        yield Case(f"text {text}", partial(_computed, text))
    for text in (
        "9**9**9",
        "2**10000",
        "1e308*10",
        "0**-1",
        "(-1)**0.5",
        "1/0",
        "2**65",
        "10**400",
        "9**9**9**9**9",
        "7//2",
        "7%2",
        "~1",
    ):
        yield Case(f"text {text}", partial(_refused_text, text))
    for name in (
        "rbf",
        "RBF",
        "Matern",
        "matern52",
        "MATERN52()",
        "Matern52()()",
        "Matern52().on",
        "x",
        "Matern52(lengthscale=x)",
    ):
        yield Case(f"text {name}", partial(_refused_text, name, alone=True))


def _arithmetic(rng: np.random.Generator, depth: int) -> str:
    if not depth or rng.random() < 0.25:
        return repr([int(rng.integers(1, 70)), round(float(rng.uniform(0.01, 9)), 2)][rng.integers(2)])
    op = ["+", "-", "*", "/", "**"][rng.integers(5)]
    left, right = _arithmetic(rng, depth - 1), _arithmetic(rng, depth - 1)
    if op == "**":
        right = str(rng.integers(-3, 5))
    return f"({left} {op} {right})"


def _computed(text: str) -> None:
    try:
        value = eval(text, {"__builtins__": {}})  # made here, of numbers
        sound = not isinstance(value, complex) and abs(value) <= 1e300
    except (OverflowError, ZeroDivisionError):
        sound = False
    if not sound:
        return _refused_text(text)
    found = parse(f"fixed({text}) * Matern52()").variance
    assert float(found) == float(value) or abs(float(found) / float(value) - 1) < 1e-14, f"{found} is not {value}"
    return None


def _refused_text(text: str, alone: bool = False) -> None:
    refuses(lambda: parse(text if alone else f"{text} * Matern52()"))


# kernels as functions --------------------------------------------------------------------------------------------------
def called() -> Iterator[Case]:
    """Every kernel of the catalogue on points, tables, frames and shapes that mean nothing."""
    for row in EVERY_KERNEL:
        yield Case(f"called {row.id}", partial(_called, row))
        yield Case(f"called wrongly {row.id}", partial(_called_wrongly, row))


def _called(row: Any) -> None:
    k, x = row.kernel, row.inputs(5)
    K = k.cross(x, x[:3])
    for found in (k(x, x[:3]), k(x.tolist(), x[:3].tolist()), k(pd.DataFrame(x), x[:3]), k.block(x, x[:3])):
        assert isinstance(found, np.ndarray)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, K)
    np.testing.assert_array_equal(k(x), k.gram(x))
    assert np.ndim(k(x[0], x[1])) == 0
    np.testing.assert_allclose(k(x[0], x[1]), K[0, 1], rtol=1e-9, atol=1e-12)


def _called_wrongly(row: Any) -> None:
    k, x = row.kernel, row.inputs(5)
    for a, b in ((x, x[0]), (x[0], x), (x[None], x), (x, None if x.shape[1] > 99 else x[None]), (x[:0], x), ("a", "b")):
        refuses(lambda a=a, b=b: k(a, b))
    refuses(lambda: k(x[0]))
    refuses(lambda: k.block(x, np.full_like(x, np.nan)))


def held() -> Iterator[Case]:
    """ν of Matern in every way of writing it, inside every combination: held unless it is asked for."""
    around: list[Callable[[Any], Any]] = [
        lambda k: k,
        lambda k: 2.0 * k,
        lambda k: k + Matern52(),
        lambda k: k.on(0),
        lambda k: (k * Constant()) ** 2,
        lambda k: kernels.Normalised(k),
        lambda k: k.replace(lengthscale=2.0),
        lambda k: parse(repr(k)),
        lambda k: kernels.parse(f"3 * {k!r} + Constant()"),
    ]
    ways = {"plain": 2.5, "whole": 3, "fixed": kernels.fixed(2.5), "array": np.float32(2.5)}
    free = {"learned": kernels.learned(2.5), "bounded": kernels.bounded(2.5, 1.0, 4.0)}
    for i, wrap in enumerate(around):
        for name, nu in (ways | free).items():
            yield Case(f"nu {name} in {i}", partial(_held, wrap(Matern(nu=nu)), name in free))


def _held(kernel: Any, free: bool) -> None:
    packing = Packing(kernel)
    slots = [s for s in packing.slots if s.paths[0].endswith("nu")]
    assert bool(slots) == free
    assert all(s.bounds is not None for s in slots)
    assert parse(repr(kernel)) == kernel


# kernels of the user's own ---------------------------------------------------------------------------------------------
def _own(block: Any, **fields: Any) -> Any:
    return type("Mine", (AbstractKernel,), {"block": block, **fields})


BLOCKS: dict[str, tuple[Any, str]] = {
    "numpy": (lambda self, X, Z: np.exp(-np.abs(np.asarray(X.x)[:, :1] - np.asarray(Z.x)[:, 0])), "NumPy"),
    "a row": (lambda self, X, Z: X.x[:, 0], "shape (3,)"),
    "transposed": (lambda self, X, Z: jnp.exp(-jnp.abs(Z.x[:, :1] - X.x[:, 0])), "shape (2, 3)"),
    "a number": (lambda self, X, Z: 1.0, "(3, 2)"),
    "nothing": (lambda self, X, Z: None, "(3, 2)"),
    "no x": (lambda self, X, Z: jnp.exp(-(X - Z)), "block fails"),
    "misspelt": (lambda self, X, Z: jnp.exp(-X.x @ Z.x.T / self.lenghtscale), "lenghtscale"),
    "raises": (lambda self, X, Z: 1 / 0, "ZeroDivisionError"),
    "one argument": (lambda self, X: X, "block"),
}


def own_kernels(folder: Path) -> Iterator[Case]:
    """Classes with a block that is right, and with everything that is not."""
    for name, (block, said) in BLOCKS.items():
        for wrap in (lambda k: k, lambda k: 2.0 * k + Matern52(), lambda k: k.on(0)):
            yield Case(f"own {name}", partial(_own_refused, wrap(_own(block, lengthscale=positive(1.0))()), said))
    for i, door in enumerate(DOORS):
        yield Case(f"own works in {door[0].__name__}", partial(_own_works, *door, folder / f"own{i}"))


def _own_refused(kernel: Any, said: str) -> None:
    for door, target in DOORS:
        text = refuses(lambda door=door, target=target: door(kernel).fit(X, target))
        assert text.startswith("Mine: "), text
        assert said in text, text


def _own_works(door: Any, target: Any, folder: Path) -> None:
    folder.mkdir(parents=True)

    def block(self: Any, A: Any, B: Any) -> Any:
        return jnp.exp(-jnp.abs(A.x[:, None, :] - B.x[None, :, :]).sum(-1) / self.lengthscale)

    model = door(1.0 * _own(block, lengthscale=positive(1.0))()).fit(X, target)
    assert len(model.predict_frame(X)) == ROWS
    assert "Mine" in str(model.kernel_)
    assert str(model.summary())
    model.report(folder / "report.html")
    assert "which cannot be stored in a model file" in refuses(lambda: model.save(folder / "model.covary"))
    assert not (folder / "model.covary").exists()


# frames and data -------------------------------------------------------------------------------------------------------
def frames() -> Iterator[Case]:
    """predict_frame keeps index and labels, whatever they are, and says what predict says; files too."""
    table = pd.DataFrame(X, columns=["a", "b"])
    indices: dict[str, Any] = {
        "text": [f"row {i}" for i in range(ROWS)],
        "dates": pd.date_range("2024-01-01", periods=ROWS),
        "repeated": [0] * ROWS,
        "two levels": pd.MultiIndex.from_arrays([list("aabb") * 3, range(ROWS)]),
        "floats": np.linspace(0, 1, ROWS),
    }
    labels: dict[str, Any] = {
        "text": LABELS,
        "numbers": np.where(Y > 0, 7, -3),
        "booleans": Y > 0,
        "three": np.digitize(Y, [-0.5, 0.5]),
        "floats": np.where(Y > 0, 2.0, 1.0),
    }
    for name, index in indices.items():
        yield Case(f"frame of numbers, index {name}", partial(_frame, table.set_axis(index), Y))
    for name, y in labels.items():
        yield Case(f"frame of classes {name}", partial(_frame, table, y, GPClassifier))
    yield Case("frame of three outputs", partial(_frame, table, pd.DataFrame({"u": Y, "v": -Y, "w": 2 * Y})))
    for level in (0, 1, 95, -0.5, float("nan")):
        yield Case(f"frame at level {level}", partial(_level, level))


def _frame(table: pd.DataFrame, y: Any, door: Any = GPRegressor) -> None:
    model = door("Matern52()", fixed="*").fit(table, y)
    frame = model.predict_frame(table)
    assert frame.index.equals(table.index)
    assert np.isfinite(frame.select_dtypes("number").to_numpy()).all()
    if door is GPClassifier:
        assert frame["class"].to_numpy().tolist() == model.predict(table).tolist()
        np.testing.assert_array_equal(frame.iloc[:, 1:], model.predict_proba(table))
        assert list(frame)[1:] == [f"p_{c}" for c in model.classes_.tolist()]
        return
    mean = np.reshape(model.predict(table), (ROWS, -1))
    np.testing.assert_array_equal(frame.filter(regex="mean$"), mean)
    assert (frame.filter(regex="lower$").to_numpy() < mean).all()
    assert (mean < frame.filter(regex="upper$").to_numpy()).all()


def _level(level: float) -> None:
    refuses(lambda: GPRegressor("Matern52()", fixed="*").fit(X, Y).predict_frame(X, level=level))


def data_of_the_wrong_shape() -> Iterator[Case]:
    """Inputs and targets of every wrong shape and kind at every verb."""
    rows: dict[str, Any] = {
        "a column": X[:, 0],
        "a series": pd.Series(X[:, 0], name="a"),
        "a number": 3.0,
        "a list of numbers": X[:, 0].tolist(),
        "a name": "data.csv",
        "ragged": [[1.0], [1.0, 2.0]] * (ROWS // 2),
        "NaN": np.full_like(X, np.nan),
        "text": np.full(X.shape, "a"),
    }
    for name, value in rows.items():
        for door, target in DOORS:
            yield Case(f"{door.__name__}.fit({name})", partial(_refused_fit, door, value, target))
    targets: dict[str, Any] = {
        "None": None,
        "a name": "y",
        "a number": 1.0,
        "too few": Y[:3],
        "NaN": np.full(ROWS, np.nan),
        "dates": pd.date_range("2024-01-01", periods=ROWS),
        "cubes": np.zeros((ROWS, 1, 1)),
        "complex": Y + 1j,
        "objects": [object()] * ROWS,
    }
    for name, value in targets.items():
        for door, _ in DOORS:
            yield Case(f"{door.__name__}.fit(X, {name})", partial(_refused_fit, door, X, value))
    for y in (LABELS, LABELS.tolist(), pd.Series(LABELS), pd.Series(LABELS, dtype="category"), pd.DataFrame({"q": LABELS})):
        yield Case("text targets", partial(_other_door, GPRegressor, y, "GPClassifier"))
    for y in (Y, Y.tolist(), pd.Series(Y)):
        yield Case("measured targets", partial(_other_door, GPClassifier, y, "GPRegressor"))
    for path in (None, 3, GPRegressor(), b"\0", ""):
        yield Case(f"load({path!r})", partial(refuses, partial(load, path)))


def _refused_fit(door: Any, rows: Any, target: Any) -> None:
    text = refuses(lambda: door("Matern52()").fit(rows, target))
    assert text.startswith(door.__name__), text


def _other_door(door: Any, y: Any, other: str) -> None:
    assert other in refuses(lambda: door().fit(X, y))
