"""Predictions of exported files: posteriors, link functions, tables, and a small command, with NumPy and Python alone.

Like :mod:`covary.export.formulas`, this is copied function by function into exported files: functions may only use the modules
that those files import (see below) and functions of the two files. The names above the first function are placeholders for
values that every exported file defines.
"""

from __future__ import annotations

import base64
import csv
import datetime
import io
import math
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from covary.export.formulas import Kernel, diag
from covary.likelihoods.triangle import triangle

# in copies these are replaced by Any
Moments: TypeAlias = "tuple[np.ndarray, np.ndarray | None]"  # means, and variances if requested
Answer: TypeAlias = "tuple[list[str], list[np.ndarray]]"  # titles and columns
Table: TypeAlias = Any  # an array, a table with column names (pandas, polars), or a dict of columns
Entries: TypeAlias = Any  # a column of such a table
Entry: TypeAlias = Any  # one of its entries
Described: TypeAlias = Any  # a column of the fit: see covary.families.gaussian_process.export

COLUMNS: list[Described] = []  # name (or None), kind, and the data needed to convert each to numbers
GAPS: tuple[str, ...] = ()  # texts of a CSV file that mark a missing value
TARGETS: list[str] = []
CLASSES: list[str | float | bool] = []
LOCATION: float | np.ndarray = 0.0
SCALE: float | np.ndarray = 1.0
NOISE = 0.0
STD = True  # whether the file includes error bars
ROWS = 1000  # predicted at a time
posterior: Callable[[np.ndarray, bool], Moments] = NotImplemented
mean_function: Callable[[np.ndarray], np.ndarray] = NotImplemented
probabilities: Callable[[np.ndarray], np.ndarray] = NotImplemented
predict: Callable[..., np.ndarray | tuple[np.ndarray, np.ndarray]] = NotImplemented
predict_proba: Callable[[Table], np.ndarray] = NotImplemented
answer: Callable[[Table], Answer] = NotImplemented


# numbers in the file ---------------------------------------------------------------------------------------------------
def unpack(shape: tuple[int, ...], packed: str) -> np.ndarray:
    """Decode an array from text; if only the lower triangle of a square array is stored, the rest is zero."""
    flat = np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<f8").astype(float)
    if len(flat) == np.prod(shape):
        return flat.reshape(shape)
    out = np.zeros(shape)
    out[np.tril_indices(shape[0])] = flat
    return out


