r"""Posteriors of linear functionals of f: the additive terms of the kernel, and derivatives.

The posterior of any linear functional g = 𝓛f follows from its prior covariance with f at the support: with
c = cov(f(X), g) and R = (K + W⁻¹)⁻¹,

.. math:: E\,g = c^\top\alpha,\qquad \mathrm{cov}(g, g') = \mathrm{cov}_0(g, g') - c^\top R\,c'.

- A term of :math:`k = \sum_j k_j`: f is a sum of independent :math:`f_j`, :math:`c = k_j(X, x)` (R&W, section 5.4.3).
- A partial derivative: :math:`c = \partial k(X, x)/\partial x_a`,
  :math:`\mathrm{cov}_0 = \partial^2k/\partial x_a\partial x'_b` (R&W, eq. 9.1).

With inducing inputs Z the support is Z and :math:`R = K_{uu}^{-1} - K_{uu}^{-1}\Sigma_uK_{uu}^{-1}`. Explicit basis functions
with vague weights add :math:`h^\top\beta` to the mean and :math:`\rho^\top M^{-1}\rho'` with :math:`\rho = h - U^\top c` to the
covariance (R&W, eq. 2.42).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg

from covary._checks import CovaryError, fail
from covary._errors import Option
from covary._module import without_marks
from covary._precision import cast, precision
from covary._types import Array
from covary.data import Inputs
from covary.gram.base import HasInducing
from covary.gram.low_rank import LowRankBound
from covary.kernels import tiles
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.combine import Columns, Function
from covary.means.functions import AbstractMean
from covary.prediction import Spread

if TYPE_CHECKING:
    from covary.posterior.gaussian import Posterior

Terms: TypeAlias = tuple[AbstractKernel | None, ...]  # None stands for the basis functions

BASIS = "basis"
DISPLACED = 1e-6  # distance of points for limits at equal points, relative to the distance over which f changes
TIED = 1e-5  # relative difference from the limit above which a second derivative at equal points is replaced by it


def _unsuited(who: str, gram: str) -> CovaryError:
    what = "the posterior was computed with " + Option("gram", gram)
    return fail(who, what, "condition with " + Option("gram", "Dense()") + " or " + Option("gram", "LowRank(...)"))


class Reader:
    """Computes the mean and covariances of linear functionals of f from their covariances with the support."""

    def __init__(self, who: str, post: Posterior) -> None:
        model, bound, factor, solved = post.model, post.bound, post.factor, post.solved
        if model.likelihood.latents != 1 or len(bound.kernels) != 1:
            raise fail(who, "the model has several latent functions", "use a likelihood with one")
        self.kernel, self.alpha, self.beta = bound.kernels[0], solved.alpha, None
        if bound.dense:
            self.support, self.weigh = bound.X, factor._solve
        elif isinstance(bound, HasInducing) and bound.rule not in ("sor", "sor+", "nystrom"):
            self.support, mean, root, L = bound.inducing_posterior(factor, solved)
            assert isinstance(root, np.ndarray)
            self.alpha = linalg.cho_solve((L, True), mean)

            def weigh(C: np.ndarray) -> np.ndarray:
                A = linalg.cho_solve((L, True), C)
                return A - linalg.cho_solve((L, True), root @ (root.T @ A))

            self.weigh = weigh
        else:
            raise _unsuited(who, post.kind if bound.rule is None else f"LowRank(rule={bound.rule!r})")
        if bound.basis is not None:
            self.beta = factor.weights(solved.shift)
            self.U, self.inverse, _ = factor.project()
            if isinstance(bound, LowRankBound):
                self.U = linalg.solve_triangular(bound.L, bound.times(self.U), lower=True, trans=1)

    def mean(self, C: np.ndarray, H: np.ndarray | None) -> np.ndarray:
        """Return E g for g with covariances C (support, m) and basis functions H (m, q)."""
        out = C.T @ self.alpha
        return out if H is None else out + H @ self.beta

    def rest(self, C: np.ndarray, H: np.ndarray | None) -> np.ndarray | None:
        """Return ρ = h − Uᵀc, row by row; None without basis functions."""
        return None if H is None else H - C.T @ self.U

    def reduction(
        self, C: np.ndarray, D: np.ndarray, rest: np.ndarray | None = None, other: np.ndarray | None = None, joint: bool = False
    ) -> np.ndarray:
        """Return cᵀRc′ minus the variance added by the basis, for pairs of columns, or (``joint``) for all combinations."""
        RD = self.weigh(D)
        if joint:
            return C.T @ RD if rest is None or other is None else C.T @ RD - rest @ self.inverse @ other.T
        out = np.einsum("ij,ij->j", C, RD)
        return out if rest is None or other is None else out - np.einsum("ij,ij->i", rest @ self.inverse, other)


# additive terms -------------------------------------------------------------------------------------------------


def terms(kernel: AbstractKernel) -> tuple[AbstractKernel, ...]:
    """Return the additive terms of a kernel: those of a sum, including sums inside a scale or a selection of columns.

    Examples
    --------
    >>> from covary.kernels import Linear, Matern52
    >>> terms(2.0 * (Matern52() + Linear()))
    (2.0 * Matern52(lengthscale=1.0), 2.0 * Linear(lengthscale=1.0))
    """
    if isinstance(kernel, Sum):
        return tuple(part for term in kernel.terms for part in terms(term))
    if isinstance(kernel, Scaled | Columns):
        inner = terms(kernel.kernel)
        return (kernel,) if len(inner) == 1 else tuple(kernel.replace(kernel=part) for part in inner)
    return (kernel,)


def term_names(kernels: tuple[AbstractKernel, ...]) -> tuple[str, ...]:
    """Return a short name for every term: its text without numbers; repeated names are numbered.

    Examples
    --------
    >>> from covary.kernels import Matern52, Periodic
    >>> term_names((2.0 * Matern52(), Matern52() * Periodic(), Matern52()))
    ('Matern52', 'Matern52 * Periodic', 'Matern52 2')
    """
    short = [_short(kernel) for kernel in kernels]
    counts = [short[: i + 1].count(name) for i, name in enumerate(short)]
    return tuple(f"{name} {count}" if count > 1 else name for name, count in zip(short, counts, strict=True))


def _short(kernel: AbstractKernel) -> str:
    if isinstance(kernel, Scaled):
        return _short(kernel.kernel)
    if isinstance(kernel, Columns):
        inner = _short(kernel.kernel)
        return f"{f'({inner})' if ' ' in inner else inner}.on({', '.join(map(str, kernel.columns))})"
    if isinstance(kernel, Product):
        return " * ".join(f"({_short(f)})" if isinstance(f, Sum) else _short(f) for f in kernel.factors)
    if isinstance(kernel, Power):
        inner = _short(kernel.kernel)
        return f"{f'({inner})' if ' ' in inner else inner} ** {kernel.exponent}"
    if isinstance(kernel, Sum):
        return " + ".join(map(_short, kernel.terms))
    return getattr(kernel.function, "__name__", "Function") if isinstance(kernel, Function) else type(kernel).__name__


@dataclass(frozen=True)
class Components:
    """The posterior of every additive term of the kernel, at m inputs.

    ``names`` and ``kernels`` identify the terms; ``mean`` has shape (J, m), or (J, m, p) for p outputs; ``variance`` (J, m);
    ``covariance``, if requested, contains the covariances between the terms at every input, (m, J, J). Explicit basis
    functions are the last component, ``"basis"``, whose kernel is None. Index by name: ``components["Periodic"]``.
    """

    names: tuple[str, ...]
    kernels: Terms = field(repr=False)
    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[str, Spread]]:
        return ((name, self[i]) for i, name in enumerate(self.names))

    def __getitem__(self, which: int | str) -> Spread:
        j = which_term("Components", which, self.names, self.kernels)
        return Spread(self.mean[j], self.variance[j])

    def share(self) -> dict[str, float]:
        r"""Return the share of each term in the variation of the posterior mean over these inputs; the shares sum to one.

        .. math:: s_j = \frac{\sum_i (m_{ij} - \bar m_j)(m_i - \bar m)}{\sum_i (m_i - \bar m)^2},\qquad m = \sum_j m_j

        A negative share means that the term works against the others.
        """
        each = self.mean.reshape(*self.mean.shape[:2], -1)
        each = each - each.mean(1, keepdims=True)
        total = each.sum(0)
        square = float((total**2).sum())
        if square == 0:
            raise fail("Components.share", "the posterior mean is the same at all these inputs", "give inputs that differ")
        return {name: float((part * total).sum()) / square for name, part in zip(self.names, each, strict=True)}


def which_term(who: str, which: int | str, names: tuple[str, ...], kernels: Terms) -> int:
    """Return the index of a term, given its index, its name, or a substring of the text of exactly one term."""
    if isinstance(which, str):
        found = [j for j, name in enumerate(names) if name == which]
        found = found or [j for j, (n, k) in enumerate(zip(names, kernels, strict=True)) if which in n or which in repr(k)]
        if len(found) == 1:
            return found[0]
        how = "several terms contain" if found else "no term contains"
        raise fail(who, f"{how} {which!r}", f"choose one of {', '.join(map(repr, names))}")
    if isinstance(which, bool) or not isinstance(which, int | np.integer) or not -len(names) <= which < len(names):
        raise fail(who, f"the component is {which!r}", f"give a number from 0 to {len(names) - 1}, or a name")
    return int(which) % len(names)


def labels(post: Posterior) -> tuple[tuple[str, ...], Terms]:
    """Return the names and kernels of a posterior's components."""
    kernels: Terms = terms(post.bound.kernels[0])
    names = term_names(kernels)
    return (names, kernels) if post.bound.basis is None else ((*names, BASIS), (*kernels, None))


