"""The figures of a report: each drawn by itself, as SVG in the page's own colours, with a text for those who do not see it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary._words import counted
from covary.data import Data
from covary.diagnosis import Diagnosis, Foretold, Subject
from covary.plots.calibration import plot_coverage, plot_pit, plot_reliability
from covary.plots.classes import plot_classes
from covary.plots.columns import Scales
from covary.plots.components import plot_components
from covary.plots.dependence import plot_dependence
from covary.plots.fit import plot_fit
from covary.plots.history import plot_history, plot_restarts
from covary.plots.predicted import plot_predicted, plot_residuals
from covary.plots.relevance import plot_relevance
from covary.plots.style import CURRENT, ink, legend, svg, theme, title

PANEL = (4.2, 3.2)
FINE = 2000  # rows up to which curves of dependence are drawn finely
DRAWN = 1500  # rows drawn into a picture of the function
MOST_TERMS, MOST_COLUMNS, MOST_OUTPUTS = 6, 6, 3


@dataclass(frozen=True)
class Figure:
    """A picture for the page: its SVG, a caption, and the classes of its element.

    ``"wide"`` may take the whole width; ``"map"`` has colours that mean numbers, so a dark page leaves them as they are;
    ``"paper"`` has colours on white, so it stays white there.
    """

    svg: str
    caption: str
    classes: str = ""


class Pictures:
    """Draws the figures of one report; every one gets ids of its own."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """The report's own style, without a window and without leaving figures open."""
        import matplotlib as mpl
        import matplotlib.pyplot as plt

        before = plt.get_fignums()
        with (
            warnings.catch_warnings(),
            mpl.rc_context({"savefig.dpi": 130, "figure.max_open_warning": 0}),
            theme(CURRENT, 9.5),
        ):
            warnings.simplefilter("ignore", UserWarning)  # of letters that matplotlib's fonts lack: the browser has them
            try:
                yield
            finally:
                for number in plt.get_fignums():
                    if number not in before:
                        plt.close(number)

    def many(
        self,
        count: int,
        draw: Callable[[Any], Any],
        alts: list[str],
        captions: list[str],
        *,
        size: tuple[float, float] = PANEL,
        classes: str = "",
    ) -> list[Figure]:
        """So many figures of one axes each, drawn by one call with all of them."""
        with self._quiet():
            import matplotlib.pyplot as plt

            axes = [plt.subplots(figsize=size, layout="constrained")[1] for _ in range(count)]
            draw(axes if count > 1 else axes[0])
            out = []
            for ax, alt, caption in zip(axes, alts, captions, strict=True):
                self.count += 1
                out.append(Figure(svg(ax.figure, title=alt, prefix=f"f{self.count}-"), caption, classes))
            return out

    def own(self, draw: Callable[[], Any], alt: str, caption: str, *, classes: str = "") -> list[Figure]:
        """One figure that the drawing function makes itself."""
        with self._quiet():
            ax = np.ravel(np.asarray(draw(), dtype=object))[0]
            self.count += 1
            return [Figure(svg(ax.figure, title=alt, prefix=f"f{self.count}-"), caption, classes)]

    def one(self, draw: Callable[[Any], Any], alt: str, caption: str, **options: Any) -> list[Figure]:
        """One figure; none where it cannot be drawn."""
        return self.many(1, draw, [alt], [caption], **options)


def attempt(make: Callable[[], list[Figure]]) -> list[Figure]:
    """The figures, or none where a model has no such picture."""
    try:
        return make()
    except (CovaryError, np.linalg.LinAlgError):
        return []


