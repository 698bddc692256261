"""Checks of the error bars: coverage, PIT, sharpness, structure left in the errors, noise that varies, outliers.

Each is a test whose law under a right model is known without simulation, at a level that all of them share; with many rows
nothing is warned about that is too small to matter, however certain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom, kstest, kurtosistest

from covary._words import counted
from covary.diagnosis import figures
from covary.diagnosis.association import MOST, group_difference, likeness, rank_correlation
from covary.diagnosis.cautious import eased
from covary.diagnosis.foretold import Foretold
from covary.diagnosis.record import FEWEST, LEVEL, OK, WARNING, Check, missing
from covary.diagnosis.subject import Subject

COVERAGE = {0.95: 0.02, 0.5: 0.05}  # how far coverage may be off, however certain
DISTANCE = 0.05  # ... and the distribution of the PIT
LIKENESS, TREND, VARYING = 0.1, 0.1, 0.15  # ... and rank correlations: between neighbours, with an input, of the error's size
SHARP = 0.98  # of the spread of y: error bars as wide as that say nothing
FAR = 4.0  # standard deviations beyond which an error is an outlier
KURTOSIS = 1.0


def check_errors(subject: Subject, seen: Foretold) -> list[Check]:
    """Every check of a regression's error bars."""
    few = f"{counted(len(seen), 'row is', 'rows are')} too few to tell; {FEWEST} or more are needed."
    still = not (np.ptp(seen.y, axis=0) > 0).all() if len(seen) else False
    few = "The observations do not vary." if still else few
    titles = {
        "coverage": "Coverage of 95 % intervals",
        "coverage50": "Coverage of 50 % intervals",
        "pit": "Calibration over all levels",
        "structure": "Structure left in the errors",
        "heteroscedastic": "Noise of one size",
        "outliers": "Outliers",
    }
    sharp = _sharpness(subject, seen)
    if still or len(seen) < FEWEST:
        return [sharp, *(missing(name, title, few) for name, title in titles.items())]
    checks = [
        _coverage("coverage", titles["coverage"], 0.95, subject, seen),
        _coverage("coverage50", titles["coverage50"], 0.5, subject, seen),
        _pit(titles["pit"], subject, seen),
        sharp,
        _structure(titles["structure"], subject, seen),
        _varying(titles["heteroscedastic"], subject, seen),
        _outliers(titles["outliers"], subject, seen),
    ]
    return eased(subject, seen, checks)


def source(seen: Foretold) -> str:
    """How the predictions were had, as an adjective."""
    return {"leave-one-out": "leave-one-out", "new rows": "held-out", "in-sample": "in-sample"}[seen.kind]


def worst(values: list[tuple[float, Any]]) -> tuple[float, Any]:
    """The least of several p-values, times their number, and what belongs to it."""
    p, what = min(values, key=lambda v: v[0])
    return min(1.0, p * len(values)), what


def of_output(subject: Subject, j: int) -> str:
    """The name of an output in a sentence, where there are several."""
    return f" of {subject.targets[j]}" if len(subject.targets) > 1 else ""


def _held(subject: Subject) -> bool:
    """Whether the noise was fixed rather than learned."""
    return subject.gaussian and subject.likelihood.mark_of("variance").fixed


def _coverage(name: str, title: str, level: float, subject: Subject, seen: Foretold) -> Check:
    n, p = seen.pit.shape
    inside = (np.abs(seen.pit - 0.5) <= level / 2).sum(0)
    tails = [2 * min(binom.cdf(k, n, level), binom.sf(k - 1, n, level)) for k in inside]
    chance, _ = worst([(float(t), j) for j, t in enumerate(tails)])
    found = float(inside.sum()) / (n * p)
    off = found - level
    bad = chance < LEVEL and float(np.abs(inside / n - level).max()) > COVERAGE[level]
    said = f"{100 * level:g} % intervals hold {100 * found:.1f} % of the rows ({source(seen)})"
    if not bad:
        tail = "as they should." if chance >= LEVEL else "close enough to be of use."
        said = f"{said}, {tail}"
    else:
        said = f"{said}: the error bars are too {'narrow' if off < 0 else 'wide'}."
    factor = float(np.quantile(np.abs(seen.z), level)) / float(ndtri(0.5 + level / 2))
    free = "Let the noise be learned" if _held(subject) else "Try another kernel or likelihood"
    narrow = f"{free}; until then multiply the error bars by {factor:.2g}."
    wide = "Let the noise be learned." if _held(subject) else "Try another kernel or likelihood."
    if not _held(subject) and float((np.abs(seen.z) > 3).mean()) > 2 * (2 * ndtr(-3.0)):
        wide = "A few rows lie far out and widen the error bars of all others, as noise does that varies or has heavy tails: "
        wide += "use likelihood='student_t' or 'heteroscedastic', or transform y." if subject.gaussian else "transform y."
    if p > 1:
        narrow = wide = "The outputs share one kernel and one noise: fit them one at a time."
    rule = f"{100 * level:g} % ± {100 * COVERAGE[level]:g} %, or within chance"
    draw = figures.coverage(seen.pit, level)
    return Check(
        name, title, found, level, rule, WARNING if bad else OK, said, (narrow if off < 0 else wide) if bad else "", draw
    )


