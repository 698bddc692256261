"""Errors and advice in the words of the command: what the library says of arguments and objects, said of options.

Nothing else translates: errors pass through here where they end the command (:func:`covary.cli.doors.verdict`), advice where a
summary is shown (:func:`covary.cli.facts.spoken`) or a page is written (:func:`covary.cli.report.write_page`).
"""

from __future__ import annotations

import re
from enum import StrEnum

from covary.cli import choices as c

OPTIONS = {  # arguments of the library
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
    "checkpoint": "--checkpoint",
    "experts": "--experts",
    "rule": "--rule",
    "partition": "--partition",
    "learning": "--learning",
    "nearest": "--nearest",
    "folder": "--folder",
    "executor": "--workers",
    "workers": "--workers",
    "level": "--level",
    "n": "--rows",
}
OBJECTS = {  # what the library makes of them, as people write it in Python
    "Exact": "--inference exact",
    "Laplace": "--inference laplace",
    "EP": "--inference ep",
    "SVGP": "--method svgp",
    "Dense": "--method exact",
    "Markov": "--method markov",
    "Vecchia": "--method vecchia",
    "LowRank": "--method low_rank",
    "Subset": "--method subset",
    "Committee": "--method committee",
    "LeaveOneOut": "--objective loo",
    "GeneralisedCrossValidation": "--objective gcv",
    "KFold": "--objective kfold",
    "Dask": "--workers",
    "Serial": "this process (without --workers)",
}
FLAGS = {"std=False": "--no-std", "latent=True": "--latent"}
CHOICES: dict[str, type[StrEnum]] = {  # of a value that is not among them the option is another thing than the argument
    "--likelihood": c.LikelihoodChoice,
    "--inference": c.InferenceChoice,
    "--method": c.MethodChoice,
    "--link": c.LinkChoice,
    "--objective": c.ObjectiveChoice,
    "--missing": c.MissingChoice,
    "--rule": c.RuleChoice,
    "--learning": c.LearningChoice,
}
PYTHON = (  # arguments without an option
    *("mean", "multi_class", "class_kernels", "class_weight", "local_errors", "noise", "fixed", "bounds", "priors", "basis"),
    *("tolerance", "standardise", "functions", "schedule", "select", "loss"),
)
ONLY = " (in Python)"
ESTIMATORS = ("GPRegressor", "GPClassifier")
PHRASES = {
    "Check the units (variance, not standard deviation), or let the noise be learned: leave noise and fixed out.": (
        "Check --noise-column (standard deviations, not variances), or leave it out: the noise is then learned."
    ),
    "noise_variance per row": "--noise-column",
    "in a kernel of your own": "in --kernel",
    "use GPRegressor": "use --likelihood gaussian",
    "save the model again": "fit it again",
    "save the model with model.save(...) instead": "use covary predict instead",
    "save it with model.save(...) instead": "use covary predict instead",
    "save the model instead": "use covary predict instead",
    "covary.datasets.available()": "covary datasets",
    "takes no n;": "takes no --rows;",
    "it takes n,": "it takes --rows,",
    "with covary.metrics instead": "instead (in Python, with covary.metrics)",
}
LETTERS = (
    (r"\bX has 1 column\b", "there is 1 input column"),
    (r"\bX has (\S+) columns", r"there are \1 input columns"),
    (r"\bX has 1 row\b", "there is 1 row"),
    (r"\bX has (\S+) rows", r"there are \1 rows"),
    (r"\bX is(?= \S+ at row)", "an input is"),
    (r"\bX and y\b", "the inputs and the target"),
    (r"\bof X\b", "of the inputs"),
)
WHO = (  # who complains, where no option says it better
    *("GPRegressor", "GPClassifier", "Data", "Inputs", "Parquet", "Dask", "executor", "priors", "condition", "learn", "map"),
    *(
        "sample",
        "spread",
        "fit",
        "predict",
        "save",
        "load",
        "write",
        "export",
        "report",
        "KFold",
        "LeaveOneOut",
        "leave_one_out",
    ),
)
ROOMS = ("gram", "inference", "likelihoods", "means", "parameters", "selection", "datasets", "plots")
HEADS = {
    "Journal": "--checkpoint",
    "Ledger": "--checkpoint",
    "SVGP.train(checkpoint=...)": "--checkpoint",
    "Committee": "--experts",
}
COMMON = ("Dense", "Exact")  # nobody has to ask for these: an option is no help in saying who complains

