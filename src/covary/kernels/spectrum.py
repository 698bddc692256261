r"""Properties of a kernel's functions: spectral densities, level crossings, eigenfunctions and principal components.

Frequencies are in cycles per unit of input: :math:`S(s) = \int k(\tau) e^{-2\pi i s\cdot\tau} d\tau` (R&W, eq. 4.6), so that
:math:`\int S(s)\,ds = k(0)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special
from scipy.integrate import quad
from scipy.linalg import eigh, solve_triangular

from covary._checks import check_positive, fail
from covary._module import without_marks
from covary._types import Array, ArrayLike
from covary._words import counted
from covary.data import Inputs, Rows, as_inputs
from covary.kernels.base import AbstractKernel, Scaled, Sum
from covary.kernels.isotropic import Bessel, SquaredExponentialMixture
from covary.kernels.matern import Matern, MaternHalfInteger
from covary.kernels.metric import FactorMetric
from covary.kernels.spectral import Spectral, SpectralMixture
from covary.kernels.stationary import Matern12, Matern32, Matern52, RationalQuadratic, SquaredExponential

ROUNDING = 1e-13  # an eigenvalue below this fraction of the largest is rounding error


def spectral_density(kernel: AbstractKernel, s: Array, columns: int = 1) -> np.ndarray:
    r"""Compute the spectral density S(s) of a stationary kernel, in closed form.

    Parameters
    ----------
    kernel
        A squared exponential, Matérn, rational quadratic, Bessel or spectral mixture kernel, a factor metric on one of them,
        or a sum of multiples of such kernels.
    s
        Frequencies in cycles per unit: vectors (m, columns), or their norms ‖s‖ of any shape if the kernel is isotropic or
        there is one column.
    columns
        The number of input columns D, on which S depends.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 4.6 to 4.8; S of the squared exponential below eq. 4.9, of the Matérn class eq. 4.15.

    Examples
    --------
    >>> float(spectral_density(Matern12(), 0.0))  # ∫ exp(-|r|) dr
    2.0
    """
    kernel.check(Inputs(np.zeros((1, columns))))
    s = np.asarray(s, np.float64)
    if s.ndim == 2 and s.shape[1] == columns:
        return _density(kernel, s)
    if columns > 1 and not kernel.traits.isotropic:
        raise fail("spectral_density", f"s has shape {s.shape}", f"give frequency vectors (m, {columns})", argument="s")
    along = np.zeros((s.size, columns))
    along[:, 0] = s.ravel()
    return _density(kernel, along).reshape(s.shape)


def _scaled(s: np.ndarray, lengthscale: ArrayLike) -> tuple[np.ndarray, float]:
    """Return |ℓ∘s| and Π ℓ: scaling the inputs by 1/ℓ scales frequencies by ℓ."""
    ell = np.broadcast_to(np.asarray(lengthscale, np.float64), s.shape[1:])
    return np.linalg.norm(ell * s, axis=1), float(np.prod(ell))


@singledispatch
def _density(kernel: AbstractKernel, s: np.ndarray) -> np.ndarray:
    """Return S at the vectors s (m, D)."""
    do = "use one of the kernels listed in the documentation"
    raise fail("spectral_density", f"{kernel!r} has no spectral density in closed form", do)


@_density.register
def _(kernel: SquaredExponential, s: np.ndarray) -> np.ndarray:
    u, volume = _scaled(s, kernel.lengthscale)
    return volume * (2 * np.pi) ** (s.shape[1] / 2) * np.exp(-2 * np.pi**2 * u**2)


def _smoothness(kernel: AbstractKernel) -> float:
    fixed = {Matern12: 0.5, Matern32: 1.5, Matern52: 2.5}
    return fixed[type(kernel)] if type(kernel) in fixed else float(getattr(kernel, "nu", getattr(kernel, "order", 0) + 0.5))


@_density.register(Matern12)
@_density.register(Matern32)
@_density.register(Matern52)
@_density.register(Matern)
@_density.register(MaternHalfInteger)
def _(kernel: AbstractKernel, s: np.ndarray) -> np.ndarray:
    (u, volume), nu, half = _scaled(s, kernel.lengthscale), _smoothness(kernel), s.shape[1] / 2
    factor = math.exp(special.gammaln(nu + half) - special.gammaln(nu)) * (2 * np.pi / nu) ** half  # eq. 4.15 at s = 0
    return volume * factor * (1 + 2 * np.pi**2 * u**2 / nu) ** -(nu + half)


@_density.register
def _(kernel: RationalQuadratic, s: np.ndarray) -> np.ndarray:
    """The gamma mixture of eq. 4.20, integrated: a Bessel function of order α − D/2."""
    (u, volume), half, alpha = _scaled(s, kernel.lengthscale), s.shape[1] / 2, float(kernel.alpha)
    order, z = alpha - half, 2 * np.pi * math.sqrt(2 * alpha) * u
    if order > 0:  # (z/2)^ν K_ν(z) is Γ(ν)/2 times a Matérn kernel
        with jax.enable_x64(True):
            bell = np.asarray(_profile(Matern(nu=order), z**2 / (2 * order)))
        shape = math.exp(special.gammaln(order) - special.gammaln(alpha)) * bell
    else:
        with np.errstate(divide="ignore"):
            shape = 2 / special.gamma(alpha) * np.minimum(z, 1e3) ** order * 2**-order * special.kv(order, np.minimum(z, 1e3))
    return volume * (2 * np.pi * alpha) ** half * shape


@jax.jit
def _profile(kernel: AbstractKernel, s: Array) -> Array:
    return kernel.profile(s)


@_density.register
def _(kernel: SquaredExponentialMixture, s: np.ndarray) -> np.ndarray:
    share = np.asarray(kernel.weights) / np.sum(kernel.weights)
    return sum(p * _density(SquaredExponential(ell), s) for p, ell in zip(share, kernel.lengthscales, strict=True))  # type: ignore[return-value]


@_density.register
def _(kernel: SpectralMixture, s: np.ndarray) -> np.ndarray:
    total, shape = np.zeros(len(s)), (-1, s.shape[1])
    for w, mean, scale in zip(kernel.weights, np.reshape(kernel.means, shape), np.reshape(kernel.scales, shape), strict=True):
        for at in (s - mean, s + mean):
            total += w / 2 * np.exp(-(((at / scale) ** 2).sum(1)) / 2) / np.prod(math.sqrt(2 * np.pi) * scale)
    return total


@_density.register
def _(kernel: Bessel, s: np.ndarray) -> np.ndarray:
    """(1 − |2πℓs|²)^(ν − D/2) for |s| < 1/2πℓ. For ν = D/2 − 1 the spectrum is uniform on the sphere and has no density."""
    (u, volume), half, nu = _scaled(s, kernel.lengthscale), s.shape[1] / 2, float(kernel.order)
    if nu <= half - 1:
        what = f"{kernel!r} in {counted(s.shape[1], 'column')} has all its power on a sphere"
        raise fail("spectral_density", what, "raise the order")
    inside = 1 - (2 * np.pi * u) ** 2
    factor = (4 * np.pi) ** half * math.exp(special.gammaln(nu + 1) - special.gammaln(nu + 1 - half))
    with np.errstate(divide="ignore"):
        return volume * factor * np.where(inside > 0, np.abs(inside) ** (nu - half), 0.0)


@_density.register
def _(kernel: Spectral, s: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):

        def density(f: Array) -> Array:
            return np.asarray(kernel.density(jnp.asarray(f), **kernel.parameters))

        mass = 2 * quad(lambda f: float(density(f)), 0, kernel.highest, epsabs=0, epsrel=1e-12, limit=200)[0]
        each = np.where(np.abs(s) <= kernel.highest, density(np.abs(s).ravel()).reshape(s.shape), 0.0)
    return np.prod(each / mass, axis=1)


@_density.register
def _(kernel: FactorMetric, s: np.ndarray) -> np.ndarray:
    loadings = np.asarray(kernel.loadings)
    M = loadings @ loadings.T + np.diag(np.broadcast_to(np.asarray(kernel.lengthscale) ** -2.0, len(loadings)))
    try:
        L = np.linalg.cholesky(M)  # k(τ) = κ(Lᵀτ)
    except np.linalg.LinAlgError:
        raise fail("spectral_density", f"the metric of {kernel!r} is singular", "give finite length-scales") from None
    return _density(kernel.kernel, solve_triangular(L, s.T, lower=True).T) / np.prod(np.diagonal(L))


@_density.register
def _(kernel: Scaled, s: np.ndarray) -> np.ndarray:
    return float(kernel.variance) * _density(kernel.kernel, s)


@_density.register
def _(kernel: Sum, s: np.ndarray) -> np.ndarray:
    return sum((_density(term, s) for term in kernel.terms), np.zeros(len(s)))


@jax.jit
def _bend(kernel: AbstractKernel) -> tuple[Array, Array]:
    """Return k(0) and −k''(0) in one column."""

    def k(x: Array) -> Array:
        return kernel.block(Inputs(jnp.reshape(x, (1, 1))), Inputs(jnp.zeros((1, 1))))[0, 0]

    def slope(x: Array) -> Array:
        return jax.jvp(k, (x,), (jnp.ones(()),))[1]

    return k(jnp.zeros(())), -jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))[1]


def expected_upcrossings(kernel: AbstractKernel, level: float = 0.0) -> float:
    r"""Compute the expected number of upcrossings of a level per unit of input, for a function of one column.

    .. math:: E[N_u] = \frac1{2\pi} \sqrt{\frac{-k''(0)}{k(0)}} \exp\Bigl(-\frac{u^2}{2 k(0)}\Bigr)

    It is infinite if the process is not mean-square differentiable.

    References
    ----------
    Rasmussen & Williams (2006), eq. 4.3.

    Examples
    --------
    >>> round(expected_upcrossings(SquaredExponential(0.5)), 6)  # 1/(2πℓ)
    0.31831
    """
    kernel.check(Inputs(np.zeros((1, 1))))
    if not kernel.traits.stationary:
        raise fail("expected_upcrossings", f"{kernel!r} is not stationary", "give a stationary kernel, a function of x − x'")
    if kernel.traits.smoothness < 1:
        return math.inf
    with jax.enable_x64(True):
        top, bend = (float(v) for v in _bend(without_marks(kernel)))
    return math.sqrt(bend / top) / (2 * math.pi) * math.exp(-(level**2) / (2 * top))


def is_positive_semidefinite(kernel: AbstractKernel, X: Rows, *, tolerance: float = 1e-10) -> bool:
    """Return whether no eigenvalue of K(X, X) is below −tolerance times the largest, to test user-defined functions.

    True proves nothing about other inputs. False proves that k is not a covariance function (R&W, section 4.1; Gibbs 1997,
    section 2.3).

    Examples
    --------
    >>> is_positive_semidefinite(SquaredExponential(), [[0.0], [1.0], [3.0]])
    True
    """
    values = np.linalg.eigvalsh(kernel.gram(X))
    return bool(values[0] >= -tolerance * max(abs(values[-1]), np.finfo(float).tiny))


def _largest(who: str, K: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues, in decreasing order, and their eigenvectors."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= len(K):
        raise fail(who, f"count is {count!r}", f"give an integer from 1 to the number of rows, {len(K)}", argument="count")
    values, vectors = eigh(K, subset_by_index=[len(K) - count, len(K) - 1])
    if values[0] <= ROUNDING * values[-1]:
        sound = int((values > ROUNDING * values[-1]).sum())
        raise fail(who, f"only {sound} eigenvalues are above rounding error", f"give {sound} or fewer", argument="count")
    return values[::-1], vectors[:, ::-1]


@dataclass(frozen=True)
class Eigenfunctions:
    """Approximate eigenfunctions: called with inputs (m, d), they return φ of shape (m, count), with arbitrary signs.

    ``eigenvalues`` (count,) are those of the kernel with respect to the density from which the rows were drawn.
    """

    kernel: AbstractKernel
    X: Inputs
    eigenvalues: np.ndarray
    vectors: np.ndarray

    def __call__(self, X: Rows) -> np.ndarray:
        n = self.X.rows
        return self.kernel.cross(as_inputs(X, "Eigenfunctions"), self.X) @ self.vectors / (math.sqrt(n) * self.eigenvalues)

    def features(self, X: Rows) -> np.ndarray:
        """Return √λ φ, a feature map whose inner products are the truncated Mercer series (R&W, eq. 4.37)."""
        return np.sqrt(self.eigenvalues) * self(X)


def eigenfunctions(kernel: AbstractKernel, X: Rows, count: int) -> Eigenfunctions:
    r"""Estimate the first eigenvalues and eigenfunctions of a kernel with respect to a density, from n rows drawn from it.

    .. math:: \int k(x, x') \phi_i(x) p(x)\,dx = \lambda_i \phi_i(x'), \qquad
        \lambda_i \approx \frac{\lambda_i^{\rm mat}}n, \qquad
        \phi_i(x') \approx \frac{\sqrt n}{\lambda_i^{\rm mat}} k(x')^\top u_i .

    Large eigenvalues are overestimated on average, and the sum of the small ones is underestimated.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 4.36 and 4.42 to 4.44 (Nyström's method).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> eigenfunctions(SquaredExponential(), X, 3)([[0.0], [1.0]]).shape
    (2, 3)
    """
    inputs = as_inputs(X, "eigenfunctions")
    values, vectors = _largest("eigenfunctions", kernel.gram(inputs), count)
    return Eigenfunctions(kernel, inputs, values / inputs.rows, vectors)


@dataclass(frozen=True)
class SquaredExponentialEigensystem:
    r"""Eigensystem of the squared exponential with respect to N(0, σ²): called with x (m,), it returns φ of shape (m, count).

    .. math:: \lambda_k = \sqrt{2a/A}\,B^k, \qquad
        \phi_k(x) = \frac{(c/a)^{1/4}}{\sqrt{2^k k!}} e^{-(c-a)x^2} H_k(\sqrt{2c}\,x)

    with 1/a = 4σ², 1/b = 2ℓ², c² = a² + 2ab, A = a + b + c, B = b/A. The eigenfunctions are normalised, unlike those of R&W,
    eq. 4.40.
    """

    lengthscale: float
    spread: float
    count: int

    @property
    def _abc(self) -> tuple[float, float, float]:
        a, b = 1 / (4 * self.spread**2), 1 / (2 * self.lengthscale**2)
        return a, b, math.sqrt(a * a + 2 * a * b)

    @property
    def eigenvalues(self) -> np.ndarray:
        """The eigenvalues λ₀, λ₁, …, which sum to one over all k."""
        return self.distinct(1)[0]

    def distinct(self, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first distinct eigenvalues for this number of columns, with equal ℓ and σ, and their multiplicities."""
        (a, b, c), k = self._abc, np.arange(self.count)
        A = a + b + c
        return (2 * a / A) ** (columns / 2) * (b / A) ** k, special.comb(k + columns - 1, columns - 1, exact=False)  # type: ignore[return-value]

    def __call__(self, x: Array) -> np.ndarray:
        x = np.asarray(x, np.float64).ravel()
        a, _, c = self._abc
        y, out = math.sqrt(2 * c) * x, np.zeros((len(x), self.count))
        before, here = np.zeros_like(x), (c / a) ** 0.25 * np.exp(-(c - a) * x**2)
        for k in range(self.count):  # H_(k+1) = 2y H_k − 2k H_(k−1), over √(2ᵏ k!)
            out[:, k] = here
            before, here = here, math.sqrt(2 / (k + 1)) * y * here - math.sqrt(k / (k + 1)) * before
        return out


def squared_exponential_eigensystem(lengthscale: float, spread: float, count: int) -> SquaredExponentialEigensystem:
    """Return the analytic eigensystem of ``SquaredExponential(lengthscale)`` for inputs from N(0, spread²), in one column.

    References
    ----------
    Rasmussen & Williams (2006), eqs. 4.39 and 4.40 (with :math:`\\sqrt{2c}\\,x`, and normalised).

    Examples
    --------
    >>> system = squared_exponential_eigensystem(6**-0.5, 0.5, 5)  # the book's figure 4.7
    >>> system.eigenvalues.round(4)
    array([0.5486, 0.2476, 0.1118, 0.0505, 0.0228])
    """
    check_positive("squared_exponential_eigensystem", "lengthscale", lengthscale)
    check_positive("squared_exponential_eigensystem", "spread", spread)
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise fail("squared_exponential_eigensystem", f"count is {count!r}", "give an integer, 1 or more", argument="count")
    return SquaredExponentialEigensystem(float(lengthscale), float(spread), int(count))


@dataclass(frozen=True)
class KernelComponents:
    """Principal components in feature space: called with inputs (m, d), they return projections of shape (m, count).

    ``eigenvalues`` (count,) are those of the (centred) gram matrix. Divided by n they are the variances along the components.
    """

    kernel: AbstractKernel
    X: Inputs
    eigenvalues: np.ndarray
    vectors: np.ndarray
    means: np.ndarray  # over the rows of the gram matrix, zero if not centred

    def __call__(self, X: Rows) -> np.ndarray:
        k = self.kernel.cross(as_inputs(X, "KernelComponents"), self.X)
        if self.means.any():
            k = k - k.mean(1, keepdims=True) - self.means + self.means.mean()
        return k @ self.vectors / np.sqrt(self.eigenvalues)


def kernel_pca(kernel: AbstractKernel, X: Rows, count: int, *, centre: bool = False) -> KernelComponents:
    r"""Compute kernel principal components: projections of new points on the first eigenvectors of the gram matrix.

    .. math:: z_i(x') = k(x')^\top u_i \big/ \sqrt{\lambda_i^{\rm mat}}

    Parameters
    ----------
    kernel, X, count
        The kernel, the rows and the number of components.
    centre
        Whether to centre the features over the rows first, as Schölkopf et al. (1998) do and R&W do not.

    References
    ----------
    Rasmussen & Williams (2006), section 4.3.2, below eq. 4.44; Schölkopf, Smola & Müller (1998).

    Examples
    --------
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> kernel_pca(SquaredExponential(0.3), X, 2)([[0.5]]).shape
    (1, 2)
    """
    inputs = as_inputs(X, "kernel_pca")
    K = kernel.gram(inputs)
    means = K.mean(0) if centre else np.zeros(len(K))
    values, vectors = _largest("kernel_pca", K - means - means[:, None] + means.mean(), count)
    return KernelComponents(kernel, inputs, values, vectors, means)
