"""Checks of the error bars: coverage, PIT, sharpness, structure in the residuals, varying noise, outliers.

Each is a test whose null distribution is known without simulation, and all share one false-alarm rate; deviations that are
significant but too small to matter, as with many rows, cause no warning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom, kstest, kurtosistest

from covary._words import counted
from covary.diagnosis import figures
from covary.diagnosis.association import MOST, group_difference, likeness, rank_correlation
from covary.fits import AnyFit, Judged, Training
from covary.fits.checks import FEWEST, LEVEL, NOTE, OK, WARNING, Check, missing

COVERAGE = {0.95: 0.02, 0.5: 0.05}  # tolerated deviation of the coverage, even if significant
DISTANCE = 0.05  # tolerated distance of the distribution of the PIT from uniform, even if significant
LIKENESS, TREND, VARYING = 0.1, 0.1, 0.15  # tolerated correlations: of neighbours, with an input, of error sizes
SHARP = 0.98  # of the spread of y: error bars as wide as this are uninformative
FAR = 4.0  # standard deviations beyond which an error is an outlier
KURTOSIS = 1.0
TINY = 0.03  # maximum RMS error relative to the spread of the observations: R² above 0.999
INSIDE = 0.7  # maximum RMS of error over error bar; 1 for a correct model, and with 80 rows never this small by chance
WITHIN = 4.0  # maximum of error over error bar
LARGEST = 1e6  # error over error bar, if an error bar is 0
SAFE = "The error bars are reliable as they are"


class About(NamedTuple):
    """Names of targets and columns, and the training rows, for the sentences of checks."""

    targets: tuple[str, ...]
    columns: tuple[str, ...]
    training: Training


def check_errors(fit: AnyFit, training: Training, seen: Judged) -> list[Check]:
    """Return all checks of the error bars of a regression, for any family."""
    about = About(fit.target, tuple(fit.columns.names), training)
    few = f"{counted(len(seen), 'row is', 'rows are')} too few for this test (at least {FEWEST})."
    still = not (np.ptp(seen.y, axis=0) > 0).all() if len(seen) else False
    few = "The observations do not vary." if still else few
    titles = {
        "coverage": "Coverage of 95 % intervals",
        "coverage50": "Coverage of 50 % intervals",
        "pit": "Calibration over all levels",
        "structure": "Structure left in the errors",
        "heteroscedastic": "Constant noise level",
        "outliers": "Outliers",
    }
    if not seen.has_error_bars:
        none = "The predictions have no error bars."
        return [missing(name, title, none) for name, title in {**titles, "sharpness": "Sharpness"}.items()]
    sharp = _sharpness(about, seen)
    if still or len(seen) < FEWEST:
        return [sharp, *(missing(name, title, few) for name, title in titles.items())]
    seen = replace(seen, z=np.nan_to_num(seen.z, posinf=LARGEST, neginf=-LARGEST))
    checks = [
        _coverage("coverage", titles["coverage"], 0.95, about, seen),
        _coverage("coverage50", titles["coverage50"], 0.5, about, seen),
        _pit(titles["pit"], about, seen),
        sharp,
        _structure(titles["structure"], about, seen),
        _varying(titles["heteroscedastic"], about, seen),
        _outliers(titles["outliers"], about, seen),
    ]
    return eased(training, seen, checks)


def source(seen: Judged) -> str:
    """Return how the predictions were made, as an adjective."""
    return "held-out" if seen.kind == "new rows" else seen.kind


What = TypeVar("What")


def worst(values: list[tuple[float, What]]) -> tuple[float, What]:
    """Return the smallest of several p-values, multiplied by their number (Bonferroni), and the item it belongs to."""
    p, what = min(values, key=lambda v: v[0])
    return min(1.0, p * len(values)), what


def of_output(about: About, j: int) -> str:
    """Return " of" and the name of an output if there are several, else an empty text."""
    return f" of {about.targets[j]}" if len(about.targets) > 1 else ""


def _coverage(name: str, title: str, level: float, about: About, seen: Judged) -> Check:
    n, p = seen.pit.shape
    inside = (np.abs(seen.pit - 0.5) <= level / 2).sum(0)
    tails = [2 * min(binom.cdf(k, n, level), binom.sf(k - 1, n, level)) for k in inside]
    chance, _ = worst([(float(t), j) for j, t in enumerate(tails)])
    found = float(inside.sum()) / (n * p)
    off = found - level
    bad = chance < LEVEL and float(np.abs(inside / n - level).max()) > COVERAGE[level]
    finding = f"{100 * level:g} % intervals contain {100 * found:.1f} % of the rows ({source(seen)})"
    if not bad:
        tail = "as they should." if chance >= LEVEL else "which is close enough."
        said = f"{finding}, {tail}"
    else:
        said = f"{finding}: the error bars are too {'narrow' if off < 0 else 'wide'}."
    factor = float(np.quantile(np.abs(seen.z), level)) / float(ndtri(0.5 + level / 2))
    held, advice = about.training.noise == "fixed", about.training.advice
    free = "Learn the noise instead of fixing it" if held else advice.free
    narrow: str = f"{free}; until then multiply the error bars by {factor:.2g}."
    if ((seen.std == 0) & (seen.y != seen.mean)).any():
        narrow = f"{free}; some error bars are 0, although the predictions are not exact."
    wide: str = f"{free}."
    if not held and float((np.abs(seen.z) > 3).mean()) > 2 * (2 * ndtr(-3.0)):
        wide = "A few outlying rows widen the error bars of all others, as happens if the noise varies or has heavy tails: "
        wide = wide + advice.heavy
    if p > 1:
        narrow = wide = advice.several
    rule = f"{100 * level:g} % ± {100 * COVERAGE[level]:g} %, or not significant"
    draw = figures.coverage(seen.pit, level)
    advised = (narrow if off < 0 else wide) if bad else ""
    return Check(name, title, found, level, rule, WARNING if bad else OK, said, advised, draw, finding)


def _pit(title: str, about: About, seen: Judged) -> Check:
    tests = []
    for j in range(seen.pit.shape[1]):
        statistic, p_value = kstest(seen.pit[:, j], "uniform")
        tests.append((float(p_value), float(statistic)))
    chance, distance = worst(tests)
    bad = chance < LEVEL and distance > DISTANCE
    if bad:
        low, high = (seen.pit < 0.1).mean(), (seen.pit > 0.9).mean()
        middle = ((seen.pit > 0.3) & (seen.pit < 0.7)).mean()
        if low > 0.15 and high > 0.15:
            shape, meaning = "concentrated at both ends", "the error bars are too narrow"
        elif middle > 0.45:
            shape, meaning = "concentrated in the middle", "the error bars are too wide for most rows"
        else:
            shape, meaning = f"shifted to the {'lower' if low > high else 'upper'} end", "predictions are biased"
        finding = f"The predicted probabilities are off by up to {100 * distance:.0f} %, {shape}"
        said = f"{finding}: {meaning}."
    else:
        finding = ""
        why = "which is within chance" if chance >= LEVEL else "which is too little to matter"
        said = f"The predicted probabilities are off by at most {100 * distance:.0f} %, {why}."
    known = about.training.advice
    advice = (known.several if seen.pit.shape[1] > 1 else known.shape) if bad else ""
    return Check(
        "pit",
        title,
        distance,
        DISTANCE,
        f"at most {DISTANCE:g}, or not significant",
        WARNING if bad else OK,
        said,
        advice,
        figures.pit(seen.pit),
        finding,
    )


def _sharpness(about: About, seen: Judged) -> Check:
    spread = seen.y.std(0)
    if not len(seen) or not (np.ptp(seen.y, axis=0) > 0).all():
        return missing("sharpness", "Sharpness", "The observations do not vary.")
    found = float((np.sqrt((seen.std**2).mean(0)) / spread).max())
    missed = float((np.sqrt(((seen.y - seen.mean) ** 2).mean(0)) / spread).max())
    bad = found > SHARP and missed >= 1 and len(seen) >= FEWEST
    share = f"{100 * found:.0f}" if found >= 0.01 else f"{100 * found:.2g}"
    said = f"A prediction's error bar is {share} % of the spread of the observations"
    said += ": the inputs contain almost no information about them." if bad else "."
    advice = about.training.advice.inputs if bad else ""
    rule = f"at most {SHARP:g}, or errors below the standard deviation"
    draw = figures.sharpness(seen.std[:, 0], float(spread[0]))
    return Check("sharpness", "Sharpness", found, SHARP, rule, WARNING if bad else OK, said, advice, draw)


def _structure(title: str, about: About, seen: Judged) -> Check:
    """Check whether errors of neighbouring rows are similar, or errors depend on an input."""
    rows = np.arange(len(seen))
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(0).choice(len(rows), MOST, replace=False))
    x, tests, coded = seen.x[rows] / about.training.lengths, [], about.training.coded
    for j in range(seen.z.shape[1]):
        z = seen.z[rows, j]
        found, chance, near = likeness(z, x)
        tests.append((chance, ("near", j, found, near, z)))
        for i in range(x.shape[1]):
            r, chance = (group_difference if i in coded else rank_correlation)(z, x[:, i])
            tests.append((chance, (i, j, r, seen.x[rows, i], z)))
    chance, (what, j, size, against, z) = worst(tests)
    bad = chance < LEVEL and abs(size) > (LIKENESS if what == "near" else TREND)
    whose, finding = of_output(about, j), ""
    if not bad:
        size, against, z, what = tests[0][1][2], tests[0][1][3], tests[0][1][4], "near"
        said = f"Errors{whose} of neighbouring rows are not similar (correlation {size:.2f}), and depend on no input."
    elif what == "near":
        finding = f"Errors{whose} of neighbouring rows are similar (correlation {size:.2f})"
        said = f"{finding}: the model misses structure in the data."
    elif what in coded:
        finding = f"Errors{whose} differ between categories of {about.columns[what]} (by {size:.2f})"
        said = f"{finding}: the model misses this effect."
    else:
        way = "increase" if size > 0 else "decrease"
        finding = f"Errors{whose} {way} with {about.columns[what]} (rank correlation {size:.2f})"
        said = f"{finding}: the model misses a trend."
    advice = about.training.advice.more
    name = "mean normal score of the nearest rows" if what == "near" else about.columns[what]
    draw = (figures.grouped if what in coded else figures.against)(against, z, name, "standardised error")
    return Check(
        "structure",
        title,
        float(size),
        LIKENESS,
        f"between -{LIKENESS:g} and {LIKENESS:g}, or not significant",
        WARNING if bad else OK,
        said,
        advice if bad else "",
        draw,
        finding,
    )


def _varying(title: str, about: About, seen: Judged) -> Check:
    """Check whether the size of errors depends on the predictions, an input, or the distance from an input's median."""
    tests: list[tuple[float, tuple[str, int, float, np.ndarray, np.ndarray]]] = []
    coded = about.training.coded
    kinds = {about.columns[i] for i in coded}
    for j in range(seen.z.shape[1]):
        size = np.abs(seen.z[:, j])
        candidates = [("the prediction", seen.mean[:, j])]
        for i, name in enumerate(about.columns):
            column = seen.x[:, i]
            if i in coded:
                r, chance = group_difference(size, column)
                tests.append((chance, (name, j, r, column, size)))
                continue
            candidates += [(name, column), (f"the distance of {name} from its median", np.abs(column - np.median(column)))]
        for name, values in candidates:
            r, chance = rank_correlation(size, values)
            tests.append((chance, (name, j, r, values, size)))
    chance, (name, j, r, values, size) = worst(tests)
    bad = chance < LEVEL and abs(r) > VARYING
    said = f"The size of the errors{of_output(about, j)} depends neither on the predictions nor on an input."
    if not bad and chance < LEVEL:
        said = f"The size of the errors{of_output(about, j)} depends too little on {name} to matter (rank correlation {r:.2f})."
    if bad and name in kinds:
        said = f"The errors{of_output(about, j)} differ in size between categories of {name}: the noise level is not constant."
    elif bad:
        way = "grow" if r > 0 else "shrink"
        said = f"The errors{of_output(about, j)} {way} with {name} (rank correlation {r:.2f}): the noise level is not constant."
    advice = about.training.advice.varying
    draw = (figures.grouped if name in kinds else figures.against)(values, size, name, "size of standardised error")
    return Check(
        "heteroscedastic",
        title,
        float(r),
        VARYING,
        f"between -{VARYING:g} and {VARYING:g}, or not significant",
        WARNING if bad else OK,
        said,
        advice if bad else "",
        draw,
    )


