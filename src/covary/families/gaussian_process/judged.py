"""Training rows of Gaussian processes, and predictions with observed values: leave-one-out, or for new rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from covary._errors import Option
from covary._precision import precision
from covary._words import counted
from covary.data import Data, Inputs, as_inputs
from covary.families.gaussian_process.processes import Processes
from covary.fits import Advice, Fit, Judged, Training
from covary.kernels import tiles
from covary.optimise.base import OUT_OF_TIME, STUCK, UNBOUNDED, of_kind
from covary.parameters import parameters
from covary.plots.source import coded_columns
from covary.posterior import AbstractPosterior, Combination, cavities, class_probabilities, outcomes, with_matrix
from covary.posterior.combination import LEFT_OUT
from covary.posterior.outcomes import Outcomes
from covary.prediction import Mixed, Spread
from covary.selection.starts import lengthscale_paths

MOST = 4000  # largest number of rows to integrate over a non-Gaussian likelihood
EDGE = 1e-16  # smallest probability converted to a standardised error


def judged(fit: Fit[Processes], x: np.ndarray | None = None, y: np.ndarray | None = None, *, key: int = 0) -> Judged:
    """Return leave-one-out predictions for the training rows, or predictions for new rows with observed values.

    Parameters
    ----------
    fit
        The fit.
    x, y
        New rows (m, d) and their observed values, (m,) or (m, p) in the user's units; class codes.
    key
        Seed for subsampling rows if there are too many, and for the randomised PIT of integer observations.
    """
    posteriors, post, data = fit.state.posteriors, fit.state.first.posterior, fit.state.first.posterior.data
    gaussian = post.model.is_gaussian
    new = x is not None
    inputs = data.X if x is None else as_inputs(x, "diagnose")
    latents = [at_new(part, inputs.x) if new else left_out(part) for part in posteriors]
    seen = _seen(fit, data.y if not new else None, y)
    rng = np.random.default_rng(key)
    rows = np.flatnonzero(np.all([found.sound for found in latents], axis=0))
    if not gaussian and len(rows) > MOST:
        rows = np.sort(rng.choice(rows, MOST, replace=False))
    first = latents[0]
    kind = "new rows" if new else "in-sample" if first.included else "leave-one-out"
    share = share_left(post, inputs.take(rows), first.variance[rows])
    empty, there = np.empty((len(rows), 0)), np.asarray(inputs.x, np.float64)[rows]
    common = partial(replace, rows=rows, total=inputs.rows, share=share)
    if fit.classes is not None:
        p = class_probabilities(posteriors, [Spread(found.mean[rows], found.variance[rows]) for found in latents])
        return common(Judged.of_classes(kind, first.how, there, _codes(posteriors, seen, new)[rows], p))
    out = common(Judged.of_numbers(kind, first.how, there, empty, empty))
    X, seen, first = inputs.take(rows), seen[rows], _take(first, rows)
    if gaussian and first.noisy is not None:
        stated = None
        if post.scale is not None:
            whole = post.predict(inputs).y if new else post.leave_one_out().y
            assert isinstance(whole, Mixed)
            stated = Mixed(whole.mean[rows], whole.variance[rows], None, np.broadcast_to(whole.unsure, whole.mean.shape)[rows])
        return _gaussian(fit, out, seen, first, stated)
    found = outcomes(post.model.likelihood, X, seen, first.mean, first.variance)
    pit = found.upto
    if found.whole:
        pit = np.clip(found.below + rng.uniform(size=len(pit)) * (found.upto - found.below), 0.0, 1.0)
    values, mean, std, pit = (v[:, None] for v in (found.y, found.mean, found.std, pit))
    z = ndtri(np.clip(pit, EDGE, 1 - EDGE))
    return replace(out, y=values, mean=mean, std=std, pit=pit, z=z, find_ends=partial(_ends, found))


def _seen(fit: Fit[Processes], own: np.ndarray | None, y: np.ndarray | None) -> np.ndarray:
    """Return the observed values in the units of the model."""
    if y is None:
        if own is None:
            raise ValueError("new rows need observed values")
        return own
    seen = np.asarray(y, np.float64)
    gaussian = fit.state.first.model.is_gaussian
    return (seen - fit.scale.location) / fit.scale.scale if gaussian else seen


def _gaussian(fit: Fit[Processes], out: Judged, seen: np.ndarray, first: Latent, stated: Mixed | None) -> Judged:
    """Complete ``out`` under Gaussian noise, in the user's units; ``stated`` is given if the noise varies with the inputs."""
    assert first.noisy is not None
    values = seen.reshape(len(seen), -1)
    mean, std = first.mean.reshape(values.shape), np.sqrt(first.noisy)[:, None] * np.ones(values.shape[1])
    scale, location = np.atleast_1d(fit.scale.scale), np.atleast_1d(fit.scale.location)
    if stated is None:
        z, ends = (values - mean) / np.maximum(std, np.finfo(float).tiny), None
        pit = ndtr(z)
    else:
        low, high = (edge[:, None] * scale + location for edge in stated.interval())
        std, pit, ends = stated.std[:, None], stated.cdf(seen)[:, None], (low, high)
        z = ndtri(np.clip(pit, EDGE, 1 - EDGE))
    return replace(out, y=values * scale + location, mean=mean * scale + location, std=std * scale, pit=pit, z=z, ends=ends)


