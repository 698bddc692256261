"""Two closed forms of model selection: the best overall scale of a covariance, and a kernel's alignment with labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from covary._checks import check_vector, fail
from covary._errors import Option
from covary.data import Data, Inputs, as_inputs
from covary.inference.condition import as_model, condition
from covary.kernels.base import AbstractKernel
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model


@dataclass(frozen=True)
class Scale:
    """The best common scale θ₀ of kernel and noise, and the log evidence at that scale."""

    scale: float
    log_evidence: float


def best_scale(model: Model, data: Data) -> Scale:
    r"""Return the common scale of kernel and noise that maximises the evidence (R&W, exercise 5.6.1).

    .. math:: \hat\theta_0 = \frac1n r^\top \tilde K_y^{-1} r, \qquad
        \log p = -\tfrac n2\log\hat\theta_0 - \tfrac12\log|\tilde K_y| - \tfrac n2(1 + \log 2\pi)

    Parameters
    ----------
    model
        A model with Gaussian noise and no explicit basis.
    data
        One output, without weights or known noise (they do not scale).

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> round(best_scale(Model(GP("Matern52()")), Data([[0.0], [1.0]], [0.0, 4.0])).scale, 4)
    4.2948
    """
    model = as_model(model)
    if not isinstance(model.likelihood, Gaussian) or model.prior.basis is not None:
        raise fail("best_scale", "the likelihood is not Gaussian noise, or the model has a basis", "learn the scale instead")
    if data.y.ndim != 1 or data.noise_variance is not None or data.weight is not None:
        raise fail("best_scale", "the data have several outputs, weights or known noise", "learn the scale instead")
    post = condition(model, data)
    n = data.rows
    quad = float(post.factor.quad(post.solved.shift))
    if quad <= 0:
        raise fail("best_scale", "y equals its mean everywhere", "give observations that vary")
    scale = quad / n
    value = -0.5 * (n * np.log(scale) + float(post.factor.logdet()) + n * (1 + np.log(2 * np.pi)))
    return Scale(scale, float(value))


def kernel_alignment(kernel: AbstractKernel, X: Inputs | ArrayLike, y: ArrayLike) -> float:
    r"""Compute the alignment of a kernel matrix with labels ±1, from −1 to 1 (R&W, eq. 5.28; Cristianini et al. 2002).

    .. math:: A(K, y) = \frac{y^\top K y}{n\,\lVert K\rVert_F}

    Parameters
    ----------
    kernel
        Any kernel.
    X
        Inputs (n, d).
    y
        Labels, −1 and 1.

    Examples
    --------
    >>> from covary.kernels import Linear
    >>> kernel_alignment(Linear(), [[-1.0], [1.0]], [-1, 1])
    1.0
    """
    inputs = as_inputs(X, "kernel_alignment")
    y = check_vector("kernel_alignment", "y", y, inputs.rows)
    if not set(np.unique(y)) <= {-1.0, 1.0}:
        raise fail("kernel_alignment", Option("y") + f" contains {np.unique(y)[:3]}", "give labels -1 and 1")
    kernel.check(inputs)
    K = kernel.gram(inputs)
    return float(y @ K @ y / (len(y) * np.linalg.norm(K)))
