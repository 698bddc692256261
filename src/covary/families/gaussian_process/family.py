"""The Gaussian process family: regression, counts, classes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from covary.executors import Dask, Serial
from covary.families.gaussian_process import answers, checks, judged, predict, sections, tables
from covary.families.gaussian_process import stored as files
from covary.families.gaussian_process import summary as summaries
from covary.families.gaussian_process.encoding import decode_arguments, encode_arguments
from covary.families.gaussian_process.export import write_predictor
from covary.families.gaussian_process.processes import Process, Processes
from covary.families.gaussian_process.summary import summary_of
from covary.fits import (
    AbstractFamily,
    Answer,
    Check,
    Findings,
    Fit,
    Functions,
    Json,
    Judged,
    Learning,
    Page,
    Request,
    Section,
    Sizes,
    Stored,
    Summary,
    Task,
    Training,
)
from covary.posterior import Combination
from covary.tables.columns import Mapped

COMMITTEE = 100_000  # rows to predict per call by experts, which may have to read theirs


class GaussianProcess(AbstractFamily[Processes]):
    """The Gaussian process family: one process, or one per class against the rest."""

    name = "gaussian_process"
    title = "Gaussian process"
    latent = True
    estimators = MappingProxyType(
        {"GPClassifier": "covary.estimators.classifier", "GPRegressor": "covary.estimators.regressor"}
    )

    # learning ---------------------------------------------------------------------------------------------------------
    def prepare(self, request: Request) -> Task[Processes]:
        """See :mod:`covary.families.gaussian_process.tables`."""
        return tables.prepare(request)

    # predictions ------------------------------------------------------------------------------------------------------
    def predict(
        self,
        fit: Fit[Processes],
        x: np.ndarray,
        *,
        level: float = 0.95,
        latent: bool = False,
        size: np.ndarray | None = None,
        truth: np.ndarray | None = None,
    ) -> Answer:
        """See :mod:`covary.families.gaussian_process.answers`."""
        titles = self.titles(fit, latent=latent)
        return answers.answer(fit, x, level=level, latent=latent, size=size, truth=truth, titles=titles)

    def quantiles(
        self, fit: Fit[Processes], x: np.ndarray, p: np.ndarray, *, latent: bool = False, size: np.ndarray | None = None
    ) -> np.ndarray:
        """See :mod:`covary.families.gaussian_process.predict`."""
        return predict.quantiles(fit, x, p, latent=latent, size=size)

    def sample(
        self,
        fit: Fit[Processes],
        x: np.ndarray,
        count: int,
        *,
        key: int | np.random.Generator,
        latent: bool = False,
        size: np.ndarray | None = None,
    ) -> np.ndarray:
        """See :mod:`covary.families.gaussian_process.predict`; for classification, return labels."""
        rng = np.random.default_rng(key)
        if fit.classes is None:
            seed = np.random.RandomState(rng.integers(2**31))
            return predict.draws(fit, x, count, seed, latent=latent, size=size, who="sample")
        return fit.classes.values[predict.drawn_classes(fit, x, count, rng, "sample")].T

    def titles(self, fit: Fit[Processes], *, latent: bool = False) -> list[str]:
        """Return four columns per target, or the class and the probability of each class."""
        return answers.titles_of(fit, super().titles(fit, latent=latent), latent)

    def check(self, fit: Fit[Processes], found: Mapped) -> None:
        """Raise an error for categories not seen in fit if the kernel has a fixed number of categories."""
        predict.check_unseen(fit, found, "predict")

    def sizes(self, fit: Fit[Processes]) -> Sizes | None:
        """Return which sizes observations have: trials if binomial, exposures if counts."""
        return summaries.sizes_of(fit)

    def together(self, fit: Fit[Processes]) -> int:
        """Return the number of rows to predict per call, larger for a committee."""
        return COMMITTEE if self.parallel(fit) else super().together(fit)

    def parallel(self, fit: Fit[Processes]) -> bool:
        """Return whether the fit is a committee."""
        return isinstance(fit.state.first.posterior, Combination)

    def working(self, fit: Fit[Processes], executor: Dask | Serial) -> Fit[Processes]:
        """Return the fit with its committee on an executor."""
        return predict.worked_on(fit, executor, "predict")

    # summary ----------------------------------------------------------------------------------------------------------
    def facts(self, fit: Fit[Processes]) -> dict[str, Json]:
        """See :mod:`covary.families.gaussian_process.summary`."""
        return summaries.facts_of(fit)

    def summary(self, fit: Fit[Processes], *, quick: bool = False) -> Summary:
        """See :mod:`covary.families.gaussian_process.summary`."""
        return summary_of(fit, quick=quick)

    def parameters(self, fit: Fit[Processes], summary: Summary, *, error_bars: bool) -> list[dict[str, Json]]:
        """See :mod:`covary.families.gaussian_process.summary`."""
        return summaries.parameters_of(fit, summary, error_bars=error_bars)

    def rows(self, fit: Fit[Processes]) -> tuple[int, bool]:
        """Return the number of training rows, and whether they are on disk."""
        return summaries.rows_of(fit)

    def learning(self, fit: Fit[Processes]) -> Learning:
        """Return the status, steps and time of learning."""
        found = fit.state.first.learned
        return Learning(None, 0, 0.0) if found is None else Learning(found.status, found.steps, found.seconds)

    def price(self, fit: Fit[Processes]) -> float:
        """Estimate the seconds that error bars would take."""
        return summaries.price(fit)

    def without_error_bars(self, fit: Fit[Processes]) -> Fit[Processes]:
        """Return a copy of the fit whose summary omits error bars and does not compute them."""
        return summaries.without_error_bars(fit)

    # checks, reports, files -------------------------------------------------------------------------------------------
    def judged(self, fit: Fit[Processes], x: np.ndarray | None = None, y: np.ndarray | None = None) -> Judged:
        """See :mod:`covary.families.gaussian_process.judged`."""
        return judged.judged(fit, x, y)

    def training(self, fit: Fit[Processes]) -> Training:
        """See :mod:`covary.families.gaussian_process.judged`."""
        return judged.training(fit)

    def share_of_prior(self, fit: Fit[Processes], x: np.ndarray | None) -> np.ndarray | None:
        """See :mod:`covary.families.gaussian_process.judged`."""
        return judged.share_of_prior(fit, x)

    def checks(self, fit: Fit[Processes], judged: Judged | None, *, quick: bool = False) -> list[Check]:
        """See :mod:`covary.families.gaussian_process.checks`."""
        return checks.checks(fit, quick=quick)

    def processes(self, fit: Fit[Processes]) -> tuple[Process, ...]:
        """Return the only process, or one for each class against the rest."""
        return fit.state.parts

    def sections(self, fit: Fit[Processes], found: Findings) -> list[Section]:
        """See :mod:`covary.families.gaussian_process.sections`."""
        return sections.sections(fit, found)

    def details(self, fit: Fit[Processes]) -> list[tuple[str, str]]:
        """See :mod:`covary.families.gaussian_process.sections`."""
        return sections.details(fit)

    def encode_arguments(self, arguments: Mapping[str, object]) -> Page:
        """See :mod:`covary.families.gaussian_process.encoding`."""
        return encode_arguments(arguments)

    def decode_arguments(self, page: Page, functions: Functions) -> dict[str, object]:
        """See :mod:`covary.families.gaussian_process.encoding`."""
        return decode_arguments(page, functions)

    def upgrade(self, page: Page, arrays: Mapping[str, np.ndarray]) -> Page:
        """See :mod:`covary.families.gaussian_process.stored`."""
        return files.upgrade(page, arrays)

    def encode(self, fit: Fit[Processes], *, factor: bool | None = None) -> Stored:
        """See :mod:`covary.families.gaussian_process.stored`."""
        return files.encode(fit, factor)

    def decode(self, stored: Stored, fit: Fit[None]) -> Processes:
        """See :mod:`covary.families.gaussian_process.stored`."""
        return files.decode(stored, fit)

    def export(
        self, fit: Fit[Processes], path: str | os.PathLike[str], *, std: bool = True, tolerance: float = 1e-10
    ) -> dict[str, float]:
        """See :mod:`covary.export`."""
        return write_predictor(fit, path, std=std, tolerance=tolerance)


FAMILY = GaussianProcess()
