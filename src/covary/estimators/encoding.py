"""The parts of a fitted model as JSON, and back: modules by name and numbers, priors, kernels by their text."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from covary import distributions, likelihoods
from covary._checks import CovaryError, fail, shown
from covary._module import STATIC, Mark, Marked, Module, modules
from covary.committee.settings import Committee
from covary.estimators.committees import decode_committee, encode_committee
from covary.estimators.entries import Functions, function_given, function_name, functions_of, number, numeric, option, simple
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.low_rank import LowRank
from covary.gram.markov import Markov
from covary.gram.subset import Subset
from covary.gram.vecchia import NearestNeighbours, Vecchia
from covary.inference.ep import EP
from covary.inference.exact import Exact
from covary.inference.laplace import Laplace
from covary.inference.svgp import SVGP
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.combine import Function
from covary.kernels.text import CATALOGUE, parse
from covary.likelihoods.base import AbstractLikelihood
from covary.means import functions as means
from covary.means.basis import BasisMean
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
OWN = ("settled",)  # what a gram finds out for itself from model and data


def encode(module: Module) -> dict[str, Any]:
    """A module without children: its type, its numbers, its structure, its marks; functions by name."""
    declared = dataclasses.fields(module)  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for f in (f for f in declared if not f.metadata.get(STATIC)):
        value = getattr(module, f.name)
        values[f.name] = {k: number(v) for k, v in value.items()} if isinstance(value, dict) else number(value)
    structure = {f.name: getattr(module, f.name) for f in declared if f.metadata.get(STATIC) and f.name != "_marks"}
    structure = {k: {"function": function_name(v)} if callable(v) else option(v) for k, v in structure.items()}
    marks = {name: {"fixed": m.fixed, "bounds": m.bounds and number(m.bounds)} for name, m in module._marks}  # type: ignore[attr-defined]
    out = {"type": type(module).__name__, "values": values, "marks": marks}
    return {**out, "structure": structure} if structure else out


def decode(record: dict[str, Any], known: dict[str, Any], functions: Functions | None = None, *, every: bool = False) -> Any:
    """The module, if its type is one of the known ones; with ``every`` nothing may be left to a default."""
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
        raise fail("load", f"{record['type']} has entries it does not know", "save the model again")
    wrong = next((name for name, v in structure.items() if not _of_type(v, types[name])), None)
    if wrong is not None:
        raise fail("load", f"{record['type']} has {wrong} = {shown(structure[wrong])}", f"expected {types[wrong]}")
    if every and set(declared) - {"_marks"} - set(values) - set(structure):
        raise fail("load", f"{record['type']} lacks an entry", "save the model again")
    inside = {name: v for v in values.values() if isinstance(v, dict) for name in v}
    for name, m in record["marks"].items():
        bounds = None if m["bounds"] is None else (float(numeric(m["bounds"][0])), float(numeric(m["bounds"][1])))
        where = inside.get(name, values)
        where[name] = Marked(where[name], Mark(bool(m["fixed"]), bounds))
    return kind(**values, **structure)


def _of_type(value: Any, annotation: str) -> bool:
    """Whether an option is of a plain type that its field names; fields of other types look for themselves."""
    allowed = annotation.split(" | ")
    if not set(allowed) <= {"str", "bool", "int", "float", "None"}:
        return True
    return type(value).__name__.replace("NoneType", "None") in allowed or (type(value) is int and "float" in allowed)


def _structure(value: Any, functions: Functions, annotation: str) -> Any:
    """An entry of the structure: an option, or a function by its name; 50.0 where a whole number is expected is 50."""
    if isinstance(value, dict):
        return function_given(value["function"], functions)
    value = simple(value)
    return int(value) if type(value) is float and value.is_integer() and annotation.startswith("int") else value


def encode_gram(gram: AbstractGram) -> dict[str, Any]:
    """How K is handled; inducing inputs are an array of their own."""
    if isinstance(gram, Committee):
        return encode_committee(gram, encode_gram)
    if GRAMS.get(type(gram).__name__) is not type(gram):
        raise fail("save", f"method is {type(gram).__name__}", "use a gram of covary's own")
    declared = dataclasses.fields(gram)  # type: ignore[arg-type]
    structure = {f.name: option(getattr(gram, f.name)) for f in declared if f.metadata.get(STATIC) and f.name not in OWN}
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
    if PRIORS.get(type(prior).__name__) is not type(prior):
        raise fail("save", f"the prior {type(prior).__name__} is a user's own class", "use one of covary.distributions")
    return [type(prior).__name__, {f.name: number(getattr(prior, f.name)) for f in dataclasses.fields(prior)}]


def decode_prior(record: Any) -> Any:
    """What :func:`encode_prior` wrote."""
    if len(record) == 2 and isinstance(record[0], str):
        if record[0] not in PRIORS:
            raise fail("load", f"the prior {record[0][:60]!r} is not known", f"expected one of {', '.join(PRIORS)}")
        return PRIORS[record[0]](**{name: float(numeric(v)) for name, v in record[1].items()})
    return [decode_prior(r) for r in record]


def encode_mean(mean: Any) -> dict[str, Any]:
    """A mean function of covary's own, which may hold a user's function."""
    if MEANS.get(type(mean).__name__) is not type(mean):
        raise fail("save", f"the mean {type(mean).__name__} is a user's own class", "use one of covary.means, or a function")
    return encode(mean)


def encode_likelihood(likelihood: AbstractLikelihood) -> dict[str, Any]:
    """A likelihood of covary's own, which may hold a user's function."""
    if LIKELIHOODS.get(type(likelihood).__name__) is not type(likelihood):
        raise fail("save", f"the likelihood {type(likelihood).__name__} is a user's own", "use one of covary.likelihoods")
    return encode(likelihood)


def encode_inference(inference: Any) -> dict[str, Any]:
    """A way of inference of covary's own."""
    if INFERENCES.get(type(inference).__name__) is not type(inference):
        what = f"the inference {type(inference).__name__} is a user's own class"
        raise fail("save", what, "use one of covary.inference, or pickle the model")
    return encode(inference)


