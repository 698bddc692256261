"""Base class of families of models, and the lookup of families by name.

A family is one file or package in :mod:`covary.families` and one row of the table in :mod:`covary._families`. Files, reports,
diagnosis, plots, exports and the command call its methods and never distinguish between families themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from covary._checks import CovaryError, fail
from covary._errors import Option, Remedy, Text
from covary._families import Json, Setting, load, registered
from covary.executors import Dask, Serial
from covary.fits.checks import Check
from covary.fits.fit import Fit, Method
from covary.fits.latent import LatentProcess
from covary.fits.learning import Observed, Request, Takes, Task, prepared
from covary.fits.sections import Findings, Relevance, Section
from covary.fits.summary import Summary
from covary.fits.training import Judged, Training
from covary.tables.cells import CATEGORY
from covary.tables.columns import Mapped
from covary.tables.labels import probability_titles

if TYPE_CHECKING:
    import jax

PARTS = ("mean", "std", "lower", "upper")
TOGETHER = 10_000  # rows to predict between two updates of the progress
State = TypeVar("State")
Page = dict[str, Any]  # JSON; every part is validated when it is read
Functions = dict[str, Callable[..., "jax.Array"]]  # user-defined functions by name


@dataclass(frozen=True)
class Answer:
    """Predictions for new rows in the user's units: columns by title, in order, and notes.

    The columns are ``mean``, ``std``, ``lower`` and ``upper`` for numbers (prefixed with the name of the target if there are
    several), and ``class`` and ``p_<label>`` for classes. Families may add further columns. ``log_prob`` is the log density
    (or log probability) of the observations, if they were given; NaN for rows without one.
    """

    columns: dict[str, np.ndarray]
    notes: tuple[Text, ...] = ()
    log_prob: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Sizes:
    """Trials or exposures of observations: whether they are whole numbers (trials), and whether the fit was given any."""

    whole: bool = False
    given: bool = False


@dataclass(frozen=True)
class Learning:
    """Result of learning: status, number of evaluations and seconds, each None if unknown."""

    status: str | None = None
    steps: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Stored:
    """Contents of a model file: a JSON page and plain arrays by name.

    ``functions`` are the user-defined functions in the model, of which a file contains only the names; ``beside`` is the
    folder of the file that was read.
    """

    page: Page
    arrays: dict[str, np.ndarray] = field(repr=False)
    functions: Functions = field(default_factory=dict, repr=False)
    beside: str = ""


class AbstractFamily(Generic[State]):
    """A family of models.

    A family needs ``learn``, ``predict``, ``encode`` and ``decode``; everything else has a default, or raises an error
    because the family does not support it.
    """

    name: str
    title: str
    takes: Takes = Takes()
    settings: tuple[Setting, ...] = ()  # of ``--set NAME=VALUE``
    latent: bool = False  # whether predict(latent=True) is supported: without the noise of a new observation
    estimators: Mapping[str, str] = MappingProxyType({})  # scikit-learn classes that build its fits, and their modules

    # learning from a table, for the command ---------------------------------------------------------------------------
    def prepare(self, request: Request) -> Task[State]:
        """Read and check a table, and return the fit that is ready to run; by default one that calls :meth:`learn`."""
        return prepared(self, request)

    def learn(self, observed: Observed) -> tuple[State, Method]:
        """Return the state of a fit to rows in memory, and how it was computed."""
        raise self._lacks("learn method", "fit it in Python")

    # predictions in the user's units ----------------------------------------------------------------------------------
    def predict(
        self,
        fit: Fit[State],
        x: np.ndarray,
        *,
        level: float = 0.95,
        latent: bool = False,
        size: np.ndarray | None = None,
        truth: np.ndarray | None = None,
    ) -> Answer:
        """Return predictions for rows of numbers (m, d): the matrix that ``fit.columns`` makes of a table."""
        raise NotImplementedError

    def quantiles(
        self, fit: Fit[State], x: np.ndarray, p: np.ndarray, *, latent: bool = False, size: np.ndarray | None = None
    ) -> np.ndarray:
        """Return quantiles of new observations, one row of the result per probability."""
        raise self._lacks("quantiles", "use predict")

    def sample(
        self,
        fit: Fit[State],
        x: np.ndarray,
        count: int,
        *,
        key: int | np.random.Generator,
        latent: bool = False,
        size: np.ndarray | None = None,
    ) -> np.ndarray:
        """Draw new observations jointly: (m, count)."""
        raise self._lacks("sampling", "use predict")

    def judged(self, fit: Fit[State], x: np.ndarray | None = None, y: np.ndarray | None = None) -> Judged:
        """Return predictions and observations: leave-one-out for training rows, or for new rows with their targets.

        By default, predictions for new rows come from :meth:`predict`, and training rows have none.
        """
        if x is None or y is None:
            raise self._lacks("leave-one-out predictions", "give rows with known targets that it was not fitted to")
        answer, how = self.predict(fit, x), "rows outside the training data"
        if fit.classes is not None:
            names = probability_titles(fit.classes.values)
            if not answer.columns.keys() >= set(names):
                raise self._lacks("class probabilities to compare with observations", "use predict")
            return Judged.of_classes("new rows", how, x, y, np.stack([answer.columns[name] for name in names], axis=1))
        heads = [""] if len(fit.target) == 1 else [f"{name}_" for name in fit.target]
        if not answer.columns.keys() >= {f"{head}mean" for head in heads}:
            raise self._lacks("means to compare with observations", "use predict")
        mean = np.stack([answer.columns[f"{head}mean"] for head in heads], axis=1)
        errors = [answer.columns[f"{head}std"] for head in heads if f"{head}std" in answer.columns]
        return Judged.of_numbers("new rows", how, x, y, mean, np.stack(errors, axis=1) if len(errors) == len(heads) else None)

    def titles(self, fit: Fit[State], *, latent: bool = False) -> list[str]:
        """Return the names of the columns that :meth:`predict` returns."""
        if fit.classes is not None and not latent:
            return ["class", *probability_titles(fit.classes.values)]
        heads = [""] if len(fit.target) == 1 else [f"{name}_" for name in fit.target]
        return [f"{head}{part}" for head in heads for part in PARTS]

    def check(self, fit: Fit[State], found: Mapped) -> None:
        """Raise an error for rows of a table, X, that this fit cannot predict."""

    def sizes(self, fit: Fit[State]) -> Sizes | None:
        """Return the meaning of the ``size`` of a new row; None if rows have no size."""
        return None

    def together(self, fit: Fit[State]) -> int:
        """Return the number of rows to predict per call."""
        return TOGETHER

    def parallel(self, fit: Fit[State]) -> bool:
        """Return whether an executor can compute predictions of this fit."""
        return False

    def working(self, fit: Fit[State], executor: Dask | Serial) -> Fit[State]:
        """Return the same fit with predictions computed by an executor."""
        what = Option("executor") + f" is given but the family {fit.family!r} predicts in this process"
        raise fail(self.name, what, "leave it out", argument="executor")

    # what checks and reports need -------------------------------------------------------------------------------------
    def training(self, fit: Fit[State]) -> Training:
        """Return the training rows of a fit: by default those with leave-one-out predictions, if there are any."""
        try:
            seen = self.judged(fit)
        except CovaryError:
            return Training(x=np.empty((0, fit.columns.width)), y=np.empty((0, len(fit.target))), learned=False)
        spread = seen.x.std(0)
        flat = np.ptp(seen.y, axis=0) == 0 if fit.kind == "regression" else ()
        return Training(
            x=seen.x,
            y=seen.y,
            count=float(seen.total),
            lengths=np.where(spread > 0, spread, 1.0),
            coded=frozenset(fit.columns.places(CATEGORY)),
            still=tuple(name for name, still in zip(fit.target, flat, strict=False) if still),
        )

    def share_of_prior(self, fit: Fit[State], x: np.ndarray | None) -> np.ndarray | None:
        """Return the ratio of posterior to prior variance at new rows, or (None) leave-one-out at training rows.

        The result is None for a family without a prior over functions.
        """
        return None

    def checks(self, fit: Fit[State], judged: Judged | None, *, quick: bool = False) -> list[Check]:
        """Return the checks specific to this family; those of predictions are the same for all families.

        If ``quick``, only those that take no time.
        """
        return []

    def processes(self, fit: Fit[State]) -> Sequence[LatentProcess]:
        """Return the Gaussian processes inside a fit: one, or one per class; none for other models."""
        return ()

    def relevance(self, fit: Fit[State]) -> Relevance | None:
        """Return the share of the predictions' variation that involves each column.

        If it is None, :func:`covary.plots.relevance` computes it from predictions at the training rows.
        """
        return None

    def sections(self, fit: Fit[State], found: Findings) -> list[Section]:
        """Return the sections of a report specific to this family."""
        return []

    def details(self, fit: Fit[State]) -> list[tuple[str, str]]:
        """Return a description of the fit for a report: names and values."""
        method = fit.method.name + (f": {fit.method.why}" if fit.method.why else "")
        return [("Estimator", fit.origin.estimator or self.title), *([("Method", method)] if method else [])]

    # words ------------------------------------------------------------------------------------------------------------
    def facts(self, fit: Fit[State]) -> dict[str, Json]:
        """Return a description of a fit for JSON."""
        return {"family": fit.family, "method": fit.method.name}

    def summary(self, fit: Fit[State], *, quick: bool = False) -> Summary:
        """Return the summary as text; if ``quick``, without what takes longer than a second or two."""
        facts = [("family", self.title), *(("method", text) for text in [fit.method.name] if text)]
        return Summary(self.title, tuple(facts), ())

    def parameters(self, fit: Fit[State], summary: Summary, *, error_bars: bool) -> list[dict[str, Json]]:
        """Return all parameters as JSON, by default those of the summary, as numbers where possible.

        The keys are ``name``, ``value``, ``error``, ``scale``, ``fixed`` and ``note``.
        """
        return [
            {
                "name": row.name,
                "value": _number(row.value),
                "error": _number(row.error),
                "scale": "plain",
                "fixed": row.note == "fixed",
                "note": row.note,
            }
            for row in summary.rows
        ]

    def rows(self, fit: Fit[State]) -> tuple[int | None, bool]:
        """Return the number of training rows, if known, and whether they are on disk."""
        training = self.training(fit)
        return round(training.count) if training.rows else None, False

    def learning(self, fit: Fit[State]) -> Learning:
        """Return the status, evaluations and seconds of learning."""
        return Learning()

    def price(self, fit: Fit[State]) -> float:
        """Return the estimated seconds for the error bars of a summary."""
        return 0.0

    def without_error_bars(self, fit: Fit[State]) -> Fit[State]:
        """Return the same fit with a summary that neither has nor computes error bars."""
        return fit

    # files ------------------------------------------------------------------------------------------------------------
    def encode(self, fit: Fit[State], *, factor: bool | None = None) -> Stored:
        """Return the state as a page and arrays; ``factor``: whether to include what could be recomputed."""
        raise NotImplementedError

    def encode_arguments(self, arguments: Mapping[str, object]) -> Page:
        """Return the arguments of an estimator as JSON. By default each must be None, text, a number, true or false."""
        for name, value in arguments.items():
            if not (value is None or isinstance(value, str | bool | int | float)):
                raise fail("save", f"{name} is {str(value)[:60]!r}", "give None, text, a number, true or false")
        return dict(arguments)

    def decode_arguments(self, page: Page, functions: Functions) -> dict[str, object]:
        """Return the arguments that :meth:`encode_arguments` wrote."""
        return dict(page)

    def upgrade(self, page: Page, arrays: Mapping[str, np.ndarray]) -> Page:
        """Convert the page of a file from an older version to the current format."""
        return page

    def decode(self, stored: Stored, fit: Fit[None]) -> State:
        """Return the state that :meth:`encode` wrote, after validating every part; ``fit`` has everything but the state."""
        raise NotImplementedError

    def export(
        self, fit: Fit[State], path: str | os.PathLike[str], *, std: bool = True, tolerance: float = 1e-10
    ) -> dict[str, float]:
        """Write one Python file that predicts with NumPy alone; return its deviations from the fit."""
        raise self._lacks("export", Remedy("save instead", "save it with covary.save instead"))

    def _lacks(self, what: str, do: Text) -> Exception:
        return fail(self.name, f"this family of models has no {what}", do)


def _number(text: str) -> Json:
    """Return a text as a number if it is one; None if it is empty."""
    with suppress(ValueError):
        return float(text)
    return text or None


def family_of(fit: Fit[State]) -> AbstractFamily[State]:
    """Return the family of a fit."""
    return family(fit.family)


def family(name: str) -> AbstractFamily:
    """Return a family by name: one of covary, or one that an installed package adds."""
    place = registered(name).module
    found = load(name, place if ":" in place else f"{place}:FAMILY", AbstractFamily)
    if found.name != name:
        what = f"the family {found.name!r} in {place} is registered as {name!r}"
        raise fail("covary", what, "register it by its own name", argument="family")
    return found
