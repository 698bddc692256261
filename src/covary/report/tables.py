"""The tables of a report: parameters, columns of the data, the largest errors, facts about the fit."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

from covary._words import counted
from covary.diagnosis import Foretold, Subject
from covary.plots.columns import Scales
from covary.report.words import LIKELIHOODS, beside, number

MOST_ROWS = 8


def data_rows(subject: Subject, scales: Scales) -> list[dict[str, str]]:
    """Inputs and targets: range, middle, spread, different values."""
    data = subject.post.data
    out = [_input(name, subject.x[:, i], i, scales) for i, name in enumerate(subject.columns)]
    if subject.classes is not None:
        return out
    y = np.asarray(data.y, np.float64)
    if subject.gaussian:
        y = y * subject.scale + subject.location
        out += [_column(name, v, "target") for name, v in zip(subject.targets, y.reshape(len(y), -1).T, strict=False)]
    else:
        out.append(_column(subject.targets[0], y[:, 0] if y.ndim == 2 else y, "target"))
        if y.ndim == 2:
            out.append(_column("size", y[:, 1], "trials or exposure"))
    return out


def _input(name: str, values: np.ndarray, j: int, scales: Scales) -> dict[str, str]:
    """A row of the table of columns, in dates where there are such; of categories the commonest alone."""
    out = _column(name, values, "input")
    if scales.levels(j):
        kinds, counts = np.unique(values, return_counts=True)
        most = scales.text(j, float(kinds[counts.argmax()]))
        return out | {"role": "input, categories", "low": "", "middle": f"commonest {most}", "high": "", "spread": ""}
    if scales.dated(j):
        low, middle, high = (scales.text(j, float(np.quantile(values, q))) for q in (0.0, 0.5, 1.0))
        out |= {"low": low, "middle": middle, "high": high, "spread": f"{out['spread']} {scales.each[j].unit}"}
    return out


def _column(name: str, values: np.ndarray, role: str) -> dict[str, str]:
    low, middle, high = (float(np.quantile(values, q)) for q in (0.0, 0.5, 1.0))
    return {
        "name": name,
        "role": role,
        "low": number(low),
        "middle": number(middle),
        "high": number(high),
        "spread": number(float(values.std())),
        "different": f"{len(np.unique(values)):,}",
    }


def class_rows(subject: Subject, counts: Any) -> list[dict[str, str]]:
    """How many rows each class has."""
    if subject.classes is None:
        return []
    total = float(np.sum(counts))
    return [
        {"name": str(c), "count": f"{float(n):,.0f}", "share": f"{100 * float(n) / total:.1f} %"}
        for c, n in zip(subject.classes, counts, strict=True)
    ]


def largest_errors(subject: Subject, seen: Foretold, scales: Scales, important: list[int]) -> list[dict[str, str]]:
    """The rows that were foretold worst, and where they lie in the input that matters most."""
    at = places(subject, important)
    if seen.p is not None and subject.classes is not None:
        codes = seen.y[:, 0].astype(int)
        own = seen.p[np.arange(len(codes)), codes]
        order = np.argsort(own)[:MOST_ROWS]
        return [
            {
                "row": f"{seen.rows[i]}",
                "place": _where(seen, int(i), at, scales),
                "seen": str(subject.classes[codes[i]]),
                "said": str(subject.classes[int(seen.p[i].argmax())]),
                "size": f"{100 * own[i]:.1f} %",
            }
            for i in order
        ]
    order = np.argsort(-np.abs(seen.z[:, 0]))[:MOST_ROWS]
    return [
        {
            "row": f"{seen.rows[i]}",
            "place": _where(seen, int(i), at, scales),
            "seen": number(float(seen.y[i, 0])),
            "said": _said(subject, seen, int(i)),
            "size": f"{seen.z[i, 0]:+.1f}".replace("-", "−"),
        }
        for i in order
    ]


def places(subject: Subject, important: list[int]) -> list[int]:
    """The columns that say where a row lies: both of two, else the one that matters most."""
    return [0, 1] if len(subject.columns) == 2 else important[:1]


def _where(seen: Foretold, i: int, columns: list[int], scales: Scales) -> str:
    return ", ".join(scales.text(j, float(seen.x[i, j])) or number(float(seen.x[i, j])) for j in columns)


def _said(subject: Subject, seen: Foretold, i: int) -> str:
    """A row's mean and its 95 % interval: half its width, or its ends where they are not as far from the mean."""
    mean = float(seen.mean[i, 0])
    if seen.ends is None:
        return beside(mean, float(1.96 * seen.std[i, 0]))
    low, high = (float(edge[i, 0]) for edge in seen.ends)
    if subject.gaussian:
        return beside(mean, (high - low) / 2)
    return f"{number(mean, 2)} ({number(low, 3)} to {number(high, 3)})"


def fit_facts(estimator: Any, subject: Subject) -> list[tuple[str, str]]:
    """What was fitted, for whoever wants to do it again."""
    part = getattr(estimator, "estimators_", [estimator])[0]
    likelihood, post = subject.likelihood, subject.post
    kind = type(likelihood).__name__
    out = [
        ("Estimator", type(estimator).__name__),
        ("Observations", f"{LIKELIHOODS.get(kind, kind)} ({kind})"),
        ("Inference", "exact" if post.status == "exact" else f"{type(part.inference_).__name__}, {post.status}"),
        ("Method", f"{part.method_.name}: {part.method_.why}"),
        ("Log evidence", f"{estimator.log_marginal_likelihood_:,.3f}".replace("-", "−")),
    ]
    if getattr(post.bound, "composite", False):
        out.insert(-1, ("Experts", post.bound.told(part.method_.gram.partition, part._column_names())))
    kernels = post.model.kernel if isinstance(post.model.kernel, tuple) else (post.model.kernel,)
    few = [repr(k) for k in kernels[:3]] + (["..."] if len(kernels) > 3 else [])
    out.append(("Kernel", "; ".join(few)))
    if subject.gaussian:
        out.append(("Noise", f"standard deviation {number(float(np.sqrt(likelihood.variance)))}"))
    jitter = float(getattr(post.factor, "jitter", 0.0) or 0.0)
    out.append(("Jitter", f"{jitter:.1e}" if jitter else "none"))
    learned = part.learned_
    if learned is not None:
        levels = " → ".join([*(f"{n:,}" for n in learned.levels[:-1]), counted(learned.levels[-1], "row")])
        out.append(
            ("Learning", f"{learned.status}, {counted(learned.steps, 'evaluation')} on {levels}, {learned.seconds:.1f} s")
        )
    return out


def versions(estimator: Any) -> list[tuple[str, str]]:
    """What this was computed with, and the seed."""
    import importlib.metadata as metadata

    from covary._version import __version__

    seed = estimator.random_state
    out = [("covary", __version__), ("Python", platform.python_version())]
    for name in ("jax", "numpy", "scipy", "scikit-learn", "matplotlib"):
        try:
            out.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return [
        *out,
        ("Seed", "none given" if seed is None else str(seed) if isinstance(seed, int | np.integer) else "a generator"),
    ]
