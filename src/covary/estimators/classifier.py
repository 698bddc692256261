"""GPClassifier: Gaussian-process classification with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from covary._checks import check_count, fail
from covary.estimators.base import GPEstimator
from covary.estimators.inputs import check_level, read_inputs, read_new
from covary.families.gaussian_process.classes import check_choices, learn_classes
from covary.families.gaussian_process.predict import drawn_classes, latent_of_classes, probabilities
from covary.families.gaussian_process.settings import Executor, Kernel, Mean, Method, Prior, Rows, Seed, random_of
from covary.families.gaussian_process.stored import apart
from covary.fits import Labels
from covary.inference.base import AbstractInference
from covary.likelihoods.averages import METHODS
from covary.metrics.decisions import decide
from covary.tables.given import PerRow, Table, Targets, names_of, read_known, read_labels, read_rows, rows_kept

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class GPClassifier(ClassifierMixin, GPEstimator):
    """Gaussian-process classification: class probabilities averaged over the uncertainty of the latent function.

    By default one length-scale per input column and the variances of the latent function and of its offset are learned by
    maximising Laplace's approximation of the evidence under weak priors. A model of two classes has one latent function; a
    model of more classes has one per class, coupled by the softmax. The probabilities of Laplace's method are
    underconfident, mostly with many classes that hardly overlap; ``inference="ep"`` (with ``multi_class="one_vs_rest"``) is
    more accurate and slower.

    Parameters
    ----------
    kernel
        A kernel, its text, a list with one per class (softmax only), or None for a Matérn-5/2 kernel with one
        length-scale per column plus a constant.
    inference
        ``"laplace"``, ``"ep"`` (two classes, or one-vs-rest; more accurate, slower), or an inference object.
    link
        ``"logit"`` or ``"probit"``, for two classes.
    multi_class
        For three or more classes: ``"softmax"``, one joint model, or ``"one_vs_rest"``, a binary model for each class, with
        normalised probabilities.
    class_kernels
        Whether the classes of a softmax share one kernel (``"shared"``) or have separate ones (``"separate"``);
        ``"auto"``: separate if there are at most 100 parameters.
    mean
        The mean of the latent function: ``"zero"``, ``"constant"``, ``"linear"``, a mean function, or a plain function.
    priors
        ``"default"`` (weak, from the scales of the data), None, or distributions by parameter path.
    class_weight
        ``"balanced"``, or a dictionary of the weight of the rows of each class; None gives all rows weight 1.
    fixed, bounds
        Paths of parameters to keep fixed, and bounds by path.
    method
        Algorithm for many rows: ``"auto"`` chooses by size and memory (reported in ``method_``); ``"exact"``, the dense
        O(n³) computation; ``"svgp"``, variational with inducing inputs and mini-batches; ``"low_rank"``, ``"markov"``,
        ``"subset"``, ``"committee"``; or a gram from :mod:`covary.gram` or :class:`covary.committee.Committee`.
    n_restarts
        Number of further starts of the search. With the default kernel, a column of dates or a single input column gets an
        additional start with a short length-scale.
    max_time
        Time limit in seconds: learning stops with the best parameters so far. Ctrl-C has the same effect at any time.
    checkpoint
        A file that records the progress of learning, from which the same fit resumes after an interruption. A committee
        needs a folder.
    executor
        Workers of a committee: None for this process, ``"dask"`` for one process per core, the address of a Dask scheduler
        (``"tcp://..."``), or an executor from :mod:`covary.executors`.
    missing
        Treatment of missing inputs: ``"refuse"`` raises an error, ``"drop"`` leaves such rows out, ``"impute"`` uses the
        median or the most frequent category, ``"indicator"`` adds a column that marks them. ``summary()`` reports it.
    seasonality
        Seasons of a column of dates to add to the default kernel: ``"yearly"``, ``"weekly"``, ``"daily"``, or several.
    random_state
        Seed of restarts and subsets.

    Attributes
    ----------
    classes_
        The labels, sorted.
    columns_
        How each column of a pandas or polars table is encoded (dates, categories, ...).
    kernel_
        The kernel with its learned parameters; a tuple if each class has its own, a list for one-vs-rest.
    log_marginal_likelihood_
        The approximate log evidence (for one-vs-rest the sum over models).
    relevance_
        The fraction of the variance of the function that involves each input column, as in the report; computed on first
        use.
    model_, posterior_, learned_
        The fitted model, its posterior, and the record of learning; for one-vs-rest ``estimators_`` instead.

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GPClassifier
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> model = GPClassifier().fit(X, np.where(np.abs(X[:, 0]) < 1.5, "inside", "outside"))
    >>> model.predict([[0.0], [2.5]])
    array(['inside', 'outside'], dtype='<U7')
    >>> model.predict_proba([[0.0]]).round(1)
    array([[0.9, 0.1]])
    """

    def __init__(
        self,
        kernel: Kernel = None,
        *,
        inference: AbstractInference | str = "laplace",
        link: str = "logit",
        multi_class: str = "softmax",
        class_kernels: str = "auto",
        mean: Mean = "zero",
        priors: Mapping[str, Prior] | str | None = "default",
        class_weight: Mapping[Any, float] | str | None = None,
        fixed: Sequence[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        method: Method = "auto",
        n_restarts: int = 0,
        max_time: float | None = None,
        checkpoint: str | None = None,
        executor: Executor = None,
        missing: str = "refuse",
        seasonality: str | Sequence[str] | None = None,
        random_state: Seed = None,
    ) -> None:
        self.kernel = kernel
        self.inference = inference
        self.link = link
        self.multi_class = multi_class
        self.class_kernels = class_kernels
        self.mean = mean
        self.priors = priors
        self.class_weight = class_weight
        self.fixed = fixed
        self.bounds = bounds
        self.method = method
        self.n_restarts = n_restarts
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.executor = executor
        self.missing = missing
        self.seasonality = seasonality
        self.random_state = random_state

    # fitting --------------------------------------------------------------------------------------------------------
    def fit(self, X: Table, y: Targets, sample_weight: PerRow = None) -> Self:
        """Learn the hyperparameters and condition on the data.

        Parameters
        ----------
        X
            Inputs (n, d); or a table on disk, :class:`covary.committee.Parquet`, with the name of its target as y.
        y
            Class labels (n,): numbers, strings or booleans, with at least two classes.
        sample_weight
            Weight of each row: weight 2 is the same as giving the row twice, weight 0 the same as leaving it out.
        """
        self._check_method()
        settings = self._settings()
        check_choices(settings)
        self._forget()
        X, y, disk = self._opened(X, y)
        x, columns = read_inputs(self, X, None, gaps=True)
        labels = read_labels(self._who, y, len(x))
        weight = read_rows(self._who, "sample_weight", sample_weight, len(x), positive=True)
        x, seen, weight = rows_kept(x, labels, weight)
        assert seen is not None
        rows = Rows(x, seen, columns, names_of(y), weight=weight, disk=disk)
        self.fit_ = learn_classes(settings, rows, self._origin())
        return self

    @property
    def _labels(self) -> Labels:
        classes = self.fit_.classes
        assert classes is not None
        return classes

    @property
    def classes_(self) -> np.ndarray:
        """Class labels, sorted."""
        return self._labels.values

    @property
    def class_count_(self) -> np.ndarray:
        """Number of rows of each class, weighted."""
        return self._labels.counts

    @property
    def estimators_(self) -> list[Self]:
        """Binary estimators of one-vs-rest classification, one per class, whose classes are False and True."""
        if len(self.fit_.state.parts) == 1:
            raise AttributeError("this GPClassifier has one model of all classes: see model_ and posterior_")
        return [type(self).from_fit(one) for one in apart(self.fit_)]

    # predicting -----------------------------------------------------------------------------------------------------
    def predict(self, X: Table) -> np.ndarray:
        """Predict the most probable class of every row (R&W, section 3.1)."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Table, average: str = "exact") -> np.ndarray:
        """Predict class probabilities (m, C), in the order of ``classes_``.

        Parameters
        ----------
        X
            New inputs (m, d).
        average
            ``"exact"``: averaged over the latent function (R&W, eq. 3.25); ``"map"``: at its mean, which is overconfident;
            ``"mackay"`` and ``"erf5"``: two historical approximations of the average, for the logit link only.
        """
        check_is_fitted(self)
        if not isinstance(average, str) or average not in METHODS:
            do = f"choose one of {', '.join(METHODS)}"
            raise fail(f"{self._who}.predict_proba", f"average is {average!r}", do, argument="average")
        return probabilities(self.fit_, read_new(self, X), average)

    def score(self, X: Table, y: Targets, sample_weight: PerRow = None) -> float:
        """Return the accuracy, the fraction of rows whose class is predicted correctly, as in scikit-learn.

        Parameters
        ----------
        X, y
            Inputs and labels.
        sample_weight
            Weight of each row.
        """
        found, who = self.predict(X), f"{self._who}.score"
        labels = read_known(who, y, len(found), self.classes_)
        weight = read_rows(who, "sample_weight", sample_weight, len(found), positive=True)
        return float(np.average(found == labels, weights=weight))

    def predict_log_proba(self, X: Table) -> np.ndarray:
        """Predict the logarithm of the class probabilities."""
        return np.log(self.predict_proba(X))

    def predict_latent(self, X: Table, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean (and standard deviation) of the latent function: (m,) for two classes, (m, C) for more."""
        check_is_fitted(self)
        x = read_new(self, X)
        if len(self.fit_.state.parts) == 1 and not return_std:
            return self.posterior_.mean(x)
        mean, std = latent_of_classes(self.fit_, x)
        return (mean, std) if return_std else mean

    def decision_function(self, X: Table) -> np.ndarray:
        """Return the log odds of the second of two classes (zero on the decision boundary), or log probabilities (m, C)."""
        p = self.predict_proba(X)
        return np.log(p[:, 1]) - np.log(p[:, 0]) if p.shape[1] == 2 else np.log(p)

    def predict_interval(self, X: Table, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the central interval of the probability of the second class under the latent posterior (two classes only)."""
        from scipy.special import ndtri

        check_is_fitted(self)
        level = check_level(f"{self._who}.predict_interval", level)
        if len(self.classes_) > 2:
            raise fail(f"{self._who}.predict_interval", f"there are {len(self.classes_)} classes", "use it with two")
        mean, std = latent_of_classes(self.fit_, read_new(self, X))
        half = ndtri(0.5 + level / 2) * std
        likelihood = self.model_.likelihood
        return likelihood.moments(mean - half).mean, likelihood.moments(mean + half).mean

    def decide(self, X: Table, loss: PerRow, **options: Any) -> np.ndarray:
        """Return the decision of minimum expected loss for every row; see :func:`covary.metrics.decide`.

        Parameters
        ----------
        X
            New inputs (m, d).
        loss
            Loss matrix: entry (c, d) is the loss of deciding for class d when the true class is c.
        """
        return decide(self.predict_proba(X), loss, self.classes_, **options)

    def sample_y(self, X: Table, n_samples: int = 1, random_state: Seed = 0) -> np.ndarray:
        """Draw labels for every row, of shape (m, n_samples); for two classes, jointly through the latent function."""
        check_is_fitted(self)
        check_count(f"{self._who}.sample_y", "n_samples", n_samples, least=1)
        x, who = read_new(self, X), f"{self._who}.sample_y"
        rng = np.random.default_rng(random_of(who, random_state).randint(2**31))
        return self.classes_[drawn_classes(self.fit_, x, n_samples, rng, who)].T

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes | np.ndarray:
        """Plot a map of probabilities with the data for two input columns, otherwise the dependence on each input."""
        check_is_fitted(self)
        from covary.plots import plot_classes

        return plot_classes(self, ax=ax, **options)
