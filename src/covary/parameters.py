"""Parameters: their domains, their paths, and the unconstrained vector that optimisers work on.

A field declares its domain (``lengthscale = positive(1.0)``) and stores the plain array. Parameters are fixed, bounded, tied
and given priors by *path*: ``kernel.lengthscale``, ``kernel.0.period``, ``likelihood.variance``. In a pattern ``*`` matches any
part of a name, and a ``*`` alone between dots matches any number of names, including none.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Generic, overload

import numpy as np
from jax.core import Tracer
from scipy.linalg import solve_triangular

from covary._checks import CovaryError, Option, as_numbers, fail, is_traced, namespace, shown
from covary._module import CONVERT, HELD, STATIC, M, Mark, Marked, Module
from covary._types import Array, ArrayLike
from covary._words import counted


@dataclasses.dataclass(frozen=True)
class Set:
    """Domain of a parameter, and the map between it and the real line."""

    name: str
    unconstrain: Callable[[np.ndarray], np.ndarray]
    constrain: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]  # d constrain / d unconstrained, as a function of the constrained value

    def __reduce__(self) -> tuple[Callable[[str], Set], tuple[str]]:
        return _set_by_name, (self.name,)  # domains are compared by identity, also after pickling


REAL = Set("real", lambda v: v, lambda u: u, lambda v: np.ones_like(v))
Change = Callable[[str, np.ndarray, Mark], tuple[np.ndarray, Mark]]


def _exp(u: np.ndarray) -> np.ndarray:
    """Compute exp(u), in compiled code without overflow: the derivative would be infinite, and zero times it NaN."""
    return namespace(u).exp(u.clip(max=float(np.log(np.finfo(u.dtype).max) // 1)) if is_traced(u) else u)


POSITIVE = Set("positive", lambda v: namespace(v).log(v), _exp, lambda v: v)
UNIT = Set("unit", lambda v: namespace(v).log(v / (1 - v)), lambda u: 1 / (1 + _exp(-u)), lambda v: v * (1 - v))


def _set_by_name(name: str) -> Set:
    return {"real": REAL, "positive": POSITIVE, "unit": UNIT}[name]


def plain(value: ArrayLike | Marked | None) -> np.ndarray:
    """Convert a value to a NumPy float64 array; return tracers unchanged."""
    if isinstance(value, Tracer):
        return value  # type: ignore[return-value]
    if value is None or isinstance(value, Module | Marked):
        raise CovaryError("parameters", f"got {value!r} for a parameter", "give a number or an array of numbers")
    return np.array(value, dtype=np.float64)


def _declare(space: Set, default: Any, **more: tuple[float, float]) -> Any:
    return dataclasses.field(default=default, metadata={"set": space, CONVERT: plain, **more})


def positive(default: Any = dataclasses.MISSING, *, held: tuple[float, float] | None = None) -> Any:
    """Declare a field of positive numbers, learned on the log scale.

    With ``held``, a plain number is fixed, and ``learned(...)`` learns it within these bounds.
    """
    return _declare(POSITIVE, default) if held is None else _declare(POSITIVE, default, **{HELD: held})


def real(default: Any = dataclasses.MISSING) -> Any:
    """Declare a field of real numbers."""
    return _declare(REAL, default)


def unit_interval(default: Any = dataclasses.MISSING) -> Any:
    """Declare a field of numbers strictly between 0 and 1."""
    return _declare(UNIT, default)


def named(space: Set) -> Any:
    """Declare a field for a dictionary of numbers of one domain, whose keys are the names of the parameters."""
    return dataclasses.field(
        default_factory=dict,
        metadata={"set": space, CONVERT: lambda d: {k: plain(v) for k, v in sorted(dict(d).items())}},
    )


@overload
def fixed(value: M) -> M: ...
@overload
def fixed(value: ArrayLike | Marked) -> Marked: ...
def fixed(value: M | ArrayLike | Marked) -> M | Marked:
    """Fix a parameter at ``value``: ``Periodic(period=fixed(1.0))``. Given a kernel, fix all parameters inside it.

    Examples
    --------
    >>> from covary.kernels import Periodic
    >>> Periodic(period=fixed(1.0))
    Periodic(lengthscale=1.0, period=fixed(1.0))
    """
    if isinstance(value, Module):
        return freeze(value, list(parameters(value)))
    return Marked(value, Mark(fixed=True))  # type: ignore[arg-type]


def bounded(value: ArrayLike, lower: float, upper: float) -> Marked:
    """Start a parameter at ``value`` and keep it within [lower, upper] while learning."""
    if not lower < upper:
        raise fail("parameters.bounded", f"the bounds are {lower} and {upper}", "give lower < upper")
    return Marked(value, Mark(bounds=(float(lower), float(upper))))


def learned(value: ArrayLike) -> Marked:
    """Start a parameter at ``value`` and learn it, if a plain number would be fixed: ``Matern(nu=learned(2.5))``.

    Examples
    --------
    >>> from covary.kernels import Matern
    >>> Matern(nu=2.5)
    Matern(lengthscale=1.0, nu=fixed(2.5))
    >>> Matern(nu=learned(2.5))
    Matern(lengthscale=1.0, nu=bounded(2.5, 0.1, 10.0))
    """
    return Marked(value, Mark())


@dataclasses.dataclass(frozen=True)
class Parameter:
    """Parameter of a module: its path, value, domain and mark."""

    path: str
    value: np.ndarray
    space: Set
    mark: Mark


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def children(module: Module, prefix: str) -> Iterator[tuple[dataclasses.Field, str, Any]]:
    """Yield the fields that are not structure, each with the path prefix of its content and its value."""
    own, ordered = _layout(type(module))
    for f, transparent in ordered:
        value: Any = getattr(module, f.name)
        hidden = transparent
        if hidden and own and isinstance(value, Module):  # a child whose names would collide keeps its name in the path
            hidden = not own & set(parameters(value))
        yield f, prefix if hidden else _join(prefix, f.name), value


@cache
def _layout(kind: type) -> tuple[set[str], list[tuple[dataclasses.Field, bool]]]:
    """Return the names of a module's direct parameters, and its fields that are not structure, direct parameters first."""
    fields = dataclasses.fields(kind)
    own = {f.name for f in fields if f.metadata.get("set") is not None}
    ordered = sorted((f for f in fields if not f.metadata.get(STATIC)), key=lambda f: f.name not in own)
    return own, [(f, bool(f.metadata.get("transparent", False))) for f in ordered]


