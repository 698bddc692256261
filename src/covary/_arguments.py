"""Constructors that say in one sentence which argument they do not take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
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


def complaint(
    who: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], elsewhere: Mapping[str, str]
) -> Exception | None:
    """What is wrong with the arguments of a constructor; None if they fit it."""
    known = dict(list(signature.parameters.items())[1:])  # without self
    places = [p.name for p in known.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in known.values()):
        return None
    for name in kwargs:
        if name not in known:
            return fail(who, f"unknown argument {name!r}", _instead(name, list(known), elsewhere), WrongArguments)
    if len(args) > len(places):
        takes = f"it takes {len(places)}" + (f" ({', '.join(places)})" if places else "")
        others = [name for name in known if name not in places]
        do = f"give the others by name ({others[0]}=...)" if others else "leave the others out"
        do = elsewhere.get("*", do)
        return fail(who, f"{counted(len(args), 'argument')} given by position but {takes}", do, WrongArguments)
    twice = [name for name in places[: len(args)] if name in kwargs]
    if twice:
        return fail(who, f"{twice[0]!r} is given by position and by name", "give it once", WrongArguments)
    needed = [p.name for p in known.values() if p.default is p.empty and p.name not in {*places[: len(args)], *kwargs}]
    return (
        fail(who, f"{needed[0]!r} is missing", f"write {who.split('.')[-1]}({needed[0]}=...)", WrongArguments)
        if needed
        else None
    )


def _instead(name: str, known: list[str], elsewhere: Mapping[str, str]) -> str:
    """What to write in the place of an argument that is unknown."""
    meant = elsewhere.get(name, "")
    if meant and not meant.isidentifier():
        return meant
    near = [meant] if meant in known else get_close_matches(name.lower(), known, 1, NEAR)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"choose from {', '.join(known)}" if known else "it takes none"
