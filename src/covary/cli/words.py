"""Advice in the words of the command: what the library says of arguments, said of options."""

from __future__ import annotations

import re

OPTIONS = {
    "likelihood": "--likelihood",
    "inference": "--inference",
    "method": "--method",
    "link": "--link",
    "objective": "--objective",
    "kernel": "--kernel",
    "missing": "--missing",
    "categories": "--categories",
    "seasonality": "--seasonality",
    "n_restarts": "--restarts",
    "max_time": "--max-time",
    "random_state": "--seed",
    "noise_variance": "--noise-column",
    "sample_weight": "--weight-column",
    "size": "--size-column",
}
PYTHON = (
    "mean",
    "multi_class",
    "class_kernels",
    "class_weight",
    "local_errors",
    "noise",
    "fixed",
    "bounds",
    "priors",
    "tolerance",
)
PHRASES = {
    "Check the units (variance, not standard deviation), or let the noise be learned: leave noise and fixed out.": (
        "Check --noise-column (standard deviations, not variances), or leave it out: the noise is then learned."
    ),
    "noise_variance per row": "--noise-column",
    "in a kernel of your own": "in --kernel",
    "give n_restarts": "give --restarts",
}
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[\w.+-]+)"
_ALSO = r"(?:(?:, or | or |, )(?:'[^']*'|\"[^\"]*\"))*"  # likelihood='student_t' or 'heteroscedastic'
_GIVEN = re.compile(rf"(?P<call>\bGP\w+\([^()]*\))|(?P<told>\b[Ii]n Python,? )?\b(?P<name>[a-z_]+)=(?P<value>{_VALUE}{_ALSO})")


def in_options(text: str) -> str:
    """Arguments of the library as options of the command; what only Python can do is said to be so.

    Examples
    --------
    >>> in_options("Use likelihood='student_t' or 'heteroscedastic', or transform y.")
    'Use --likelihood student_t or heteroscedastic, or transform y.'
    >>> in_options("Allow more: a sum of kernels, mean='linear', or a missing input.")
    "Allow more: a sum of kernels, mean='linear' (in Python), or a missing input."
    """
    for words, others in PHRASES.items():
        text = text.replace(words, others)
    return _GIVEN.sub(_said, text)


def _said(found: re.Match[str]) -> str:
    name, whole = found["name"], found[0]
    if found["call"] is not None or found["told"] is not None:
        return whole
    if name in PYTHON:
        return f"{whole} (in Python)"
    if name not in OPTIONS:
        return whole
    value = found["value"]
    value = re.sub(r"[\[\]'\" ]", "", value) if value.startswith("[") else re.sub(r"['\"]", "", value)
    return f"{OPTIONS[name]} {value}"
