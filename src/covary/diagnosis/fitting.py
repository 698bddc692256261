"""Checks of the fit itself: stated noise, priors against data, digits, bounds, and several explanations of one table."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
from scipy.special import ndtri
from scipy.stats import chi2, gamma, halfcauchy, invgamma, norm

from covary import distributions
from covary._checks import CovaryError
from covary._module import Mark, without_marks
from covary._precision import precision
from covary._threads import blas_threads
from covary._words import counted
from covary.diagnosis import figures
from covary.diagnosis.record import FEWEST, LEVEL, OK, WARNING, Check, missing
from covary.diagnosis.subject import Subject
from covary.gram.dense import Dense
from covary.gram.diagnostics import conditioning, suspicious
from covary.inference.condition import condition
from covary.parameters import parameters
from covary.selection.learn import learn

TRIES = 3  # tests of the stated noise
RELEARN = 1000  # rows up to which the fit is made again with the noise free
PROBES, EACH = 16, 500  # random vectors that measure a trace; rows up to which it is found exactly
GIVEN, DEFAULT = 3.0, 5.0  # prior standard deviations: of a prior that was given, and of the weak default ones
NEAR, APART, VALLEY = 2.0, 1.0, 1.0  # nats between two heights, logarithms between two places, nats of the valley between
MOST = 1500  # rows on which peaks are compared


def check_fit(subject: Subject) -> list[Check]:
    """Every check that needs no prediction."""
    return [_noise(subject), check_priors(subject), _digits(subject), check_bounds(subject), _peaks(subject)]


def check_data(subject: Subject, tested: int) -> list[Check]:
    """A warning where there is too little to learn from: few rows, or observations that do not vary; else nothing.

    ``tested`` is how many new rows the error bars were held against, which is as good as many rows.
    """
    name, title, post = "data", "Enough to learn from", subject.post
    rows, rule = post.data.rows, f"{FEWEST} rows or more, and observations that vary"
    few = rows < FEWEST and tested < FEWEST and not getattr(post.bound, "composite", False)
    if few and any(learned is not None for learned in subject.learned):
        count = counted(rows, "row" if post.data.weight is None else "different row")
        what, more, until = "probabilities are right", "", ""
        if subject.classes is None:
            what, more = "error bars hold", "; learned from so few, they are often too narrow"
            until = "; until then take the error bars for the least they can be"
        said = f"{count} {'are' if rows > 1 else 'is'} too few to tell whether the {what}{more}."
        advice = f"Give {FEWEST} rows or more{until}."
        return [Check(name, title, float(rows), float(FEWEST), rule, WARNING, said, advice)]
    if subject.classes is not None or subject.likelihood.support != "real":
        return []
    still = np.ptp(np.asarray(post.data.y, np.float64).reshape(rows, -1), axis=0) == 0
    if post.data.scatter is not None and np.any(post.data.scatter):
        return []
    which = [target for target, flat in zip(subject.targets, still, strict=True) if flat]
    if not which or getattr(post.bound, "composite", False):
        return []
    said = f"The observations of {', '.join(which)} do not vary: there is nothing to learn, and the error bars are a guess."
    return [Check(name, title, float(rows), float(FEWEST), rule, WARNING, said, "Check that this is the right column.")]


# stated noise ---------------------------------------------------------------------------------------------------


def _noise(subject: Subject) -> Check:
    r"""Whether noise that was stated rather than learned agrees with the data.

    Three tests: :math:`r^\top(K+S)^{-1}r \sim \chi^2_n`; Rao's score test of a factor before the stated variances v,

    .. math:: g = \tfrac12\sum_iv_i(\alpha_i^2 - P_{ii}),\qquad I = \tfrac12\sum_{ij}v_iv_jP_{ij}^2,\qquad g/\sqrt I\sim N(0,1)

    which asks whether the evidence would rise if it were free; and, where noise was fixed and rows are few, what it rises to
    when all is learned again with the noise free, :math:`2\Delta\sim\chi^2_1`: a kernel that was bent to a wrong noise hides it
    from the other two.
    """
    name, title, post = "noise", "Stated noise", subject.post
    likelihood, data = post.model.likelihood, post.data
    if subject.classes is not None:
        return missing(name, title, "Classes come without noise of their own.")
    if not subject.gaussian or not post.factor.observed:
        return missing(name, title, "The noise is part of the likelihood, and was learned.")
    fixed, known = likelihood.mark_of("variance").fixed, data.noise_variance is not None
    if not (fixed or known):
        return missing(name, title, "The noise was learned from the data; none was stated.")
    if getattr(post.bound, "composite", False):
        return missing(name, title, "A committee of experts has no one matrix to hold the stated noise against.")
    if data.rows < FEWEST:
        return missing(name, title, f"{counted(data.rows, 'row is', 'rows are')} too few to tell; {FEWEST} or more are needed.")
    weight = np.ones(data.rows) if data.weight is None else np.asarray(data.weight, np.float64)
    v = np.asarray(post.factor.spread, np.float64) if fixed else np.asarray(data.noise_variance, np.float64) / weight
    score, square, freedom = _score(post, v, whole=fixed)
    tail = 2 * min(float(chi2.cdf(square, freedom)), float(chi2.sf(square, freedom)))
    chance = min(1.0, TRIES * min(2 * float(norm.sf(abs(score))), tail))
    limit = float(-ndtri(LEVEL / (2 * TRIES)))
    bad, freed = chance < LEVEL, None
    if not bad and fixed and subject.learned[0] is not None:
        freed = _freed(subject)
    more = 0.0
    if known and not fixed:
        stated = float(np.median(np.asarray(data.noise_variance)))
        more = float(likelihood.variance) / stated if stated > 0 else 0.0
    said = f"The stated noise agrees with the data (score {score:.1f}, {square / freedom:.2f} of the scatter it implies)."
    if bad:
        way = "larger" if score > 0 else "smaller"
        said = (
            f"The data ask for {way} noise than was stated (score {score:.1f}, {square / freedom:.2f} of the implied scatter)."
        )
    elif freed is not None and TRIES * float(chi2.sf(2 * max(freed[0], 0.0), 1)) < LEVEL:
        bad, way = True, "larger" if freed[1] > float(likelihood.variance) else "smaller"
        gain = f"a variance of {freed[1]:.3g} explains them {freed[0]:.0f} nats better"
        said = f"The data ask for {way} noise than was stated: {gain}."
    elif more > 1:
        bad, said = True, f"Beside the stated noise, noise of {more:.1f} times its variance was learned: the rows scatter more."
    advice = "Check the units (variance, not standard deviation), or let the noise be learned: leave noise and fixed out."
    rule = f"score at most {limit:.1f} either way"
    draw = figures.bars(["score"], np.array([score]), limit, "standard deviations")
    return Check(name, title, float(score), limit, rule, WARNING if bad else OK, said, advice if bad else "", draw)


def _freed(subject: Subject) -> tuple[float, float] | None:
    """How much the evidence gains when everything is learned again with the noise free, and that noise; None of many rows."""
    post = subject.post
    if post.data.rows > RELEARN or type(post.bound).__name__ != "DenseBound":
        return None
    start = post.model.replace(likelihood=post.model.likelihood.with_mark("variance", Mark()))
    found: Any = learn(start, post.data, priors=dict(subject.priors[0]), n_restarts=2)
    return condition(found, post.data).log_evidence - post.log_evidence, float(found.likelihood.variance)


def _score(post: Any, v: np.ndarray, *, whole: bool) -> tuple[float, float, float]:
    """The standardised score of a factor before the variances v; the quadratic form and its degrees of freedom."""
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
    if whole and data.scatter is not None and data.weight is not None:  # rows that repeat their inputs know the noise by heart
        w = np.asarray(data.weight, np.float64)
        each = np.maximum(v * w, 1e-300)
        within = float((np.asarray(data.scatter) / each).sum())
        slope += 0.5 * (within - outputs * float((w - 1).sum()))
        information += 0.5 * outputs * float((w - 1).sum())
        square, freedom = square + within, freedom + outputs * float((w - 1).sum())
    return slope / np.sqrt(information), square, freedom


# priors and bounds ----------------------------------------------------------------------------------------------


def prior_distance(prior: Any, value: float) -> float:
    """How many standard deviations of a prior a value lies from its centre, on the scale where the prior is normal.

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
        return 0.0  # of a uniform prior the ends are bounds
    below, above = float(law.logcdf(value)), float(law.logsf(value))
    from scipy.special import ndtri_exp

    return float(ndtri_exp(below)) if below < above else -float(ndtri_exp(above))


