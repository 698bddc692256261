"""Evaluation of estimators: scikit-learn scorers, k-fold cross-validation, learning curves."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from covary._arguments import explained_function
from covary._checks import as_array, check_object, fail, from_arrow, shown
from covary._errors import Option
from covary._types import ArrayLike, Seed
from covary._words import counted
from covary.metrics.classes import _counts, _labels, brier, error_rate, information, log_loss
from covary.metrics.decades import _frame, _text
from covary.metrics.decisions import _together
from covary.metrics.scores import _array, _level, _moments, calibration_error, coverage, crps, mae, msll, nlpd, r2, rmse, smse

if TYPE_CHECKING:
    import pandas as pd

_POINT = {"r2": r2, "smse": smse, "rmse": rmse, "mae": mae}
_WITH_STD = {"nlpd": nlpd, "crps": crps, "calibration_error": calibration_error}
_CLASSES = {"log_loss": log_loss, "brier": brier, "error_rate": error_rate}


@explained_function("metrics.scorer")
def scorer(name: str, *, level: float = 0.95, y_train: ArrayLike | Mapping[Hashable, float] | None = None) -> partial[float]:
    """Return a scorer for scikit-learn's ``scoring=``: r2, smse, rmse, mae, nlpd, crps, calibration_error, msll or coverage.

    For classifiers with ``predict_proba``: log_loss, brier, error_rate or information. Higher is better, so losses are negated,
    and coverage becomes −|coverage − level|. msll requires the training targets, which covary's fitted regressors store;
    information uses ``y_train``, training labels or counts ``{label: count}``, or the estimator's ``class_count_``.

    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import cross_val_score
    >>> X = np.arange(12.0)[:, None]
    >>> scores = cross_val_score(BayesianRidge(), X, 2 * X[:, 0] + np.sin(9 * X[:, 0]), scoring=scorer("nlpd"), cv=3)
    >>> bool(np.all(scores > -5))
    True
    """
    known = [*_POINT, *_WITH_STD, "msll", "coverage", *_CLASSES, "information"]
    if name not in known:
        raise fail("metrics.scorer", f"name is {name!r}", f"choose one of {', '.join(known)}", argument="name")
    _level("metrics.scorer", level)
    if y_train is not None:
        if name != "information":
            what = f"y_train is given for {name!r}"
            raise fail("metrics.scorer", what, "leave it out: only 'information' uses it", argument="y_train")
        y_train = dict(_counts("metrics.scorer", "y_train", y_train))
    return partial(_score_classes, name, y_train) if name in [*_CLASSES, "information"] else partial(_score, name, level)


def _score(name: str, level: float, estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    if name in _POINT:
        return (1 if name == "r2" else -1) * _POINT[name](y, estimator.predict(X))
    who = f"metrics.scorer({name!r})"
    _gives_std(estimator, who)
    mean, std = estimator.predict(X, return_std=True)
    if name == "coverage":
        return -abs(coverage(y, mean, std, level) - level)
    if name != "msll":
        return -_WITH_STD[name](y, mean, std)
    final = _final(estimator)
    if not all(hasattr(final, part) for part in ("posterior_", "fit_")):
        what = f"{type(final).__name__} does not store its training targets"
        raise fail(who, what, "use metrics.msll or metrics.cross_validate instead")
    return -msll(y, mean, std, final.posterior_.data.y * final.fit_.scale.scale + final.fit_.scale.location)


def _score_classes(
    name: str, y_train: Mapping[Hashable, float] | ArrayLike | None, estimator: Any, X: ArrayLike, y: ArrayLike
) -> float:
    who = f"metrics.scorer({name!r})"
    _gives_probabilities(estimator, who)
    p, classes = estimator.predict_proba(X), estimator.classes_
    if name != "information":
        return 0.0 - _CLASSES[name](y, p, classes=classes)
    if y_train is None:
        final = _final(estimator)
        if not hasattr(final, "class_count_"):
            what = f"{type(final).__name__} does not store the counts of its training labels"
            raise fail(who, what, "give y_train to scorer, or use metrics.cross_validate")
        y_train = dict(zip(_labels(who, "classes_", classes), final.class_count_, strict=True))
    return information(y, p, y_train, classes=classes)


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Cross-validation scores by fold, and pooled over all held-out rows.

    The keys of ``folds`` and ``pooled`` are r2, smse, nlpd, crps, coverage, calibration_error, msll and fit_seconds, or for
    classifiers log_loss, brier, error_rate, information and fit_seconds; pooled seconds are the total. ``rows`` contains the
    number of held-out rows of each fold. Coverage is at ``level``, which is None for classifiers.
    """

    folds: dict[str, np.ndarray]
    pooled: dict[str, float]
    rows: np.ndarray
    level: float | None

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with one row per fold and a last row ``pooled``."""
        scores = {name: np.append(self.folds[name], self.pooled[name]) for name in self.folds}
        return _frame({"rows": np.append(self.rows, self.rows.sum()), **scores}, [*range(len(self.rows)), "pooled"], "fold")

    def __repr__(self) -> str:
        level = "" if self.level is None else f", coverage at level {self.level:g}"
        return _text(f"Cross-validation, {len(self.rows)} folds{level}", self.to_frame())


@explained_function("metrics.cross_validate")
def cross_validate(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    cv: int = 10,
    level: float = 0.95,
    random_state: Seed = 0,
    n_jobs: int | None = None,
) -> CrossValidation:
    """Score predictions with error bars by k-fold cross-validation (DGP thesis, section 1.4.3; R&W, section 5.3).

    Each of ``cv`` shuffled folds is held out once and predicted by a new clone trained on the others. The trivial predictor of
    MSLL has the mean and variance of that fold's training targets. For classifiers with ``predict_proba``, the folds are
    stratified by class, and the baseline of information uses that fold's training frequencies.

    >>> from sklearn.linear_model import BayesianRidge
    >>> X = np.arange(30.0)[:, None]
    >>> found = cross_validate(BayesianRidge(), X, 2 * X[:, 0] + np.sin(9 * X[:, 0]), cv=5)
    >>> found.folds["r2"].shape, found.pooled["r2"] > 0.99
    ((5,), True)
    """
    from sklearn.utils.parallel import Parallel, delayed

    who = "metrics.cross_validate"
    _estimates(who, estimator)
    _level(who, level)
    classes = _classifies(estimator)
    (_gives_probabilities if classes else _gives_std)(estimator, who)
    X, y, splits = _splits(who, X, y, cv, random_state, classes)
    found: Any = Parallel(n_jobs=n_jobs)(delayed(_fold)(estimator, X, y, train, test, classes) for train, test in splits)
    rows, each = np.array([len(test) for _, test in splits]), []
    if classes:
        for (train, test), (p, labels, seconds) in zip(splits, found, strict=True):
            scores = {name: score(y[test], p, classes=labels) for name, score in _CLASSES.items()}
            gain = information(y[test], p, y[train], classes=labels)
            each.append({**scores, "information": gain, "fit_seconds": seconds})
        folds = {name: np.array([scores[name] for scores in each]) for name in each[0]}
        pooled = {name: float(np.average(values, weights=rows)) for name, values in folds.items()}
        return CrossValidation(folds, {**pooled, "fit_seconds": float(folds["fit_seconds"].sum())}, rows, None)
    for (train, test), (mean, std, seconds) in zip(splits, found, strict=True):
        loss = msll(y[test], mean, std, y[train])
        each.append({**_scores(level, y[test], mean, std), "msll": loss, "fit_seconds": seconds})
    folds = {name: np.array([scores[name] for scores in each]) for name in each[0]}
    mean, std = (np.concatenate([part[k] for part in found]) for k in (0, 1))
    pooled = _scores(level, y[np.concatenate([test for _, test in splits])], mean, std)
    pooled["msll"] = float(np.average(folds["msll"], weights=rows))
    pooled["fit_seconds"] = float(folds["fit_seconds"].sum())
    return CrossValidation(folds, pooled, rows, level)


def _scores(level: float, y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    scores = {"r2": r2(y, mean), "smse": smse(y, mean), "nlpd": nlpd(y, mean, std), "crps": crps(y, mean, std)}
    return {**scores, "coverage": coverage(y, mean, std, level), "calibration_error": calibration_error(y, mean, std)}


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Training and validation R² by number of training rows: means and standard deviations (n − 1) over folds.

    ``validation_nlpd`` and its standard deviation are None if the estimator has no ``return_std``. ``verdict`` is a sentence.
    """

    sizes: np.ndarray
    training: np.ndarray
    training_sd: np.ndarray
    validation: np.ndarray
    validation_sd: np.ndarray
    validation_nlpd: np.ndarray | None
    validation_nlpd_sd: np.ndarray | None
    verdict: str

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with one row per size."""
        curves = {k: v for k, v in vars(self).items() if k not in ("sizes", "verdict") and v is not None}
        return _frame(curves, self.sizes, "rows")

    def __repr__(self) -> str:
        return _text(f"Learning curve: {self.verdict}", self.to_frame())


@explained_function("metrics.learning_curve")
def learning_curve(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    sizes: Iterable[float] = (0.125, 0.25, 0.5, 1.0),
    cv: int = 5,
    random_state: Seed = 0,
) -> LearningCurve:
    """Compute training and validation scores by training-set size, and a verdict (DGP thesis, section 1.4.3, figure 1.9).

    ``sizes`` are numbers of rows, or fractions of the smallest training fold; subsets are random and nested. The verdict is
    underfitting, for which more data do not help, if both scores level out below 1; more data help if the validation score
    still rises: by more than 0.02 per doubling of rows and two standard errors over folds. Scores within 0.05 count as equal.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.linspace(-3, 3, 120)[:, None]
    >>> learning_curve(LinearRegression(), X, np.cos(X[:, 0]) + X[:, 0]).verdict.split(";")[0]
    'training and validation R² level out together, at 0.86 and 0.85: underfitting, or noise'
    """
    from sklearn.utils import check_random_state

    who = "metrics.learning_curve"
    _estimates(who, estimator)
    X, y, splits = _splits(who, X, y, cv, random_state)
    given, most = np.asarray(list(sizes)), min(len(train) for train, _ in splits)
    if given.dtype.kind == "f" and ((given > 0) & (given <= 1)).all():
        given = np.maximum(2, (given * most).astype(int))
    counts = np.unique(given)
    if given.dtype.kind not in "iu" or len(counts) < 2 or counts[0] < 2 or counts[-1] > most:
        do = f"give two or more fractions up to 1.0, or whole numbers of rows from 2 to {most}"
        raise fail(who, f"sizes is {given.tolist()}", do, argument="sizes")
    rng, with_std = check_random_state(random_state), _gives_std(estimator)
    splits = [(rng.permutation(train), test) for train, test in splits]
    for train, _ in splits:
        _moments(who, f"y of the first {counts[0]} training rows of a fold", y[train[: counts[0]]])
    scores = np.zeros((3, len(splits), len(counts)))
    for i, (train, test) in enumerate(splits):
        for j, count in enumerate(counts):
            rows = np.concatenate([test, train[:count]])
            mean, std, _ = _fold(estimator, X, y, train[:count], rows)
            scores[:2, i, j] = r2(y[train[:count]], mean[len(test) :]), r2(y[test], mean[: len(test)])
            scores[2, i, j] = nlpd(y[test], mean[: len(test)], std[: len(test)]) if std is not None else 0.0
    mean, sd = scores.mean(1), scores.std(1, ddof=1)
    losses = (mean[2], sd[2]) if with_std else (None, None)
    return LearningCurve(counts, mean[0], sd[0], mean[1], sd[1], *losses, _verdict(counts, scores[0], scores[1]))


def _verdict(sizes: np.ndarray, training: np.ndarray, validation: np.ndarray) -> str:
    """Interpret scores of shape (folds, sizes) as in figure 1.9."""
    train, valid = training[:, -1].mean(), validation[:, -1].mean()
    step = validation[:, -1] - validation[:, -2]
    rise, error = step.mean() / np.log2(sizes[-1] / sizes[-2]), step.std(ddof=1) / np.sqrt(len(step))
    if rise > 0.02 and step.mean() > 2 * error:
        return f"training R² is {train:.2f} and validation R² {valid:.2f}, still rising: more data help."
    if valid > 0.95:
        return f"validation R² is level at {valid:.2f}, near 1: the model fits, and more data would change little."
    if train - valid < 0.05:
        what = f"training and validation R² level out together, at {train:.2f} and {valid:.2f}: underfitting, or noise"
        return f"{what}; more data do not help, but a more flexible kernel or additional inputs may."
    what = f"validation R² is {valid:.2f}, below the training R² of {train:.2f} and not clearly rising: overfitting"
    return f"{what}; simplify the model, or use more folds to be sure."


def _estimates(who: str, estimator: Any) -> None:
    """Raise an error unless this is an estimator with fit and predict, which a class is not."""
    check_object(who, "estimator", estimator)
    if not (hasattr(estimator, "fit") and hasattr(_final(estimator), "predict")):
        raise fail(who, Option("estimator") + f" is {shown(estimator)}", "give an object with the methods fit and predict")


def _final(estimator: Any) -> Any:
    """Return the last estimator of a pipeline."""
    return _final(estimator.steps[-1][1]) if hasattr(estimator, "steps") else estimator


def _gives_std(estimator: Any, who: str = "") -> bool:
    """Return whether predict accepts return_std; if not and ``who`` is given, raise an error."""
    final = _final(estimator)
    gives = "return_std" in inspect.signature(final.predict).parameters
    if who and not gives:
        what = f"{type(final).__name__}.predict does not return standard deviations"
        raise fail(who, what, "use an estimator that accepts " + Option("return_std", "True"))
    return gives


def _classifies(estimator: Any) -> bool:
    from sklearn.base import is_classifier

    return hasattr(estimator, "predict_proba") or (hasattr(estimator, "__sklearn_tags__") and is_classifier(estimator))


def _gives_probabilities(estimator: Any, who: str) -> None:
    if not hasattr(estimator, "predict_proba"):
        what = f"{type(_final(estimator)).__name__} does not provide class probabilities"
        raise fail(who, what, "use an estimator that has predict_proba")


def _splits(
    who: str, X: Any, y: ArrayLike, cv: int, random_state: Seed, classes: bool = False
) -> tuple[Any, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Return training and test rows; raise an error before fitting if a fold could not be scored."""
    from sklearn.model_selection import KFold, StratifiedKFold

    y = _together(_labels(who, "y", y)) if classes else _array(who, "y", y)
    X = from_arrow(X)
    X = X if hasattr(X, "shape") else as_array(who, "X", X)
    if X.shape[:1] != y.shape[:1]:
        what = Option("X") + f" has shape {X.shape} but y has {counted(len(y), 'row')}"
        raise fail(who, what, "give one row of X per row of y")
    if int(cv) != cv or not 2 <= cv <= len(y) // 2:
        what = f"cv is {cv} for {counted(len(y), 'row')}"
        raise fail(who, what, "give a number of folds from 2 to half the rows", argument="cv")
    if classes:
        label, least = min(Counter(y.tolist()).items(), key=lambda item: item[1])
        if least < cv:
            what = f"cv is {cv} but y is {label!r} in only {counted(least, 'row')}"
            raise fail(who, what, "give fewer folds, or drop that class", argument="cv")
        return X, y, list(StratifiedKFold(int(cv), shuffle=True, random_state=random_state).split(y, y))
    splits = list(KFold(int(cv), shuffle=True, random_state=random_state).split(y))
    for i, (_, test) in enumerate(splits):
        _moments(who, f"y of fold {i}", y[test])
    return X, y, splits


def _fold(
    estimator: Any, X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray, classes: bool = False
) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Fit a clone; return mean and std (or None), or probabilities and classes, at test rows, and the seconds of the fit."""
    from sklearn.base import clone

    model: Any = clone(estimator)
    rows, begin = X.iloc if hasattr(X, "iloc") else X, time.perf_counter()
    model.fit(rows[train], y[train])
    seconds = time.perf_counter() - begin
    if classes:
        return model.predict_proba(rows[test]), model.classes_, seconds
    mean, std = model.predict(rows[test], return_std=True) if _gives_std(model) else (model.predict(rows[test]), None)
    return mean, std, seconds
