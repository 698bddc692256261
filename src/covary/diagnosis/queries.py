r"""Check for extrapolation: whether new rows lie beyond the data, by two measures that are compared with the training rows.

These are *the remaining share of the prior variance* at a new row, and *the distance to the nearest training row* in
length-scales. A new row from the same source exceeds all n training rows (each left out in turn) with probability 1/(n + 1),
whatever the distribution of the inputs; at least k of m do so with probability :math:`\binom mk/\binom{n+m}k`. The flags of
single rows and the warning about all of them need no other assumption.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree
from scipy.special import gammaln

from covary import fits
from covary._words import counted
from covary.diagnosis import figures
from covary.fits import AnyFit, Training
from covary.fits.checks import OK, WARNING, Check

WIDER = 1.25  # minimum ratio of the error bar to that of a typical training row
RARE = 0.02  # maximum probability of a warning about new rows from the same source
GROSS = 3.0  # multiple of the largest distance between neighbours that always causes a warning
HALF = 0.5  # minimum distance to the nearest row, in length-scales
MOST = 4000  # maximum number of training rows to compare with


def check_queries(
    fit: AnyFit, x: np.ndarray, training: Training | None = None, share: np.ndarray | None = None
) -> tuple[Check, np.ndarray | None, np.ndarray]:
    """Return the check, the remaining share of the prior variance at every new row, and which rows lie beyond the data.

    Parameters
    ----------
    fit
        The fit.
    x
        New rows (m, d).
    training
        The training rows, if already available.
    share
        The remaining shares at the training rows, each left out in turn, if known.
    """
    family = fits.family_of(fit)
    training = family.training(fit) if training is None else training
    found = family.share_of_prior(fit, x)
    wide, old = np.zeros(len(x), bool), np.ones(training.rows)
    if found is not None:
        share = family.share_of_prior(fit, None) if share is None else share
        assert share is not None
        prior, level = training.widths
        new, old = np.sqrt(prior * found + level), np.sqrt(prior * share + level)
        wide = (found > share.max()) & (new >= WIDER * np.median(old))
    there, lengths = training.x, training.lengths
    some = np.random.default_rng(0).choice(len(there), min(MOST, len(there)), replace=False)
    rows = there if len(there) <= MOST else there[np.sort(some)]
    tree = KDTree(there / lengths)
    apart = tree.query(x / lengths)[0]
    own = tree.query(rows / lengths, k=2)[0][:, 1] if len(there) > 1 else np.zeros(1)
    flagged = wide | ((apart > own.max()) & (apart > HALF))
    m, k, n = len(x), int(flagged.sum()), min(len(old), len(rows))
    chance = min(1.0, 2 * float(np.exp(_log_choose(m, k) - _log_choose(n + m, k)))) if k else 1.0
    gross = bool((apart > max(GROSS * own.max(), HALF)).any())
    bad = k > 0 and (chance < RARE or gross)
    percent = f"{k} of {m} new rows" if m > 1 else "The new row"
    verb = "lies" if k == 1 or m == 1 else "lie"
    said = (
        f"{counted(m, 'new row')}, none beyond the data."
        if not k
        else f"{percent} {verb} beyond the data, which is consistent with chance."
    )
    if bad:
        outside = ((x < there.min(0)) | (x > there.max(0)))[flagged].mean(0)
        which = [fit.columns.names[i] for i in np.argsort(-outside) if outside[i] > 0][:3]
        beyond = f" (outside the training range of {', '.join(which)})" if which else ""
        said = f"{percent} {verb} beyond the data{beyond}"
        if found is not None:
            said += f": {100 * float(np.median(found[flagged])):.0f} % of the prior variance remains there"
        said += "."
    draw = None if found is None or share is None else figures.queries(found, flagged, share)
    check = Check(
        "extrapolation",
        "Extrapolation",
        k / m,
        1 / (n + 1),
        "no more than expected by chance",
        WARNING if bad else OK,
        said,
        training.advice.beyond if bad else "",
        draw,
    )
    return check, found, flagged


def _log_choose(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
