"""Gaussian process regression for numbers, counts and levels, and updates with further rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._words import counted
from covary.committee.settings import Committee, extended
from covary.data import Data
from covary.families.gaussian_process.fitting import Fitted, fitted
from covary.families.gaussian_process.predict import evidence_in_units
from covary.families.gaussian_process.processes import Processes
from covary.families.gaussian_process.settings import Context, Rows, Settings, named_likelihood, seed_of
from covary.families.gaussian_process.start import inference_of, regression_start, rivals
from covary.fits import Fit, Origin, Scale
from covary.inference.base import AbstractInference
from covary.inference.condition import condition
from covary.inference.exact import Exact
from covary.inference.updates import append_data, can_append
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.models.local_scale import local_scale
from covary.posterior import AbstractPosterior, Combination, Posterior
from covary.posterior.base import ErrorScale
from covary.selection.left_out import GeneralisedCrossValidation

LOCAL = ("vecchia", "low_rank")  # methods for which local_errors="auto" considers local error bars


def learn_regression(settings: Settings, rows: Rows, origin: Origin) -> Fit[Processes]:
    """Learn hyperparameters from numeric targets, and condition on them."""
    context = Context(settings, rows.columns, None, rows.disk)
    likelihood = named_likelihood(settings.who, settings.likelihood, rows.y)
    inference = inference_of(context, likelihood)
    if isinstance(likelihood, Gaussian):
        found, scale = _gaussian(context, rows, likelihood, inference)
        target = rows.named(scale.scale.size if scale.scale.ndim else 1)
    else:
        found, scale = _other(context, rows, likelihood, inference), Scale()
        target = rows.target[:1] or ("y",)  # a second column is the size
    origin = replace(origin, named=bool(rows.target))
    state = Processes((found.process,))
    return Fit("gaussian_process", state, found.columns, target, scale, None, found.method, origin)


def check_disk(settings: Settings, rows_on_disk: bool, **given: object) -> None:
    """Raise an error for arguments that a committee, or a table on disk, does not support."""
    experts = rows_on_disk or isinstance(settings.method, Committee) or settings.method == "committee"
    if experts and settings.local_errors is True:
        raise fail(settings.who, Option("local_errors") + " is True with a committee of experts", "use another method")
    for name, value in given.items():
        if rows_on_disk and value is not None:
            what = Option(name) + " is given with a table on disk"
            raise fail(settings.who, what, "leave it out, or fit to rows in memory")


def _gaussian(context: Context, rows: Rows, likelihood: Gaussian, inference: AbstractInference) -> tuple[Fitted, Scale]:
    """Fit under Gaussian noise; several outputs are standardised separately."""
    who, y, settings = context.who, rows.y, context.settings
    scale = Scale(np.zeros(y.shape[1:]), np.ones(y.shape[1:]))
    if rows.size is not None:
        raise fail(who, Option("size") + " is given with Gaussian noise", "use it with counts or binomial observations")
    if y.ndim == 2 and settings.standardise:
        if rows.noise is not None:
            what = Option("noise_variance") + " is given for several outputs, each standardised by its own scale"
            raise fail(who, what, "set " + Option("standardise", "False") + ", or fit one output at a time")
        location = np.average(y, axis=0, weights=rows.weight)
        spread = np.sqrt(np.average((y - location) ** 2, axis=0, weights=rows.weight))
        scale = Scale(location, np.where((np.ptp(y, axis=0) > 0) & (spread > 0), spread, 1.0))
    data = _data(rows, scale, settings, inference)
    start = regression_start(context, data, likelihood)
    found = fitted(context, start, data, inference, scale, rivals(context, start))
    return _localised(settings, found), scale


def _other(context: Context, rows: Rows, likelihood: AbstractLikelihood, inference: AbstractInference) -> Fitted:
    """Fit one output under a non-Gaussian likelihood, in its own units and with equal rows merged."""
    who, name, settings, y = context.who, type(likelihood).__name__, context.settings, rows.y
    if settings.local_errors is True:
        raise fail(who, Option("local_errors") + f" is True with a {name} likelihood", "use Gaussian noise, or leave it out")
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if rows.noise is not None:
        raise fail(who, Option("noise_variance") + f" is given with a {name} likelihood", "leave it out, or use Gaussian noise")
    if settings.noise is not None:
        what = Option("noise") + f" is given with a {name} likelihood"
        raise fail(who, what, "give the likelihood with its parameters instead")
    if y.ndim == 2 and not (likelihood.sized and y.shape[1] == 2 and rows.size is None):
        what = Option("y") + f" has {counted(y.shape[1], 'column')}"
        raise fail(who, what, f"fit one output at a time under a {name} likelihood")
    if rows.size is not None:
        if not likelihood.sized:
            raise fail(who, Option("size") + f" is given but {name} observations have none", "leave it out")
        y = np.stack([y, rows.size], axis=1)
    likelihood.check(y, who)
    data = _rows_that_count(rows.x, y, rows.weight)
    return fitted(context, regression_start(context, data, likelihood), data, inference, Scale())


def _localised(settings: Settings, found: Fitted) -> Fitted:
    """Add error bars that vary with the inputs, if requested or chosen automatically and there is time."""
    who, asked, clock, process = settings.who, settings.local_errors, found.clock, found.process
    if asked not in ("auto", True, False):
        raise fail(who, Option("local_errors") + f" is {asked!r}", "choose 'auto', True or False")
    several = process.posterior.data.y.ndim == 2
    always = asked is True
    if always and several:
        raise fail(who, Option("local_errors") + " is True with several outputs", "fit one output at a time")
    large = asked == "auto" and settings.method == "auto" and found.method.name in LOCAL
    if not always and not (large and not several):
        return found
    again = clock.took["condition"]  # conditioning the process of the errors takes about as long
    if clock.over(2 * again) and not always:
        why = f"{found.method.why}; the time limit left no time for local error bars"
        return replace(found, method=replace(found.method, why=why))
    left = None if clock.end is None else max(clock.left() - again, 0.0)
    assert isinstance(process.posterior, Posterior)
    scale = local_scale(process.posterior, always=always, key=seed_of(who, settings.random_state), max_time=left)
    return replace(found, process=replace(process, posterior=_with_scale(process.posterior, scale)))


def _with_scale(post: AbstractPosterior, scale: ErrorScale | None) -> AbstractPosterior:
    """Return the posterior with local error bars."""
    return replace(post, scale=scale) if isinstance(post, Posterior | Combination) else post


# rows as data ---------------------------------------------------------------------------------------------------------
def _rows_that_count(x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Data:
    """Return rows of positive weight, with equal ones merged."""
    if weight is not None:
        x, y, weight = x[weight > 0], y[weight > 0], weight[weight > 0]
        weight = None if (weight == 1).all() else weight
    return Data(x, y, None, weight).merge()


def _data(rows: Rows, scale: Scale, settings: Settings, inference: AbstractInference) -> Data:
    """Return rows of positive weight in the units of the model, with equal inputs merged."""
    x, known, weight = rows.x, rows.noise, rows.weight
    y = (rows.y - scale.location) / scale.scale
    if weight is not None and (weight == 0).any():
        kept = weight > 0
        x, y, weight = x[kept], y[kept], weight[kept]
        known = None if known is None else known[kept]
    if weight is not None and (weight == 1).all():
        weight = None
    return _merged(Data(x, y, known, weight), settings, inference)


def _merged(data: Data, settings: Settings, inference: AbstractInference) -> Data:
    """Merge equal inputs if inference and objective account for it."""
    apart = settings.objective == "gcv" or isinstance(settings.objective, GeneralisedCrossValidation)
    return data.collapse() if isinstance(inference, Exact) and not apart else data


# further rows ---------------------------------------------------------------------------------------------------------
def updated(fit: Fit[Processes], rows: Rows, settings: Settings) -> Fit[Processes]:
    """Return a fit with rows added, with unchanged hyperparameters."""
    who, process = f"{settings.who}.update", fit.state.first
    post, likelihood, y = process.posterior, process.model.likelihood, rows.y
    held, scale = post.data, fit.scale.scale
    if post.on_disk:
        raise fail(who, "the model was fitted to a table on disk", "add the rows there and fit again")
    if likelihood.sized:
        y, held = _with_sizes(y, rows.size, held)
    elif rows.size is not None:
        raise fail(who, Option("size") + f" is given but {type(likelihood).__name__} has none", "leave it out")
    if y.shape[1:] != held.y.shape[1:]:
        raise fail(who, Option("y") + f" has shape {y.shape}", "give the outputs the model was fitted to")
    if rows.noise is not None and (not isinstance(likelihood, Gaussian) or (scale.ndim and not (scale == 1).all())):
        raise fail(who, Option("noise_variance") + " requires one output under Gaussian noise", "leave it out")
    if isinstance(likelihood, Gaussian):
        new = _data(rows, fit.scale, settings, process.inference)
        joined = held.join(new)
        data = _merged(joined, settings, process.inference)
        if data is joined and can_append(post):  # no equal rows to merge: O(n²)
            return _conditioned(fit, rows, _with_scale(append_data(post, new), post.scale), data)
    else:
        likelihood.check(y, who)
        data = held.join(_rows_that_count(rows.x, y, rows.weight)).merge()
    if isinstance(process.gram, Committee) and isinstance(post, Combination) and isinstance(post.experts.models, dict):
        return _conditioned(fit, rows, extended(post, data, process.gram), data)
    again = condition(process.model, data, inference=process.inference, gram=process.gram)
    return _conditioned(fit, rows, _with_scale(again, post.scale), data)


def _conditioned(fit: Fit[Processes], rows: Rows, post: AbstractPosterior, data: Data) -> Fit[Processes]:
    """Return the fit with a new posterior and the updated columns."""
    evidence = evidence_in_units(post, data, fit.scale)
    process = replace(fit.state.first, posterior=post, log_evidence=evidence)
    return replace(fit, state=Processes((process,)), columns=rows.columns)


def _with_sizes(y: np.ndarray, size: np.ndarray | None, held: Data) -> tuple[np.ndarray, Data]:
    """Return new and old observations, both with sizes if either have them."""
    if y.ndim == 1 and (size is not None or held.y.ndim == 2):
        y = np.stack([y, np.ones(len(y)) if size is None else size], axis=1)
    if y.ndim == 2 and held.y.ndim == 1:
        held = Data(held.X, np.stack([held.y, np.ones(held.rows)], axis=1), held.noise_variance, held.weight)
    return y, held
