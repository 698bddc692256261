"""Gaussian process classification: two classes, several by the softmax, or one-vs-rest."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from covary._checks import fail
from covary._errors import Option
from covary.data import Data
from covary.families.gaussian_process.fitting import Fitted, fitted
from covary.families.gaussian_process.processes import Processes
from covary.families.gaussian_process.settings import Context, Rows, Settings
from covary.families.gaussian_process.start import classes_start, inference_of
from covary.fits import Fit, Labels, Origin, Scale
from covary.inference.ep import EP
from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.softmax import Softmax
from covary.posterior import Combination


def check_choices(settings: Settings) -> None:
    """Raise an error for options that are invalid in classification."""
    who = settings.who
    if settings.link not in ("logit", "probit"):
        raise fail(who, Option("link") + f" is {settings.link!r}", "choose 'logit' or 'probit'")
    if settings.multi_class not in ("softmax", "one_vs_rest"):
        raise fail(who, Option("multi_class") + f" is {settings.multi_class!r}", "choose 'softmax' or 'one_vs_rest'")
    if settings.class_kernels not in ("auto", "shared", "separate"):
        raise fail(who, Option("class_kernels") + f" is {settings.class_kernels!r}", "choose 'auto', 'shared' or 'separate'")
    if settings.inference == "exact":
        raise fail(who, Option("inference") + " is 'exact'", "choose 'laplace' or 'ep': classes have no exact posterior")


def learn_classes(settings: Settings, rows: Rows, origin: Origin) -> Fit[Processes]:
    """Learn hyperparameters from labels, and condition on them."""
    who, x, labels, weight = settings.who, rows.x, rows.y, rows.weight
    if settings.class_weight is not None:
        weight = _weighted(settings, labels, weight)
    if weight is not None:
        kept = weight > 0
        x, labels, weight = x[kept], labels[kept], weight[kept]
    values, codes = np.unique(labels, return_inverse=True)
    if len(values) < 2:
        only = repr(values[0].item()) if len(values) else "no row has a positive weight"
        raise fail(who, Option("y") + f" has only one class ({only})", "give two classes or more")
    if weight is not None and (weight == 1).all():
        weight = None
    classes = Labels(values, np.bincount(codes, weight, len(values)))
    each = len(values) > 2 and settings.multi_class == "one_vs_rest"
    if rows.disk is not None and (settings.class_weight is not None or weight is not None):
        raise fail(who, "weights are given with a table on disk", "leave them out")
    if rows.disk is not None and each:
        raise fail(who, Option("multi_class") + " is 'one_vs_rest' with a table on disk", "use 'softmax'")
    if each:
        found = _one_vs_rest(settings, rows, x, codes, weight, classes)
    else:
        found = [_coupled(Context(settings, rows.columns, classes, rows.disk), x, codes, weight, classes)]
    first = found[0]
    origin = replace(origin, named=bool(rows.target))
    post = first.process.posterior
    if isinstance(post, Combination):
        counts = post.experts.classes
        if counts:  # for a table on disk, the counts so far are those of the sample
            classes = replace(classes, counts=np.array([float(counts.get(c, 0)) for c in range(len(values))]))
    state = Processes(tuple(one.process for one in found))
    target = rows.target[:1] or ("y",)
    return Fit("gaussian_process", state, first.columns, target, Scale(), classes, first.method, origin)


def _coupled(context: Context, x: np.ndarray, codes: np.ndarray, weight: np.ndarray | None, classes: Labels) -> Fitted:
    """Fit one model for all classes."""
    who, settings, count = context.who, context.settings, len(classes.values)
    two = count == 2
    if not two and settings.link == "probit":
        what = Option("link") + f" is 'probit' but y has {count} classes, whose softmax is a logit"
        raise fail(who, what, "leave link out, or use " + Option("multi_class", "'one_vs_rest'"))
    if not two and (settings.inference == "ep" or isinstance(settings.inference, EP)):
        do = "use " + Option("multi_class", "'one_vs_rest'") + ", or " + Option("inference", "'laplace'")
        raise fail(who, f"EP is for two classes, y has {count}", do, argument="EP")
    likelihood = Bernoulli(settings.link) if two else Softmax(count)
    data = Data(x, codes.astype(np.float64), None, weight).merge()
    start = classes_start(context, data, likelihood)
    return fitted(context, start, data, inference_of(context, likelihood), Scale())


def _one_vs_rest(
    settings: Settings, rows: Rows, x: np.ndarray, codes: np.ndarray, weight: np.ndarray | None, classes: Labels
) -> list[Fitted]:
    """Fit a two-class model of each class against the rest."""
    if isinstance(settings.kernel, list | tuple):
        do = "give one kernel with " + Option("multi_class", "'one_vs_rest'")
        raise fail(settings.who, Option("kernel") + " is a list", do)
    out = []
    for c, label in enumerate(classes.values.tolist()):
        checkpoint = settings.checkpoint and f"{settings.checkpoint}.{c}"
        own = replace(settings, class_weight=None, checkpoint=checkpoint, random_state=deepcopy(settings.random_state))
        mine = codes == c
        two = Labels(np.array([False, True]), np.bincount(mine, weight, 2))
        found = _coupled(Context(own, rows.columns, two), x, mine.astype(np.int64), weight, two)
        out.append(replace(found, process=replace(found.process, label=str(label))))
    return out


def _weighted(settings: Settings, labels: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return row weights multiplied by class weights."""
    found, codes = np.unique(labels if weight is None else labels[weight > 0], return_inverse=True)
    each = _class_weights(settings.who, settings.class_weight, found, found[codes])
    by_label = dict(zip(found.tolist(), each, strict=True))
    more = np.array([by_label.get(v, 0.0) for v in labels.tolist()])
    return more if weight is None else weight * more


def _class_weights(who: str, given: Mapping[object, float] | str | None, classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return one weight per class."""
    weight = Option("class_weight")
    if isinstance(given, str) and given == "balanced":
        return compute_class_weight("balanced", classes=classes, y=labels)
    if not isinstance(given, Mapping):
        raise fail(who, weight + f" is {given!r}", "give 'balanced', None, or a dict of weights by class")
    known = set(classes.tolist())
    strange = [k for k in given if k not in known]
    if strange:
        raise fail(who, weight + f" names {strange[0]!r}, which is not in y", "use the labels of y")
    try:
        out = np.array([float(given.get(c, 1.0)) for c in classes.tolist()])
    except (TypeError, ValueError):
        raise fail(who, weight + f" is {dict(given)!r}", "give finite numbers, zero or more") from None
    if not (np.isfinite(out).all() and (out >= 0).all()):
        raise fail(who, weight + f" is {dict(given)!r}", "give finite numbers, zero or more")
    if not (out > 0).any():
        raise fail(who, "every " + weight + " is zero", "give some class a positive weight")
    return out
