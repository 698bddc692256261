"""The report: everything about a fit on one page, in one file that needs nothing else."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from covary._checks import CovaryError, fail
from covary._words import counted
from covary._write import Unfit, where, whole_file
from covary.diagnosis import Diagnosis, Foretold, Subject, diagnose
from covary.plots.columns import Scales
from covary.plots.predicted import r_squared
from covary.plots.relevance import relevance as find_relevance
from covary.plots.style import MOST, ON_DARK
from covary.report import figures as draw
from covary.report import tables
from covary.report.words import component_rows, learning_note, number, sentences, short_names


def write_report(
    estimator: Any,
    subject: Subject,
    path: Any,
    *,
    X: Any = None,
    y: Any = None,
    parameters: Any = (),
    title: str | None = None,
    say: Callable[[str], str] = str,
) -> Path:
    """Write the report of a fit, whole or not at all.

    Parameters
    ----------
    estimator
        The fitted estimator.
    subject
        The same as the diagnosis sees it.
    path
        Where to write; the suffix should be ``.html``.
    X, y
        New rows, as numbers: with y the predictions are held against them, without y they are asked only whether they lie
        beyond the data.
    parameters
        Rows of the table of hyperparameters: name, value, error and note each.
    title
        The page's heading.
    say
        Findings and advice in the words of whoever asked: the command says options where Python says arguments.
    """
    if isinstance(found := where(path), Unfit):
        raise fail("report", *found)
    place = Path(os.fsdecode(path))
    if place.suffix.lower() not in (".html", ".htm") and not found.stream:
        raise fail("report", f"the file is called {place.name!r}", "give a name that ends with .html")
    seen = diagnose(subject, X, y)
    checks = [replace(check, sentence=say(check.sentence), advice=say(check.advice)) for check in seen.checks]
    values = context(estimator, subject, replace(seen, checks=tuple(checks)), parameters=parameters, title=title)
    values["facts"] = [(name, say(text) if name == "Method" else text) for name, text in values["facts"]]
    text = render(values)
    with whole_file(path, "report", stream=True) as handle:
        handle.write(text.encode())
    return place


def render(values: dict[str, Any]) -> str:
    """The page as text."""
    try:
        import jinja2
        import markupsafe
    except ImportError:
        raise fail("report", "jinja2 is not installed", "run pip install jinja2") from None
    here = resources.files("covary.report")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(here.joinpath("template.html").read_text("utf-8"))
    gap = markupsafe.Markup("<wbr>")
    values = values | {"breakable": lambda text: markupsafe.escape(text).replace(".", "." + gap).replace("[", gap + "[")}
    text = template.render(style=here.joinpath("style.css").read_text("utf-8") + _dark(), **values)
    return re.sub(r"(?<=\d) %", "\u00a0%", text)


def _dark() -> str:
    """The colours of figures on a dark page, as rules of a style sheet."""
    rules = [
        f'  figure:not(.paper) svg [style*="{what}: {light.lower()}"] {{ {what}: {dark.lower()} !important; }}'
        for light, dark in ON_DARK.items()
        for what in ("fill", "stroke")
    ]
    return "\n".join(["@media screen and (prefers-color-scheme: dark) {", *rules, "}", ""])


def context(estimator: Any, subject: Subject, diagnosis: Diagnosis, *, parameters: Any, title: str | None) -> dict[str, Any]:
    """Everything the template needs."""
    pictures = draw.Pictures()
    seen = None if diagnosis.foretold is None else diagnosis.foretold.with_ends()
    drawn = replace(subject, columns=short_names(subject.columns), targets=short_names(subject.targets))
    names, found, scales = list(drawn.columns), _relevance(estimator, drawn), Scales(estimator)
    important = _important(drawn, found)
    components = component_rows(subject)
    part = getattr(estimator, "estimators_", [estimator])[0]
    regression = subject.classes is None
    shown = draw.warning_figures(pictures, diagnosis, subject.columns, scales)
    out: dict[str, Any] = {
        "title": title or f"Gaussian process of {', '.join(subject.targets)}",
        "kind": _kind(subject),
        "sentences": sentences(subject, diagnosis, _in_full(found, names, subject), part.method_),
        "tiles": _tiles(subject, diagnosis),
        "diagnosis": diagnosis,
        "warning_figures": shown,
        "fit": (fit := draw.fit_figures(pictures, estimator, drawn, scales)),
        "relevance": draw.attempt(lambda: draw.relevance_figure(pictures, found))
        if found is not None and len(names) > 1
        else [],
        "dependence": draw.dependence_figures(pictures, estimator, drawn, important, scales)
        if len(names) > 1 or not fit
        else [],
        "components": components,
        "shares": any(row["share"] is not None for row in components),
        "errors": any(row.error for row in parameters),
        "component_figures": draw.component_figures(pictures, drawn, names, components, scales),
        "parameters": [_tidy(row, subject.functions) for row in parameters],
        "learning": draw.learning_figures(pictures, part.learned_),
        "facts": tables.fit_facts(estimator, subject),
        "columns": tables.data_rows(subject, scales),
        "classes": tables.class_rows(subject, getattr(estimator, "class_count_", ())),
        "notes": _notes(estimator, subject, diagnosis),
        "versions": tables.versions(estimator),
        "written": datetime.date.today().isoformat(),
        "regression": regression,
        "banded": draw.banded(subject),
        "seen": seen,
        "how": "" if seen is None else _how(seen),
        "percent": lambda v: "–" if v is None else f"{round(100 * v)} %".replace("-", "−"),
        "number": number,
        "place": ", ".join(short_names(subject.columns, 16)[i] for i in tables.places(subject, important)),
        "merged": subject.post.data.weight is not None and (seen is None or seen.kind != "new rows"),
    }
    return out | _held(pictures, subject, drawn, seen, important, scales)


def _in_full(found: Any, names: list[str], subject: Subject) -> Any:
    """Relevance under the names of the columns, not those cut for figures."""
    return None if found is None else found._replace(names=[subject.columns[names.index(name)] for name in found.names])


def _held(
    pictures: Any, subject: Subject, drawn: Subject, seen: Foretold | None, important: list[int], scales: Scales
) -> dict[str, Any]:
    """What is drawn of the predictions that were held against the truth."""
    if seen is None or len(seen) < 2:
        return {"predictions": [], "calibration": [], "residuals": [], "largest": []}
    regression = subject.classes is None
    return {
        "predictions": draw.prediction_figures(pictures, drawn, seen) if regression else [],
        "calibration": draw.calibration_figures(pictures, drawn, seen),
        "residuals": draw.residual_figures(pictures, drawn, seen, important, scales) if regression else [],
        "largest": tables.largest_errors(subject, seen, scales, important),
    }


def _tidy(row: Any, functions: list[str]) -> dict[str, str]:
    """A row of the table of parameters, rounding errors rounded, with the function it is of where there are several."""
    place = re.match(r"kernel\.(\d+)\.", row.name)
    return {
        "name": row.name,
        "of": functions[int(place[1])] if functions and place else "",
        "value": _plainly(row.value),
        "error": _plainly(row.error),
        "note": re.sub(r"-?\d(?:\.\d+)?e-1\d\b", "0", row.note).replace("(-", "(−"),
    }


def _plainly(text: str) -> str:
    """Powers of ten written out, up to a few million."""
    return re.sub(r"\b\d(?:\.\d+)?e\+0[0-6]\b", lambda found: f"{float(found[0]):,.0f}", text)


def _how(seen: Any) -> str:
    if seen.kind == "leave-one-out":
        return f"Every row is foretold by all the others, without itself: {seen.how}."
    return f"{seen.how[0].upper()}{seen.how[1:]}."


def _kind(subject: Subject) -> str:
    if subject.classes is not None:
        return f"Classification, {len(subject.classes)} classes"
    return "Regression" if len(subject.targets) == 1 else f"Regression, {len(subject.targets)} outputs"


def _relevance(estimator: Any, subject: Subject) -> Any:
    try:
        return find_relevance(estimator, list(subject.columns))
    except (CovaryError, np.linalg.LinAlgError):
        return None


def _important(subject: Subject, found: Any) -> list[int]:
    """The columns by relevance, those that do nothing left out."""
    if found is None:
        return list(range(len(subject.columns)))
    pairs = [(subject.columns.index(name), value) for name, value in zip(found.names, found.values, strict=True)]
    return [i for i, value in pairs if value > 0.005] or [pairs[0][0]]


def _tiles(subject: Subject, diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The few numbers at the top."""
    seen, data = diagnosis.foretold, subject.post.data
    count = data.rows if data.weight is None else float(data.weight.sum())
    out = [("rows", f"{count:,.0f}"), ("inputs", f"{len(subject.columns)}")]
    if seen is None or not len(seen):
        return out
    if seen.p is not None:
        codes = seen.y[:, 0].astype(int)
        own = np.maximum(seen.p[np.arange(len(codes)), codes], 1e-300)
        right = 100 * float((seen.p.argmax(1) == codes).mean())
        return [*out, ("named right", f"{right:.1f} %"), ("log loss", f"{-np.log(own).mean():.3f}")]
    spread, error = seen.y.std(0), np.sqrt(((seen.y - seen.mean) ** 2).mean(0))
    inside = 100 * float((np.abs(seen.pit - 0.5) <= 0.475).mean())
    if (spread > 0).all():
        out.append(("R²", r_squared(float((1 - (error / spread) ** 2).mean()))))
    if len(subject.targets) == 1:
        out += [
            ("typical error", number(float(error[0]), 3)),
            ("typical error bar", f"± {number(float(np.median(seen.std)), 3)}"),
        ]
    return [*out, ("inside 95 % intervals", f"{inside:.1f} %")]


