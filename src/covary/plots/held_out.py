"""Leave-one-out predictions as plain arrays: means, error bars and probability integral transforms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from covary import fits
from covary._checks import fail
from covary._errors import Option
from covary.likelihoods.bernoulli import Bernoulli
from covary.plots.source import Drawable, Label, Source
from covary.posterior import AbstractPosterior, class_probabilities, outcomes
from covary.prediction import Spread

HALF = float(ndtri(0.975))


class HeldOut(NamedTuple):
    """Observations, and the mean, standard deviation, 95 % interval and PIT of each when its row is left out.

    The PIT of an integer is an interval, from P(Y < y) to P(Y ≤ y): then ``pit`` has shape (n, 2). Without error bars, all but
    ``y`` and ``mean`` are NaN.
    """

    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    pit: np.ndarray


class HeldOutClasses(NamedTuple):
    """Codes of the observed classes, the probabilities of all classes (n, C) when a row is left out, and their labels."""

    codes: np.ndarray
    p: np.ndarray
    labels: list[Label]


def left_out(model: Drawable) -> HeldOut:
    """Return leave-one-out predictions of a regression, without refitting; see
    :meth:`covary.posterior.Posterior.leave_one_out`.

    Parameters
    ----------
    model
        A posterior over one output, or a fitted regressor.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> found = left_out(condition(Model(GP("Matern52()")), Data([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])))
    >>> found.mean.round(2), found.pit.round(2)
    (array([0.26, 0.  , 0.26]), array([0.42, 0.78, 0.42]))
    """
    return left_out_for("plots.left_out", model)


def left_out_for(who: str, model: Drawable) -> HeldOut:
    """Return leave-one-out predictions as :func:`left_out`; ``who`` begins errors."""
    source = Source.of(who, model)
    several = len(source.fit.target) > 1 if not source.posteriors and source.fit else source.model.likelihood.latents > 1
    if source.of_classes or several:
        raise fail(who, "the model is a classifier or has several functions", "give observations and predictions as arrays")
    return _of_posterior(source.first) if source.posteriors else _of_fit(_judged(source))


def with_error_bars(who: str, model: Drawable) -> HeldOut:
    """Return leave-one-out predictions, or raise an error if they have no error bars."""
    found = left_out_for(who, model)
    if np.isnan(found.std).all():
        raise fail(who, "the predictions have no error bars", "use plot_predicted")
    return found


def _of_posterior(post: AbstractPosterior) -> HeldOut:
    y = np.asarray(post.data.y, np.float64)
    out = post.leave_one_out()
    if post.observed:
        assert out.y is not None
        low, high = out.y.interval()
        return HeldOut(y, out.mean, out.y.std, low, high, out.y.cdf(y))
    found = outcomes(post.model.likelihood, post.data.X, y, out.mean, out.variance)
    pit = np.stack([found.below, found.upto], axis=1) if found.whole else found.upto
    return HeldOut(found.y, found.mean, found.std, *found.interval(), pit)


def _judged(source: Source) -> fits.Judged:
    """Return the leave-one-out predictions of a fit, by its family."""
    assert source.fit is not None
    return fits.family_of(source.fit).judged(source.fit)


def _of_fit(found: fits.Judged) -> HeldOut:
    if not found.has_error_bars:
        none = np.full(len(found), np.nan)
        return HeldOut(found.y[:, 0], found.mean[:, 0], none, none, none, none)
    found = found.with_ends()
    ends = found.ends or (found.mean - HALF * found.std, found.mean + HALF * found.std)
    return HeldOut(*(a[:, 0] for a in (found.y, found.mean, found.std, *ends, found.pit)))


def left_out_classes(model: Drawable) -> HeldOutClasses:
    """Return leave-one-out class probabilities, without refitting: for two classes, or one-vs-rest.

    Parameters
    ----------
    model
        A fitted classifier, or a posterior under a Bernoulli likelihood.
    """
    who = "plots.left_out_classes"
    source = Source.of(who, model)
    if not source.posteriors:
        found = _judged(source)
        if found.p is None:
            raise fail(who, "the model is not a classifier", "use covary.plots.left_out")
        return HeldOutClasses(found.y[:, 0].astype(int), found.p, source.labels)
    if not all(isinstance(post.model.likelihood, Bernoulli) for post in source.posteriors):
        what = "a softmax has no leave-one-out predictions without fitting again"
        raise fail(who, what, "give labels and cross-validated probabilities, or use " + Option("multi_class", "'one_vs_rest'"))
    out = [post.leave_one_out() for post in source.posteriors]
    p = class_probabilities(source.posteriors, [Spread(part.mean, part.variance) for part in out])
    seen = np.stack([np.asarray(post.data.y) > 0 for post in source.posteriors], axis=1)
    codes = seen[:, 0].astype(int) if len(out) == 1 else seen.argmax(1)
    return HeldOutClasses(codes, p, source.labels or [0, 1])
