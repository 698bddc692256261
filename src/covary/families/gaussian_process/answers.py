"""Predictions of Gaussian processes for new rows, in the columns shared by all families."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from covary._checks import NotPositiveDefinite, fail
from covary._errors import Option
from covary.families.gaussian_process.predict import latent_of_classes, moments, probabilities
from covary.families.gaussian_process.processes import Processes
from covary.fits import Answer, Fit, family_of
from covary.fits.family import PARTS
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.binomial import Binomial
from covary.likelihoods.ordinal import Ordinal
from covary.prediction import Observed, Spread
from covary.tables.table import wrong


def answer(
    fit: Fit[Processes],
    x: np.ndarray,
    *,
    level: float = 0.95,
    latent: bool = False,
    size: np.ndarray | None = None,
    truth: np.ndarray | None = None,
) -> Answer:
    """Return predictions for numeric rows; see :meth:`covary.fits.AbstractFamily.predict`."""
    titles = family_of(fit).titles(fit, latent=latent)
    if fit.classes is not None:
        if size is not None:
            raise fail("predict", Option("size") + " is given but classes have none", "leave it out")
        columns = _latent_of_classes(fit, x, level) if latent else _classes(fit, x)
        return Answer(dict(zip(titles, columns, strict=True)))
    if fit.state.first.model.is_gaussian and fit.state.first.posterior.scale is None:
        return _measurements(fit, x, level, latent, size, truth, titles)
    return _others(fit, x, level, latent, size, truth, titles)


def _measurements(
    fit: Fit[Processes],
    x: np.ndarray,
    level: float,
    latent: bool,
    size: np.ndarray | None,
    truth: np.ndarray | None,
    titles: list[str],
) -> Answer:
    """Predict under Gaussian noise, for one target or several."""
    mean, std = (np.reshape(a, (len(x), -1)) for a in moments(fit, fit.state.first, x, latent=latent, size=size))
    if not np.isfinite(std).all():
        what = "some predictions are not finite"
        raise fail("predict", what, "look for inputs far outside the range the model was fitted to")
    half = float(ndtri(0.5 + level / 2)) * std
    columns = [a[:, j] for j in range(mean.shape[1]) for a in (mean, std, mean - half, mean + half)]
    log_prob = None
    if truth is not None:
        log_prob = Spread(mean, std**2).log_prob(np.reshape(truth, mean.shape)).reshape(truth.shape)
    return Answer(dict(zip(titles, columns, strict=True)), log_prob=log_prob)


def _others(
    fit: Fit[Processes],
    x: np.ndarray,
    level: float,
    latent: bool,
    size: np.ndarray | None,
    truth: np.ndarray | None,
    titles: list[str],
) -> Answer:
    """Predict under a non-Gaussian likelihood or with local error bars, by the predictive distribution."""
    found = fit.state.first.posterior.predict(x, size=size)
    f, y = found.f, found.y
    if latent:
        mean, std = (f.mean, f.std) if f.mean.ndim == 1 else (f.mean[:, 0], f.std[:, 0])  # the first is the function
        ends = (mean + float(ndtri(0.5 + sign * level / 2)) * std for sign in (-1, 1))
    else:
        mean, std, ends = y.mean, y.std, y.interval(level)
    log_prob = None
    if truth is not None:
        log_prob, seen = np.full(len(x), np.nan), possible(fit.state.first.model.likelihood, truth, size)
        if seen.any():
            log_prob[seen] = _log_prob(y, seen, truth[seen])
    return Answer(dict(zip(titles, (mean, std, *ends), strict=True)), log_prob=log_prob)


def _log_prob(observed: Observed | Spread, rows: np.ndarray, y: np.ndarray) -> np.ndarray | float:
    """Return the log density of observations at some of the rows; −∞ if it cannot be represented."""
    try:
        if isinstance(observed, Spread):
            every = np.full(len(rows), np.nan)
            every[rows] = y
            return observed.log_prob(every)[rows]
        latent = Spread(observed.latent.mean[rows], observed.latent.variance[rows])
        size = None if observed.size is None else observed.size[rows]
        return Observed(observed.mean[rows], observed.variance[rows], observed.likelihood, latent, size).log_prob(y)
    except NotPositiveDefinite:
        return -np.inf


def possible(likelihood: AbstractLikelihood, y: np.ndarray, size: np.ndarray | None) -> np.ndarray:
    """Return a mask of the values that are possible under a likelihood."""
    whole = (y >= 0) & (y == np.floor(y))
    if likelihood.support == "counts":
        return whole & (y <= (1.0 if size is None else size)) if isinstance(likelihood, Binomial) else whole
    if isinstance(likelihood, Ordinal):
        return whole & (y < likelihood.levels)
    return y > 0 if likelihood.support == "positive" else np.isfinite(y)


def _classes(fit: Fit[Processes], x: np.ndarray) -> list[np.ndarray]:
    """Return the most probable class, and the probability of each class."""
    assert fit.classes is not None
    p = probabilities(fit, x)
    return [fit.classes.values[p.argmax(1)], *p.T]


def _latent_of_classes(fit: Fit[Processes], x: np.ndarray, level: float) -> list[np.ndarray]:
    """Return the latent function of two classes, whose sign decides the more probable class."""
    mean, std = latent_of_classes(fit, x)
    half = float(ndtri(0.5 + level / 2)) * std
    return [mean, std, mean - half, mean + half]


def titles_of(fit: Fit[Processes], plain: list[str], latent: bool) -> list[str]:
    """Return the names of the output columns; raise an error for latent functions of more than two classes."""
    if latent and fit.classes is not None:
        if len(fit.classes.values) > 2:
            what = Option("latent", "True") + f" requires two classes, and the model has {len(fit.classes.values)}"
            raise wrong("latent", what, "leave it out")
        return list(PARTS)
    return plain
