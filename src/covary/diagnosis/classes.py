"""Checks of class probabilities: calibration, gain over the class frequencies, and patterns in the errors."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import norm

from covary._words import counted
from covary.diagnosis import figures
from covary.diagnosis.association import group_difference, likeness, rank_correlation
from covary.diagnosis.errors import LIKENESS, source, worst
from covary.fits import AnyFit, Judged, Training
from covary.fits.checks import FEWEST, LEVEL, OK, WARNING, Check, missing

OFF = 0.03  # tolerated mean deviation of a probability, even if significant
TINY = 1e-12


def check_classes(fit: AnyFit, training: Training, seen: Judged) -> list[Check]:
    """Return all checks of class probabilities."""
    titles = {
        "calibration": "Calibration of probabilities",
        "sharpness": "Sharpness",
        "structure": "Structure in the residuals",
    }
    if len(seen) < FEWEST:
        few = f"{counted(len(seen), 'row is', 'rows are')} too few for this test (at least {FEWEST})."
        return [missing(name, title, few) for name, title in titles.items()]
    return [
        _calibration(titles["calibration"], fit, training, seen),
        _sharpness(titles["sharpness"], fit, training, seen),
        _structure(titles["structure"], fit, training, seen),
    ]


def _calibration(title: str, fit: AnyFit, training: Training, seen: Judged) -> Check:
    r"""Test the calibration: for every class the sum of y − p and Spiegelhalter's (1986) sum of (y − p)(1 − 2p), whose
    variance is Σ (1 − 2p)² p(1 − p) for calibrated probabilities; and one test for the predicted class."""
    assert seen.p is not None
    assert fit.classes is not None
    codes, labels = seen.y[:, 0].astype(int), [str(c) for c in fit.classes.values]
    tests = []
    for c in range(1 if len(labels) == 2 else 0, len(labels)):
        p = np.clip(seen.p[:, c], TINY, 1 - TINY)
        rest = (codes == c) - p
        for kind, weight in (("level", np.ones_like(p)), ("spread", 1 - 2 * p)):
            score, variance = float((weight * rest).sum()), float((weight**2 * p * (1 - p)).sum())
            tests.append((float(2 * norm.sf(abs(score) / np.sqrt(max(variance, TINY)))), (c, kind, score / len(p))))
    top = np.clip(seen.p.max(1), TINY, 1 - TINY)
    right = float((seen.p.argmax(1) == codes).mean())
    gap = float(top.mean()) - right
    tests.append((float(2 * norm.sf(abs(gap) * len(top) / np.sqrt((top * (1 - top)).sum()))), (0, "named", -gap)))
    chance, (c, kind, off) = worst(tests)
    bad = chance < LEVEL and max(abs(off), abs(gap)) > OFF
    fair = "right on average" if chance >= LEVEL else "nearly right on average"
    sure = f"mean confidence {100 * top.mean():.0f} %, accuracy {100 * right:.0f} %"
    said = f"The {source(seen)} probabilities are {fair} ({sure})."
    advice: str = ""
    if bad:
        how = "overconfident" if gap > 0 else "underconfident"
        said = f"The probabilities are miscalibrated: {sure} ({how})."
        if kind == "level":
            way = "more" if off > 0 else "less"
            said += f" {labels[c]} is {way} frequent than predicted, by {100 * abs(off):.1f} %."
        doubt = f"Look for wrong labels or rows that are not independent; {training.advice.free.lower()}."
        advice = doubt if gap > 0 else training.advice.cautious
    rule = f"off by at most {100 * OFF:g} %, or not significant"
    draw = figures.reliability(codes, seen.p, labels)
    return Check("calibration", title, gap, OFF, rule, WARNING if bad else OK, said, advice, draw)


def _sharpness(title: str, fit: AnyFit, training: Training, seen: Judged) -> Check:
    """Check the information gained over the class frequencies."""
    assert seen.p is not None
    codes = seen.y[:, 0].astype(int)
    own = np.maximum(seen.p[np.arange(len(codes)), codes], TINY)
    share = np.bincount(codes, minlength=seen.p.shape[1]) / len(codes)
    most = float(-(share[share > 0] * np.log2(share[share > 0])).sum())
    if most == 0:
        return missing("sharpness", title, "These rows contain only one class.")
    gained = float(np.log2(own).mean()) + most
    bad = gained < 0
    said = f"The inputs provide {gained:.2f} of the {most:.2f} bits needed to identify the class."
    said = f"The inputs provide none of the {most:.2f} bits needed to identify the class." if bad else said
    advice = "Use other inputs or more rows; the class frequencies alone predict as well." if bad else ""
    return Check("sharpness", title, gained / most, 0.0, "above 0", WARNING if bad else OK, said, advice)


def _structure(title: str, fit: AnyFit, training: Training, seen: Judged) -> Check:
    """Check for each class whether errors of neighbouring rows are similar, or errors depend on an input.

    Errors are randomised quantile residuals (Dunn & Smyth 1996), standard normal if the probabilities are right.
    """
    assert seen.p is not None
    draws = np.random.default_rng(0).uniform(size=len(seen))
    codes, x = seen.y[:, 0].astype(int), seen.x / training.lengths
    two, tests, coded = seen.p.shape[1] == 2, [], training.coded
    for c in range(1 if two else 0, seen.p.shape[1]):
        p = np.clip(seen.p[:, c], 1e-6, 1 - 1e-6)
        z = ndtri(np.where(codes == c, 1 - p + draws * p, draws * (1 - p)))
        found, chance, near = likeness(z, x)
        tests.append((chance, ("near", c, found, near, z)))
        for i in range(x.shape[1]):
            r, chance = (group_difference if i in coded else rank_correlation)(z, x[:, i])
            tests.append((chance, (i, c, r, seen.x[:, i], z)))
    chance, (what, c, size, against, z) = worst(tests)
    bad = chance < LEVEL and abs(size) > LIKENESS
    labels = [str(v) for v in fit.classes.values] if fit.classes is not None else []
    columns = fit.columns.names
    if not bad:
        size, against, z, what = tests[0][1][2], tests[0][1][3], tests[0][1][4], "near"
        said = f"Errors of neighbouring rows are not similar (correlation {size:.2f}), and depend on no input."
    elif what == "near":
        said = f"Errors in {labels[c]} of neighbouring rows are similar (correlation {size:.2f}): the model misses structure."
    elif what in coded:
        said = f"Errors in {labels[c]} differ between categories of {columns[what]} (by {size:.2f})."
    else:
        said = f"Errors in {labels[c]} depend on {columns[what]} (rank correlation {size:.2f}): the model misses a trend."
    advice = training.advice.more if bad else ""
    name = "mean normal score of the nearest rows" if what == "near" else columns[what]
    draw = (figures.grouped if what in coded else figures.against)(against, z, name, "standardised error")
    rule = f"between -{LIKENESS:g} and {LIKENESS:g}, or not significant"
    return Check("structure", title, float(size), LIKENESS, rule, WARNING if bad else OK, said, advice, draw)
