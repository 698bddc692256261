"""A fitted model as one Python file that needs NumPy and nothing else, for machines without JAX or covary."""

from __future__ import annotations

import ast
import base64
import datetime
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from covary._checks import CovaryError, fail
from covary._version import __version__
from covary._words import GAPS, counted
from covary._write import whole_file
from covary.data import Inputs
from covary.export.kernels import WHO
from covary.export.parts import Parts, columns_of, take_apart

MOST = 2**26  # bytes of arrays in a file: those of 4,096 rows with error bars
CHECKED = 64  # rows at which a file is compared with the model when it is written
WIDE = 116  # letters of a line of packed numbers
MODULES = ("base64", "csv", "datetime", "io", "math", "sys", "zlib")


def export_model(model: Any, path: str | os.PathLike[str], *, std: bool = True, tolerance: float = 1e-10) -> dict[str, float]:
    r"""Write a fitted estimator as one Python file that predicts the same with NumPy alone.

    The file has ``predict(X, return_std=False, latent=False)``, of classes ``predict_proba(X)`` and ``predict(X)``. It takes
    arrays, tables with column names or dicts of columns, and is a command: ``python predictor.py new.csv predictions.csv``.
    It is run once when it is written and compared with the model.

    Parameters
    ----------
    model
        A fitted :class:`~covary.GPRegressor` with Gaussian noise, or a :class:`~covary.GPClassifier` (two classes, several by
        the softmax or one against the rest); by any method but ``"markov"``. Kernels and means made of functions of your
        own are refused.
    path
        Where to; ``predictor.py`` by custom.
    std
        Whether error bars go into the file. They take 4 n² bytes of an exact model, in text a third more; a file without
        them has the mean only.
    tolerance
        How far predictions may be from the model's, as a part of the scale of y (of one, for probabilities); a file that is
        farther off is not written.

    Returns
    -------
    The largest deviation found, of ``"mean"`` and ``"std"``, or of ``"probability"``.

    Examples
    --------
    >>> import tempfile
    >>> from covary import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = GPRegressor().fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     off = export_model(model, f"{folder}/predictor.py")
    ...     space = {"__name__": "predictor"}
    ...     exec(Path(f"{folder}/predictor.py").read_text(), space)
    >>> bool(abs(space["predict"]([[1.0]]) - model.predict([[1.0]])) < 1e-10), off["mean"] < 1e-10
    (True, True)
    """
    if not (hasattr(model, "posterior_") or hasattr(model, "estimators_")):
        raise fail(WHO, f"got {type(model).__name__} that is not fitted", "fit it first")
    parts = take_apart(model, std)
    size = sum(a.nbytes // (2 if _lower(a) else 1) for a in parts.arrays.values())
    if size > MOST:
        do = "give std=False, which leaves the error bars out, or fit with method='low_rank' or 'vecchia'"
        raise fail(WHO, f"the file would hold {size / 2**20:.0f} MiB of numbers (at most {MOST // 2**20})", do)
    columns = columns_of(model)
    body = _body(parts, columns)
    off = _compare(model, body, std)
    worst = max(off.values())
    if not worst <= tolerance:
        what = f"predictions would be {worst:.0e} of the scale of y off the model's: the matrix is nearly singular"
        raise fail(WHO, what, f"allow more noise, or give tolerance={10.0 ** np.ceil(np.log10(worst)):.0e}")
    with whole_file(path, WHO, stream=True) as handle:
        handle.write((_head(model, columns, off) + body).encode("utf-8", "backslashreplace"))
    return off


# the text of the file ---------------------------------------------------------------------------------------------------
def _head(model: Any, columns: list[dict[str, Any]], off: dict[str, float]) -> str:
    """The comment a person reads first."""
    first = getattr(model, "estimators_", [model])[0]
    kernel, names = first.model_.kernel, [c["name"] for c in columns]
    facts = {"model": f"{type(model).__name__}, method {first.method_.name}, {counted(first.posterior_.data.rows, 'row')}"}
    facts["kernel"] = "; ".join(map(repr, kernel)) if isinstance(kernel, tuple) else repr(kernel)
    if hasattr(model, "classes_"):
        facts["classes"] = ", ".join(map(str, model.classes_.tolist()))
        use = "predict_proba; p = predict_proba(X)"
    else:
        noise = f"standard deviation {float(np.sqrt(model.model_.likelihood.variance)):.6g}"
        facts["noise"] = noise + (" of standardised outputs" if np.ndim(model._scale) else "")
        use = "predict; mean, std = predict(X, return_std=True)" if "std" in off else "predict; mean = predict(X)"
    facts["columns"] = f"{len(names)}, without names" if None in names else ", ".join(_described(c) for c in columns)
    facts["checked"] = ", ".join(f"{name} within {value:.0e}" for name, value in off.items()) + " of the model's"
    lines = [f"Predictions of a covary model, with NumPy alone. Written by covary {__version__}, {datetime.date.today()}.", ""]
    lines += [f"    {name:<9}{_cut(value)}" for name, value in facts.items()]
    lines += ["", f"    from predictor import {use}", "    python predictor.py new.csv predictions.csv"]
    text = "\n".join(lines).replace("\\", "/").replace('"""', "'''")
    return f'#!/usr/bin/env python3\n"""{text}\n"""\n'


def _described(column: dict[str, Any]) -> str:
    return column["name"] if column["kind"] in ("number", "boolean") else f"{column['name']} ({column['kind']})"


def _cut(text: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= 1000 else text[:997] + "..."


def _body(parts: Parts, columns: list[dict[str, Any]]) -> str:
    """Everything below the comment."""
    constants = {"COLUMNS": _spread(columns), "GAPS": repr(GAPS), "ROWS": repr(parts.rows), **parts.constants}
    own = "\n".join(parts.lines)
    copied = copies({*parts.names, "unpack", "main", *re.findall(r"\b([a-z]\w*)\(", own)})
    head = ["from __future__ import annotations", "", *(f"import {m}" for m in MODULES)]
    head += ["from pathlib import Path", "from typing import Any", "", "import numpy as np", ""]
    head += [f"{name} = {value}" for name, value in constants.items()]
    arrays = ["", "", "ARRAYS = {", *(_packed(name, a) for name, a in parts.arrays.items()), "}"]
    arrays += parts.after
    end = ["", "", 'if __name__ == "__main__":', "    sys.exit(main(sys.argv[1:]))", ""]
    return "\n".join(head) + copied + own + "\n".join(arrays + end)


def _spread(columns: list[dict[str, Any]]) -> str:
    return "[\n" + "".join(f"    {c!r},\n" for c in columns) + "]"


def _lower(a: np.ndarray) -> bool:
    return a.ndim == 2 and a.shape[0] == a.shape[1] > 1 and not np.triu(a, 1).any()


def _packed(name: str, a: np.ndarray) -> str:
    flat = a[np.tril_indices(len(a))] if _lower(a) else a.ravel()
    text = base64.b64encode(zlib.compress(flat.astype("<f8").tobytes(), 6)).decode()
    lines = [f'        "{text[i : i + WIDE]}"' for i in range(0, len(text), WIDE)]
    return f'    "{name}": unpack(\n        {a.shape},\n' + "\n".join(lines) + ",\n    ),"


def copies(wanted: set[str]) -> str:
    """The source of functions of :mod:`covary.export.formulas` and :mod:`~covary.export.rules`, and of all they call."""
    found: dict[str, tuple[int, str, set[str]]] = {}
    for place, name in enumerate(("formulas.py", "rules.py")):
        text = Path(__file__).with_name(name).read_text("utf-8")
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                found[node.name] = (place * 10_000 + node.lineno, body, used)
    chosen: set[str] = set()
    todo = [name for name in wanted if name in found]
    while todo:
        name = todo.pop()
        if name not in chosen:
            chosen.add(name)
            todo += [other for other in found[name][2] if other in found]
    text = "".join(f"\n\n\n{found[name][1]}" for name in sorted(chosen, key=lambda n: found[n][0]))
    text = re.sub(r"\bdef (?:regression|classes)_(predict|predict_proba|answer)\(", r"def \1(", text)
    return re.sub(r"(\w+): Kernel\b", r"\1: Any", text) + "\n"


# what was written, against the model --------------------------------------------------------------------------------------
def _compare(model: Any, body: str, std: bool) -> dict[str, float]:
    """How far the file's predictions are from the model's, between rows of the data."""
    space: dict[str, Any] = {"__name__": "exported"}
    exec(compile(body, "exported predictor", "exec"), space)
    space["matrix"] = lambda X: X
    x = _places(model, columns_of(model))
    if hasattr(model, "classes_"):
        return {"probability": float(np.abs(space["predict_proba"](x) - model._proba(x)).max())}
    scale = np.std(model.posterior_.data.y, axis=0) * model._scale
    scale = np.where(scale > 0, scale, 1.0)
    if not std:
        return {"mean": float((np.abs(space["predict"](x) - model._predict(x)) / scale).max())}
    here, there = space["predict"](x, return_std=True), model._predict(x, return_std=True)
    return {name: float((np.abs(a - b) / scale).max()) for name, a, b in zip(("mean", "std"), here, there, strict=True)}


def _places(model: Any, columns: list[dict[str, Any]]) -> np.ndarray:
    """Where to compare: between pairs of rows, and at rows in the columns that are no measurements."""
    first = getattr(model, "estimators_", [model])[0]
    X, rng = np.asarray(first.posterior_.data.X.x, np.float64), np.random.default_rng(0)
    a, b = (X[rng.integers(0, len(X), CHECKED)] for _ in range(2))
    kinds = [c["kind"] for c in columns] + ["boolean"] * (X.shape[1] - len(columns))  # marks of gaps come last
    between = a + rng.random((CHECKED, 1)) * (b - a)
    x = np.where([kind in ("number", "date") for kind in kinds], between, a)
    try:
        first.model_.prior.check(Inputs(x))
    except CovaryError:  # codes, which know nothing between them
        return a
    return x
