"""Conversion of the parts of a fitted model to JSON and back: modules, priors, kernels (as text)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from covary import distributions, likelihoods
from covary._checks import CovaryError, fail, shown
from covary._errors import Option, Remedy
from covary._module import STATIC, Mark, Marked, Module, modules
from covary.committee.settings import Committee
from covary.families.gaussian_process.committee_settings import decode_committee, encode_committee
from covary.files.pages import (
    Functions,
    Page,
    finite,
    function_given,
    function_name,
    functions_of,
    number,
    numeric,
    option,
    plain,
    simple,
)
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
from covary.inference.plan import AbstractPlan
from covary.inference.svgp import SVGP
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.combine import Function
from covary.kernels.text import CATALOGUE, parse
from covary.likelihoods.base import AbstractLikelihood
from covary.likelihoods.gaussian import Gaussian
from covary.means import functions as means
from covary.means.basis import BasisMean
from covary.means.functions import AbstractMean
from covary.model import GP, Model
from covary.selection.left_out import GeneralisedCrossValidation, KFold, LeaveOneOut

MOST_TEXT = 2**18  # characters of a kernel in a file
MEANS = {c.__name__: c for c in (means.Zero, means.Constant, means.Linear, means.Function, BasisMean)}
PRIORS = {
    c.__name__: c
    for c in vars(distributions).values()
    if isinstance(c, type) and issubclass(c, distributions.AbstractDistribution) and not c.__name__.startswith("Abstract")
}
LIKELIHOODS = {
    name: c
    for name, c in vars(likelihoods).items()
    if isinstance(c, type) and issubclass(c, AbstractLikelihood) and c is not AbstractLikelihood
}
INFERENCES = {c.__name__: c for c in (Exact, Laplace, EP, SVGP)}
OBJECTIVES = {c.__name__: c for c in (LeaveOneOut, GeneralisedCrossValidation, KFold)}
GRAMS: dict[str, Any] = {c.__name__: c for c in (Dense, Subset, LowRank, Vecchia, NearestNeighbours, Markov)}
OWN = ("settled",)  # fields that a gram derives from model and data


def encode(module: Module) -> dict[str, Any]:
    """Return a module without children for JSON: its type, numbers, structure and marks; functions by name."""
    declared = dataclasses.fields(module)
    values: dict[str, Any] = {}
    for f in (f for f in declared if not f.metadata.get(STATIC)):
        value = getattr(module, f.name)
        values[f.name] = {k: number(v) for k, v in value.items()} if isinstance(value, dict) else number(value)
    structure = {f.name: getattr(module, f.name) for f in declared if f.metadata.get(STATIC) and f.name != "_marks"}
    structure = {k: {"function": function_name(v)} if callable(v) else option(v) for k, v in structure.items()}
    marks = {name: {"fixed": m.fixed, "bounds": m.bounds and number(m.bounds)} for name, m in module._marks}
    out = {"type": type(module).__name__, "values": values, "marks": marks}
    return {**out, "structure": structure} if structure else out


def decode(record: dict[str, Any], known: dict[str, Any], functions: Functions | None = None, *, every: bool = False) -> Any:
    """Return the module of a record, whose type must be known; with ``every``, no entry may be missing."""
    if record["type"] not in known:
        raise fail("load", f"{str(record['type'])[:60]!r} is not known", f"expected one of {', '.join(known)}")
    kind = known[record["type"]]
    declared = {f.name: bool(f.metadata.get(STATIC)) for f in dataclasses.fields(kind)}
    types = {f.name: str(f.type) for f in dataclasses.fields(kind)}
    structure = {name: _structure(v, functions or {}, types.get(name, "")) for name, v in record.get("structure", {}).items()}
    values: dict[str, Any] = {}
    for name, v in record["values"].items():
        values[name] = {str(k): numeric(n) for k, n in v.items()} if isinstance(v, dict) else numeric(v)
    if any(declared.get(name, True) for name in values) or not all(declared.get(name) for name in structure):
        raise fail("load", f"{record['type']} has unknown entries", Remedy("fit again", "save the model again"))
    wrong = next((name for name, v in structure.items() if not _of_type(v, types[name])), None)
    if wrong is not None:
        raise fail("load", f"{record['type']} has {wrong} = {shown(structure[wrong])}", f"expected {types[wrong]}")
    if every and set(declared) - {"_marks"} - set(values) - set(structure):
        raise fail("load", f"{record['type']} lacks an entry", Remedy("fit again", "save the model again"))
    inside = {name: v for v in values.values() if isinstance(v, dict) for name in v}
    for name, m in record["marks"].items():
        bounds = None if m["bounds"] is None else (float(numeric(m["bounds"][0])), float(numeric(m["bounds"][1])))
        where = inside.get(name, values)
        where[name] = Marked(where[name], Mark(bool(m["fixed"]), bounds))
    return kind(**values, **structure)


def _of_type(value: Any, annotation: str) -> bool:
    """Return whether an option has the type of its field, if that is a plain type; others are checked by the class."""
    allowed = annotation.split(" | ")
    if not set(allowed) <= {"str", "bool", "int", "float", "None"}:
        return True
    return type(value).__name__.replace("NoneType", "None") in allowed or (type(value) is int and "float" in allowed)


def _structure(value: Any, functions: Functions, annotation: str) -> Any:
    """Return an entry of the structure: an option, or a function by its name; 50.0 becomes 50 for an integer field."""
    if isinstance(value, dict):
        return function_given(value["function"], functions)
    value = simple(value)
    return int(value) if type(value) is float and value.is_integer() and annotation.startswith("int") else value


def encode_gram(gram: AbstractGram | AbstractPlan) -> dict[str, Any]:
    """Return a gram for JSON, without an array of inducing inputs, which is stored separately."""
    if isinstance(gram, Committee):
        return encode_committee(gram, encode_gram)
    if GRAMS.get(type(gram).__name__) is not type(gram):
        raise fail("save", Option("method") + f" is {type(gram).__name__}", "use one of covary's grams")
    declared = dataclasses.fields(gram)
    structure = {f.name: option(getattr(gram, f.name)) for f in declared if f.metadata.get(STATIC) and f.name not in OWN}
    count = getattr(gram, "inducing", None)
    values = {"inducing": number(count)} if count is not None and np.ndim(count) == 0 else {}
    return {"type": type(gram).__name__, "values": values, "marks": {}, "structure": structure}


def decode_gram(record: dict[str, Any], inducing: Any = None) -> AbstractGram | Committee:
    """Return the gram written by :func:`encode_gram`, with its inducing inputs if any."""
    if record["type"] == "Committee":
        return decode_committee(record, decode_gram)
    if inducing is not None:
        record = record | {"values": {"inducing": number(1.0)}}
    gram = decode(record, GRAMS)
    return gram if inducing is None else gram.replace(inducing=inducing)


def encode_prior(prior: Any) -> Any:
    """Return a prior, or a list of priors, for JSON."""
    if isinstance(prior, list | tuple):
        return [encode_prior(p) for p in prior]
    if PRIORS.get(type(prior).__name__) is not type(prior):
        raise fail("save", f"the prior {type(prior).__name__} is a user's own class", "use one of covary.distributions")
    return [type(prior).__name__, {f.name: number(getattr(prior, f.name)) for f in dataclasses.fields(prior)}]


def decode_prior(record: Any) -> Any:
    """Return the prior written by :func:`encode_prior`."""
    if len(record) == 2 and isinstance(record[0], str):
        if record[0] not in PRIORS:
            raise fail("load", f"the prior {record[0][:60]!r} is not known", f"expected one of {', '.join(PRIORS)}")
        return PRIORS[record[0]](**{name: float(numeric(v)) for name, v in record[1].items()})
    return [decode_prior(r) for r in record]


def encode_mean(mean: Any) -> dict[str, Any]:
    """Return one of covary's mean functions for JSON; it may contain a user's function."""
    if MEANS.get(type(mean).__name__) is not type(mean):
        raise fail("save", f"the mean {type(mean).__name__} is a user's own class", "use one of covary.means, or a function")
    return encode(mean)


def encode_likelihood(likelihood: AbstractLikelihood) -> dict[str, Any]:
    """Return one of covary's likelihoods for JSON; it may contain a user's function."""
    if LIKELIHOODS.get(type(likelihood).__name__) is not type(likelihood):
        raise fail("save", f"the likelihood {type(likelihood).__name__} is a user's own", "use one of covary.likelihoods")
    return encode(likelihood)


def encode_inference(inference: Any) -> dict[str, Any]:
    """Return one of covary's inference methods for JSON."""
    if INFERENCES.get(type(inference).__name__) is not type(inference):
        what = f"the inference {type(inference).__name__} is a user's own class"
        raise fail("save", what, "use one of covary.inference, or pickle the model")
    return encode(inference)


