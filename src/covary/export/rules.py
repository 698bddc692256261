"""How an exported predictor predicts: posteriors, link functions, tables, and a small command; NumPy and Python alone.

Like :mod:`covary.export.formulas` this is copied, function by function, into exported files: it may use what those files
import (the modules below) and functions of the two files, nothing else. The names above the first function stand for what
every exported file defines for itself.
"""

from __future__ import annotations

import base64
import csv
import datetime
import io
import math
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from covary.export.formulas import Kernel, diag

COLUMNS: list[dict[str, Any]] = []  # name, kind, and what it takes to make numbers of each; no names: None
GAPS: tuple[str, ...] = ()  # what a cell of a CSV file says where nothing was measured
TARGETS: list[str] = []
CLASSES: list[Any] = []
LOCATION: Any = 0.0
SCALE: Any = 1.0
NOISE = 0.0
STD = True  # whether error bars are in the file
ROWS = 1000  # predicted at a time
posterior: Any = None
mean_function: Any = None
probabilities: Any = None
predict: Any = None
predict_proba: Any = None
answer: Any = None


# numbers in the file ---------------------------------------------------------------------------------------------------
def unpack(shape: Any, packed: str) -> np.ndarray:
    """An array from text; a square one from its lower triangle where that is all there is."""
    flat = np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<f8").astype(float)
    if len(flat) == np.prod(shape):
        return flat.reshape(shape)
    out = np.zeros(shape)
    out[np.tril_indices(shape[0])] = flat
    return out


