"""Checks specific to Gaussian processes: stated noise, priors, numerical accuracy, bounds, several optima."""

from __future__ import annotations

import re

import jax
import numpy as np
from scipy.special import ndtri
from scipy.stats import chi2, gamma, halfcauchy, invgamma, norm

from covary import distributions
from covary._checks import CovaryError
from covary._errors import Option, Remedy, phrase
from covary._module import Mark, without_marks
from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted, some
from covary.diagnosis import figures
from covary.distributions import AbstractDistribution
from covary.families.gaussian_process.processes import Process, Processes
from covary.fits import Fit
from covary.fits.checks import FEWEST, LEVEL, OK, WARNING, Check, missing
from covary.gram.dense import Dense
from covary.inference.condition import condition
from covary.inference.plan import AbstractPlan
from covary.parameters import parameters
from covary.posterior import Posterior
from covary.posterior.diagnostics import conditioning, suspicious
from covary.selection.learn import Learned, learn
from covary.selection.priors import each

TRIES = 3  # tests of the stated noise
RELEARN = 1000  # largest number of rows to fit again with free noise
PROBES, EACH = 16, 500  # random vectors to estimate a trace; largest number of rows to compute it exactly
GIVEN, DEFAULT = 3.0, 5.0  # prior standard deviations allowed: of given priors, of the weak defaults
NEAR, APART, VALLEY = 2.0, 1.0, 1.0  # nats between peaks, distance between their log parameters, depth of the valley
MOST = 1500  # rows used to compare peaks


def checks(fit: Fit[Processes], *, quick: bool = False) -> list[Check]:
    """Return all checks of the fit itself; if ``quick``, only those that take no time."""
    if quick:
        return [check_priors(fit), check_bounds(fit)]
    return [_noise(fit), check_priors(fit), _digits(fit), check_bounds(fit), _peaks(fit)]


def functions_of(fit: Fit[Processes]) -> list[str]:
    """Return labels of latent functions with separate kernels: classes, or function and noise; empty for a single one."""
    if not isinstance(fit.state.first.model.kernel, tuple) or len(fit.state.parts) > 1:
        return []
    return ["function", "noise"] if fit.classes is None else [str(c) for c in fit.classes.values]


# stated noise ---------------------------------------------------------------------------------------------------


def _noise(fit: Fit[Processes]) -> Check:
    r"""Check whether noise that was stated rather than learned agrees with the data.

    Three tests: :math:`r^\top(K+S)^{-1}r \sim \chi^2_n`; Rao's score test of a factor multiplying the stated variances v,

    .. math:: g = \tfrac12\sum_iv_i(\alpha_i^2 - P_{ii}),\qquad I = \tfrac12\sum_{ij}v_iv_jP_{ij}^2,\qquad g/\sqrt I\sim N(0,1)

    which tests whether the evidence would rise if the factor were free; and, if the noise was fixed and there are few rows,
    the gain Δ in evidence from learning again with free noise, :math:`2\Delta\sim\chi^2_1`: the other two tests may miss wrong
    noise if the learned kernel compensates for it.
    """
    name, title, post = "noise", "Stated noise", fit.state.first.posterior
    likelihood, data = post.model.likelihood, post.data
    if fit.classes is not None:
        return missing(name, title, "Classification has no noise parameter.")
    if not fit.state.first.model.is_gaussian or not post.observed:
        return missing(name, title, "The noise is part of the likelihood, and was learned.")
    fixed, known = likelihood.mark_of("variance").fixed, data.noise_variance is not None
    if not (fixed or known):
        return missing(name, title, "The noise was learned from the data; none was stated.")
    if not isinstance(post, Posterior):
        return missing(name, title, "A committee of experts has no joint covariance matrix to test the stated noise with.")
    if data.rows < FEWEST:
        return missing(name, title, f"{counted(data.rows, 'row is', 'rows are')} too few for this test (at least {FEWEST}).")
    weight = np.ones(data.rows) if data.weight is None else np.asarray(data.weight, np.float64)
    v = np.asarray(post.factor.spread, np.float64) if fixed else np.asarray(data.noise_variance, np.float64) / weight
    score, square, freedom = _score(post, v, whole=fixed)
    tail = 2 * min(float(chi2.cdf(square, freedom)), float(chi2.sf(square, freedom)))
    chance = min(1.0, TRIES * min(2 * float(norm.sf(abs(score))), tail))
    limit = float(-ndtri(LEVEL / (2 * TRIES)))
    bad, freed = chance < LEVEL, None
    if not bad and fixed and fit.state.first.learned is not None:
        freed = _freed(fit.state.first)
    more = 0.0
    if known and not fixed:
        stated = float(np.median(np.asarray(data.noise_variance)))
        more = post.model.noise / stated if stated > 0 else 0.0
    said = f"The stated noise agrees with the data (score {score:.1f}, {square / freedom:.2f} of the implied scatter)."
    if bad:
        way = "larger" if score > 0 else "smaller"
        said = (
            f"The data suggest {way} noise than was stated (score {score:.1f}, {square / freedom:.2f} of the implied scatter)."
        )
    elif freed is not None and TRIES * float(chi2.sf(2 * max(freed[0], 0.0), 1)) < LEVEL:
        bad, way = True, "larger" if freed[1] > post.model.noise else "smaller"
        gain = f"a variance of {freed[1]:.3g} raises the log evidence by {freed[0]:.0f} nats"
        said = f"The data suggest {way} noise than was stated: {gain}."
    elif more > 1:
        bad, said = True, f"The data scatter more: additional noise of {more:.1f} times the stated variance was learned."
    units = "Check the units (variance, not standard deviation), or leave noise and fixed out to learn the noise."
    advice = phrase(Remedy("stated noise", units))
    rule = f"score between -{limit:.1f} and {limit:.1f}"
    draw = figures.bars(["score"], np.array([score]), limit, "standard deviations")
    return Check(name, title, float(score), limit, rule, WARNING if bad else OK, said, advice if bad else "", draw)


