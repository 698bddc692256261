"""Arguments and training rows of a Gaussian process fit.

Kernels are given as objects or as text, may refer to columns by name, and must not treat category codes as numbers.
Likelihoods are given as objects or by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import isfunction
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from covary._checks import check_count, check_object, fail, is_missing, shown
from covary._errors import Option
from covary._module import Marked, modules
from covary._types import Array
from covary.distributions import AbstractDistribution
from covary.executors import Dask, Serial
from covary.families.gaussian_process.disk import Reader
from covary.fits import Labels
from covary.gram.base import AbstractGram
from covary.inference.base import AbstractInference
from covary.inference.plan import AbstractPlan
from covary.kernels.base import AbstractKernel, inner_kernels
from covary.kernels.categorical import Categories, Exchangeable, Hamming
from covary.kernels.combine import Columns as On
from covary.kernels.combine import Function, placed
from covary.kernels.dot_product import Constant
from covary.kernels.structure import BasisFunctions, Normalised
from covary.kernels.text import parse
from covary.kernels.warped import Mapped
from covary.likelihoods import (
    Binomial,
    DoubleExponential,
    Gamma,
    Gaussian,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
)
from covary.likelihoods.base import AbstractLikelihood
from covary.means.functions import AbstractMean
from covary.model import Model
from covary.parameters import parameters
from covary.selection.left_out import GeneralisedCrossValidation, KFold, LeaveOneOut
from covary.tables.cells import CATEGORY
from covary.tables.columns import Columns

Kernel = AbstractKernel | str | list[AbstractKernel | str] | tuple[AbstractKernel | str, ...] | None
Prior = AbstractDistribution | Sequence[AbstractDistribution]
Mean = AbstractMean | Callable[..., Array] | str
Method = AbstractGram | AbstractPlan | str
Executor = Serial | Dask | str | None
Score = LeaveOneOut | GeneralisedCrossValidation | KFold
Seed = int | np.random.RandomState | None
OF_CATEGORIES = (Hamming, Exchangeable, Categories, Constant)  # kernels that ignore the order of codes
OWN = (Function, BasisFunctions, Mapped)  # a user's functions, which may treat codes correctly
SHOWN = 4  # columns to list in advice
MOST_LEVELS = 50
MOST_RESTARTS = 10_000
LIKELIHOODS: dict[str, type[AbstractLikelihood]] = {
    "gaussian": Gaussian,
    "student_t": StudentT,
    "laplace": DoubleExponential,
    "heteroscedastic": HeteroscedasticGaussian,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "binomial": Binomial,
    "gamma": Gamma,
    "ordinal": Ordinal,
}


@dataclass(frozen=True)
class Settings:
    """Arguments of :class:`covary.GPRegressor` and :class:`covary.GPClassifier`, where they are documented.

    ``who`` is the prefix of error messages. Only the classifier has ``link``, ``multi_class``, ``class_kernels`` and
    ``class_weight``.
    """

    who: str = "covary"
    kernel: Kernel = None
    likelihood: AbstractLikelihood | str = "gaussian"
    inference: AbstractInference | str = "auto"
    mean: Mean = "constant"
    standardise: bool = True
    priors: Mapping[str, Prior] | str | None = "default"
    fixed: Sequence[str] = ()
    bounds: Mapping[str, tuple[float, float]] | None = None
    noise: float | Marked | None = None
    method: Method = "auto"
    n_restarts: int = 2
    max_time: float | None = None
    checkpoint: str | None = None
    executor: Executor = None
    objective: Score | str = "evidence"
    local_errors: bool | str = "auto"
    missing: str = "refuse"
    seasonality: str | Sequence[str] | None = None
    random_state: Seed = None
    link: str = "logit"
    multi_class: str = "softmax"
    class_kernels: str = "auto"
    class_weight: Mapping[object, float] | str | None = None

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments by name, without those of the other estimator."""
        foreign = OF_REGRESSOR if self.who == "GPClassifier" else OF_CLASSIFIER
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "who" and f.name not in foreign}


OF_REGRESSOR = ("likelihood", "standardise", "noise", "objective", "local_errors")
OF_CLASSIFIER = ("link", "multi_class", "class_kernels", "class_weight")
REGRESSOR = Settings("GPRegressor")  # with the defaults of the estimator, like the next
CLASSIFIER = Settings("GPClassifier", inference="laplace", mean="zero", n_restarts=0)


@dataclass(frozen=True)
class Rows:
    """Training rows as numbers.

    Parameters
    ----------
    x
        Inputs (n, d), a table converted by ``columns``.
    y
        Targets (n,) or (n, p); class labels.
    columns
        Description of the input columns.
    target
        Names of the targets, if any.
    noise, weight, size
        Per row: known noise variance, weight, trials or exposure.
    disk
        Reader of the whole table if these rows are a sample of a table on disk.
    """

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    columns: Columns
    target: tuple[str, ...] = ()
    noise: np.ndarray | None = None
    weight: np.ndarray | None = None
    size: np.ndarray | None = None
    disk: Reader | None = None

    def named(self, count: int) -> tuple[str, ...]:
        """Return the names of ``count`` targets."""
        if len(self.target) == count:
            return self.target
        return ("y",) if count == 1 else tuple(f"y{j}" for j in range(count))


