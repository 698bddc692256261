"""The constructor arguments of an estimator as JSON, and back: one table for both ways.

A file does not tell its reader whom to call or where to write: a scheduler's address, a checkpoint and the folder for sorted
rows stay with the program that gave them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from covary._checks import fail
from covary._module import Marked
from covary.estimators.encoding import (
    INFERENCES,
    LIKELIHOODS,
    MEANS,
    OBJECTIVES,
    decode,
    decode_gram,
    decode_kernel,
    decode_prior,
    encode,
    encode_gram,
    encode_inference,
    encode_kernel,
    encode_likelihood,
    encode_mean,
    encode_prior,
)
from covary.estimators.entries import Functions, finite, function_given, function_name, number, numeric, option, plain, simple
from covary.gram.base import AbstractGram
from covary.inference.base import AbstractInference
from covary.kernels.base import AbstractKernel
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.means.functions import AbstractMean

EXECUTORS = (None, "serial", "dask")  # by these names nobody else's machine is called


class Entry(NamedTuple):
    """How an argument is written, and read with the user's functions at hand."""

    out: Callable[[Any], Any]
    back: Callable[[Any, Functions], Any]


def encode_params(params: dict[str, Any]) -> dict[str, Any]:
    """The estimator's own arguments."""
    return {name: ENTRIES.get(name, OPTION).out(value) for name, value in params.items()}


def decode_params(record: dict[str, Any], known: dict[str, Any], functions: Functions) -> dict[str, Any]:
    """What :func:`encode_params` wrote, of an estimator with the known arguments."""
    strange = sorted(set(record) - set(known))
    if strange:
        raise fail("load", f"there is no argument {strange[0][:60]!r} in a model of this kind", "save the model again")
    return {name: ENTRIES.get(name, OPTION).back(value, functions) for name, value in record.items()}


def _kernel_out(value: Any) -> Any:
    if isinstance(value, AbstractKernel):
        return {"kernel": encode_kernel(value)}
    if isinstance(value, list | tuple):
        return {"kernels": [encode_kernel(k) if isinstance(k, AbstractKernel) else {"text": str(k)} for k in value]}
    return option(value)


def _kernel_back(record: Any, functions: Functions) -> Any:
    if not isinstance(record, dict):
        return simple(record)
    if "kernels" in record:
        return [str(k["text"]) if isinstance(k, dict) else decode_kernel(k, functions) for k in record["kernels"]]
    return decode_kernel(record["kernel"], functions)


def _method_out(value: Any) -> Any:
    if not isinstance(value, AbstractGram):
        return option(value)
    places = getattr(value, "inducing", None)
    inside = {} if places is None or np.ndim(places) == 0 else {"inducing": number(places)}
    return {"method": encode_gram(value)} | inside


def _method_back(record: Any, _: Functions) -> Any:
    if not isinstance(record, dict):
        return simple(record)
    places = record.get("inducing")
    return decode_gram(record["method"], None if places is None else np.array(numeric(places), np.float64))


def _objective_out(value: Any) -> Any:
    if isinstance(value, str):
        return value
    kept = [f.name for f in fields(value)] if type(value) in OBJECTIVES.values() else []
    given = {name: v for name in kept if isinstance(v := getattr(value, name), str | int | float)}
    if not kept or type(value)(**given) != value:
        what = f"the objective {value!r} cannot be written to a file"
        raise fail("save", what, "set_params(objective='evidence') first: the fit stays as it is")
    return {"objective": type(value).__name__, "with": given}


def _objective_back(record: Any, _: Functions) -> Any:
    if not isinstance(record, dict):
        return simple(record)
    return OBJECTIVES[record["objective"]](**{str(name): simple(v) for name, v in record["with"].items()})


def _mean_out(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return {"mean": encode_mean(value)} if isinstance(value, AbstractMean) else {"function": function_name(value)}


def _mean_back(record: Any, functions: Functions) -> Any:
    if not isinstance(record, dict):
        return simple(record)
    return function_given(record["function"], functions) if "function" in record else decode(record["mean"], MEANS, functions)


def _noise_out(value: Any) -> Any:
    return {"noise": encode(Gaussian(value))} if isinstance(value, Marked) else option(value)


def _noise_back(record: Any, _: Functions) -> Any:
    if not isinstance(record, dict):
        return simple(record)
    noise = decode(record["noise"], {"Gaussian": Gaussian})
    return Marked(float(noise.variance), noise.mark_of("variance"))


def _executor_back(record: Any, _: Functions) -> Any:
    if record not in EXECUTORS:
        raise fail("load", f"the file names the executor {str(record)[:60]!r}", "take one only from your own program")
    return record


def _object(kind: type, key: str, out: Callable[[Any], Any], known: dict[str, Any]) -> Entry:
    """An argument that is an option, or one of covary's objects under a key."""
    return Entry(
        lambda value: {key: out(value)} if isinstance(value, kind) else option(value),
        lambda record, functions: decode(record[key], known, functions) if isinstance(record, dict) else simple(record),
    )


def _dict(key: str, out: Callable[[dict[Any, Any]], Any], back: Callable[[Any], Any]) -> Entry:
    """An argument that is an option, or a dict under a key."""
    return Entry(
        lambda value: {key: out(value)} if isinstance(value, dict) else option(value),
        lambda record, _: back(record[key]) if isinstance(record, dict) else simple(record),
    )


def _texts(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else [str(v) for v in value]


OPTION = Entry(option, lambda record, _: simple(record))
ENTRIES = {
    "kernel": Entry(_kernel_out, _kernel_back),
    "likelihood": _object(AbstractLikelihood, "likelihood", encode_likelihood, LIKELIHOODS),
    "inference": _object(AbstractInference, "inference", encode_inference, INFERENCES),
    "method": Entry(_method_out, _method_back),
    "objective": Entry(_objective_out, _objective_back),
    "mean": Entry(_mean_out, _mean_back),
    "noise": Entry(_noise_out, _noise_back),
    "priors": _dict(
        "priors",
        lambda value: {path: encode_prior(p) for path, p in value.items()},
        lambda record: {str(path): decode_prior(p) for path, p in record.items()},
    ),
    "class_weight": _dict(
        "class_weight",
        lambda value: [[plain(k), number(v)] for k, v in value.items()],
        lambda record: {plain(k): finite(v) for k, v in record},
    ),
    "bounds": Entry(
        lambda value: value and {str(path): number(pair) for path, pair in dict(value).items()},
        lambda record, _: record and {str(path): (numeric(pair[0]), numeric(pair[1])) for path, pair in record.items()},
    ),
    "fixed": Entry(
        lambda value: _texts(value or ()), lambda record, _: record if isinstance(record, str) else tuple(_texts(record))
    ),
    "seasonality": Entry(_texts, lambda record, _: _texts(record)),
    "random_state": Entry(
        lambda value: int(value) if isinstance(value, int | np.integer) else None, lambda record, _: simple(record)
    ),
    "executor": Entry(lambda value: value if value in EXECUTORS else None, _executor_back),
    "checkpoint": Entry(lambda _: None, lambda *_: None),
}