def _freed(part: Process) -> tuple[float, float] | None:
    """Return the gain in evidence from learning again with free noise, and that noise; None for many rows."""
    post = part.posterior
    if post.data.rows > RELEARN or post.kind != "Dense":
        return None
    start = post.model.replace(likelihood=post.model.likelihood.with_mark("variance", Mark()))
    found = learn(start, post.data, priors=dict(part.priors), n_restarts=2).model
    return condition(found, post.data).log_evidence - post.log_evidence, found.noise


def _score(post: Posterior, v: np.ndarray, *, whole: bool) -> tuple[float, float, float]:
    """Return the standardised score of a factor of the variances v, the quadratic form, and its degrees of freedom."""
    factor, data, n = post.factor, post.data, post.data.rows
    alpha = np.asarray(post.alpha, np.float64).reshape(n, -1)
    outputs = alpha.shape[1]
    with precision(data.dtype), blas_threads(n):
        P = np.asarray(factor.diag_inverse(), np.float64)
        rng = np.random.default_rng(0)
        u = np.eye(n) if n <= EACH else np.where(rng.uniform(size=(n, PROBES)) < 0.5, -1.0, 1.0)
        u = np.asfortranarray(u.astype(data.dtype))
        scaled = np.asfortranarray((v[:, None] * u).astype(data.dtype))
        trace = float((np.asarray(factor.solve(scaled), np.float64) * v[:, None] * np.asarray(factor.solve(u))).sum())
        square = float(factor.quad(post.solved.shift))
    trace = trace if n <= EACH else trace / PROBES
    slope = 0.5 * float((v * ((alpha**2).sum(1) - outputs * P)).sum())
    information = 0.5 * outputs * max(trace, 1e-300)
    freedom = float(n * outputs)
    if whole and data.scatter is not None and data.weight is not None:  # repeated inputs measure the noise directly
        w = np.asarray(data.weight, np.float64)
        each = np.maximum(v * w, 1e-300)
        within = float((np.asarray(data.scatter) / each).sum())
        slope += 0.5 * (within - outputs * float((w - 1).sum()))
        information += 0.5 * outputs * float((w - 1).sum())
        square, freedom = square + within, freedom + outputs * float((w - 1).sum())
    return slope / np.sqrt(information), square, freedom


# priors and bounds ----------------------------------------------------------------------------------------------


