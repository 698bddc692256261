"""The families of models by name, and their settings. Imports nothing slow, so that help is fast."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from covary._errors import CovaryError, Option, fail

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True)
class Setting:
    """Setting of a family: an option of ``covary fit``, or a value for ``--set NAME=VALUE``.

    Parameters
    ----------
    name
        Its name. The option is ``--name`` with ``-`` for ``_``, unless ``flags`` are given.
    help
        The help text.
    kind
        ``str``, ``int``, ``float`` or ``bool``.
    default
        The value if the option is not given.
    choices
        The allowed values, if they are restricted.
    panel
        The panel of the help that lists it; by default that of the family.
    metavar, show_default, flags
        The placeholder for the value and the default shown in the help, and alternative names of the option.
    minimum, maximum
        The range of a number.
    multiple
        Whether it may be given several times. Its value is then a list.
    argument
        The argument of the Python API that it sets, as used in messages, if its name differs.
    is_path
        Whether it is the name of a file or folder, stored in a configuration file relative to the folder of that file.
    noted
        Whether a model file notes it even if it is not given.
    """

    name: str
    help: str
    kind: type = str
    default: Json = None
    choices: tuple[str, ...] = ()
    panel: str = ""
    metavar: str = ""
    show_default: str = ""
    flags: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    multiple: bool = False
    argument: str = ""
    is_path: bool = False
    noted: bool = True

    @property
    def option(self) -> str:
        """The option of the command."""
        return self.flags[0] if self.flags else "--" + self.name.replace("_", "-")

    @property
    def start(self) -> Json:
        """The value if the option is not given."""
        return [] if self.multiple and self.default is None else self.default

    @property
    def allowed(self) -> str:
        """Description of the values that it may have."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        kind = {bool: "true or false", int: "a whole number", float: "a number"}.get(self.kind, "text")
        edges = (("at least", self.minimum), ("at most", self.maximum))
        return ", ".join([kind, *(f"{word} {edge:g}" for word, edge in edges if edge is not None)])

    def read(self, text: str) -> Json:
        """Return the value that a text stands for; raise a ValueError if it is not allowed."""
        if self.kind is bool and text in ("true", "false"):
            return text == "true"
        if self.kind is str and (not self.choices or text in self.choices):
            return text
        if self.kind in (int, float):
            value = self.kind(text)
            low = -math.inf if self.minimum is None else self.minimum
            high = math.inf if self.maximum is None else self.maximum
            if abs(value) < math.inf and low <= value <= high:
                return value
        raise ValueError(text)


@dataclass(frozen=True)
class Options:
    """Options of a family, and the names the command uses where they differ from Python's.

    Parameters
    ----------
    settings
        The options.
    title
        The panel of the help.
    values
        The option that corresponds to an object, by argument and class: ``("gram", "Dense"): "--method exact"``.
    python
        Arguments without an option.
    remedies
        Advice by name, as worded in the command; see ``covary._errors.Remedy``.
    sources
        The option to blame for an error, by what raised it.
    data
        The names (``who``) of errors about the data.
    """

    settings: tuple[Setting, ...] = ()
    title: str = "Learning"
    values: Mapping[tuple[str, str], str] = field(default_factory=dict)
    python: tuple[str, ...] = ()
    remedies: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class Registration:
    """The module that defines a family as ``FAMILY``, and the light module that defines its ``OPTIONS``, if there are any.

    Another name than ``FAMILY`` follows a colon: ``"package.module:NAME"``.
    """

    module: str
    options: str = ""


GROUP = "covary.families"  # of the entry points by which installed packages add families

# one row for each family
FAMILIES = {
    "gaussian_process": Registration("covary.families.gaussian_process.family", "covary.families.gaussian_process.options"),
}


def register(name: str, module: str, options: str = "") -> None:
    """Register a family of models in this process. Its module is imported when a model of the family is used.

    The command does not run user code: for it, an installed package adds a family by an entry point in the group
    ``covary.families``, named as the family. Its value is the module that defines ``FAMILY`` (and ``OPTIONS``, if there are
    any), or ``module:NAME`` for the family itself or for a :class:`Registration`.

    Parameters
    ----------
    name
        Its name in files and in the command.
    module
        The module that defines ``FAMILY``, a :class:`covary.fits.AbstractFamily`.
    options
        The module that defines ``OPTIONS``, its options in the command. It is imported for ``covary fit --help``.
    """
    row = Registration(module, options)
    if FAMILIES.setdefault(name, row) != row:
        what = Option("name") + f" {name!r} is that of the family in {FAMILIES[name].module}"
        raise fail("fits.register", what, "choose another name", argument="name")


def find(name: str) -> Registration | None:
    """Return the registration of a family: one of the table, or one that an installed package adds; None if there is none."""
    if name not in FAMILIES:
        for point in _installed(name):
            FAMILIES[name] = _registration(point)
    return FAMILIES.get(name)


def registered(name: str) -> Registration:
    """Return the registration of a family, or raise an error."""
    row = find(name)
    if row is None:
        raise fail("covary", Option("family") + f" {name!r} is not known", f"choose one of {', '.join(known())}")
    return row


def known() -> list[str]:
    """Return the names of all families."""
    return sorted({*FAMILIES, *(point.name for point in _installed())})


def _installed(name: str | None = None) -> list[EntryPoint]:
    """Return the entry points of installed packages, which takes milliseconds: never needed for the families of the table."""
    from importlib.metadata import entry_points

    return [point for point in entry_points(group=GROUP) if name is None or point.name == name]


def _registration(point: EntryPoint) -> Registration:
    """Return the registration of a family that an installed package adds."""
    place = f"{point.module}:{point.attr}" if point.attr else point.module
    found = load(point.name, place, object)
    if isinstance(found, Registration):
        return found
    return Registration(place, point.module if hasattr(load(point.name, point.module, object), "OPTIONS") else "")


def load(name: str, place: str, kind: type[T]) -> T:
    """Import ``module`` or ``module:NAME`` for a family, which must be an instance of a class."""
    module, _, attribute = place.partition(":")
    try:
        found = importlib.import_module(module)
        found = getattr(found, attribute) if attribute else found
    except Exception as error:  # whatever the module raises when it is imported
        what = f"the family {name!r} of models cannot be imported from {place} ({type(error).__name__}: {error})"
        raise fail("covary", what, "install or update the package that adds it", argument="family") from error
    if not isinstance(found, kind):
        what = f"the family {name!r} has a {type(found).__name__} at {place}"
        raise fail("covary", what, f"define an instance of {kind.__module__}.{kind.__name__}", argument="family")
    return found


def declared() -> Iterator[tuple[str, Options]]:
    """Yield the families in use that add options to the command, and their options."""
    for name in list(FAMILIES):
        if FAMILIES[name].options:
            yield name, options_of(name)


def options_of(name: str) -> Options:
    """Return the options of a family in the command; none if it does not register any."""
    row = registered(name)
    return load(name, f"{row.options}:OPTIONS", Options) if row.options else Options()


def owner(option: str) -> str | None:
    """Return a family that has an option of the command, including families of installed packages that are not in use."""
    for name in known():
        with suppress(CovaryError):  # a family that cannot be imported
            if any(option in (setting.option, *setting.flags) for setting in options_of(name).settings):
                return name
    return None
