"""What the front doors share: kernels from text, starting values, learning, files, parameters inside the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from covary._arguments import explained, explained_methods
from covary._checks import check_object, fail, shown
from covary._memory import free_memory
from covary._words import counted
from covary.committee.partition import which_column
from covary.committee.settings import Committee
from covary.committee.sources import Parquet
from covary.data import Data
from covary.estimators import stored, streamed
from covary.estimators.assessed import Assessed, warnings_of
from covary.estimators.cells import CATEGORY, DATE
from covary.estimators.defaults import default_kernel, lasting, own_priors, seasons_of
from covary.estimators.given import check_bounds, check_categories, read_kernel
from covary.estimators.inputs import is_frame
from covary.estimators.method import NAMES, Choice, choose
from covary.estimators.options import check_options, random_of
from covary.estimators.summary import Summary
from covary.estimators.tables import Reader, read_source, whole
from covary.executors import as_executor
from covary.export import export_model
from covary.files import save
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.inference.base import AbstractInference
from covary.inference.condition import condition
from covary.inference.ep import EP
from covary.inference.exact import Exact
from covary.inference.laplace import Laplace
from covary.inference.svgp import SVGP
from covary.kernels.base import AbstractKernel
from covary.kernels.text import parse
from covary.likelihoods.gaussian import Gaussian
from covary.means.functions import AbstractMean, Constant, Function, Linear, Zero
from covary.model import Model
from covary.optimise.clock import Clock
from covary.parameters import Packing, bound, freeze, set_values
from covary.selection.learn import learn
from covary.selection.left_out import GeneralisedCrossValidation, KFold, LeaveOneOut
from covary.selection.priors import Priors, default_priors
from covary.selection.starts import brief, ordering, target_scale

OBJECTIVES = {"evidence": None, "loo": LeaveOneOut(), "gcv": GeneralisedCrossValidation(), "kfold": KFold(10)}
SEVERAL = 2  # further starts from which on one with a short length-scale is added
PATIENCE = 120.0  # seconds of work on one core, beyond which a committee is given all of them
INFERENCES = {"exact": Exact, "laplace": Laplace, "ep": EP, "svgp": SVGP}


ELSEWHERE = {  # what the arguments are called by other packages
    "alpha": "write noise=fixed(...) for one variance, or fit(X, y, noise_variance=...) for one per row",
    "normalize_y": "leave it out: y is standardised inside (standardise=False stops it)",
    "n_restarts_optimizer": "n_restarts",
    "optimizer": "write fixed=('*',) to learn nothing, or leave it out",
    "copy_X_train": "leave it out: data are never changed",
    "max_iter_predict": "leave it out",
    "likelihoods": "likelihood",
    "likelihood": "choose link='logit' or 'probit'",
    "noise": "leave it out: classes have no noise variance",
    "mean_function": "mean",
    "mean_module": "mean",
    "covar_module": "kernel",
    "covariance_function": "kernel",
    "noise_variance": "write noise=... for one variance, or fit(X, y, noise_variance=...) for one per row",
    "X": "give data to fit(X, y)",
    "Y": "give data to fit(X, y)",
    "y": "give data to fit(X, y)",
    "data": "give data to fit(X, y)",
    "*": "give the others by name, and data to fit(X, y)",
}


ELSEWHERE_IN_METHODS = {  # ... and those of fit, predict and the others
    "return_var": "square the standard deviation that return_std=True gives",
    "return_variance": "square the standard deviation that return_std=True gives",
    "full_cov": "return_cov",
    "full_covariance": "return_cov",
    "include_noise": "write latent=True to leave the noise out",
    "include_likelihood": "write latent=True to leave the noise out",
    "alpha": "write level=0.95 for an interval that encloses 95 %",
    "confidence": "level",
    "quantiles": "p",
    "q": "p",
    "levels": "p",
    "weights": "sample_weight",
    "weight": "sample_weight",
    "exposure": "size",
    "trials": "size",
    "noise": "noise_variance",
    "y_err": "write noise_variance=y_err**2",
    "yerr": "write noise_variance=yerr**2",
    "epochs": "leave it out: a fit ends by itself, or after the max_time of the constructor",
    "max_iter": "leave it out: a fit ends by itself, or after the max_time of the constructor",
    "n": "n_samples",
    "seed": "random_state",
    "filename": "path",
    "file": "path",
}


def _name_of(estimator: Any) -> str:
    return type(estimator).__name__


def unmerged(objective: Any) -> bool:
    """Whether an objective wants repeated rows as they come."""
    return objective == "gcv" or isinstance(objective, GeneralisedCrossValidation)


class GPEstimator(Assessed, BaseEstimator):
    """The common part of GPRegressor and GPClassifier. Not for use by itself."""

    kernel: Any
    mean: Any
    priors: Any
    fixed: Any
    bounds: Any
    inference: Any
    method: Any
    n_restarts: Any
    max_time: Any
    checkpoint: Any
    executor: Any
    missing: Any
    seasonality: Any
    random_state: Any
    posterior_: Any
    model_: Any
    columns_: Any
    n_features_in_: Any

    _elsewhere = ELSEWHERE
    _elsewhere_in = ELSEWHERE_IN_METHODS

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explained_methods(cls, _name_of)
        if "__init__" in vars(cls):
            explained(cls, cls.__name__)

    @property
    def _who(self) -> str:
        return type(self).__name__

    def _forget(self) -> None:
        """What an earlier fit left behind."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("__")]:
            delattr(self, name)

    def _name_target(self, y: Any) -> None:
        """The names of columns that were given as targets, for reports, files and frames."""
        if hasattr(y, "to_numpy") and isinstance(getattr(y, "name", None), str) and y.name:
            self.target_names_ = [y.name]
        elif is_frame(y) and all(isinstance(name, str) and name for name in y.columns):
            self.target_names_ = list(y.columns)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "log_marginal_likelihood_")

    def _check_method(self) -> None:
        check_options(self)
        if not isinstance(self.method, AbstractGram) and self.method not in NAMES:
            known = ", ".join(map(repr, NAMES))
            raise fail(self._who, f"method is {self.method!r}", f"choose one of {known}, or give a gram from covary.gram")

    def _inference(self, likelihood: Any) -> AbstractInference:
        """How the posterior is approximated under this likelihood."""
        given = self.inference
        check_object(self._who, "inference", given)
        if isinstance(given, AbstractInference):
            return given
        if given == "auto":
            return Exact() if isinstance(likelihood, Gaussian) else Laplace() if likelihood.smooth else EP()
        if not isinstance(given, str) or given not in INFERENCES:
            known = "'laplace', 'ep'" if "classes_" in vars(self) else "'auto', 'exact', 'laplace', 'ep'"
            raise fail(self._who, f"inference is {given!r}", f"choose {known}, or give an inference object")
        return INFERENCES[given]()

    def _kernels(self, columns: int, default: Any, latents: int) -> tuple[Any, bool]:
        """The kernel (a tuple of them where each latent function has its own) and whether the user gave it."""
        if self.kernel is None:
            return default, False
        table = getattr(self, "columns_", None)
        names = table.keys if table is not None and table.named else getattr(self, "feature_names_in_", None)
        kernel = read_kernel(self._who, self.kernel, names)
        if isinstance(kernel, tuple) and len(kernel) != latents:
            do = "give one kernel" + (f", or one for each of {latents} functions" if latents > 1 else ", or their sum")
            raise fail(self._who, f"kernel is a list of {len(kernel)}", do)
        kernel = kernel[0] if isinstance(kernel, tuple) and latents == 1 else kernel
        check_categories(self._who, kernel, self.kernel, table)
        return kernel, True

    def _default_kernel(self, width: int) -> AbstractKernel:
        """The kernel of a table when none is given: Matérn for numbers, Hamming for categories, and the seasons asked for."""
        columns = getattr(self, "columns_", None)
        seasons = seasons_of(self._who, self.seasonality, columns)
        if seasons and self.kernel is not None:
            what = "seasonality is given beside a kernel"
            raise fail(self._who, what, "write the seasons into the kernel, as summary() of a fit without one shows")
        return default_kernel(columns, width, seasons)

    def _lasting(self, model: Model, data: Data) -> Model:
        """Seasons of the default kernel start out as lasting as the data."""
        return lasting(model, np.asarray(data.X.x), () if self.kernel is not None else self.seasonality or ())

    def _column_names(self) -> Any:
        """The names of the columns the kernels see, with units; None if there are none."""
        columns = getattr(self, "columns_", None)
        return getattr(self, "feature_names_in_", None) if columns is None else columns.names

    def _mean_function(self, columns: int) -> AbstractMean:
        mean = self.mean
        check_object(self._who, "mean", mean)
        linear = isinstance(mean, Linear) or (isinstance(mean, str) and mean == "linear")
        if linear and hasattr(self, "columns_") and self.columns_.places(CATEGORY):
            what = f"mean is {shown(mean)} but some columns of X are categories, whose codes have no order"
            raise fail(self._who, what, "use another mean, or leave them out")
        if isinstance(mean, AbstractMean):
            return mean
        if callable(mean):
            return Function(mean)
        known = {"zero": Zero(), "constant": Constant(), "linear": Linear(weight=np.zeros(columns))}
        if not isinstance(mean, str) or mean not in known:
            raise fail(self._who, f"mean is {mean!r}", "choose 'zero', 'constant', 'linear', or give a function")
        return known[mean]

    def _held(self, model: Model) -> Model:
        """The model with the user's fixed parameters and bounds."""
        check_bounds(self._who, self.bounds or {}, model)
        if self.fixed:
            model = freeze(model, self.fixed, who=f"{self._who}: fixed")
        return bound(model, self.bounds, who=f"{self._who}: bounds") if self.bounds else model

    def _fit(self, start: Model, data: Data, inference: AbstractInference, rivals: Any = ()) -> Clock:
        """Learn what is free, and condition; the clock that has run meanwhile."""
        priors = self.priors
        if isinstance(priors, str) and priors == "default":
            own = own_priors(start, data.X.columns, target_scale(data)) if self.kernel is None else {}
            priors = default_priors(start, data) | own
        if isinstance(priors, str):
            raise fail(self._who, f"priors is {priors!r}", "give 'default', None, or distributions by path")
        self.priors_ = Priors(start, priors, who=f"{self._who}: priors").by_path
        self.learned_ = None
        clock = Clock(self.max_time)
        asked = self.inference not in ("auto", "laplace")
        if self._reader is None:
            choice = choose(self._who, self.method, start, data, inference, free=free_memory(), given=asked, clock=clock)
        else:
            choice = self._from_disk(inference)
        table = getattr(choice.gram, "table", None)
        choice = self.method_ = self._where(choice, data.rows if table is None else table.rows)
        self.inference_ = inference = choice.inference
        model: Any = start
        if Packing(start).size:
            seed = int(random_of(self._who, self.random_state).randint(2**31))
            self.learned_ = learn(
                start,
                data,
                inference=inference,
                gram=choice.gram,
                priors=priors,
                n_restarts=self.n_restarts,
                starts=self._short(start, data, choice),
                rivals=rivals,
                max_time=clock,
                reserve=1.0,
                checkpoint=self.checkpoint,
                key=seed,
                objective=self._objective(choice),
            )
            model = self.learned_
        self.model_ = getattr(model, "model", model)
        with clock.timing("condition"):
            self.posterior_ = condition(model, data, inference=inference, gram=choice.gram)
        if table is not None:  # the columns were learned from a sample
            settled = self.posterior_.bound.settled
            dropped = table.rows - settled.rows - settled.left_out.get(table.target, 0)
            self.columns_ = self.columns_.counted(settled.left_out, dropped)
        return clock

    def _short(self, start: Model, data: Data, choice: Choice) -> list[Model]:
        """A start with a short length-scale, on one input or along time: beside others, and of classes beside the only one."""
        several = self.n_restarts >= SEVERAL or (self.kernel is None and hasattr(self, "classes_"))
        columns = getattr(self, "columns_", None)
        dates = [] if columns is None else columns.places(DATE)
        return brief(start, data, dates or ordering(start, data)) if several and not choice.gram.composite else []

    _reader: Reader | None = None

    def _opened(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Rows and targets; of a table on disk a sample, or all of them where they are few."""
        self._reader = None
        if isinstance(X, str | PathLike):
            raise fail(
                self._who, f"X is {str(X)!r}", "give rows of numbers, or Parquet(...) of covary.committee for files on disk"
            )
        if not isinstance(X, Parquet):
            return X, y
        found = read_source(self, X, y)
        if found is None:
            return whole(X, y)
        self._reader = found
        seed = int(random_of(self._who, self.random_state).randint(2**31))
        return found.sample([name for name in X.names if name != y], seed, self.missing)

    def _from_disk(self, inference: AbstractInference) -> Choice:
        """A committee that reads its rows itself."""
        reader = self._reader
        assert reader is not None
        committee = self.method if isinstance(self.method, Committee) else Committee(partition="kd_tree")
        table = reader.table(self, isinstance(inference, Exact))
        why = f"{counted(table.rows, 'row')} on disk, parted among {counted(committee.count(table.rows), 'expert')}"
        self._reader = None
        return Choice("committee", committee.replace(table=table), inference, why)

    def _where(self, choice: Choice, rows: int) -> Choice:
        """The same, worked on by the executor that was given; where rows are parted by a column, told what they are called."""
        if isinstance(choice.gram, Committee):
            choice.gram.check(rows)
        if isinstance(choice.gram, Committee) and choice.gram.partition.startswith("column:"):
            columns = getattr(self, "columns_", None)
            names = getattr(self, "feature_names_in_", None) if columns is None else columns.keys
            width = self.n_features_in_ if columns is None else columns.width
            which_column(choice.gram.partition[len("column:") :], names, width)
            choice = replace(choice, gram=choice.gram.replace(names=None if names is None else tuple(map(str, names))))
        if self.executor is None:
            return self._by_work(choice, rows)
        if not choice.gram.composite:
            what = f"executor is given and the method is {choice.name!r}, which works in this process"
            raise fail(self._who, what, "leave it out, or use method=Committee(...)")
        return replace(choice, gram=choice.gram.replace(executor=self.executor))

    def _by_work(self, choice: Choice, rows: int) -> Choice:
        """A committee with much to do gets a process on every core, where Dask is there and nobody has said who is to work."""
        gram = choice.gram
        if not isinstance(gram, Committee) or gram.executor is not None or not gram.seconds(rows) > PATIENCE:
            return choice
        if find_spec("distributed") is None or as_executor("dask").workers < 2:
            return choice
        why = f"{choice.why}, on {as_executor('dask').workers} processes"
        return replace(choice, gram=gram.replace(executor="dask"), why=why)

    def _objective(self, choice: Any) -> Any:
        """What is maximised over the hyperparameters; None for the evidence."""
        given = getattr(self, "objective", "evidence")
        check_object(self._who, "objective", given)
        if (isinstance(given, str) and given not in OBJECTIVES) or not (
            isinstance(given, str) or (callable(given) and not isinstance(given, AbstractKernel))
        ):
            known = ", ".join(map(repr, OBJECTIVES))
            raise fail(self._who, f"objective is {shown(given)}", f"choose one of {known}, or give an objective")
        found = OBJECTIVES[given] if isinstance(given, str) else given
        if found is not None and not (isinstance(choice.inference, Exact) and isinstance(choice.gram, Dense)):
            raise fail(
                self._who,
                f"objective is {given!r} and the method {choice.name!r}",
                "it goes with Gaussian noise and method='exact'",
            )
        return found

    def _gram(self) -> AbstractGram:
        """How K is handled, with the inducing inputs that were learned or chosen, if any."""
        learned = self.learned_
        if learned is not None and hasattr(learned.gram, "inducing"):
            return learned.gram
        return self.method_.gram

    def summary(self) -> Summary:
        """A table a person can read: kernel, parameters with error bars and priors, evidence, how learning went."""
        check_is_fitted(self)
        return Summary.of(self).warned(warnings_of(self))

    def save(self, path: Any, *, factor: bool | None = None) -> None:
        """Write the fitted model to a file, whole or not at all; :func:`covary.load` reads it. See :mod:`covary.files`."""
        check_is_fitted(self)
        save(self, path, factor=factor)

    def export(self, path: Any, *, std: bool = True, tolerance: float = 1e-10) -> dict[str, float]:
        """Write the fitted model as one Python file that predicts with NumPy alone; see :func:`covary.export.export_model`."""
        check_is_fitted(self)
        return export_model(self, path, std=std, tolerance=tolerance)

    def predict_frame(self, X: Any, *, level: float = 0.95, size: Any = None) -> Any:
        """Predictions as a pandas frame with the index of X.

        Of numbers ``mean``, ``std``, ``lower`` and ``upper`` (for several targets with their names in front); of classes
        ``class``, the most probable label, and ``p_<label>``, the probability of each.

        Parameters
        ----------
        X
            New inputs (m, d): a table, or an array, whose rows are numbered from 0.
        level
            Probability that ``lower`` and ``upper`` enclose.
        size
            Trials or exposure of the new observations, where the likelihood has them; one by default.

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
        source: Any,
        out: Any,
        *,
        columns: Sequence[str] = (),
        level: float = 0.95,
        executor: Any = None,
        note: Callable[[int, int], Any] | None = None,
    ) -> int:
        """Predict a Parquet table of any size and write a Parquet file, row group by row group; how many rows it has.

        Of numbers ``mean``, ``std``, ``lower`` and ``upper`` (for several targets with their names in front); of classes
        ``class`` and ``p_<label>`` for each. The file is written whole or not at all.

        Parameters
        ----------
        source
            A :class:`covary.committee.Parquet`, or the name of a Parquet file or of a folder of them.
        out
            The file to write.
        columns
            Columns of the table to copy, in front.
        level
            Probability that ``lower`` and ``upper`` enclose.
        executor
            Who works for a committee, as in the constructor; by default whoever did so far (for a model from a file: this
            process).
        note
            Called with (rows finished, rows in all).

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
        given: Any = {"columns": columns, "level": level, "executor": executor, "note": note}
        return streamed.predict_table(self, source, out, **given)

    def _to_file(self, factor: bool | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        check_is_fitted(self)
        return stored.to_file(self, factor)

    @classmethod
    def _from_file(cls, record: dict[str, Any], arrays: dict[str, np.ndarray], functions: dict[str, Any]) -> Any:
        return stored.from_file(cls, record, arrays, functions)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "refuse"
        return tags

    def set_params(self, **params: Any) -> Any:
        """Set parameters; ``kernel__0__lengthscale=2.0`` replaces one number inside the kernel."""
        inside = {k[len("kernel__") :].replace("__", "."): v for k, v in params.items() if k.startswith("kernel__")}
        BaseEstimator.set_params(self, **{k: v for k, v in params.items() if not k.startswith("kernel__")})
        if inside:
            kernel = parse(self.kernel) if isinstance(self.kernel, str) else self.kernel
            if not isinstance(kernel, AbstractKernel):
                raise fail(f"{self._who}.set_params", f"kernel is {self.kernel!r}", "set a kernel before its parameters")
            self.kernel = set_values(kernel, inside, who=f"{self._who}.set_params: kernel")
        return self

    def _repr_html_(self) -> str:
        fitted = hasattr(self, "posterior_") or hasattr(self, "estimators_")
        return Summary.of(self, quick=True)._repr_html_() if fitted else f"<pre>{self!r}</pre>"


for _cls in (Assessed, GPEstimator):
    explained_methods(_cls, _name_of)
