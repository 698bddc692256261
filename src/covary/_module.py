"""Modules: frozen dataclasses that are also JAX pytrees.

A subclass of :class:`Module` becomes a frozen dataclass and is registered with JAX. Array-valued fields are declared with
their domain, such as the positive numbers (see :mod:`covary.parameters`). Other modules and tuples of modules are children,
and all other fields are static structure. Constructors accept *marks* (``fixed(1.0)``, ``bounded(1.0, 0.1, 10.0)``): the
field then stores the plain value and the mark is stored separately, so that formulas never see a wrapper.

Equinox is not used because importing it takes 0.3 s of a 1 s budget; see ``docs/decisions/0001-own-module.md``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

import jax
import numpy as np

from covary._arguments import explained
from covary._checks import CovaryError, check_object, fail, shown
from covary._types import ArrayLike

M = TypeVar("M", bound="Module")
Structure = tuple[tuple[Hashable, ...], tuple[tuple[str, "Mark"], ...]]  # the static fields of a module, and its marks

STATIC = "static"  # metadata key: the field is structure, not a number
CONVERT = "convert"  # metadata key: callable applied to the value at construction
HELD = "held"  # metadata key: a plain number is fixed; the bounds within which it is learned if requested


def static(default: Any = dataclasses.MISSING, *, convert: Callable[..., Any] | None = None) -> Any:
    """Declare a field that is part of the structure (hashable, compared, never differentiated)."""
    return dataclasses.field(default=default, metadata={STATIC: True, CONVERT: convert})


def child(default: Any = dataclasses.MISSING, *, transparent: bool = False) -> Any:
    """Declare a field for a module or a tuple of modules; ``transparent`` children add no name to parameter paths."""
    if isinstance(default, Module):  # frozen, so one instance can be the default of all
        return dataclasses.field(default_factory=lambda: default, metadata={"transparent": transparent})
    return dataclasses.field(default=default, metadata={"transparent": transparent})


@dataclasses.dataclass(frozen=True)
class Mark:
    """Mark of a field: fixed, or kept within bounds. A field with neither is learned."""

    fixed: bool = False
    bounds: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Marked:
    """Value to be assigned to a field, together with its mark."""

    value: ArrayLike
    mark: Mark

    def __repr__(self) -> str:
        inner = repr(self.value)
        if self.mark.bounds is not None:
            inner = f"bounded({inner}, {self.mark.bounds[0]!r}, {self.mark.bounds[1]!r})"
        return f"fixed({inner})" if self.mark.fixed else inner


@dataclass_transform(frozen_default=True)
class Module:
    """Base class of records of numbers and structure: kernels, means, likelihoods, inference methods."""

    if TYPE_CHECKING:  # set below, for every class and instance
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]
        _dynamic_names: ClassVar[tuple[str, ...]]

        @property
        def _marks(self) -> tuple[tuple[str, Mark], ...]: ...

    def __init_subclass__(cls, **kwargs: bool) -> None:
        super().__init_subclass__(**kwargs)
        _check_author(cls)
        dataclasses.dataclass(frozen=True, repr=False, eq=False)(cls)
        cls.__setattr__ = _unchanging
        explained(cls, cls._named())
        fields = dataclasses.fields(cls)
        dynamic = tuple(f.name for f in fields if not f.metadata.get(STATIC))
        fixed_structure = tuple(f.name for f in fields if f.metadata.get(STATIC))
        cls._dynamic_names = dynamic

        def flatten_with_keys(m: Module) -> tuple[tuple[tuple[Hashable, Any], ...], Structure]:
            keyed = tuple((jax.tree_util.GetAttrKey(name), getattr(m, name)) for name in dynamic)
            return keyed, (tuple(getattr(m, name) for name in fixed_structure), m._marks)

        def flatten(m: Module) -> tuple[tuple[Any, ...], Structure]:
            return tuple(getattr(m, name) for name in dynamic), (
                tuple(getattr(m, name) for name in fixed_structure),
                m._marks,
            )

        def unflatten(aux: Structure, children: Iterable) -> Module:
            m = object.__new__(cls)
            for name, value in zip(dynamic, children, strict=True):
                object.__setattr__(m, name, value)
            for name, value in zip(fixed_structure, aux[0], strict=True):
                object.__setattr__(m, name, value)
            object.__setattr__(m, "_marks", aux[1])
            return m

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)

    @classmethod
    def _named(cls) -> str:
        """Return the name of the class in errors: ``kernels.Matern52``, or the plain name of a user-defined class."""
        rooms = cls.__module__.split(".")
        return f"{rooms[1]}.{cls.__name__}" if rooms[0] == "covary" and len(rooms) > 2 else cls.__name__

    def __post_init__(self) -> None:
        marks: dict[str, Mark] = {}
        for f in dataclasses.fields(self):
            object.__setattr__(self, f.name, self._taken(f, getattr(self, f.name), marks))
        self._remember(marks)

    def _taken(self, f: dataclasses.Field, value: Any, marks: dict[str, Mark]) -> Any:
        """Return the plain value of a field, after adding its mark, if any, to ``marks``."""
        check_object(self._named(), f.name, value)
        if isinstance(value, Marked):
            marks[f.name], value = value.mark, value.value
        elif isinstance(value, dict):
            marks |= {key: item.mark for key, item in value.items() if isinstance(item, Marked)}
            value = {key: item.value if isinstance(item, Marked) else item for key, item in value.items()}
        elif HELD in f.metadata:
            marks.setdefault(f.name, Mark(fixed=True))
        if HELD in f.metadata and marks[f.name] == Mark():
            marks[f.name] = Mark(bounds=f.metadata[HELD])
        if f.metadata.get(STATIC) and isinstance(value, np.generic):
            value = value.item()  # structure is printed, hashed and compared as plain Python
        if np.ma.is_masked(value):
            raise fail(self._named(), f"{f.name} has masked entries", "give a number for each", argument=f.name)
        convert = f.metadata.get(CONVERT)
        if convert is None:
            return value
        try:
            return convert(value)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, CovaryError) and "set" not in f.metadata:
                raise
            do = "give a number or an array of numbers" if "set" in f.metadata else "give a value that the documentation allows"
            raise fail(self._named(), f"{f.name} is {shown(value)}", do, argument=f.name) from None

    def _remember(self, marks: dict[str, Mark]) -> None:
        some = sorted((pair for pair in marks.items() if pair[1] != Mark()), key=lambda pair: pair[0])
        object.__setattr__(self, "_marks", tuple(some))

    def replace(self: M, **changes: Any) -> M:
        """Return a copy with some fields replaced. Marks are kept unless the new value has one."""
        marks = dict(self._marks)
        copy = object.__new__(type(self))
        for f in dataclasses.fields(self):
            value = self._taken(f, changes[f.name], marks) if f.name in changes else getattr(self, f.name)
            object.__setattr__(copy, f.name, value)
        copy._remember(marks)
        return copy

    def with_mark(self: M, name: str, mark: Mark | None) -> M:
        """Return a copy in which the field ``name`` has this mark; None removes it."""
        marks = dict(self._marks)
        marks.pop(name, None)
        if mark is not None and mark != Mark():
            marks[name] = mark
        copy = self.replace()
        copy._remember(marks)
        return copy

    def mark_of(self, name: str) -> Mark:
        """Return the mark of a field, an empty one if none was given."""
        return dict(self._marks).get(name, Mark())

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
        inside = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
        return f"{type(self).__name__}({inside})"


def _unchanging(module: Module, name: str, value: object) -> None:
    do = f"write replace({name}=...), which gives a copy"
    raise dataclasses.FrozenInstanceError(f"{module._named()}: {name} cannot be assigned; {do}.")


def _check_author(cls: type) -> None:
    """Check a user-defined class: add missing annotations to its fields, and raise an error if it has a constructor."""
    own = vars(cls)
    if "__init__" in own:
        what = "the class defines __init__, but a module is a frozen dataclass"
        raise fail(cls.__name__, what, "declare its numbers as fields instead, such as lengthscale: Any = positive(1.0)")
    declared = own.get("__annotations__", {})
    bare = [name for name, value in own.items() if isinstance(value, dataclasses.Field) and name not in declared]
    if bare:
        cls.__annotations__ = {**declared, **dict.fromkeys(bare, Any)}


def modules(tree: Module | tuple) -> Iterator[Module]:
    """Yield a module and all modules inside it."""
    if isinstance(tree, Module):
        yield tree
        tree = tuple(getattr(tree, f.name) for f in dataclasses.fields(tree))
    if isinstance(tree, tuple):
        for item in tree:
            yield from modules(item)


def without_marks(tree: M) -> M:
    """Return a copy of a tree without marks, so that marks never cause a recompilation."""
    if isinstance(tree, Module):
        copy = object.__new__(type(tree))
        for f in dataclasses.fields(tree):
            value = getattr(tree, f.name)
            object.__setattr__(copy, f.name, value if f.metadata.get(STATIC) else without_marks(value))
        object.__setattr__(copy, "_marks", ())
        return copy
    if isinstance(tree, tuple):
        return tuple(without_marks(item) for item in tree)  # type: ignore[return-value]
    return tree


class Numbers:
    """Declared type of a module's parameters: ``lengthscale: Numbers = positive(1.0)``.

    Reading one gives an array. It may be set to anything array-like, to ``fixed(...)`` or to ``bounded(...)``.
    """

    if TYPE_CHECKING:

        def __get__(self, instance: Module, owner: type[Module]) -> np.ndarray: ...

        def __set__(self, instance: Module, value: ArrayLike | Marked) -> None: ...
