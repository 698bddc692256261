"""GPRegressor: Gaussian-process regression with scikit-learn's habits; thin, the work is the trunk's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from covary._checks import check_positive, fail
from covary._module import Marked
from covary.data import Data
from covary.estimators import stored
from covary.estimators.inputs import read_rows, read_table, read_targets
from covary.estimators.summary import Summary
from covary.files import save
from covary.inference.condition import condition
from covary.kernels.base import AbstractKernel
from covary.kernels.stationary import Matern32, Matern52
from covary.kernels.text import parse
from covary.likelihoods.gaussian import Gaussian
from covary.means.functions import AbstractMean, Constant, Function, Linear, Zero
from covary.model import GP, Model
from covary.parameters import Packing, bound, freeze, set_values
from covary.posterior import square_root
from covary.selection.learn import learn
from covary.selection.priors import Priors, default_priors
from covary.selection.starts import starting_values


class GPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian-process regression: predictions with honest error bars.

    With no argument it learns one length-scale per input column, the signal's variance, the noise and a constant mean by
    maximising the evidence under weak priors, from several starts. Every number of the kernel, the noise and the priors is
    in your units.

    Parameters
    ----------
    kernel
        A kernel, its text (``"2*Matern52() + Periodic(period=fixed(1))"``), or None for a Matérn kernel with one
        length-scale per column: 5/2, or 3/2 where the evidence clearly prefers it. Its numbers are where learning starts.
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
        The noise variance to start from; ``fixed(0.01)`` holds it. None: from the data.
    method
        ``"auto"`` or ``"exact"``: the dense O(n³) computation.
    n_restarts
        Further starts of the search (by default one with mostly noise, one with little); large problems try them on a
        subset of the rows.
    max_time
        Seconds after which learning returns the best so far.
    random_state
        Seed of restarts and subsets.

    Attributes
    ----------
    log_marginal_likelihood_
        The log evidence of the fitted model, in the units of y.
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
        mean: Any = "constant",
        standardise: bool = True,
        priors: Any = "default",
        fixed: Sequence[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        noise: Any = None,
        method: str = "auto",
        n_restarts: int = 2,
        max_time: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.mean = mean
        self.standardise = standardise
        self.priors = priors
        self.fixed = fixed
        self.bounds = bounds
        self.noise = noise
        self.method = method
        self.n_restarts = n_restarts
        self.max_time = max_time
        self.random_state = random_state

    def fit(self, X: Any, y: Any, noise_variance: Any = None, sample_weight: Any = None) -> GPRegressor:
        """Learn the hyperparameters and condition on the data.

        Parameters
        ----------
        X
            Inputs (n, d).
        y
            Targets (n,), or (n, p) for p outputs with one kernel and one noise on standardised outputs.
        noise_variance
            Known noise variance per row, in the units of y squared; added to the learned one.
        sample_weight
            How often each row counts: weight 2 is the same as giving the row twice, weight 0 as leaving it out.
        """
        X = read_table(self, X, reset=True)
        y = read_targets("GPRegressor", y, len(X))
        if self.method not in ("auto", "exact"):
            raise fail("GPRegressor", f"method is {self.method!r}", "choose 'auto' or 'exact'")
        self._location, self._scale = np.zeros(y.shape[1:]), np.ones(y.shape[1:])
        weight = read_rows("GPRegressor", "sample_weight", sample_weight, len(X), positive=True)
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
        data = self._data(X, y, noise_variance, weight)
        start = self._start(data)
        priors = default_priors(start, data) if isinstance(self.priors, str) and self.priors == "default" else self.priors
        if isinstance(priors, str):
            raise fail("GPRegressor", f"priors is {priors!r}", "give 'default', None, or distributions by path")
        self.priors_ = Priors(start, priors).by_path
        self.learned_ = None
        model: Any = start
        if Packing(start).size:
            seed = int(check_random_state(self.random_state).randint(2**31))
            rivals = [_rougher(start)] if self.kernel is None else []
            self.learned_ = learn(
                start, data, priors=priors, n_restarts=self.n_restarts, rivals=rivals, max_time=self.max_time, key=seed
            )
            model = self.learned_.model
        self.model_ = model
        self.posterior_ = condition(model, data)
        self._finish(data)
        return self

    def _data(self, X: np.ndarray, y: np.ndarray, noise_variance: Any, weight: np.ndarray | None) -> Data:
        """The rows that count, in the units of the model, repeated inputs merged."""
        known = read_rows("GPRegressor", "noise_variance", noise_variance, len(X))
        y = (y - self._location) / self._scale
        if weight is not None and (weight == 0).any():
            kept = weight > 0
            X, y, weight = X[kept], y[kept], weight[kept]
            known = None if known is None else known[kept]
        if weight is not None and (weight == 1).all():
            weight = None
        return Data(X, y, known, weight).collapse()

    def _finish(self, data: Data) -> None:
        """What follows from posterior and data."""
        count = data.rows if data.weight is None else float(data.weight.sum())
        self.log_marginal_likelihood_ = self.posterior_.log_evidence - count * float(np.log(self._scale).sum())

    def update(self, X: Any, y: Any, noise_variance: Any = None, sample_weight: Any = None) -> GPRegressor:
        """Add rows to a fitted model without learning its hyperparameters again.

        Parameters
        ----------
        X, y, noise_variance, sample_weight
            As in :meth:`fit`, with the same columns and outputs.
        """
        check_is_fitted(self)
        X = read_table(self, X, reset=False)
        y = read_targets("GPRegressor", y, len(X))
        if y.shape[1:] != self._location.shape:
            raise fail("GPRegressor.update", f"y has shape {y.shape}", "give the outputs the model was fitted to")
        if noise_variance is not None and self._scale.ndim and not (self._scale == 1).all():
            raise fail("GPRegressor.update", "noise_variance is given for several standardised outputs", "leave it out")
        weight = read_rows("GPRegressor", "sample_weight", sample_weight, len(X), positive=True)
        data = self.posterior_.data.join(self._data(X, y, noise_variance, weight)).collapse()
        self.posterior_ = condition(self.model_, data)
        self._finish(data)
        return self

    def _start(self, data: Data) -> Model:
        """The model learning starts from: the user's numbers where given, the data's own scales elsewhere."""
        kernel = self.kernel
        if isinstance(kernel, str):
            kernel = parse(kernel)
        if kernel is not None and not isinstance(kernel, AbstractKernel):
            raise fail("GPRegressor", f"kernel is {kernel!r}", "give a kernel from covary.kernels or its text")
        given = kernel
        if given is not None:
            GP(given).check(data.X)
        kernel = 1.0 * Matern52(lengthscale=np.ones(data.X.columns)) if kernel is None else kernel
        model = Model(GP(kernel, mean=_mean(self.mean, data)), likelihood=Gaussian(1.0 if self.noise is None else self.noise))
        if self.noise is not None and not isinstance(self.noise, Marked):
            check_positive("GPRegressor", "noise", self.noise)
        natural = starting_values(model, data) if self.standardise else model
        if given is None:
            model = model.replace(prior=model.prior.replace(kernel=natural.kernel))
        if self.noise is None:
            model = model.replace(likelihood=natural.likelihood)
        if isinstance(self.mean, str):  # a mean function that was given starts at its own numbers
            model = model.replace(prior=model.prior.replace(mean=natural.mean))
        if self.fixed:
            model = freeze(model, self.fixed)
        return bound(model, self.bounds) if self.bounds else model

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, latent: bool = False) -> Any:
        """Predictions at new inputs.

        Parameters
        ----------
        X
            New inputs (m, d).
        return_std
            Also the standard deviation of a new observation (of the noise-free function if ``latent``).
        return_cov
            Also the joint covariance (m, m) instead.
        latent
            Leave the noise out of the spread.

        Returns
        -------
        mean, or (mean, std), or (mean, cov)
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise fail("GPRegressor.predict", "both return_std and return_cov are set", "ask for one of them")
        return self._predict(read_table(self, X, reset=False), return_std, return_cov, latent)

    def _predict(self, X: np.ndarray, return_std: bool = False, return_cov: bool = False, latent: bool = False) -> Any:
        if not (return_std or return_cov):
            return self.posterior_.mean(X) * self._scale + self._location
        prediction = self.posterior_.predict(X, covariance=return_cov)
        spread = prediction.f if latent else prediction.y
        mean = spread.mean * self._scale + self._location
        if return_std:
            return mean, spread.std * self._scale if mean.ndim == 1 else spread.std[:, None] * self._scale
        cov = spread.covariance
        assert cov is not None
        return mean, cov if mean.ndim == 1 else cov[:, :, None] * self._scale**2

    def predict_interval(self, X: Any, level: float = 0.95, latent: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The central interval that holds a new observation (the function itself if ``latent``) with probability ``level``."""
        from scipy.special import ndtri

        if not 0 < level < 1:
            raise fail("GPRegressor.predict_interval", f"level is {level}", "give a number between 0 and 1, such as 0.95")
        mean, std = self.predict(X, return_std=True, latent=latent)
        half = ndtri(0.5 + level / 2) * std
        return mean - half, mean + half

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, latent: bool = False) -> np.ndarray:
        """Joint draws of new observations (of the function itself if ``latent``): shape (m, n_samples) or (m, p, n_samples)."""
        mean, cov = self.predict(X, return_cov=True, latent=latent)
        rng = check_random_state(random_state)
        if mean.ndim == 1:
            return mean[:, None] + square_root(cov) @ rng.standard_normal((len(mean), n_samples))
        draws = [self._draw(mean[:, j], cov[:, :, j], n_samples, rng) for j in range(mean.shape[1])]
        return np.stack(draws, axis=1)

    @staticmethod
    def _draw(mean: np.ndarray, cov: np.ndarray, n_samples: int, rng: Any) -> np.ndarray:
        return mean[:, None] + square_root(cov) @ rng.standard_normal((len(mean), n_samples))

    def summary(self) -> Summary:
        """A table a person can read: kernel, parameters with error bars and priors, evidence, noise, jitter, time."""
        check_is_fitted(self)
        return Summary.of(self)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """The fit with its error bars, for one or two input columns; see :mod:`covary.plots`."""
        check_is_fitted(self)
        from covary.plots import plot_fit

        if self.posterior_.data.y.ndim == 2:
            raise fail("GPRegressor.plot", "the model has several outputs", "plot predictions of one output yourself")
        return plot_fit(self.posterior_, ax=ax, names=getattr(self, "feature_names_in_", None), **options)

    def save(self, path: Any, *, factor: bool | None = None) -> None:
        """Write the fitted model to a file, whole or not at all; :func:`covary.load` reads it. See :mod:`covary.files`."""
        check_is_fitted(self)
        save(self, path, factor=factor)

    def _to_file(self, factor: bool | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        check_is_fitted(self)
        return stored.to_file(self, factor)

    @classmethod
    def _from_file(cls, record: dict[str, Any], arrays: dict[str, np.ndarray], functions: dict[str, Any]) -> GPRegressor:
        return stored.from_file(cls, record, arrays, functions)

    def set_params(self, **params: Any) -> GPRegressor:
        """Set parameters; ``kernel__0__lengthscale=2.0`` replaces one number inside the kernel."""
        inside = {k[len("kernel__") :].replace("__", "."): v for k, v in params.items() if k.startswith("kernel__")}
        super().set_params(**{k: v for k, v in params.items() if not k.startswith("kernel__")})
        if inside:
            kernel = parse(self.kernel) if isinstance(self.kernel, str) else self.kernel
            if kernel is None:
                raise fail("GPRegressor.set_params", "kernel is None", "set a kernel before its parameters")
            self.kernel = set_values(kernel, inside)
        return self

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_() if hasattr(self, "posterior_") else f"<pre>{self!r}</pre>"


def _rougher(model: Model) -> Model:
    """The default model with a Matérn-3/2 kernel in the place of the Matérn-5/2."""
    smooth = model.kernel.kernel
    rough = Matern32(lengthscale=smooth.lengthscale)
    for name, mark in smooth._marks:
        rough = rough.with_mark(name, mark)
    return model.replace(prior=model.prior.replace(kernel=model.kernel.replace(kernel=rough)))


def _mean(mean: Any, data: Data) -> AbstractMean:
    if isinstance(mean, AbstractMean):
        return mean
    if callable(mean):
        return Function(mean)
    known = {"zero": Zero(), "constant": Constant(), "linear": Linear(weight=np.zeros(data.X.columns))}
    if not isinstance(mean, str) or mean not in known:
        raise fail("GPRegressor", f"mean is {mean!r}", "choose 'zero', 'constant', 'linear', or give a function")
    return known[mean]
