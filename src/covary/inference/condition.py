"""The verb ``condition``: check once, bind the gram, run the inference."""

from __future__ import annotations

from typing import Any

from covary._checks import fail
from covary._memory import check_memory
from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.base import AbstractBound, AbstractGram
from covary.gram.dense import Dense
from covary.inference.base import AbstractInference
from covary.inference.exact import Exact
from covary.inference.separation import check_weights
from covary.inference.svgp import SVGP
from covary.likelihoods.gaussian import Gaussian
from covary.likelihoods.softmax import Softmax
from covary.model import Model
from covary.posterior import Posterior


def bind(who: str, model: Any, data: Any, gram: AbstractGram, workspace: dict[str, Any] | None = None) -> AbstractBound:
    """Check model against data, and bind the gram."""
    if not isinstance(model, Model):  # what learn returns is unwrapped by the verbs
        raise fail(who, f"got {type(model).__name__} for the model", "give a Model(GP(kernel), likelihood=...)")
    if not isinstance(data, Data):
        raise fail(who, f"got {type(data).__name__} for the data", "give Data(X, y)")
    model.prior.check(data.X)
    if isinstance(gram, Dense) and workspace is None:  # whoever lends a buffer has asked before
        check_dense(who, model, data)
    return gram.bind(model.prior.kernels, data.X, model.prior.basis, workspace)


def dense_buffers(model: Any) -> int:
    """How many n × n buffers a likelihood needs at its peak."""
    latents, kernels = model.likelihood.latents, len(model.prior.kernels)
    if isinstance(model.likelihood, Gaussian):
        return 2
    if isinstance(model.likelihood, Softmax):
        return kernels + 3 * latents + 2
    return kernels + (4 if latents == 1 else 4 * latents**2)


def check_dense(who: str, model: Any, data: Data) -> None:
    """Refuse what cannot fit."""
    needed = dense_buffers(model) * data.rows**2 * data.dtype.itemsize
    check_memory(who, needed, "use fewer rows or an approximation such as LowRank(...)")


def order(bound: AbstractBound, inference: AbstractInference) -> int:
    """The size of the matrices that BLAS is given whole: what is streamed over the rows runs on threads of its own."""
    return bound.X.rows if isinstance(inference, SVGP) else min(bound.width, bound.X.rows)


def as_model(value: Any) -> Any:
    """A model, or the model inside what ``learn`` returned."""
    return getattr(value, "model", value)


def settled(model: Any, data: Any, gram: AbstractGram) -> tuple[AbstractGram, Any]:
    """The gram with everything chosen that depends on model and data, and the data it is for.

    What ``learn`` returned brings its own choice, if it was learned with this recipe.
    """
    if not isinstance(data, Data):
        return gram, data  # bind says what is wrong with it
    if getattr(model, "recipe", None) is not None and model.recipe == gram and hasattr(model.gram, "inducing"):
        return model.gram, data  # inducing inputs that were learned are not chosen anew
    inner = as_model(model)
    return gram.prepare(inner, data) if isinstance(inner, Model) else (gram, data)


def condition(model: Model, data: Data, *, inference: AbstractInference = Exact(), gram: AbstractGram = Dense()) -> Posterior:
    """The posterior of a model given data, at the model's own hyperparameters.

    Parameters
    ----------
    model
        Prior and likelihood.
    data
        What was seen.
    inference
        How the posterior is approximated: ``Exact()`` for Gaussian noise, else ``Laplace()`` or ``EP()``.
    gram
        How K is handled: ``Dense()``, ``LowRank(...)``, ``Vecchia(...)``, ``Markov()``, ``Subset(...)``,
        ``Committee(...)``.

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> from covary.likelihoods import Gaussian
    >>> post = condition(Model(GP("Matern52()"), likelihood=Gaussian(0.01)), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> post.predict([[0.5]]).f.mean.round(3)
    array([0.54])
    """
    if gram.composite:
        bind("condition", as_model(model), data.take(slice(0, 1)) if isinstance(data, Data) else data, gram, {})
        return gram.condition(model, data, inference)
    gram, data = settled(model, data, gram)
    start = getattr(model, "start", None) if isinstance(inference, SVGP) else None
    model = as_model(model)
    bound = bind("condition", model, data, gram)
    check_weights("condition", model, data)
    with precision(data.dtype), blas_threads(order(bound, inference)):
        solved = inference.solve(model, data, bound, memory=start)
        return Posterior(model, data, solved.extra.get("bound", bound), solved)
