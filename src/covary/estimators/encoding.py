"""The parts of a fitted estimator as JSON, and back: modules by name and numbers, priors, constructor arguments."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import fields
from typing import Any

import numpy as np

from covary import distributions, likelihoods
from covary._checks import fail
from covary._module import STATIC, Mark, Marked, Module
from covary.committee.settings import Committee
from covary.estimators.committees import decode_committee, encode_committee
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.low_rank import LowRank
from covary.gram.markov import Markov
from covary.gram.subset import Subset
from covary.gram.vecchia import NearestNeighbours, Vecchia
from covary.inference.base import AbstractInference
from covary.inference.ep import EP
from covary.inference.exact import Exact
from covary.inference.laplace import Laplace
from covary.inference.svgp import SVGP
from covary.kernels.base import AbstractKernel
from covary.kernels.text import parse
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.means import functions as means
from covary.model import GP, Model
from covary.selection.left_out import GeneralisedCrossValidation, KFold, LeaveOneOut

MOST_TEXT = 2**18  # characters of a kernel in a file
MEANS = {c.__name__: c for c in (means.Zero, means.Constant, means.Linear)}
PRIORS = {
    c.__name__: c
    for c in vars(distributions).values()
    if isinstance(c, type) and issubclass(c, distributions.AbstractDistribution) and not c.__name__.startswith("Abstract")
}
LIKELIHOODS = {name: c for name, c in vars(likelihoods).items() if isinstance(c, type) and issubclass(c, AbstractLikelihood)}
INFERENCES = {c.__name__: c for c in (Exact, Laplace, EP, SVGP)}
OBJECTIVES = {c.__name__: c for c in (LeaveOneOut, GeneralisedCrossValidation, KFold)}
GRAMS: dict[str, Any] = {c.__name__: c for c in (Dense, Subset, LowRank, Vecchia, NearestNeighbours, Markov)}
OWN = ("settled",)  # what a gram finds out for itself from model and data


# small parts ----------------------------------------------------------------------------------------------------
def number(value: Any) -> Any:
    """A number or an array of them for JSON, exact; infinities by name."""
    if np.ndim(value):
        return [number(v) for v in np.asarray(value)]
    value = float(value)
    return value if math.isfinite(value) else repr(value)


def numeric(value: Any) -> Any:
    """What :func:`number` wrote."""
    if isinstance(value, list):
        return [numeric(v) for v in value]
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def plain(value: Any) -> Any:
    """A label for JSON: text, a whole number, a number, true or false."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, str | bool | int | float):
        raise fail("save", f"the label {value!r} is neither text nor a number", "use such labels in models to be saved")
    return value


def encode(module: Module) -> dict[str, Any]:
    """A module without children: its type, its numbers, its structure, its marks."""
    declared = dataclasses.fields(module)  # type: ignore[arg-type]
    fields = {f.name: number(getattr(module, f.name)) for f in declared if not f.metadata.get(STATIC)}
    structure = {f.name: getattr(module, f.name) for f in declared if f.metadata.get(STATIC) and f.name != "_marks"}
    marks = {name: {"fixed": m.fixed, "bounds": m.bounds and list(m.bounds)} for name, m in module._marks}  # type: ignore[attr-defined]
    out = {"type": type(module).__name__, "values": fields, "marks": marks}
    return {**out, "structure": structure} if structure else out


def decode(record: dict[str, Any], known: dict[str, Any]) -> Any:
    """The module, if its type is one of the known ones."""
    if record["type"] not in known:
        raise fail("load", f"{str(record['type'])[:60]!r} is not known", f"expected one of {', '.join(known)}")
    kind = known[record["type"]]
    names = {f.name for f in dataclasses.fields(kind)}
    structure = record.get("structure", {})
    if not set(record["values"]) | set(record["marks"]) | set(structure) <= names:
        raise fail("load", f"{record['type']} has entries it does not know", "save the model again")
    if not all(v is None or isinstance(v, str | bool | int | float) for v in structure.values()):
        raise fail("load", f"{record['type']} has a strange structure", "save the model again")
    values: dict[str, Any] = {name: numeric(v) for name, v in record["values"].items()} | structure
    for name, m in record["marks"].items():
        bounds = None if m["bounds"] is None else (float(numeric(m["bounds"][0])), float(numeric(m["bounds"][1])))
        values[name] = Marked(values[name], Mark(bool(m["fixed"]), bounds))
    return kind(**values)


