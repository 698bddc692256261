"""Predictions of fitted Gaussian processes in the user's units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from covary._checks import CovaryError, fail
from covary._errors import Option
from covary._memory import check_draws
from covary.data import Data, Inputs
from covary.families.gaussian_process.processes import Process, Processes
from covary.families.gaussian_process.settings import Executor
from covary.fits import AnyFit, Fit, Scale
from covary.posterior import AbstractPosterior, Combination, class_probabilities, square_root
from covary.prediction import Observed
from covary.tables.columns import Mapped
from covary.tables.given import PerRow


@dataclass(frozen=True)
class Numbers:
    """Means with standard deviations or a joint covariance; arrays (m,), (m, p), and (m, m) or (m, m, p)."""

    mean: np.ndarray
    std: np.ndarray | None = None
    covariance: np.ndarray | None = None


def evidence_in_units(posterior: AbstractPosterior, data: Data, scale: Scale) -> float:
    """Return the log evidence of a posterior in the user's units."""
    count = data.rows if data.weight is None else float(data.weight.sum())
    return posterior.log_evidence - count * float(np.log(scale.scale).sum())


# of numbers -----------------------------------------------------------------------------------------------------------
def mean_of(fit: AnyFit, process: Process, x: np.ndarray, *, latent: bool = False, size: PerRow = None) -> np.ndarray:
    """Return the mean of new observations (of the function itself if ``latent``)."""
    _check_size(process, size)
    if process.model.is_gaussian:
        return process.posterior.mean(x) * fit.scale.scale + fit.scale.location
    found = process.posterior.predict(x, size=size)
    return found.f.mean if latent else found.y.mean


def spread_of(
    fit: AnyFit,
    process: Process,
    x: np.ndarray,
    *,
    latent: bool = False,
    joint: bool = False,
    size: PerRow = None,
) -> Numbers:
    """Return mean and standard deviation (covariance if ``joint``) of new observations (of the function if ``latent``)."""
    _check_size(process, size)
    if joint and not (process.model.is_gaussian or latent):
        what = Option("return_cov") + " is set but the noise is non-Gaussian"
        raise fail("GPRegressor.predict", what, "use " + Option("latent", "True") + ", or " + Option("return_std"))
    prediction = process.posterior.predict(x, covariance=joint, size=size)
    found = prediction.f if latent else prediction.y
    if not process.model.is_gaussian:
        return Numbers(found.mean, covariance=found.covariance) if joint else Numbers(found.mean, found.std)
    scale = fit.scale.scale
    mean = found.mean * scale + fit.scale.location
    if not joint:
        return Numbers(mean, found.std * scale if mean.ndim == 1 else found.std[:, None] * scale)
    assert found.covariance is not None
    return Numbers(mean, covariance=found.covariance if mean.ndim == 1 else found.covariance[:, :, None] * scale**2)