def prior_distance(prior: AbstractDistribution, value: float) -> float:
    """Return the distance of a value from a prior's centre in standard deviations, on the scale where the prior is normal.

    Examples
    --------
    >>> from covary.distributions import Gamma, LogNormal
    >>> prior_distance(LogNormal(0.0, scale=2.0), float(np.exp(3.0)))
    1.5
    >>> abs(round(prior_distance(Gamma(1.0, shape=2.0), float(np.log(2.0))), 6))
    0.0
    """
    if isinstance(prior, distributions.LogNormal):
        return (float(np.log(value)) - prior.location) / prior.scale
    if isinstance(prior, distributions.Normal):
        return (value - prior.mean) / prior.std
    if isinstance(prior, distributions.Gamma):
        law = gamma(prior.shape / 2, scale=2 * prior.mean / prior.shape)
    elif isinstance(prior, distributions.InverseGamma):
        law = invgamma(prior.shape / 2 + 1, scale=prior.shape * prior.mean / 2)
    elif isinstance(prior, distributions.HalfCauchy):
        law = halfcauchy(scale=prior.scale)
    else:
        return 0.0  # the ends of a uniform prior are bounds
    below, above = float(law.logcdf(value)), float(law.logsf(value))
    from scipy.special import ndtri_exp

    return float(ndtri_exp(below)) if below < above else -float(ndtri_exp(above))


def _head(part: Process) -> str:
    """Return the prefix of the names of a process's parameters."""
    return f"{part.label}: " if part.label else ""


def _label(fit: Fit[Processes], path: str, values: np.ndarray, i: int) -> str:
    place = re.match(r"kernel\.(\d+)\.", path)
    functions, columns = functions_of(fit), fit.columns.names
    of = f" ({functions[int(place[1])]})" if place and functions else ""
    if len(values) == 1:
        return f"{path}{of}"
    return f"{path}[{columns[i] if len(values) == len(columns) else i}]{of}"


def check_priors(fit: Fit[Processes]) -> Check:
    """Check the distance of learned parameters from their priors' centres, in prior standard deviations."""
    name, title = "priors", "Priors against data"
    names, far = [], []
    for part in fit.state.parts:
        if part.learned is None:
            continue
        for path, p in parameters(part.posterior.model).items():
            prior = part.priors.get(path)
            if prior is None or p.mark.fixed:
                continue
            values = np.atleast_1d(np.asarray(p.value, np.float64)).ravel()
            for i, (density, value) in enumerate(zip(each(prior, len(values)), values, strict=True)):
                names.append(_head(part) + _label(fit, path, values, i))
                far.append(prior_distance(density, float(value)))
    if not names:
        return missing(name, title, "Nothing was learned under a prior.")
    limit = DEFAULT if isinstance(fit.origin.arguments.get("priors", "default"), str) else GIVEN
    far_array = np.array(far)
    i = int(np.abs(far_array).argmax())
    bad = abs(far[i]) > limit
    where = "above" if far[i] > 0 else "below"
    said = f"{names[i]} was learned {abs(far[i]):.1f} prior standard deviations {where} its prior's centre"
    said += ": prior and data disagree." if bad else ", the farthest of all parameters."
    advice = "Check the units of inputs and observations; if they are correct, use a wider or different prior."
    order = np.argsort(-np.abs(far_array), kind="stable")[:10]
    draw = figures.bars([names[k] for k in order], far_array[order], limit, "prior standard deviations from the centre")
    rule = f"at most {limit:g} prior standard deviations"
    return Check(name, title, float(far[i]), limit, rule, WARNING if bad else OK, said, advice if bad else "", draw)


def _digits(fit: Fit[Processes]) -> Check:
    name, title, doubts, size = "conditioning", "Numerical soundness", [], None
    for part in fit.state.parts:
        post, head = part.posterior, _head(part)
        if post.status not in ("exact", "converged"):
            doubts.append(f"{head}the approximation did not converge ({post.status})")
        if suspicious(post):
            try:
                found = conditioning(post)
            except CovaryError:
                continue
            size = max(size or 0.0, found.condition)
            doubts += [f"{head}{doubt}" for doubt in found.doubts]
    jitter = max(post.jitter for post in fit.state.posteriors)
    if doubts:
        said = f"Results may be inaccurate: {'; '.join(doubts)}."
        advice = "Raise the noise, merge rows that nearly repeat each other, or choose a rougher kernel (Matern32)."
        return Check(name, title, size, None, "no problem", WARNING, said, advice)
    said = "No numerical problems" + (f", with jitter of {jitter:.0e}." if jitter else ", no jitter.")
    return Check(name, title, size, None, "no problem", OK, said)