def component_at(
    reader: Reader, post: Posterior, kernel: AbstractKernel | None, X: Inputs, joint: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of one component and its variance or joint covariance; ``kernel`` is None for the basis functions."""
    C, H = _covariances(reader, post, kernel, X)
    rest = reader.rest(C, H)
    if joint:
        prior = np.zeros((X.rows,) * 2) if kernel is None else tiles.mirror(tiles.gram_lower(kernel, X))
        cov = prior - reader.reduction(C, C, rest, rest, joint=True)
        return reader.mean(C, H), (cov + cov.T) / 2
    prior = np.zeros(X.rows) if kernel is None else tiles.diag(kernel, X)
    return reader.mean(C, H), np.maximum(prior - reader.reduction(C, C, rest, rest), 0.0)


def covariances_at(reader: Reader, post: Posterior, kernels: Terms, X: Inputs) -> np.ndarray:
    """Return the covariances between the components at every input: (m, J, J)."""
    parts = [_covariances(reader, post, kernel, X) for kernel in kernels]
    rests = [reader.rest(*part) for part in parts]
    out = np.empty((X.rows, len(kernels), len(kernels)), X.x.dtype)
    for i in range(len(kernels)):
        for j in range(i + 1):
            out[:, i, j] = out[:, j, i] = -reader.reduction(parts[i][0], parts[j][0], rests[i], rests[j])
        kernel = kernels[i]
        if kernel is not None:
            out[:, i, i] += tiles.diag(kernel, X)
    return out


def _covariances(
    reader: Reader, post: Posterior, kernel: AbstractKernel | None, X: Inputs
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return cov(f(support), f_j(X)), and the basis functions at X (zeros if the component is a kernel; None without basis)."""
    if kernel is None:
        return np.zeros((reader.support.rows, X.rows), X.x.dtype, order="F"), post.basis_at(X)
    H = None if reader.beta is None else np.zeros((X.rows, len(reader.beta)), X.x.dtype)
    return tiles.cross(kernel, reader.support, X), H


# derivatives ----------------------------------------------------------------------------------------------------


def slopes_at(reader: Reader, post: Posterior, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (m, d) of ∂f/∂x and its covariance (m, d, d) at every input."""
    m, d = X.x.shape
    C = np.asfortranarray(slope_covariances(reader.kernel, X, reader.support).transpose(1, 0, 2).reshape(-1, m * d))
    H = None if reader.beta is None else _differences(post.basis_at, X).reshape(m * d, -1)
    mean = reader.mean(C, H)
    mean = mean.reshape(m, d, *mean.shape[1:])
    own = mean_slopes(post.model.mean, X)
    rest, weighed = reader.rest(C, H), reader.weigh(C)
    rows = (C.reshape(-1, m, d), weighed.reshape(-1, m, d))
    cov = mixed_slopes(reader.kernel, X) - np.einsum("nia,nib->iab", *rows, optimize=True)
    if rest is not None:
        rest = rest.reshape(m, d, -1)
        cov = cov + np.einsum("iaq,qr,ibr->iab", rest, reader.inverse, rest)
    return mean + (own if mean.ndim == 2 else own[:, :, None]), (cov + cov.transpose(0, 2, 1)) / 2


def slope_covariances(kernel: AbstractKernel, X: Inputs, Z: Inputs) -> np.ndarray:
    r"""Return cov(∂f(x_i)/∂x_a, f(z_j)) = ∂k(x_i, z_j)/∂x_ia (R&W, eq. 9.1), (n, m, d), in tiles and one column at a time."""
    dtype = X.x.dtype
    bare = cast(without_marks(kernel), dtype)
    rows, columns = tiles.SMALL, tiles.tile_size(Z.rows)
    full_x, full_z = tiles.padded(X, rows), tiles.padded(Z, columns)
    out = np.empty((full_x.rows, full_z.rows, X.columns), dtype)
    with precision(dtype), jax.default_device(tiles.host_device()):
        for i in range(0, full_x.rows, rows):
            for j in range(0, full_z.rows, columns):
                some = full_x.take(slice(i, i + rows)), full_z.take(slice(j, j + columns))
                for a, direction in enumerate(np.eye(X.columns, dtype=dtype)):
                    out[i : i + rows, j : j + columns, a] = _slope_tile(bare, *some, direction)
    return out[: X.rows, : Z.rows]


@jax.jit
def _slope_tile(kernel: AbstractKernel, X: Inputs, Z: Inputs, direction: jax.Array) -> jax.Array:
    return jax.jvp(lambda x: kernel.block(X.with_x(x), Z), (X.x,), (jnp.broadcast_to(direction, X.x.shape),))[1]


def mixed_slopes(kernel: AbstractKernel, X: Inputs) -> np.ndarray:
    r"""Return cov(∂f/∂x_a, ∂f/∂x_b) = ∂²k(x, x′)/∂x_a∂x′_b at x′ = x (R&W, eq. 9.1 and section 4.1.1): shape (m, d, d).

    The kernel is differentiated at equal points. If it contains a minimum or a clip, whose derivatives there are arbitrary,
    the limit of close points is used instead.
    """
    m, points = X.rows, X.take(slice(0, 1)) if kernel.traits.stationary else X
    points = tiles.padded(points.with_x(points.x.astype(np.float64)), 1 if kernel.traits.stationary else tiles.ROWS)
    bare = cast(without_marks(kernel), np.float64)
    with precision(np.float64), jax.default_device(tiles.host_device()):
        out = []
        for i in range(0, points.rows, tiles.ROWS):
            part = points.take(slice(i, i + tiles.ROWS))
            at, level = (np.asarray(v) for v in _mixed(bare, part, part))
            bend = np.abs(np.einsum("iaa->ia", at))
            far = np.sqrt(np.where(bend > 0, np.abs(level)[:, None] / np.where(bend > 0, bend, 1.0), 1.0))
            near = []
            for step in (DISPLACED, 2 * DISPLACED):
                ends = part.with_x(part.x - step / 2 * far), part.with_x(part.x + step / 2 * far)
                near.append(np.asarray(_mixed(bare, *ends)[0]))
            limit = 2 * near[0] - near[1]
            scale = np.abs(limit).max((1, 2), keepdims=True)
            out.append(np.where(np.abs(at - limit) <= TIED * scale, at, limit))
    found = np.concatenate(out)
    found = np.repeat(found[:1], m, axis=0) if kernel.traits.stationary else found[:m]
    return found.astype(X.x.dtype)


@jax.jit
def _mixed(kernel: AbstractKernel, X: Inputs, Z: Inputs) -> tuple[Array, Array]:
    def at(x: Inputs, z: Inputs) -> tuple[Array, Array]:
        first, second = (jax.tree_util.tree_map(lambda v: v[None], part) for part in (x, z))

        def k(a: Array, b: Array) -> Array:
            return kernel.block(first.with_x(a[None]), second.with_x(b[None]))[0, 0]

        return jax.jacfwd(lambda a: jax.jacfwd(lambda b: k(a, b))(z.x))(x.x), k(x.x, z.x)

    return jax.vmap(at)(X, Z)


def mean_slopes(mean: AbstractMean, X: Inputs) -> np.ndarray:
    """Return ∂m/∂x of a mean function, by automatic differentiation if possible, else by finite differences: shape (m, d)."""
    dtype = X.x.dtype
    bare = cast(without_marks(mean), dtype)
    with precision(dtype), jax.default_device(tiles.host_device()):
        try:
            each = [
                jax.jvp(lambda x: bare.block(X.with_x(x)), (jnp.asarray(X.x),), (jnp.broadcast_to(e, X.x.shape),))[1]
                for e in np.eye(X.columns, dtype=dtype)
            ]
            return np.stack([np.asarray(v) for v in each], axis=1)
        except (NotImplementedError, TypeError, ValueError):  # no block in jax.numpy, or one that uses a callback
            pass
    with precision(np.float64):
        return _differences(mean.evaluate, X)


def _differences(function: Callable[[Inputs], np.ndarray], X: Inputs) -> np.ndarray:
    """Return the derivatives of a function of the inputs (one or more values per row), by central differences in float64."""
    x, out = X.x.astype(np.float64), []
    for a in range(X.columns):
        step = np.cbrt(np.finfo(float).eps) * np.maximum(1.0, np.abs(x[:, a]))
        up, down = x.copy(), x.copy()
        up[:, a] += step
        down[:, a] -= step
        change = np.asarray(function(X.with_x(up))) - np.asarray(function(X.with_x(down)))
        out.append(change / (up[:, a] - down[:, a]).reshape(-1, *(1,) * (change.ndim - 1)))
    return np.stack(out, axis=1).astype(X.x.dtype)
