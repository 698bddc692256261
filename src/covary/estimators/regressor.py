"""GPRegressor: Gaussian-process regression with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from covary._checks import as_numbers, check_count, fail, shown
from covary._errors import Option
from covary._module import Marked
from covary.estimators.base import GPEstimator
from covary.estimators.inputs import check_level, read_inputs, read_new
from covary.families.gaussian_process.predict import draws, mean_of, quantiles, spread_of
from covary.families.gaussian_process.regression import check_disk, learn_regression, updated
from covary.families.gaussian_process.settings import Executor, Kernel, Mean, Method, Prior, Rows, Score, Seed, random_of
from covary.inference.base import AbstractInference
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.tables.columns import Columns
from covary.tables.given import PerRow, Table, Targets, names_of, read_rows, read_targets, rows_kept

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike


class GPRegressor(MultiOutputMixin, RegressorMixin, GPEstimator):
    """Gaussian-process regression with calibrated error bars.

    By default one length-scale per input column, the signal variance, the noise variance and a constant mean are learned by
    maximising the evidence under weak priors, from several starts. All values of the kernel, the noise and the priors are in
    the units of the data.

    Parameters
    ----------
    kernel
        A kernel, its text (``"2*Matern52() + Periodic(period=fixed(1))"``), or None for a Matérn kernel with one
        length-scale per column: 5/2, or 3/2 if the evidence clearly prefers it. Its parameters are starting values.
    likelihood
        Distribution of the observations: ``"gaussian"`` noise; ``"student_t"`` or ``"laplace"`` noise, robust to outliers;
        ``"heteroscedastic"``, Gaussian noise that depends on the inputs; ``"poisson"`` and ``"negative_binomial"`` counts;
        ``"binomial"`` numbers of successes; ``"gamma"``, positive with constant relative scatter; ``"ordinal"`` levels
        0, 1, 2, ...; or a likelihood from :mod:`covary.likelihoods`.
    inference
        ``"auto"``: exact for Gaussian noise, otherwise Laplace's method (EP for ``"laplace"`` noise); ``"laplace"``,
        ``"ep"``, or an inference object.
    mean
        ``"constant"``, ``"zero"``, ``"linear"``, a mean function, or a plain function of one point (jax.numpy).
    standardise
        Whether to derive starting values and default priors from the spread of y, and to standardise each of several
        outputs separately.
    priors
        ``"default"`` (weak, from the scales of the data), None, or distributions by parameter path.
    fixed
        Paths of parameters to keep fixed: ``("kernel.period",)``.
    bounds
        Bounds by path: ``{"likelihood.variance": (1e-4, 1.0)}``.
    noise
        Starting value of the noise variance; ``fixed(0.01)`` keeps it fixed. None: derived from the data.
    method
        Algorithm for many rows: ``"auto"`` chooses by size, inputs and memory (reported in ``method_``); ``"exact"``, the
        dense O(n³) computation; ``"markov"``, exact in O(n) for one input; ``"vecchia"``, nearest neighbours;
        ``"low_rank"``, inducing inputs; ``"svgp"``, the same with mini-batches; ``"subset"``; ``"committee"``, rows split
        across experts; or a gram from :mod:`covary.gram` or :class:`covary.committee.Committee` with its own arguments.
    n_restarts
        Number of further starts of the search (the first ones with much and with little noise); large problems try them on
        a subset of the rows. With two or more, a column of dates or a single input column gets an additional start with a
        short length-scale.
    max_time
        Time limit of the fit in seconds: learning stops early enough with the best parameters so far, and local error bars
        are omitted if no time is left (reported in ``method_``). Ctrl-C stops learning at any time.
    checkpoint
        A file that records the progress of learning, from which the same fit resumes after an interruption. A committee
        needs a folder.
    executor
        Workers of a committee: None for this process, ``"dask"`` for one process per core, the address of a Dask scheduler
        (``"tcp://..."``), or an executor from :mod:`covary.executors`.
    objective
        Objective for the hyperparameters: ``"evidence"``; ``"loo"``, the leave-one-out log density (R&W, eq. 5.11), which is
        more robust to misspecification; ``"gcv"``, generalised cross-validation; ``"kfold"``, ten folds; or an objective
        from :mod:`covary.selection` with its own arguments. All but the first need Gaussian noise and ``method="exact"``.
    local_errors
        Whether the size of the error bars may vary over the inputs, by a second process for the size of the errors
        (:mod:`covary.models.local_scale`). ``"auto"``: if ``method="auto"`` has chosen neighbours or inducing inputs, and
        this clearly improves the predictive density of held-out rows; True, False.
    missing
        Treatment of missing inputs: ``"refuse"`` raises an error, ``"drop"`` leaves such rows out, ``"impute"`` uses the
        median or the most frequent category, ``"indicator"`` adds a column that marks them. ``summary()`` reports it.
    seasonality
        Seasons of a column of dates to add to the default kernel: ``"yearly"``, ``"weekly"``, ``"daily"``, or several.
    random_state
        Seed of restarts and subsets.

    Attributes
    ----------
    columns_
        How each column of a pandas or polars table is encoded (dates, categories, ...).
    kernel_
        The kernel with its learned parameters, in the units of the data (several outputs are standardised).
    log_marginal_likelihood_
        The log evidence of the fitted model, in the units of y.
    relevance_
        The fraction of the variance of the function that involves each input column, as in the report; computed on first
        use.
    method_
        The method in use: its name, gram and inference, and the reason.
    model_, posterior_, learned_
        The fitted model, its posterior, and the record of learning (None if nothing was learned).

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
        kernel: Kernel = None,
        *,
        likelihood: AbstractLikelihood | str = "gaussian",
        inference: AbstractInference | str = "auto",
        mean: Mean = "constant",
        standardise: bool = True,
        priors: Mapping[str, Prior] | str | None = "default",
        fixed: Sequence[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        noise: float | Marked | None = None,
        method: Method = "auto",
        n_restarts: int = 2,
        max_time: float | None = None,
        checkpoint: str | None = None,
        executor: Executor = None,
        objective: Score | str = "evidence",
        local_errors: bool | str = "auto",
        missing: str = "refuse",
        seasonality: str | Sequence[str] | None = None,
        random_state: Seed = None,
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

    def fit(
        self, X: Table, y: Targets, noise_variance: PerRow = None, sample_weight: PerRow = None, size: PerRow = None
    ) -> Self:
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
            Weight of each row: weight 2 is the same as giving the row twice, weight 0 the same as leaving it out.
        size
            Number of trials (binomial) or exposure (counts) per row; 1 by default.
        """
        self._check_method()
        self._forget()
        X, y, disk = self._opened(X, y)
        settings = self._settings()
        check_disk(settings, disk is not None, noise_variance=noise_variance, sample_weight=sample_weight, size=size)
        rows = self._rows(X, y, noise_variance, sample_weight, size, None)
        self.fit_ = learn_regression(settings, replace(rows, target=names_of(y), disk=disk), self._origin())
        return self

    def _rows(self, X: Table, y: Targets, noise: PerRow, weight: PerRow, size: PerRow, columns: Columns | None) -> Rows:
        """Return all per-row arrays, without the rows left out because of missing inputs."""
        who = self._who
        x, columns = read_inputs(self, X, columns, gaps=True)
        seen = read_targets(who, y, len(x))
        known = read_rows(who, "noise_variance", noise, len(x))
        counts = read_rows(who, "sample_weight", weight, len(x), positive=True)
        x, targets, known, counts, sizes = rows_kept(x, seen, known, counts, read_rows(who, "size", size, len(x)))
        assert targets is not None
        return Rows(x, targets, columns, noise=known, weight=counts, size=sizes)

    def update(
        self, X: Table, y: Targets, noise_variance: PerRow = None, sample_weight: PerRow = None, size: PerRow = None
    ) -> Self:
        """Add rows to a fitted model without relearning its hyperparameters.

        Parameters
        ----------
        X, y, noise_variance, sample_weight, size
            As in :meth:`fit`, with the same columns and outputs.
        """
        check_is_fitted(self)
        rows = self._rows(X, y, noise_variance, sample_weight, size, self.fit_.columns)
        self.fit_ = updated(self.fit_, rows, self._settings())
        return self

    def predict(
        self, X: Table, return_std: bool = False, return_cov: bool = False, latent: bool = False, size: PerRow = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict at new inputs.

        Parameters
        ----------
        X
            New inputs (m, d).
        return_std
            Whether to return the standard deviation of a new observation (of the latent function if ``latent``) as well.
        return_cov
            Whether to return the joint covariance (m, m) as well (Gaussian noise, or ``latent``).
        latent
            Whether to predict the latent function instead of a new observation. With Gaussian noise, this has the same mean
            without the noise; with other likelihoods, it is the function on its own scale (such as the log rate of counts).
        size
            Number of trials or exposure of the new observations, if the likelihood has them; 1 by default.

        Returns
        -------
        mean, or (mean, std), or (mean, cov)
        """
        check_is_fitted(self)
        if return_std and return_cov:
            what = "both " + Option("return_std") + " and " + Option("return_cov") + " are set"
            raise fail("GPRegressor.predict", what, "set one of them")
        process, x = self._process, read_new(self, X)
        if not (return_std or return_cov):
            return mean_of(self.fit_, process, x, latent=latent, size=size)
        found = spread_of(self.fit_, process, x, latent=latent, joint=return_cov, size=size)
        spread = found.covariance if return_cov else found.std
        assert spread is not None
        return found.mean, spread

    def score(self, X: Table, y: Targets, sample_weight: PerRow = None) -> float:
        """Return the coefficient of determination R² of the predictions, as in scikit-learn.

        Parameters
        ----------
        X, y
            Inputs and targets.
        sample_weight
            Weight of each row.
        """
        mean, who = np.asarray(self.predict(X)), "GPRegressor.score"
        seen = read_targets(who, y, len(mean))
        if seen.size != mean.size:
            what = Option("y") + f" has shape {seen.shape} but the predictions have shape {mean.shape}"
            raise fail(who, what, "give the outputs the model was fitted to")
        weight = read_rows(who, "sample_weight", sample_weight, len(mean), positive=True)
        return float(r2_score(seen.reshape(mean.shape), mean, sample_weight=weight))

    def predict_interval(
        self, X: Table, level: float = 0.95, latent: bool = False, size: PerRow = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the central interval of probability ``level`` for a new observation (the function if ``latent``)."""
        level = check_level("GPRegressor.predict_interval", level)
        low, high = self.predict_quantiles(X, (0.5 - level / 2, 0.5 + level / 2), latent=latent, size=size)
        return low, high

    def predict_quantiles(
        self, X: Table, p: ArrayLike = (0.05, 0.5, 0.95), latent: bool = False, size: PerRow = None
    ) -> np.ndarray:
        """Return quantiles of a new observation (of the function if ``latent``), with one row per probability."""
        check_is_fitted(self)
        who = "GPRegressor.predict_quantiles"
        levels = np.atleast_1d(as_numbers(who, "p", p))
        if not ((levels > 0) & (levels < 1)).all():
            raise fail(who, f"p is {shown(p)}", "give numbers between 0 and 1", argument="p")
        return quantiles(self.fit_, read_new(self, X), levels, latent=latent, size=size)

    def sample_y(
        self, X: Table, n_samples: int = 1, random_state: Seed = 0, latent: bool = False, size: PerRow = None
    ) -> np.ndarray:
        """Draw joint samples of new observations (of the function if ``latent``): (m, n_samples) or (m, p, n_samples)."""
        check_is_fitted(self)
        rng = random_of("GPRegressor.sample_y", random_state)
        check_count("GPRegressor.sample_y", "n_samples", n_samples, least=1)
        return draws(self.fit_, read_new(self, X), n_samples, rng, latent=latent, size=size)

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes | np.ndarray:
        """Plot the fit with its error bars, for one or two input columns; see :mod:`covary.plots`."""
        check_is_fitted(self)
        from covary.plots import plot_fit

        if isinstance(self.model_.likelihood, Gaussian) and self.posterior_.data.y.ndim == 2:
            raise fail("GPRegressor.plot", "the model has several outputs", "plot the predictions of one output instead")
        return plot_fit(self, ax=ax, **options)
