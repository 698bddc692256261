"""Error messages for wrong arguments of constructors and methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, ParamSpec, TypeVar

from covary._checks import WrongArguments, check_object, fail, shown
from covary._errors import Option, Text, phrase
from covary._words import counted

NEAR = 0.6  # similarity above which a name is treated as a misspelling
P = ParamSpec("P")
R = TypeVar("R")


def explained(cls: type, who: str) -> None:
    """Make the errors of a constructor refer to the class and the argument instead of ``__init__()``.

    The class attribute ``_elsewhere`` maps names used by other libraries to the name used here, or to advice.
    """
    plain: Any = cls.__init__

    @functools.wraps(plain)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            plain(self, *args, **kwargs)
        except TypeError:
            wrong = complaint(who, _without_self(plain), args, kwargs, getattr(cls, "_elsewhere", {}))
            if wrong is None:
                raise
            raise wrong from None

    cls.__init__ = __init__


def explained_function(who: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a function the same errors for wrong arguments; its signature and documentation are kept."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # from inside the function
                wrong = complaint(who, inspect.signature(function), args, kwargs, {}, method=function.__name__)
                if wrong is None:
                    raise
                raise wrong from None

        return called

    return decorated


def explained_methods(cls: type, who: Callable[[Any], str], names: Iterable[str] = ()) -> None:
    """Give the public methods of a class the same errors for wrong arguments as its constructor.

    ``who`` returns the name of an object in messages; ``names`` are the methods (all public ones by default). The class
    attribute ``_elsewhere_in`` maps the argument names of other libraries to the names used here, or to advice.
    """
    for name in [*names] or [n for n, value in vars(cls).items() if inspect.isfunction(value) and not n.startswith("_")]:
        setattr(cls, name, _explained_method(cls, vars(cls)[name], who))


def _explained_method(cls: type, method: Any, who: Callable[[Any], str]) -> Any:
    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from inside the method
            if not isinstance(self, cls):
                do = f"write {cls.__name__}().{method.__name__}(...)"
                raise fail(f"{cls.__name__}.{method.__name__}", "it is called on the class", do, WrongArguments) from None
            name = who(self) if method.__name__ == "__call__" else f"{who(self)}.{method.__name__}"
            elsewhere = getattr(self, "_elsewhere_in", {})
            wrong = complaint(name, _without_self(method), args, kwargs, elsewhere, method=method.__name__)
            if wrong is None:
                raise
            raise wrong from None

    return called


def _without_self(method: Callable[..., R]) -> inspect.Signature:
    signature = inspect.signature(method)
    return signature.replace(parameters=[*signature.parameters.values()][1:])


def complaint(
    who: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    elsewhere: Mapping[str, Text],
    method: str = "",
) -> Exception | None:
    """Return the error for arguments that do not fit the signature of a function, or None if they do."""
    known = dict(signature.parameters)
    if any(p.kind is p.VAR_POSITIONAL for p in known.values()):
        return None
    others = [name for name, p in known.items() if p.kind is p.VAR_KEYWORD]
    known = {name: p for name, p in known.items() if name not in others}
    places = [p.name for p in known.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    for name in kwargs:
        if name not in known and not others:
            what = f"unknown argument {name!r}"
            return fail(who, what, _instead(name, list(known), elsewhere), WrongArguments, argument=name)
    if len(args) > len(places):
        takes = f"it takes {len(places)}" + (f" ({', '.join(places)})" if places else "")
        named = [name for name in known if name not in places]
        do = f"give the others by name ({named[0]}=...)" if named else "leave the others out"
        do = elsewhere.get("*", do)
        return fail(who, f"{counted(len(args), 'argument')} given by position but {takes}", do, WrongArguments)
    twice = [name for name in places[: len(args)] if name in kwargs]
    if twice:
        return fail(who, f"{twice[0]!r} is given by position and by name", "give it once", WrongArguments, argument=twice[0])
    needed = [p.name for p in known.values() if p.default is p.empty and p.name not in {*places[: len(args)], *kwargs}]
    if not needed:
        return None
    if method:
        call = "k" if method == "__call__" else method
        required = ", ".join(p.name for p in known.values() if p.default is p.empty)
        return fail(who, f"{needed[0]!r} is missing", f"write {call}({required})", WrongArguments, argument=needed[0])
    what = f"{needed[0]!r} is missing"
    return fail(who, what, f"write {who.split('.')[-1]}({needed[0]}=...)", WrongArguments, argument=needed[0])


def _instead(name: str, known: list[str], elsewhere: Mapping[str, Text]) -> Text:
    """Return advice on what to write instead of an unknown argument."""
    meant = elsewhere.get(name, "")
    if not isinstance(meant, str) or (meant and not meant.isidentifier()):
        named = [part.name for part in phrase(meant).parts if isinstance(part, Option)]
        if not named or named[0] in known:  # advice about an argument is useful only if this signature has it
            return meant
        meant = ""
    near = [meant] if meant in known else get_close_matches(name.lower(), known, 1, NEAR)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"choose from {', '.join(known)}" if known else "leave it out: it takes no arguments"


def check_kind(who: str, name: str, value: object, kinds: tuple[type, ...], example: str, others: Iterable[str] = ()) -> None:
    """Raise an error unless a value is an instance of one of these base classes.

    The advice is to write the subclass, or one of the ``others``, that text or the name of a function resembles, else
    ``example``.
    """
    if isinstance(value, kinds):
        return
    check_object(who, name, value)
    text = value if isinstance(value, str) else value.__name__ if inspect.isfunction(value) else ""
    known = {kind.__name__.lower(): kind.__name__ for base in kinds for kind in _subclasses(base)}
    known |= {other.lower(): other for other in others}
    near = get_close_matches(text.lower().replace("_", "").replace(" ", ""), known, 1, NEAR)
    do = "write " + Option(name, f"{known[near[0]]}(...)") if near else "give an object such as " + Option(name, example)
    what = "a function" if inspect.isfunction(value) else shown(value)
    raise fail(who, Option(name) + f" is {what}", do, WrongArguments)


def _subclasses(kind: type) -> Iterator[type]:
    """Yield covary's public subclasses of a class, direct and indirect."""
    for other in kind.__subclasses__():
        if other.__module__.startswith("covary.") and not other.__name__.startswith(("_", "Abstract")):
            yield other
        yield from _subclasses(other)