def _outliers(title: str, about: About, seen: Judged) -> Check:
    """Check whether there are errors beyond four standard deviations, or too many large ones."""
    n = len(seen)
    tests: list[tuple[float, int]] = []
    for j in range(seen.z.shape[1]):
        z = seen.z[:, j]
        far = int((np.abs(z) > FAR).sum())
        tests.append((float(binom.sf(far - 1, n, 2 * ndtr(-FAR))), j))
        if np.ptp(z) > 1e-9:
            tests.append((float(kurtosistest(z, alternative="greater")[1]), j))
    chance, j = worst(tests)
    z = seen.z[:, j]
    far = int((np.abs(z) > FAR).sum())
    heavy = float(((z - z.mean()) ** 4).mean() / z.var() ** 2 - 3) if np.ptp(z) > 1e-9 else 0.0
    bad = chance < LEVEL and (heavy > KURTOSIS or far / n > 1e-3)
    beyond = f"{of_output(about, j)} beyond {FAR:g} standard deviations"
    why = "which is within chance" if chance >= LEVEL else f"too few of {n:,} rows to matter"
    said = f"{counted(far, 'error') if far else 'No errors'}{beyond}, {why}."
    if bad:
        largest = seen.rows[np.argsort(-np.abs(z))[:5]]
        tail = f"; the largest errors are in rows {', '.join(map(str, largest))}"
        tail += " of the distinct rows" if about.training.merged and seen.kind != "new rows" else ""
        count = f"{counted(far, 'error')} beyond {FAR:g} standard deviations" if far else "tails"
        said = f"{count[0].upper()}{count[1:]}{of_output(about, j)} heavier than predicted (excess kurtosis {heavy:.1f}){tail}."
        if far:
            expected = 2 * n * float(ndtr(-FAR))
            said = f"{count}{of_output(about, j)}, where {expected:.1g} are expected (excess kurtosis {heavy:.1f}){tail}."
    advice = about.training.advice.outliers
    return Check(
        "outliers",
        title,
        heavy,
        KURTOSIS,
        f"excess kurtosis at most {KURTOSIS:g}, or not significant",
        WARNING if bad else OK,
        said,
        advice if bad else "",
        figures.normal(z),
    )


