"""The families of models by name, and the options they add to the command. Imports nothing slow, so that help is fast."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from covary._errors import Option, fail

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True)
class Setting:
    """Setting of a family: an option of ``covary fit``.

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
    """Family: the module that defines it as ``FAMILY``, and the light module that defines its ``OPTIONS``, if there are any."""

    module: str
    options: str = ""


# one row for each family
FAMILIES = {
    "gaussian_process": Registration("covary.families.gaussian_process.family", "covary.families.gaussian_process.options"),
}


def register(name: str, module: str, options: str = "") -> None:
    """Register a family of models. Its module is imported when a model of the family is used.

    An installed package can register a family without being imported, by an entry point in the group ``covary.families``. The
    name of the entry point is that of the family and its value is the module.

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
    if name not in FAMILIES and name in (found := _installed()):
        register(name, found[name])
    return FAMILIES.get(name)


def known() -> list[str]:
    """Return the names of all families."""
    return sorted({*FAMILIES, *_installed()})


def _installed() -> dict[str, str]:
    """Return the modules of the families that installed packages add, by name."""
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group="covary.families")}


def declared() -> Iterator[tuple[str, Options]]:
    """Yield the families that add options to the command, and their options."""
    for name in list(FAMILIES):
        if FAMILIES[name].options:
            yield name, options_of(name)


def options_of(name: str) -> Options:
    """Return the options of a family in the command; none if it does not register any."""
    row = FAMILIES.get(name)
    return importlib.import_module(row.options).OPTIONS if row is not None and row.options else Options()
