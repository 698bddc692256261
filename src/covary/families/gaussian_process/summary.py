"""Facts about a fitted Gaussian process for JSON and the command, and the summary with its table of parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from covary._errors import Option
from covary._module import Mark
from covary._words import counted, some
from covary.distributions import AbstractDistribution
from covary.families.gaussian_process.processes import Process, Processes
from covary.families.gaussian_process.settings import LIKELIHOODS
from covary.families.gaussian_process.stored import apart
from covary.fits import Fit, Json, Labels, Row, Sizes, Summary
from covary.gram.dense import Dense
from covary.inference.exact import Exact
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum, inner_kernels
from covary.kernels.combine import Columns
from covary.likelihoods.binomial import Binomial
from covary.likelihoods.gaussian import Gaussian
from covary.models.local_scale import LocalScale
from covary.optimise.base import STUCK, UNBOUNDED, of_kind
from covary.parameters import POSITIVE, REAL, Parameter, parameters
from covary.posterior import AbstractPosterior, Combination, Posterior
from covary.posterior.diagnostics import conditioning, suspicious
from covary.selection.learn import Learned
from covary.selection.priors import each
from covary.selection.starts import ELSEWHERE
from covary.tables.targets import SIZED

LONG = 2.0  # seconds that error bars may take in a quick summary


def summary_of(fit: Fit[Processes], *, quick: bool = False) -> Summary:
    """Return the summary of a fit.

    If ``quick``, error bars are omitted unless they are known or take at most a second or two.
    """
    if len(fit.state.parts) > 1:
        return _of_each(fit, quick)
    process, names = fit.state.first, known_names(fit)
    post, learned = process.posterior, process.learned
    facts: list[tuple[str, str]] = [("kernel", _short_kernels(process.model.kernel)), ("rows", _rows_text(post))]
    if fit.classes is not None:
        facts.append(("classes", _classes_text(fit.classes)))
    facts += [("log evidence", f"{process.log_evidence:.3f}"), *_noise_facts(process)]
    if fit.method.name != "exact" or fit.method.why:
        facts.append(("method", f"{fit.method.name}: {fit.method.why}"))
    if isinstance(post, Combination):
        facts.append(("experts", post.described(names)))
    if learned is not None:
        facts.append(("learning", _learning(learned)))
    if isinstance(post.scale, LocalScale):
        facts.append(("error bars", f"vary with the inputs (leave-one-out log density +{post.scale.gain:.2f} nats per row)"))
    facts += _column_facts(fit)
    facts += [("note", text) for text in _notes(process, fit.classes)]
    title = f"Gaussian-process {fit.kind}"
    return Summary(title, tuple(facts), tuple(_rows(process, names, quick)))


def known_names(fit: Fit[Processes]) -> list[str] | None:
    """Return the column names with units; None if the inputs were an array."""
    return None if fit.columns.array else fit.columns.names


def _learning(learned: Learned) -> str:
    """Describe the hyperparameter search in one line."""
    rows = " → ".join([*(f"{n:,}" for n in learned.levels[:-1]), counted(learned.levels[-1], "row")])
    tried = f", {len(learned.restarts)} starts" if len(learned.restarts) > 1 else ""
    return f"{learned.status}, {counted(learned.steps, 'evaluation')} on {rows}{tried}, {learned.seconds:.2f} s"


def _column_facts(fit: Fit[Processes]) -> list[tuple[str, str]]:
    """Return facts about how columns were interpreted, missing values, and seasonal terms that could be added."""
    periodic = "Periodic" in repr(fit.state.first.model.kernel)
    seasons = () if periodic else fit.columns.season_words()
    return [*fit.columns.facts(), *(("season", text) for text in seasons)]


def _of_each(fit: Fit[Processes], quick: bool) -> Summary:
    """Summarise one-vs-rest models, one per class."""
    assert fit.classes is not None
    rows: list[Row] = []
    facts: list[tuple[str, str]] = [("classes", _classes_text(fit.classes))]
    facts.append(("log evidence", f"{fit.state.log_evidence:.3f}"))
    facts += _column_facts(fit)
    for process, one in zip(fit.state.parts, apart(fit), strict=True):
        inside, label = summary_of(one, quick=quick), process.label
        facts += [(f"{label}: {name}", text) for name, text in inside.facts if name in ("log evidence", "learning", "note")]
        rows += [Row(f"{label}: {r.name}", r.value, r.error, r.note) for r in inside.rows]
    return Summary("Gaussian-process classification, one against the rest", tuple(facts), tuple(rows))


def _noise_facts(process: Process) -> list[tuple[str, str]]:
    """Return the noise and jitter under a Gaussian likelihood; otherwise the likelihood and the inference."""
    post, likelihood = process.posterior, process.model.likelihood
    if isinstance(likelihood, Gaussian) and isinstance(process.inference, Exact):
        known = "" if post.data.noise_variance is None else " in addition to the known noise"
        noise = f"standard deviation {np.sqrt(float(likelihood.variance)):.4g}{known}"
        return [("noise", noise), ("jitter", f"{post.jitter:.1e}" if post.jitter else "none")]
    link = getattr(likelihood, "link", None)
    return [
        ("likelihood", type(likelihood).__name__ + (f", {link} link" if link else "")),
        ("inference", f"{type(process.inference).__name__}: {post.status}"),
    ]


def _classes_text(classes: Labels) -> str:
    parts = [f"{label} ({count:g})" for label, count in zip(classes.values, classes.counts, strict=True)]
    return some(parts, 10)


def _notes(process: Process, classes: Labels | None) -> list[str]:
    """Return caveats about the fit."""
    out: list[str] = []
    if suspicious(process.posterior):
        out += conditioning(process.posterior).doubts
    if process.posterior.status not in ("exact", "converged"):
        out.append(f"the approximation did not converge ({process.posterior.status}): try another inference, or more sweeps")
    learned = process.learned
    if learned is not None and of_kind(learned.status, UNBOUNDED):
        out.append("the mean is unbounded: the evidence keeps rising as it moves away; give it a prior, or use another mean")
    if learned is not None and of_kind(learned.status, STUCK):
        out.append(
            "learning stopped at a discontinuity of its objective: try another inference, such as "
            + Option("inference", "'ep'")
            + ", a stronger prior, or another likelihood"
        )
    if classes is None:
        return out
    rare = [str(c) for c, n in zip(classes.values, classes.counts, strict=True) if n <= 1]
    if rare:
        out.append(f"only one row of class {', '.join(rare[:5])}: little can be learned about it")
    if _separated(process.posterior):
        out.append("the classes do not overlap: the priors rather than the data determine how sharp the boundary is")
    return out


def _separated(post: AbstractPosterior) -> bool:
    """Return whether the latent function separates all training rows by a wide margin."""
    if not isinstance(post, Posterior):
        return False  # a committee has no single mode
    f = post.solved.mode
    f = post.factor.mean(post.solved.shift) if f is None else f
    y = np.asarray(post.data.y)
    if f.ndim == 1:
        return bool((np.where(y > 0, f, -f) > 1.0).all())
    own = f[np.arange(len(y)), y.astype(int)]
    rest = np.where(np.arange(f.shape[1]) == y.astype(int)[:, None], -np.inf, f).max(1)
    return bool((own - rest > 1.0).all())


def _rows_text(post: AbstractPosterior) -> str:
    """Describe the number of rows and columns, and of distinct rows if some repeat their inputs."""
    data, columns = post.data, counted(post.data.X.columns, "column")
    if post.on_disk:
        return f"{post.rows:,} × {columns} on disk"
    if data.weight is not None and data.scatter is None:
        return f"{data.rows:,} × {columns}, counting as {data.weight.sum():g}"
    if data.weight is None:
        return f"{data.rows:,} × {columns}"
    return f"{data.weight.sum():g} × {columns}, merged to {data.rows:,} with different inputs"


def _short_kernels(kernel: AbstractKernel | tuple[AbstractKernel, ...]) -> str:
    if not isinstance(kernel, tuple):
        return _short_kernel(kernel)
    each = [_short_kernel(k) for k in kernel]
    return f"{each[0]}, one for each of {len(each)} functions" if len(set(each)) == 1 else "; ".join(each)


def _short_kernel(kernel: AbstractKernel) -> str:
    """Return the kernel as text without its numbers, which are in the table."""
    match kernel:
        case Scaled():
            return _short_kernel(kernel.kernel)
        case Sum():
            return " + ".join(map(_short_kernel, kernel.terms))
        case Product():
            return " * ".join(_inside(factor, Sum) for factor in kernel.factors)
        case Power():
            return f"{_inside(kernel.kernel, Sum, Product, Power)} ** {kernel.exponent}"
        case Columns():
            return f"{_inside(kernel.kernel, Sum, Product, Power)}.on({', '.join(map(str, kernel.columns))})"
    inner = [value for f in dataclasses.fields(kernel) if isinstance(value := getattr(kernel, f.name), AbstractKernel)]
    return f"{type(kernel).__name__}({', '.join(map(_short_kernel, inner))})"


def _inside(kernel: AbstractKernel, *compound: type[AbstractKernel]) -> str:
    """Return a kernel as in :func:`_short_kernel`, in parentheses if it is of one of these kinds."""
    while isinstance(kernel, Scaled):
        kernel = kernel.kernel
    return f"({_short_kernel(kernel)})" if isinstance(kernel, compound) else _short_kernel(kernel)


def _slow(learned: Learned) -> bool:
    """Return whether computing the error bars would take long: two evaluations on all rows for each parameter."""
    if "log_errors" in vars(learned) or not learned.history:
        return False
    if learned.in_pieces:
        return False  # learned in batches: no error bars
    power = 3 if learned.gram is None or isinstance(learned.gram, Dense) else 1
    work = sum(float(rows) ** power for rows, _ in learned.history)
    return 2 * len(learned.theta) * float(learned.levels[-1]) ** power * learned.seconds / work > LONG


def _rows(process: Process, names: Sequence[str] | None, quick: bool = False) -> list[Row]:
    learned = process.learned
    bare = quick and learned is not None and _slow(learned)
    errors = {} if learned is None or bare else learned.log_errors
    boxes = _edges(learned) if learned is not None else {}
    sees = _seen(process, names)
    out = []
    for path, p in parameters(process.model).items():
        values = np.atleast_1d(np.asarray(p.value, np.float64))
        spread = np.atleast_1d(errors.get(path, np.full(values.shape, np.nan)))
        prior = process.priors.get(path)
        priors = [None] * len(values) if prior is None else each(prior, len(values))
        for i, value in enumerate(values):
            label = path
            if np.ndim(p.value):
                own = sees.get(path.rpartition(".")[0], ())
                label = f"{path}[{own[i] if len(own) == len(values) else i}]"
            error = "" if bare else _error(p, spread[i])
            out.append(Row(label, f"{value:.4g}", error, _note(p.mark, priors[i], boxes.get(path), i)))
    return out


def _seen(process: Process, names: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the names of the input columns of each kernel and of the mean, by path."""
    width = process.posterior.data.X.columns
    if names is None or len(names) != width:
        return {}
    inner = inner_kernels(process.model.kernel, width, closed=ELSEWHERE)
    found = {path: [str(names[j]) for j in seen] for path, _, seen in inner}
    return found | {"mean": [str(v) for v in names]}