def _ends(found: Outcomes) -> tuple[np.ndarray, np.ndarray]:
    low, high = found.interval()
    return low[:, None], high[:, None]


def _take(found: Latent, rows: np.ndarray) -> Latent:
    noisy = None if found.noisy is None else found.noisy[rows]
    return found._replace(mean=found.mean[rows], variance=found.variance[rows], noisy=noisy, sound=found.sound[rows])


def _codes(posteriors: tuple[AbstractPosterior, ...], y: np.ndarray, new: bool) -> np.ndarray:
    """Return the class code of each row."""
    if new or len(posteriors) == 1:
        return np.asarray(y).astype(int)
    each = np.stack([np.asarray(post.data.y) for post in posteriors], axis=1)
    return each.argmax(1)


# latent moments -------------------------------------------------------------------------------------------------------
class Latent(NamedTuple):
    """Moments of the latent function f at m rows: means (m,), (m, p) or (m, L); variances (m,) or (m, L, L).

    ``noisy`` is the variance of observations under Gaussian noise, None otherwise; ``sound`` marks the rows with a result;
    ``how`` describes the computation in one clause; ``included`` is whether no row was left out.
    """

    mean: np.ndarray
    variance: np.ndarray
    noisy: np.ndarray | None
    sound: np.ndarray
    how: str
    included: bool = False


HOW = {
    "exact": "exact, without refitting",
    "approximate": "within the approximation of the matrix, without refitting",
    "cavity": "from the cavity distributions of the approximation, without refitting",
    "included": "with every row included in the training data, which matters little with many rows per inducing input",
}


def left_out(post: AbstractPosterior) -> Latent:
    """Return the leave-one-out moments at the training rows."""
    if isinstance(post, Combination):
        return _of_committee(post)
    found = cavities(with_matrix("diagnose", post))
    noisy = None if found.noisy is None else np.asarray(found.noisy, np.float64)
    variance = np.asarray(found.variance, np.float64)
    return Latent(found.mean, variance, noisy, found.sound, HOW[found.how], found.how == "included")


def _of_committee(post: Combination) -> Latent:
    """Return leave-one-out moments at some rows; in-sample moments if the experts cannot leave a row out."""
    data, likelihood = post.data, post.model.likelihood
    if likelihood.latents == 1 and data.y.ndim == 1:
        rows, found = post.left_out()
        mean, variance, sound = np.zeros(data.rows), np.ones(data.rows), np.zeros(data.rows, bool)
        known = np.isfinite(found.mean) & (found.variance > 0)
        rows = rows[known]
        mean[rows], variance[rows], sound[rows] = found.mean[known], found.variance[known], True
        noisy = variance + np.asarray(post.noise, np.float64) if post.observed else None
        how = f"by the committee, without refitting ({counted(len(rows), 'row')} drawn at random)"
        return Latent(mean, variance, noisy, sound, how)
    rows = np.sort(np.random.default_rng(0).permutation(data.rows)[:LEFT_OUT])
    found = post.latent(data.X.take(rows))
    mean, variance = np.zeros((data.rows, *found.mean.shape[1:])), np.ones((data.rows, *found.variance.shape[1:]))
    sound = np.zeros(data.rows, bool)
    mean[rows], variance[rows], sound[rows] = found.mean, found.variance, True
    how = "with every row included in the training data, which matters little with many experts"
    return Latent(mean, variance, variance + post.noise if post.observed else None, sound, how, included=True)