OWN_KERNELS = {*CATALOGUE.values(), Sum, Product, Scaled, Power, Function}  # those that text stands for


def encode_model(model: Model) -> dict[str, Any]:
    """Kernels by their text, mean and likelihood by their numbers."""
    kernel = model.kernel
    text = [encode_kernel(k) for k in kernel] if isinstance(kernel, tuple) else encode_kernel(kernel)
    return {"kernel": text, "mean": encode_mean(model.mean), "likelihood": encode_likelihood(model.likelihood)}


def encode_kernel(kernel: AbstractKernel) -> str:
    """A kernel as text, from which the same kernel comes back."""
    strange = [part for part in modules(kernel) if isinstance(part, AbstractKernel) and type(part) not in OWN_KERNELS]
    if strange:
        what = f"the kernel holds {type(strange[0]).__name__}, which a model file cannot hold"
        raise fail("save", what, "write it as Function(f), with f given to load again, or pickle the model")
    text = repr(kernel)
    try:
        again = parse(text, functions_of(kernel), most=MOST_TEXT, held=False)
    except CovaryError as error:
        raise fail("save", f"the kernel cannot be read from its text ({error})"[:400], _KERNELS) from None
    if again != kernel:
        raise fail("save", f"the kernel {text[:60]} does not come back from its text", _KERNELS)
    return text


_KERNELS = "use the kernels of covary.kernels, with functions written with def"


def decode_kernel(text: Any, functions: Functions) -> Any:
    """A kernel, or a tuple of them, from text."""
    if isinstance(text, list):
        return tuple(parse(part, functions, most=MOST_TEXT, held=False) for part in text)
    return parse(text, functions, most=MOST_TEXT, held=False)


def decode_model(record: dict[str, Any], functions: Functions) -> Model:
    """What :func:`encode_model` wrote (schema 1 knew Gaussian noise only)."""
    prior = GP(decode_kernel(record["kernel"], functions), mean=decode(record["mean"], MEANS, functions, every=True))
    likelihood = record["likelihood"] if "likelihood" in record else record["noise"]
    return Model(prior, likelihood=decode(likelihood, LIKELIHOODS, functions, every=True))