def _each(subject: Subject) -> Any:
    """Posterior, how it was learned, its priors and the words before its parameters' names."""
    for post, learned, priors, part in zip(subject.posteriors, subject.learned, subject.priors, subject.parts, strict=True):
        yield post, learned, priors, f"{part}: " if part else ""


def _label(subject: Subject, path: str, values: np.ndarray, i: int) -> str:
    place = re.match(r"kernel\.(\d+)\.", path)
    of = f" ({subject.functions[int(place[1])]})" if place and subject.functions else ""
    if len(values) == 1:
        return f"{path}{of}"
    return f"{path}[{subject.columns[i] if len(values) == len(subject.columns) else i}]{of}"


def check_priors(subject: Subject) -> Check:
    """How many prior standard deviations the learned parameters lie from their priors' centres."""
    name, title = "priors", "Priors against data"
    names, far = [], []
    for post, learned, priors, head in _each(subject):
        if learned is None:
            continue
        for path, p in parameters(post.model).items():
            prior = priors.get(path)
            if prior is None or p.mark.fixed:
                continue
            values = np.atleast_1d(np.asarray(p.value, np.float64)).ravel()
            densities = list(prior) if isinstance(prior, list | tuple) else [prior] * len(values)
            for i, (density, value) in enumerate(zip(densities, values, strict=True)):
                names.append(head + _label(subject, path, values, i))
                far.append(prior_distance(density, float(value)))
    if not names:
        return missing(name, title, "Nothing was learned under a prior.")
    limit = DEFAULT if subject.weak else GIVEN
    far_array = np.array(far)
    i = int(np.abs(far_array).argmax())
    bad = abs(far[i]) > limit
    where = "above" if far[i] > 0 else "below"
    said = f"{names[i]} was learned {abs(far[i]):.1f} prior standard deviations {where} its prior's centre"
    said += ": prior and data disagree." if bad else ", the farthest of all."
    advice = "Check the units of inputs and observations; if they are right, widen this prior or give another."
    order = np.argsort(-np.abs(far_array), kind="stable")[:10]
    draw = figures.bars([names[k] for k in order], far_array[order], limit, "prior standard deviations from the centre")
    rule = f"at most {limit:g} prior standard deviations"
    return Check(name, title, float(far[i]), limit, rule, WARNING if bad else OK, said, advice if bad else "", draw)