_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ALSO = rf"(?:(?:, or | or |, )(?:{_TEXT}))*"  # likelihood='student_t' or 'heteroscedastic'
_VALUE = rf"(?:{_TEXT}){_ALSO}|\[[^\]]*\]|\{{[^}}]*\}}|\.\.\.|[\w+-]+(?:\.\w+)*(?:\([^()]*\))?"
_INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
_PIECE = re.compile(
    rf"(?<![\w=])(?P<quoted>{_TEXT})(?!\w)"  # names and values of the user's own
    rf"|\b[Ii]n Python,? \w+\({_INSIDE}\)"
    rf"|(?:\b[a-z_]+=)?\b(?P<object>[A-Z]\w+)\((?P<inside>{_INSIDE})\)"
    rf"|\b(?P<name>[a-z]\w*)=(?P<value>{_VALUE})"
    rf"|\b(?P<bare>{'|'.join(name for name in OPTIONS if '_' in name)})\b"
)
_NAMED = re.compile(r"--[\w-]+: ")
_HEAD = re.compile(r"(?P<who>[A-Za-z]\w*(?:\.\w+)*(?:\(\w+=\.\.\.\))?): (?=\S)")
_BEGIN = re.compile(rf"(?P<name>{'|'.join(OPTIONS)}) (?=is |has )")


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
    for letter, others in LETTERS:
        text = re.sub(letter, others, text)
    return _PIECE.sub(_said, text)


def complaint(text: str) -> str:
    """An error in options: whoever complains is the option that is meant, or is not named.

    Examples
    --------
    >>> complaint("gram.Vecchia: several latent functions are not supported; use gram=Dense().")
    '--method vecchia: several latent functions are not supported; use --method exact.'
    """
    return in_options(_headed(text))


def _headed(text: str) -> str:
    named = _NAMED.match(text)
    option = "" if named is None else named[0]
    head = _HEAD.match(text, len(option))
    who = None if head is None else _who(head["who"])
    if head is None or who is None:
        return text
    rest = text[head.end() :]
    begin = _BEGIN.match(rest)
    if option:  # the command knows which
        who = "" if who.startswith("--") else who
    elif begin:
        return f"{OPTIONS[begin['name']]} {rest[begin.end() :]}"
    return option + (f"{who}: {rest}" if who else rest)


def _who(name: str) -> str | None:
    """The option that stands for whoever complains; empty if none does, None if nobody of this name is known."""
    if name in HEADS:
        return HEADS[name]
    room, _, last = name.partition(".")
    if room == "kernels":
        return "" if last == "parse" else last
    if room in ROOMS:
        return "" if last in COMMON else OBJECTS.get(last, "")
    return "" if room in WHO else None


def _said(found: re.Match[str]) -> str:
    whole, name = found[0], found["name"]
    if found.string.startswith(ONLY, found.end()):
        return whole
    if found["bare"]:
        return OPTIONS[whole]
    if found["object"]:
        return _object(whole, found["object"], found["inside"])
    if name is None or whole in FLAGS:
        return FLAGS.get(whole, whole)
    option, value = OPTIONS.get(name), found["value"]
    if value in OBJECTS:  # gram=LowRank
        return OBJECTS[value]
    given = {text[1:-1] for text in re.findall(_TEXT, value)}
    if option is None or value == "None" or not given <= set(CHOICES.get(option, given)):
        return whole + ONLY if option or name in PYTHON else whole
    plain = re.sub(r"['\"\[\] ]", "", value) if value.startswith("[") else re.sub(r"['\"]", "", value)
    return option if plain == "..." else f"{option} {plain}"


def _object(whole: str, name: str, inside: str) -> str:
    """An object as the options that make one; kernels stay, being text that the command understands."""
    if name in ESTIMATORS:
        return whole + ONLY
    if name not in OBJECTS:
        return whole
    own = _PIECE.sub(_said, inside)
    return own if own.startswith("--") else OBJECTS[name]
