"""Data: inputs and what was observed there.

Inputs are a record (:class:`Inputs`): a table ``x`` of numbers and optional integer tags per row (which output, which
derivative, which category). Only kernels and mean functions read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from covary._checks import check_finite, check_matrix, check_positive, check_vector, fail


@dataclass(frozen=True)
class Inputs:
    """Rows of inputs: ``x`` of shape (n, d), and integer ``tags`` of shape (n,) by name."""

    x: Any
    tags: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.x.shape[0]

    @property
    def columns(self) -> int:
        """The number of columns of x."""
        return self.x.shape[1]

    def take(self, rows: Any) -> Inputs:
        """The rows selected by an index, a slice or a mask."""
        return Inputs(self.x[rows], {name: tag[rows] for name, tag in self.tags.items()})

    def with_x(self, x: Any) -> Inputs:
        """The same tags beside other numbers."""
        return Inputs(x, self.tags)


jax.tree_util.register_pytree_node(
    Inputs,
    lambda i: ((i.x, *(i.tags[name] for name in sorted(i.tags))), tuple(sorted(i.tags))),
    lambda names, children: Inputs(children[0], dict(zip(names, children[1:], strict=True))),
)


def as_inputs(value: Any, who: str = "Inputs", name: str = "X") -> Inputs:
    """Inputs from a record, an array or a data frame, checked: finite numbers, rows and columns."""
    if isinstance(value, Inputs):
        x, tags = value.x, value.tags
    else:
        x, tags = value, {}
    x = check_matrix(who, name, x)
    checked = {}
    for tag, codes in tags.items():
        codes = np.asarray(codes)
        if codes.shape != (x.shape[0],) or not np.issubdtype(codes.dtype, np.integer):
            raise fail(who, f"the tag {tag!r} has shape {codes.shape} and type {codes.dtype}", "give one integer per row")
        checked[tag] = codes.astype(np.int32)
    return Inputs(np.ascontiguousarray(x), checked)


@dataclass(frozen=True)
class Data:
    """What was seen: inputs X, observations y, and what is known about their noise.

    Parameters
    ----------
    X
        Inputs: an array or frame of shape (n, d), or an :class:`Inputs` record.
    y
        Observations: (n,), or (n, p) for p outputs that share one kernel and one noise.
    noise_variance
        Known noise variance per row (n,), in the units of y squared; added to what the likelihood learns.
    weight
        Replication weights per row: a row of weight w counts as the mean of w observations, so its learned noise
        variance is divided by w.
    """

    X: Inputs
    y: np.ndarray
    noise_variance: np.ndarray | None = None
    weight: np.ndarray | None = None

    def __init__(self, X: Any, y: Any, noise_variance: Any = None, weight: Any = None) -> None:
        inputs = as_inputs(X, "Data")
        n = inputs.rows
        y = np.asarray(y)
        if y.dtype.kind not in "fiub":
            raise fail("Data", f"y has type {y.dtype}", "give numbers (encode classes as 0, 1, 2, ...)")
        if y.shape[:1] != (n,) or y.ndim > 2:
            raise fail("Data", f"y has shape {y.shape} but X has {n} rows", "give one entry (or one row) of y per row of X")
        y = y.astype(inputs.x.dtype)
        check_finite("Data", "y", y)
        if noise_variance is not None:
            noise_variance = check_vector("Data", "noise_variance", noise_variance, n).astype(inputs.x.dtype)
            check_positive("Data", "noise_variance", noise_variance, zero=True)
        if weight is not None:
            weight = check_vector("Data", "weight", weight, n).astype(inputs.x.dtype)
            check_positive("Data", "weight", weight)
        for name, value in (("X", inputs), ("y", y), ("noise_variance", noise_variance), ("weight", weight)):
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.X.rows

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision everything about these data is computed in."""
        return np.dtype(self.X.x.dtype)

    def take(self, rows: Any) -> Data:
        """The data of some of the rows."""

        def some(v: np.ndarray | None) -> np.ndarray | None:
            return None if v is None else v[rows]

        return Data(self.X.take(rows), self.y[rows], some(self.noise_variance), some(self.weight))