def _digits(subject: Subject) -> Check:
    name, title, doubts, size = "conditioning", "Numerical soundness", [], None
    for post, _, _, head in _each(subject):
        if post.status not in ("exact", "converged"):
            doubts.append(f"{head}the approximation did not settle ({post.status})")
        if suspicious(post):
            try:
                found = conditioning(post)
            except CovaryError:
                continue
            size = max(size or 0.0, found.condition)
            doubts += [f"{head}{doubt}" for doubt in found.doubts]
    jitter = max(float(getattr(post.factor, "jitter", 0.0) or 0.0) for post in subject.posteriors)
    if doubts:
        said = f"The numbers cannot all be trusted: {'; '.join(doubts)}."
        advice = "Raise the noise, merge rows that nearly repeat each other, or choose a rougher kernel (Matern32)."
        return Check(name, title, size, None, "no doubt", WARNING, said, advice)
    said = "Nothing speaks against the digits of the numbers" + (
        f", with jitter of {jitter:.0e}." if jitter else ", no jitter."
    )
    return Check(name, title, size, None, "no doubt", OK, said)


def check_bounds(subject: Subject) -> Check:
    """Which parameters ended at a bound."""
    name, title, hits, count, quiet = "bounds", "Parameters at a bound", [], 0, False
    for post, learned, _, head in _each(subject):
        if learned is None:
            continue
        found = parameters(post.model)
        lower, upper = learned.objective.box
        theta = np.asarray(learned.theta)
        for slot in learned.objective.packing.slots:
            part = slice(slot.start, slot.stop)
            values = np.atleast_1d(np.asarray(found[slot.paths[0]].value, np.float64)).ravel()
            count += len(values)
            for i in np.flatnonzero((theta[part] <= lower[part] + 1e-6) | (theta[part] >= upper[part] - 1e-6)):
                end = "lower" if theta[part][i] <= lower[part][i] + 1e-6 else "upper"
                if slot.paths[0] == "likelihood.variance" and end == "lower" and found[slot.paths[0]].mark.bounds is None:
                    quiet = True  # the floor of the noise: data that look free of it
                    continue
                hits.append(f"{head}{_label(subject, slot.paths[0], values, int(i))} = {values[i]:.3g} at its {end} bound")
    if not count:
        return missing(name, title, "Nothing was learned.")
    said = f"None of {counted(count, 'parameter')} ended at a bound."
    if quiet:
        said = "The noise is at its floor, as it is where data look free of noise; nothing else is at a bound."
    if hits:
        said = "; ".join(hits[:4]) + (f"; and {len(hits) - 4} more." if len(hits) > 4 else ".")
    advice = "Widen the bound, or fix the parameter at a value you believe; at an automatic bound, simplify the kernel."
    return Check(name, title, float(len(hits)), 0.0, "none", WARNING if hits else OK, said, advice if hits else "")