def parameters(module: Module, prefix: str = "") -> dict[str, Parameter]:
    """Return all parameters of a module by path, in a stable order.

    Examples
    --------
    >>> from covary.kernels import Matern52, Periodic
    >>> list(parameters(2.0 * Matern52() + Periodic()))
    ['0.variance', '0.lengthscale', '1.lengthscale', '1.period']
    """
    found: dict[str, Parameter] = {}
    for f, name, value in children(module, prefix):
        space = f.metadata.get("set")
        if space is not None and isinstance(value, dict):
            for key, item in value.items():
                found[_join(prefix, key)] = Parameter(_join(prefix, key), item, space, module.mark_of(key))
        elif space is not None:
            found[name] = Parameter(name, value, space, module.mark_of(f.name))
        elif isinstance(value, Module):
            found |= parameters(value, name)
        elif isinstance(value, tuple):
            for i, item in enumerate(value):
                if isinstance(item, Module):
                    found |= parameters(item, _join(name, str(i)))
    return found


def rebuild(module: M, change: Change, prefix: str = "") -> M:
    """Return a copy of a module with ``change(path, value, mark) -> (value, mark)`` applied to every parameter."""
    copy = object.__new__(type(module))
    marks = dict(module._marks)
    for f in dataclasses.fields(module):
        object.__setattr__(copy, f.name, getattr(module, f.name))
    for f, name, value in children(module, prefix):
        if isinstance(value, dict):
            new: Any = {}
            for key, item in value.items():
                new[key], marks[key] = change(_join(prefix, key), item, module.mark_of(key))
        elif f.metadata.get("set") is not None:
            new, marks[f.name] = change(name, value, module.mark_of(f.name))
            if HELD in f.metadata and marks[f.name] == Mark():
                marks[f.name] = Mark(bounds=f.metadata[HELD])
        elif isinstance(value, Module):
            new = rebuild(value, change, name)
        elif isinstance(value, tuple):
            new = tuple(
                rebuild(item, change, _join(name, str(i))) if isinstance(item, Module) else item for i, item in enumerate(value)
            )
        else:
            new = value
        object.__setattr__(copy, f.name, new)
    object.__setattr__(
        copy, "_marks", tuple(sorted(((k, m) for k, m in marks.items() if m != Mark()), key=lambda pair: pair[0]))
    )
    return copy


