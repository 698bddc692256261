"""Descriptions of data sets in one line of plain text."""

from __future__ import annotations

import re

SIGNS = {  # mathematical commands in docstrings
    "varepsilon": "ε",
    "sim": "~",
    "mid": "|",
    "sum": "Σ",
    "ell": "ℓ",
    "bigl": "",
    "bigr": "",
    "mathrm": "",
    "alpha": "α",
    "delta": "δ",
    "mu": "μ",
    "pi": "π",
    "sigma": "σ",
    "theta": "θ",
}


def function(name: str) -> str:
    """Return the name of the function of :mod:`covary.datasets` that generates or loads a data set."""
    from covary.datasets.catalogue import GENERATORS, LOADERS

    found = LOADERS[name] if name in LOADERS else GENERATORS[name][1]
    return getattr(found, "func", found).__name__


def first_line(name: str) -> str:
    """Return the first line of the docstring of a data set, without mathematical markup."""
    import covary.datasets

    return plainly((getattr(covary.datasets, function(name)).__doc__ or "").strip().splitlines()[0])


def plainly(text: str) -> str:
    r"""Convert a line of a docstring to plain text for a terminal.

    Examples
    --------
    >>> plainly(r"A chirp, :math:`y = \tfrac12\sin\bigl(2\pi x^2\bigr) + \varepsilon`.")
    'A chirp, y = ½ sin(2π x^2) + ε.'
    """
    text = re.sub(r":\w+:`(?:make_)?([^`]*)`", r"\1", text.replace("\\tfrac12", "½")).replace("`", "")
    text = re.sub(r"(?<=[\w½])\\(sin|exp|tan)", r" \\\1", text)
    text = re.sub(r"\\(sin|exp|tan)(?=\\(?!big))", r"\\\1 ", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda found: SIGNS.get(found[1], found[1]), text)
    return re.sub(r"\{(\w+)\}", r"\1", text).replace("{", "(").replace("}", ")").replace("\\", "")
