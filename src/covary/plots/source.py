"""The model behind a plot: a posterior, or a fitted model with the names of its columns, targets and classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covary import fits
from covary._checks import fail
from covary._words import counted
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, inner_kernels
from covary.kernels.categorical import Categories, Exchangeable, Hamming
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.softmax import Softmax
from covary.model import Model
from covary.posterior import AbstractPosterior
from covary.tables.column import Column
from covary.tables.labels import label_text, probability_titles

Drawable = AbstractPosterior | fits.Model  # the models that can be drawn
Label = str | int | float | bool | np.generic  # of a class


@dataclass(frozen=True)
class Source:
    """The model behind a plot.

    Parameters
    ----------
    who
        The name of the plotting function, for error messages.
    posteriors
        Its posteriors: one, or one per class (one-vs-rest); empty for a family without Gaussian processes.
    fit
        The fit; None if a posterior was given.
    """

    who: str
    posteriors: tuple[AbstractPosterior, ...]
    fit: fits.AnyFit | None = None

    @staticmethod
    def of(who: str, model: Drawable) -> Source:
        """Return the source of a posterior, a fit or an estimator."""
        if isinstance(model, AbstractPosterior):
            return Source(who, (model,))
        if not fits.is_fitted(model):
            raise fail(who, f"got {type(model).__name__}", "give a fitted estimator or a posterior")
        fit = fits.of(model, who)
        return Source(who, tuple(part.posterior for part in fits.family_of(fit).processes(fit)), fit)

    @property
    def first(self) -> AbstractPosterior:
        """The only posterior, or the first; all have the same inputs."""
        if not self.posteriors:
            raise fail(self.who, f"the model is of the family {self._fit.family!r}", "give a Gaussian process")
        return self.posteriors[0]

    @property
    def model(self) -> Model:
        """The model of the first posterior."""
        return self.first.model

    @property
    def _fit(self) -> fits.AnyFit:
        assert self.fit is not None
        return self.fit

    # targets ----------------------------------------------------------------------------------------------------------
    @property
    def of_classes(self) -> bool:
        """Whether classes are predicted."""
        if self.classes:
            return True
        return bool(self.posteriors) and isinstance(self.model.likelihood, Bernoulli | Softmax)

    @property
    def labels(self) -> list[Label]:
        """The labels of the classes; empty for a posterior, which has codes only."""
        return [] if self.fit is None or self.fit.classes is None else self.fit.classes.values.tolist()

    @property
    def classes(self) -> list[str]:
        """The labels as text."""
        return [label_text(value) for value in self.labels]

    @property
    def target(self) -> str:
        """The name of the target if there is one target and it has a name; else ``y``."""
        return self.fit.target[0] if self.fit is not None and len(self.fit.target) == 1 else "y"

    # inputs -----------------------------------------------------------------------------------------------------------
    @cached_property
    def training(self) -> fits.Training:
        """The training rows of a fit."""
        found = fits.family_of(self._fit).training(self._fit)
        if not len(found.x):
            raise fail(self.who, f"the family {self._fit.family!r} does not provide its training rows", "use predict")
        return found

    @property
    def inputs(self) -> Inputs:
        """The inputs of the training rows."""
        return self.first.data.X if self.posteriors else Inputs(self.training.x)

    @property
    def coded(self) -> set[int]:
        """The columns that contain codes of categories."""
        if not self.posteriors:
            return set(self.training.coded)
        return coded_columns(self.model.kernel, self.inputs.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that the model was fitted to; empty for a posterior."""
        return () if self.fit is None else self.fit.columns.each

    def names(self, given: Sequence[str] | None = None) -> list[str]:
        """Return the names of the input columns: those given, those seen in ``fit`` (with units), or x0, x1, ..."""
        count = self.inputs.columns
        if given is not None and len(given) != count:
            raise fail("plots", f"got {counted(len(given), 'name')} for {counted(count, 'input column')}", "give one for each")
        for names in (given, None if self.fit is None else self.fit.columns.names):
            if names is not None and len(names) == count:
                return [str(name) for name in names]
        return [f"x{i}" for i in range(count)]

    def column_number(self, who: str, column: int | str, labels: Sequence[str]) -> int:
        """Return the index of a column, from its index, the name shown, or the name it had in ``fit``."""
        if isinstance(column, str):
            for names in (list(labels), [each.name for each in self.columns]):
                if column in names:
                    return names.index(column)
            raise fail(who, f"no column is called {column!r}", f"choose from {', '.join(labels)}")
        if isinstance(column, bool) or not isinstance(column, int | np.integer) or not 0 <= column < len(labels):
            raise fail(who, f"the column is {column!r}", f"give an index from 0 to {len(labels) - 1}, or a name")
        return int(column)

    def level_names(self, column: int) -> tuple[str, ...]:
        """Return the categories of a column in the order of their codes, if the table of ``fit`` had them."""
        return tuple(self.columns[column].levels) if column < len(self.columns) else ()

    # predictions of a fit without posteriors ----------------------------------------------------------------------------
    def predicted(self, x: np.ndarray, part: str = "mean") -> np.ndarray:
        """Return a part of the predictions of a fit at rows (m, d): the mean, std, lower or upper end of each target, (m, p);
        the probabilities (m, C) of classes."""
        family, fit = fits.family_of(self._fit), self._fit
        step = family.together(fit)
        parts = [family.predict(fit, x[start : start + step]).columns for start in range(0, max(len(x), 1), step)]
        columns = {title: np.concatenate([part[title] for part in parts]) for title in parts[0]}
        titles = [] if fit.classes is None else probability_titles(fit.classes.values)
        if not titles:
            titles = [title for title in columns if title == part or title.endswith(f"_{part}")]
        if not titles or not columns.keys() >= set(titles):
            what = "class probabilities" if self.classes else part
            raise fail(self.who, f"predictions of the family {fit.family!r} have no {what}", "use predict")
        return np.stack([np.asarray(columns[title], np.float64) for title in titles], axis=1)


def coded_columns(kernel: AbstractKernel | tuple[AbstractKernel, ...], columns: int) -> set[int]:
    """Return the columns that a kernel reads as codes of categories; values between two codes have no meaning.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> coded_columns(Matern52().on(0, 1) * (2.0 * Hamming().on(2)), 3)
    {2}
    """
    coded = [seen for _, part, seen in inner_kernels(kernel, columns) if isinstance(part, Hamming | Exchangeable | Categories)]
    return {int(c) for seen in coded for c in seen}