def at_new(post: AbstractPosterior, X: np.ndarray) -> Latent:
    """Return the latent moments at new rows."""
    f = post.predict(X).f
    noisy = None
    if post.observed:
        noisy = f.variance + post.model.noise
    return Latent(f.mean, f.variance, noisy, np.ones(len(X), bool), "rows outside the training data")


def prior_variance(post: AbstractPosterior, X: Inputs) -> np.ndarray:
    """Return the prior variance k(x, x) at every row, summed over the latent functions."""
    kernels = post.model.prior.kernels
    with precision(post.data.dtype):
        each = [np.asarray(tiles.diag(kernel, X), np.float64) for kernel in kernels]
    latents = post.model.likelihood.latents
    return np.sum(each, axis=0) if len(each) > 1 else each[0] * latents


def share_left(post: AbstractPosterior, X: Inputs, variance: np.ndarray) -> np.ndarray:
    """Return the ratio of posterior to prior variance."""
    total = np.einsum("nll->n", variance) if variance.ndim == 3 else variance
    prior = prior_variance(post, X)
    return np.clip(total / np.where(prior > 0, prior, 1.0), 0.0, 1.0)


# training rows ------------------------------------------------------------------------------------------------------
METHODS = {
    "markov": "by an exact recursion along the input (markov)",
    "vecchia": "conditioning each row on its nearest neighbours (vecchia)",
    "low_rank": "through inducing inputs (low_rank)",
    "svgp": "through inducing inputs, in batches (svgp)",
    "subset": "of which a subset was kept (subset)",
}


def training(fit: Fit[Processes]) -> Training:
    """Return the training rows, with further information about them."""
    post = fit.state.first.posterior
    data, likelihood = post.data, post.model.likelihood
    alone = not isinstance(post, Combination)
    noise = ""
    if fit.state.first.model.is_gaussian:
        noise = "fixed" if likelihood.mark_of("variance").fixed else "learned"
    y, size = _observations(fit, data)
    return Training(
        x=np.asarray(data.X.x, np.float64),
        y=y,
        size=size,
        count=float(data.rows if data.weight is None else data.weight.sum()),
        merged=data.weight is not None,
        lengths=lengths(fit),
        coded=frozenset(c for part in fit.state.posteriors for c in coded_columns(part.model.prior.kernel, data.X.columns)),
        learned=alone and any(part.learned is not None for part in fit.state.parts),
        still=_still(fit, data) if alone else (),
        noise=noise,
        whole=likelihood.support in ("counts", "labels"),
        widths=_widths(fit),
        how="" if fit.method.name in ("exact", "Dense") else METHODS.get(fit.method.name, f"by the method {fit.method.name}"),
        unfinished=unfinished(fit),
        advice=advice(fit),
    )


def _observations(fit: Fit[Processes], data: Data) -> tuple[np.ndarray, np.ndarray | None]:
    """Return observations in the user's units, and their sizes."""
    y = np.asarray(data.y, np.float64)
    if fit.state.first.model.is_gaussian:
        return (y * fit.scale.scale + fit.scale.location).reshape(len(y), -1), None
    if len(fit.state.parts) > 1:
        y = np.stack([np.asarray(post.data.y, np.float64) for post in fit.state.posteriors], axis=1).argmax(1)
    return (y[:, :1], y[:, 1]) if y.ndim == 2 else (y[:, None].astype(np.float64), None)


def _still(fit: Fit[Processes], data: Data) -> tuple[str, ...]:
    """Return the real-valued targets that are constant."""
    if fit.classes is not None or fit.state.first.posterior.model.likelihood.support != "real":
        return ()
    if data.scatter is not None and np.any(data.scatter):
        return ()
    flat = np.ptp(np.asarray(data.y, np.float64).reshape(data.rows, -1), axis=0) == 0
    return tuple(target for target, still in zip(fit.target, flat, strict=True) if still)