def matches(pattern: str, path: str) -> bool:
    """Return whether a path matches a pattern. A ``*`` alone between dots matches any number of names, including none."""
    if pattern == path:
        return True
    if "*" not in pattern:
        return False
    expression = ""
    parts = pattern.split(".")
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        if part == "*" and not last:
            expression += r"(?:[^.]+\.)*"
        elif part == "*":
            expression += r".+"
        else:
            expression += re.escape(part).replace(r"\*", "[^.]*") + ("" if last else r"\.")
    return re.fullmatch(expression, path) is not None


def select(who: str, patterns: str | Iterable[str], paths: Iterable[str], argument: str | None = None) -> list[str]:
    """Return the paths that match any of the patterns. A pattern without a match raises an error that lists the paths."""
    paths = list(paths)
    chosen: list[str] = []
    given = [patterns] if isinstance(patterns, str) or not isinstance(patterns, Iterable) else [*patterns]
    if not all(isinstance(pattern, str) for pattern in given):
        what = f"the paths of parameters are {shown(patterns)}"
        raise fail(who, what, "give a string or a list of strings", argument=argument)
    for pattern in given:
        hit = [p for p in paths if matches(pattern, p)]
        if not hit:
            do = f"choose from {', '.join(paths) or 'none'}"
            raise fail(who, f"no parameter is called {pattern!r}", do, argument=argument)
        chosen += [p for p in hit if p not in chosen]
    return chosen


def set_values(module: M, values: Mapping[str, ArrayLike | Marked], *, who: str = "parameters.set_values") -> M:
    """Return a copy with parameters replaced by path, by values, ``fixed(...)`` or ``bounded(...)``. ``who`` begins errors."""
    known = parameters(module)
    chosen: dict[str, ArrayLike | Marked] = {}
    for pattern, value in values.items():
        chosen |= dict.fromkeys(select(who, pattern, known), value)

    def change(path: str, value: np.ndarray, mark: Mark) -> tuple[np.ndarray, Mark]:
        if path not in chosen:
            return value, mark
        new = chosen[path]
        if isinstance(new, Marked):
            new, mark = new.value, new.mark
        try:
            return plain(new), mark
        except (TypeError, ValueError, OverflowError):
            raise fail(who, f"{path} is {shown(new)}", "give a number or an array of numbers") from None

    return rebuild(module, change)


def freeze(module: M, patterns: str | Iterable[str], *, who: str = "parameters.freeze", argument: str = "patterns") -> M:
    """Return a copy in which the parameters that match the patterns are fixed; ``who`` and ``argument`` are for errors."""
    chosen = set(select(who, patterns, parameters(module), argument))
    return rebuild(module, lambda p, v, m: (v, dataclasses.replace(m, fixed=True) if p in chosen else m))


