"""Grams by nearest neighbours: Vecchia's approximation, and a variant in random order.

For the formulas see :mod:`covary.gram.vecchia.conditionals`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, ClassVar

from covary._module import static
from covary.data import Data, Inputs
from covary.gram.base import AbstractGram, Kernels, Workspace
from covary.gram.vecchia.conditionals import VecchiaBound
from covary.gram.vecchia.neighbours import Neighbourhoods, settle

if TYPE_CHECKING:
    from covary.means.basis import Basis
    from covary.model import Model

TERMS, COARSE_TERMS = 4000, 8000  # minimum and maximum number of terms of the evidence on the coarse level
MOST_TERMS = 60_000  # beyond this, more terms do not improve the estimates of a few hyperparameters


class Vecchia(AbstractGram):
    """Every row conditioned on its k nearest predecessors: O(n k³) time, O(n k) memory; Gaussian noise only.

    Works well for few input columns (space, time) and many rows. Neighbours are determined with the length-scales of the
    model it is prepared for (or bound to) and then kept; prepare it again if these have changed a lot.

    Parameters
    ----------
    neighbours
        The number of predecessors that a row is conditioned on, k; at most n − 1 are used.
    ordering
        ``"maxmin"`` (from coarse to fine), ``"random"``, or ``"given"``: the order of the data.
    jitter
        The jitter added to the diagonal, as a fraction of the prior variance; default 0.
    seed
        The seed of the ordering, unless ``prepare`` is given another.
    predict_with
        The number of nearest rows that a prediction is conditioned on; twice ``neighbours`` if None.
    settled
        The order and the neighbours, as set by ``prepare``.
    terms
        The number of the n conditionals that the evidence sums (and scales by n over their number); None for all.

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
    settles_first: ClassVar[bool] = True

    @property
    def predictors(self) -> int:
        """The number of nearest rows that a prediction is conditioned on."""
        return 2 * self.neighbours if self.predict_with is None else self.predict_with

    def thinned(self, terms: int, *, key: int = 0) -> Vecchia:
        """Return the gram with ``terms`` evenly spaced terms of its evidence: an estimate for a coarse search."""
        return self.replace(terms=int(terms), seed=key)

    def levels(self, rows: int, coarsest: int | None) -> tuple[int, ...]:
        """Return the levels of a search; coarse ones use some terms of the evidence, with neighbours among all rows."""
        if coarsest is None or rows <= 4 * TERMS:
            return (rows,)
        return min(max(TERMS, rows // 16), COARSE_TERMS), min(rows, MOST_TERMS)

    def at(self, data: Data, rows: int, *, key: int = 0) -> tuple[Data, Vecchia]:
        return data, self if rows == data.rows else self.thinned(rows, key=key)

    def approximates(self, rows: int) -> bool:
        return True

    def prepare(self, model: Model, data: Data, *, key: int = 0) -> tuple[Vecchia, Data]:
        """Return the gram with order and neighbours for the model's current length-scales, and the data unchanged.

        A gram already prepared for these inputs is returned unchanged; ``gram.replace(settled=None)`` resets it.
        """
        if self.settled is not None and self.settled.fits(data.X):
            return self, data
        settled = settle(model.prior.kernels, data.X, self.neighbours, self.ordering, key)
        return self.replace(seed=key, settled=settled), data

    def bind(self, kernels: Kernels, X: Inputs, basis: Basis | None = None, workspace: Workspace | None = None) -> VecchiaBound:
        return VecchiaBound(self, kernels, X, None if basis is None else basis.bind(X), workspace)


class NearestNeighbours(AbstractGram):
    """Predictions from the k nearest rows only; for the evidence, rows in random order given k nearest predecessors.

    The same as :class:`Vecchia` but in random order: the fastest gram for a very large number of rows.

    Parameters
    ----------
    neighbours
        The number of rows that a prediction uses, k.
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

    def prepare(self, model: Model, data: Data, *, key: int = 0) -> tuple[Vecchia, Data]:
        """Return a prepared :class:`Vecchia` gram in random order."""
        return self._random().prepare(model, data, key=key)

    def _random(self) -> Vecchia:
        return Vecchia(self.neighbours, ordering="random", jitter=self.jitter, seed=self.seed, predict_with=self.neighbours)

    def bind(self, kernels: Kernels, X: Inputs, basis: Basis | None = None, workspace: Workspace | None = None) -> VecchiaBound:
        return self._random().bind(kernels, X, basis, workspace)