def _error(p: Parameter, spread: float) -> str:
    if p.mark.fixed:
        return ""
    if not np.isfinite(spread) or (p.space is POSITIVE and spread > 20):
        return "flat"
    if p.space is REAL:
        return f"{spread:.2g}"
    return f"×/÷ {np.exp(spread):.3g}" if p.space is POSITIVE else f"{spread:.2g}"


def _note(mark: Mark, prior: AbstractDistribution | None, edge: np.ndarray | None, i: int) -> str:
    parts = []
    if mark.fixed:
        parts.append("fixed")
    elif prior is not None:
        values = np.array([float(getattr(prior, f.name)) for f in dataclasses.fields(prior)])
        values[np.abs(values) < 1e-10 * np.abs(values).max(initial=0.0)] = 0.0  # rounding errors
        parts.append(f"{type(prior).__name__}({', '.join(f'{value:.3g}' for value in values)})")
    if edge is not None and not mark.fixed and np.atleast_1d(edge)[i]:
        parts.append("at its bound")
    return ", ".join(parts)


def _edges(learned: Learned) -> dict[str, np.ndarray]:
    """Return masks of the parameters that ended at a bound, by path."""
    packing = learned.objective.packing
    lower, upper = learned.objective.box
    at = (learned.theta <= lower + 1e-6) | (learned.theta >= upper - 1e-6)
    return {path: at[s.start : s.stop] for s in packing.slots for path in s.paths}


