"""Parameters: the set each one lives in, its path, and the unconstrained vector that optimisers see.

A field declares its set (``lengthscale = positive(1.0)``) and stores the plain array. Freezing, bounds, tying and priors
are given by *path*: ``kernel.lengthscale``, ``kernel.0.period``, ``likelihood.variance``. In a pattern ``*`` stands for any
part of a name and a lone ``*`` between dots for any number of names, none included.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from jax.core import Tracer
from scipy.linalg import solve_triangular

from covary._checks import CovaryError, as_numbers, fail, shown
from covary._module import CONVERT, HELD, STATIC, Mark, Marked, Module


@dataclasses.dataclass(frozen=True)
class Set:
    """A set of numbers and the map between it and the whole real line."""

    name: str
    unconstrain: Callable[[np.ndarray], np.ndarray]
    constrain: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]  # d constrain / d unconstrained, as a function of the constrained value

    def __reduce__(self) -> Any:
        return _set_by_name, (self.name,)  # sets are compared by identity, also after pickling


REAL = Set("real", lambda v: v, lambda u: u, lambda v: np.ones_like(v))
POSITIVE = Set("positive", np.log, np.exp, lambda v: v)
UNIT = Set("unit", lambda v: np.log(v / (1 - v)), lambda u: 1 / (1 + np.exp(-u)), lambda v: v * (1 - v))


def _set_by_name(name: str) -> Set:
    return {"real": REAL, "positive": POSITIVE, "unit": UNIT}[name]


def plain(value: Any) -> Any:
    """The value as a NumPy float64 array; tracers pass through untouched."""
    if isinstance(value, Tracer):
        return value
    if value is None or isinstance(value, Module | Marked):
        raise CovaryError(f"a number or an array of numbers is needed here, got {value!r}.")
    return np.array(value, dtype=np.float64)


def _declare(space: Set, default: Any, **more: Any) -> Any:
    return dataclasses.field(default=default, metadata={"set": space, CONVERT: plain, **more})  # type: ignore[arg-type]


def positive(default: Any = dataclasses.MISSING, *, held: tuple[float, float] | None = None) -> Any:
    """A field of positive numbers, learned on the log scale.

    With ``held``, a plain number is held; ``learned(...)`` lets it go, between these bounds.
    """
    return _declare(POSITIVE, default) if held is None else _declare(POSITIVE, default, **{HELD: held})


def real(default: Any = dataclasses.MISSING) -> Any:
    """A field of real numbers."""
    return _declare(REAL, default)


def unit_interval(default: Any = dataclasses.MISSING) -> Any:
    """A field of numbers strictly between 0 and 1."""
    return _declare(UNIT, default)


def named(space: Set) -> Any:
    """A field holding a dictionary of numbers of one set, each a parameter under its own name."""
    return dataclasses.field(
        default_factory=dict,
        metadata={"set": space, CONVERT: lambda d: {k: plain(v) for k, v in sorted(dict(d).items())}},
    )


def fixed(value: Any) -> Any:
    """Hold a parameter at ``value``: ``Periodic(period=fixed(1.0))``. Of a kernel, hold every parameter inside.

    Examples
    --------
    >>> from covary.kernels import Periodic
    >>> Periodic(period=fixed(1.0))
    Periodic(lengthscale=1.0, period=fixed(1.0))
    """
    if isinstance(value, Module):
        return freeze(value, list(parameters(value)))
    return Marked(value, Mark(fixed=True))


def bounded(value: Any, lower: float, upper: float) -> Any:
    """Start a parameter at ``value`` and keep it inside [lower, upper] while learning."""
    if not lower < upper:
        raise fail("parameters.bounded", f"the bounds are {lower} and {upper}", "give lower < upper")
    return Marked(value, Mark(bounds=(float(lower), float(upper))))


def learned(value: Any) -> Any:
    """Start a parameter at ``value`` and learn it, where a plain number would be held: ``Matern(nu=learned(2.5))``.

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
    """One named array of a module: where it is, what it holds, where it may go."""

    path: str
    value: np.ndarray
    space: Set
    mark: Mark


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def children(module: Module, prefix: str) -> Iterator[tuple[dataclasses.Field[Any], str, Any]]:
    """Every field that is not structure, with the path of what is inside it and its value."""
    own, ordered = _layout(type(module))
    for f, transparent in ordered:
        value: Any = getattr(module, f.name)
        hidden = transparent
        if hidden and own and isinstance(value, Module):  # a child whose names would collide keeps its own name in the path
            hidden = not own & set(parameters(value))
        yield f, prefix if hidden else _join(prefix, f.name), value