def _widths(fit: Fit[Processes]) -> tuple[float, float]:
    """Return the variances of prior and noise under Gaussian noise; else 1 and 0, for the function in its own units."""
    if not fit.state.first.model.is_gaussian:
        return 1.0, 0.0
    post = fit.state.first.posterior
    return float(np.median(prior_variance(post, post.data.X))), post.model.noise


def lengths(fit: Fit[Processes]) -> np.ndarray:
    """Return the characteristic length of each column: its shortest length-scale, or its standard deviation if it has none."""
    x = np.asarray(fit.state.first.posterior.data.X.x, np.float64)
    out = np.full(x.shape[1], np.inf)
    for post in fit.state.posteriors:
        known = parameters(post.model)
        for path, columns in lengthscale_paths(post.model.prior.kernel, x.shape[1]).items():
            out[columns] = np.minimum(out[columns], np.asarray(known[path].value, np.float64))
    out = np.where(np.isfinite(out), out, x.std(0))
    return np.where(out > 0, out, 1.0)


def unfinished(fit: Fit[Processes]) -> str:
    """Return a note if learning did not finish; otherwise an empty string."""
    states = [part.learned.status for part in fit.state.parts if part.learned is not None]
    if any(of_kind(status, OUT_OF_TIME) for status in states):
        return "Learning ran out of time: the fit may improve with more time."
    if any(of_kind(status, UNBOUNDED) for status in states):
        return "The mean is unbounded: the evidence keeps rising as it moves away. Give it a prior."
    if any(of_kind(status, STUCK) for status in states):
        return (
            "Learning stopped at a discontinuity of its objective: try another inference ('ep'), a stronger prior, or another "
            "likelihood."
        )
    return ""


def share_of_prior(fit: Fit[Processes], x: np.ndarray | None) -> np.ndarray:
    """Return the ratio of posterior to prior variance at new rows, or leave-one-out at the training rows."""
    post = fit.state.first.posterior
    if x is None:
        found = left_out(post)
        return share_left(post, post.data.X, found.variance)[found.sound]
    inputs = as_inputs(x, "diagnose")
    return share_left(post, inputs, post.predict(inputs.x).f.variance)


def advice(fit: Fit[Processes]) -> Advice:
    """Return advice on findings, in terms of kernels, noise and likelihoods."""
    normal, rough = fit.state.first.model.is_gaussian, "Matern" in repr(fit.state.first.posterior.model.kernel)
    ep = Option("inference", "'ep'")
    cautious: str = "Use " + ep + ", which is more accurate."
    if fit.classes is not None and len(fit.classes.values) > 2:
        cautious = "Use " + ep + " with " + Option("multi_class", "'one_vs_rest'") + ", which is more accurate."
    if type(fit.state.first.inference).__name__ == "EP":
        cautious = Advice().cautious
    varying: str = "Use " + Option("likelihood", "'heteroscedastic'") + ", give " + Option("noise_variance")
    varying = varying + " for each row, or transform y (its logarithm, say)."
    outliers: str = "Inspect these rows; if they are correct, use " + Option("likelihood", "'student_t'")
    outliers = outliers + ", which is robust to them."
    if not normal:
        varying = "Try another likelihood (negative_binomial for counts), or a kernel that lets the function vary more."
        outliers = "Inspect these rows; if they are correct, try a likelihood with longer tails."
    more: str = "Try a more flexible model: another kernel, a shorter length-scale, a sum of kernels, "
    if fit.kind == "regression":
        more = more + Option("mean", "'linear'") + ", "
    heavy = "use " + Option("likelihood", "'student_t'", "'heteroscedastic'") + ", or transform y."
    likelihoods = " (student_t, heteroscedastic)" if normal else ""
    return Advice(
        free="Try another kernel or likelihood" if fit.kind == "regression" else "Try another kernel",
        heavy=heavy if normal else "transform y.",
        several="The outputs share one kernel and one noise: fit them one at a time.",
        shape=f"Inspect the histogram; try another likelihood{likelihoods}, or transform y.",
        more=more + "or an additional input.",
        inputs="Use other inputs, more rows, or another kernel; a constant predicts just as well.",
        varying=varying,
        outliers=outliers,
        cautious=cautious,
        beyond="These predictions mostly reflect the prior: collect rows there, or give the trend as a mean.",
        smoother="a smoother kernel such as SquaredExponential may fit better" if rough else "",
    )
