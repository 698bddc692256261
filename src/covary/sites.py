"""Sites: Gaussian factors over the latent f that represent or approximate the likelihood.

Every inference method produces Gaussian sites, and the gram multiplies them with the prior N(0, K). There are two forms:

- *Observed* sites, :class:`Noise`: N(r | f, S). The shift passed to the gram is the residual r; zeros in S are allowed
  (noise-free data).
- *Natural* sites, :class:`Diagonal`, :class:`Blocks` and :class:`Softmax`: exp(bᵀf − ½ fᵀW f). The shift is b, the
  precision-weighted target; zeros in W are allowed (rows without information), and so are negative entries if the likelihood
  is not log-concave.
"""

from __future__ import annotations

import numpy as np

from covary._module import Module


class AbstractSites(Module):
    """Gaussian factors over the latent values at the training rows."""


class Noise(AbstractSites):
    """Observation noise of variance ≥ 0 per row, shape (n,)."""

    variance: np.ndarray


class Diagonal(AbstractSites):
    """Site precisions of any sign per row, shape (n,)."""

    precision: np.ndarray


class Blocks(AbstractSites):
    """Positive semi-definite precision (L, L) per row over L latent functions, shape (n, L, L)."""

    precision: np.ndarray


class Softmax(AbstractSites):
    r"""The softmax curvature :math:`W = D - D\,1 (1^\top D\,1)^{-1} 1^\top D` with D = diag(w π) (R&W, eq. 3.38, for w = 1).

    ``probability`` contains the class probabilities π (n, C), and ``weight`` the weights of the rows w (n,), or None.
    """

    probability: np.ndarray
    weight: np.ndarray | None = None
