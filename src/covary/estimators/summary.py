"""The summary of a fit, as text and as HTML for notebooks."""

from __future__ import annotations

import dataclasses
import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from covary._module import Mark
from covary._words import counted
from covary.gram.dense import Dense
from covary.gram.diagnostics import conditioning, suspicious
from covary.inference.exact import Exact
from covary.kernels.parts import owners
from covary.likelihoods.gaussian import Gaussian
from covary.parameters import POSITIVE, REAL, parameters

LONG = 2.0  # seconds that a notebook waits for error bars


@dataclass(frozen=True)
class Row:
    """One parameter: name, value, error bar, and what was said about it."""

    name: str
    value: str
    error: str
    note: str


@dataclass(frozen=True)
class Summary:
    """What was fitted, in a few lines. Print it, or show it in a notebook.

    Positive parameters have a multiplicative error bar (×/÷ the factor of one standard error of the logarithm), from the
    curvature of the evidence at the optimum; real ones have a plain one.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]

    @staticmethod
    def of(estimator: Any, names: Any = None, *, quick: bool = False) -> Summary:
        """The summary of a fitted estimator; ``names`` of its columns where it does not know them itself.

        If ``quick``, error bars that are not known yet and would take more than a second or two are left out.
        """
        if hasattr(estimator, "estimators_"):
            return _of_each(estimator, quick)
        post, learned, model = estimator.posterior_, estimator.learned_, estimator.model_
        classes = hasattr(estimator, "classes_")
        facts = [("kernel", _short_kernels(model.kernel)), ("rows", _rows_text(post))]
        if classes:
            facts.append(("classes", _classes_text(estimator)))
        facts += [("log evidence", f"{estimator.log_marginal_likelihood_:.3f}"), *_noise_facts(estimator, classes)]
        if estimator.method_.name != "exact" or estimator.method_.why:
            facts.append(("method", f"{estimator.method_.name}: {estimator.method_.why}"))
        if getattr(post.bound, "composite", False):
            facts.append(("experts", post.bound.told(estimator.method_.gram.partition, estimator._column_names())))
        if learned is not None:
            rows = " → ".join([*(f"{n:,}" for n in learned.levels[:-1]), counted(learned.levels[-1], "row")])
            tried = f", {len(learned.restarts)} starts" if len(learned.restarts) > 1 else ""
            facts.append(
                (
                    "learning",
                    f"{learned.status}, {counted(learned.steps, 'evaluation')} on {rows}{tried}, {learned.seconds:.2f} s",
                )
            )
        scale = estimator.posterior_.scale
        if scale is not None:
            facts.append(("error bars", f"vary from place to place; rows left out gain {scale.gain:.2f} nats each by that"))
        facts += _column_facts(estimator)
        facts += [("note", text) for text in _notes(estimator, classes)]
        title = "Gaussian-process classification" if classes else "Gaussian-process regression"
        return Summary(title, tuple(facts), tuple(_rows(estimator, names, quick)))

    def warned(self, warnings: Any) -> Summary:
        """The same with warnings among the facts."""
        return dataclasses.replace(self, facts=(*self.facts, *(("warning", text) for text in warnings)))

    def __str__(self) -> str:
        wide = max(len(k) for k, _ in self.facts)
        lines = [self.title, ""] + [f"  {k:<{wide}}  {v}" for k, v in self.facts] + [""]
        table = [("parameter", "value", "±", "prior, state"), *((r.name, r.value, r.error, r.note) for r in self.rows)]
        sizes = [max(len(line[i]) for line in table) for i in range(4)]
        for i, line in enumerate(table):
            cells = [f"{line[0]:<{sizes[0]}}", f"{line[1]:>{sizes[1]}}", f"{line[2]:>{sizes[2]}}", line[3]]
            lines.append(("  " + "  ".join(cells)).rstrip())
            if i == 0:
                lines.append("  " + "  ".join("─" * s for s in sizes))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th style='text-align:left'>{_e(k)}</th><td style='text-align:left'>{_e(v)}</td></tr>" for k, v in self.facts
        )
        head = "".join(f"<th>{h}</th>" for h in ("parameter", "value", "±", "prior, state"))
        body = "".join(
            f"<tr><td style='text-align:left'>{_e(r.name)}</td><td>{_e(r.value)}</td><td>{_e(r.error)}</td>"
            f"<td style='text-align:left'>{_e(r.note)}</td></tr>"
            for r in self.rows
        )
        return f"<div><b>{_e(self.title)}</b><table>{facts}</table><table><tr>{head}</tr>{body}</table></div>"


def _column_facts(estimator: Any) -> list[tuple[str, str]]:
    """What the columns of a table were taken for, what was missing, and the seasons that could be added."""
    columns = getattr(estimator, "columns_", None)
    if columns is None:
        return []
    seasons = () if "Periodic" in repr(estimator.model_.kernel) else columns.season_words()
    return [*columns.facts(), *(("season", text) for text in seasons)]


def _of_each(estimator: Any, quick: bool) -> Summary:
    """The summary of one model per class against the rest."""
    rows, facts = [], [("classes", _classes_text(estimator)), ("log evidence", f"{estimator.log_marginal_likelihood_:.3f}")]
    facts += _column_facts(estimator.estimators_[0])
    for label, one in zip(estimator.classes_, estimator.estimators_, strict=True):
        inside = Summary.of(one, getattr(estimator, "feature_names_in_", None), quick=quick)
        facts += [(f"{label}: {name}", text) for name, text in inside.facts if name in ("log evidence", "learning", "note")]
        rows += [Row(f"{label}: {r.name}", r.value, r.error, r.note) for r in inside.rows]
    return Summary("Gaussian-process classification, one against the rest", tuple(facts), tuple(rows))


def _noise_facts(estimator: Any, classes: bool) -> list[tuple[str, str]]:
    """Noise and jitter of a Gaussian likelihood, or the likelihood and how the posterior is approximated."""
    post, likelihood = estimator.posterior_, estimator.model_.likelihood
    if isinstance(likelihood, Gaussian) and isinstance(estimator.inference_, Exact):
        known = "" if post.data.noise_variance is None else " beside the known"
        noise = f"standard deviation {np.sqrt(float(likelihood.variance)):.4g}{known}"
        return [("noise", noise), ("jitter", f"{post.factor.jitter:.1e}" if post.factor.jitter else "none")]
    link = getattr(likelihood, "link", None)
    name = type(likelihood).__name__ + (f", {link} link" if link else "")
    return [("likelihood", name), ("inference", f"{type(estimator.inference_).__name__}: {post.status}")]


def _classes_text(estimator: Any) -> str:
    parts = [f"{label} ({count:g})" for label, count in zip(estimator.classes_, estimator.class_count_, strict=True)]
    return ", ".join(parts[:10]) + (f" and {len(parts) - 10} more" if len(parts) > 10 else "")


def _notes(estimator: Any, classes: bool) -> list[str]:
    """What a reader should know before trusting the numbers."""
    out = []
    if suspicious(estimator.posterior_):
        out += conditioning(estimator.posterior_).doubts
    if estimator.posterior_.status not in ("exact", "converged"):
        out.append(f"the approximation did not settle ({estimator.posterior_.status}): try another inference, or more sweeps")
    learned = estimator.learned_
    if learned is not None and learned.status.startswith("without limit"):
        out.append(
            "the mean has no limit: the further it moves, the better it explains the data; give it a prior, or another mean"
        )
    if learned is not None and learned.status.startswith("stuck"):
        out.append(
            "learning ended where its objective jumps: try another inference ('ep'), a stronger prior, or another likelihood"
        )
    if not classes:
        return out
    rare = [str(c) for c, n in zip(estimator.classes_, estimator.class_count_, strict=True) if n <= 1]
    if rare:
        out.append(f"one row only of class {', '.join(rare[:5])}: little can be learned about it")
    if _separated(estimator):
        out.append("the classes do not overlap: how sharp the border is comes from the priors rather than from the data")
    return out


def _separated(estimator: Any) -> bool:
    """Whether the latent function has every training row on its side, far from the border."""
    post = estimator.posterior_
    if getattr(post.bound, "composite", False):
        return False  # a committee has no one mode
    f = post.solved.extra.get("mode")
    f = post.factor.mean(post.solved.shift) if f is None else f
    y = np.asarray(post.data.y)
    if f.ndim == 1:
        return bool((np.where(y > 0, f, -f) > 1.0).all())
    own = f[np.arange(len(y)), y.astype(int)]
    rest = np.where(np.arange(f.shape[1]) == y.astype(int)[:, None], -np.inf, f).max(1)
    return bool((own - rest > 1.0).all())


def _rows_text(post: Any) -> str:
    """How many rows and columns, and how many rows are different ones where some repeat their inputs."""
    data, columns = post.data, counted(post.data.X.columns, "column")
    if getattr(post.bound, "elsewhere", False):
        return f"{post.bound.rows:,} × {columns} on disk"
    if data.weight is not None and data.scatter is None:
        return f"{data.rows:,} × {columns}, counting as {data.weight.sum():g}"
    if data.weight is None:
        return f"{data.rows:,} × {columns}"
    return f"{data.weight.sum():g} × {columns}, merged to {data.rows:,} with different inputs"


def _e(text: str) -> str:
    return html.escape(text)


def _short_kernels(kernel: Any) -> str:
    if not isinstance(kernel, tuple):
        return _short_kernel(kernel)
    each = [_short_kernel(k) for k in kernel]
    return f"{each[0]}, one for each of {len(each)} functions" if len(set(each)) == 1 else "; ".join(each)


def _short_kernel(kernel: Any) -> str:
    """The kernel with its numbers left out, since they stand in the table."""
    import re

    text = repr(kernel)
    for _ in range(2):  # a number may be bounded and then fixed
        text = re.sub(r"\b(fixed|bounded)\([^()]*\)", "0", text)
    text = re.sub(r"\([^()]*\)", "()", text)
    on = re.compile(r"Columns\(((?:[^()]|\(\))*), columns=\[([0-9, ]+)\]\)")
    text = on.sub(lambda m: f"{f'({m[1]})' if ' ' in m[1] else m[1]}.on({m[2]})", text)
    return re.sub(r"(?<!\*\* )(?<![A-Za-z0-9_])[0-9.e+-]+ \* ", "", text)


def _slow(learned: Any) -> bool:
    """Whether error bars have to be found first and take long: two evaluations on all rows for each parameter."""
    if "log_errors" in vars(learned) or not learned.history:
        return False
    if learned.start is not None:
        return False  # learned in batches: there are none
    power = 3 if learned.gram is None or isinstance(learned.gram, Dense) else 1
    work = sum(float(rows) ** power for rows, _ in learned.history)
    return 2 * len(learned.theta) * float(learned.levels[-1]) ** power * learned.seconds / work > LONG


def _rows(estimator: Any, names: Any = None, quick: bool = False) -> list[Row]:
    learned = estimator.learned_
    bare = quick and learned is not None and _slow(learned)
    errors = {} if learned is None or bare else learned.log_errors
    known = estimator._column_names() if hasattr(estimator, "_column_names") else None
    names = names if known is None else known
    boxes = _edges(learned) if learned is not None else {}
    sees = _seen(estimator, names)
    out = []
    for path, p in parameters(estimator.model_).items():
        values = np.atleast_1d(np.asarray(p.value, np.float64))
        spread = np.atleast_1d(errors.get(path, np.full(values.shape, np.nan)))
        prior = estimator.priors_.get(path)
        priors = list(prior) if isinstance(prior, list | tuple) else [prior] * len(values)
        for i, value in enumerate(values):
            label = path
            if np.ndim(p.value):
                own = sees.get(path.rpartition(".")[0], ())
                label = f"{path}[{own[i] if len(own) == len(values) else i}]"
            error = "" if bare else _error(p, spread[i])
            out.append(Row(label, f"{value:.4g}", error, _note(p.mark, priors[i], boxes.get(path), i)))
    return out


def _seen(estimator: Any, names: Any) -> dict[str, list[str]]:
    """The names of the columns that each kernel inside sees, by path; also those of the mean."""
    width = estimator.posterior_.data.X.columns
    if names is None or len(names) != width:
        return {}
    found = {path: [str(names[j]) for j in seen] for path, _, seen in owners(estimator.model_.kernel, width)}
    return found | {"mean": [str(v) for v in names]}


def _error(p: Any, spread: float) -> str:
    if p.mark.fixed:
        return ""
    if not np.isfinite(spread) or (p.space is POSITIVE and spread > 20):
        return "flat"
    if p.space is REAL:
        return f"{spread:.2g}"
    return f"×/÷ {np.exp(spread):.3g}" if p.space is POSITIVE else f"{spread:.2g}"


def _note(mark: Mark, prior: Any, edge: Any, i: int) -> str:
    parts = []
    if mark.fixed:
        parts.append("fixed")
    elif prior is not None:
        inside = ", ".join(f"{getattr(prior, f.name):.3g}" for f in dataclasses.fields(prior))
        parts.append(f"{type(prior).__name__}({inside})")
    if edge is not None and not mark.fixed and np.atleast_1d(edge)[i]:
        parts.append("at its bound")
    return ", ".join(parts)


def _edges(learned: Any) -> dict[str, np.ndarray]:
    """Which parameters ended at a bound."""
    packing = learned.objective.packing
    lower, upper = learned.objective.box
    at = (learned.theta <= lower + 1e-6) | (learned.theta >= upper - 1e-6)
    return {path: at[s.start : s.stop] for s in packing.slots for path in s.paths}
