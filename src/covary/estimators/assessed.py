"""The ``diagnose`` and ``report`` methods of the estimators."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted

from covary._checks import fail
from covary._errors import Option
from covary.diagnosis import Diagnosis, diagnose, quick_warnings
from covary.estimators.inputs import read_new
from covary.families.gaussian_process.processes import Processes
from covary.fits import Fit
from covary.kernels.base import AbstractKernel
from covary.plots.relevance import relevance
from covary.report import write_report
from covary.tables.given import Table, Targets, read_known, read_targets


def warnings_of(fit: Fit[Processes]) -> list[str]:
    """Return the warnings about a fit that are fast to compute."""
    return quick_warnings(fit)


class Assessed:
    """Base class with the kernel, relevance, diagnosis and report of a fitted estimator."""

    fit_: Fit[Processes]
    missing: str

    @property
    def kernel_(self) -> AbstractKernel | tuple[AbstractKernel, ...] | list[AbstractKernel | tuple[AbstractKernel, ...]]:
        """Fitted kernel with its learned parameters; one per class if they differ.

        Examples
        --------
        >>> from covary import GPRegressor
        >>> GPRegressor("fixed(2.0) * Matern52(fixed(3.0))").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]).kernel_
        fixed(2.0) * Matern52(lengthscale=fixed(3.0))
        """
        check_is_fitted(self)
        each = [part.model.kernel for part in self.fit_.state.parts]
        return each[0] if len(each) == 1 else each

    @property
    def relevance_(self) -> np.ndarray:
        """Fraction of the variance of the function that involves each input column, in the order of ``fit``.

        These are the values of :func:`covary.plots.relevance`, which reports and the command show. For tables with more than
        60 columns, those with the longest length-scales are not evaluated and get zero.
        """
        check_is_fitted(self)
        width = self.fit_.columns.width
        found = relevance(self.fit_, [str(j) for j in range(width)], most=width)
        shares = np.zeros(width)
        shares[[int(name) for name in found.names]] = found.values
        return shares[: len(self.fit_.columns.each)]  # without missing-value indicators

    def diagnose(self, X: Table | None = None, y: Targets | None = None) -> Diagnosis:
        """Check whether the fit can be trusted.

        The checks cover coverage, calibration, sharpness, structure in the residuals, noise, priors, numerical precision and
        multiple optima. They are based on leave-one-out predictions of the training rows, which need no refitting. Each check
        is a number with a threshold, a verdict and advice: ``print`` the diagnosis, read ``.warnings``, or plot a check with
        ``["coverage"].plot()``.

        Parameters
        ----------
        X
            New inputs (m, d), to find those that lie outside the range of the data (``.extrapolates``).
        y
            Observations at X. If given, the error bars are compared with these rows instead.

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
            what = Option("y") + " is given without X"
            raise fail(f"{type(self).__name__}.diagnose", what, "give the inputs of these observations")
        return diagnose(self.fit_, *self._held_out(X, y))

    def report(
        self,
        path: str | PathLike[str] = "report.html",
        X: Table | None = None,
        y: Targets | None = None,
        *,
        title: str | None = None,
    ) -> Path:
        """Write a report of this fit as a single, self-contained HTML file.

        The report has a short summary of the model and its accuracy, warnings with advice, predicted against observed values
        (leave-one-out), calibration, residuals, the effect of each input, a description of the kernel, hyperparameters with
        error bars, and the data, versions and seed.

        Parameters
        ----------
        path
            File to write.
        X, y
            New rows. With y, predictions are compared with these rows instead of by leave-one-out; without y, the report
            lists the rows that lie outside the range of the data.
        title
            Heading of the page.

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

    def _report(
        self, path: str | PathLike[str], X: Table | None, y: Targets | None, title: str | None, say: Callable[[str], str]
    ) -> Path:
        """Write the report; ``say`` renders findings and advice."""
        check_is_fitted(self)
        if y is not None and X is None:
            what = Option("y") + " is given without X"
            raise fail(f"{type(self).__name__}.report", what, "give the inputs of these observations")
        x, seen = self._held_out(X, y)
        return write_report(self.fit_, path, x=x, y=seen, title=title, say=say)

    def _held_out(self, X: Table | None, y: Targets | None) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return new rows as the matrix passed to kernels, and their targets in the form used by the model (class codes)."""
        if X is None:
            return None, None
        x, who, fit = read_new(self, X), f"{type(self).__name__}.diagnose", self.fit_
        if y is None:
            return x, None
        if fit.classes is None:
            seen = read_targets(who, y, len(x))
            if seen.shape[1:] != fit.state.first.posterior.data.y.shape[1:]:
                raise fail(who, Option("y") + f" has shape {seen.shape}", "give the outputs the model was fitted to")
            return x, seen
        values = fit.classes.values
        labels = read_known(who, y, len(x), values)
        codes = np.minimum(np.searchsorted(values, labels), len(values) - 1)
        strange = values[codes] != labels
        if strange.any():
            what = Option("y") + f" contains {labels[strange].tolist()[0]!r}, which is not a class of the model"
            raise fail(who, what, "leave such rows out")
        return x, codes.astype(np.float64)