def fit_figures(pictures: Pictures, estimator: Any, subject: Subject, scales: Scales) -> list[Figure]:
    """The function itself, for one input or two."""
    names, d, target = list(subject.columns), subject.x.shape[1], subject.targets[0]
    if d > 2 or len(subject.posteriors) > 1:
        return []
    if subject.classes is not None:
        if d == 1:
            return []
        alt = f"Map of class probabilities over {names[0]} and {names[1]}, with the training rows."
        return attempt(
            lambda: pictures.own(
                lambda: plot_classes(estimator),
                alt,
                "Probability of the classes, with the rows learned from.",
                classes="wide paper",
            )
        )
    out: list[Figure] = []
    for j, post in enumerate(singles(subject)[:MOST_OUTPUTS]):
        target = f"{subject.targets[j]}{_standardised(subject)}"
        if d == 1:
            alt = f"{target} against {names[0]}: mean, 95 % bands and {counted(post.data.rows, 'training row')}."
            said = f"{target}: mean with its 95 % band (dark), 95 % of new observations (light), and the rows learned from."
            out += attempt(
                lambda post=post, alt=alt, said=said, target=target: pictures.one(
                    lambda ax: _series(ax, post, names, target, scales, subject.post.data.rows),
                    alt,
                    said,
                    size=(5.8, 3.4),
                    classes="wide",
                )
            )
        else:
            place = f"over {names[0]} and {names[1]}"
            alts = [f"Map of the mean of {target} {place}.", f"Map of the standard deviation of {target} {place}."]
            said = [f"Mean of {target}, with the rows learned from.", "How uncertain it is."]
            out += attempt(
                lambda post=post, alts=alts, said=said: pictures.many(
                    2, lambda ax: plot_fit(post, ax, names=names), alts, said, size=(4.4, 3.4), classes="map"
                )
            )
    return out


def _series(ax: Any, post: Any, names: list[str], target: str, scales: Scales, total: int) -> None:
    """The fit along one input, under its own names; says how many rows are drawn."""
    plot_fit(post, ax, names=names)
    if ax.get_ylabel() == "y":
        ax.set_ylabel(target)
    if post.data.rows < total:
        for text in ax.get_legend().get_texts():
            if text.get_text().startswith("data ("):
                text.set_text(f"data ({post.data.rows:,} of {total:,})")
    scales.tick(ax, 0)


def few_rows(post: Any) -> Any:
    """The posterior with some of its rows to be drawn, where there are many; what it believes stays as it is."""
    rows = post.data.rows
    if rows <= DRAWN:
        return post
    return replace(post, data=post.data.take(np.sort(np.random.default_rng(0).choice(rows, DRAWN, replace=False))))


def singles(subject: Subject) -> list[Any]:
    """One posterior for each output (standardised ones stay so), with as many rows as can be drawn."""
    return [few_rows(post) for post in _singles(subject)]


def _singles(subject: Subject) -> list[Any]:
    post = subject.post
    if not (subject.gaussian and post.data.y.ndim == 2):
        return [post]
    out, data = [], post.data
    for j in range(data.y.shape[1]):
        alone = Data(data.X, data.y[:, j], data.noise_variance, data.weight)
        part = replace(post.solved, shift=np.ascontiguousarray(post.solved.shift[:, j]))
        if getattr(post.bound, "composite", False):
            out.append(replace(post, data=alone, solved=part, bound=post.bound.only(j)))
        else:
            out.append(replace(post, data=alone, solved=replace(part, alpha=post.solved.alpha[:, j].copy())))
    return out


def _standardised(subject: Subject) -> str:
    """What is said of outputs that are drawn in units of their own spread."""
    return " (standardised)" if np.ndim(subject.scale) and not np.all(np.asarray(subject.scale) == 1) else ""