def encode_gram(gram: AbstractGram) -> dict[str, Any]:
    """How K is handled; inducing inputs are an array of their own."""
    if isinstance(gram, Committee):
        return encode_committee(gram, encode_gram)
    if type(gram).__name__ not in GRAMS:
        raise fail("save", f"method is {type(gram).__name__}", "use a gram of covary's own")
    declared = dataclasses.fields(gram)  # type: ignore[arg-type]
    structure = {f.name: getattr(gram, f.name) for f in declared if f.metadata.get(STATIC) and f.name not in OWN}
    count = getattr(gram, "inducing", None)
    values = {"inducing": number(count)} if count is not None and np.ndim(count) == 0 else {}
    return {"type": type(gram).__name__, "values": values, "marks": {}, "structure": structure}


def decode_gram(record: dict[str, Any], inducing: Any = None) -> AbstractGram:
    """What :func:`encode_gram` wrote, with its inducing inputs if it has any."""
    if record["type"] == "Committee":
        return decode_committee(record, decode_gram)
    if inducing is not None:
        record = record | {"values": {"inducing": number(1.0)}}
    gram = decode(record, GRAMS)
    return gram if inducing is None else gram.replace(inducing=inducing)


def encode_prior(prior: Any) -> Any:
    """A distribution, or a list of them."""
    if isinstance(prior, list | tuple):
        return [encode_prior(p) for p in prior]
    return [type(prior).__name__, {f.name: number(getattr(prior, f.name)) for f in dataclasses.fields(prior)}]


def decode_prior(record: Any) -> Any:
    """What :func:`encode_prior` wrote."""
    if len(record) == 2 and isinstance(record[0], str):
        if record[0] not in PRIORS:
            raise fail("load", f"the prior {record[0][:60]!r} is not known", f"expected one of {', '.join(PRIORS)}")
        return PRIORS[record[0]](**{name: numeric(v) for name, v in record[1].items()})
    return [decode_prior(r) for r in record]


def encode_mean(mean: Any) -> dict[str, Any]:
    """A mean function that is not a user's own."""
    if type(mean).__name__ not in MEANS:
        raise fail("save", "the mean is a user's function", "use 'zero', 'constant' or 'linear' in models to be saved")
    return encode(mean)


def encode_likelihood(likelihood: AbstractLikelihood) -> dict[str, Any]:
    """A likelihood that is not a user's own."""
    if LIKELIHOODS.get(type(likelihood).__name__) is not type(likelihood):
        raise fail("save", f"the likelihood {type(likelihood).__name__} is a user's own", "use one of covary.likelihoods")
    return encode(likelihood)


def encode_model(model: Model) -> dict[str, Any]:
    """Kernels by their text, mean and likelihood by their numbers."""
    kernel = model.kernel
    text = [repr(k) for k in kernel] if isinstance(kernel, tuple) else repr(kernel)
    return {"kernel": text, "mean": encode_mean(model.mean), "likelihood": encode_likelihood(model.likelihood)}


def decode_kernel(text: Any, functions: dict[str, Any]) -> Any:
    """A kernel, or a tuple of them, from text."""
    if isinstance(text, list):
        return tuple(parse(part, functions, most=MOST_TEXT) for part in text)
    return parse(text, functions, most=MOST_TEXT)


def decode_model(record: dict[str, Any], functions: dict[str, Any]) -> Model:
    """What :func:`encode_model` wrote (schema 1 knew Gaussian noise only)."""
    prior = GP(decode_kernel(record["kernel"], functions), mean=decode(record["mean"], MEANS))
    likelihood = record["likelihood"] if "likelihood" in record else record["noise"]
    return Model(prior, likelihood=decode(likelihood, LIKELIHOODS))


# constructor arguments ------------------------------------------------------------------------------------------
def encode_params(params: dict[str, Any]) -> dict[str, Any]:
    """The estimator's own arguments."""
    return {name: _encode_param(name, value) for name, value in params.items()}


