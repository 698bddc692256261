"""Report sections specific to Gaussian processes: the function, its inputs, the kernel, the hyperparameters."""

from __future__ import annotations

import re

import numpy as np

from covary._words import counted
from covary.families.gaussian_process import pictures as draw
from covary.families.gaussian_process.checks import functions_of
from covary.families.gaussian_process.processes import Processes
from covary.families.gaussian_process.words import LIKELIHOODS, Term, kernel_terms
from covary.fits import Beside, Cell, Figures, Findings, Fit, Heading, Note, Row, Section, Table, Title
from covary.plots.columns import Scales
from covary.posterior import Combination
from covary.report.figures import relevance_figure
from covary.report.pictures import Pictures, attempt
from covary.report.words import number


def sections(fit: Fit[Processes], found: Findings) -> list[Section]:
    """Return all sections, in order."""
    pictures, scales = Pictures("g"), Scales(fit.columns.each)
    shown = draw.fit_figures(pictures, fit, found, scales)
    inputs = _inputs(pictures, fit, found, scales) if len(found.names) > 1 or not shown else []
    return [
        Section("fit", "The fit", "The fit", [Figures(tuple(shown))] if shown else [], "predictions"),
        Section("inputs", "Inputs", "Effect of the inputs", inputs),
        Section("kernel", "Kernel", "Components of the function", _kernel(pictures, fit, found, scales)),
        Section("parameters", "Parameters", "Hyperparameters", _parameters(pictures, fit, found)),
    ]


def _inputs(pictures: Pictures, fit: Fit[Processes], found: Findings, scales: Scales) -> list[Beside]:
    """Return figures of relevance and partial dependence."""
    relevance = found.relevance
    left = attempt(lambda: relevance_figure(pictures, relevance)) if relevance is not None and len(found.names) > 1 else []
    right = draw.dependence_figures(pictures, fit, found, scales)
    parts = []
    if left:
        parts.append((Title("Relevance"), Figures(tuple(left))))
    if right:
        band = ", with 95 % of the averaged function" if draw.banded(fit) else ""
        text = f"The prediction as a function of one input, averaged over the rows of the data{band}."
        text += " Ticks at the bottom mark deciles of the data."
        parts.append((Title("Partial dependence"), Note(text), Figures(tuple(right), "small")))
    return [Beside(tuple(parts))] if parts else []


def _kernel(pictures: Pictures, fit: Fit[Processes], found: Findings, scales: Scales) -> list[Table | Figures]:
    """Return a table and figures of the terms of the kernel."""
    rows = kernel_terms(fit)
    shares = any(row.share is not None for row in rows)
    head = (Heading("Term"), Heading("Description", "words"), *([Heading("Share", "n")] if shares else []))
    body = tuple((Cell(row.name), Cell(row.words), *([_share(row)] if shares else [])) for row in rows)
    figures = draw.component_figures(pictures, fit, list(found.names), rows, scales)
    return [Table("Terms of the kernel", head, body), *([Figures(tuple(figures))] if figures else [])]


def _share(row: Term) -> Cell:
    if row.share is None:
        return Cell("–")
    return Cell(f"{round(100 * row.share)} %".replace("-", "−"), bar=max(5 * row.share, 0.0))


def _parameters(pictures: Pictures, fit: Fit[Processes], found: Findings) -> list[Note | Table | Title | Figures]:
    """Return a table of hyperparameters with error bars, and figures of learning."""
    rows = found.summary.rows
    errors, functions = any(row.error for row in rows), functions_of(fit)
    known = "For positive parameters, ×/÷ gives the standard error as a factor; “flat” means not determined by the data."
    text = known if errors else "Error bars were left out to save time: model.summary() computes them."
    head = [Heading("Parameter"), Heading("Value", "n"), *([Heading("±", "n")] if errors else []), Heading("Prior, state")]
    body = tuple(_parameter(row, functions, errors) for row in rows)
    out = [Note(f"Learned values in the units of the data. {text}"), Table("Hyperparameters", tuple(head), body)]
    learning = draw.learning_figures(pictures, fit.state.first.learned)
    return [*out, Title("Hyperparameter search"), Figures(tuple(learning))] if learning else out


def _parameter(row: Row, functions: list[str], errors: bool) -> tuple[Cell, ...]:
    """Return a row of the table, with the name of the function if there are several."""
    place = re.match(r"kernel\.(\d+)\.", row.name)
    name = Cell(row.name, code=True, remark=functions[int(place[1])] if functions and place else "")
    error = [Cell(_plainly(row.error))] if errors else []
    return (name, Cell(_plainly(row.value).replace("-", "−")), *error, Cell(row.note.replace("(-", "(−")))


def _plainly(text: str) -> str:
    """Write out powers of ten up to a few million."""
    return re.sub(r"\b\d(?:\.\d+)?e\+0[0-6]\b", lambda found: f"{float(found[0]):,.0f}", text)


def details(fit: Fit[Processes]) -> list[tuple[str, str]]:
    """Return the details of the fit needed to reproduce it."""
    part, post = fit.state.first, fit.state.first.posterior
    kind = type(part.model.likelihood).__name__
    out = [
        ("Estimator", fit.origin.estimator),
        ("Observations", f"{LIKELIHOODS.get(kind, kind)} ({kind})"),
        ("Inference", "exact" if post.status == "exact" else f"{type(part.inference).__name__}, {post.status}"),
        ("Method", f"{fit.method.name}: {fit.method.why}"),
        ("Log evidence", f"{fit.state.log_evidence:,.3f}".replace("-", "−")),
    ]
    if isinstance(post, Combination):
        out.insert(-1, ("Experts", post.described(fit.columns.keys)))
    kernels = post.model.kernel if isinstance(post.model.kernel, tuple) else (post.model.kernel,)
    few = [repr(k) for k in kernels[:3]] + (["..."] if len(kernels) > 3 else [])
    out.append(("Kernel", "; ".join(few)))
    if fit.state.first.model.is_gaussian:
        out.append(("Noise", f"standard deviation {number(float(np.sqrt(part.model.noise)))}"))
    jitter = post.jitter
    out.append(("Jitter", f"{jitter:.1e}" if jitter else "none"))
    learned = part.learned
    if learned is not None:
        levels = " → ".join([*(f"{n:,}" for n in learned.levels[:-1]), counted(learned.levels[-1], "row")])
        out.append(
            ("Learning", f"{learned.status}, {counted(learned.steps, 'evaluation')} on {levels}, {learned.seconds:.1f} s")
        )
    return out