def prediction_figures(pictures: Pictures, subject: Subject, seen: Foretold) -> list[Figure]:
    """Predicted against observed."""
    out = []
    for j, name in enumerate(subject.targets[:MOST_OUTPUTS]):
        y, mean, std = seen.y[:, j], seen.mean[:, j], seen.std[:, j]
        inside = 100 * float((np.abs(seen.pit[:, j] - 0.5) <= 0.475).mean())
        alt = f"Predicted against observed {name}: {inside:.0f} % of {counted(len(y), 'row')} lie inside their 95 % intervals."
        caption = f"{name}: each row foretold {_how(seen)}, with its 95 % interval. On the dashed line the prediction is right."
        if subject.discrete:
            caption += " Intervals of whole numbers hold more than they say; rows are drawn a little to either side."
        ends = None if seen.ends is None else tuple(edge[:, j] for edge in seen.ends)
        out += pictures.one(
            lambda ax, y=y, mean=mean, std=std, name=name, ends=ends: plot_predicted(
                y, mean, std, ax, name=name, interval=ends
            ),
            alt,
            caption,
            size=(4.2, 3.9),
        )
    return out


def calibration_figures(pictures: Pictures, subject: Subject, seen: Foretold) -> list[Figure]:
    """PIT histogram and coverage curve, or the reliability curve of classes."""
    if seen.p is not None and subject.classes is not None:
        labels = [str(c) for c in subject.classes]
        codes = seen.y[:, 0].astype(int)
        right = 100 * float((seen.p.argmax(1) == codes).mean())
        few = labels if len(labels) <= 6 else [labels[i] for i in np.argsort(-np.bincount(codes, minlength=len(labels)))[:6]]
        truth = np.asarray(labels)[codes]
        p = seen.p
        alt = f"Observed share of each class against its predicted probability; {right:.0f} % of the rows are named right."
        said = "How often a class was seen where it was given a probability; on the dashed line the probabilities are right."
        out = attempt(lambda: pictures.one(lambda ax: plot_reliability(truth, p, ax, classes=labels), alt, said) if few else [])
        own = p[np.arange(len(codes)), codes]
        alt = f"Histogram of the probability given to the true class; the mean is {own.mean():.2f}."
        said = "The probability that was given to what then proved true: the more at the right, the better."
        return out + pictures.one(lambda ax: _own(ax, own, len(labels)), alt, said)
    pit = seen.pit.ravel()
    inside = 100 * float((np.abs(pit - 0.5) <= 0.475).mean())
    alts = [
        "Histogram of the probability foretold below each observation; level if the predictions are calibrated.",
        f"Observed against nominal coverage; 95 % intervals hold {inside:.1f} %.",
    ]
    captions = [
        "Level inside the grey band: calibrated. Heaped at both ends: error bars too narrow; in the middle: too wide.",
        "How many rows intervals of every level hold. Inside the grey band: calibrated. Below the line: too narrow.",
    ]

    def draw(axes: Any) -> None:
        plot_pit(pit, axes[0])
        plot_coverage(pit, axes[1])

    return pictures.many(2, draw, alts, captions)


def _own(ax: Any, own: np.ndarray, classes: int) -> None:
    from covary.plots.style import BLUE, bare, ink, legend

    ax.hist(own, np.linspace(0, 1, 21), color=BLUE, alpha=0.65, lw=0)
    ax.axvline(1 / classes, color=ink(), lw=0.9, ls="--", label="ignorance")
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability of the true class")
    ax.set_ylabel("rows")
    legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    bare(ax)


def residual_figures(
    pictures: Pictures, subject: Subject, seen: Foretold, important: list[int], scales: Scales
) -> list[Figure]:
    """Residuals against the predictions and against the inputs that matter most."""
    out = []
    for j, name in enumerate(subject.targets[:MOST_OUTPUTS]):
        z = seen.z[:, j]
        places: list[tuple[Any, str, int | None]] = [(seen.mean[:, j], f"predicted {name}", None)]
        if j == 0:
            places += [(seen.x[:, i], subject.columns[i], i) for i in important[:2]]
        for at, label, column in places:
            alt = f"Standardised residuals of {name} against {label}; {int((np.abs(z) > 1.96).sum())} of {len(z)} beyond ±1.96."
            caption = f"Residuals against {label}. Right: level, and 95 % between the dashed lines."
            out += pictures.one(
                lambda ax, z=z, at=at, label=label, column=column: _residuals(ax, z, at, label, column, scales),
                alt,
                caption,
            )
    return out


