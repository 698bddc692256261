r"""A Gaussian over whitened inducing values, and the resulting posterior of the latent functions.

With u = f(Z) = L v, L Lᵀ = K(Z, Z), the prior of v is N(0, I) for any hyperparameters. Each latent function has its own
q(v) = N(m, S), stored as natural parameters S⁻¹m and S⁻¹ (Salimbeni, Eleftheriadis & Hensman 2018), and

.. math::
    E f(x) = a^\top m,\qquad \mathrm{var} f(x) = k(x, x) - a^\top a + a^\top S a,\qquad a = L^{-1} k(Z, x),

.. math::
    KL(q\,\|\,p) = \tfrac12\bigl(\operatorname{tr} S + m^\top m - M - \log\det S\bigr)

(Hensman, Matthews & Ghahramani 2015). Everything is computed in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from covary._checks import NotPositiveDefinite, fail
from covary._words import counted
from covary.data import Inputs
from covary.gram.base import AbstractBound, AbstractFactor, Kernels, Roots, Sited
from covary.gram.linalg import Lapack
from covary.gram.low_rank import cholesky_at
from covary.kernels import tiles
from covary.kernels.base import AbstractKernel

STRIPE, STRIPES = 128, 8  # minimum columns per stripe of a symmetric product, and maximum number of stripes
ROUNDING = 1e-12  # rounding error of sums over rows, relative to the largest


def product(A: np.ndarray, B: np.ndarray, *, left: bool = False, right: bool = False) -> np.ndarray:
    """Compute A B, either optionally transposed, by SciPy's BLAS (NumPy has a separate set of threads)."""
    (gemm,) = linalg.get_blas_funcs(("gemm",), (A, B))
    return gemm(1.0, A, B, trans_a=int(left), trans_b=int(right))


def times(A: np.ndarray, x: np.ndarray, *, left: bool = False) -> np.ndarray:
    """Compute A x, or Aᵀx, for a Fortran-ordered A, by the same BLAS."""
    (gemv,) = linalg.get_blas_funcs(("gemv",), (A, x))
    return gemv(1.0, A, x, trans=int(left))


def inverse(L: np.ndarray) -> np.ndarray:
    """Invert a lower triangle; products with L⁻¹ are three times as fast as solves with many right-hand sides."""
    (trtri,) = linalg.get_lapack_funcs(("trtri",), (L,))
    return trtri(L, lower=1)[0]


def lower_times(
    R: np.ndarray, B: np.ndarray, *, transposed: bool = False, overwrite: bool = False, behind: bool = False
) -> np.ndarray:
    """Compute R B, or RᵀB, for a lower triangle R (entries above its diagonal are not read); B R or B Rᵀ if ``behind``."""
    (trmm,) = linalg.get_blas_funcs(("trmm",), (R, B))
    return trmm(1.0, R, B, side=int(behind), lower=1, trans_a=int(transposed), overwrite_b=int(overwrite))


def symmetric_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Compute the lower triangle of a symmetric AᵀB by stripes of columns, at half the cost (arbitrary values above)."""
    n = A.shape[1]
    out, wide = np.zeros((n, n), order="F"), max(STRIPE, -(-n // STRIPES))
    for start in range(0, n, wide):
        out[start:, start : start + wide] = product(A[:, start:], B[:, start : start + wide], left=True)
    return out


def add_outer(A: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute A + x yᵀ in place, for a Fortran-ordered A."""
    (ger,) = linalg.get_blas_funcs(("ger",), (A, x, y))
    return ger(1.0, x, y, a=A, overwrite_a=1)


