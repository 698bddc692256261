"""The record of a fitted model of any family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np

from covary._checks import fail
from covary.tables.columns import Columns

State = TypeVar("State", covariant=True)


@dataclass(frozen=True)
class Scale:
    """Affine scaling: observations in the user's units are ``location + scale * y``; arrays of shape () or (outputs,)."""

    location: np.ndarray = field(default_factory=lambda: np.zeros(()))
    scale: np.ndarray = field(default_factory=lambda: np.ones(()))


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Fit(Generic[State]):
    """A fitted model.

    Parameters
    ----------
    family
        The name of its family in :data:`covary.fits.FAMILIES`.
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


@runtime_checkable
class Fitted(Protocol):
    """A fitted estimator, which holds the record of its fit."""

    @property
    def fit_(self) -> Fit[object]: ...


@runtime_checkable
class Chain(Protocol):
    """A scikit-learn pipeline whose last step is the estimator."""

    @property
    def steps(self) -> Sequence[tuple[str, Fitted]]: ...


AnyFit = Fit[object]
Model = AnyFit | Fitted | Chain  # types accepted by :func:`of`


def is_fitted(model: object) -> TypeGuard[Model]:
    """Return whether :func:`of` accepts ``model``; other objects may have an attribute ``steps`` that is not a list."""
    return isinstance(model, Fit | Fitted) or _is_chain(model)


def _is_chain(model: object) -> TypeGuard[Chain]:
    return isinstance(model, Chain) and isinstance(model.steps, Sequence) and len(model.steps) > 0


def of(model: Model, who: str = "covary") -> AnyFit:
    """Return the record of a fitted model: an estimator, a pipeline ending with one, or a record, returned unchanged.

    Examples
    --------
    >>> from covary import GPRegressor
    >>> of(GPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])).family
    'gaussian_process'
    """
    if isinstance(model, Fit):
        return model
    if isinstance(model, Fitted):
        return model.fit_
    if _is_chain(model):
        return of(model.steps[-1][1], who)
    raise fail(who, f"the model is a {type(model).__name__}", "give a fitted estimator of covary")
