"""Base class of the estimators: access to the fit and its parts, files, tables of predictions, nested parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from covary._arguments import explained, explained_methods
from covary._checks import fail
from covary._errors import Option
from covary.committee.settings import Committee
from covary.estimators import streamed
from covary.estimators.assessed import Assessed, warnings_of
from covary.estimators.elsewhere import ELSEWHERE, ELSEWHERE_IN_METHODS
from covary.estimators.inputs import check_options
from covary.export import export_model
from covary.families.gaussian_process.disk import Reader, read_source, whole
from covary.families.gaussian_process.fitting import METHODS, Choice
from covary.families.gaussian_process.processes import Process, Processes, processes
from covary.families.gaussian_process.settings import Executor, Method, Seed, Settings, seed_of
from covary.families.gaussian_process.summary import summary_of
from covary.files import save
from covary.files.pages import agree
from covary.fits import AbstractEstimator, Fit, Origin, Summary
from covary.gram.base import AbstractGram
from covary.inference.base import AbstractInference
from covary.inference.plan import AbstractPlan
from covary.kernels.base import AbstractKernel
from covary.kernels.text import parse
from covary.model import Model
from covary.parameters import set_values
from covary.posterior import AbstractPosterior
from covary.selection.learn import Learned
from covary.selection.priors import Density
from covary.tables.columns import Columns
from covary.tables.given import PerRow, Table, Targets
from covary.tables.parquet import Parquet

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.utils import Tags

Path = str | PathLike[str]


def _name_of(estimator: object) -> str:
    return type(estimator).__name__


class GPEstimator(Assessed, AbstractEstimator[Processes], BaseEstimator):
    """Base class of GPRegressor and GPClassifier, not for direct use."""

    method: Method
    missing: str
    random_state: Seed

    _elsewhere = ELSEWHERE
    _elsewhere_in = ELSEWHERE_IN_METHODS

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        explained_methods(cls, _name_of)
        if "__init__" in vars(cls):
            explained(cls, cls.__name__)

    @property
    def _who(self) -> str:
        return type(self).__name__

    def __sklearn_is_fitted__(self) -> bool:
        return "fit_" in vars(self)

    # the fit and its parts ------------------------------------------------------------------------------------------
    @property
    def _process(self) -> Process:
        """Process of a fit with a single one; in one-vs-rest classification, each of ``estimators_`` has one."""
        process, *others = self.fit_.state.parts
        if others:
            raise AttributeError(f"this {self._who} has a model for each class: see estimators_")
        return process

    @property
    def posterior_(self) -> AbstractPosterior:
        """Posterior of the process."""
        return self._process.posterior

    @property
    def model_(self) -> Model:
        """Fitted model: prior and likelihood with their learned parameters."""
        return self._process.model

    @property
    def learned_(self) -> Learned | None:
        """Record of learning; None if nothing was learned."""
        return self._process.learned

    @learned_.setter
    def learned_(self, learned: Learned | None) -> None:
        self.fit_ = replace(self.fit_, state=Processes((replace(self._process, learned=learned),)))

    @property
    def priors_(self) -> Mapping[str, Density]:
        """Priors by parameter path."""
        return self._process.priors

    @property
    def inference_(self) -> AbstractInference:
        """Inference that computed the posterior."""
        return self._process.inference

    @property
    def method_(self) -> Choice:
        """Method in use: its name, gram and inference, and the reason for the choice."""
        one, method = self._process, self.fit_.method
        return Choice(method.name, one.gram, one.inference, method.why)

    @property
    def log_marginal_likelihood_(self) -> float:
        """Log evidence in the units of y, summed over all models."""
        return self.fit_.state.log_evidence

    @property
    def columns_(self) -> Columns:
        """Encoding of each column of a table; not available after a fit to an array of numbers."""
        columns = self.fit_.columns
        if columns.array:
            raise AttributeError(f"this {self._who} was fitted to an array of numbers")
        return columns

    @property
    def target_names_(self) -> list[str]:
        """Names of the targets, if they have names."""
        if not self.fit_.origin.named:
            raise AttributeError(f"the targets of this {self._who} have no names")
        return list(self.fit_.target)

    @target_names_.setter
    def target_names_(self, names: Sequence[str]) -> None:
        self.fit_ = replace(self.fit_, target=tuple(names), origin=replace(self.fit_.origin, named=True))

    # fitting --------------------------------------------------------------------------------------------------------
    def _forget(self) -> None:
        """Delete the results of an earlier fit."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("__")]:
            delattr(self, name)

    def _settings(self) -> Settings:
        return Settings(self._who, **self.get_params(deep=False))

    def _origin(self) -> Origin:
        return Origin(self._who, self.get_params(deep=False))

    def _check_method(self) -> None:
        check_options(self)
        if not isinstance(self.method, AbstractGram | AbstractPlan) and self.method not in METHODS:
            known = ", ".join(map(repr, METHODS))
            what = Option("method") + f" is {self.method!r}"
            raise fail(self._who, what, f"choose one of {known}, or give a gram from covary.gram")

    def _opened(self, X: Table, y: Targets) -> tuple[Table, Targets, Reader | None]:
        """Return rows and targets; a table on disk is read completely if it is small, and sampled otherwise.

        For a sampled table, the third value is the reader of all rows.
        """
        if isinstance(X, str | PathLike):
            do = "give rows of numbers, or Parquet(...) of covary.committee for files on disk"
            raise fail(self._who, Option("X") + f" is {str(X)!r}", do)
        if not isinstance(X, Parquet):
            return X, y, None
        found = read_source(self._who, X, y, self.method, self.missing)
        if found is None:
            return *whole(X, str(y)), None
        seed = seed_of(self._who, self.random_state)
        return *found.sample([name for name in X.names if name != y], seed, self.missing), found

    @classmethod
    def from_fit(cls, fit: Fit[Processes]) -> Self:
        """Return the estimator of a fit, constructed with the arguments in its origin."""
        gram, model = processes(fit, "load").first.gram, super().from_fit(fit)
        agree((fit.classes is not None) == is_classifier(model), "whether it tells classes apart")
        if isinstance(model.method, Committee) and isinstance(gram, Committee) and gram.folder is not None:
            model.method = model.method.replace(folder=gram.folder)  # folder with its rows
        return model

    # using a fit ----------------------------------------------------------------------------------------------------
    def summary(self) -> Summary:
        """Return a readable summary: kernel, parameters with error bars and priors, evidence, course of learning."""
        check_is_fitted(self)
        return summary_of(self.fit_).warned(warnings_of(self.fit_))

    def save(self, path: Path, *, factor: bool | None = None) -> None:
        """Write the fitted model to a file, completely or not at all; :func:`covary.load` reads it."""
        check_is_fitted(self)
        save(self, path, factor=factor)

    def export(self, path: Path, *, std: bool = True, tolerance: float = 1e-10) -> dict[str, float]:
        """Write the fitted model as one Python file that predicts with NumPy alone; see :func:`covary.export.export_model`."""
        check_is_fitted(self)
        return export_model(self, path, std=std, tolerance=tolerance)

    def predict_frame(self, X: Table, *, level: float = 0.95, size: PerRow = None) -> pd.DataFrame:
        """Return predictions as a pandas frame with the index of X.

        The columns for a regressor are ``mean``, ``std``, ``lower`` and ``upper`` (prefixed by the name of the target if
        there are several). Those for a classifier are ``class``, the most probable label, and ``p_<label>``, the probability
        of each label.

        Parameters
        ----------
        X
            New inputs (m, d): a table, or an array, whose rows are numbered from 0.
        level
            Probability of the interval from ``lower`` to ``upper``.
        size
            Number of trials or exposure of the new observations, if the likelihood has them; 1 by default.

        Examples
        --------
        >>> import pandas as pd
        >>> from covary import GPRegressor
        >>> table = pd.DataFrame({"x": [0.0, 1.0, 2.0]}, index=["a", "b", "c"])
        >>> frame = GPRegressor("Matern52()").fit(table, [0.0, 1.0, 0.0]).predict_frame(table)
        >>> list(frame), list(frame.index)
        (['mean', 'std', 'lower', 'upper'], ['a', 'b', 'c'])
        """
        check_is_fitted(self)
        return streamed.predict_frame(self, X, level, size)

    def predict_table(
        self,
        source: Parquet | Path,
        out: Path,
        *,
        columns: Sequence[str] = (),
        level: float = 0.95,
        executor: Executor = None,
        note: Callable[[int, int], None] | None = None,
    ) -> int:
        """Predict a Parquet table of any size, write the predictions as a Parquet file, and return its number of rows.

        The table is processed one row group at a time. The output columns are those of :meth:`predict_frame`. The file is
        written completely or not at all.

        Parameters
        ----------
        source
            A :class:`covary.committee.Parquet`, or the name of a Parquet file or of a folder of them.
        out
            File to write.
        columns
            Columns of the table to copy to the front of the output.
        level
            Probability of the interval from ``lower`` to ``upper``.
        executor
            Workers of a committee, as in the constructor; by default those that fitted it (for a model loaded from a file,
            this process).
        note
            If given, called with (rows finished, total number of rows).

        Examples
        --------
        >>> import tempfile, pandas as pd
        >>> from covary import GPRegressor
        >>> folder = tempfile.mkdtemp()
        >>> pd.DataFrame({"x": [0.0, 1.0, 2.0]}).to_parquet(f"{folder}/new.parquet")
        >>> model = GPRegressor("Matern52()").fit(pd.DataFrame({"x": [0.0, 1.0, 2.0]}), [0.0, 1.0, 0.0])
        >>> model.predict_table(f"{folder}/new.parquet", f"{folder}/out.parquet", columns=["x"])
        3
        >>> list(pd.read_parquet(f"{folder}/out.parquet"))
        ['x', 'mean', 'std', 'lower', 'upper']
        """
        check_is_fitted(self)
        return streamed.predict_table(self, source, out, columns=columns, level=level, executor=executor, note=note)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "refuse"
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__0__lengthscale=2.0`` sets one parameter of the kernel."""
        inside = {k[len("kernel__") :].replace("__", "."): v for k, v in params.items() if k.startswith("kernel__")}
        BaseEstimator.set_params(self, **{k: v for k, v in params.items() if not k.startswith("kernel__")})
        if inside:
            kernel = parse(self.kernel) if isinstance(self.kernel, str) else self.kernel
            if not isinstance(kernel, AbstractKernel):
                what = Option("kernel") + f" is {self.kernel!r}"
                raise fail(f"{self._who}.set_params", what, "set a kernel before its parameters")
            self.kernel = set_values(kernel, inside, who=f"{self._who}.set_params: kernel")
        if "fit_" in vars(self):  # so that a file of this fit contains the current arguments
            self.fit_ = replace(self.fit_, origin=replace(self.fit_.origin, arguments=self.get_params(deep=False)))
        return self

    def _repr_html_(self) -> str:  # type: ignore[override]
        fitted = self.__sklearn_is_fitted__()
        return summary_of(self.fit_, quick=True)._repr_html_() if fitted else f"<pre>{self!r}</pre>"


for _cls in (Assessed, GPEstimator):
    explained_methods(_cls, _name_of)