def _encode_param(name: str, value: Any) -> Any:
    if name == "kernel" and isinstance(value, AbstractKernel):
        return {"kernel": repr(value)}
    if name == "kernel" and isinstance(value, list | tuple):
        return {"kernels": [repr(k) if isinstance(k, AbstractKernel) else {"text": str(k)} for k in value]}
    if name == "likelihood" and isinstance(value, AbstractLikelihood):
        return {"likelihood": encode_likelihood(value)}
    if name == "inference" and isinstance(value, AbstractInference):
        return {"inference": encode(value)}
    if name == "method" and isinstance(value, AbstractGram):
        places = getattr(value, "inducing", None)
        inside = {} if places is None or np.ndim(places) == 0 else {"inducing": np.asarray(places).tolist()}
        return {"method": encode_gram(value)} | inside
    if name == "objective" and not isinstance(value, str):
        kept = [f.name for f in fields(value)] if type(value) in OBJECTIVES.values() else []
        given = {name: v for name in kept if isinstance(v := getattr(value, name), str | int | float)}
        if not kept or type(value)(**given) != value:
            what = f"the objective {value!r} cannot be written to a file"
            raise fail("save", what, "set_params(objective='evidence') first: the fit stays as it is")
        return {"objective": type(value).__name__, "with": given}
    if name == "executor":
        return value if value in ("dask", "serial") else None  # a file does not tell its reader which machines to call
    if name == "class_weight" and isinstance(value, dict):
        return {"class_weight": [[plain(k), number(v)] for k, v in value.items()]}
    if name == "mean":
        return value if isinstance(value, str) else {"mean": encode_mean(value)}
    if name == "priors" and isinstance(value, dict):
        return {"priors": {path: encode_prior(p) for path, p in value.items()}}
    if name == "noise" and isinstance(value, Marked):
        return {"noise": encode(Gaussian(value))}
    if name == "bounds":
        return value and {path: [number(b) for b in pair] for path, pair in dict(value).items()}  # type: ignore[arg-type, call-arg]
    if name == "fixed":
        return value if isinstance(value, str) else [*(value or ())]
    if name == "seasonality":
        return value if value is None or isinstance(value, str) else [str(v) for v in value]
    if name == "max_time" and value == np.inf:
        return None
    if name == "random_state":
        return int(value) if isinstance(value, int | np.integer) else None
    return value.item() if isinstance(value, np.generic) else value


def decode_params(record: dict[str, Any], functions: dict[str, Any]) -> dict[str, Any]:
    """What :func:`encode_params` wrote."""
    out = dict(record)
    if isinstance(out["kernel"], dict) and "kernels" in out["kernel"]:
        each = out["kernel"]["kernels"]
        out["kernel"] = [str(k["text"]) if isinstance(k, dict) else decode_kernel(k, functions) for k in each]
    elif isinstance(out["kernel"], dict):
        out["kernel"] = decode_kernel(out["kernel"]["kernel"], functions)
    if isinstance(out.get("likelihood"), dict):
        out["likelihood"] = decode(out["likelihood"]["likelihood"], LIKELIHOODS)
    if isinstance(out.get("inference"), dict):
        out["inference"] = decode(out["inference"]["inference"], INFERENCES)
    if isinstance(out.get("method"), dict):
        places = out["method"].get("inducing")
        out["method"] = decode_gram(out["method"]["method"], None if places is None else np.array(places, np.float64))
    if isinstance(out.get("objective"), dict):
        out["objective"] = OBJECTIVES[out["objective"]["objective"]](**out["objective"]["with"])
    if isinstance(out.get("class_weight"), dict):
        out["class_weight"] = {k: numeric(v) for k, v in out["class_weight"]["class_weight"]}
    if isinstance(out["mean"], dict):
        out["mean"] = decode(out["mean"]["mean"], MEANS)
    if isinstance(out["priors"], dict):
        out["priors"] = {path: decode_prior(p) for path, p in out["priors"]["priors"].items()}
    if isinstance(out.get("noise"), dict):
        noise = decode(out["noise"]["noise"], {"Gaussian": Gaussian})
        out["noise"] = Marked(float(noise.variance), noise.mark_of("variance"))
    if out["bounds"] is not None:
        out["bounds"] = {path: (numeric(pair[0]), numeric(pair[1])) for path, pair in out["bounds"].items()}
    if isinstance(out["fixed"], list):
        out["fixed"] = tuple(out["fixed"])
    return out
