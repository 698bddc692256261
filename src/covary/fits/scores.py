"""Scores of predictions against known values, and their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from covary._checks import CovaryError
from covary._words import counted

Score = float | None


def of_numbers(
    y: np.ndarray,
    mean: np.ndarray | None,
    lower: np.ndarray | None,
    upper: np.ndarray | None,
    log_prob: np.ndarray | None,
) -> dict[str, Score]:
    """Return scores of numeric predictions: errors, log density, and interval coverage; None if not available."""
    from covary import metrics

    return {
        "rows": len(y),
        "r2": None if mean is None else _try(metrics.r2, y, mean),
        "rmse": None if mean is None else _try(metrics.rmse, y, mean),
        "nlpd": None if log_prob is None or np.isnan(log_prob).any() else float(-log_prob.mean()),
        "coverage": None if lower is None or upper is None else float(((lower <= y) & (y <= upper)).mean()),
    }


def of_classes(codes: np.ndarray, p: np.ndarray, classes: np.ndarray, counts: np.ndarray) -> dict[str, Score]:
    """Return scores of class probabilities; ``counts`` are those of the training data."""
    from covary import metrics

    labels = classes.tolist()
    y, named = [labels[i] for i in codes], {"classes": labels}
    train = dict(zip(labels, counts.tolist(), strict=True))
    wrong = _try(metrics.errors, y, p, **named)
    return {
        "rows": len(codes),
        "errors": None if wrong is None else int(wrong),
        "error_rate": _try(metrics.error_rate, y, p, **named),
        "log_loss": _try(metrics.log_loss, y, p, **named),
        "information": _try(metrics.information, y, p, train, **named),
        "brier": _try(metrics.brier, y, p, **named),
    }


@dataclass(frozen=True)
class Moments:
    """Number of values, their mean, and the sum of squared deviations from it."""

    rows: int
    mean: float
    squares: float


def moments(y: np.ndarray) -> Moments:
    """Return the moments of some values."""
    mean = float(y.mean())
    return Moments(len(y), mean, float(((y - mean) ** 2).sum()))


def together(parts: Sequence[dict[str, Score]], known: Sequence[Moments]) -> dict[str, Score]:
    """Combine the scores of parts of a table; ``known`` holds the moments of their values, for R².

    Examples
    --------
    >>> y, mean = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.0, 1.5, 2.0, 4.0])
    >>> parts = [of_numbers(y[i], mean[i], mean[i] - 1, mean[i] + 1, -y[i]) for i in (slice(2), slice(2, 4))]
    >>> both = together(parts, [moments(y[:2]), moments(y[2:])])
    >>> whole = of_numbers(y, mean, mean - 1, mean + 1, -y)
    >>> all(abs(both[name] - whole[name]) < 1e-12 for name in whole)
    True
    """
    if len(parts) == 1:
        return parts[0]
    rows = [int(part["rows"] or 0) for part in parts]
    out: dict[str, Score] = {"rows": sum(rows)}
    for name in (name for name in parts[0] if name != "rows"):
        values = [value for value in (part[name] for part in parts) if value is not None]
        if name == "r2" or len(values) < len(parts):  # R² keeps its position and is computed below
            out[name] = None
        elif name == "errors":
            out[name] = int(sum(values))
        else:
            power = 2 if name == "rmse" else 1
            out[name] = float(np.average([v**power for v in values], weights=rows)) ** (1 / power)
    rmse = out.get("rmse")
    if known and rmse is not None:
        count = sum(m.rows for m in known)
        mean = float(np.average([m.mean for m in known], weights=[m.rows for m in known]))
        total = sum(m.squares + m.rows * (m.mean - mean) ** 2 for m in known)
        out["r2"] = 1 - count * rmse**2 / total if total > 0 else None
    return out


def _try(metric: Callable[..., float], *arguments: object, **options: object) -> float | None:
    """Return a score, or None if it is undefined (such as R² of constant targets)."""
    try:
        return float(metric(*arguments, **options))
    except CovaryError:
        return None


def words(s: dict[str, Score], level: float) -> str:
    """Format scores on one line.

    Examples
    --------
    >>> words({"rows": 9, "r2": 0.5, "rmse": 2.0, "nlpd": None, "coverage": 1.0}, 0.95)
    'R² 0.5, RMSE 2, 100.0 % inside the 95 % intervals (9 rows with a known value)'
    """
    if "errors" in s:
        wrong = s["errors"]
        out = [] if wrong is None else [f"{counted(int(wrong), 'error')} ({100 * (s['error_rate'] or 0.0):.1f} %)"]
        named = (("log_loss", "log loss {:.4g}"), ("information", "information {:.4g} bits"), ("brier", "Brier {:.4g}"))
        kind = "class"
    else:
        out, named, kind = [], (("r2", "R² {:.4g}"), ("rmse", "RMSE {:.4g}"), ("nlpd", "NLPD {:.4g}")), "value"
    out += [text.format(s[key]) for key, text in named if s[key] is not None]
    coverage = s.get("coverage")
    if coverage is not None:
        out.append(f"{100 * coverage:.1f} % inside the {100 * level:g} % intervals")
    return f"{', '.join(out)} ({counted(int(s['rows'] or 0), 'row')} with a known {kind})"