@dataclass(frozen=True)
class Context:
    """Context of a fit: settings, columns, class labels, a table on disk."""

    settings: Settings
    columns: Columns
    classes: Labels | None = None
    disk: Reader | None = None

    @property
    def who(self) -> str:
        """The prefix of error messages."""
        return self.settings.who


def check_bounds(who: str, bounds: Mapping[str, tuple[float, float]], model: Model) -> None:
    """Raise an error for bounds of a fixed parameter, which would have no effect."""
    found = parameters(model)
    for path in bounds:
        if path in found and found[path].mark.fixed:
            value = shown(np.asarray(found[path].value).tolist())
            do = f"write {path.rpartition('.')[2]}=bounded(...) or learned(...) to learn it, or leave the bounds out"
            raise fail(who, f"{path!r} is given bounds but fixed at {value}", do)


def read_kernel(who: str, kernel: Kernel, names: Sequence[str] | None) -> AbstractKernel | tuple[AbstractKernel, ...]:
    """Return the kernel of an argument, or a tuple for a list: parsed, with column names resolved."""
    if isinstance(kernel, list | tuple):
        return tuple(_read_one(who, part, names) for part in kernel)
    return _read_one(who, kernel, names)


def _read_one(who: str, kernel: AbstractKernel | str | None, names: Sequence[str] | None) -> AbstractKernel:
    """Return the kernel of an argument."""
    check_object(who, "kernel", kernel)
    found = parse(kernel) if isinstance(kernel, str) else kernel
    if not isinstance(found, AbstractKernel):
        arrays = (found is not None and np.ndim(found) > 0) or hasattr(found, "columns")
        do = "give a kernel from covary.kernels or its text"
        if arrays:
            do = "give data to fit(X, y), and a kernel from covary.kernels or its text here"
        elif isfunction(found):
            do = "write kernels.Function(...) around a function of two points"
        raise fail(who, Option("kernel") + f" is {shown(found)}", do)
    return placed(found, names, who)


def check_categories(who: str, kernel: AbstractKernel | tuple[AbstractKernel, ...], given: Kernel, columns: Columns) -> None:
    """Raise an error if a kernel would treat category codes as numbers, suggesting an alternative."""
    places = columns.places(CATEGORY)
    if not places:
        return
    wrong = _misread(kernel, columns.width, set(places))
    if wrong is None:
        return
    leaf, seen = wrong
    names = [columns.keys[j] for j in places if j in seen]
    what = (
        Option("kernel")
        + f" has {type(leaf).__name__} on {_list(names)}, where "
        + Option("X")
        + " contains categories, not numbers"
    )
    raise fail(who, what, f"write {_instead(given, columns, places)}")


def _misread(
    kernel: AbstractKernel | tuple[AbstractKernel, ...], columns: int | np.ndarray, categories: set[int]
) -> tuple[AbstractKernel, set[int]] | None:
    """Return the first inner kernel that treats codes as numbers, and its columns."""
    for _, leaf, seen in inner_kernels(kernel, columns, closed=AbstractKernel):
        if isinstance(leaf, Normalised):
            if found := _misread(leaf.kernel, seen, categories):
                return found
            continue
        own = isinstance(leaf, OWN) or not type(leaf).__module__.startswith("covary.")
        misread = set(seen.tolist()) & categories and not isinstance(leaf, OF_CATEGORIES)
        if misread and not (own and set(seen.tolist()) <= categories):
            return leaf, set(seen.tolist())
    return None


def _instead(given: Kernel, columns: Columns, categories: list[int]) -> str:
    """Return the kernel to write instead of one that treats codes as numbers."""
    numbers = [j for j in range(columns.width) if j not in categories]
    hamming = f"Hamming().on({_list([columns.keys[j] for j in categories], SHOWN)})"
    if not numbers:
        return hamming
    parts = given if isinstance(given, list | tuple) else [given]
    first = parts[0]
    text = first if isinstance(first, str) else repr(first)
    kernel = first if isinstance(first, AbstractKernel) else parse(text)
    per_column = any(np.ndim(p.value) for p in parameters(kernel).values())
    if len(parts) > 1 or per_column or len(text) > 60 or any(isinstance(m, On) for m in modules(kernel)):
        return f"{hamming} for them, multiplied by kernels on the other columns, chosen with .on(...)"
    inner = text if re.fullmatch(r"\w+\([^()]*\)", text) else f"({text})"
    return f"{inner}.on({_list([columns.keys[j] for j in numbers], SHOWN)}) * {hamming}"