# very small errors and error bars wider than needed: a note instead of a warning ------------------------------------------
# The neighbours of a row predict a smooth function without noise far better than a Matérn kernel assumes: every error is much
# smaller than its error bar, and a pattern in the errors (larger at the edges, similar between neighbours) is harmless.
def eased(training: Training, seen: Judged, checks: list[Check]) -> list[Check]:
    """Return the checks of error bars, with notes instead of warnings if the error bars are merely too wide."""
    if not cautious(training, seen):
        return checks
    most = 100 * float((np.abs(seen.y - seen.mean) / seen.y.std(0)).max())
    spread = f"{most:.2g} % of the spread of the observations"
    return [_noted(check, spread, training.advice.smoother) if _mild(check) else check for check in checks]


def cautious(training: Training, seen: Judged) -> bool:
    """Return whether errors are tiny, and all of them much smaller than error bars that were learned."""
    if training.noise != "learned" or not len(seen):
        return False
    tiny = np.sqrt(np.square(seen.y - seen.mean).mean(0)) <= TINY * seen.y.std(0)
    inside = np.sqrt(np.square(seen.z).mean(0)) < INSIDE
    return bool(tiny.all() and inside.all() and np.abs(seen.z).max() <= WITHIN)


def too_wide(seen: Judged) -> float:
    """Return by which factor the error bars are too wide: 1.96 over the 95 % quantile of |z|."""
    return float(1.959964 / max(np.quantile(np.abs(seen.z), 0.95), 1e-12))


def _mild(check: Check) -> bool:
    if check.verdict != WARNING:
        return False
    if check.name in ("coverage", "coverage50"):
        return bool(check.value is not None and check.threshold is not None and check.value > check.threshold)
    return check.name in ("pit", "structure", "heteroscedastic", "outliers")


def _noted(check: Check, most: str, smoother: str) -> Check:
    said = {
        "structure": f"{check.finding}, but they are at most {most}.",
        "heteroscedastic": f"The errors differ in size from place to place, but they are at most {most}.",
        "outliers": f"A few errors are much larger than most (excess kurtosis {check.value:.1f}), but they are at most {most}.",
    }.get(check.name, f"{check.finding}: the error bars are wider than needed, because errors are at most {most}.")
    advice = f"{SAFE}; {smoother}." if smoother else f"{SAFE}."
    advice = advice if check.name in ("coverage", "coverage50", "pit") else "No action is needed."
    return replace(check, verdict=NOTE, sentence=said, advice=advice)
