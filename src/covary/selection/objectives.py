"""Objectives: functions of a model and data, with gradients of the model's shape."""

from __future__ import annotations

from typing import Any

from covary._precision import precision
from covary._threads import blas_threads
from covary.data import Data
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.traced import on_device, traced_log_evidence_and_grad
from covary.inference.base import AbstractInference
from covary.inference.condition import as_model, bind, order, settled
from covary.inference.exact import Exact
from covary.model import Model


def log_evidence(model: Model, data: Data, *, inference: AbstractInference = Exact(), gram: AbstractGram = Dense()) -> float:
    """log p(y | X), the log marginal likelihood (R&W, eq. 2.30), exact or as the inference approximates it.

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> round(log_evidence(Model(GP("Matern52()")), Data([[0.0], [1.0]], [0.0, 1.0])), 4)
    -2.7639
    """
    if gram.composite:
        return gram.evidence(as_model(model), data, inference)[0]
    gram, data = settled(model, data, gram)
    model = as_model(model)
    bound = bind("log_evidence", model, data, gram)
    with precision(data.dtype), blas_threads(order(bound, inference)):
        return inference.solve(model, data, bound).log_evidence


def log_evidence_and_grad(
    model: Model,
    data: Data,
    *,
    inference: AbstractInference = Exact(),
    gram: AbstractGram = Dense(),
    fixed_jitter: float | None = None,
    workspace: dict[str, Any] | None = None,
) -> tuple[float, Any]:
    """The log evidence and its gradient, a model whose numbers are the derivatives (R&W, eq. 5.9).

    A gradient costs at most about twice a value more, whatever the number of parameters.

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> value, grad = log_evidence_and_grad(Model(GP("Matern52()")), Data([[0.0], [1.0]], [0.0, 1.0]))
    >>> round(float(grad.kernel.lengthscale), 4)
    0.0376
    """
    if gram.composite:
        return gram.evidence(as_model(model), data, inference)
    gram, data = settled(model, data, gram)
    model = as_model(model)
    bound = bind("log_evidence_and_grad", model, data, gram, workspace)
    with precision(data.dtype), blas_threads(order(bound, inference)):
        if isinstance(inference, Exact) and on_device(gram, data.rows):
            return traced_log_evidence_and_grad(model, data, jitter=fixed_jitter or 0.0)
        solved = inference.solve(model, data, bound, fixed_jitter=fixed_jitter, memory=workspace)
        gradient = inference.gradient(model, data, bound, solved, consume=True)
        if workspace is not None and solved.extra.get("inducing") is not None:
            workspace["inducing"] = solved.extra["inducing"]
        return solved.log_evidence, gradient