@cache
def _layout(kind: type) -> tuple[set[str], list[tuple[dataclasses.Field[Any], bool]]]:
    """The names of a module's own parameters, and its fields that are not structure: its own before its children."""
    fields = dataclasses.fields(kind)
    own = {f.name for f in fields if f.metadata.get("set") is not None}
    ordered = sorted((f for f in fields if not f.metadata.get(STATIC)), key=lambda f: f.name not in own)
    return own, [(f, bool(f.metadata.get("transparent", False))) for f in ordered]


def parameters(module: Module, prefix: str = "") -> dict[str, Parameter]:
    """Every parameter of a module by path, in a stable order.

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


def rebuild(module: Any, change: Callable[[str, Any, Mark], tuple[Any, Mark]], prefix: str = "") -> Any:
    """The same module with every parameter passed through ``change(path, value, mark) -> (value, mark)``."""
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
    """Whether a path fits a pattern; a lone ``*`` stands for any number of names, none included."""
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


def select(who: str, patterns: str | Iterable[str], paths: Iterable[str]) -> list[str]:
    """The paths that fit any of the patterns; a pattern that fits none is an error that lists what there is."""
    paths = list(paths)
    chosen: list[str] = []
    given = [patterns] if isinstance(patterns, str) or not isinstance(patterns, Iterable) else [*patterns]
    if not all(isinstance(pattern, str) for pattern in given):
        raise fail(who, f"the paths of parameters are {shown(patterns)}", "give text, or a list of texts")
    for pattern in given:
        hit = [p for p in paths if matches(pattern, p)]
        if not hit:
            raise fail(who, f"no parameter is called {pattern!r}", f"choose from {', '.join(paths) or 'none'}")
        chosen += [p for p in hit if p not in chosen]
    return chosen


def set_values(module: Any, values: Mapping[str, Any], *, who: str = "parameters.set_values") -> Any:
    """A copy with parameters replaced by path; ``fixed(...)`` and ``bounded(...)`` are understood. ``who`` begins errors."""
    known, given, values = parameters(module), values, {}
    for pattern, value in given.items():
        values |= dict.fromkeys(select(who, pattern, known), value)

    def change(path: str, value: Any, mark: Mark) -> tuple[Any, Mark]:
        if path not in values:
            return value, mark
        new = values[path]
        if isinstance(new, Marked):
            new, mark = new.value, new.mark
        try:
            return plain(new), mark
        except (TypeError, ValueError, OverflowError):
            raise fail(who, f"{path} is {shown(new)}", "give a number or an array of numbers") from None

    return rebuild(module, change)


def freeze(module: Any, patterns: str | Iterable[str], *, who: str = "parameters.freeze") -> Any:
    """A copy in which the parameters that fit the patterns are held at their values. ``who`` begins errors."""
    chosen = set(select(who, patterns, parameters(module)))
    return rebuild(module, lambda p, v, m: (v, dataclasses.replace(m, fixed=True) if p in chosen else m))


def bound(module: Any, bounds: Mapping[str, tuple[float, float]], *, who: str = "parameters.bound") -> Any:
    """A copy in which parameters are kept inside bounds given by path. ``who`` begins errors."""
    paths = parameters(module)
    box: dict[str, tuple[float, float]] = {}
    if not isinstance(bounds, Mapping):
        raise fail(who, f"the bounds are {shown(bounds)}", "give pairs of numbers by path")
    for pattern, pair in bounds.items():
        ends = as_numbers(who, f"the pair of {pattern!r}", pair)
        if ends.shape != (2,):
            raise fail(who, f"the bounds of {pattern!r} are {shown(pair)}", "give two numbers")
        lower, upper = ends.tolist()
        if not lower < upper:
            raise fail(who, f"the bounds of {pattern!r} are {lower} and {upper}", "give lower < upper")
        box |= dict.fromkeys(select(who, pattern, paths), (lower, upper))
    return rebuild(module, lambda p, v, m: (v, dataclasses.replace(m, bounds=box[p]) if p in box else m))


@dataclasses.dataclass(frozen=True)
class Slot:
    """A stretch of the free vector: the parameters that share it, their set and its place."""

    paths: tuple[str, ...]
    space: Set
    shape: tuple[int, ...]
    start: int
    stop: int
    bounds: tuple[float, float] | None


@dataclasses.dataclass(frozen=True)
class Frame:
    """Coordinates of real parameters that act together: their values, one path after the other, are ``matrix @ u``."""

    paths: tuple[str, ...]
    matrix: np.ndarray  # (k, k), upper triangular


class Packing:
    """The free parameters of a model as one unconstrained vector, and gradients brought back onto it.

    Parameters
    ----------
    model
        The model whose free parameters are packed; those marked fixed stay out.
    tie
        Groups of patterns; the parameters of a group share one value (the first one's start).
    scale
        The natural scale of real parameters by path; the vector holds them divided by it.
    frame
        Coordinates for some of them together, in the place of their scales. They must be free and untied; one with bounds has
        nothing but its scale in its row.
    """

    def __init__(
        self,
        model: Any,
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
            paths = select("learn(tie=...)", group, found)
            shapes = {found[p].value.shape for p in paths}
            if len(shapes) > 1:
                raise fail("learn(tie=...)", f"{', '.join(paths)} have different shapes", "tie parameters of one shape")
            held = [p for p in paths if found[p].mark.fixed]
            if held:
                raise fail("learn(tie=...)", f"{held[0]} is fixed", "tie free parameters only")
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

    def like(self, model: Any, *, tie: Sequence[Sequence[str]] = ()) -> Packing:
        """The packing of another model with the same parameters, in the same coordinates."""
        return Packing(model, tie=tie, scale=self.scale, frame=self.frame)

    def outward(self, u: np.ndarray) -> np.ndarray:
        """From coordinates to parameters on their unconstrained scale; a matrix column by column."""
        out = (u.T * self.units).T
        if self._framed is not None:
            out[self._framed] = self.frame.matrix @ u[self._framed]  # type: ignore[union-attr]
        return out

    def inward(self, free: np.ndarray) -> np.ndarray:
        """The coordinates of parameters on their unconstrained scale."""
        out = free / self.units
        if self._framed is not None:
            out[self._framed] = solve_triangular(self.frame.matrix, free[self._framed])  # type: ignore[union-attr]
        return out

    def onto(self, slope: np.ndarray) -> np.ndarray:
        """A gradient over parameters on their unconstrained scale, as one over the coordinates."""
        out = slope * self.units
        if self._framed is not None:
            out[self._framed] = self.frame.matrix.T @ slope[self._framed]  # type: ignore[union-attr]
        return out

    def names(self) -> list[str]:
        """A name per entry of the vector: the path, with an index where the parameter is an array."""
        out = []
        for s in self.slots:
            many = s.stop - s.start > 1 or s.shape != ()
            out += [f"{s.paths[0]}[{i}]" if many else s.paths[0] for i in range(s.stop - s.start)]
        return out

    def pack(self, model: Any) -> np.ndarray:
        """The unconstrained vector of a model with the same structure."""
        found = parameters(model)
        theta = np.empty(self.size)
        for s in self.slots:
            value = np.asarray(found[s.paths[0]].value, dtype=np.float64)
            if s.space is POSITIVE and np.any(value <= 0):
                raise fail("learn", f"{s.paths[0]} starts at {value}", "start it above zero, or hold it with fixed(...)")
            theta[s.start : s.stop] = s.space.unconstrain(value).ravel()
        return self.inward(theta)

    def unpack(self, theta: np.ndarray) -> Any:
        """The model at an unconstrained vector."""
        values = {}
        free = self.outward(np.asarray(theta, dtype=np.float64))
        for s in self.slots:
            value = s.space.constrain(free[s.start : s.stop]).reshape(s.shape)
            values |= dict.fromkeys(s.paths, value)
        return rebuild(self.model, lambda p, v, m: (values.get(p, v), m))

    def pull(self, model: Any, gradient: Any) -> np.ndarray:
        """The gradient over the vector, from a gradient of the model's shape at ``model``."""
        here, slopes = parameters(model), parameters(gradient)
        out = np.zeros(self.size)
        for s in self.slots:
            for path in s.paths:
                slope = np.asarray(slopes[path].value, dtype=np.float64) * s.space.slope(np.asarray(here[path].value))
                out[s.start : s.stop] += slope.ravel()
        return self.onto(out)

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds users gave, in unconstrained coordinates; infinite where none was given."""
        lower, upper = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        for s in self.slots:
            if s.bounds is not None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    ends = [s.space.unconstrain(np.asarray(b)) / self.units[s.start : s.stop] for b in s.bounds]
                lower[s.start : s.stop] = np.where(np.isfinite(ends[0]), ends[0], -np.inf)
                upper[s.start : s.stop] = np.where(np.isfinite(ends[1]), ends[1], np.inf)
        return lower, upper