def add_both(A: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute the lower triangle of A + x yᵀ + y xᵀ in place, for a Fortran-ordered A."""
    (syr2,) = linalg.get_blas_funcs(("syr2",), (A, x, y))
    return syr2(1.0, x, y, lower=1, a=A, overwrite_a=1)


def weighted(A: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Compute the lower triangle of A diag(w) Aᵀ (zeros above)."""
    (syrk,) = linalg.get_blas_funcs(("syrk",), (A,))
    out = np.zeros((A.shape[0],) * 2, order="F")
    for sign in (1.0, -1.0):
        part = sign * w > 0
        if part.any():
            some = A if part.all() else A[:, part]
            out = syrk(sign, np.multiply(some, np.sqrt(np.abs(w[part])), order="F"), beta=1.0, c=out, lower=1, overwrite_c=1)
    return out


@dataclass(frozen=True)
class Whitened:
    """q(v) of every latent function: ``shift`` S⁻¹m of shape (m, L), ``precision`` S⁻¹, (m, m) each, lower triangles."""

    shift: np.ndarray
    precision: tuple[np.ndarray, ...]

    @staticmethod
    def prior(m: int, latents: int) -> Whitened:
        """Return the prior N(0, I)."""
        return Whitened(np.zeros((m, latents), order="F"), tuple(np.asfortranarray(np.eye(m)) for _ in range(latents)))

    def towards(self, other: Whitened, share: float) -> Whitened:
        """Return a fraction of the way to another, in natural parameters."""
        if share == 1.0:
            return other
        precision = tuple((1 - share) * P + share * Q for P, Q in zip(self.precision, other.precision, strict=True))
        return Whitened((1 - share) * self.shift + share * other.shift, precision)

    def near(self, other: Whitened) -> bool:
        """Return whether another is equal up to rounding."""
        pairs = [(self.shift, other.shift), *zip(map(np.tril, self.precision), map(np.tril, other.precision), strict=True)]
        return all(np.abs(a - b).max() <= ROUNDING * np.abs(b).max() for a, b in pairs)

    def with_means(self, means: np.ndarray) -> Whitened:
        """Return the same precisions with other means (m, L)."""
        shift = np.stack([Lapack.full(P) @ means[:, i] for i, P in enumerate(self.precision)], axis=1)
        other = Whitened(np.asfortranarray(shift), self.precision)
        other.__dict__.update({name: self.__dict__[name] for name in ("roots", "inverses") if name in self.__dict__})
        return other

    @cached_property
    def roots(self) -> tuple[np.ndarray, ...]:
        """The lower Cholesky factors C of the precisions."""
        found = []
        for P in self.precision:
            C = Lapack.cholesky(np.array(P, order="F"))
            if C is None or not np.isfinite(C[-1, -1]):
                raise NotPositiveDefinite("inference.SVGP", "the precision of q is not positive definite", "use shorter steps")
            found.append(C)
        return tuple(found)

    @cached_property
    def proper(self) -> bool:
        """Whether the precisions are positive definite."""
        try:
            return len(self.roots) > 0
        except NotPositiveDefinite:
            return False

    @cached_property
    def inverses(self) -> tuple[np.ndarray, ...]:
        """C⁻¹: S = C⁻ᵀC⁻¹."""
        return tuple(inverse(C) for C in self.roots)

    @cached_property
    def means(self) -> np.ndarray:
        """m, of shape (m, L)."""
        return np.stack([Lapack.solve(C, self.shift[:, i]) for i, C in enumerate(self.roots)], axis=1)

    @cached_property
    def kl(self) -> float:
        """The Kullback–Leibler divergence from the prior, all latent functions together."""
        total = 0.5 * float((self.means**2).sum())
        for C, R in zip(self.roots, self.inverses, strict=True):
            total += 0.5 * (float((np.tril(R) ** 2).sum()) - len(C)) + float(np.log(np.diagonal(C)).sum())
        return total

    def moved(self, old: WhitenedBound, new: WhitenedBound) -> Whitened:
        """Return q with the same sites after a change of hyperparameters or inducing inputs.

        q is the prior times sites exp(βᵀu − ½uᵀMu) on the function at the old inducing inputs. At the new ones,
        S⁻¹ = I + Tᵀ(S⁻¹ − I)T and S⁻¹m = TᵀS⁻¹m, T the covariance of the old v and the new: L⁻¹K(Z, Z′)L′⁻ᵀ, L⁻¹L′ if Z′ = Z.
        """
        shift, precision, same = np.empty_like(self.shift), [], np.array_equal(old.Z.x, new.Z.x)
        for i, P in enumerate(self.precision):
            k = old.of(i)
            if same:
                T = lower_times(old.inverses[k], new.roots[k])
            else:
                half = lower_times(old.inverses[k], tiles.cross(new.kernels[k], old.Z, new.Z), overwrite=True)
                T = lower_times(new.inverses[k], half, transposed=True, overwrite=True, behind=True)
            seen = tiles.mirror(P.copy(order="F"))
            seen.flat[:: len(P) + 1] -= 1
            turned = symmetric_product(T, product(seen, T))
            turned.flat[:: len(P) + 1] += 1
            shift[:, i] = times(T, self.shift[:, i], left=True)
            precision.append(turned)
        return Whitened(shift, tuple(precision))

    def narrowed(self, which: int) -> np.ndarray:
        """Return I − S, the reduction of the covariance of v by the rows."""
        (lauum,) = linalg.get_lapack_funcs(("lauum",), (self.inverses[which],))
        out = tiles.mirror(lauum(self.inverses[which], lower=1)[0])
        np.negative(out, out=out)
        out.flat[:: len(out) + 1] += 1
        return out

    def halves(self, A: np.ndarray, which: int) -> np.ndarray:
        """Return C⁻¹A, whose squared column norms are aᵀS a."""
        return lower_times(self.inverses[which], A)


class WhitenedFactor(AbstractFactor):
    """q with its predictions for the training rows and, for one latent function, the equivalent site of each row.

    Removing a row's site gives its cavity: with s = aᵀS a, removing a site of precision τ and shift ν on aᵀv gives
    N((μ − s ν)/(1 − s τ), s/(1 − s τ)), to which the part of f not explained by v is added.
    """

    def __init__(self, q: Whitened, jitter: float, mean: np.ndarray, variance: np.ndarray, spread: np.ndarray | None) -> None:
        self.q, self.jitter, self._at, self._around, self._spread = q, jitter, mean, variance, spread

    @property
    def observed(self) -> bool:
        return False

    @property
    def spread(self) -> np.ndarray:
        """The precision of every row's site, for one latent function."""
        assert self._spread is not None
        return self._spread

    def mean(self, shift: np.ndarray) -> np.ndarray:
        """Return the posterior mean at the training rows, without the prior mean."""
        return self._at

    def variance(self) -> np.ndarray:
        """Return the posterior variance at the training rows: (n,), or (n, L, L) for several latent functions."""
        if self._around.ndim == 1:
            return self._around
        return self._around[:, :, None] * np.eye(self._around.shape[1])


def sites_seen(
    mean: np.ndarray, own: np.ndarray, rest: np.ndarray, tau: np.ndarray, nu: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return precision and shift of the sites on f equivalent to sites (tau, nu) on its part with variance ``own``."""
    kept = np.maximum(1 - own * tau, 1e-10)
    cavity, variance = rest + own / kept, rest + own
    cavity_mean = (mean - own * nu) / kept
    return 1 / variance - 1 / cavity, mean / variance - cavity_mean / cavity


class WhitenedBound(AbstractBound[WhitenedFactor]):
    """Kernels with inducing inputs and a given q; predictions cost O(m²) per row, for any number of training rows.

    ``kernels`` holds one kernel shared by all latent functions, or one each.
    """

    basis = None

    def __init__(self, kernels: Kernels, X: Inputs, Z: Inputs, jitter: float, latents: int = 1) -> None:
        if len(kernels) not in (1, latents):
            what = f"{counted(len(kernels), 'kernel')} for {counted(latents, 'latent function')}"
            raise fail("inference.SVGP", what, "give one, or one each")
        self.kernels, self.X, self.Z = kernels, X, Z.with_x(np.asarray(Z.x, np.float64))
        self.start, self.latents = jitter, latents

    @cached_property
    def _factors(self) -> list[tuple[np.ndarray, float]]:
        return [cholesky_at(kernel, self.Z, self.start) for kernel in self.kernels]

    @property
    def roots(self) -> list[np.ndarray]:
        """L with L Lᵀ = K(Z, Z), of every kernel."""
        return [L for L, _ in self._factors]

    @cached_property
    def inverses(self) -> list[np.ndarray]:
        """L⁻¹ of every kernel."""
        return [inverse(L) for L, _ in self._factors]

    @property
    def jitter(self) -> float:
        """The largest jitter added to K(Z, Z), as a fraction of its mean diagonal."""
        return max(level for _, level in self._factors)

    def features(self, X: Inputs) -> list[tuple[np.ndarray, np.ndarray]]:
        """Compute A = L⁻¹K(Z, X), of shape (m, n), and k(x, x) for every kernel."""
        X = X.with_x(np.asarray(X.x, np.float64))
        return [
            (lower_times(R, tiles.cross(kernel, self.Z, X), overwrite=True), tiles.diag(kernel, X))
            for kernel, R in zip(self.kernels, self.inverses, strict=True)
        ]

    def of(self, which: int) -> int:
        """Return the index of the kernel of a latent function."""
        return which if len(self.kernels) > 1 else 0

    def conditional(
        self, factor: WhitenedFactor, solved: Sited, X: Inputs, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute means (n,) and variances (n,) at new inputs; (n, L) and (n, L, L) for several latent functions."""
        q, features = factor.q, self.features(X)
        mean, spread = np.empty((X.rows, self.latents)), np.zeros((X.rows, self.latents, self.latents))
        for i in range(self.latents):
            A, prior = features[self.of(i)]
            mean[:, i] = times(A, q.means[:, i], left=True)
            if variance:
                spread[:, i, i] = np.maximum(prior - (A**2).sum(0), 0.0) + (q.halves(A, i) ** 2).sum(0)
        if self.latents == 1:
            return mean[:, 0], spread[:, 0, 0] if variance else None
        return mean, spread if variance else None

    def joint(self, factor: WhitenedFactor, X: Inputs) -> np.ndarray:
        """Compute the covariance of f between new inputs (one latent function)."""
        X = X.with_x(np.asarray(X.x, np.float64))
        A = self.features(X)[0][0]
        B = factor.q.halves(A, 0)
        out = tiles.mirror(tiles.gram_lower(self.kernels[0], X)) - product(A, A, left=True) + product(B, B, left=True)
        return (out + out.T) / 2

    def inducing_posterior(self, factor: AbstractFactor, solved: Sited) -> tuple[Inputs, np.ndarray, Roots, Roots]:
        assert isinstance(factor, WhitenedFactor)
        means, roots, bases = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        for i in range(self.latents):
            L = self.roots[self.of(i)]
            means.append(L @ factor.q.means[:, i])
            roots.append(lower_times(factor.q.inverses[i], np.asfortranarray(L.T)).T)
            bases.append(L)
        if self.latents == 1:
            return self.Z, means[0], roots[0], bases[0]
        return self.Z, np.stack(means, axis=1), tuple(roots), tuple(bases)


class Pull:
    r"""The gradient with respect to kernels and inducing inputs at fixed q, accumulated over batches of rows.

    With cotangents g of the means and h of the variances, :math:`\bar A = m g^\top + 2(S - I)A\,\mathrm{diag}(h)`. K(Z, X) has
    the cotangent L⁻ᵀĀ and L has −tril(L⁻ᵀĀAᵀ), from which the pullback of a Cholesky factor (Murray 2016) gives −½L⁻ᵀC L⁻¹
    for K(Z, Z), C the symmetric matrix with the lower triangle of ĀAᵀ. This follows from A diag(h) Aᵀ and A g, which are
    available from the natural gradient.

    With ``sites``, the sites that q adds to the prior are held fixed instead of q(v) (:meth:`Whitened.moved`), following Adam,
    Chang, Khan & Solin (2021), so that a q that lags behind the hyperparameters does not slow them down. At the optimal q, the
    two gradients are equal.
    """

    def __init__(self, bound: WhitenedBound, q: Whitened, target: Whitened, inputs: bool = True, sites: bool = False) -> None:
        self.bound, self.q, self.target, self.inputs, self.sites = bound, q, target, inputs, sites
        self.parts: list[list[AbstractKernel]] = [[] for _ in bound.kernels]
        self.inducing: np.ndarray = np.zeros_like(bound.Z.x)

    def sharing(self, kernel: int) -> list[int]:
        """Return the latent functions of a kernel."""
        return [i for i in range(self.bound.latents) if self.bound.of(i) == kernel]

    def add(
        self,
        X: Inputs,
        features: list[tuple[np.ndarray, np.ndarray]],
        halves: list[np.ndarray],
        first: np.ndarray,
        second: np.ndarray,
    ) -> None:
        """Add a batch of rows: the features, C⁻¹A (overwritten), and the cotangents (n, L) of means and variances."""
        bound, q = self.bound, self.q
        X = X.with_x(np.asarray(X.x, np.float64))
        for k, kernel in enumerate(bound.kernels):
            A, mine = features[k][0], self.sharing(k)
            bar = np.empty((0, 0))
            for i in mine:
                change = lower_times(q.inverses[i], halves[i], transposed=True, overwrite=True)
                change -= A
                change *= 2 * second[:, i]
                change = add_outer(change, q.means[:, i], first[:, i])
                bar = bar + change if bar.size else change
            cross = lower_times(bound.inverses[k], bar, transposed=True, overwrite=True)
            from_cross, z_bar = tiles.pull_cross(kernel, bound.Z, X, cross, inputs=self.inputs)
            self.inducing = self.inducing + z_bar
            one = bool(kernel.traits.stationary)  # k(x, x) is constant: one row is enough
            h = second[:, mine].sum(1)
            from_diag = tiles.pull_diag(kernel, X.take(slice(0, 1)) if one else X, h.sum(keepdims=True) if one else h)
            self.parts[k] = [tiles.total([*self.parts[k], from_cross, from_diag])]

    def finish(self) -> tuple[AbstractKernel | Kernels, np.ndarray]:
        """Return the gradient with respect to the kernel (a tuple if there are several) and to Z."""
        bound, found = self.bound, []
        for k, kernel in enumerate(bound.kernels):
            part, trace = self._with_sites(k) if self.sites else self._with_q(k)
            level = np.full(bound.Z.rows, bound._factors[k][1] * trace / bound.Z.rows)
            found.append(tiles.total([*self.parts[k], part, tiles.pull_diag(kernel, bound.Z, level)]))
        return (tuple(found) if len(found) > 1 else found[0]), self.inducing

    def _sums(self, which: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return A g, E = I − S and P E, with P the target precision of the natural gradient: 2 A diag(h) Aᵀ = I − P."""
        m, P = self.q.means[:, which], tiles.mirror(self.target.precision[which].copy(order="F"))
        E = self.q.narrowed(which)
        return self.target.shift[:, which] + m - times(P, m), E, product(P, E)

    def _with_q(self, k: int) -> tuple[AbstractKernel, float]:
        """Return the gradient with respect to the kernel through K(Z, Z), and the trace of the cotangent of K(Z, Z)."""
        bound, outer = self.bound, np.zeros_like(self.bound.inverses[k])
        for i in self.sharing(k):
            slope, E, turned = self._sums(i)
            outer += np.outer(self.q.means[:, i], slope) + turned.T - E  # ĀAᵀ
        G = -0.5 * self._outside(bound.inverses[k], tiles.mirror(outer))
        found, z_bar = tiles.pull_cross(bound.kernels[k], bound.Z, bound.Z, G, inputs=self.inputs)
        self.inducing = self.inducing + 2 * z_bar
        return found, float(np.trace(G))

    def _with_sites(self, k: int) -> tuple[AbstractKernel, float]:
        r"""Return the same with fixed sites, including the cotangent of T (:meth:`Whitened.moved`).

        K(Z, Z) and K(Z, Z′) are the same matrix for the kernel. With e = A g − m, their common cotangent is the symmetric

        .. math:: -\tfrac12 L^{-\top}\bigl(m m^\top + m e^\top E + E e m^\top + E P E\bigr) L^{-1},

        whether Z is trained or not. They depend differently on Z′, for which the cotangent is −L⁻ᵀĀAᵀL⁻¹.
        """
        bound, R, kernel = self.bound, self.bound.inverses[k], self.bound.kernels[k]
        both, outer = np.zeros_like(R), np.zeros_like(R)
        for i in self.sharing(k):
            m, (slope, E, turned) = self.q.means[:, i], self._sums(i)
            both += add_both(symmetric_product(E, turned), m, times(E, slope - m) + m / 2)
            if self.inputs:
                turned -= E
                outer += add_outer(turned, slope, m)  # the transpose of ĀAᵀ
        G = self._outside(R, tiles.mirror(both))
        found, trace = tiles.pull_gram(kernel, bound.Z, G, -0.5), -0.5 * float(np.trace(G))
        if self.inputs:
            G = self._outside(R, outer)
            self.inducing = self.inducing - tiles.pull_cross(kernel, bound.Z, bound.Z, G.T)[1]
            trace = -float(np.trace(G)) - trace  # only K(Z, Z) has jitter
        return found, trace

    @staticmethod
    def _outside(R: np.ndarray, C: np.ndarray) -> np.ndarray:
        """Compute RᵀC R, overwriting C."""
        return lower_times(R, lower_times(R, C, transposed=True, overwrite=True), overwrite=True, behind=True)
