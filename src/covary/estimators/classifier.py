"""GPClassifier: Gaussian-process classification with scikit-learn's habits; thin, the work is the trunk's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from covary._checks import check_count, fail
from covary._memory import check_draws
from covary.data import Data, Inputs
from covary.estimators.base import GPEstimator
from covary.estimators.inputs import read_known, read_labels, read_rows, read_table, rows_kept
from covary.estimators.options import check_level, random_of
from covary.inference.ep import EP
from covary.kernels.dot_product import Constant
from covary.likelihoods.averages import METHODS
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.softmax import Softmax
from covary.metrics.decisions import decide
from covary.model import GP, Model
from covary.parameters import Packing
from covary.selection.starts import starting_values

MOST_PARAMETERS = 100  # of all classes together, for each to learn its own kernel


class GPClassifier(ClassifierMixin, GPEstimator):
    """Gaussian-process classification: class probabilities with the uncertainty of the function in them.

    With no argument it learns one length-scale per input column, the size of the latent function and that of its offset by
    maximising Laplace's approximation of the evidence under weak priors. Two classes have one latent function, more have
    one each, coupled by the softmax. Laplace's probabilities err on the side of caution, most of all with many classes that
    hardly overlap; ``inference="ep"`` (with ``multi_class="one_vs_rest"``) is closer to the truth and slower.

    Parameters
    ----------
    kernel
        A kernel, its text, a list with one for each class (softmax only), or None for a Matérn-5/2 kernel with one
        length-scale per column plus a constant.
    inference
        ``"laplace"``, ``"ep"`` (two classes, or one against the rest; more accurate, slower), or an inference object.
    link
        ``"logit"`` or ``"probit"``, for two classes.
    multi_class
        For three classes or more: ``"softmax"``, one model of all, or ``"one_vs_rest"``, a model of two classes for each,
        their probabilities normalised.
    class_kernels
        Whether the classes of a softmax share one kernel (``"shared"``) or each learns its own (``"separate"``);
        ``"auto"``: each its own where that makes at most 100 parameters.
    mean
        The mean of the latent function: ``"zero"``, ``"constant"``, ``"linear"``, a mean function, or a plain function.
    priors
        ``"default"`` (weak, from the data's scales), None, or distributions by parameter path.
    class_weight
        ``"balanced"``, or weights by class: how often a row of the class counts; None: once.
    fixed, bounds
        Paths of parameters to hold, and bounds by path.
    method
        How many rows are handled: ``"auto"`` chooses by size and memory (``method_`` says what and why); ``"exact"``, the
        dense O(n³) computation; ``"svgp"``, variational through inducing inputs in batches; ``"low_rank"``, ``"markov"``,
        ``"subset"``, ``"committee"``; or a gram from :mod:`covary.gram` or :class:`covary.committee.Committee`.
    n_restarts
        Further starts of the search. With the default kernel, a column of dates or a single column of inputs gets one
        besides with a short length-scale.
    max_time
        Seconds after which learning returns the best so far. Ctrl-C does the same at any time.
    checkpoint
        A file in which learning writes down where it is: the same fit, killed and run again, goes on from there. A committee
        wants a folder.
    executor
        Who works for a committee: None for this process, ``"dask"`` for a process on every core, the address of a Dask
        scheduler (``"tcp://..."``), or an executor from :mod:`covary.executors`.
    missing
        What to do about missing inputs: ``"refuse"``; ``"drop"`` such rows; ``"impute"`` the median, or the commonest
        category; ``"indicator"``, the same with a further column that says where. ``summary()`` says what was done.
    seasonality
        Seasons of a column of dates to add to the default kernel: ``"yearly"``, ``"weekly"``, ``"daily"``, or several.
    random_state
        Seed of restarts and subsets.

    Attributes
    ----------
    classes_
        The labels, sorted.
    columns_
        What each column of a pandas or polars table was taken for (dates, categories, ...), and how it becomes numbers.
    kernel_
        The fitted kernel with its learned numbers; a tuple where each class has its own, a list for one against the rest.
    log_marginal_likelihood_
        The approximate log evidence (the sum over models for one against the rest).
    relevance_
        The share of the function's variation that involves each input column, as in the report; computed when asked for.
    model_, posterior_, learned_
        The fitted model, its posterior, and how learning went; ``estimators_`` instead for one against the rest.

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
        kernel: Any = None,
        *,
        inference: Any = "laplace",
        link: str = "logit",
        multi_class: str = "softmax",
        class_kernels: str = "auto",
        mean: Any = "zero",
        priors: Any = "default",
        class_weight: Any = None,
        fixed: Sequence[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        method: Any = "auto",
        n_restarts: int = 0,
        max_time: float | None = None,
        checkpoint: str | None = None,
        executor: Any = None,
        missing: str = "refuse",
        seasonality: str | Sequence[str] | None = None,
        random_state: Any = None,
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
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GPClassifier:
        """Learn the hyperparameters and condition on the data.

        Parameters
        ----------
        X
            Inputs (n, d); or a table on disk, :class:`covary.committee.Parquet`, with the name of its target as y.
        y
            Class labels (n,): numbers, strings or booleans, two kinds at least.
        sample_weight
            How often each row counts: weight 2 is the same as giving the row twice, weight 0 as leaving it out.
        """
        self._check_choices()
        self._forget()
        X, y = self._opened(X, y)
        self._name_target(y)
        X = read_table(self, X, reset=True, gaps=True)
        labels = read_labels(self._who, y, len(X))
        weight = read_rows(self._who, "sample_weight", sample_weight, len(X), positive=True)
        return self._fit_rows(*rows_kept(X, labels, weight))

    def _fit_rows(self, X: np.ndarray, labels: np.ndarray, weight: np.ndarray | None) -> GPClassifier:
        """Learn from rows that are numbers already."""
        if self.class_weight is not None:
            found, codes = np.unique(labels if weight is None else labels[weight > 0], return_inverse=True)
            each = _class_weights(self.class_weight, found, found[codes])
            by_label = dict(zip(found.tolist(), each, strict=True))
            more = np.array([by_label.get(v, 0.0) for v in labels.tolist()])
            weight = more if weight is None else weight * more
        if weight is not None:
            kept = weight > 0
            X, labels, weight = X[kept], labels[kept], weight[kept]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            only = repr(self.classes_[0].item()) if len(self.classes_) else "none that counts"
            raise fail(self._who, f"y holds one class only ({only})", "give two classes or more")
        if weight is not None and (weight == 1).all():
            weight = None
        self.class_count_ = np.bincount(codes, weight, len(self.classes_))
        if self._reader is not None and (self.class_weight is not None or weight is not None):
            raise fail(self._who, "weights are given with a table on disk", "leave them out")
        if self._reader is not None and len(self.classes_) > 2 and self.multi_class == "one_vs_rest":
            raise fail(self._who, "multi_class is 'one_vs_rest' with a table on disk", "use 'softmax'")
        if len(self.classes_) > 2 and self.multi_class == "one_vs_rest":
            return self._fit_each(X, codes, weight)
        two = len(self.classes_) == 2
        if not two and self.link == "probit":
            what = f"link is 'probit' but y has {len(self.classes_)} classes, whose softmax is a logit"
            raise fail(self._who, what, "leave link out, or use multi_class='one_vs_rest'")
        if not two and (self.inference == "ep" or isinstance(self.inference, EP)):
            what = f"EP is for two classes, y has {len(self.classes_)}"
            raise fail(self._who, what, "use multi_class='one_vs_rest', or inference='laplace'")
        likelihood = Bernoulli(self.link) if two else Softmax(len(self.classes_))
        data = Data(X, codes.astype(np.float64), None, weight).merge()
        self._fit(self._start(data, likelihood), data, self._inference(likelihood))
        self._finish(data)
        return self

    def _finish(self, data: Data) -> None:
        self.log_marginal_likelihood_ = self.posterior_.log_evidence
        found = getattr(getattr(self.posterior_.bound, "settled", None), "classes", {})
        if found:  # of a table on disk the sample was counted so far
            self.class_count_ = np.array([float(found.get(c, 0)) for c in range(len(self.classes_))])

    def _check_choices(self) -> None:
        self._check_method()
        if self.link not in ("logit", "probit"):
            raise fail(self._who, f"link is {self.link!r}", "choose 'logit' or 'probit'")
        if self.multi_class not in ("softmax", "one_vs_rest"):
            raise fail(self._who, f"multi_class is {self.multi_class!r}", "choose 'softmax' or 'one_vs_rest'")
        if self.class_kernels not in ("auto", "shared", "separate"):
            raise fail(self._who, f"class_kernels is {self.class_kernels!r}", "choose 'auto', 'shared' or 'separate'")
        if self.inference == "exact":
            raise fail(self._who, "inference is 'exact'", "choose 'laplace' or 'ep': classes have no exact posterior")

    def _start(self, data: Data, likelihood: Any) -> Model:
        """The model learning starts from: the user's numbers where given, the data's own scales elsewhere."""
        columns, latents = data.X.columns, likelihood.latents
        default = self._default_kernel(columns) + 1.0 * Constant()
        kernel, given = self._kernels(columns, default, latents)
        if latents > 1 and not isinstance(kernel, tuple) and self._apart(kernel, latents):
            kernel = (kernel,) * latents
        GP(kernel).check(data.X)
        model = Model(GP(kernel, mean=self._mean_function(columns)), likelihood=likelihood)
        natural = self._lasting(starting_values(model, data), data)
        if not given:
            model = model.replace(prior=model.prior.replace(kernel=natural.kernel))
        if isinstance(self.mean, str):
            model = model.replace(prior=model.prior.replace(mean=natural.mean))
        return self._held(model)

    def _apart(self, kernel: Any, latents: int) -> bool:
        """Whether each class gets a kernel of its own."""
        if self.class_kernels == "auto":
            return latents * Packing(kernel).size <= MOST_PARAMETERS
        return self.class_kernels == "separate"

    def _fit_each(self, X: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> GPClassifier:
        """One model of two classes for each class against the rest."""
        self.estimators_ = []
        for c in range(len(self.classes_)):
            one: Any = clone(self)
            one.set_params(class_weight=None, checkpoint=self.checkpoint and f"{self.checkpoint}.{c}")
            if isinstance(self.kernel, list | tuple):
                raise fail(self._who, "kernel is a list", "give one kernel with multi_class='one_vs_rest'")
            one.n_features_in_ = self.n_features_in_
            if hasattr(self, "columns_"):
                one.columns_ = self.columns_
            self.estimators_.append(one._fit_rows(X, codes == c, weight))
        self.log_marginal_likelihood_ = float(sum(e.log_marginal_likelihood_ for e in self.estimators_))
        return self

    # predicting -----------------------------------------------------------------------------------------------------
    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of every row (R&W, section 3.1)."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any, average: str = "exact") -> np.ndarray:
        """Class probabilities (m, C), in the order of ``classes_``.

        Parameters
        ----------
        X
            New inputs (m, d).
        average
            ``"exact"``: averaged over the latent function (R&W, eq. 3.25); ``"map"``: at its mean, over-confident;
            ``"mackay"`` and ``"erf5"``: two historical approximations of the average for the logit link.
        """
        check_is_fitted(self)
        if not isinstance(average, str) or average not in METHODS:
            raise fail(f"{self._who}.predict_proba", f"average is {average!r}", f"choose one of {', '.join(METHODS)}")
        return self._proba(read_table(self, X, reset=False), average)

    def _proba(self, X: np.ndarray, average: str = "exact") -> np.ndarray:
        if hasattr(self, "estimators_"):
            p = np.stack([e._proba(X, average)[:, 1] for e in self.estimators_], axis=1)
            p = np.maximum(p, np.finfo(float).tiny)
            return p / p.sum(1, keepdims=True)
        f = self.posterior_.predict(X).f
        likelihood = self.model_.likelihood
        if isinstance(likelihood, Softmax):
            return likelihood.probabilities(f.mean, f.variance, average)
        p = likelihood.probability(f.mean, f.variance, average)
        q = likelihood.probability(-f.mean, f.variance, average)  # not 1 − p: small probabilities keep their digits
        return np.stack([q, p], axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted, as in scikit-learn.

        Parameters
        ----------
        X, y
            Rows, and their labels.
        sample_weight
            How often each row counts.
        """
        found, who = self.predict(X), f"{self._who}.score"
        labels = read_known(who, y, len(found), self.classes_)
        weight = read_rows(who, "sample_weight", sample_weight, len(found), positive=True)
        return float(np.average(found == labels, weights=weight))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of :meth:`predict_proba`."""
        return np.log(self.predict_proba(X))

    def predict_latent(self, X: Any, return_std: bool = False) -> Any:
        """The mean (and standard deviation) of the latent function: (m,) for two classes, (m, C) for more."""
        check_is_fitted(self)
        X = read_table(self, X, reset=False)
        if hasattr(self, "estimators_"):
            parts = [e.predict_latent(Inputs(X), True) for e in self.estimators_]
            mean, std = (np.stack([p[i] for p in parts], axis=1) for i in range(2))
        elif return_std:
            f = self.posterior_.predict(X).f
            mean, std = f.mean, f.std
        else:
            return self.posterior_.mean(X)
        return (mean, std) if return_std else mean

    def decision_function(self, X: Any) -> np.ndarray:
        """The log odds of the second of two classes; the log probability of each for more. Zero is the border of two."""
        p = self.predict_proba(X)
        return np.log(p[:, 1]) - np.log(p[:, 0]) if p.shape[1] == 2 else np.log(p)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of the second class's probability, as the latent function varies (two classes only)."""
        from scipy.special import ndtri

        check_is_fitted(self)
        level = check_level(f"{self._who}.predict_interval", level)
        if len(self.classes_) > 2:
            raise fail(f"{self._who}.predict_interval", f"there are {len(self.classes_)} classes", "use it with two")
        mean, std = self.predict_latent(X, return_std=True)
        half = ndtri(0.5 + level / 2) * std
        likelihood = self.model_.likelihood
        return likelihood.moments(mean - half).mean, likelihood.moments(mean + half).mean

    def decide(self, X: Any, loss: Any, **options: Any) -> np.ndarray:
        """The decision of least expected loss for every row; see :func:`covary.metrics.decide`.

        Parameters
        ----------
        X
            New inputs (m, d).
        loss
            What each decision costs: entry (c, d) is the loss of deciding for class d where c is true.
        """
        return decide(self.predict_proba(X), loss, self.classes_, **options)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Labels drawn for every row: shape (m, n_samples). For two classes jointly through the latent function."""
        check_is_fitted(self)
        check_count(f"{self._who}.sample_y", "n_samples", n_samples, least=1)
        X = read_table(self, X, reset=False)
        rng = np.random.default_rng(random_of(f"{self._who}.sample_y", random_state).randint(2**31))
        if hasattr(self, "estimators_"):
            p = self._proba(X)
            check_draws(f"{self._who}.sample_y", n_samples, p.size)
            draws = (rng.random((n_samples, len(p), 1)) > p.cumsum(1)).sum(2)
        elif len(self.classes_) == 2:
            draws = self.posterior_.sample_y(X, n_samples, key=rng).astype(int)
        else:
            draws = self.posterior_.predict(X).y.sample(n_samples, key=rng).astype(int)
        return self.classes_[np.minimum(draws, len(self.classes_) - 1)].T

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """A map of probabilities with the data for two input columns, else the dependence on one input at a time."""
        check_is_fitted(self)
        from covary.plots import plot_classes

        return plot_classes(self, ax=ax, **options)


def _class_weights(given: Any, classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One weight for each class."""
    who = "GPClassifier"
    if isinstance(given, str):
        if given != "balanced":
            raise fail(who, f"class_weight is {given!r}", "give 'balanced', None, or a dict of weights by class")
        return compute_class_weight("balanced", classes=classes, y=labels)
    if not isinstance(given, Mapping):
        raise fail(who, f"class_weight is {given!r}", "give 'balanced', None, or a dict of weights by class")
    known = set(classes.tolist())
    strange = [k for k in given if k not in known]
    if strange:
        raise fail(who, f"class_weight names {strange[0]!r}, which y does not hold", "use the labels of y")
    try:
        out = np.array([float(given.get(c, 1.0)) for c in classes.tolist()])
    except (TypeError, ValueError):
        raise fail(who, f"class_weight is {dict(given)!r}", "give finite numbers, zero or more") from None
    if not (np.isfinite(out).all() and (out >= 0).all()):
        raise fail(who, f"class_weight is {dict(given)!r}", "give finite numbers, zero or more")
    if not (out > 0).any():
        raise fail(who, "every class_weight is zero", "give some class a positive weight")
    return out
