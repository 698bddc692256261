"""Sites: what a likelihood says about the latent f locally, as Gaussian factors.

Every inference ends in Gaussian sites, and the gram multiplies them with the prior N(0, K). Two forms:

- *Observed* sites, :class:`Noise`: N(r | f, S). The shift handed to the gram is the residual r itself; zeros in S are
  allowed (noise-free data).
- *Natural* sites, :class:`Diagonal`, :class:`Blocks` and :class:`Softmax`: exp(bᵀf − ½ fᵀW f). The shift is b, the
  precision-weighted target; zeros in W are allowed (rows that say nothing), and negative entries where the likelihood is
  not log-concave.
"""

from __future__ import annotations

from typing import Any

from covary._module import Module


class AbstractSites(Module):
    """Gaussian factors over the latent values at the training rows."""


class Noise(AbstractSites):
    """Observation noise of variance ≥ 0 per row, shape (n,)."""

    variance: Any


class Diagonal(AbstractSites):
    """Site precisions of any sign per row, shape (n,)."""

    precision: Any


class Blocks(AbstractSites):
    """A positive semi-definite precision (L, L) per row over L latent functions, shape (n, L, L)."""

    precision: Any


class Softmax(AbstractSites):
    r"""The softmax curvature :math:`W = D - D\,1 (1^\top D\,1)^{-1} 1^\top D` with D = diag(w π) (R&W, eq. 3.38, for w = 1).

    ``probability`` holds the class probabilities π (n, C), ``weight`` how often each row counts, w (n,), or None.
    """

    probability: Any
    weight: Any = None