def _notes(estimator: Any, subject: Subject, diagnosis: Diagnosis) -> list[str]:
    """What should be known about the rows."""
    data, seen, out = subject.post.data, diagnosis.foretold, []
    out += [note] if (note := learning_note(subject)) else []
    if data.weight is not None:
        out.append(
            f"Rows that repeat each other are merged: {data.rows:,} different ones, counting as {data.weight.sum():,.0f}."
        )
    if seen is not None and seen.total != len(seen):
        out.append(f"Predictions were held against {len(seen):,} of {counted(seen.total, 'row')}.")
    if seen is not None and len(seen) > MOST:
        out.append(f"Figures show at most {MOST:,} of {len(seen):,} rows, drawn at random; the numbers are of all of them.")
    if seen is not None and seen.kind == "new rows":
        out.append(
            f"Predictions are held against {counted(len(seen), 'new row, which was', 'new rows, which were')} not learned from."
        )
    if diagnosis.queries is not None and diagnosis.extrapolates is not None and (seen is None or seen.kind != "new rows"):
        k, m = int(diagnosis.extrapolates.sum()), len(diagnosis.queries)
        out.append(f"{counted(m, 'new row was', 'new rows were')} looked at: {k:,} beyond the data.")
    columns = getattr(estimator, "columns_", None)
    if columns is not None and hasattr(columns, "facts"):
        out += [f"{text}." if name == "column" else f"{name[0].upper()}{name[1:]}: {text}." for name, text in columns.facts()]
    return out