def _residuals(ax: Any, z: np.ndarray, at: np.ndarray, label: str, column: int | None, scales: Scales) -> None:
    """Residuals against numbers or dates; of categories one column of points each, with its mean."""
    if column is None or not scales.levels(column):
        plot_residuals(z, 0 * z, np.ones(len(z)), ax, against=at, name=label)
        if column is not None:
            scales.tick(ax, column)
        return
    jitter = np.random.default_rng(0).uniform(-0.22, 0.22, len(at))
    plot_residuals(z, 0 * z, np.ones(len(z)), ax, against=at + jitter, name=label, running=False)
    kinds = [kind for kind in np.unique(at) if (at == kind).sum() > 1]
    mean, error = (np.array([f(z[at == kind]) for kind in kinds]) for f in (np.mean, _error))
    ax.errorbar(kinds, mean, error, fmt="_", color=ink(), ms=14, lw=1.6, capsize=2, zorder=4, label="mean, ±95 %")
    legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    scales.tick(ax, column)


def _error(z: np.ndarray) -> float:
    return float(1.96 * z.std(ddof=1) / np.sqrt(len(z)))


def relevance_figure(pictures: Pictures, found: Any) -> list[Figure]:
    """The relevance of the inputs."""
    first = ", ".join(f"{name} {100 * value:.0f} %" for name, value in zip(found.names[:5], found.values[:5], strict=True))
    caption = "Share of the function's variation that involves each input (Sobol's total index)"
    caption += ", with 95 % error bars." if found.errors is not None else "; of the posterior mean, so without error bars."
    count = min(len(found.names), 20)

    def draw(ax: Any) -> None:
        plot_relevance(found.names, found.values, found.errors, ax)
        ax.set_xlabel("share of the variation")

    return pictures.one(
        draw,
        f"Relevance of the inputs: {first}.",
        caption,
        size=(4.6, 1.0 + 0.32 * count),
    )


def banded(subject: Subject) -> bool:
    """Whether curves of dependence have a band: one function, which is known jointly at several inputs."""
    if len(subject.posteriors) > 1 or subject.post.model.likelihood.latents > 1:
        return False
    bound: Any = subject.post.bound
    try:
        if getattr(bound, "composite", False):
            bound.check_joint()
    except CovaryError:
        return False
    return True


def dependence_figures(
    pictures: Pictures, estimator: Any, subject: Subject, important: list[int], scales: Scales
) -> list[Figure]:
    """What the function does along each of the inputs that matter most."""
    columns, names, out = important[:MOST_COLUMNS], list(subject.columns), []
    if not columns:
        return []
    several = len(subject.targets) > 1
    subjects = singles(subject)[:MOST_OUTPUTS] if several else [estimator]
    for j, model in enumerate(subjects):
        whose = f"{subject.targets[j]}{_standardised(subject)}" if several else ""
        points = 25 if subject.post.data.rows > FINE or subject.classes is not None else 60
        many = subject.classes is not None and len(subject.classes) > 2
        band = ", one curve for each class." if many else ", with a 95 % band." if banded(subject) else "."
        alts = [f"Partial dependence of {whose or 'the prediction'} on {names[i]}{band}" for i in columns]
        captions = [f"{subject.targets[j] if several else 'Dependence'} on {names[i]}, others as in the data." for i in columns]

        def draw(axes: Any, model: Any = model, whose: str = whose, points: int = points) -> None:
            flat = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
            plot_dependence(model, columns, flat, names=names, points=points, rows=100)
            for ax, i in zip(flat, columns, strict=True):
                if whose or ax.get_ylabel() == "y, averaged":
                    ax.set_ylabel(whose or f"{subject.targets[0]}, averaged")
                if not scales.levels(i):
                    scales.tick(ax, i)

        out += attempt(
            lambda draw=draw, alts=alts, captions=captions: pictures.many(len(columns), draw, alts, captions, size=(3.6, 2.6))
        )
    return out


