"""What the other rows say of each row, as plain arrays: predictions, error bars and probability integral transforms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from covary._checks import fail
from covary.likelihoods.bernoulli import Bernoulli
from covary.plots.style import posteriors

HALF = float(ndtri(0.975))


class HeldOut(NamedTuple):
    """Observations, and each one's mean, standard deviation, 95 % interval and PIT when its own row is left out.

    The PIT of a whole number is an interval, from P(Y < y) to P(Y ≤ y): then ``pit`` has shape (n, 2).
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
    labels: list[Any]


def left_out(model: Any) -> HeldOut:
    """Leave-one-out predictions of a regression, without fitting again; see :meth:`covary.Posterior.leave_one_out`.

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
    who = "plots.left_out"
    post = posteriors(who, model)[0]
    likelihood = post.model.likelihood
    if hasattr(model, "classes_") or isinstance(likelihood, Bernoulli) or likelihood.latents > 1:
        raise fail(who, "the model is one of classes or of several functions", "give observations and predictions as arrays")
    y = np.asarray(post.data.y, np.float64)
    out = post.leave_one_out()
    if post.factor.observed:
        assert out.y is not None
        low, high = out.y.interval()
        return HeldOut(y, out.mean, out.y.std, low, high, out.y.cdf(y))
    size = None
    if y.ndim == 2:
        y, size = y.T
    likelihood = likelihood.at(post.data.X)
    moments = likelihood.predictive(out.mean, out.variance, size)
    low, high = (likelihood.predictive_quantile(p, out.mean, out.variance, size) for p in (0.025, 0.975))
    std = np.sqrt(moments.variance)
    if not np.isfinite(std).all():  # tails too heavy for a variance: half of what holds 68 %
        ends = [likelihood.predictive_quantile(p, out.mean, out.variance, size) for p in (0.16, 0.84)]
        std = (ends[1] - ends[0]) / 2
    pit = likelihood.predictive_cdf(y, out.mean, out.variance, size)
    if likelihood.support in ("counts", "labels"):
        below = likelihood.predictive_cdf(np.maximum(y - 1, 0.0), out.mean, out.variance, size)
        pit = np.stack([np.where(y > 0, below, 0.0), pit], axis=1)
    return HeldOut(y, moments.mean, std, low, high, np.clip(pit, 0.0, 1.0))


def left_out_classes(model: Any) -> HeldOutClasses:
    """Leave-one-out class probabilities, without fitting again: of two classes, or of one against the rest.

    Parameters
    ----------
    model
        A fitted classifier, or a posterior under a Bernoulli likelihood.
    """
    who = "plots.left_out_classes"
    each = []
    for post in posteriors(who, model):
        likelihood = post.model.likelihood
        if not isinstance(likelihood, Bernoulli):
            what = "a softmax has no leave-one-out without fitting again"
            raise fail(who, what, "give labels and cross-validated probabilities, or use multi_class='one_vs_rest'")
        out = post.leave_one_out()
        each.append(likelihood.probability(out.mean, out.variance))
    seen = np.stack([np.asarray(post.data.y) > 0 for post in posteriors(who, model)], axis=1)
    labels = list(getattr(model, "classes_", [0, 1]))
    if len(each) == 1:
        return HeldOutClasses(seen[:, 0].astype(int), np.stack([1 - each[0], each[0]], axis=1), labels)
    p = np.maximum(np.stack(each, axis=1), np.finfo(float).tiny)
    return HeldOutClasses(seen.argmax(1), p / p.sum(1, keepdims=True), labels)
