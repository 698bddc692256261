"""The report: everything about a fit on one page, in one self-contained file."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np

from covary import fits, plots
from covary._checks import CovaryError, fail
from covary._words import counted
from covary._write import Unfit, where, whole_file
from covary.diagnosis import diagnose
from covary.fits import (
    AnyFit,
    Cell,
    Diagnosis,
    Facts,
    Figure,
    Figures,
    Findings,
    Heading,
    Judged,
    Note,
    Relevance,
    Section,
    Table,
    Training,
)
from covary.plots.columns import Scales
from covary.plots.predicted import r_squared
from covary.plots.style import MOST, ON_DARK
from covary.report import figures as draw
from covary.report import tables
from covary.report.pictures import Pictures
from covary.report.words import number, sentences, short_names

# the sections of every report, after "trust"; "inputs" and "parameters" unless the family has its own
GENERAL = ("predictions", "calibration", "residuals", "inputs", "parameters", "data", "again")
SOON = 1500  # rows up to which a report includes error bars of the parameters


def write_report(
    model: fits.Model,
    path: str | os.PathLike[str],
    *,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
    title: str | None = None,
    say: Callable[[str], str] = str,
) -> Path:
    """Write the report of a fitted model, completely or not at all.

    Parameters
    ----------
    model
        A fit, or a fitted estimator.
    path
        The file to write, with the suffix ``.html``.
    x, y
        New rows, as numbers: with y the predictions are compared with them, without y the report only states whether they
        lie beyond the data.
    title
        The heading of the page.
    say
        A function that renders findings and advice: the command names options instead of Python arguments.
    """
    if isinstance(found := where(path), Unfit):
        raise fail("report", *found)
    place = Path(os.fsdecode(path))
    if place.suffix.lower() not in (".html", ".htm") and not found.stream:
        raise fail("report", f"the file is named {place.name!r}", "give a name that ends in .html")
    fit = fits.of(model, "report")
    seen = diagnose(fit, x, y)
    checks = [replace(check, sentence=say(check.sentence), advice=say(check.advice)) for check in seen.checks]
    page = page_of(fit, replace(seen, checks=tuple(checks)), title=title, say=say)
    with whole_file(path, "report", stream=True) as handle:
        handle.write(render(page).encode())
    return place


@dataclass(frozen=True)
class Page:
    """The contents of a report, as the template uses them."""

    title: str
    kind: str
    sentences: Sequence[str]
    tiles: Sequence[tuple[str, str]]
    diagnosis: Diagnosis
    warning_figures: Mapping[str, Figure]
    notes: Sequence[str]
    sections: Sequence[Section]
    written: str


def render(page: Page) -> str:
    """Return the page as HTML."""
    try:
        import jinja2
        import markupsafe
    except ImportError:
        raise fail("report", "jinja2 is not installed", "run pip install jinja2") from None
    here = resources.files("covary.report")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(here.joinpath("template.html").read_text("utf-8"))
    gap = markupsafe.Markup("<wbr>")

    def breakable(text: str) -> str:
        return markupsafe.escape(text).replace(".", "." + gap).replace("[", gap + "[")

    style = here.joinpath("style.css").read_text("utf-8") + _dark()
    text = template.render(style=style, breakable=breakable, **vars(page))
    return re.sub(r"(?<=\d) %", "\u00a0%", text)


def _dark() -> str:
    """Return the style sheet rules for the colours of figures on a dark page."""
    rules = [
        f'  figure:not(.paper) svg [style*="{what}: {light.lower()}"] {{ {what}: {dark.lower()} !important; }}'
        for light, dark in ON_DARK.items()
        for what in ("fill", "stroke")
    ]
    return "\n".join(["@media screen and (prefers-color-scheme: dark) {", *rules, "}", ""])


def page_of(
    fit: AnyFit,
    diagnosis: Diagnosis,
    *,
    title: str | None = None,
    say: Callable[[str], str] = str,
) -> Page:
    """Return the contents of the report of a fit."""
    family = fits.family_of(fit)
    training, scales, pictures = family.training(fit), Scales(fit.columns.each), Pictures()
    judged = None if diagnosis.judged is None else diagnosis.judged.with_ends()
    names, columns = short_names(tuple(fit.columns.names)), fit.columns.names
    relevance = _relevance(fit)
    cut = None if relevance is None else relevance._replace(names=[names[columns.index(name)] for name in relevance.names])
    summary = family.summary(fit, quick=training.rows > SOON)
    important = _important(columns, relevance)
    found = Findings(names, short_names(fit.target), training, judged, cut, important, summary)
    warned = draw.warning_figures(pictures, diagnosis, tuple(columns), scales)
    details = [(name, say(text) if name == "Method" else text) for name, text in family.details(fit)]
    general = {
        "data": _data(fit, training, scales),
        "again": Section(
            "again", "Reproducibility", "Reproducibility", [Facts(tuple(details)), Facts(tuple(tables.versions(fit)))], ""
        ),
        **_judged(pictures, fit, found, scales),
        "inputs": _inputs(pictures, cut),
        "parameters": tables.parameters(summary),
    }
    return Page(
        title=title or f"{family.title} of {', '.join(fit.target)}",
        kind=_kind(fit),
        sentences=sentences(fit, family.title, training, diagnosis, relevance),
        tiles=_tiles(fit, training, judged),
        diagnosis=diagnosis,
        warning_figures=warned,
        notes=_notes(fit, training, diagnosis),
        sections=_in_order(general, family.sections(fit, found)),
        written=datetime.date.today().isoformat(),
    )


def _in_order(general: Mapping[str, Section], own: Sequence[Section]) -> list[Section]:
    """Return all sections: the general ones, each preceded by those of the family; sections without blocks are left out."""
    out: list[Section] = []
    names = {section.name for section in own}
    for name in GENERAL:
        out += [section for section in own if section.before == name]
        out += [general[name]] if name in general and name not in names else []
    return [section for section in out if section.blocks]


def _judged(pictures: Pictures, fit: AnyFit, found: Findings, scales: Scales) -> dict[str, Section]:
    """Return the sections that compare predictions with observations."""
    seen = found.judged
    if seen is None or len(seen) < 2:
        return {}
    labels = [] if fit.classes is None else [str(c) for c in fit.classes.values]
    regression, worst = fit.kind == "regression", _worst(fit, found, seen, scales)
    figures = () if regression and not seen.has_error_bars else tuple(draw.calibration_figures(pictures, labels, seen))
    asked = "Are the error bars right?" if regression else f"Are the probabilities right? {_how(seen)}"
    shown = Figures(figures) if regression else Figures(figures, table=worst, note=_counted(found, seen))
    out = {"calibration": Section("calibration", "Calibration", "Calibration", [Note(asked), shown] if figures else [])}
    if not regression:
        return out
    predicted = Figures(tuple(draw.prediction_figures(pictures, found, seen)), table=worst, note=_counted(found, seen))
    residuals = tuple(draw.residual_figures(pictures, found, seen, scales)) if seen.has_error_bars else ()
    title = "Predictions against observations"
    out["predictions"] = Section("predictions", "Predictions", title, [Note(_how(seen)), predicted])
    out["residuals"] = Section("residuals", "Errors", "Errors", [Figures(residuals)] if residuals else [])
    return out


def _inputs(pictures: Pictures, found: Relevance | None) -> Section:
    """Return the section about the relevance of the inputs."""
    several = found is not None and len(found.names) > 1 and bool(found.values.any())
    figures = draw.relevance_figure(pictures, found) if found is not None and several else []
    return Section("inputs", "Inputs", "Effect of the inputs", [Figures(tuple(figures))] if figures else [])


def _worst(fit: AnyFit, found: Findings, seen: Judged, scales: Scales) -> Table:
    """Return the table of the rows with the largest errors."""
    regression = fit.kind == "regression"
    short = short_names(tuple(fit.columns.names), 16)
    place = ", ".join(short[i] for i in tables.places(found))
    predicted, size = ("Predicted, 95 %", "Error / std") if regression else ("Predicted", "P(truth)")
    if regression and not seen.has_error_bars:
        predicted, size = "Predicted", "Error"
    head = (Heading("Row"), Heading(place), Heading("Observed"), Heading(predicted), Heading(size, "n"))
    rows = tuple(
        tuple(Cell(row[key]) for key in ("row", "place", "seen", "said", "size"))
        for row in tables.largest_errors(fit, found, seen, scales)
    )
    return Table("Largest errors", head, rows, "worst")


def _counted(found: Findings, seen: Judged) -> str:
    """Return a sentence on how rows are numbered."""
    if seen.kind == "new rows":
        return "Rows are numbered from 0 in the order of the new rows."
    return f"Rows are numbered from 0 in the order of the {'distinct' if found.training.merged else 'training'} rows."


def _data(fit: AnyFit, training: Training, scales: Scales) -> Section:
    """Return the section about the columns and the classes."""
    texts = ("Column", "Role", "Min", "Median", "Max", "Standard deviation", "Distinct values")
    head = tuple(Heading(text, "n" if i > 1 else "") for i, text in enumerate(texts))
    keys = ("name", "role", "low", "middle", "high", "spread", "different")
    rows = tuple(tuple(Cell(row[key]) for key in keys) for row in tables.data_rows(fit, training, scales))
    blocks = [Table("Columns of the data", head, rows)] if rows else []
    if fit.classes is not None:
        head = (Heading("Class"), Heading("Rows", "n"), Heading("Share", "n"))
        counts = tuple((Cell(r["name"]), Cell(r["count"]), Cell(r["share"])) for r in tables.class_rows(fit))
        blocks.append(Table("Classes", head, counts))
    return Section("data", "Data", "Data", blocks)


def _how(seen: Judged) -> str:
    if seen.kind == "leave-one-out":
        return f"Every row is predicted from all the others: {seen.how}."
    return f"{seen.how[0].upper()}{seen.how[1:]}."


def _kind(fit: AnyFit) -> str:
    if fit.classes is not None:
        return f"Classification, {len(fit.classes.values)} classes"
    return "Regression" if len(fit.target) == 1 else f"Regression, {len(fit.target)} outputs"


def _relevance(fit: AnyFit) -> Relevance | None:
    try:
        return plots.relevance(fit)
    except (CovaryError, np.linalg.LinAlgError):
        return None


def _important(columns: Sequence[str], found: Relevance | None) -> tuple[int, ...]:
    """Return the columns ordered by relevance, without irrelevant ones."""
    if found is None:
        return tuple(range(len(columns)))
    pairs = [(columns.index(name), value) for name, value in zip(found.names, found.values, strict=True)]
    return tuple(i for i, value in pairs if value > 0.005) or (pairs[0][0],)


def _tiles(fit: AnyFit, training: Training, seen: Judged | None) -> list[tuple[str, str]]:
    """Return the names and values of the numbers at the top."""
    out = [("rows", f"{training.count:,.0f}")] if training.rows else []
    out.append(("inputs", f"{len(fit.columns.names)}"))
    if seen is None or not len(seen):
        return out
    if seen.p is not None:
        codes = seen.y[:, 0].astype(int)
        own = np.maximum(seen.p[np.arange(len(codes)), codes], 1e-300)
        right = 100 * float((seen.p.argmax(1) == codes).mean())
        return [*out, ("accuracy", f"{right:.1f} %"), ("log loss", f"{-np.log(own).mean():.3f}")]
    spread, error = seen.y.std(0), np.sqrt(((seen.y - seen.mean) ** 2).mean(0))
    if (spread > 0).all():
        out.append(("R²", r_squared(float((1 - (error / spread) ** 2).mean()))))
    if len(fit.target) == 1:
        out.append(("RMSE", number(float(error[0]), 3)))
    if not seen.has_error_bars:
        return out
    inside = 100 * float((np.abs(seen.pit - 0.5) <= 0.475).mean())
    if len(fit.target) == 1:
        out.append(("median std", f"{number(float(np.median(seen.std)), 3)}"))
    return [*out, ("inside 95 % intervals", f"{inside:.1f} %")]


def _notes(fit: AnyFit, training: Training, diagnosis: Diagnosis) -> list[str]:
    """Return notes about the rows."""
    seen, out = diagnosis.judged, [training.unfinished] if training.unfinished else []
    if training.merged:
        out.append(f"Rows with the same inputs are merged: {training.rows:,} distinct rows represent {training.count:,.0f}.")
    if seen is not None and seen.total != len(seen):
        out.append(f"Predictions were compared with {len(seen):,} of {counted(seen.total, 'row')}.")
    if seen is not None and len(seen) > MOST:
        out.append(f"Figures show at most {MOST:,} of {len(seen):,} rows, chosen at random; the statistics are for all rows.")
    if seen is not None and seen.kind == "new rows":
        out.append(
            f"Predictions are compared with {counted(len(seen), 'new row', 'new rows')} that the model was not fitted to."
        )
    if diagnosis.extrapolates is not None and (seen is None or seen.kind != "new rows"):
        k, m = int(diagnosis.extrapolates.sum()), len(diagnosis.extrapolates)
        out.append(f"{counted(m, 'new row was', 'new rows were')} checked: {k:,} beyond the data.")
    facts = fit.columns.facts()
    return out + [f"{text}." if name == "column" else f"{name[0].upper()}{name[1:]}: {text}." for name, text in facts]
