r"""Whether new rows lie beyond the data: two measures, each held against the training rows' own.

*What is left of the prior's variance* at a new row, and *the distance to the nearest training row* in length-scales. A new row
from the same source exceeds every one of n training rows (each left out in turn) with probability 1/(n + 1), whatever the
law of the inputs; that k of m do has probability :math:`\binom mk/\binom{n+m}k`. So the flag of one row and the warning about
all of them need no assumption but that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import KDTree
from scipy.special import gammaln

from covary._words import counted
from covary.data import as_inputs
from covary.diagnosis import figures
from covary.diagnosis.cavities import left_out, share_left
from covary.diagnosis.record import OK, WARNING, Check
from covary.diagnosis.subject import Subject

WIDER = 1.25  # how much wider than a typical training row's the error bar must be
RARE = 0.02  # the chance that new rows from the same source are warned about, at most
GROSS = 3.0  # times the largest distance between neighbours: too far for any source
HALF = 0.5  # length-scales from the nearest row that count as far
MOST = 4000  # training rows the new ones are held against


def check_queries(subject: Subject, X: Any, share: np.ndarray | None = None) -> tuple[Check, np.ndarray, np.ndarray]:
    """The check, the share of the prior's variance left at every new row, and which rows lie beyond the data.

    Parameters
    ----------
    subject
        The fit.
    X
        New rows (m, d).
    share
        The shares left at the training rows without themselves, if known.
    """
    inputs, post = as_inputs(X, "diagnose"), subject.post
    f = post.predict(inputs.x).f
    found = share_left(post, inputs, f.variance)
    if share is None:
        without = left_out(post)
        share = share_left(post, post.data.X, without.variance)[without.sound]
    new, old = _spreads(subject, found, share)
    wide = (found > share.max()) & (new >= WIDER * np.median(old))
    x, lengths = subject.x, subject.lengths()
    rows = x if len(x) <= MOST else x[np.sort(np.random.default_rng(0).choice(len(x), MOST, replace=False))]
    tree = KDTree(x / lengths)
    apart = tree.query(np.asarray(inputs.x, np.float64) / lengths)[0]
    own = tree.query(rows / lengths, k=2)[0][:, 1] if len(x) > 1 else np.zeros(1)
    flagged = wide | ((apart > own.max()) & (apart > HALF))
    m, k, n = inputs.rows, int(flagged.sum()), min(len(share), len(rows))
    chance = min(1.0, 2 * float(np.exp(_log_choose(m, k) - _log_choose(n + m, k)))) if k else 1.0
    gross = bool((apart > max(GROSS * own.max(), HALF)).any())
    bad = k > 0 and (chance < RARE or gross)
    percent = f"{k} of {m} new rows" if m > 1 else "The new row"
    verb = "lies" if k == 1 or m == 1 else "lie"
    said = (
        f"{counted(m, 'new row')}, none beyond the data." if not k else f"{percent} {verb} beyond the data, as chance allows."
    )
    if bad:
        outside = ((inputs.x < x.min(0)) | (inputs.x > x.max(0)))[flagged].mean(0)
        which = [subject.columns[i] for i in np.argsort(-outside) if outside[i] > 0][:3]
        beyond = f" (outside the range seen of {', '.join(which)})" if which else ""
        left = f"{100 * float(np.median(found[flagged])):.0f} % of the prior's variance is left there"
        said = f"{percent} {verb} beyond the data{beyond}: {left}."
    advice = "Do not rely on these predictions beyond what the prior says; collect rows there, or give the trend as a mean."
    draw = figures.queries(found, flagged, share)
    check = Check(
        "extrapolation",
        "Extrapolation",
        k / m,
        1 / (n + 1),
        "as many as chance allows",
        WARNING if bad else OK,
        said,
        advice if bad else "",
        draw,
    )
    return check, found, flagged


def _spreads(subject: Subject, new: np.ndarray, old: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The width of error bars at new and at training rows, from the shares left: of y under Gaussian noise, else of f."""
    if not subject.gaussian:
        return np.sqrt(new), np.sqrt(old)
    level = float(np.mean(np.asarray(subject.post.model.likelihood.variance)))
    from covary.diagnosis.cavities import prior_variance

    prior = float(np.median(prior_variance(subject.post, subject.post.data.X)))
    return np.sqrt(prior * new + level), np.sqrt(prior * old + level)


def _log_choose(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