# several peaks --------------------------------------------------------------------------------------------------


def _peaks(subject: Subject) -> Check:
    """Whether starts of the search ended in different places of about the same height, with a valley between them."""
    name, title, starts, found = "peaks", "One explanation or several", 0, []
    for post, learned, _, head in _each(subject):
        if learned is None or learned.start is not None:  # learned in batches: the starts were of another kind
            continue
        starts += len(learned.restarts)
        try:
            found += [(head, *other) for other in _others(post, learned)]
        except CovaryError:
            continue
    if starts < 2:
        return missing(name, title, "The search had a single start; give n_restarts to look for other explanations.")
    if not found:
        return Check(name, title, 0.0, 0.0, "none", OK, f"{starts} starts of the search found no second explanation as good.")
    head, below, path, mine, theirs = min(found, key=lambda f: f[1])
    good = "as good" if below <= 0.05 else f"only {below:.1f} nats worse"
    said = f"Another explanation is {good}: {head}{path} = {theirs:.3g} instead of {mine:.3g}."
    advice = "Fix or bound this parameter, give it a prior you believe, or add rows; predictions may differ between the two."
    return Check(name, title, float(len(found)), 0.0, f"none within {NEAR:g} nats", WARNING, said, advice)


def _others(post: Any, learned: Any) -> list[tuple[float, str, float, float]]:
    """Other peaks: how much lower, the parameter that differs most, and its two values."""
    packing, best = learned.objective.packing, np.asarray(learned.theta)
    shape = jax.tree_util.tree_structure(without_marks(learned.model))
    data = learned.objective.data
    ends = []
    for restart in learned.restarts:
        if jax.tree_util.tree_structure(without_marks(restart.model)) != shape:
            continue  # a kernel of another kind
        end = np.asarray(packing.pack(restart.model))
        if np.abs(end - best).max() > APART and not any(np.abs(end - other).max() < APART for other in ends):
            ends.append(end)
    if not ends:
        return []
    if data.rows > MOST:
        data = data.take(np.sort(np.random.default_rng(0).choice(data.rows, MOST, replace=False)))
    alone = learned.gram is None or getattr(learned.gram, "composite", False)  # a committee's starts were on its sample
    whole = data is learned.objective.data and not alone
    objective = learned.objective.at(data, learned.gram if whole else Dense())
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
