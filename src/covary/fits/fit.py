"""The record of a fitted model of any family, and the base class of estimators."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

import numpy as np

from covary._checks import fail
from covary._errors import Remedy
from covary.tables.columns import Columns

State = TypeVar("State", covariant=True)
Own = TypeVar("Own")  # the state of an estimator's fit


@dataclass(frozen=True, eq=False)
class Scale:
    """Affine scaling: observations in the user's units are ``location + scale * y``; arrays of shape () or (outputs,)."""

    location: np.ndarray = field(default_factory=lambda: np.zeros(()))
    scale: np.ndarray = field(default_factory=lambda: np.ones(()))


@dataclass(frozen=True, eq=False)
class Labels:
    """The sorted class labels and the number (or total weight) of training rows in each class."""

    values: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class Method:
    """The name of the method that computed the fit, and why it was chosen."""

    name: str = "exact"
    why: str = ""


@dataclass(frozen=True)
class Origin:
    """The origin of a fit: the estimator's name and arguments, and the command's record of its run.

    ``covary`` is the version that wrote the file it was read from; ``named`` is whether the targets had names.
    """

    estimator: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)
    made: Mapping[str, object] | None = None
    covary: str = ""
    named: bool = True


@dataclass(frozen=True, eq=False)
class Fit(Generic[State]):
    """A fitted model. Two fits are equal only if they are the same object.

    Parameters
    ----------
    family
        The name of its family.
    state
        The family's own state, used by no other code.
    columns
        The conversion of a table into the input matrix of the model, with column names and units.
    target
        The names of the targets.
    scale
        The scaling of the targets.
    classes
        The class labels for classification; None for regression.
    method
        The method that computed the fit.
    origin
        The estimator that fitted it and its arguments.
    """

    family: str
    state: State = field(repr=False)
    columns: Columns
    target: tuple[str, ...] = ("y",)
    scale: Scale = field(default_factory=Scale)
    classes: Labels | None = None
    method: Method = field(default_factory=Method)
    origin: Origin = field(default_factory=Origin)

    @property
    def kind(self) -> Literal["regression", "classification"]:
        """The task: regression or classification."""
        return "regression" if self.classes is None else "classification"


class AbstractEstimator(Generic[Own]):
    """Base class of the estimators of a family.

    ``fit`` stores a :class:`Fit` in ``fit_``, whose :class:`Origin` has the name of the class and the arguments of the
    constructor. The family names the class in its ``estimators``; ``covary.load`` then returns the estimator.
    """

    fit_: Fit[Own]
    n_features_in_: int
    feature_names_in_: np.ndarray

    @classmethod
    def from_fit(cls, fit: Fit[Own]) -> Self:
        """Return the estimator of a fit, constructed with the arguments in its origin."""
        strange = sorted(fit.origin.arguments.keys() - inspect.signature(cls).parameters.keys())
        if strange:
            what = f"there is no argument {strange[0][:60]!r} in a model of this kind"
            raise fail("load", what, Remedy("fit again", "save the model again"))
        model = cls(**fit.origin.arguments)
        model.fit_, model.n_features_in_ = fit, len(fit.columns.each)
        if fit.columns.named and fit.columns.texts:
            model.feature_names_in_ = np.array([column.name for column in fit.columns.each], dtype=object)
        return model


@runtime_checkable
class Fitted(Protocol):
    """A fitted estimator, which holds the record of its fit."""

    @property
    def fit_(self) -> Fit[object]: ...


AnyFit = Fit[object]
Model = AnyFit | Fitted  # types accepted by :func:`of`


def is_fitted(model: object) -> TypeGuard[Model]:
    """Return whether :func:`of` accepts ``model``."""
    return isinstance(model, Fit) or (isinstance(model, Fitted) and isinstance(model.fit_, Fit))


def of(model: Model, who: str = "covary") -> AnyFit:
    """Return the record of a fitted model: of an estimator, or a record, which is returned unchanged.

    The record of the last step of a pipeline would not contain the other steps, so a pipeline raises an error.

    Examples
    --------
    >>> from covary import GPRegressor
    >>> of(GPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])).family
    'gaussian_process'
    """
    if not is_fitted(model):
        if isinstance(model, AbstractEstimator):
            raise fail(who, f"the {type(model).__name__} is not fitted", "fit it first")
        do = "give a fitted estimator of covary (of a pipeline, its last step, which takes transformed inputs)"
        raise fail(who, f"the model is a {type(model).__name__}", do)
    return model if isinstance(model, Fit) else model.fit_
