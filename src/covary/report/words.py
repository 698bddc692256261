"""The text of the report: the summary sentences, and readable numbers."""

from __future__ import annotations

import numpy as np

from covary._words import counted, some
from covary.diagnosis.errors import cautious, too_wide
from covary.fits import AnyFit, Diagnosis, Judged, Relevance, Training


def number(value: float, digits: int = 4) -> str:
    """Format a number with a given number of digits, and thousands separators from ten thousand on (not in years).

    Examples
    --------
    >>> number(12345.678), number(1864.0), number(0.00012), number(3.0), number(-0.5), number(1.0916, 3)
    ('12,346', '1864', '0.00012', '3', '−0.5', '1.09')
    >>> number(284.3, 2)
    '280'
    """
    if not np.isfinite(value):
        return "–" if np.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    size = abs(value)
    if 1000 <= size < 1e7:
        text = f"{value:,.0f}" if size >= 1e4 else f"{value:.0f}"
    elif size >= 1e7 or size < 1e-4:
        text = f"{value:.3g}"
    elif size >= 10**digits:
        text = f"{float(f'{value:.{digits}g}'):.0f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "−")


def beside(value: float, error: float) -> str:
    """Format a number and its error, with decimals for two digits of the error.

    Examples
    --------
    >>> beside(1.8442, 1.4712), beside(1375.2, 283.0), beside(-0.5, 0.0), beside(12.3, 0.00012)
    ('1.8 ± 1.5', '1375 ± 283', '−0.5 ± 0', '12.30000 ± 0.00012')
    """
    if not (np.isfinite(error) and error >= 1e-5 and max(abs(value), error) < 1e7):
        return f"{number(value)} ± {number(error, 2)}"
    places = max(0, 1 - int(np.floor(np.log10(error))))
    apart = "," if max(abs(value), error) >= 1e4 else ""
    return f"{value:{apart}.{places}f} ± {error:{apart}.{places}f}".replace("-", "−")


def percent_of(share: float) -> str:
    """Format a share as a rounded percentage; a share below one is never rounded to 100 %.

    Examples
    --------
    >>> percent_of(0.812), percent_of(0.99698), percent_of(1.0), percent_of(-0.1), percent_of(1 - 1e-9)
    ('81 %', '99.7 %', '100 %', '0 %', '99.9999 %')
    """
    share = max(share, 0.0)
    if share < 0.99 or share >= 1:
        return f"{100 * min(share, 1.0):.0f} %"
    places = min(4, int(np.floor(-np.log10(1 - share) + 1e-9)) - 1)
    return f"{min(100 * share, 100 - 10.0**-places):.{places}f} %"


def short_names(names: tuple[str, ...], most: int = 28) -> tuple[str, ...]:
    """Shorten names so that they fit next to a figure and remain distinct.

    Examples
    --------
    >>> short_names(("age", "temperature of the water", "temperature of the air"), 12)
    ('age', 'temperature…', 'temperatu… 2')
    """
    out: list[str] = []
    for name in names:
        cut = name if len(name) <= most else f"{name[: most - 1]}…"
        number = 2
        while cut in out:
            cut, number = f"{name[: most - 3]}… {number}", number + 1
        out.append(cut)
    return tuple(out)


def listed(names: list[str], most: int = 4) -> str:
    """Join a few names by commas and "and".

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"]), listed(list("abcdefg"))
    ('a', 'a, b and c', 'a, b, c, d and 3 more')
    """
    if len(names) > most:
        return some(names, most)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def sentences(fit: AnyFit, family: str, training: Training, diagnosis: Diagnosis, relevance: Relevance | None) -> list[str]:
    """Return the summary: what was fitted, how accurate it is, and whether to trust it; ``family`` is its title."""
    return [_fitted(fit, family, training, relevance), _quality(fit, diagnosis.judged), _trust(fit, training, diagnosis)]


def _fitted(fit: AnyFit, family: str, training: Training, relevance: Relevance | None) -> str:
    columns = fit.columns.names
    d, count, what = len(columns), counted(round(training.count), "row"), listed(list(fit.target))
    if fit.classes is not None:
        labels = [str(c) for c in fit.classes.values]
        what += f", one of {len(labels)} classes ({listed(labels, 6)}),"
    from_what = listed(columns) if d <= 4 else f"{d} inputs"
    out = f"{'An' if family[0] in 'AEIOUaeiou' else 'A'} {family} learned {what} from {from_what}"
    out += f" in {count}" if training.rows else ""
    out += f", {training.how}" if training.how else ""
    if d > 1 and relevance is not None and relevance.values.max() > 0:
        most = [n for n, v in zip(relevance.names, relevance.values, strict=True) if v >= 0.25 * relevance.values[0]][:3]
        if len(most) < d:
            out += f"; {listed(most)} matter{'s' * (len(most) == 1)} most"
    return f"{out}."


def _quality(fit: AnyFit, seen: Judged | None) -> str:
    if seen is None or not len(seen):
        return "Its accuracy cannot be assessed on these rows."
    how = {"leave-one-out": "each row predicted from the others", "new rows": "rows it was not fitted to"}.get(
        seen.kind, "its training rows"
    )
    if seen.p is not None:
        codes = seen.y[:, 0].astype(int)
        right = float((seen.p.argmax(1) == codes).mean())
        base = float(np.bincount(codes).max() / len(codes))
        return (
            f"It classifies {100 * right:.1f} % of the rows correctly ({how}); always predicting the most frequent class would "
            f"be correct for {100 * base:.1f} %."
        )
    spread = seen.y.std(0)
    error = np.sqrt(((seen.y - seen.mean) ** 2).mean(0))
    explained = [percent_of(1 - (e / s) ** 2) if s > 0 else "nothing" for e, s in zip(error, spread, strict=True)]
    if len(fit.target) == 1:
        said = f"It explains {explained[0]} of the variance of {fit.target[0]} with a typical error of {number(error[0], 3)}"
    else:
        each = [f"{e} of {t}" for e, t in zip(explained, fit.target, strict=True)]
        said = f"It explains {listed(each)}"
    if not seen.has_error_bars:
        return f"{said} ({how})."
    inside = 100 * float((np.abs(seen.pit - 0.5) <= 0.475).mean())
    return f"{said} ({how}), and its 95 % intervals contain {inside:.1f} %."


def _trust(fit: AnyFit, training: Training, diagnosis: Diagnosis) -> str:
    found = diagnosis.warnings
    made = sum(check.verdict != "not available" for check in diagnosis.checks)
    if not found:
        what = "error bars" if fit.kind == "regression" else "probabilities"
        unfinished = training.unfinished
        if unfinished:
            return f"None of {made} checks found a problem, but {unfinished[0].lower()}{unfinished[1:]}"
        seen = diagnosis.judged
        if seen is None or (fit.kind == "regression" and not seen.has_error_bars):
            why = "no predictions to compare with observations" if seen is None else "no error bars"
            return f"Whether the model can be relied on was not checked: there are {why}."
        if fit.kind == "regression" and cautious(training, seen):
            wide = f"about {number(too_wide(seen), 2)} times as wide as needed"
            return f"None of {made} checks found a problem; the error bars are conservative, {wide}."
        return f"None of {made} checks found a problem: the {what} can be relied on where there are data."
    names = listed([check.title.lower() for check in found], 3)
    return f"{len(found)} of {made} checks gave a warning ({names}): read the warnings below before relying on the model."
