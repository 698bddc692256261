"""Constructors and methods that say in one sentence which argument they do not take."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from covary._checks import WrongArguments, fail
from covary._words import counted

NEAR = 0.6  # similarity from which on a name is taken for a slip of the pen


def explained(cls: type, who: str) -> None:
    """Let the constructor of a class name the class and the argument in place of ``__init__()``.

    What the same argument is called elsewhere is looked up in the class's ``_elsewhere``: a name to use here, or advice.
    """
    plain: Any = cls.__init__

    @functools.wraps(plain)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            plain(self, *args, **kwargs)
        except TypeError:
            wrong = complaint(who, inspect.signature(plain), args, kwargs, getattr(cls, "_elsewhere", {}))
            if wrong is None:
                raise
            raise wrong from None

    cls.__init__ = __init__


def explained_methods(cls: type, who: Callable[[Any], str], names: Iterable[str] = ()) -> None:
    """Let the public methods that a class defines answer wrong arguments as constructors do.

    ``who`` is what errors call an object, ``names`` the methods (all public ones by default). What an argument is called
    elsewhere is looked up in the class's ``_elsewhere_in``.
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
            wrong = complaint(name, inspect.signature(method), args, kwargs, elsewhere, method=method.__name__)
            if wrong is None:
                raise
            raise wrong from None

    return called


def complaint(
    who: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    elsewhere: Mapping[str, str],
    method: str = "",
) -> Exception | None:
    """What is wrong with the arguments of a constructor or a method; None if they fit it."""
    known = dict(list(signature.parameters.items())[1:])  # without self
    if any(p.kind is p.VAR_POSITIONAL for p in known.values()):
        return None
    others = [name for name, p in known.items() if p.kind is p.VAR_KEYWORD]
    known = {name: p for name, p in known.items() if name not in others}
    places = [p.name for p in known.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    for name in kwargs:
        if name not in known and not others:
            return fail(who, f"unknown argument {name!r}", _instead(name, list(known), elsewhere), WrongArguments)
    if len(args) > len(places):
        takes = f"it takes {len(places)}" + (f" ({', '.join(places)})" if places else "")
        named = [name for name in known if name not in places]
        do = f"give the others by name ({named[0]}=...)" if named else "leave the others out"
        do = elsewhere.get("*", do)
        return fail(who, f"{counted(len(args), 'argument')} given by position but {takes}", do, WrongArguments)
    twice = [name for name in places[: len(args)] if name in kwargs]
    if twice:
        return fail(who, f"{twice[0]!r} is given by position and by name", "give it once", WrongArguments)
    needed = [p.name for p in known.values() if p.default is p.empty and p.name not in {*places[: len(args)], *kwargs}]
    if not needed:
        return None
    if method:
        call = "k" if method == "__call__" else method
        required = ", ".join(p.name for p in known.values() if p.default is p.empty)
        return fail(who, f"{needed[0]!r} is missing", f"write {call}({required})", WrongArguments)
    return fail(who, f"{needed[0]!r} is missing", f"write {who.split('.')[-1]}({needed[0]}=...)", WrongArguments)


def _instead(name: str, known: list[str], elsewhere: Mapping[str, str]) -> str:
    """What to write in the place of an argument that is unknown."""
    meant = elsewhere.get(name, "")
    if meant and not meant.isidentifier():
        named = re.findall(r"\b(\w+)=", meant)
        if not named or named[0] in known:  # advice about an argument helps only where it is taken
            return meant
    near = [meant] if meant in known else get_close_matches(name.lower(), known, 1, NEAR)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"choose from {', '.join(known)}" if known else "it takes none"
