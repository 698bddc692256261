"""GPRegressor: Gaussian-process regression with scikit-learn's habits; thin, the work is the trunk's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from covary._checks import as_numbers, check_count, check_positive, fail, shown
from covary._memory import check_draws
from covary._module import Marked
from covary._words import counted
from covary.committee.settings import Committee, extended
from covary.data import Data
from covary.estimators.base import GPEstimator, unmerged
from covary.estimators.defaults import rougher
from covary.estimators.inputs import read_rows, read_table, read_targets, rows_kept
from covary.estimators.observed import named_likelihood
from covary.estimators.options import check_level, random_of
from covary.inference.condition import condition
from covary.inference.exact import Exact
from covary.likelihoods.gaussian import Gaussian
from covary.model import GP, Model
from covary.models.local_scale import local_scale
from covary.optimise.clock import Clock
from covary.posterior import square_root
from covary.selection.starts import starting_values
from covary.updates import append_data, can_append


class GPRegressor(MultiOutputMixin, RegressorMixin, GPEstimator):
    """Gaussian-process regression: predictions with honest error bars.

    With no argument it learns one length-scale per input column, the signal's variance, the noise and a constant mean by
    maximising the evidence under weak priors, from several starts. Every number of the kernel, the noise and the priors is
    in your units.

    Parameters
    ----------
    kernel
        A kernel, its text (``"2*Matern52() + Periodic(period=fixed(1))"``), or None for a Matérn kernel with one
        length-scale per column: 5/2, or 3/2 where the evidence clearly prefers it. Its numbers are where learning starts.
    likelihood
        What lies between the function and the observations: ``"gaussian"`` noise; ``"student_t"`` or ``"laplace"`` noise,
        which wild observations do not move; ``"heteroscedastic"``, Gaussian noise whose size varies with the inputs;
        ``"poisson"`` and ``"negative_binomial"`` counts; ``"binomial"`` successes of so many trials; ``"gamma"``, positive
        with constant relative scatter; ``"ordinal"`` levels 0, 1, 2, ...; or a likelihood from :mod:`covary.likelihoods`.
    inference
        ``"auto"``: exact under Gaussian noise, else Laplace's method (EP for ``"laplace"`` noise); ``"laplace"``, ``"ep"``,
        or an inference object.
    mean
        ``"constant"``, ``"zero"``, ``"linear"``, a mean function, or a plain function of one point (jax.numpy).
    standardise
        Take starting values and default priors from the spread of y, and give every output of a many-column y its own
        location and scale. False: start at the numbers as they stand.
    priors
        ``"default"`` (weak, from the data's scales), None, or distributions by parameter path.
    fixed
        Paths of parameters to hold: ``("kernel.period",)``.
    bounds
        Bounds by path: ``{"likelihood.variance": (1e-4, 1.0)}``.
    noise
        The variance of Gaussian noise to start from; ``fixed(0.01)`` holds it. None: from the data.
    method
        How many rows are handled: ``"auto"`` chooses by size, inputs and memory (``method_`` says what and why);
        ``"exact"``, the dense O(n³) computation; ``"markov"``, exact in O(n) for one input; ``"vecchia"``, nearest
        neighbours; ``"low_rank"``, inducing inputs; ``"svgp"``, the same in batches; ``"subset"``; ``"committee"``, experts on
        parts of the rows; or a gram from :mod:`covary.gram` or :class:`covary.committee.Committee` with its own arguments.
    n_restarts
        Further starts of the search (by default one with mostly noise, one with little); large problems try them on a
        subset of the rows. Of two and more, a column of dates or a single column of inputs
        gets one besides with a short length-scale.
    max_time
        Seconds for the fit: learning returns the best so far in time for what follows it, and local error bars that nobody
        asked for are left out where none is left (``method_`` says so). Ctrl-C ends learning at any time.
    checkpoint
        A file in which learning writes down where it is: the same fit, killed and run again, goes on from there. A committee
        wants a folder.
    executor
        Who works for a committee: None for this process, ``"dask"`` for a process on every core, the address of a Dask
        scheduler (``"tcp://..."``), or an executor from :mod:`covary.executors`.
    objective
        What the hyperparameters maximise: ``"evidence"``; ``"loo"``, the log density of every row given the others (R&W,
        eq. 5.11), which bears a wrong model better; ``"gcv"``, generalised cross-validation; ``"kfold"``, ten folds; or an
        objective from :mod:`covary.selection` with its own arguments. All but the first go with Gaussian noise and
        ``method="exact"``.
    local_errors
        Whether error bars may be wider in one place than in another beyond what noise of one size gives: a second process
        for the size of the errors (:mod:`covary.models.local_scale`). ``"auto"``: where ``method="auto"`` has come to
        neighbours or inducing inputs and rows left out are described clearly better; True, False.
    missing
        What to do about missing inputs: ``"refuse"``; ``"drop"`` such rows; ``"impute"`` the median, or the commonest
        category; ``"indicator"``, the same with a further column that says where. ``summary()`` says what was done.
    seasonality
        Seasons of a column of dates to add to the default kernel: ``"yearly"``, ``"weekly"``, ``"daily"``, or several.
    random_state
        Seed of restarts and subsets.

    Attributes
    ----------
    columns_
        What each column of a pandas or polars table was taken for (dates, categories, ...), and how it becomes numbers.
    kernel_
        The fitted kernel with its learned numbers, in your units (of several outputs, each standardised by its own scale).
    log_marginal_likelihood_
        The log evidence of the fitted model, in the units of y.
    relevance_
        The share of the function's variation that involves each input column, as in the report; computed when asked for.
    method_
        What ``method`` came to: a name, the gram, the inference, and why.
    model_, posterior_, learned_
        The fitted model, its posterior, and how learning went (None if nothing was learned).

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GPRegressor
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = GPRegressor().fit(X, np.sin(X[:, 0]))
    >>> mean, std = model.predict([[1.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 0.01)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: Any = "gaussian",
        inference: Any = "auto",
        mean: Any = "constant",
        standardise: bool = True,
        priors: Any = "default",
        fixed: Sequence[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        noise: Any = None,
        method: Any = "auto",
        n_restarts: int = 2,
        max_time: float | None = None,
        checkpoint: str | None = None,
        executor: Any = None,
        objective: Any = "evidence",
        local_errors: bool | str = "auto",
        missing: str = "refuse",
        seasonality: str | Sequence[str] | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.mean = mean
        self.standardise = standardise
        self.priors = priors
        self.fixed = fixed
        self.bounds = bounds
        self.noise = noise
        self.method = method
        self.n_restarts = n_restarts
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.executor = executor
        self.objective = objective
        self.local_errors = local_errors
        self.missing = missing
        self.seasonality = seasonality
        self.random_state = random_state

    def fit(self, X: Any, y: Any, noise_variance: Any = None, sample_weight: Any = None, size: Any = None) -> GPRegressor:
        """Learn the hyperparameters and condition on the data.

        Parameters
        ----------
        X
            Inputs (n, d); or a table on disk, :class:`covary.committee.Parquet`, with the name of its target as y.
        y
            Targets (n,), or (n, p) for p outputs with one kernel and one noise on standardised outputs.
        noise_variance
            Known variance of Gaussian noise per row, in the units of y squared; added to the learned one.
        sample_weight
            How often each row counts: weight 2 is the same as giving the row twice, weight 0 as leaving it out.
        size
            Trials (binomial) or exposure (counts) per row; one by default.
        """
        self._check_method()
        self._forget()
        X, y = self._opened(X, y)
        self._name_target(y)
        experts = self._reader is not None or isinstance(self.method, Committee) or self.method == "committee"
        if experts and self.local_errors is True:
            raise fail("GPRegressor", "local_errors is True with a committee of experts", "use another method")
        if self._reader is not None:
            self._check_disk(noise_variance=noise_variance, sample_weight=sample_weight, size=size)
        X, y, noise_variance, weight, size = self._read(X, y, noise_variance, sample_weight, size, reset=True)
        likelihood = named_likelihood("GPRegressor", self.likelihood, y)
        inference = self._inference(likelihood)
        self._location, self._scale = np.zeros(y.shape[1:]), np.ones(y.shape[1:])
        if not isinstance(likelihood, Gaussian):
            if self.local_errors is True:
                raise fail("GPRegressor", "local_errors is True under another likelihood", "it goes with Gaussian noise")
            return self._fit_other(X, y, noise_variance, weight, size, likelihood, inference)
        if size is not None:
            raise fail("GPRegressor", "size is given with Gaussian noise", "use it with counts or binomial observations")
        if y.ndim == 2 and self.standardise:
            if noise_variance is not None:
                raise fail(
                    "GPRegressor",
                    "noise_variance is given for several outputs, each standardised by a scale of its own",
                    "set standardise=False, or fit one output at a time",
                )
            self._location = np.average(y, axis=0, weights=weight)
            spread = np.sqrt(np.average((y - self._location) ** 2, axis=0, weights=weight))
            self._scale = np.where((np.ptp(y, axis=0) > 0) & (spread > 0), spread, 1.0)
        data = self._data(X, y, noise_variance, weight, inference)
        start = self._start(data, likelihood)
        self._localise(self._fit(start, data, inference, self._rivals(start)))
        self._finish(data)
        return self

    def _check_disk(self, **given: Any) -> None:
        """Refuse what the experts of a table on disk would never see."""
        for name, value in given.items():
            if value is not None:
                raise fail("GPRegressor", f"{name} is given with a table on disk", "leave it out, or fit to rows in memory")

    def _localise(self, clock: Clock) -> None:
        """Error bars that follow the size of the errors from place to place, where that is wanted and there is time."""
        if self.local_errors not in ("auto", True, False):
            raise fail("GPRegressor", f"local_errors is {self.local_errors!r}", "choose 'auto', True or False")
        always = self.local_errors is True
        if always and self.posterior_.data.y.ndim == 2:
            raise fail("GPRegressor", "local_errors is True with several outputs", "fit one output at a time")
        large = self.local_errors == "auto" and self.method == "auto" and self.method_.name in ("vecchia", "low_rank")
        if not always and not (large and self.posterior_.data.y.ndim == 1):
            return
        again = clock.took["condition"]  # as long again for the process of the errors
        if clock.over(2 * again) and not always:
            self.method_ = replace(self.method_, why=f"{self.method_.why}; max_time left none for local error bars")
            return
        left = None if clock.end is None else max(clock.left() - again, 0.0)
        seed = int(random_of(self._who, self.random_state).randint(2**31))
        found = local_scale(self.posterior_, always=always, key=seed, max_time=left)
        self.posterior_ = replace(self.posterior_, scale=found)

    def _read(self, X: Any, y: Any, noise: Any, weight: Any, size: Any, *, reset: bool) -> tuple[Any, ...]:
        """Everything that goes by rows, without the rows that are left out for missing inputs."""
        X = read_table(self, X, reset=reset, gaps=True)
        y = read_targets("GPRegressor", y, len(X))
        noise = read_rows("GPRegressor", "noise_variance", noise, len(X))
        weight = read_rows("GPRegressor", "sample_weight", weight, len(X), positive=True)
        return rows_kept(X, y, noise, weight, read_rows("GPRegressor", "size", size, len(X)))

    def _fit_other(
        self, X: np.ndarray, y: np.ndarray, noise: Any, weight: Any, size: Any, likelihood: Any, inference: Any
    ) -> GPRegressor:
        """The same under a likelihood that is not Gaussian noise: one output, in its own units, equal rows merged."""
        who, name = "GPRegressor", type(likelihood).__name__
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if noise is not None:
            raise fail(who, f"noise_variance is given with a {name} likelihood", "leave it out, or use Gaussian noise")
        if self.noise is not None:
            raise fail(who, f"noise is given with a {name} likelihood", "give the likelihood with its parameters instead")
        if y.ndim == 2 and not (likelihood.sized and y.shape[1] == 2 and size is None):
            raise fail(who, f"y has {counted(y.shape[1], 'column')}", f"fit one output at a time under a {name} likelihood")
        if size is not None:
            if not likelihood.sized:
                raise fail(who, f"size is given but {name} observations have none", "leave it out")
            y = _pairs(y, size)
        if hasattr(self, "target_names_"):
            self.target_names_ = self.target_names_[:1]  # a second column is the size
        likelihood.check(y, who)
        data = self._rows_that_count(X, y, weight)
        self._fit(self._start(data, likelihood), data, inference)
        self._location, self._scale = np.zeros(()), np.ones(())
        self._finish(data)
        return self

    @staticmethod
    def _rows_that_count(X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Data:
        if weight is not None:
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
            weight = None if (weight == 1).all() else weight
        return Data(X, y, None, weight).merge()

    def _data(self, X: np.ndarray, y: np.ndarray, noise_variance: Any, weight: np.ndarray | None, inference: Any) -> Data:
        """The rows that count, in the units of the model, repeated inputs merged."""
        known = read_rows("GPRegressor", "noise_variance", noise_variance, len(X))
        y = (y - self._location) / self._scale
        if weight is not None and (weight == 0).any():
            kept = weight > 0
            X, y, weight = X[kept], y[kept], weight[kept]
            known = None if known is None else known[kept]
        if weight is not None and (weight == 1).all():
            weight = None
        return self._merged(Data(X, y, known, weight), inference)

    def _merged(self, data: Data, inference: Any) -> Data:
        """Repeated inputs merged, where inference and objective can undo it."""
        return data.collapse() if isinstance(inference, Exact) and not unmerged(self.objective) else data

    def _rivals(self, start: Model) -> list[Model]:
        """The default model with a rougher kernel, where it is the default."""
        if self.kernel is not None:
            return []
        rough = rougher(start.kernel)
        return [] if repr(rough) == repr(start.kernel) else [start.replace(prior=start.prior.replace(kernel=rough))]

    def _finish(self, data: Data) -> None:
        """What follows from posterior and data."""
        count = data.rows if data.weight is None else float(data.weight.sum())
        self.log_marginal_likelihood_ = self.posterior_.log_evidence - count * float(np.log(self._scale).sum())

    def update(self, X: Any, y: Any, noise_variance: Any = None, sample_weight: Any = None, size: Any = None) -> GPRegressor:
        """Add rows to a fitted model without learning its hyperparameters again.

        Parameters
        ----------
        X, y, noise_variance, sample_weight, size
            As in :meth:`fit`, with the same columns and outputs.
        """
        check_is_fitted(self)
        X, y, noise_variance, weight, size = self._read(X, y, noise_variance, sample_weight, size, reset=False)
        held, likelihood = self.posterior_.data, self.model_.likelihood
        if getattr(self.posterior_.bound, "elsewhere", False):
            raise fail("GPRegressor.update", "the model was fitted to a table on disk", "add the rows there and fit again")
        if likelihood.sized:
            y, held = self._with_sizes(y, size, held)
        elif size is not None:
            raise fail("GPRegressor.update", f"size is given but {type(likelihood).__name__} has none", "leave it out")
        if y.shape[1:] != held.y.shape[1:]:
            raise fail("GPRegressor.update", f"y has shape {y.shape}", "give the outputs the model was fitted to")
        if noise_variance is not None and (
            not isinstance(likelihood, Gaussian) or (self._scale.ndim and not (self._scale == 1).all())
        ):
            raise fail("GPRegressor.update", "noise_variance goes with one output under Gaussian noise", "leave it out")
        if isinstance(likelihood, Gaussian):
            new = self._data(X, y, noise_variance, weight, self.inference_)
            joined = held.join(new)
            data = self._merged(joined, self.inference_)
            if data is joined and can_append(self.posterior_):  # no row repeats another: O(n²)
                self.posterior_ = replace(append_data(self.posterior_, new), scale=self.posterior_.scale)
                self._finish(data)
                return self
        else:
            likelihood.check(y, "GPRegressor.update")
            data = held.join(self._rows_that_count(X, y, weight)).merge()
        scale, gram = self.posterior_.scale, self._gram()
        if isinstance(gram, Committee) and isinstance(self.posterior_.bound.models, dict):
            self.posterior_ = extended(self.posterior_, data, gram)
        else:
            self.posterior_ = replace(condition(self.model_, data, inference=self.inference_, gram=gram), scale=scale)
        self._finish(data)
        return self

    @staticmethod
    def _with_sizes(y: np.ndarray, size: Any, held: Data) -> tuple[np.ndarray, Data]:
        """New observations and old ones, both with sizes if either have them."""
        if y.ndim == 1 and (size is not None or held.y.ndim == 2):
            y = _pairs(y, 1.0 if size is None else size)
        if y.ndim == 2 and held.y.ndim == 1:
            held = Data(held.X, np.stack([held.y, np.ones(held.rows)], axis=1), held.noise_variance, held.weight)
        return y, held

    def _start(self, data: Data, likelihood: Any) -> Model:
        """The model learning starts from: the user's numbers where given, the data's own scales elsewhere."""
        columns, latents = data.X.columns, likelihood.latents
        kernel, given = self._kernels(columns, self._default_kernel(columns), latents)
        if latents > 1 and not isinstance(kernel, tuple):
            kernel = (kernel,) * latents
        GP(kernel).check(data.X)
        if isinstance(likelihood, Gaussian) and self.likelihood == "gaussian" and self.noise is not None:
            likelihood = Gaussian(self.noise)
            if not isinstance(self.noise, Marked):
                check_positive("GPRegressor", "noise", self.noise)
        model = Model(GP(kernel, mean=self._mean_function(columns)), likelihood=likelihood)
        natural = self._lasting(starting_values(model, data), data) if self.standardise else model
        if not given:
            model = model.replace(prior=model.prior.replace(kernel=natural.kernel))
        if self.noise is None and isinstance(self.likelihood, str):
            model = model.replace(likelihood=natural.likelihood)
        if isinstance(self.mean, str):  # a mean function that was given starts at its own numbers
            model = model.replace(prior=model.prior.replace(mean=natural.mean))
        return self._held(model)

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, latent: bool = False, size: Any = None
    ) -> Any:
        """Predictions at new inputs.

        Parameters
        ----------
        X
            New inputs (m, d).
        return_std
            Also the standard deviation of a new observation (of the latent function if ``latent``).
        return_cov
            Also the joint covariance (m, m) instead (Gaussian noise, or ``latent``).
        latent
            The latent function instead of a new observation: under Gaussian noise the same mean without the noise, under
            another likelihood the function on its own scale (the log rate of counts, say).
        size
            Trials or exposure of the new observations, where the likelihood has them; one by default.

        Returns
        -------
        mean, or (mean, std), or (mean, cov)
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise fail("GPRegressor.predict", "both return_std and return_cov are set", "ask for one of them")
        return self._predict(read_table(self, X, reset=False), return_std, return_cov, latent, size)

    def _predict(
        self, X: np.ndarray, return_std: bool = False, return_cov: bool = False, latent: bool = False, size: Any = None
    ) -> Any:
        gaussian = isinstance(self.model_.likelihood, Gaussian)
        if gaussian and size is not None:
            raise fail("GPRegressor", "size is given but Gaussian observations have none", "leave it out")
        if gaussian and not (return_std or return_cov):
            return self.posterior_.mean(X) * self._scale + self._location
        if return_cov and not (gaussian or latent):
            raise fail(
                "GPRegressor.predict", "return_cov is set but the noise is not Gaussian", "use latent=True, or return_std"
            )
        prediction = self.posterior_.predict(X, covariance=return_cov, size=size)
        spread = prediction.f if latent else prediction.y
        if not gaussian:
            if return_cov:
                return spread.mean, spread.covariance
            return (spread.mean, spread.std) if return_std else spread.mean
        mean = spread.mean * self._scale + self._location
        if return_std:
            return mean, spread.std * self._scale if mean.ndim == 1 else spread.std[:, None] * self._scale
        cov = spread.covariance
        assert cov is not None
        return mean, cov if mean.ndim == 1 else cov[:, :, None] * self._scale**2

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R² of the predictions, as in scikit-learn.

        Parameters
        ----------
        X, y
            Rows, and what was seen there.
        sample_weight
            How often each row counts.
        """
        mean, who = self.predict(X), "GPRegressor.score"
        y = read_targets(who, y, len(mean))
        if y.size != mean.size:
            raise fail(who, f"y has shape {y.shape} and the predictions {mean.shape}", "give the outputs of fit")
        weight = read_rows(who, "sample_weight", sample_weight, len(mean), positive=True)
        return float(r2_score(y.reshape(mean.shape), mean, sample_weight=weight))

    def predict_interval(
        self, X: Any, level: float = 0.95, latent: bool = False, size: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The central interval that holds a new observation (the function itself if ``latent``) with probability ``level``."""
        level = check_level("GPRegressor.predict_interval", level)
        low, high = self.predict_quantiles(X, (0.5 - level / 2, 0.5 + level / 2), latent=latent, size=size)
        return low, high

    def predict_quantiles(self, X: Any, p: Any = (0.05, 0.5, 0.95), latent: bool = False, size: Any = None) -> np.ndarray:
        """Quantiles of a new observation (of the function if ``latent``): one row of the result for each probability."""
        from scipy.special import ndtri

        check_is_fitted(self)
        levels = np.atleast_1d(as_numbers("GPRegressor.predict_quantiles", "p", p))
        if not ((levels > 0) & (levels < 1)).all():
            raise fail("GPRegressor.predict_quantiles", f"p is {shown(p)}", "give numbers between 0 and 1")
        if isinstance(self.model_.likelihood, Gaussian) and (latent or self.posterior_.scale is None):
            mean, std = self.predict(X, return_std=True, latent=latent, size=size)
            return np.stack([mean + ndtri(q) * std for q in levels])
        prediction = self.posterior_.predict(read_table(self, X, reset=False), size=size)
        spread = prediction.f if latent else prediction.y
        return np.stack([spread.quantile(float(q)) for q in levels])

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, latent: bool = False, size: Any = None) -> np.ndarray:
        """Joint draws of new observations (of the function itself if ``latent``): shape (m, n_samples) or (m, p, n_samples)."""
        check_is_fitted(self)
        rng = random_of("GPRegressor.sample_y", random_state)
        check_count("GPRegressor.sample_y", "n_samples", n_samples, least=1)
        if not isinstance(self.model_.likelihood, Gaussian) or (self.posterior_.scale is not None and not latent):
            X, key = read_table(self, X, reset=False), np.random.default_rng(rng.randint(2**31))
            if self.model_.likelihood.latents > 1 and not latent:
                return self.posterior_.predict(X, size=size).y.sample(n_samples, key=key).T
            if latent:
                return self.posterior_.sample(X, n_samples, key=key).T
            return self.posterior_.sample_y(X, n_samples, key=key, size=size).T
        mean, cov = self.predict(X, return_cov=True, latent=latent, size=size)
        check_draws("GPRegressor.sample_y", n_samples, mean.size)
        if mean.ndim == 1:
            return mean[:, None] + square_root(cov) @ rng.standard_normal((len(mean), n_samples))
        draws = [self._draw(mean[:, j], cov[:, :, j], n_samples, rng) for j in range(mean.shape[1])]
        return np.stack(draws, axis=1)

    @staticmethod
    def _draw(mean: np.ndarray, cov: np.ndarray, n_samples: int, rng: Any) -> np.ndarray:
        return mean[:, None] + square_root(cov) @ rng.standard_normal((len(mean), n_samples))

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """The fit with its error bars, for one or two input columns; see :mod:`covary.plots`."""
        check_is_fitted(self)
        from covary.plots import plot_fit

        if isinstance(self.model_.likelihood, Gaussian) and self.posterior_.data.y.ndim == 2:
            raise fail("GPRegressor.plot", "the model has several outputs", "plot predictions of one output yourself")
        return plot_fit(self.posterior_, ax=ax, names=self._column_names(), **options)


def _pairs(y: np.ndarray, size: Any) -> np.ndarray:
    """Observations with their sizes beside them."""
    each = read_rows("GPRegressor", "size", size, len(y))
    assert each is not None
    return np.stack([y, each], axis=1)