def bound(module: M, bounds: Mapping[str, tuple[float, float]], *, who: str = "parameters.bound") -> M:
    """Return a copy in which parameters have bounds, given by path. ``who`` begins errors."""
    paths = parameters(module)
    box: dict[str, tuple[float, float]] = {}
    if not isinstance(bounds, Mapping):
        raise fail(who, f"the bounds are {shown(bounds)}", "give pairs of numbers by path", argument="bounds")
    for pattern, pair in bounds.items():
        ends = as_numbers(who, f"the pair of {pattern!r}", pair)
        if ends.shape != (2,):
            raise fail(who, f"the bounds of {pattern!r} are {shown(pair)}", "give two numbers", argument="bounds")
        lower, upper = ends.tolist()
        if not lower < upper:
            what = f"the bounds of {pattern!r} are {lower} and {upper}"
            raise fail(who, what, "give lower < upper", argument="bounds")
        box |= dict.fromkeys(select(who, pattern, paths, "bounds"), (lower, upper))
    return rebuild(module, lambda p, v, m: (v, dataclasses.replace(m, bounds=box[p]) if p in box else m))


@dataclasses.dataclass(frozen=True)
class Slot:
    """Slice of the vector of free parameters: the parameters that share it, their domain and its position."""

    paths: tuple[str, ...]
    space: Set
    shape: tuple[int, ...]
    start: int
    stop: int
    bounds: tuple[float, float] | None


@dataclasses.dataclass(frozen=True)
class Frame:
    """Joint coordinates u of several real parameters: their values, concatenated over the paths, are ``matrix @ u``."""

    paths: tuple[str, ...]
    matrix: np.ndarray  # (k, k), upper triangular