# facts for JSON -----------------------------------------------------------------------------------------------------
def likelihood_name(fit: Fit[Processes]) -> str:
    """Return the name of the likelihood in estimators and ``--likelihood``."""
    if fit.classes is not None:
        return "classes"
    kind = type(fit.state.first.model.likelihood)
    return next((name for name, known in LIKELIHOODS.items() if known is kind), kind.__name__)


def rows_of(fit: Fit[Processes]) -> tuple[int, bool]:
    """Return the number of training rows, and whether they are on disk."""
    post = fit.state.first.posterior
    return post.rows, post.on_disk


def facts_of(fit: Fit[Processes]) -> dict[str, Json]:
    """Return a description of the model; ``noise_std`` is null unless the noise is Gaussian."""
    first, classes = fit.state.first, None
    kernels = [repr(kernel) for part in fit.state.parts for kernel in _kernels(part)]
    if fit.classes is not None:
        pairs = zip(fit.classes.values.tolist(), fit.classes.counts.tolist(), strict=True)
        classes = [{"class": label, "count": int(n) if n == int(n) else n} for label, n in pairs]
    likelihood = first.model.likelihood
    return {
        "family": fit.family,
        "task": fit.kind,
        "likelihood": likelihood_name(fit),
        "link": getattr(likelihood, "link", None),
        "inference": type(first.inference).__name__.lower(),
        "method": {"name": fit.method.name, "why": fit.method.why},
        "classes": classes,
        "kernel": kernels[0] if len(kernels) == 1 else kernels,
        "log_evidence": float(fit.state.log_evidence),
        "noise_std": float(np.sqrt(likelihood.variance)) if isinstance(likelihood, Gaussian) else None,
    }


