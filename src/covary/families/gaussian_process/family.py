"""The Gaussian process family: regression, counts, classes."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from covary.families.gaussian_process import summary as summaries
from covary.families.gaussian_process.answers import answer, titles_of
from covary.families.gaussian_process.checks import checks
from covary.families.gaussian_process.encoding import decode_arguments, encode_arguments
from covary.families.gaussian_process.export import write_predictor
from covary.families.gaussian_process.judged import judged, share_of_prior, training
from covary.families.gaussian_process.predict import check_unseen, drawn_classes, draws, quantiles, worked_on
from covary.families.gaussian_process.processes import Process, Processes
from covary.families.gaussian_process.sections import details, sections
from covary.families.gaussian_process.stored import decode, encode, upgrade
from covary.families.gaussian_process.tables import prepare
from covary.fits import AbstractFamily, Check, Fit, Judged, Learning
from covary.posterior import Combination

COMMITTEE = 100_000  # rows to predict per call by experts, which may have to read theirs


def method(function: Callable) -> Any:
    """Bind a function as a method that does not need its object; a test compares its arguments with those of the method."""
    return staticmethod(function)


class GaussianProcess(AbstractFamily[Processes]):
    """The Gaussian process family: one process, or one per class against the rest.

    Most methods are functions of the other modules of this package.
    """

    name = "gaussian_process"
    title = "Gaussian process"
    latent = True
    estimators = MappingProxyType(
        {"GPClassifier": "covary.estimators.classifier", "GPRegressor": "covary.estimators.regressor"}
    )
    prepare = method(prepare)

    # predictions
    predict = method(answer)
    quantiles = method(quantiles)
    check = method(check_unseen)
    working = method(worked_on)

    # summaries
    facts = method(summaries.facts_of)
    summary = method(summaries.summary_of)
    parameters = method(summaries.parameters_of)
    rows = method(summaries.rows_of)
    sizes = method(summaries.sizes_of)
    price = method(summaries.price)
    without_error_bars = method(summaries.without_error_bars)

    # checks and reports
    judged = method(judged)
    training = method(training)
    share_of_prior = method(share_of_prior)
    sections = method(sections)
    details = method(details)

    # files
    encode_arguments = method(encode_arguments)
    decode_arguments = method(decode_arguments)
    upgrade = method(upgrade)
    encode = method(encode)
    decode = method(decode)
    export = method(write_predictor)

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
        """Draw new observations jointly: numbers (m, count) or (m, p, count), or labels."""
        rng = np.random.default_rng(key)
        if fit.classes is None:
            seed = np.random.RandomState(rng.integers(2**31))
            return draws(fit, x, count, seed, latent=latent, size=size, who="sample")
        return fit.classes.values[drawn_classes(fit, x, count, rng, "sample")].T

    def titles(self, fit: Fit[Processes], *, latent: bool = False) -> list[str]:
        """Return four columns per target, or the class and the probability of each class."""
        return titles_of(fit, super().titles(fit, latent=latent), latent)

    def together(self, fit: Fit[Processes]) -> int:
        """Return the number of rows to predict per call, larger for a committee."""
        return COMMITTEE if self.parallel(fit) else super().together(fit)

    def parallel(self, fit: Fit[Processes]) -> bool:
        """Return whether the fit is a committee."""
        return isinstance(fit.state.first.posterior, Combination)

    def learning(self, fit: Fit[Processes]) -> Learning:
        """Return the status, steps and time of learning."""
        found = fit.state.first.learned
        return Learning(None, 0, 0.0) if found is None else Learning(found.status, found.steps, found.seconds)

    def checks(self, fit: Fit[Processes], judged: Judged | None, *, quick: bool = False) -> list[Check]:
        """Return the checks of the fit itself."""
        return checks(fit, quick=quick)

    def processes(self, fit: Fit[Processes]) -> tuple[Process, ...]:
        """Return the only process, or one for each class against the rest."""
        return fit.state.parts


FAMILY = GaussianProcess()