def _list(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def named_likelihood(who: str, likelihood: AbstractLikelihood | str, y: np.ndarray) -> AbstractLikelihood:
    """Return a likelihood given by name or as an object."""
    if isinstance(likelihood, AbstractLikelihood):
        return likelihood
    check_object(who, "likelihood", likelihood)
    if not isinstance(likelihood, str) or likelihood not in LIKELIHOODS:
        what = Option("likelihood") + f" is {likelihood!r}"
        raise fail(who, what, f"choose one of {', '.join(LIKELIHOODS)}, or give a likelihood")
    if likelihood == "ordinal":
        levels = np.unique(y)
        if len(levels) < 2 or (levels != np.floor(levels)).any() or levels[0] < 0:
            raise fail(who, Option("y") + " needs levels 0, 1, 2, ... under an ordinal likelihood", "number the levels from 0")
        if levels[-1] >= MOST_LEVELS:
            what = Option("y") + f" has levels up to {levels[-1]:g} under an ordinal likelihood"
            raise fail(who, what, f"number them from 0, {MOST_LEVELS} at most")
        return Ordinal.of(int(levels[-1]) + 1)
    return LIKELIHOODS[likelihood]()


# seeds and types of arguments ------------------------------------------------------------------------------------------
def random_of(who: str, random_state: Seed) -> np.random.RandomState:
    """Return a random state by scikit-learn's rules."""
    try:
        return check_random_state(random_state)
    except (ValueError, TypeError, OverflowError):
        what = Option("random_state") + f" is {shown(random_state)}"
        raise fail(who, what, "give an integer from 0 to 2**32 - 1, a RandomState, or None") from None


def seed_of(who: str, random_state: Seed) -> int:
    """Return an integer seed drawn from ``random_state``."""
    return int(random_of(who, random_state).randint(2**31))


def _paths(value: Any) -> bool:
    each = [value] if isinstance(value, str) else value
    return isinstance(each, Sequence | set | frozenset) and all(isinstance(path, str) for path in each)


def _boxes(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, Mapping) or not all(isinstance(path, str) for path in value):
        return False
    pairs = [pair for pair in value.values() if isinstance(pair, Sequence | np.ndarray) and len(pair) == 2]
    return len(pairs) == len(value) and all(isinstance(end, Real) for pair in pairs for end in pair)


def is_number(value: Any) -> bool:
    """Return whether a value is a number of ordinary size, and not a boolean."""
    kinds: Any = (Real,)
    return isinstance(value, kinds) and not isinstance(value, bool | np.bool_) and abs(value) < 1e300


ALLOWED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "standardise": (lambda v: isinstance(v, bool | np.bool_), "give True or False"),
    "fixed": (_paths, "give paths of parameters as text: ('kernel.period',)"),
    "bounds": (_boxes, "give bounds by path: {'likelihood.variance': (1e-4, 1.0)}"),
    "priors": (
        lambda v: v is None or isinstance(v, str) or (isinstance(v, Mapping) and all(isinstance(path, str) for path in v)),
        "give 'default', None, or distributions by path",
    ),
    "noise": (
        lambda v: v is None or isinstance(v, Marked) or is_number(v) or (isinstance(v, np.ndarray) and v.size == 1),
        "give positive, finite numbers",
    ),
    "max_time": (
        lambda v: v is None or (is_number(v) and v >= 0) or (isinstance(v, float) and v == np.inf),
        "give a positive number of seconds, or None",
    ),
    "checkpoint": (lambda v: v is None or (isinstance(v, str | PathLike) and str(v) != ""), "give the name of a file, or None"),
    "seasonality": (
        lambda v: v is None or _paths(v),
        "choose 'yearly', 'weekly', 'daily', or a list of these",
    ),
    "objective": (
        lambda v: isinstance(v, str) or (callable(v) and not isinstance(v, type)),
        "choose 'evidence', 'loo', 'gcv', 'kfold', or give an objective from covary.selection",
    ),
    "mean": (lambda v: not isinstance(v, type | np.ndarray), "choose 'zero', 'constant', 'linear', or give a function"),
}


def check_arguments(who: str, given: Mapping[str, Any]) -> None:
    """Raise an error for arguments of the wrong type, before any data are read."""
    for name, value in given.items():
        if name != "kernel" and (hasattr(value, "columns") or (isinstance(value, np.ndarray) and np.ndim(value))):
            raise fail(who, Option(name) + f" is {shown(value)}", "give data to fit(X, y)")
        check_object(who, name, value)
        ok, do = ALLOWED.get(name, (lambda v: True, "give another value"))
        if (is_missing(value) and value is not None) or not ok(value):
            raise fail(who, Option(name) + f" is {shown(value)}", do)
    check_count(who, "n_restarts", given["n_restarts"], most=MOST_RESTARTS)
    if given["random_state"] is not None:
        random_of(who, given["random_state"])