def component_figures(
    pictures: Pictures, subject: Subject, names: list[str], rows: list[dict[str, Any]], scales: Scales
) -> list[Figure]:
    """The additive terms of the kernel that do something."""
    count = sum(row["share"] is not None and abs(row["share"]) > 0.005 for row in rows)
    if count < 2 or len(subject.posteriors) > 1:
        return []
    shown = min(count, MOST_TERMS)
    size = np.array([abs(row["share"]) for row in rows])
    chosen = [rows[i] for i in np.sort(np.argsort(-size, kind="stable")[:shown])]
    captions = [f"{100 * row['share']:.0f} % of the variance: {row['words']}.".replace("-", "−") for row in chosen]
    alts = [
        f"{row['name']}, a term of the kernel, with its 95 % band; {said}" for row, said in zip(chosen, captions, strict=True)
    ]

    def draw(axes: Any) -> None:
        plot_components(singles(subject)[0], axes, names=names, most=shown)
        for ax, row in zip(axes, chosen, strict=True):
            name = str(row["name"])
            title(ax, name if len(name) <= 44 else f"{name[:43]}…")
            if ax.get_xlabel() in names:
                scales.tick(ax, names.index(ax.get_xlabel()))

    return attempt(lambda: pictures.many(shown, draw, alts, captions, size=(4.2, 2.7)))


def learning_figures(pictures: Pictures, learned: Any) -> list[Figure]:
    """How the search went."""
    if learned is None:
        return []
    out = attempt(
        lambda: pictures.one(
            lambda ax: plot_history(learned, ax),
            f"Objective by evaluation: {counted(len(learned.history), 'evaluation')}, {learned.status}.",
            "How far below the best each evaluation was, in nats"
            + (", at each number of rows looked at." if len(learned.levels) > 1 else "."),
        )
    )
    if len(learned.restarts) > 1:
        out += attempt(
            lambda: pictures.one(
                lambda ax: plot_restarts(learned, ax),
                f"Where {len(learned.restarts)} starts of the search ended.",
                "Where each start ended, in nats below the best: ends far apart are different explanations.",
                size=(4.2, 1.0 + 0.34 * max(len(learned.restarts), 3)),
            )
        )
    return out


def warning_figures(pictures: Pictures, diagnosis: Diagnosis, names: tuple[str, ...], scales: Scales) -> dict[str, Figure]:
    """The picture of every warning that has one."""
    out = {}
    for check in diagnosis.warnings:
        drawing: Any = check.draw
        if drawing is not None:
            alt = f"{check.title}: {check.sentence}"
            named = _named(drawing, list(names), scales)
            found = attempt(lambda d=named, a=alt, c=check.title: pictures.one(d, a, c))
            if found:
                out[check.name] = found[0]
    return out


def _named(drawing: Any, names: list[str], scales: Scales) -> Callable[[Any], None]:
    """A check's picture with dates and categories on its axis instead of their numbers."""

    def draw(ax: Any) -> None:
        drawing(ax)
        label = ax.get_xlabel()
        name = label.removeprefix("category of ").removesuffix(", by its number")
        if name not in names:
            return
        levels = scales.levels(names.index(name))
        if levels and label != name:
            codes = [int(float(text.get_text())) for text in ax.get_xticklabels()]
            ax.set_xticks(range(len(codes)), [levels[code][:16] for code in codes], rotation=25, ha="right")
            ax.set_xlabel(name)
        elif not levels:
            scales.tick(ax, names.index(name))

    return draw


def _how(seen: Foretold) -> str:
    return {
        "leave-one-out": "by all others (leave-one-out)",
        "new rows": "without having been learned from",
        "in-sample": "by all rows, itself included",
    }[seen.kind]
