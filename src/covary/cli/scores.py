"""How good predictions are where the table holds the truth: scores, and the words about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from covary._checks import CovaryError
from covary._words import counted


def of_numbers(y: np.ndarray, mean: np.ndarray, std: np.ndarray, level: float) -> dict[str, Any]:
    """Scores of measurements with Gaussian error bars."""
    from covary import metrics

    return {
        "rows": len(y),
        "r2": _try(metrics.r2, y, mean),
        "rmse": _try(metrics.rmse, y, mean),
        "nlpd": _try(metrics.nlpd, y, mean, std),
        "coverage": _try(metrics.coverage, y, mean, std, level),
    }


def of_others(y: np.ndarray, mean: np.ndarray, lower: np.ndarray, upper: np.ndarray, log_prob: np.ndarray) -> dict[str, Any]:
    """Scores under another likelihood: its own log density, and how many values lie inside its own quantiles."""
    from covary import metrics

    return {
        "rows": len(y),
        "r2": _try(metrics.r2, y, mean),
        "rmse": _try(metrics.rmse, y, mean),
        "nlpd": None if np.isnan(log_prob).any() else float(-log_prob.mean()),
        "coverage": float(((lower <= y) & (y <= upper)).mean()),
    }


def of_classes(codes: np.ndarray, p: np.ndarray, classes: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    """Scores of class probabilities; ``counts`` are those of training."""
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


class Moments(NamedTuple):
    """How many values there were, their mean, and the sum of squares about it."""

    count: int
    mean: float
    squares: float


def moments(y: np.ndarray) -> Moments:
    """Those of some values."""
    mean = float(y.mean())
    return Moments(len(y), mean, float(((y - mean) ** 2).sum()))


def together(parts: Sequence[dict[str, Any]], known: Sequence[Moments]) -> dict[str, Any]:
    """The scores of a table from those of its parts; ``known`` has the moments of their values, for R².

    Examples
    --------
    >>> y, mean = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.0, 1.5, 2.0, 4.0])
    >>> parts = [of_numbers(y[i], mean[i], np.ones(2), 0.9) for i in (slice(2), slice(2, 4))]
    >>> both = together(parts, [moments(y[:2]), moments(y[2:])])
    >>> whole = of_numbers(y, mean, np.ones(4), 0.9)
    >>> all(abs(both[name] - whole[name]) < 1e-12 for name in whole)
    True
    """
    if len(parts) == 1:
        return parts[0]
    rows = [part["rows"] for part in parts]
    out: dict[str, Any] = {"rows": sum(rows)}
    for name in (name for name in parts[0] if name != "rows"):
        values = [part[name] for part in parts]
        if name == "r2":
            out[name] = None  # in its place, and found below
        elif any(value is None for value in values):
            out[name] = None
        elif name == "errors":
            out[name] = int(sum(values))
        else:
            power = 2 if name == "rmse" else 1
            out[name] = float(np.average([v**power for v in values], weights=rows)) ** (1 / power)
    if known and out.get("rmse") is not None:
        count, mean = sum(m.count for m in known), float(np.average([m.mean for m in known], weights=[m.count for m in known]))
        total = sum(m.squares + m.count * (m.mean - mean) ** 2 for m in known)
        out["r2"] = 1 - count * out["rmse"] ** 2 / total if total > 0 else None
    return out


def _try(metric: Any, *arguments: Any, **options: Any) -> float | None:
    """A score, or None where there is none (constant targets have no R²)."""
    try:
        return float(metric(*arguments, **options))
    except CovaryError:
        return None


def possible(likelihood: Any, y: np.ndarray, size: np.ndarray | None) -> np.ndarray:
    """Which values an observation under this likelihood can take."""
    whole = (y >= 0) & (y == np.floor(y))
    if likelihood.support == "counts":
        trials = type(likelihood).__name__ == "Binomial"
        return whole & (y <= (1.0 if size is None else size)) if trials else whole
    if likelihood.support == "labels":
        return whole & (y < likelihood.levels)
    return y > 0 if likelihood.support == "positive" else np.isfinite(y)


def words(s: dict[str, Any], level: float) -> str:
    """Scores on one line.

    Examples
    --------
    >>> words({"rows": 9, "r2": 0.5, "rmse": 2.0, "nlpd": None, "coverage": 1.0}, 0.95)
    'R² 0.5, RMSE 2, 100.0 % inside the 95 % intervals (9 rows with a known value)'
    """
    if "errors" in s:
        out = [] if s["errors"] is None else [f"{counted(s['errors'], 'error')} ({100 * s['error_rate']:.1f} %)"]
        named = (("log_loss", "log loss {:.4g}"), ("information", "information {:.4g} bits"), ("brier", "Brier {:.4g}"))
        kind = "class"
    else:
        out, named, kind = [], (("r2", "R² {:.4g}"), ("rmse", "RMSE {:.4g}"), ("nlpd", "NLPD {:.4g}")), "value"
    out += [text.format(s[key]) for key, text in named if s[key] is not None]
    if s.get("coverage") is not None:
        out.append(f"{100 * s['coverage']:.1f} % inside the {100 * level:g} % intervals")
    return f"{', '.join(out)} ({counted(s['rows'], 'row')} with a known {kind})"
