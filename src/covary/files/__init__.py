"""Model files (``.covary``): a zip archive of one JSON page and plain arrays. No pickle; loading executes nothing.

A file holds a :class:`covary.fits.Fit`: its family, the family's own state, columns, target, scale, classes, method and origin.
:func:`write_fit` and :func:`read_fit` write and read it; :func:`save` and :func:`load` do the same for estimators.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covary._arguments import explained_function
from covary._checks import CovaryError, fail
from covary._errors import Option, phrase
from covary.files.container import PAGE as PAGE
from covary.files.container import SCHEMA as SCHEMA
from covary.files.container import BadFile as BadFile
from covary.files.container import NeedsFunctions as NeedsFunctions
from covary.files.container import bad as bad
from covary.files.container import is_model as is_model
from covary.files.container import read as read
from covary.files.container import write as write

if TYPE_CHECKING:
    import jax

    from covary.files.pages import Page
    from covary.fits import Fit, Fitted, Model


@explained_function("save")
def save(model: Model, path: str | os.PathLike[str], *, factor: bool | None = None) -> None:
    """Write a fitted model to a file atomically.

    Parameters
    ----------
    model
        A fitted estimator (a :class:`covary.fits.AbstractEstimator`), or a :class:`covary.fits.Fit`.
    path
        The file to write, by convention ``model.covary``.
    factor
        Whether to store the Cholesky factor of the covariance matrix (4 n² bytes) rather than recompute it on loading.
        By default it is stored if it takes at most 64 MiB (n ≤ 4,096).

    Examples
    --------
    >>> import tempfile
    >>> from covary import GPRegressor, load
    >>> model = GPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.covary")
    ...     again = load(f"{folder}/model.covary")
    >>> bool((again.predict([[0.5]]) == model.predict([[0.5]])).all())
    True
    """
    from covary.fits import AbstractEstimator, of

    fit, name = of(model, "save"), type(model).__name__
    if fit is not model and not (isinstance(model, AbstractEstimator) and fit.origin.estimator == name):
        do = f"derive {name} from covary.fits.AbstractEstimator, and set Origin.estimator to its name"
        raise fail("save", f"load could not return a {name}", do)
    write_fit(fit, path, factor=factor)


@explained_function("load")
def load(path: str | os.PathLike[str], *, functions: Mapping[str, Callable[..., jax.Array]] | None = None) -> Any:
    """Load a model written by :func:`save`, in this or another process; its predictions are bit-identical.

    Parameters
    ----------
    path
        The file.
    functions
        Your own functions used by the model's kernels, means and likelihoods, by name. A file holds only their names.

    Returns
    -------
    The estimator, or the :class:`covary.fits.Fit` if it was not made by an estimator.
    """
    fit = read_fit(path, functions=functions)
    with _blaming(path):
        return _estimator(fit) if fit.origin.estimator else fit


def _estimator(fit: Fit) -> Fitted:
    """Return the estimator of a fit."""
    from covary.fits import AbstractEstimator, family_of

    name = fit.origin.estimator
    module = family_of(fit).estimators[name]
    found = getattr(importlib.import_module(module), name, None)
    if not (isinstance(found, type) and issubclass(found, AbstractEstimator)):
        do = "derive it, or use covary.files.read_fit"
        raise fail("load", f"{module}.{name} is not a subclass of covary.fits.AbstractEstimator", do)
    return found.from_fit(fit)


def write_fit(fit: Fit, path: str | os.PathLike[str], *, factor: bool | None = None) -> None:
    """Write a fit to a file atomically; see :func:`save`."""
    from covary.files.pages import page_of
    from covary.fits import family_of

    known = family_of(fit).estimators
    if fit.origin.estimator and fit.origin.estimator not in known:
        what = f"the family {fit.family!r} has no estimator {fit.origin.estimator!r}"
        raise fail("save", what, f"give one of {', '.join(known)}" if known else "add it to its estimators")
    stored = page_of(fit, factor=factor)
    write(path, fit.origin.estimator or fit.family, stored.page, stored.arrays)


def read_fit(path: str | os.PathLike[str], *, functions: Mapping[str, Callable[..., jax.Array]] | None = None) -> Fit:
    """Read a fit from a file; see :func:`load`.

    Examples
    --------
    >>> import tempfile
    >>> from covary import GPRegressor
    >>> model = GPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.covary")
    ...     fit = read_fit(f"{folder}/model.covary")
    >>> fit.family, fit.origin.estimator, fit.target
    ('gaussian_process', 'GPRegressor', ('y',))
    """
    given: dict[str, Callable[..., jax.Array]] = (
        dict(functions or {}) if isinstance(functions, Mapping | None) else {"": functions}
    )
    if not all(name and isinstance(name, str) and callable(f) for name, f in given.items()):
        what = Option("functions") + " is not a dict of functions by name"
        raise fail("load", what, "give " + Option("functions", "{'name': function}"))
    if not isinstance(path, str | os.PathLike):
        raise BadFile("load", f"the path is of type {type(path).__name__}", "give the name of a file", argument="path")
    kind, page, arrays = read(path)
    with _blaming(path):
        family, estimator = _family_of_file(path, kind, page)
    used = page.get("functions", [])
    with _blaming(path):
        lacking = [str(name)[:60] for name in used if name not in given]
    if lacking:
        inside = ", ".join(f"{name!r}: {name}" for name in lacking[:8])
        named = f"the function{'s' if len(lacking) > 1 else ''} {', '.join(map(repr, lacking[:8]))}"
        what = f"{str(path)!r} uses {named} of the program that saved it"
        raise NeedsFunctions("load", what, "pass " + Option("functions", f"{{{inside}}}"))
    from covary.files.pages import fit_of

    with _blaming(path):  # files that the model refers to may have been moved with it
        return fit_of(page, arrays, given, str(Path(path).resolve().parent), family, estimator)


def _family_of_file(path: str | os.PathLike[str], kind: str, page: Page) -> tuple[str, str]:
    """Return the family and estimator (or "") of a file; ``kind`` is the estimator if there is one, else the family."""
    from covary._families import find
    from covary.files.pages import OLDEST
    from covary.fits.family import family

    name = page.get("family", OLDEST)
    if isinstance(name, str):
        if find(name) is None:
            what = f"holds a model of the family {name[:60]!r}, which is not installed"
            raise bad(path, what, "install the package that adds it, or load it with a newer covary")
        if kind == name:
            return name, ""
        if kind in family(name).estimators:
            return name, kind
    raise bad(path, f"holds a {kind[:60]!r}, which this version of covary cannot read", "load it with a newer covary")


@contextmanager
def _blaming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors about the content of a file into errors that name the file."""
    try:
        yield
    except BadFile:
        raise
    except CovaryError as error:
        what = phrase(error.what)
        if len(what) > 400:  # a file may hold texts of any length
            what = phrase(f"{what[:300]} ... {what[-100:]}")
        source = "" if error.who == "load" else f"{error.who}: "
        raise BadFile("load", f"{str(path)!r} cannot be used: {source}" + what, error.do, argument="path") from None
    except MemoryError:
        raise bad(path, "needs more memory than is available") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        raise bad(path, f"holds entries that do not fit together ({type(error).__name__})") from None