OWN_KERNELS = {*CATALOGUE.values(), Sum, Product, Scaled, Power, Function}  # kernels that can be written as text


def encode_model(model: Model) -> dict[str, Any]:
    """Return a model for JSON: kernels as text, mean and likelihood as modules."""
    kernel = model.kernel
    text = [encode_kernel(k) for k in kernel] if isinstance(kernel, tuple) else encode_kernel(kernel)
    return {"kernel": text, "mean": encode_mean(model.mean), "likelihood": encode_likelihood(model.likelihood)}


def encode_kernel(kernel: AbstractKernel) -> str:
    """Return a kernel as text; raise an error if the text does not reproduce it."""
    strange = [part for part in modules(kernel) if isinstance(part, AbstractKernel) and type(part) not in OWN_KERNELS]
    if strange:
        what = f"the kernel contains {type(strange[0]).__name__}, which cannot be stored in a model file"
        raise fail("save", what, "write it as Function(f), with f given to load again, or pickle the model")
    text = repr(kernel)
    try:
        again = parse(text, functions_of(kernel), most=MOST_TEXT, held=False)
    except CovaryError as error:
        raise fail("save", f"the kernel {text[:60]} cannot be read from its text", _KERNELS) from error
    if again != kernel:
        raise fail("save", f"the kernel {text[:60]} is not reproduced by its text", _KERNELS)
    return text