class Packing(Generic[M]):
    """Map between the free parameters of a model and one unconstrained vector, for values and gradients.

    Parameters
    ----------
    model
        The model whose free parameters are packed. Those marked fixed are left out.
    tie
        Groups of patterns. The parameters of a group share one value, which starts at that of the first.
    scale
        The natural scale of real parameters by path. The vector contains them divided by it.
    frame
        Joint coordinates of some of the parameters, used instead of their scales. These parameters must be free and not tied;
        the row of a parameter with bounds must be zero except for its scale.
    """

    def __init__(
        self,
        model: M,
        *,
        tie: Sequence[Sequence[str]] = (),
        scale: Mapping[str, float] | None = None,
        frame: Frame | None = None,
    ) -> None:
        self.model = model
        self.scale = dict(scale or {})
        self.frame = frame
        found = parameters(model)
        leader: dict[str, str] = {}
        for group in tie:
            paths = select("learn(tie=...)", group, found, "tie")
            shapes = {found[p].value.shape for p in paths}
            if len(shapes) > 1:
                what = f"{', '.join(paths)} have different shapes"
                raise fail("learn(tie=...)", what, "tie parameters of one shape", argument="tie")
            held = [p for p in paths if found[p].mark.fixed]
            if held:
                raise fail("learn(tie=...)", f"{held[0]} is fixed", "tie free parameters only", argument="tie")
            first = next((leader.get(p, p) for p in paths if p in leader or p in leader.values()), paths[0])
            for path in paths:
                if path != first:
                    leader |= {p: first for p, old in leader.items() if old == path}
                    leader[path] = first
        slots: list[Slot] = []
        at = 0
        for path, parameter in found.items():
            if parameter.mark.fixed or path in leader:
                continue
            size = int(np.size(parameter.value))
            follow = tuple(p for p, first in leader.items() if first == path)
            limits = [b for p in (path, *follow) if (b := found[p].mark.bounds) is not None]
            bounds = (max(b[0] for b in limits), min(b[1] for b in limits)) if limits else None
            slots.append(Slot((path, *follow), parameter.space, parameter.value.shape, at, at + size, bounds))
            at += size
        self.slots = slots
        self.size = at
        self.units = np.ones(at)  # of every coordinate
        for s in slots:
            self.units[s.start : s.stop] = self.scale.get(s.paths[0], 1.0)
        place = {s.paths[0]: np.arange(s.start, s.stop) for s in slots}
        self._framed = None if frame is None else np.concatenate([place[path] for path in frame.paths])
        if frame is not None:
            self.units[self._framed] = np.diagonal(frame.matrix)

    def like(self, model: M, *, tie: Sequence[Sequence[str]] = ()) -> Packing[M]:
        """Return the packing of another model with the same parameters, in the same coordinates."""
        return Packing(model, tie=tie, scale=self.scale, frame=self.frame)

    def outward(self, u: Array) -> np.ndarray:
        """Convert coordinates to parameters on their unconstrained scale, column by column for a matrix."""
        out = (u.T * self.units).T
        if self.frame is not None:
            framed = self.frame.matrix @ u[self._framed]
            if is_traced(out):
                return out.at[self._framed].set(framed)  # type: ignore[union-attr]  # a tracer
            out[self._framed] = framed
        return out  # type: ignore[return-value]  # a tracer where u is one

    def inward(self, free: np.ndarray) -> np.ndarray:
        """Convert parameters on their unconstrained scale to coordinates."""
        out = free / self.units
        if self._framed is not None:
            out[self._framed] = solve_triangular(self.frame.matrix, free[self._framed])  # type: ignore[union-attr]
        return out

    def onto(self, slope: np.ndarray) -> np.ndarray:
        """Convert a gradient with respect to unconstrained parameters to one with respect to the coordinates."""
        out = slope * self.units
        if self._framed is not None:
            out[self._framed] = self.frame.matrix.T @ slope[self._framed]  # type: ignore[union-attr]
        return out

    def names(self) -> list[str]:
        """Return a name for each entry of the vector: the path, with an index if the parameter is an array."""
        out = []
        for s in self.slots:
            many = s.stop - s.start > 1 or s.shape != ()
            out += [f"{s.paths[0]}[{i}]" if many else s.paths[0] for i in range(s.stop - s.start)]
        return out

    def pack(self, model: Module) -> np.ndarray:
        """Return the unconstrained vector of a model with the same structure."""
        found = parameters(model)
        theta = np.empty(self.size)
        for s in self.slots:
            value = np.asarray(found[s.paths[0]].value, dtype=np.float64)
            if s.space is POSITIVE and np.any(value <= 0):
                raise fail("learn", f"{s.paths[0]} starts at {value}", "start it above zero, or fix it with fixed(...)")
            theta[s.start : s.stop] = s.space.unconstrain(value).ravel()
        return self.inward(theta)

    def unpack(self, theta: Array) -> M:
        """Return the model at an unconstrained vector, which may be a JAX tracer."""
        values = {}
        theta = theta if is_traced(theta) else np.asarray(theta, dtype=np.float64)
        if theta.shape != (self.size,):
            what = Option("theta") + f" has shape {theta.shape} but the model has {counted(self.size, 'free parameter')}"
            raise fail("Packing.unpack", what, "give one number for each, in the order of names()")
        free = self.outward(theta)
        for s in self.slots:
            value = s.space.constrain(free[s.start : s.stop]).reshape(s.shape)
            values |= dict.fromkeys(s.paths, value)
        return rebuild(self.model, lambda p, v, m: (values.get(p, v), m))

    def pull(self, model: Module, gradient: Module) -> np.ndarray:
        """Return the gradient with respect to the vector, given the gradient at ``model`` as a module of the same structure."""
        here, slopes = parameters(model), parameters(gradient)
        out = np.zeros(self.size)
        for s in self.slots:
            for path in s.paths:
                slope = np.asarray(slopes[path].value, dtype=np.float64) * s.space.slope(np.asarray(here[path].value))
                out[s.start : s.stop] += slope.ravel()
        return self.onto(out)

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the user's bounds in unconstrained coordinates, infinite for parameters without bounds."""
        lower, upper = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        for s in self.slots:
            if s.bounds is not None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    ends = [s.space.unconstrain(np.asarray(b)) / self.units[s.start : s.stop] for b in s.bounds]
                lower[s.start : s.stop] = np.where(np.isfinite(ends[0]), ends[0], -np.inf)
                upper[s.start : s.stop] = np.where(np.isfinite(ends[1]), ends[1], np.inf)
        return lower, upper