def _kernels(part: Process) -> tuple[AbstractKernel, ...]:
    kernel = part.model.kernel
    return kernel if isinstance(kernel, tuple) else (kernel,)


def parameters_of(fit: Fit[Processes], summary: Summary, *, error_bars: bool) -> list[dict[str, Json]]:
    """Return every parameter with its value, error bar and the note of the summary.

    If ``scale`` is "log", ``error`` is that of the logarithm: the parameter lies within value ×/÷ exp(error).
    """
    out: list[dict[str, Json]] = []
    rows = iter(summary.rows)
    for part in fit.state.parts:
        errors = part.learned.log_errors if error_bars and part.learned is not None else {}
        for path, parameter in parameters(part.model).items():
            values = np.atleast_1d(np.asarray(parameter.value, np.float64))
            spread = np.ravel(errors.get(path, np.full(values.shape, np.nan)))
            for value, error in zip(values, spread, strict=True):
                row = next(rows)
                out.append(
                    {
                        "name": row.name,
                        "value": float(value),
                        "error": None if parameter.mark.fixed else float(error),
                        "scale": "log" if parameter.space is POSITIVE else "plain",
                        "fixed": bool(parameter.mark.fixed),
                        "note": row.note,
                    }
                )
    return out


# error bars -------------------------------------------------------------------------------------------------------
def price(fit: Fit[Processes]) -> float:
    """Estimate the seconds that error bars would take, two evaluations on all rows per parameter, from those of learning."""
    total = 0.0
    for learned in (part.learned for part in fit.state.parts):
        if learned is not None and learned.history and not learned.hessian_is_known:
            dense = _is_dense(learned)
            work = sum(_work(rows, dense) for rows, _ in learned.history)
            total += 2 * len(learned.theta) * _work(learned.levels[-1], dense) * learned.seconds / work
    return total


def _is_dense(learned: Learned) -> bool:
    """Return whether learning used the dense covariance matrix."""
    return learned.gram is None or type(learned.gram) is Dense


def _work(rows: int, dense: bool) -> float:
    return float(rows) ** 2 * (rows + 2000.0) if dense else float(rows)


def without_error_bars(fit: Fit[Processes]) -> Fit[Processes]:
    """Return a copy of the fit whose summary omits error bars and does not compute them."""
    return replace(fit, state=Processes(tuple(_bare(part) for part in fit.state.parts)))


def _bare(part: Process) -> Process:
    if part.learned is None:
        return part
    learned = replace(part.learned)
    vars(learned)["log_errors"] = {}  # a cached property: setting it prevents the computation
    return replace(part, learned=learned)


# new rows ---------------------------------------------------------------------------------------------------------
def sizes_of(fit: Fit[Processes]) -> Sizes | None:
    """Return which sizes observations have: trials if binomial, exposures if counts."""
    if likelihood_name(fit) not in SIZED:
        return None
    first = fit.state.first
    return Sizes(whole=isinstance(first.model.likelihood, Binomial), given=np.ndim(first.posterior.data.y) == 2)
