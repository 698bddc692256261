"""Export of a predictor as a Python file, whose predictions are compared with those of the model."""

from __future__ import annotations

import base64
import datetime
import os
import re
import zlib
from types import ModuleType

import numpy as np

from covary._checks import CovaryError, fail
from covary._errors import Option
from covary._version import __version__
from covary._words import GAPS, counted
from covary._write import whole_file
from covary.data import Inputs
from covary.export.copied import MODULES, copies
from covary.export.kernels import WHO
from covary.families.gaussian_process.export_parts import Described, Parts, columns_of, take_apart
from covary.families.gaussian_process.processes import Processes
from covary.fits import Fit
from covary.posterior import class_probabilities

MOST = 2**26  # bytes of arrays in a file, enough for 4,096 rows with error bars
CHECKED = 64  # rows at which a file is compared with the model when it is written
WIDE = 116  # characters in a line of packed numbers


def write_predictor(
    fit: Fit[Processes], path: str | os.PathLike[str], *, std: bool = True, tolerance: float = 1e-10
) -> dict[str, float]:
    """Write the predictor of a Gaussian process; see :func:`covary.export.export_model`."""
    parts = take_apart(fit, std)
    size = sum(a.nbytes // (2 if _lower(a) else 1) for a in parts.arrays.values())
    if size > MOST:
        do = (
            "give "
            + Option("std", "False")
            + ", which leaves the error bars out, or fit with "
            + Option("method", "'low_rank'", "'vecchia'")
        )
        raise fail(WHO, f"the file would hold {size / 2**20:.0f} MiB of numbers (at most {MOST // 2**20})", do)
    columns = columns_of(fit)
    body = _body(parts, columns)
    off = _compare(fit, body, std)
    worst = max(off.values())
    if not worst <= tolerance:
        what = f"predictions would differ from the model's by {worst:.0e} of the scale of y: the matrix is nearly singular"
        raise fail(WHO, what, "allow more noise, or give " + Option("tolerance", f"{10.0 ** np.ceil(np.log10(worst)):.0e}"))
    with whole_file(path, WHO, stream=True) as handle:
        handle.write((_head(fit, columns, off) + body).encode("utf-8", "backslashreplace"))
    return off


# the text of the file ---------------------------------------------------------------------------------------------------
def _head(fit: Fit[Processes], columns: list[Described], off: dict[str, float]) -> str:
    """Return the head of the file, with a docstring that describes it."""
    part = fit.state.first
    kernel, names = part.model.kernel, [c["name"] for c in columns]
    rows = counted(part.posterior.data.rows, "row")
    facts = {"model": f"{fit.origin.estimator}, method {fit.method.name}, {rows}"}
    facts["kernel"] = "; ".join(map(repr, kernel)) if isinstance(kernel, tuple) else repr(kernel)
    if fit.classes is not None:
        facts["classes"] = ", ".join(map(str, fit.classes.values.tolist()))
        use = "predict_proba; p = predict_proba(X)"
    else:
        noise = f"standard deviation {np.sqrt(part.model.noise):.6g}"
        facts["noise"] = noise + (" of standardised outputs" if fit.scale.scale.ndim else "")
        use = "predict; mean, std = predict(X, return_std=True)" if "std" in off else "predict; mean = predict(X)"
    facts["columns"] = f"{len(names)}, without names" if None in names else ", ".join(map(_described, columns))
    facts["checked"] = ", ".join(f"{name} within {value:.0e}" for name, value in off.items()) + " of the model's"
    lines = [f"Predictions of a covary model, with NumPy alone. Written by covary {__version__}, {datetime.date.today()}.", ""]
    lines += [f"    {name:<9}{_cut(value)}" for name, value in facts.items()]
    lines += ["", f"    from predictor import {use}", "    python predictor.py new.csv predictions.csv"]
    text = "\n".join(lines).replace("\\", "/").replace('"""', "'''")
    return f'#!/usr/bin/env python3\n"""{text}\n"""\n'


def _described(column: Described) -> str:
    return str(column["name"]) if column["kind"] in ("number", "boolean") else f"{column['name']} ({column['kind']})"


def _cut(text: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= 1000 else text[:997] + "..."


def _body(parts: Parts, columns: list[Described]) -> str:
    """Return the file below its head."""
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


def _spread(columns: list[Described]) -> str:
    return "[\n" + "".join(f"    {c!r},\n" for c in columns) + "]"


def _lower(a: np.ndarray) -> bool:
    return a.ndim == 2 and a.shape[0] == a.shape[1] > 1 and not np.triu(a, 1).any()


def _packed(name: str, a: np.ndarray) -> str:
    flat = a[np.tril_indices(len(a))] if _lower(a) else a.ravel()
    text = base64.b64encode(zlib.compress(flat.astype("<f8").tobytes(), 6)).decode()
    lines = [f'        "{text[i : i + WIDE]}"' for i in range(0, len(text), WIDE)]
    return f'    "{name}": unpack(\n        {a.shape},\n' + "\n".join(lines) + ",\n    ),"


# comparison with the model ----------------------------------------------------------------------------------------------
def _compare(fit: Fit[Processes], body: str, std: bool) -> dict[str, float]:
    """Return the largest differences between predictions of the file and of the model, at inputs between rows of the data."""
    space = vars(ModuleType("exported"))
    exec(compile(body, "exported predictor", "exec"), space)
    space["matrix"] = lambda X: X
    x, posteriors = _places(fit, columns_of(fit)), fit.state.posteriors
    if fit.classes is not None:
        p = class_probabilities(posteriors, [post.predict(x).f for post in posteriors])
        return {"probability": float(np.abs(space["predict_proba"](x) - p).max())}
    units, post = fit.scale.scale, fit.state.first.posterior
    scale = np.std(post.data.y, axis=0) * units
    scale = np.where(scale > 0, scale, 1.0)
    if not std:
        mean = post.mean(x) * units + fit.scale.location
        return {"mean": float((np.abs(space["predict"](x) - mean) / scale).max())}
    y = post.predict(x).y
    there = y.mean * units + fit.scale.location, (y.std if y.mean.ndim == 1 else y.std[:, None]) * units
    here = space["predict"](x, return_std=True)
    return {name: float((np.abs(a - b) / scale).max()) for name, a, b in zip(("mean", "std"), here, there, strict=True)}


def _places(fit: Fit[Processes], columns: list[Described]) -> np.ndarray:
    """Return inputs for the comparison: between pairs of rows for numbers and dates, equal to rows in other columns."""
    part = fit.state.first
    X, rng = np.asarray(part.posterior.data.X.x, np.float64), np.random.default_rng(0)
    a, b = (X[rng.integers(0, len(X), CHECKED)] for _ in range(2))
    kinds = [c["kind"] for c in columns] + ["boolean"] * (X.shape[1] - len(columns))  # missing-value indicators come last
    between = a + rng.random((CHECKED, 1)) * (b - a)
    x = np.where([kind in ("number", "date") for kind in kinds], between, a)
    try:
        part.model.prior.check(Inputs(x))
    except CovaryError:  # codes, which have no values in between
        return a
    return x
