"""Whether to trust a fit, and the page that shows it: ``diagnose`` and ``report`` of the front doors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from covary._checks import fail
from covary.diagnosis import Diagnosis, Subject, diagnose, quick_warnings
from covary.estimators.inputs import read_known, read_table, read_targets
from covary.estimators.summary import Summary
from covary.plots.relevance import relevance
from covary.report import write_report

SOON = 1500  # rows up to which a report waits for error bars of the parameters


def subject_of(estimator: Any) -> Subject:
    """A fitted estimator as the diagnosis sees it."""
    parts = list(getattr(estimator, "estimators_", [estimator]))
    width = parts[0].posterior_.data.X.columns
    columns = getattr(getattr(estimator, "columns_", None), "names", getattr(estimator, "feature_names_in_", ()))
    columns = columns if len(columns) == width else [f"x{i}" for i in range(width)]
    targets = getattr(estimator, "target_names_", None)
    shape = np.shape(getattr(estimator, "_scale", 1.0))
    if targets is None or len(targets) != (shape[0] if shape else 1):
        targets = ["y"] if not shape else [f"y{i}" for i in range(shape[0])]
    classes = getattr(estimator, "classes_", None)
    return Subject(
        posteriors=tuple(part.posterior_ for part in parts),
        learned=tuple(part.learned_ for part in parts),
        priors=tuple(part.priors_ for part in parts),
        columns=tuple(str(name) for name in columns),
        targets=tuple(str(name) for name in targets),
        parts=("",) if len(parts) == 1 else tuple(str(label) for label in estimator.classes_),
        weak=isinstance(estimator.priors, str),
        location=getattr(estimator, "_location", 0.0),
        scale=getattr(estimator, "_scale", 1.0),
        classes=classes,
        inference=type(getattr(parts[0], "inference_", None)).__name__,
    )


def warnings_of(estimator: Any) -> list[str]:
    """What speaks against a fit, a sentence each; quickly."""
    return quick_warnings(subject_of(estimator))


class Assessed:
    """What a front door says of its fit: kernel and relevance, and how far to trust it."""

    @property
    def kernel_(self) -> Any:
        """The fitted kernel with its learned numbers; one per class where they differ.

        Examples
        --------
        >>> from covary import GPRegressor
        >>> GPRegressor("fixed(2.0) * Matern52(fixed(3.0))").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]).kernel_
        fixed(2.0) * Matern52(lengthscale=fixed(3.0))
        """
        check_is_fitted(self)
        parts = getattr(self, "estimators_", None)
        return self.model_.kernel if parts is None else [part.model_.kernel for part in parts]  # type: ignore[attr-defined]

    @property
    def relevance_(self) -> np.ndarray:
        """The share of the function's variation that involves each input column, in the order of ``fit``.

        The numbers of :func:`covary.plots.relevance`, which reports and the command show. Of tables with more than 60 columns
        those with the longest length-scales are not looked at and have zero.
        """
        check_is_fitted(self)
        width = subject_of(self).post.data.X.columns
        found = relevance(self, [str(j) for j in range(width)], most=width)
        shares = np.zeros(width)
        shares[[int(name) for name in found.names]] = found.values
        return shares[: self.n_features_in_]  # type: ignore[attr-defined]  # without those that mark missing entries

    def diagnose(self, X: Any = None, y: Any = None) -> Diagnosis:
        """Should I trust it: coverage, calibration, sharpness, structure left in the errors, noise, priors, digits, peaks.

        Every training row is foretold by the others, without fitting again. Each check is a number with a threshold, a
        sentence, advice and a picture: ``print`` the whole, ask for ``.warnings``, or draw ``["coverage"].plot()``.

        Parameters
        ----------
        X
            New inputs (m, d), to be told which lie beyond the data (``.extrapolates``).
        y
            What was seen there: the error bars are then held against these rows instead.

        Examples
        --------
        >>> import numpy as np
        >>> from covary import GPRegressor
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-3, 3, (60, 1))
        >>> model = GPRegressor("1.0 * Matern52()").fit(x, np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(60))
        >>> model.diagnose().ok
        True
        >>> model.diagnose([[0.0], [9.0]]).extrapolates
        array([False,  True])
        """
        check_is_fitted(self)
        if y is not None and X is None:
            raise fail(f"{type(self).__name__}.diagnose", "y is given without X", "give the inputs it was seen at")
        if X is not None:
            X = read_table(self, X, reset=False)
            y = None if y is None else seen_at(self, X, y)
        return diagnose(subject_of(self), X, y)

    def report(self, path: Any = "report.html", X: Any = None, y: Any = None, *, title: str | None = None) -> Path:
        """Write the report of this fit: one HTML file to read, print and share, which needs nothing else.

        What was fitted and how good it is in three sentences; warnings with what to do about each; predictions against truth
        (leave-one-out), calibration, residuals; what each input does; the kernel in plain words; hyperparameters with error
        bars; data, versions and seed.

        Parameters
        ----------
        path
            The file to write.
        X, y
            New rows. With y, predictions are held against these instead of leave-one-out; without it, the report says which
            of them lie beyond the data.
        title
            The page's heading.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from covary import GPRegressor
        >>> x = np.linspace(0, 6, 40)[:, None]
        >>> folder = tempfile.TemporaryDirectory()
        >>> page = GPRegressor("1.0 * Matern52()").fit(x, np.sin(x[:, 0])).report(f"{folder.name}/sine.html")
        >>> page.name, page.read_text("utf-8").startswith("<!doctype html>")
        ('sine.html', True)
        >>> folder.cleanup()
        """
        return self._report(path, X, y, title, str)

    def _report(self, path: Any, X: Any, y: Any, title: str | None, say: Callable[[str], str]) -> Path:
        """The same; ``say`` puts findings and advice into the words of whoever asked."""
        check_is_fitted(self)
        if y is not None and X is None:
            raise fail(f"{type(self).__name__}.report", "y is given without X", "give the inputs it was seen at")
        if X is not None:
            X = read_table(self, X, reset=False)
            y = None if y is None else seen_at(self, X, y)
        rows = Summary.of(self, quick=subject_of(self).post.data.rows > SOON).rows
        return write_report(self, subject_of(self), path, X=X, y=y, parameters=rows, title=title, say=say)


def seen_at(estimator: Any, X: np.ndarray, y: Any) -> np.ndarray:
    """What was seen at new rows, as the model was given it; codes of classes."""
    who = f"{type(estimator).__name__}.diagnose"
    if not hasattr(estimator, "classes_"):
        y = read_targets(who, y, len(X))
        if y.shape[1:] != estimator.posterior_.data.y.shape[1:]:
            raise fail(who, f"y has shape {y.shape}", "give the outputs the model was fitted to")
        return y
    labels = read_known(who, y, len(X), estimator.classes_)
    codes = np.searchsorted(estimator.classes_, labels)
    codes = np.minimum(codes, len(estimator.classes_) - 1)
    strange = estimator.classes_[codes] != labels
    if strange.any():
        raise fail(who, f"y holds {labels[strange][0]!r}, which the model does not know", "leave such rows out")
    return codes.astype(np.float64)
