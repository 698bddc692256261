"""A combination of experts: posteriors of subsets of the rows, whose predictions are combined into one.

This module depends only on the interface of the experts (:class:`Experts`), not on where they run or by what rule their
predictions are combined. No conditioning takes place here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, NoReturn, Protocol, TypeVar

import numpy as np

from covary._checks import CovaryError, fail
from covary._errors import Option, Text
from covary._memory import check_memory
from covary._precision import precision
from covary.data import Data, Inputs
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.posterior.base import CROSS_VALIDATE, AbstractPosterior, ErrorScale, Rows
from covary.prediction import LeftOut, Spread

LEFT_OUT = 1000  # default maximum number of rows for leave-one-out predictions


class Experts(Protocol):
    """The interface of experts that predict together, in one process or several."""

    @property
    def rows(self) -> int:
        """The number of rows of all experts, with shared rows counted once."""
        ...

    @property
    def on_disk(self) -> bool:
        """Whether their rows are on disk."""
        ...

    @property
    def width(self) -> int:
        """The rows of an expert: the number of values that a prediction keeps in memory per new row."""
        ...

    def predict(self, X: Inputs) -> Spread:
        """Return the combined mean and variance of the latent function at new inputs."""
        ...

    def check_joint(self) -> None:
        """Raise an error under rules and settings that define no joint covariance of several inputs."""
        ...

    def joint(self, X: Inputs) -> np.ndarray:
        """Return the joint covariance of the latent function at new inputs."""
        ...

    def leave_one_out(self, data: Data, most: int, key: int) -> tuple[np.ndarray, Spread]:
        """Return randomly chosen rows and the latent function there, each predicted without its row; NaN where that fails."""
        ...

    def described(self, columns: list[str] | None) -> str:
        """Describe the number of experts, and how rows and predictions are split across them."""
        ...


E = TypeVar("E", bound=Experts)


@dataclass(frozen=True)
class Combination(AbstractPosterior, Generic[E]):
    """The posterior of experts that are each conditioned on some of the rows.

    Parameters
    ----------
    model, data
        The model of all rows, and the rows, or a sample of them if they are on disk.
    experts
        The experts whose predictions are combined.
    evidence, ended
        The log evidence, and how the inferences of the experts ended.
    name
        The name of the method: ``Committee``.
    output
        Which of several outputs is predicted; None for all.
    """

    model: Model
    data: Data
    experts: E
    evidence: float
    ended: str
    name: str
    scale: ErrorScale | None = None
    output: int | None = None

    @property
    def log_evidence(self) -> float:
        """The sum of the experts' log evidences, with shared rows counted once."""
        return self.evidence

    @property
    def status(self) -> str:
        """How the inferences of the experts ended."""
        return self.ended

    @property
    def kind(self) -> str:
        """The name of the method."""
        return self.name

    @property
    def rows(self) -> int:
        """The number of rows of all experts, including rows on disk."""
        return self.experts.rows

    @property
    def on_disk(self) -> bool:
        """Whether the rows are on disk and ``data`` is only a sample of them."""
        return self.experts.on_disk

    @property
    def width(self) -> int:
        """The number of rows of an expert."""
        return self.experts.width

    @property
    def observed(self) -> bool:
        """Whether the noise is Gaussian."""
        return isinstance(self.model.likelihood, Gaussian)

    @property
    def noise(self) -> np.ndarray:
        """The noise variance of every row, if the noise is Gaussian."""
        likelihood = self.model.likelihood
        return np.asarray(likelihood.sites(self.data).variance) if isinstance(likelihood, Gaussian) else np.empty(0)

    @property
    def outputs(self) -> int:
        """The number of outputs that share the latent function."""
        y = self.data.y
        return y.shape[1] if self.observed and y.ndim == 2 else 1

    def single(self, output: int) -> Combination[E]:
        """Return the posterior of one of several outputs."""
        data = self.data
        alone = Data(data.X, data.y[:, output], data.noise_variance, data.weight)
        return replace(self, data=alone, output=output)

    def described(self, columns: list[str] | None = None) -> str:
        """Describe how rows and predictions are split across the experts; ``columns`` are the names of the input columns."""
        return self.experts.described(columns)

    @property
    def has_joint(self) -> bool:
        """Whether several inputs have a joint covariance; some combination rules define none."""
        try:
            self.experts.check_joint()
        except CovaryError:
            return False
        return True

    def _latent(self, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        found = self.experts.predict(X)
        mean = found.mean if self.output is None else found.mean[:, self.output]
        return mean.astype(X.x.dtype), found.variance.astype(X.x.dtype) if variance else None

    def covariance(self, X: Rows) -> np.ndarray:
        """Return the joint posterior covariance of f at new inputs, for rules that define one (R&W, eq. 8.30)."""
        who = "Posterior.covariance"
        inputs = self._inputs(X, who)
        if self.model.likelihood.latents > 1:
            raise fail(who, "the model has several latent functions", "use predict for their covariance at each row")
        self.experts.check_joint()
        m = inputs.rows
        check_memory(who, (3 * m * m + 2 * m * self.data.rows) * 8, "predict fewer rows at a time, or variances only")
        with precision(self.data.dtype):
            return self.experts.joint(inputs)

    def left_out(self, *, most: int = LEFT_OUT, key: int = 0) -> tuple[np.ndarray, Spread]:
        """Return leave-one-out predictions of the latent function at randomly chosen rows.

        Rows shared by all experts are excluded. NaN where Laplace's method has no proper cavity.

        Parameters
        ----------
        most
            The maximum number of rows.
        key
            The random seed.

        Examples
        --------
        >>> from covary import GP, Data, Model, condition
        >>> from covary.committee import Committee
        >>> x = np.linspace(0.0, 6.0, 60)[:, None]
        >>> post = condition(Model(GP("Matern52()")), Data(x, np.sin(x[:, 0])), gram=Committee(3, rule="bcm"))
        >>> rows, said = post.left_out()
        >>> len(rows), bool((said.variance > post.predict(x).f.variance).all())
        (60, True)
        """
        return self.experts.leave_one_out(self.data, most, key)

    def leave_one_out(self) -> LeftOut:
        """Return the leave-one-out predictions: each row from the other rows, without refitting.

        The prediction of the expert that contains the row is replaced by its prediction without it (R&W, eq. 5.12).
        """
        who, likelihood = "Posterior.leave_one_out", self.model.likelihood
        if likelihood.latents != 1 or self.outputs > 1:
            raise fail(who, "the model has several latent functions or outputs", CROSS_VALIDATE)
        rows, f = self.left_out(most=self.data.rows)
        if len(rows) < self.data.rows:
            what = "all experts share some of the rows, which cannot be left out"
            raise fail(who, what, "use " + Option("rule", "'rbcm'") + ", or left_out() for the other rows")
        if not np.isfinite(f.mean).all():
            raise fail(who, "some rows have no proper cavity", CROSS_VALIDATE)
        data = self.data
        if self.observed:
            y = Spread(f.mean, f.variance + self.noise)
            return LeftOut(f.mean, f.variance, y.log_prob(data.y), y)
        return LeftOut(f.mean, f.variance, likelihood.tilted(data.y, f.mean, f.variance, data.weight).log_z)

    # not available without a single matrix ----------------------------------------------------------------------------
    def _no_matrix(self, what: str, do: Text) -> CovaryError:
        return fail(self.name, f"a combination of experts has no single matrix, and so no {what}", do)

    @property
    def factor(self) -> NoReturn:
        """Raise an error: a combination has no factor."""
        raise self._no_matrix("factor", "predict, or use another method")

    def component(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: the terms of the kernel cannot be separated, since every expert has its own."""
        raise self._no_matrix(
            "components", "condition with " + Option("gram", "Dense()") + " or " + Option("gram", "LowRank(...)")
        )

    components = component

    def derivative(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: derivatives need a single matrix."""
        raise self._no_matrix(
            "derivative", "condition with " + Option("gram", "Dense()") + " or " + Option("gram", "LowRank(...)")
        )

    def sample_functions(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: drawing functions needs a single matrix."""
        raise self._no_matrix("draws of functions", "use sample with " + Option("rule", "'bcm'") + ", or another method")
