"""Checks of class probabilities: right on average, better than the shares of the classes, and no pattern in the errors."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import norm

from covary._words import counted
from covary.diagnosis import figures
from covary.diagnosis.association import group_difference, likeness, rank_correlation
from covary.diagnosis.errors import LIKENESS, source, worst
from covary.diagnosis.foretold import Foretold
from covary.diagnosis.record import FEWEST, LEVEL, OK, WARNING, Check, missing
from covary.diagnosis.subject import Subject

OFF = 0.03  # how far a probability may be off on average, however certain
TINY = 1e-12


def check_classes(subject: Subject, seen: Foretold) -> list[Check]:
    """Every check of class probabilities."""
    titles = {
        "calibration": "Calibration of probabilities",
        "sharpness": "Sharpness",
        "structure": "Structure left in the errors",
    }
    if len(seen) < FEWEST:
        few = f"{counted(len(seen), 'row is', 'rows are')} too few to tell; {FEWEST} or more are needed."
        return [missing(name, title, few) for name, title in titles.items()]
    return [
        _calibration(titles["calibration"], subject, seen),
        _sharpness(titles["sharpness"], subject, seen),
        _structure(titles["structure"], subject, seen),
    ]


def _calibration(title: str, subject: Subject, seen: Foretold) -> Check:
    r"""Two tests of every class: the sum of y − p, and Spiegelhalter's (1986) of (y − p)(1 − 2p), which has
    variance Σ (1 − 2p)² p(1 − p) if the probabilities are right; and one of the class that is named."""
    assert seen.p is not None
    assert subject.classes is not None
    codes, labels = seen.y[:, 0].astype(int), [str(c) for c in subject.classes]
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
    said = f"The {source(seen)} probabilities are {fair} ({100 * top.mean():.0f} % sure, {100 * right:.0f} % right)."
    advice = ""
    if bad:
        how = "too sure" if gap > 0 else "too cautious"
        said = f"The probabilities are off: {100 * top.mean():.0f} % sure on average, {100 * right:.0f} % right ({how})."
        if kind == "level":
            way = "more" if off > 0 else "less"
            said += f" {labels[c]} is {way} frequent than foretold, by {100 * abs(off):.1f} %."
        cautious = "Use inference='ep', which is closer to the truth."
        if len(labels) > 2:
            cautious = "In Python, GPClassifier(inference='ep', multi_class='one_vs_rest') is closer to the truth."
        if subject.inference == "EP":
            cautious = "Naming the likeliest class is right more often than said; recalibrate the probabilities on other rows."
        doubt = "Look for labels that are wrong or rows that depend on each other; try another kernel."
        advice = doubt if gap > 0 else cautious
    rule = f"off by at most {100 * OFF:g} %, or within chance"
    draw = figures.reliability(codes, seen.p, labels)
    return Check("calibration", title, gap, OFF, rule, WARNING if bad else OK, said, advice, draw)


def _sharpness(title: str, subject: Subject, seen: Foretold) -> Check:
    """The information gained over the shares of the classes."""
    assert seen.p is not None
    codes = seen.y[:, 0].astype(int)
    own = np.maximum(seen.p[np.arange(len(codes)), codes], TINY)
    share = np.bincount(codes, minlength=seen.p.shape[1]) / len(codes)
    most = float(-(share[share > 0] * np.log2(share[share > 0])).sum())
    if most == 0:
        return missing("sharpness", title, "Only one class was seen in these rows.")
    gained = float(np.log2(own).mean()) + most
    bad = gained < 0
    said = f"The inputs tell {gained:.2f} of the {most:.2f} bits it takes to name a class."
    said = f"The inputs tell nothing of the {most:.2f} bits it takes to name a class." if bad else said
    advice = "Give other inputs or more rows; the shares of the classes predict as well." if bad else ""
    return Check("sharpness", title, gained / most, 0.0, "above 0", WARNING if bad else OK, said, advice)


def _structure(title: str, subject: Subject, seen: Foretold) -> Check:
    """Whether near rows err alike, or errors follow an input, class by class.

    Errors are randomised quantile residuals (Dunn & Smyth 1996), standard normal if the probabilities are right.
    """
    assert seen.p is not None
    draws = np.random.default_rng(0).uniform(size=len(seen))
    codes, x = seen.y[:, 0].astype(int), seen.x / subject.lengths()
    two, tests, coded = seen.p.shape[1] == 2, [], subject.coded
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
    labels = [str(v) for v in subject.classes] if subject.classes is not None else []
    if not bad:
        size, against, z, what = tests[0][1][2], tests[0][1][3], tests[0][1][4], "near"
        said = f"Errors of neighbouring rows are not alike (correlation {size:.2f}), and follow no input."
    elif what == "near":
        said = f"Errors in {labels[c]} of neighbouring rows are alike (correlation {size:.2f}): the model misses structure."
    elif what in coded:
        said = f"Errors in {labels[c]} differ between categories of {subject.columns[what]} (by {size:.2f})."
    else:
        said = f"Errors in {labels[c]} follow {subject.columns[what]} (rank correlation {size:.2f}): the model misses a trend."
    advice = "Allow more: another kernel, a shorter length-scale, a sum of kernels, or a missing input." if bad else ""
    name = "mean normal score of the nearest rows" if what == "near" else subject.columns[what]
    draw = (figures.grouped if what in coded else figures.against)(against, z, name, "standardised error")
    rule = f"at most {LIKENESS:g}, or within chance"
    return Check("structure", title, float(size), LIKENESS, rule, WARNING if bad else OK, said, advice, draw)
