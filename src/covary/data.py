"""Data: inputs and observations.

Inputs are a record (:class:`Inputs`): an array ``x`` of numbers and optional integer tags per row (the index of the output,
the derivative or the category). Only kernels and mean functions read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

from covary._arguments import explained
from covary._checks import as_numbers, check_finite, check_matrix, check_positive, check_vector, fail, is_traced
from covary._errors import Option
from covary._types import Array, ArrayLike, Parts
from covary._words import counted

Rows: TypeAlias = "Inputs | ArrayLike"
"""Inputs as callers give them: a record or anything array-like."""


class Held:
    """Declared type of arrays that are annotated as NumPy's, although compiled code replaces them with JAX's."""

    if TYPE_CHECKING:

        def __get__(self, instance: Inputs, owner: type[Inputs]) -> np.ndarray: ...

        def __set__(self, instance: Inputs, value: Array) -> None: ...


@dataclass(frozen=True)
class Inputs:
    """Rows of inputs: ``x`` of shape (n, d), and integer ``tags`` of shape (n,) by name."""

    x: Held
    tags: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.x.shape[0]

    @property
    def columns(self) -> int:
        """Number of columns of x."""
        return self.x.shape[1]

    def take(self, rows: Parts) -> Inputs:
        """Return the rows selected by an index, a slice or a mask."""
        return Inputs(self.x[rows], {name: tag[rows] for name, tag in self.tags.items()})

    def with_x(self, x: Array) -> Inputs:
        """Return a copy with ``x`` replaced and the same tags."""
        return Inputs(x, self.tags)


jax.tree_util.register_pytree_node(
    Inputs,
    lambda i: ((i.x, *(i.tags[name] for name in sorted(i.tags))), tuple(sorted(i.tags))),
    lambda names, children: Inputs(children[0], dict(zip(names, children[1:], strict=True))),
)


def as_inputs(value: Rows, who: str = "Inputs", name: str = "X") -> Inputs:
    """Convert a record, an array or a DataFrame to inputs, after checking that it has rows and columns of finite numbers."""
    if isinstance(value, Inputs):
        x, tags = value.x, value.tags
    else:
        x, tags = value, {}
    x = check_matrix(who, name, x)
    checked = {}
    for tag, codes in tags.items():
        codes = codes if is_traced(codes) else np.asarray(codes)
        if codes.shape != (x.shape[0],) or not np.issubdtype(codes.dtype, np.integer):
            raise fail(who, f"the tag {tag!r} has shape {codes.shape} and type {codes.dtype}", "give one integer per row")
        checked[tag] = codes.astype(np.int32)
    return Inputs(x if is_traced(x) else np.ascontiguousarray(x), checked)


@dataclass(frozen=True)
class Data:
    """Training data: inputs X, observations y, and known properties of their noise.

    Parameters
    ----------
    X
        Inputs: an array or frame of shape (n, d), or an :class:`Inputs` record.
    y
        Observations: (n,), or (n, p) for p outputs that share one kernel and one noise.
    noise_variance
        Known noise variance per row (n,), in the units of y squared, added to the variance that the likelihood learns.
    weight
        Weight of each row (n,): a row of weight w represents w observations at its inputs, with mean y.
    scatter
        Weighted sum of squared deviations of these observations from their mean (n,), summed over outputs; zero by default.
        With it, rows with equal inputs can be merged without loss under Gaussian noise: see :meth:`collapse`.
    """

    X: Inputs
    y: np.ndarray
    noise_variance: np.ndarray | None = None
    weight: np.ndarray | None = None
    scatter: np.ndarray | None = None

    def __init__(
        self,
        X: Rows,
        y: ArrayLike,
        noise_variance: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        scatter: ArrayLike | None = None,
    ) -> None:
        inputs = as_inputs(X, "Data")
        n = inputs.rows
        y = as_numbers("Data", "y", y)
        if y.shape[:1] != (n,) or y.ndim > 2:
            what = Option("y") + f" has shape {y.shape} but " + Option("X") + f" has {counted(n, 'row')}"
            raise fail("Data", what, "give one entry (or one row) of y per row of X")
        y = y.astype(inputs.x.dtype)
        check_finite("Data", "y", y)
        if noise_variance is not None:
            noise_variance = check_vector("Data", "noise_variance", noise_variance, n).astype(inputs.x.dtype)
            check_positive("Data", "noise_variance", noise_variance, zero=True)
        if weight is not None:
            weight = check_vector("Data", "weight", weight, n).astype(inputs.x.dtype)
            check_positive("Data", "weight", weight)
        if scatter is not None:
            scatter = check_vector("Data", "scatter", scatter, n).astype(inputs.x.dtype)
            check_positive("Data", "scatter", scatter, zero=True)
        values = {"X": inputs, "y": y, "noise_variance": noise_variance, "weight": weight, "scatter": scatter}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.X.rows

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of all computations with these data."""
        return np.dtype(self.X.x.dtype)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return every array by name, tags included; those that were not given are left out.

        Examples
        --------
        >>> sorted(Data([[0.0]], [1.0], weight=[2.0]).arrays())
        ['weight', 'x', 'y']
        """
        known = {"noise_variance": self.noise_variance, "weight": self.weight, "scatter": self.scatter}
        given = {name: array for name, array in known.items() if array is not None}
        return {"x": self.X.x, "y": self.y} | given | {f"tag {name}": self.X.tags[name] for name in sorted(self.X.tags)}

    def take(self, rows: Parts) -> Data:
        """Return the data of the selected rows."""

        def some(v: np.ndarray | None) -> np.ndarray | None:
            return None if v is None else v[rows]

        return Data(self.X.take(rows), self.y[rows], some(self.noise_variance), some(self.weight), some(self.scatter))

    def join(self, other: Data) -> Data:
        """Return these rows followed by those of ``other``, which must have the same columns, tags and outputs."""

        def both(mine: np.ndarray | None, theirs: np.ndarray | None, missing: float) -> np.ndarray | None:
            if mine is None and theirs is None:
                return None
            return np.concatenate([np.full(d.rows, missing) if v is None else v for d, v in ((self, mine), (other, theirs))])

        if (
            self.X.tags.keys() != other.X.tags.keys()
            or self.X.columns != other.X.columns
            or self.y.shape[1:] != other.y.shape[1:]
        ):
            raise fail("Data.join", "the two differ in columns, tags or outputs", "give the same columns, tags and outputs")
        tags = {name: np.concatenate([tag, other.X.tags[name]]) for name, tag in self.X.tags.items()}
        return Data(
            Inputs(np.concatenate([self.X.x, other.X.x]), tags),
            np.concatenate([self.y, other.y]),
            both(self.noise_variance, other.noise_variance, 0.0),
            both(self.weight, other.weight, 1.0),
            both(self.scatter, other.scatter, 0.0),
        )

    def collapse(self) -> Data:
        r"""Merge rows with equal inputs (and equal known noise) into one row of larger weight.

        A row of weight w, mean y and scatter S has :math:`\sum_j w_j \log N(y_j\mid f, v) = w \log N(y\mid f, v) - S/2v`,
        so under Gaussian noise the evidence, its gradients and the predictions are exactly those of all the rows, and the
        matrices are smaller and better conditioned.

        Examples
        --------
        >>> data = Data([[0.0], [1.0], [0.0]], [1.0, 5.0, 3.0]).collapse()
        >>> data.y.tolist(), data.weight.tolist(), data.scatter.tolist()
        ([2.0, 5.0], [2.0, 1.0], [2.0, 0.0])
        """
        first, group = self._equal()
        m = len(first)
        if m == self.rows:
            return self
        w = np.ones(self.rows) if self.weight is None else self.weight.astype(np.float64)
        weight = np.bincount(group, w, m)
        y = self.y.astype(np.float64).reshape(self.rows, -1)
        base = y[first]  # differences from the first row are summed, so that equal observations keep their exact value
        mean = base + np.stack([np.bincount(group, w * c, m) for c in (y - base[group]).T], 1) / weight[:, None]
        scatter = np.bincount(group, w * ((y - mean[group]) ** 2).sum(1), m)
        if self.scatter is not None:
            scatter += np.bincount(group, self.scatter, m)
        known = None if self.noise_variance is None else self.noise_variance[first]
        return Data(self.X.take(first), mean.reshape(m, *self.y.shape[1:]).astype(self.y.dtype), known, weight, scatter)

    def merge(self) -> Data:
        """Merge rows with equal inputs and equal observations into one row of larger weight.

        Under any likelihood a row of weight w counts w times, so the results do not change and the matrices are smaller.

        Examples
        --------
        >>> data = Data([[0.0], [1.0], [0.0]], [1.0, 0.0, 1.0]).merge()
        >>> data.y.tolist(), data.weight.tolist()
        ([1.0, 0.0], [2.0, 1.0])
        """
        first, group = self._equal(self.y.reshape(self.rows, -1) + 0.0)
        if len(first) == self.rows or self.scatter is not None:
            return self
        weight = np.bincount(group, self.weight, len(first))
        known = None if self.noise_variance is None else self.noise_variance[first]
        return Data(self.X.take(first), self.y[first], known, weight)

    def _equal(self, *more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each group of rows with equal inputs, known noise and ``more``, and the group of each row."""
        key = [self.X.x + 0.0, *(tag[:, None] for tag in self.X.tags.values()), *more]  # + 0.0: minus zero is zero
        if self.noise_variance is not None:
            key.append(self.noise_variance[:, None])
        _, first, group = np.unique(np.hstack(key), axis=0, return_index=True, return_inverse=True)
        rank = np.empty(len(first), int)
        rank[np.argsort(first)] = np.arange(len(first))  # in the order of first appearance
        return np.sort(first), rank[group.ravel()]


FIELDS = ("X", "y", "noise_variance", "weight", "scatter")


def _from_leaves(_: None, children: tuple[Any, ...]) -> Data:
    data = object.__new__(Data)
    for name, value in zip(FIELDS, children, strict=True):
        object.__setattr__(data, name, value)
    return data


jax.tree_util.register_pytree_node(Data, lambda data: (tuple(getattr(data, name) for name in FIELDS), None), _from_leaves)

explained(Inputs, "Inputs")
explained(Data, "Data")