# posteriors: means (m,) or (m, p), variances (m,), without mean function and noise ---------------------------------------
def forward(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """L⁻¹ B for a lower triangle, block by block."""
    out = np.array(B)
    for i in range(0, len(L), 64):
        rows = slice(i, i + 64)
        out[rows] = np.linalg.solve(L[rows, rows], out[rows] - L[rows, :i] @ out[:i])
    return out


def from_rows(x: np.ndarray, kernel: Kernel, X: np.ndarray, alpha: np.ndarray, L: Any, weight: Any, variance: bool) -> Any:
    """From every row of the support: k alpha, and k(x, x) - |L⁻¹(weight k)|²."""
    K = kernel(x, X)
    if not variance:
        return K @ alpha, None
    half = forward(L, K.T if weight is None else weight[:, None] * K.T)
    return K @ alpha, np.maximum(diag(kernel, x) - (half**2).sum(0), 0.0)


def from_inducing(
    x: np.ndarray, kernel: Kernel, Z: np.ndarray, whiten: np.ndarray, means: np.ndarray, root: Any, rest: bool, variance: bool
) -> Any:
    """Through inducing inputs: whitened features, their posterior mean, a root of their precision's inverse."""
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
) -> Any:
    """Every point from its nearest rows alone (Vecchia's approximation)."""
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
    """The nearest rows of every point, nearest first, from all distances."""
    out = np.empty((len(x), count), int)
    step = max(1, 2**22 // len(X))
    for i in range(0, len(x), step):
        far = np.asarray(sum((x[i : i + step, None, k] - X[None, :, k]) ** 2 for k in range(X.shape[1])))
        some = np.argpartition(far, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(far, some, 1), axis=1, kind="stable")
        out[i : i + step] = np.take_along_axis(some, order, 1)
    return out


def from_softmax(x: np.ndarray, kernels: Any, X: np.ndarray, alpha: np.ndarray, E: Any, L: np.ndarray) -> Any:
    """C classes: means (m, C) and covariances between them (m, C, C) (Rasmussen & Williams, algorithm 3.4)."""
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
    """The cumulative normal distribution, entry by entry, accurate in both tails."""
    return 0.5 * np.asarray(np.frompyfunc(math.erfc, 1, 1)(-z / math.sqrt(2)), dtype=float)


def probit(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The probability of the second class, averaged over the function."""
    return normal(mean / np.sqrt(1 + variance))


def logit(mean: np.ndarray, variance: np.ndarray, widths: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The same for the logistic function, which is a mixture of cumulative normal distributions."""
    out = normal(mean[:, None] / np.sqrt(variance[:, None] + widths**2)) @ weights
    far = np.abs(mean) > 300
    if far.any():
        m, v = np.abs(mean[far]), variance[far]
        tail = np.where(v < m, np.exp(np.minimum(v / 2 - m, 0.0)), normal(-m / np.sqrt(v + math.pi**2 / 3)))
        out[far] = np.where(mean[far] < 0, tail, 1 - tail)
    return out


def softmax(mean: np.ndarray, variance: np.ndarray, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probabilities of three classes, averaged by a product of Gauss and Hermite's rules over two differences."""
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
    """Probabilities of four classes or more, averaged over fixed points and their mirror images."""
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


def triangle(variance: np.ndarray) -> np.ndarray:
    """Cholesky's lower triangles of covariances that may be singular: what is nothing but rounding is left out."""
    L, top = np.zeros_like(variance), np.einsum("nii->ni", variance).max(1)
    for j in range(variance.shape[1]):
        rest = variance[:, j:, j] - np.einsum("nik,nk->ni", L[:, j:, :j], L[:, j, :j])
        own = rest[:, 0]
        kept = own > 1e-12 * top
        L[:, j:, j] = np.where(kept[:, None], rest / np.sqrt(np.where(kept, own, 1.0))[:, None], 0.0)
    return L


# tables ------------------------------------------------------------------------------------------------------------------
def matrix(X: Any) -> np.ndarray:
    """The numbers the kernel sees, from an array, a table with column names (pandas, polars) or a dict of columns."""
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
            f"the columns of X have {', '.join(str(len(column)) for column, _ in made)} entries; give as many of each"
        )
    gaps = [gone for c, (_, gone) in zip(COLUMNS, made, strict=True) if c.get("indicator")]
    x = np.column_stack([*(column for column, _ in made), *gaps])
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        where = column if names[column] is None else repr(names[column])
        raise ValueError(f"X is {x[row, column]} at row {row}, column {where}; drop or fill such rows")
    return x


def unmasked(values: Any) -> np.ndarray:
    """Entries as an array, with gaps where they are masked."""
    rows = isinstance(values, (list, tuple)) and any(np.ma.isMaskedArray(row) for row in values)
    raw: Any = np.ma.asarray(values) if rows or np.ma.isMaskedArray(values) else np.asarray(values)
    if raw.dtype.kind in "US" and isinstance(values, (list, tuple)):  # of texts and numbers it would be texts alone
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


def numbers(column: dict[str, Any], values: Any) -> Any:
    """One column as numbers, and where it had none; gaps are given what fit gave them, if it did."""
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


def since(dates: Any, column: dict[str, Any]) -> Any:
    """Time since the first date of the fit, in the unit of the fit."""
    far = np.asarray(dates, "datetime64[us]") - np.datetime64(column["origin"])
    return far / np.timedelta64(column["seconds"], "s")


def digits(text: str) -> str:
    """A text that float may read: it takes 1_000 and digits of other scripts too, which tables do not."""
    return text if text.isascii() and "_" not in text else "no number"


def level_text(value: Any) -> str:
    """What a category is called: text as it is, whole numbers without a point."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            return str(value)
        return str(int(number)) if math.isfinite(number) and number == math.floor(number) else repr(number)
    return str(value)


def entry(column: dict[str, Any], value: Any) -> float:
    """One entry as a number; NaN where there is none. A text is never a gap: of a CSV file, those were taken out."""
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
                kind = "date without a time zone, as in fit"
                raise ValueError
            return float(since(when, column))
        return float({"true": 1, "false": 0}.get(text.lower(), digits(text)))
    except ValueError:
        where = "X" if name is None else f"column {name!r}"
        raise ValueError(f"{where} holds {text[:60]!r}, which is no {kind}") from None


# predicting -----------------------------------------------------------------------------------------------------------
def in_parts(work: Any, x: np.ndarray) -> Any:
    """The same for a few rows at a time, put together; nothing where there is nothing."""
    parts = [work(x[i : i + ROWS]) for i in range(0, max(1, len(x)), ROWS)]
    return [None if p[0] is None else np.concatenate(p) for p in zip(*parts, strict=True)]


def regression_predict(X: Any, return_std: bool = False, latent: bool = False) -> Any:
    """The mean at every row of X, and with ``return_std`` the standard deviation of a new observation.

    ``latent``: of the function itself, without the noise.
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


def classes_predict_proba(X: Any) -> np.ndarray:
    """The probability of every class, in the order of CLASSES, at every row of X."""
    return in_parts(lambda part: (probabilities(part),), matrix(X))[0]


def classes_predict(X: Any) -> np.ndarray:
    """The most probable class at every row of X."""
    return np.array(CLASSES)[predict_proba(X).argmax(1)]


# the command ------------------------------------------------------------------------------------------------------------
def regression_answer(X: Any) -> Any:
    """Titles and columns of the table that is written."""
    both = predict(X, return_std=True) if STD else (predict(X),)
    heads = [""] if len(TARGETS) == 1 else [f"{name}_" for name in TARGETS]
    columns = [np.reshape(part, (len(part), -1))[:, j] for j in range(len(heads)) for part in both]
    return [f"{head}{name}" for head in heads for name in ("mean", "std")[: len(both)]], columns


def classes_answer(X: Any) -> Any:
    """Titles and columns of the table that is written."""
    p = predict_proba(X)
    return ["class", *(f"p_{c}" for c in CLASSES)], [np.array(CLASSES)[p.argmax(1)], *p.T]


def read_csv(path: str) -> Any:
    """A table with a header line: texts by column, or numbers in order where the model knows no names."""
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
        raise ValueError(f"row {uneven + 1} has {cells} and the header {len(header)}")
    known = {c["name"]: c.get("levels", ()) for c in COLUMNS}
    columns = [cells_of([row[j] for row in rows[1:]], known.get(name, ())) for j, name in enumerate(header)]
    if any(c["name"] is not None for c in COLUMNS):
        return dict(zip(header, columns, strict=True))
    return np.column_stack([numbers({"name": n, "kind": "number"}, c)[0] for n, c in zip(header, columns, strict=True)])


def cells_of(texts: list[str], levels: Any) -> list[Any]:
    """The entries of a column of a CSV file: None for a gap, which no category is, and numbers where all others are."""
    cells = [" ".join(text.split()) for text in texts]
    found: list[Any] = [None if text in GAPS and text not in levels else text for text in cells]
    try:
        values = [None if value is None else float(digits(value)) for value in found] if levels else found
    except ValueError:
        return found
    return found if any(value is not None and value != value for value in values) else values


def main(arguments: list[str]) -> int:
    """Predict the rows of a CSV file into another one, or to the screen."""
    if len(arguments) not in (1, 2) or arguments[0] in ("-h", "--help"):
        sys.stderr.write("usage: python predictor.py TABLE.csv [PREDICTIONS.csv]   (- is standard input)\n")
        return 2
    try:
        if len(arguments) == 2 and all(Path(name).exists() for name in arguments) and Path(arguments[1]).samefile(arguments[0]):
            raise ValueError(f"{arguments[1]!r} is also what is read; write to another file")
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