def _pit(title: str, subject: Subject, seen: Foretold) -> Check:
    tests = []
    for j in range(seen.pit.shape[1]):
        found: Any = kstest(seen.pit[:, j], "uniform")
        tests.append((float(found.pvalue), float(found.statistic)))
    chance, distance = worst(tests)
    bad = chance < LEVEL and distance > DISTANCE
    if bad:
        low, high = (seen.pit < 0.1).mean(), (seen.pit > 0.9).mean()
        middle = ((seen.pit > 0.3) & (seen.pit < 0.7)).mean()
        if low > 0.15 and high > 0.15:
            shape = "heaped at both ends: the error bars are too narrow"
        elif middle > 0.45:
            shape = "heaped in the middle: the error bars are too wide for most rows"
        else:
            shape = f"shifted to the {'lower' if low > high else 'upper'} end: predictions are biased"
        said = f"The probabilities foretold are off by up to {100 * distance:.0f} %, {shape}."
    else:
        why = "which is within chance" if chance >= LEVEL else "which is too little to matter"
        said = f"The probabilities foretold are off by at most {100 * distance:.0f} %, {why}."
    advice = "Look at the histogram; try another likelihood, or transform y."
    if subject.gaussian:
        advice = advice.replace("likelihood", "likelihood (student_t, heteroscedastic)")
    if seen.pit.shape[1] > 1:
        advice = "The outputs share one kernel and one noise: fit them one at a time."
    advice = advice if bad else ""
    return Check(
        "pit",
        title,
        distance,
        DISTANCE,
        f"at most {DISTANCE:g}, or within chance",
        WARNING if bad else OK,
        said,
        advice,
        figures.pit(seen.pit),
    )


def _sharpness(subject: Subject, seen: Foretold) -> Check:
    spread = seen.y.std(0)
    if not len(seen) or not (np.ptp(seen.y, axis=0) > 0).all():
        return missing("sharpness", "Sharpness", "The observations do not vary.")
    found = float((np.sqrt((seen.std**2).mean(0)) / spread).max())
    missed = float((np.sqrt(((seen.y - seen.mean) ** 2).mean(0)) / spread).max())
    bad = found > SHARP and missed >= 1 and len(seen) >= FEWEST
    share = f"{100 * found:.0f}" if found >= 0.01 else f"{100 * found:.2g}"
    said = f"A prediction's error bar is {share} % of the spread of the observations"
    said += ": the inputs say next to nothing about them." if bad else "."
    advice = "Give other inputs, more rows, or another kernel; a constant predicts as well." if bad else ""
    rule = f"at most {SHARP:g}, or errors smaller than the spread"
    draw = figures.sharpness(seen.std[:, 0], float(spread[0]))
    return Check("sharpness", "Sharpness", found, SHARP, rule, WARNING if bad else OK, said, advice, draw)


def _structure(title: str, subject: Subject, seen: Foretold) -> Check:
    """Whether near rows err alike, or errors follow an input."""
    rows = np.arange(len(seen))
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(0).choice(len(rows), MOST, replace=False))
    x, tests, coded = seen.x[rows] / subject.lengths(), [], subject.coded
    for j in range(seen.z.shape[1]):
        z = seen.z[rows, j]
        found, chance, near = likeness(z, x)
        tests.append((chance, ("near", j, found, near, z)))
        for i in range(x.shape[1]):
            r, chance = (group_difference if i in coded else rank_correlation)(z, x[:, i])
            tests.append((chance, (i, j, r, seen.x[rows, i], z)))
    chance, (what, j, size, against, z) = worst(tests)
    bad = chance < LEVEL and abs(size) > (LIKENESS if what == "near" else TREND)
    whose = of_output(subject, j)
    if not bad:
        size, against, z, what = tests[0][1][2], tests[0][1][3], tests[0][1][4], "near"
        said = f"Errors{whose} of neighbouring rows are not alike (correlation {size:.2f}), and follow no input."
    elif what == "near":
        said = (
            f"Errors{whose} of neighbouring rows are alike (correlation {size:.2f}): the model misses structure that is there."
        )
    elif what in coded:
        said = f"Errors{whose} differ between categories of {subject.columns[what]} (by {size:.2f}): the model misses that."
    else:
        way = "grow" if size > 0 else "fall"
        said = f"Errors{whose} {way} with {subject.columns[what]} (rank correlation {size:.2f}): the model misses a trend."
    advice = "Allow more: another kernel, a shorter length-scale, a sum of kernels, mean='linear', or a missing input."
    name = "mean normal score of the nearest rows" if what == "near" else subject.columns[what]
    draw = (figures.grouped if what in coded else figures.against)(against, z, name, "standardised error")
    return Check(
        "structure",
        title,
        float(size),
        LIKENESS,
        f"at most {LIKENESS:g}, or within chance",
        WARNING if bad else OK,
        said,
        advice if bad else "",
        draw,
    )