def moments(
    fit: AnyFit, process: Process, x: np.ndarray, *, latent: bool = False, size: PerRow = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of new observations (of the function itself if ``latent``)."""
    found = spread_of(fit, process, x, latent=latent, size=size)
    assert found.std is not None
    return found.mean, found.std


def _check_size(process: Process, size: PerRow) -> None:
    if size is not None and process.model.is_gaussian:
        what = Option("size") + " is given but Gaussian observations have none"
        raise fail("GPRegressor", what, "leave it out", argument="size")


def quantiles(fit: Fit[Processes], x: np.ndarray, p: np.ndarray, *, latent: bool = False, size: PerRow = None) -> np.ndarray:
    """Return quantiles of new observations (of the function if ``latent``), one row per probability."""
    from scipy.special import ndtri

    process = fit.state.first
    if process.model.is_gaussian and (latent or process.posterior.scale is None):
        found = spread_of(fit, process, x, latent=latent, size=size)
        return np.stack([found.mean + ndtri(q) * found.std for q in p])
    _check_size(process, size)
    prediction = process.posterior.predict(x, size=size)
    spread = prediction.f if latent else prediction.y
    return np.stack([spread.quantile(float(q)) for q in p])


def draws(
    fit: Fit[Processes],
    x: np.ndarray,
    count: int,
    rng: np.random.RandomState,
    *,
    latent: bool = False,
    size: PerRow = None,
    who: str = "GPRegressor.sample_y",
) -> np.ndarray:
    """Draw new observations (of the function itself if ``latent``) jointly: (m, count) or (m, p, count)."""
    process = fit.state.first
    post = process.posterior
    if not process.model.is_gaussian or (post.scale is not None and not latent):
        key = np.random.default_rng(rng.randint(2**31))
        if process.model.likelihood.latents > 1 and not latent:
            return _observed(post, x, size).sample(count, key=key).T
        if latent:
            return post.sample(x, count, key=key).T
        return post.sample_y(x, count, key=key, size=size).T
    found = spread_of(fit, process, x, latent=latent, joint=True, size=size)
    mean, covariance = found.mean, found.covariance
    assert covariance is not None
    check_draws(who, count, mean.size)
    columns = [(mean, covariance)] if mean.ndim == 1 else [(mean[:, j], covariance[:, :, j]) for j in range(mean.shape[1])]
    each = [m[:, None] + square_root(C) @ rng.standard_normal((len(m), count)) for m, C in columns]
    return each[0] if mean.ndim == 1 else np.stack(each, axis=1)


def _observed(post: AbstractPosterior, x: np.ndarray, size: PerRow = None) -> Observed:
    """Return the distribution of new observations under a non-Gaussian likelihood."""
    found = post.predict(x, size=size).y
    assert isinstance(found, Observed)
    return found


# of classes -----------------------------------------------------------------------------------------------------------
def probabilities(fit: Fit[Processes], x: np.ndarray, average: str = "exact") -> np.ndarray:
    """Return class probabilities, (m, C)."""
    return class_probabilities(fit.state.posteriors, [post.predict(x).f for post in fit.state.posteriors], average)


def latent_of_classes(fit: Fit[Processes], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the latent function: (m,) for two classes, (m, C) for more."""
    each = [(f.mean, f.std) for f in (part.posterior.predict(x).f for part in fit.state.parts)]
    if len(each) == 1:
        return each[0]
    return np.stack([mean for mean, _ in each], axis=1), np.stack([std for _, std in each], axis=1)


def drawn_classes(fit: Fit[Processes], x: np.ndarray, count: int, rng: np.random.Generator, who: str) -> np.ndarray:
    """Draw class codes for every row, (count, m); for two classes jointly through the latent function."""
    assert fit.classes is not None
    post = fit.state.first.posterior
    if len(fit.state.parts) > 1:
        p = probabilities(fit, x)
        check_draws(who, count, p.size)
        found = (rng.random((count, len(p), 1)) > p.cumsum(1)).sum(2)
    elif len(fit.classes.values) == 2:
        found = post.sample_y(x, count, key=rng).astype(int)
    else:
        found = _observed(post, x).sample(count, key=rng).astype(int)
    return np.minimum(found, len(fit.classes.values) - 1)


# of numbers and classes -----------------------------------------------------------------------------------------------
def check_unseen(fit: Fit[Processes], found: Mapped, who: str = "predict") -> None:
    """Raise an error for categories not seen during fit if the kernel has a fixed number of categories."""
    if not found.unseen or len(fit.state.parts) > 1:  # not checked for one-vs-rest models
        return
    try:
        fit.state.first.model.prior.check(Inputs(np.nan_to_num(found.x)))
    except CovaryError:
        name, levels = next(iter(found.unseen.items()))
        what = f"column {name!r} of " + Option("X") + f" contains {next(iter(levels))!r}, never seen in fit"
        do = "use Hamming() or Exchangeable() without levels, or leave the row out"
        raise fail(who, what + ", and the kernel has a fixed number of categories", do) from None


def worked_on(fit: Fit[Processes], executor: Executor, who: str = "predict") -> Fit[Processes]:
    """Return the fit with its committee on an executor."""
    first = fit.state.first
    if not isinstance(first.posterior, Combination):
        what = Option("executor") + " is given but the model is not a committee of experts and runs in this process"
        raise fail(who, what, "leave it out")
    posterior = replace(first.posterior, experts=first.posterior.experts.on(executor))
    return replace(fit, state=Processes((replace(first, posterior=posterior),)))