_KERNELS = "use the kernels of covary.kernels, with functions written with def"


def decode_kernel(text: Any, functions: Functions) -> Any:
    """Return a kernel, or a tuple of them, from text."""
    if isinstance(text, list):
        return tuple(parse(part, functions, most=MOST_TEXT, held=False) for part in text)
    return parse(text, functions, most=MOST_TEXT, held=False)


def decode_model(record: dict[str, Any], functions: Functions) -> Model:
    """Return the model written by :func:`encode_model` (schema 1 supported only Gaussian noise)."""
    prior = GP(decode_kernel(record["kernel"], functions), mean=decode(record["mean"], MEANS, functions, every=True))
    likelihood = record["likelihood"] if "likelihood" in record else record["noise"]
    return Model(prior, likelihood=decode(likelihood, LIKELIHOODS, functions, every=True))


# arguments of estimators --------------------------------------------------------------------------------------------
EXECUTORS = (None, "serial", "dask")  # executors that use no other machine


class Entry(NamedTuple):
    """Encoder and decoder of an argument; the decoder receives the user's functions by name."""

    out: Callable[[Any], Any]
    back: Callable[[Any, Functions], Any]


def encode_arguments(arguments: Mapping[str, object]) -> Page:
    """Return the arguments of an estimator for JSON."""
    return {name: ENTRIES.get(name, OPTION).out(value) for name, value in arguments.items()}


def decode_arguments(page: Page, functions: Functions) -> dict[str, object]:
    """Return the arguments written by :func:`encode_arguments`."""
    return {name: ENTRIES.get(name, OPTION).back(value, functions) for name, value in page.items()}


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
    if not isinstance(value, AbstractGram | AbstractPlan):
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
        raise fail("save", what, "call set_params(objective='evidence') first, which does not change the fit")
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
        raise fail("load", f"the file names the executor {str(record)[:60]!r}", "set executors only in your own program")
    return record


def _object(kind: type, key: str, out: Callable[[Any], Any], known: dict[str, Any]) -> Entry:
    """Return the entry of an argument that is an option, or an object stored under a key."""
    return Entry(
        lambda value: {key: out(value)} if isinstance(value, kind) else option(value),
        lambda record, functions: decode(record[key], known, functions) if isinstance(record, dict) else simple(record),
    )


def _dict(key: str, out: Callable[[dict[Any, Any]], Any], back: Callable[[Any], Any]) -> Entry:
    """Return the entry of an argument that is an option, or a dict stored under a key."""
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