# posteriors: means (m,) or (m, p), variances (m,), without mean function and noise ---------------------------------------
def forward(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return L⁻¹ B for a lower triangle, block by block."""
    out = np.array(B)
    for i in range(0, len(L), 64):
        rows = slice(i, i + 64)
        out[rows] = np.linalg.solve(L[rows, rows], out[rows] - L[rows, :i] @ out[:i])
    return out


def from_rows(
    x: np.ndarray, kernel: Kernel, X: np.ndarray, alpha: np.ndarray, L: np.ndarray, weight: np.ndarray | None, variance: bool
) -> Moments:
    """Predict from every row of the support: k alpha, and k(x, x) - |L⁻¹(weight k)|²."""
    K = kernel(x, X)
    if not variance:
        return K @ alpha, None
    half = forward(L, K.T if weight is None else weight[:, None] * K.T)
    return K @ alpha, np.maximum(diag(kernel, x) - (half**2).sum(0), 0.0)


def from_inducing(
    x: np.ndarray,
    kernel: Kernel,
    Z: np.ndarray,
    whiten: np.ndarray,
    means: np.ndarray,
    root: np.ndarray,
    rest: bool,
    variance: bool,
) -> Moments:
    """Predict from inducing inputs: whitened features, their posterior mean, and a square root of their covariance."""
    phi = kernel(x, Z) @ whiten.T
    if not variance:
        return phi @ means, None
    spread = ((phi @ root.T) ** 2).sum(1)
    if rest:
        spread = spread + np.maximum(diag(kernel, x) - (phi**2).sum(1), 0.0)
    return phi @ means, spread


def from_neighbours(
    x: np.ndarray,
    kernel: Kernel,
    X: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray,
    scale: np.ndarray,
    count: int,
    jitter: float,
    variance: bool,
) -> Moments:
    """Predict every point from its nearest rows only (Vecchia's approximation)."""
    near = nearest((x - X[0]) / scale, (X - X[0]) / scale, min(count, len(X)))
    there = X[near]
    C = kernel(there, there)
    own = np.einsum("...ii->...i", C)
    own *= 1 + jitter
    own += noise[near]
    c = kernel(there, x[:, None, :])
    b = np.linalg.solve(C, c)[..., 0]
    mean = np.einsum("mk,mk...->m...", b, y[near])
    return mean, np.maximum(diag(kernel, x) - (b * c[..., 0]).sum(1), 0.0) if variance else None


def nearest(x: np.ndarray, X: np.ndarray, count: int) -> np.ndarray:
    """Return the nearest rows of every point, nearest first, by brute force."""
    out = np.empty((len(x), count), int)
    step = max(1, 2**22 // len(X))
    for i in range(0, len(x), step):
        far = np.asarray(sum((x[i : i + step, None, k] - X[None, :, k]) ** 2 for k in range(X.shape[1])))
        some = np.argpartition(far, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(far, some, 1), axis=1, kind="stable")
        out[i : i + step] = np.take_along_axis(some, order, 1)
    return out


def from_softmax(
    x: np.ndarray, kernels: list[Kernel], X: np.ndarray, alpha: np.ndarray, E: list[np.ndarray], L: np.ndarray
) -> Moments:
    """Predict C classes: means (m, C) and covariances between them (m, C, C) (Rasmussen & Williams, algorithm 3.4)."""
    K = [kernel(x, X) for kernel in kernels]
    mean = np.stack([K[c] @ alpha[:, c] for c in range(len(K))], axis=1)
    b = [K[c] @ E[c] for c in range(len(K))]
    half = [forward(L, part.T) for part in b]
    spread = np.empty((len(x), len(K), len(K)))
    for c in range(len(K)):
        for e in range(len(K)):
            spread[:, c, e] = (half[c] * half[e]).sum(0)
        spread[:, c, c] += diag(kernels[c], x) - (b[c] * K[c]).sum(1)
    return mean, spread


# from the function to probabilities --------------------------------------------------------------------------------------
def normal(z: np.ndarray) -> np.ndarray:
    """Return the cumulative normal distribution of every entry, accurate in both tails."""
    return 0.5 * np.asarray(np.frompyfunc(math.erfc, 1, 1)(-z / math.sqrt(2)), dtype=float)


def probit(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the probability of the second class under the probit link, averaged over the function."""
    return normal(mean / np.sqrt(1 + variance))


def logit(mean: np.ndarray, variance: np.ndarray, widths: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the same for the logistic link, as a mixture of cumulative normal distributions."""
    out = normal(mean[:, None] / np.sqrt(variance[:, None] + widths**2)) @ weights
    far = np.abs(mean) > 300
    if far.any():
        m, v = np.abs(mean[far]), variance[far]
        tail = np.where(v < m, np.exp(np.minimum(v / 2 - m, 0.0)), normal(-m / np.sqrt(v + math.pi**2 / 3)))
        out[far] = np.where(mean[far] < 0, tail, 1 - tail)
    return out


def softmax(mean: np.ndarray, variance: np.ndarray, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the probabilities of three classes, averaged by a product Gauss-Hermite rule over two differences."""
    T = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
    z, w = points, weights
    at = np.stack([np.repeat(z, len(z)), np.tile(z, len(z))], axis=1)
    parts = []
    for i in range(0, len(mean), 256):
        m, V = mean[i : i + 256] @ T.T, T @ variance[i : i + 256] @ T.T
        values, vectors = np.linalg.eigh((V + V.transpose(0, 2, 1)) / 2)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        f = np.concatenate([m[:, None, :] + np.einsum("ncd,sd->nsc", root, at), np.zeros((len(m), len(at), 1))], axis=2)
        f = np.exp(f - f.max(2, keepdims=True))
        parts.append(np.einsum("nsc,s->nc", f / f.sum(2, keepdims=True), np.outer(w, w).ravel()))
    return np.concatenate(parts)


def softmax_of_many(mean: np.ndarray, variance: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the probabilities of four or more classes, averaged over fixed points and their mirror images."""
    classes = mean.shape[1]
    T = np.eye(classes)[:-1] - np.eye(classes)[-1]
    at, parts = np.concatenate([points, -points]), []
    for i in range(0, len(mean), 64):
        m, V = mean[i : i + 64] @ T.T, T @ variance[i : i + 64] @ T.T
        root = triangle((V + V.transpose(0, 2, 1)) / 2)
        f = np.concatenate([m[:, None, :] + np.einsum("ncd,sd->nsc", root, at), np.zeros((len(m), len(at), 1))], axis=2)
        f = np.exp(f - f.max(2, keepdims=True))
        parts.append((f / f.sum(2, keepdims=True)).mean(1))
    return np.concatenate(parts)


# tables ------------------------------------------------------------------------------------------------------------------
def matrix(X: Table) -> np.ndarray:
    """Return the inputs of the kernel, from an array, a table with column names (pandas, polars) or a dict of columns."""
    names = [c["name"] for c in COLUMNS]
    found = list(getattr(X, "column_names", getattr(X, "columns", X))) if hasattr(X, "columns") or isinstance(X, dict) else None
    if found is not None:
        lacking = [name for name in names if name is not None and name not in found]
        if lacking:
            raise ValueError(f"X has no column {', '.join(map(repr, lacking))}")
        raw = [X[name] for name in (found if None in names else names)]
    elif None in names or all(c["kind"] in ("number", "boolean") and "fill" not in c for c in COLUMNS):
        array = unmasked(X)
        if array.ndim != 2:
            raise ValueError(f"X has shape {array.shape}; give a table of rows and columns")
        raw = list(array.T)
    else:
        raise ValueError(f"X has no column names; give a table with {', '.join(map(repr, names))}")
    if len(raw) != len(names):
        raise ValueError(f"X has {len(raw)} column{'s' * (len(raw) != 1)}; give a table of {len(names)}")
    made = [numbers(c, values) for c, values in zip(COLUMNS, raw, strict=True)]
    if len({len(column) for column, _ in made}) > 1:
        raise ValueError(
            f"the columns of X have {', '.join(str(len(column)) for column, _ in made)} entries; give the same number in each"
        )
    gaps = [gone for c, (_, gone) in zip(COLUMNS, made, strict=True) if c.get("indicator")]
    x = np.column_stack([*(column for column, _ in made), *gaps])
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        where = column if names[column] is None else repr(names[column])
        raise ValueError(f"X is {x[row, column]} at row {row}, column {where}; drop or fill such rows")
    return x


def unmasked(values: Entries) -> np.ndarray:
    """Return entries as an array, with masked ones as missing values."""
    rows = isinstance(values, (list, tuple)) and any(np.ma.isMaskedArray(row) for row in values)
    raw: Entries = np.ma.asarray(values) if rows or np.ma.isMaskedArray(values) else np.asarray(values)
    if raw.dtype.kind in "US" and isinstance(values, (list, tuple)):  # a mix of texts and numbers would become texts
        return np.asarray(values, dtype=object)
    if not np.ma.is_masked(raw):
        return np.asarray(raw)
    if raw.dtype.kind in "fiub":
        return raw.astype(float).filled(math.nan)
    if raw.dtype.kind in "mM":
        return raw.filled(np.array("NaT", raw.dtype))
    out = np.asarray(raw.data).astype(object)
    out[np.ma.getmaskarray(raw)] = None
    return out


def numbers(column: Described, values: Entries) -> tuple[np.ndarray, np.ndarray]:
    """Return one column as numbers, and a mask of its missing values, which are imputed as during fit (if they were)."""
    raw = np.atleast_1d(unmasked(values))
    if raw.ndim != 1:
        raise ValueError(f"column {column['name']!r} has shape {raw.shape}; give one entry per row")
    if raw.dtype.kind in "fiub" and column["kind"] in ("number", "boolean"):
        x = raw.astype(float)
    elif raw.dtype.kind == "M" and column["kind"] == "date":
        x = since(raw, column)
    else:
        x = np.array([entry(column, v) for v in raw.astype(object)], dtype=float)
    gone = np.isnan(x)
    if "fill" in column:
        x = np.where(gone, column["fill"], x)
    return x, gone.astype(float)


def since(dates: Entries, column: Described) -> np.ndarray:
    """Return the time since the first date of the fit, in the unit of the fit."""
    far = np.asarray(dates, "datetime64[us]") - np.datetime64(column["origin"])
    return far / np.timedelta64(column["seconds"], "s")


def digits(text: str) -> str:
    """Return a text for float, replaced if float accepts it but tables do not (1_000, digits of other scripts)."""
    return text if text.isascii() and "_" not in text else "no number"


def level_text(value: Entry) -> str:
    """Return the name of a category: text unchanged, integers without a decimal point."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            return str(value)
        return str(int(number)) if math.isfinite(number) and number == math.floor(number) else repr(number)
    return str(value)


def entry(column: Described, value: Entry) -> float:
    """Convert one entry to a number; NaN if missing. A text is never missing: gaps of a CSV file are None already."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return math.nan
    text, kind, name = str(value).strip(), column["kind"], column["name"]
    if not isinstance(value, str) and text.lower() in ("nan", "snan", "nat"):
        return math.nan
    if kind == "category":
        levels = column["levels"]
        return float(levels.index(level_text(value)) if level_text(value) in levels else len(levels))
    try:
        if kind == "date":
            iso = text.replace("/", "-")
            when = datetime.datetime.fromisoformat(f"{iso}-01" if len(iso) == 7 else iso)
            if when.tzinfo is not None:
                kind = "date without a time zone, as during fit"
                raise ValueError
            return float(since(when, column))
        return float({"true": 1, "false": 0}.get(text.lower(), digits(text)))
    except ValueError:
        where = "X" if name is None else f"column {name!r}"
        raise ValueError(f"{where} contains {text[:60]!r}, which is not a {kind}") from None


# predicting -----------------------------------------------------------------------------------------------------------
def in_parts(work: Callable[[np.ndarray], tuple[np.ndarray | None, ...]], x: np.ndarray) -> Entries:
    """Apply a function to blocks of rows and concatenate the results; None where the function returns None."""
    parts = [work(x[i : i + ROWS]) for i in range(0, max(1, len(x)), ROWS)]
    return [None if p[0] is None else np.concatenate(p) for p in zip(*parts, strict=True)]


def regression_predict(X: Table, return_std: bool = False, latent: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Return the mean at every row of X, and with ``return_std`` the standard deviation of a new observation.

    With ``latent``, the standard deviation is that of the function itself, without the noise.
    """
    if return_std and not STD:
        raise ValueError("this file was written without error bars")
    x = matrix(X)
    mean, variance = in_parts(lambda part: posterior(part, return_std), x)
    base = mean_function(x)
    mean = (mean + (base if mean.ndim == 1 else base[:, None])) * SCALE + LOCATION
    if not return_std:
        return mean
    std = np.sqrt(variance if latent else variance + NOISE)
    return mean, (std if mean.ndim == 1 else std[:, None]) * SCALE


def classes_predict_proba(X: Table) -> np.ndarray:
    """Return the probability of every class, in the order of CLASSES, at every row of X."""
    return in_parts(lambda part: (probabilities(part),), matrix(X))[0]


def classes_predict(X: Table) -> np.ndarray:
    """Return the most probable class at every row of X."""
    return np.array(CLASSES)[predict_proba(X).argmax(1)]


# the command ------------------------------------------------------------------------------------------------------------
def regression_answer(X: Table) -> Answer:
    """Return titles and columns of the output table."""
    both = predict(X, return_std=True) if STD else (predict(X),)
    heads = [""] if len(TARGETS) == 1 else [f"{name}_" for name in TARGETS]
    columns = [np.reshape(part, (len(part), -1))[:, j] for j in range(len(heads)) for part in both]
    return [f"{head}{name}" for head in heads for name in ("mean", "std")[: len(both)]], columns


def classes_answer(X: Table) -> Answer:
    """Return titles and columns of the output table."""
    p = predict_proba(X)
    return ["class", *(f"p_{c}" for c in CLASSES)], [np.array(CLASSES)[p.argmax(1)], *p.T]


def read_csv(path: str) -> Table:
    """Read a table with a header line: a dict of columns, or an array of numbers if the model has no column names."""
    text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8-sig")
    delimiter = max((",", ";", "\t"), key=text.split("\n", 1)[0].count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    rows = [row for row in reader if len(row) > 1 or any(cell.strip() for cell in row)]
    if len(rows) < 2:
        raise ValueError("the table has no rows below its header")
    header = [name.strip() for name in rows[0]]
    uneven = next((i for i, row in enumerate(rows) if len(row) != len(header)), None)
    if uneven is not None:
        cells = f"{len(rows[uneven])} entr{'y' if len(rows[uneven]) == 1 else 'ies'}"
        raise ValueError(f"row {uneven + 1} has {cells} and the header has {len(header)}")
    known = {c["name"]: c.get("levels", ()) for c in COLUMNS}
    columns = [cells_of([row[j] for row in rows[1:]], known.get(name, ())) for j, name in enumerate(header)]
    if any(c["name"] is not None for c in COLUMNS):
        return dict(zip(header, columns, strict=True))
    return np.column_stack([numbers({"name": n, "kind": "number"}, c)[0] for n, c in zip(header, columns, strict=True)])


def cells_of(texts: list[str], levels: Sequence[str]) -> list[Entry]:
    """Return the entries of a CSV column: None for a gap (unless it is a category), and numbers if all others are numbers."""
    cells = [" ".join(text.split()) for text in texts]
    found: list[Entry] = [None if text in GAPS and text not in levels else text for text in cells]
    try:
        values = [None if value is None else float(digits(value)) for value in found] if levels else found
    except ValueError:
        return found
    return found if any(value is not None and value != value for value in values) else values


def main(arguments: list[str]) -> int:
    """Read rows from a CSV file and write their predictions to another one, or to standard output."""
    if len(arguments) not in (1, 2) or arguments[0] in ("-h", "--help"):
        sys.stderr.write("usage: python predictor.py TABLE.csv [PREDICTIONS.csv]   (- is standard input)\n")
        return 2
    try:
        if len(arguments) == 2 and all(Path(name).exists() for name in arguments) and Path(arguments[1]).samefile(arguments[0]):
            raise ValueError(f"{arguments[1]!r} is also the input; write to another file")
        titles, columns = answer(read_csv(arguments[0]))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(titles)
        writer.writerows(zip(*(c.tolist() for c in columns), strict=True))
        if len(arguments) == 2:
            Path(arguments[1]).write_text(out.getvalue(), encoding="utf-8")
        else:
            sys.stdout.write(out.getvalue())
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0