def _varying(title: str, subject: Subject, seen: Foretold) -> Check:
    """Whether the size of errors follows the predictions, an input, or the distance from an input's middle."""
    tests: list[tuple[float, Any]] = []
    coded = subject.coded
    kinds = {subject.columns[i] for i in coded}
    for j in range(seen.z.shape[1]):
        size = np.abs(seen.z[:, j])
        candidates = [("the prediction", seen.mean[:, j])]
        for i, name in enumerate(subject.columns):
            column = seen.x[:, i]
            if i in coded:
                r, chance = group_difference(size, column)
                tests.append((chance, (name, j, r, column, size)))
                continue
            candidates += [(name, column), (f"the distance of {name} from its middle", np.abs(column - np.median(column)))]
        for name, values in candidates:
            r, chance = rank_correlation(size, values)
            tests.append((chance, (name, j, r, values, size)))
    chance, (name, j, r, values, size) = worst(tests)
    bad = chance < LEVEL and abs(r) > VARYING
    said = f"The size of the errors{of_output(subject, j)} follows neither the predictions nor an input."
    if not bad and chance < LEVEL:
        said = f"The size of the errors{of_output(subject, j)} follows {name} too little to matter (rank correlation {r:.2f})."
    if bad and name in kinds:
        said = f"The errors{of_output(subject, j)} differ in size between categories of {name}: the noise is not of one size."
    elif bad:
        way = "grow" if r > 0 else "shrink"
        said = f"The errors{of_output(subject, j)} {way} with {name} (rank correlation {r:.2f}): the noise is not of one size."
    advice = "Use likelihood='heteroscedastic', give noise_variance per row, or transform y (its logarithm, say)."
    if not subject.gaussian:
        advice = "Try another likelihood (negative_binomial for counts), or a kernel that lets the function vary more."
    draw = (figures.grouped if name in kinds else figures.against)(values, size, name, "size of standardised error")
    return Check(
        "heteroscedastic",
        title,
        float(r),
        VARYING,
        f"at most {VARYING:g} either way, or within chance",
        WARNING if bad else OK,
        said,
        advice if bad else "",
        draw,
    )


def _outliers(title: str, subject: Subject, seen: Foretold) -> Check:
    """Whether there are errors beyond four standard deviations, or too many large ones."""
    n = len(seen)
    tests: list[tuple[float, Any]] = []
    for j in range(seen.z.shape[1]):
        z = seen.z[:, j]
        far = int((np.abs(z) > FAR).sum())
        tests.append((float(binom.sf(far - 1, n, 2 * ndtr(-FAR))), j))
        if np.ptp(z) > 1e-9:
            found: Any = kurtosistest(z, alternative="greater")
            tests.append((float(found.pvalue), j))
    chance, j = worst(tests)
    z = seen.z[:, j]
    far = int((np.abs(z) > FAR).sum())
    heavy = float(((z - z.mean()) ** 4).mean() / z.var() ** 2 - 3) if np.ptp(z) > 1e-9 else 0.0
    bad = chance < LEVEL and (heavy > KURTOSIS or far / n > 1e-3)
    beyond = f"{of_output(subject, j)} beyond {FAR:g} standard deviations"
    why = "which is within chance" if chance >= LEVEL else f"too few of {n:,} rows to matter"
    said = f"{counted(far, 'error') if far else 'No errors'}{beyond}, {why}."
    if bad:
        largest = seen.rows[np.argsort(-np.abs(z))[:5]]
        tail = f"; the largest errors are in rows {', '.join(map(str, largest))}"
        tail += " of those that differ" if subject.post.data.weight is not None and seen.kind != "new rows" else ""
        count = f"{counted(far, 'error')} beyond {FAR:g} standard deviations" if far else "tails"
        said = (
            f"{count[0].upper()}{count[1:]}{of_output(subject, j)} heavier than foretold (excess kurtosis {heavy:.1f}){tail}."
        )
        if far:
            expected = 2 * n * float(ndtr(-FAR))
            said = f"{count}{of_output(subject, j)}, where {expected:.1g} are expected (excess kurtosis {heavy:.1f}){tail}."
    advice = "Look at these rows; if they stand, use likelihood='student_t', which they do not move."
    if not subject.gaussian:
        advice = "Look at these rows; if they stand, try a likelihood with longer tails."
    return Check(
        "outliers",
        title,
        heavy,
        KURTOSIS,
        f"excess kurtosis at most {KURTOSIS:g}, or within chance",
        WARNING if bad else OK,
        said,
        advice if bad else "",
        figures.normal(z),
    )
