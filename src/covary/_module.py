"""Modules: frozen dataclasses that are also JAX pytrees.

A subclass of :class:`Module` is turned into a frozen dataclass and registered with JAX. Array-valued fields are declared
with the set they live in (see :mod:`covary.parameters`); other modules and tuples of modules are children; everything else
is static structure. Construction accepts *marks* (``fixed(1.0)``, ``bounded(1.0, 0.1, 10.0)``): the field then holds the
plain value and the mark is remembered beside it, so that formulas never meet a wrapper.

Why not equinox: importing it costs 0.3 s of a 1 s budget; see ``docs/decisions/0001-own-module.md``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

M = TypeVar("M", bound="Module")

STATIC = "static"  # metadata key: the field is structure, not a number
CONVERT = "convert"  # metadata key: callable applied to the value at construction


def static(default: Any = dataclasses.MISSING, *, convert: Callable[[Any], Any] | None = None) -> Any:
    """A field that is part of the structure (hashable, compared, never differentiated)."""
    return dataclasses.field(default=default, metadata={STATIC: True, CONVERT: convert})


def child(default: Any = dataclasses.MISSING, *, transparent: bool = False) -> Any:
    """A field that holds a module or a tuple of modules; ``transparent`` children add no name to parameter paths."""
    if isinstance(default, Module):  # frozen, so one instance may serve as everyone's default
        return dataclasses.field(default_factory=lambda: default, metadata={"transparent": transparent})
    return dataclasses.field(default=default, metadata={"transparent": transparent})


@dataclasses.dataclass(frozen=True)
class Mark:
    """What a user said about a field beside its value: held fixed, or kept inside bounds."""

    fixed: bool = False
    bounds: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Marked:
    """A value on its way into a module, together with its mark."""

    value: Any
    mark: Mark

    def __repr__(self) -> str:
        inner = repr(self.value)
        if self.mark.bounds is not None:
            inner = f"bounded({inner}, {self.mark.bounds[0]!r}, {self.mark.bounds[1]!r})"
        return f"fixed({inner})" if self.mark.fixed else inner


def is_array(value: Any) -> bool:
    """Whether a value is an array or an array-like tracer."""
    return isinstance(value, np.ndarray | np.generic | jax.Array)


@dataclass_transform(frozen_default=True)
class Module:
    """Base of everything that is a record of numbers and structure: kernels, means, likelihoods, recipes."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, repr=False, eq=False)(cls)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        dynamic = tuple(f.name for f in fields if not f.metadata.get(STATIC))
        fixed_structure = tuple(f.name for f in fields if f.metadata.get(STATIC))
        cls._dynamic_names = dynamic  # type: ignore[attr-defined]
        cls._static_names = fixed_structure  # type: ignore[attr-defined]

        def flatten_with_keys(m: Any) -> tuple[Any, Any]:
            keyed = tuple((jax.tree_util.GetAttrKey(name), getattr(m, name)) for name in dynamic)
            return keyed, (tuple(getattr(m, name) for name in fixed_structure), m._marks)

        def flatten(m: Any) -> tuple[Any, Any]:
            return tuple(getattr(m, name) for name in dynamic), (
                tuple(getattr(m, name) for name in fixed_structure),
                m._marks,
            )

        def unflatten(aux: Any, children: Any) -> Any:
            m = object.__new__(cls)
            for name, value in zip(dynamic, children, strict=True):
                object.__setattr__(m, name, value)
            for name, value in zip(fixed_structure, aux[0], strict=True):
                object.__setattr__(m, name, value)
            object.__setattr__(m, "_marks", aux[1])
            return m

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)

    def __post_init__(self) -> None:
        marks = []
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, Marked):
                marks.append((f.name, value.mark))
                value = value.value
            elif isinstance(value, dict):
                marks += [(key, item.mark) for key, item in value.items() if isinstance(item, Marked)]
                value = {key: item.value if isinstance(item, Marked) else item for key, item in value.items()}
            if f.metadata.get(STATIC) and isinstance(value, np.generic):
                value = value.item()  # structure is printed, hashed and compared as plain Python
            convert = f.metadata.get(CONVERT)
            if convert is not None:
                value = convert(value)
            object.__setattr__(self, f.name, value)
        object.__setattr__(self, "_marks", tuple(sorted(marks, key=lambda pair: pair[0])))

    def replace(self: M, **changes: Any) -> M:
        """A copy with some fields replaced (marks are kept unless the new value brings its own)."""
        new = dict(self._marks)  # type: ignore[attr-defined]
        values = {}
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = changes.get(f.name, getattr(self, f.name))
            if isinstance(value, Marked):
                new[f.name] = value.mark
                value = value.value
            elif isinstance(value, dict):
                new |= {key: item.mark for key, item in value.items() if isinstance(item, Marked)}
                value = {key: item.value if isinstance(item, Marked) else item for key, item in value.items()}
            convert = f.metadata.get(CONVERT)
            values[f.name] = convert(value) if convert is not None and f.name in changes else value
        copy = object.__new__(type(self))
        for name, value in values.items():
            object.__setattr__(copy, name, value)
        object.__setattr__(copy, "_marks", tuple(sorted(new.items(), key=lambda pair: pair[0])))
        return copy

    def with_mark(self: M, name: str, mark: Mark | None) -> M:
        """A copy whose field ``name`` carries ``mark`` (None removes it)."""
        marks = dict(self._marks)  # type: ignore[attr-defined]
        marks.pop(name, None)
        if mark is not None and mark != Mark():
            marks[name] = mark
        copy = self.replace()
        object.__setattr__(copy, "_marks", tuple(sorted(marks.items(), key=lambda pair: pair[0])))
        return copy

    def mark_of(self, name: str) -> Mark:
        """The mark of a field; an empty one where none was given."""
        return dict(self._marks).get(name, Mark())  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, mine_tree = jax.tree_util.tree_flatten(self)
        theirs, theirs_tree = jax.tree_util.tree_flatten(other)
        return mine_tree == theirs_tree and all(
            np.shape(a) == np.shape(b) and bool(np.all(np.asarray(a) == np.asarray(b)))
            for a, b in zip(mine, theirs, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inside = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({inside})"


def without_marks(tree: M) -> M:
    """The same tree with every mark removed, so that marks never cause a recompilation."""
    if isinstance(tree, Module):
        copy = object.__new__(type(tree))
        for f in dataclasses.fields(tree):  # type: ignore[arg-type]
            value = getattr(tree, f.name)
            object.__setattr__(copy, f.name, value if f.metadata.get(STATIC) else without_marks(value))
        object.__setattr__(copy, "_marks", ())
        return copy
    if isinstance(tree, tuple):
        return tuple(without_marks(item) for item in tree)  # type: ignore[return-value]
    return tree
