"""Grams by nearest neighbours: Vecchia's approximation, and the same without its ordering.

What they compute, and with which formulas, is in :mod:`covary.gram.conditionals`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

from covary._module import static
from covary.data import Data, Inputs
from covary.gram.base import AbstractGram
from covary.gram.conditionals import VecchiaBound
from covary.gram.neighbours import Neighbourhoods, settle


class Vecchia(AbstractGram):
    """Every row given its k nearest predecessors: O(n k³) time, O(n k) memory; Gaussian noise only.

    Good where inputs are few (space, time) and rows many. The search for neighbours uses the length-scales of the model it
    is prepared for (or bound to) and is then kept; prepare again when they have moved much.

    Parameters
    ----------
    neighbours
        How many predecessors a row is conditioned on, k; at most n − 1 are used.
    ordering
        ``"maxmin"`` (from coarse to fine), ``"random"``, or ``"given"``: as the rows come.
    jitter
        What is added to the diagonal, as a fraction of the prior variance; zero.
    seed
        Seed of the ordering, where :meth:`prepare` is not told another.
    predict_with
        How many of the nearest rows a prediction is given; twice ``neighbours`` if None.
    settled
        The order and the neighbours, as :meth:`prepare` leaves them.
    terms
        How many of the n conditionals the evidence adds up (and scales by n over their number); None for all of them.

    References
    ----------
    Vecchia (1988); Katzfuss & Guinness (2021), eq. 4 and section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> from covary import GP, Data, Model, log_evidence
    >>> x = np.linspace(0.0, 1.0, 200)[:, None]
    >>> data, model = Data(x, np.sin(6 * x[:, 0])), Model(GP("Matern32(lengthscale=0.3)"))
    >>> bool(abs(log_evidence(model, data, gram=Vecchia(20)) - log_evidence(model, data)) < 1.0)
    True
    """

    neighbours: int = static(30)
    _: KW_ONLY
    ordering: str = static("maxmin")
    jitter: float = static(0.0)
    seed: int = static(0)
    predict_with: int | None = static(None)
    settled: Neighbourhoods | None = static(None)
    terms: int | None = static(None)

    thins: ClassVar[bool] = True

    @property
    def predictors(self) -> int:
        """How many of the nearest rows a prediction is given."""
        return 2 * self.neighbours if self.predict_with is None else self.predict_with

    def thinned(self, terms: int, *, key: int = 0) -> Vecchia:
        """The same with so many terms of its evidence, taken evenly along the order: an estimate for a coarse search."""
        return self.replace(terms=int(terms), seed=key)

    def prepare(self, model: Any, data: Data, *, key: int = 0) -> tuple[Vecchia, Data]:
        """The same with order and neighbours settled for the model's present length-scales, and the data as they are.

        One that is settled for these inputs stays as it is; ``gram.replace(settled=None)`` forgets.
        """
        if self.settled is not None and self.settled.fits(data.X):
            return self, data
        settled = settle(model.prior.kernels, data.X, self.neighbours, self.ordering, key)
        return self.replace(seed=key, settled=settled), data

    def bind(
        self, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> VecchiaBound:
        return VecchiaBound(self, kernels, X, None if basis is None else basis.bind(X), workspace)


class NearestNeighbours(AbstractGram):
    """Predictions from the k nearest rows alone, and the evidence of rows in random order given as many before each.

    What :class:`Vecchia` does, without the ordering: the quickest gram there is for very many rows.

    Parameters
    ----------
    neighbours
        How many rows a prediction uses, k.
    jitter, seed
        As in :class:`Vecchia`.

    References
    ----------
    Datta, Banerjee, Finley & Gelfand (2016), eqs. 3-5.
    """

    neighbours: int = static(30)
    _: KW_ONLY
    jitter: float = static(0.0)
    seed: int = static(0)

    def prepare(self, model: Any, data: Data, *, key: int = 0) -> tuple[Vecchia, Data]:
        """A :class:`Vecchia` gram in random order, settled."""
        return self._random().prepare(model, data, key=key)

    def _random(self) -> Vecchia:
        return Vecchia(self.neighbours, ordering="random", jitter=self.jitter, seed=self.seed, predict_with=self.neighbours)

    def bind(
        self, kernels: tuple[Any, ...], X: Inputs, basis: Any = None, workspace: dict[str, Any] | None = None
    ) -> VecchiaBound:
        return self._random().bind(kernels, X, basis, workspace)