def check_bounds(fit: Fit[Processes]) -> Check:
    """Check which parameters ended at a bound."""
    name, title, hits, count, quiet = "bounds", "Parameters at a bound", [], 0, False
    for process in fit.state.parts:
        learned, head = process.learned, _head(process)
        if learned is None:
            continue
        found = parameters(process.posterior.model)
        lower, upper = learned.objective.box
        theta = np.asarray(learned.theta)
        for slot in learned.objective.packing.slots:
            part = slice(slot.start, slot.stop)
            values = np.atleast_1d(np.asarray(found[slot.paths[0]].value, np.float64)).ravel()
            count += len(values)
            for i in np.flatnonzero((theta[part] <= lower[part] + 1e-6) | (theta[part] >= upper[part] - 1e-6)):
                end = "lower" if theta[part][i] <= lower[part][i] + 1e-6 else "upper"
                if slot.paths[0] == "likelihood.variance" and end == "lower" and found[slot.paths[0]].mark.bounds is None:
                    quiet = True  # the default lower limit of the noise: the data look noise-free
                    continue
                hits.append(f"{head}{_label(fit, slot.paths[0], values, int(i))} = {values[i]:.3g} at its {end} bound")
    if not count:
        return missing(name, title, "Nothing was learned.")
    said = f"None of {counted(count, 'parameter')} ended at a bound."
    if quiet:
        said = "The noise is at its lower limit because the data look noise-free; no other parameter is at a bound."
    if hits:
        said = some(hits, 4, "; ") + "."
    advice = "Widen the bound, or fix the parameter at a plausible value; if the bound is automatic, simplify the kernel."
    return Check(name, title, float(len(hits)), 0.0, "none", WARNING if hits else OK, said, advice if hits else "")


# several peaks --------------------------------------------------------------------------------------------------


def _peaks(fit: Fit[Processes]) -> Check:
    """Check whether starts of the search ended at separate optima of nearly equal height."""
    name, title, starts, found = "peaks", "One explanation or several", 0, []
    in_pieces = any(part.learned is not None and part.learned.in_pieces for part in fit.state.parts)
    for part in fit.state.parts:
        learned = part.learned
        if learned is None or learned.in_pieces:  # the starts of learning in batches are not comparable
            continue
        starts += len(learned.restarts)
        try:
            found += [(_head(part), *other) for other in _others(learned)]
        except CovaryError:
            continue
    if starts < 2:
        why = "The search had a single start; set " + Option("n_restarts") + " to look for other explanations."
        return missing(name, title, "The starts of learning in batches are not compared." if in_pieces else why)
    if not found:
        return Check(name, title, 0.0, 0.0, "none", OK, f"{starts} starts of the search found no equally good alternative.")
    head, below, path, mine, theirs = min(found, key=lambda f: f[1])
    good = "as good" if below <= 0.05 else f"only {below:.1f} nats worse"
    said = f"Another explanation is {good}: {head}{path} = {theirs:.3g} instead of {mine:.3g}."
    advice = "Predictions of the two may differ: fix or bound this parameter, give it an informed prior, or add rows."
    return Check(name, title, float(len(found)), 0.0, f"none within {NEAR:g} nats", WARNING, said, advice)


def _others(learned: Learned) -> list[tuple[float, str, float, float]]:
    """Return other peaks: how much lower they are, the parameter that differs most, and its two values."""
    packing, best = learned.objective.packing, np.asarray(learned.theta)
    shape = jax.tree_util.tree_structure(without_marks(learned.model))
    data = learned.objective.data
    ends = []
    for restart in learned.restarts:
        if jax.tree_util.tree_structure(without_marks(restart.model)) != shape:
            continue  # another kernel
        end = np.asarray(packing.pack(restart.model))
        if np.abs(end - best).max() > APART and not any(np.abs(end - other).max() < APART for other in ends):
            ends.append(end)
    if not ends:
        return []
    if data.rows > MOST:
        data = data.take(np.sort(np.random.default_rng(0).choice(data.rows, MOST, replace=False)))
    gram = Dense() if learned.gram is None or data is not learned.objective.data else learned.gram
    if isinstance(gram, AbstractPlan):  # a committee ran its starts on a sample
        gram = Dense()
    objective = learned.objective.at(data, gram)
    out = []
    with blas_threads(data.rows):
        height = -objective(best)[0]
        for end in ends:
            other, between = (-objective(at)[0] for at in (end, (best + end) / 2))
            if not np.isfinite([other, between]).all() or other < height - NEAR or between > min(height, other) - VALLEY:
                continue
            i = int(np.abs(end - best).argmax())
            slot = next(s for s in packing.slots if s.start <= i < s.stop)
            mine, theirs = (float(np.ravel(slot.space.constrain(packing.outward(t)[[i]]))[0]) for t in (best, end))
            path = slot.paths[0] if slot.stop - slot.start == 1 else f"{slot.paths[0]}[{i - slot.start}]"
            out.append((float(height - other), path, mine, theirs))
    return out
