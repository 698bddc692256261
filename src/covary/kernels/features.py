r"""Random Fourier features: a finite feature map φ with :math:`E\,\varphi(x)\cdot\varphi(x') = k(x, x')`.

By Bochner's theorem a stationary kernel is the Fourier transform of a positive measure (R&W, eq. 4.5), so that

.. math:: k(x - x') = \sigma^2\,E_\omega \cos\omega\cdot(x - x')
    \approx \frac{\sigma^2}m \sum_j (\cos\omega_j x \cos\omega_j x' + \sin\omega_j x \sin\omega_j x'),

with ω = 2πs drawn from the spectral density S(s), normalised (Rahimi & Recht 2007). Each sine is paired with a cosine, so
that φ(x)·φ(x) = k(x, x) exactly. A frequency is a direction times a radius. Directions are drawn in orthogonal blocks (Yu et
al. 2016), and radii one from each of m strata. The strata are narrower at high frequencies, which determine how a function
varies close to the data. None of this changes the expectation.

===================  =============================================================================================
kernel               distribution of ω
===================  =============================================================================================
SquaredExponential   normal, variance ℓ⁻² (R&W, section 4.2.1: S(s) below eq. 4.9)
Matern12, 32, 52     multivariate Student t with 2ν = 1, 3, 5 degrees of freedom (R&W, eq. 4.15)
RationalQuadratic    normal of variance τ/ℓ², τ ~ Gamma(α, mean 1): the mixture of R&W, eq. 4.20
Periodic             harmonics jω₀ of power 2e⁻ᶻI_j(z), z = ℓ⁻² (Jacobi–Anger expansion): exact
Cosine, Constant     one frequency, 2π/p or zero: exact
sums, products       features of a sum are concatenated; in a product of stationary kernels frequencies add
Linear, Polynomial   monomials (R&W, eq. 4.24): exact
===================  =============================================================================================
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
from scipy import special

from covary._checks import fail
from covary._errors import Option
from covary._memory import check_memory
from covary._types import ArrayLike
from covary._words import counted
from covary.data import Inputs, Rows, as_inputs
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.combine import Columns
from covary.kernels.dot_product import Constant, Linear, Polynomial
from covary.kernels.periodic import Cosine, Periodic
from covary.kernels.stationary import Matern12, Matern32, Matern52, RationalQuadratic, SquaredExponential

WHO = "random_features"
MOST_MONOMIALS, MOST_TERMS = 10_000, 64
TAPER = 3  # the last of m strata of frequencies has m⁻³ of the power; 4 and 6 work as well, 1 (equal strata) far worse
NEGLIGIBLE = 1e-17  # relative power of a harmonic below which a periodic kernel's series is truncated


@dataclass(frozen=True)
class Waves:
    """Sum Σ_j power_j cos(ω_j·(x − x')): a stationary kernel if ``exact``, else a draw whose expectation is the kernel.

    ``frequencies`` has shape (m, d), in radians per unit of input. ``power`` (m,) sums to k(x, x).
    """

    frequencies: np.ndarray
    power: np.ndarray
    exact: bool

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """Return the features of every row: cosines, then sines (none for a frequency of zero)."""
        phase, moving = x @ self.frequencies.T, self.frequencies.any(1)
        size = np.sqrt(self.power)
        return np.concatenate([size * np.cos(phase), size[moving] * np.sin(phase[:, moving])], axis=1)

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw frequencies of equal power, one from each of ``count`` strata, in random order and with random signs."""
        steps = np.cumsum(self.power)
        place = np.searchsorted(steps, strata(count, rng, 1)[0] * steps[-1], side="right")
        chosen = self.frequencies[rng.permutation(np.minimum(place, len(steps) - 1))]
        return chosen * rng.choice([-1.0, 1.0], size=(count, 1))

    def roughness(self) -> float:
        """Return the average frequency of the waves, or −1 if they are exact."""
        return -1.0 if self.exact else float(self.power @ np.abs(self.frequencies).sum(1) / self.power.sum())


@dataclass(frozen=True)
class Monomials:
    """Features coefficient · x₁^m₁ ⋯ x_d^m_d, with ``exponents`` (N, d) and ``coefficients`` (N,)."""

    exponents: np.ndarray
    coefficients: np.ndarray

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """Return the features of every row: (rows, N)."""
        out = np.repeat(self.coefficients[:, None], len(x), axis=1)
        for k in np.flatnonzero(self.exponents.any(0)):
            powers = x[:, k] ** np.arange(self.exponents[:, k].max() + 1)[:, None]
            out *= powers[self.exponents[:, k]]
        return out.T


@dataclass(frozen=True)
class Part:
    """Term of a sum: monomials times waves, of which one may be missing."""

    monomials: Monomials | None
    waves: Waves | None

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """Return the features of every row."""
        factors = [factor.evaluate(x) for factor in (self.monomials, self.waves) if factor is not None]
        if len(factors) == 1:
            return factors[0]
        return (factors[0][:, :, None] * factors[1][:, None, :]).reshape(len(x), -1)

    @property
    def count(self) -> int:
        """Number of features of this part."""
        waves = 1 if self.waves is None else len(self.waves.power) + int(self.waves.frequencies.any(1).sum())
        return waves * (1 if self.monomials is None else len(self.monomials.coefficients))


@dataclass(frozen=True)
class Features:
    """Feature map: called with inputs (rows, d), it returns the matrix φ of shape (rows, F), in NumPy.

    ``count`` is F. If ``exact``, φ(x)·φ(x') equals the kernel. Otherwise it is an unbiased estimate whose standard deviation
    is at most about :math:`k(0)\\sqrt{1.8/m}` for m frequencies.
    """

    parts: tuple[Part, ...]
    columns: int

    @property
    def count(self) -> int:
        """Number of features."""
        return sum(part.count for part in self.parts)

    @property
    def exact(self) -> bool:
        """Whether the features are exact, with no random frequencies."""
        return all(part.waves is None or part.waves.exact for part in self.parts)

    def __call__(self, X: Rows) -> np.ndarray:
        inputs = as_inputs(X, "Features")
        if inputs.columns != self.columns:
            what = Option("X") + f" has {counted(inputs.columns, 'column')}, expected {self.columns}"
            raise fail("Features", what, "give the columns the features were drawn for")
        check_memory("Features", 3 * 8 * inputs.rows * self.count, "use fewer rows at a time")
        x = np.asarray(inputs.x, np.float64)
        return np.concatenate([part.evaluate(x) for part in self.parts], axis=1)


def random_features(kernel: AbstractKernel, columns: int, count: int, *, key: int | np.random.Generator) -> Features:
    """Draw a feature map φ of a kernel with E φ(x)·φ(x') = k(x, x').

    A linear model on φ with standard normal weights is an approximate Gaussian process, at a cost of O(n F²) for n rows (R&W,
    section 2.1.2). A draw of the weights gives a function from the prior that can be evaluated at any input.

    Parameters
    ----------
    kernel
        Any sum, product, power or restriction to columns of the kernels in the module's table.
    columns
        The number of input columns.
    count
        The total number of features for the terms that are drawn at random, divided equally among them. Terms with finitely
        many exact features are added to these. The error decreases as 1/√count.
    key
        A seed or a generator.

    References
    ----------
    Rasmussen & Williams (2006), section 4.2.1, eqs. 4.5, 4.15, 4.20, 4.24; Rahimi & Recht (2007), *Random features for
    large-scale kernel machines*; Yu et al. (2016), *Orthogonal random features*.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> phi = random_features(2.0 * Matern52(), 1, 2000, key=0)([[0.0], [1.0]])
    >>> phi.shape, (phi @ phi.T).round(2).tolist()
    ((2, 2000), [[2.0, 1.05], [1.05, 2.0]])
    """
    for name, value, least in (("columns", columns, 1), ("count", count, 2)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise fail(WHO, f"{name} is {value!r}", f"give an integer, {least} or more", argument=name)
    if not isinstance(kernel, AbstractKernel):
        raise fail(WHO, f"got {type(kernel).__name__} for the kernel", "give a kernel, such as Matern52()")
    kernel.check(Inputs(np.zeros((1, columns))))
    rng = np.random.default_rng(key)
    opened = terms(kernel)
    maps = [product_of([monomials(k, columns) for k in term.located]) for term in opened]
    limit = max(1, count // 2)
    trial = [term.spectrum(columns, limit, np.random.default_rng(0)) for term in opened]
    sampled = sum(waves is not None and not waves.exact for waves in trial)
    parts = []
    for term, powers, waves in zip(opened, maps, trial, strict=True):
        if waves is not None and not waves.exact:
            size = 1 if powers is None else len(powers.coefficients)
            waves = term.spectrum(columns, max(1, count // (2 * sampled * size)), rng)
        parts.append(term.scaled(powers, waves))
    return Features(tuple(parts), int(columns))


# sums of products ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """Product of a variance, stationary kernels and kernels of the dot product."""

    variance: float
    stationary: tuple[AbstractKernel, ...] = ()
    located: tuple[AbstractKernel, ...] = ()

    def __mul__(self, other: Term) -> Term:
        return Term(self.variance * other.variance, self.stationary + other.stationary, self.located + other.located)

    def spectrum(self, columns: int, count: int, rng: np.random.Generator) -> Waves | None:
        """Return the spectrum of the product of the stationary kernels, with at most ``count`` frequencies."""
        if not self.stationary:
            return None
        return convolved([waves(kernel, columns, count, rng) for kernel in self.stationary], count, rng)

    def scaled(self, powers: Monomials | None, spectrum: Waves | None) -> Part:
        """Return the features, with the variance included in one of the two factors."""
        if spectrum is not None:
            return Part(powers, replace(spectrum, power=self.variance * spectrum.power))
        assert powers is not None
        return Part(replace(powers, coefficients=math.sqrt(self.variance) * powers.coefficients), None)


@singledispatch
def terms(kernel: AbstractKernel) -> list[Term]:
    """Expand a kernel into a sum of products. Sums inside a stationary product are not expanded."""
    if kernel.traits.stationary:
        return [Term(1.0, (kernel,))]
    raise _unknown(kernel)


def _unknown(kernel: AbstractKernel) -> Exception:
    return fail(WHO, f"{kernel!r} has no known feature map", "use stationary, linear or polynomial kernels")


def _opened(factors: list[list[Term]]) -> list[Term]:
    if math.prod(len(factor) for factor in factors) > MOST_TERMS:
        raise fail(WHO, f"the product expands to more than {MOST_TERMS} terms", "write the kernel with fewer sums inside it")
    return [math.prod(chosen, start=Term(1.0)) for chosen in itertools.product(*factors)]


@terms.register
def _(kernel: Sum) -> list[Term]:
    return [term for part in kernel.terms for term in terms(part)]


@terms.register
def _(kernel: Scaled) -> list[Term]:
    return [replace(term, variance=float(kernel.variance) * term.variance) for term in terms(kernel.kernel)]


@terms.register
def _(kernel: Product) -> list[Term]:
    return [Term(1.0, (kernel,))] if kernel.traits.stationary else _opened([terms(factor) for factor in kernel.factors])


@terms.register
def _(kernel: Power) -> list[Term]:
    return [Term(1.0, (kernel,))] if kernel.traits.stationary else _opened([terms(kernel.kernel)] * kernel.exponent)


@terms.register
def _(kernel: Columns) -> list[Term]:
    def put(parts: tuple[AbstractKernel, ...]) -> tuple[AbstractKernel, ...]:
        return tuple(Columns(part, columns=kernel.columns) for part in parts)

    return [Term(t.variance, put(t.stationary), put(t.located)) for t in terms(kernel.kernel)]


@terms.register(Linear)
@terms.register(Polynomial)
def _(kernel: AbstractKernel) -> list[Term]:
    return [Term(1.0, (), (kernel,))]


# kernels of the dot product -----------------------------------------------------------------------------------------


def product_of(factors: list[Monomials]) -> Monomials | None:
    """Return all products of the monomials of several kernels, or None if there are no kernels."""
    if not factors:
        return None
    _few(math.prod(len(factor.coefficients) for factor in factors))
    out = factors[0]
    for other in factors[1:]:
        exponents = out.exponents[:, None, :] + other.exponents[None]
        coefficients = out.coefficients[:, None] * other.coefficients[None]
        out = Monomials(exponents.reshape(-1, exponents.shape[2]), coefficients.ravel())
    return out


def _few(number: int) -> None:
    if number > MOST_MONOMIALS:
        raise fail(WHO, f"the kernel has {number:,} polynomial features", "lower the degree, or use fewer columns")


@singledispatch
def monomials(kernel: AbstractKernel, columns: int) -> Monomials:
    """Return the features of a kernel of the dot product."""
    raise _unknown(kernel)


@monomials.register
def _(kernel: Linear, columns: int) -> Monomials:
    return Monomials(np.eye(columns, dtype=int), 1 / _each(kernel.lengthscale, columns))


@monomials.register
def _(kernel: Polynomial, columns: int) -> Monomials:
    """√(p!/(m₀! ⋯ m_d!)) b^(m₀/2) Π (x_k/ℓ_k)^m_k (R&W, eq. 4.24, with √b as one more input)."""
    degree = int(kernel.degree)
    _few(math.comb(columns + degree, degree))
    chosen = itertools.combinations_with_replacement(range(columns + 1), degree)
    exponents = np.array([np.bincount(c, minlength=columns + 1) for c in chosen])
    size = np.concatenate([[math.sqrt(kernel.bias)], 1 / _each(kernel.lengthscale, columns)])
    multinomial = math.factorial(degree) / special.factorial(exponents).prod(1)
    return Monomials(exponents[:, 1:], np.sqrt(multinomial) * (size**exponents).prod(1))


@monomials.register
def _(kernel: Columns, columns: int) -> Monomials:
    inner = monomials(kernel.kernel, len(kernel.columns))
    exponents = np.zeros((len(inner.exponents), columns), int)
    np.add.at(exponents.T, list(kernel.columns), inner.exponents.T)
    return Monomials(exponents, inner.coefficients)


# stationary kernels -------------------------------------------------------------------------------------------------


def strata(count: int, rng: np.random.Generator, taper: int = TAPER) -> tuple[np.ndarray, np.ndarray]:
    """Draw one uniform number from each of ``count`` intervals of (0, 1), in decreasing order, and return their lengths too.

    The intervals end at (1 − i/count)^taper. They are equal for a taper of one, else shorter towards zero.
    """
    edges = np.linspace(1, 0, count + 1) ** taper
    length = edges[:-1] - edges[1:]
    return np.maximum(edges[1:] + length * rng.random(count), np.finfo(float).tiny), length


def directions(columns: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw uniform directions, up to sign, in orthogonal blocks of as many as there are columns (Yu et al. 2016)."""
    many = min(columns, count)
    frames = np.linalg.qr(rng.standard_normal((-(-count // many), columns, many)))[0]
    return frames.transpose(0, 2, 1).reshape(-1, columns)[:count]


def convolved(parts: list[Waves], count: int, rng: np.random.Generator) -> Waves:
    """Return the spectrum of a product: sums of frequencies (R&W, section 4.2.4), over all pairs if there are few."""
    if len(parts) == 1:
        return parts[0]
    if all(p.exact for p in parts) and 2 ** (len(parts) - 1) * math.prod(len(p.power) for p in parts) <= count:
        out = parts[0]
        for other in parts[1:]:
            a, b = out.frequencies[:, None], other.frequencies[None]
            power = (out.power[:, None] * other.power[None]).ravel() / 2
            both = np.concatenate([a + b, a - b]).reshape(-1, a.shape[2])  # cos a cos b = (cos(a + b) + cos(a − b))/2
            out = Waves(both, np.concatenate([power, power]), True)
        return out
    order = sorted(parts, key=Waves.roughness)  # the roughest kernel keeps its strata, the others are drawn to match
    out = _at_most(order[-1], count, rng, always=order[-1].exact)
    for other in order[:-1]:
        out = Waves(out.frequencies + other.draw(count, rng), float(other.power.sum()) * out.power, False)
    return out


def _at_most(spectrum: Waves, count: int, rng: np.random.Generator, *, always: bool = False) -> Waves:
    """Return the spectrum unchanged, or a draw of ``count`` frequencies if it has more."""
    if len(spectrum.power) <= count and not always:
        return spectrum
    return Waves(spectrum.draw(count, rng), np.full(count, spectrum.power.sum() / count), False)


def isotropic(radius: np.ndarray, power: np.ndarray, lengthscale: ArrayLike, columns: int, rng: np.random.Generator) -> Waves:
    """Return waves with the given radii and random directions."""
    frequencies = radius[:, None] * directions(columns, len(radius), rng) / _each(lengthscale, columns)
    return Waves(frequencies, power, False)


def _each(value: ArrayLike, columns: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(value, np.float64), (columns,))


@singledispatch
def waves(kernel: AbstractKernel, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """Return the spectrum of a stationary kernel with at most ``count`` frequencies. User-defined kernels register here."""
    raise _unknown(kernel)


@waves.register
def _(kernel: SquaredExponential, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """The squared length of a normal vector is χ² with d degrees of freedom."""
    tail, power = strata(count, rng)
    return isotropic(np.sqrt(2 * special.gammainccinv(columns / 2, tail)), power, kernel.lengthscale, columns, rng)


@waves.register(Matern12)
@waves.register(Matern32)
@waves.register(Matern52)
def _(kernel: AbstractKernel, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """Eq. 4.15: (1 + |ω|²/2ν)^(−ν − d/2), a Student t density, so that 1/(1 + |ω|²/2ν) has a Beta(ν, d/2) distribution."""
    nu = {Matern12: 0.5, Matern32: 1.5, Matern52: 2.5}[type(kernel)]
    tail, power = strata(count, rng)
    beta = special.betaincinv(nu, columns / 2, tail)
    return isotropic(np.sqrt(2 * nu * (1 - beta) / beta), power, kernel.lengthscale, columns, rng)


@waves.register
def _(kernel: RationalQuadratic, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """∫ e^(−τr²/2) Gamma(τ | α, mean 1) dτ = (1 + r²/2α)^(−α) (eq. 4.20): normal of variance τ."""
    alpha = float(kernel.alpha)
    tail, power = strata(count, rng)
    tau = special.gammainccinv(alpha, tail) / alpha
    chi = np.sqrt(2 * special.gammainccinv(columns / 2, rng.permutation(strata(count, rng, 1)[0])))
    return isotropic(np.sqrt(tau) * chi, power, kernel.lengthscale, columns, rng)


@waves.register
def _(kernel: Periodic, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """e^(z(cos θ − 1)) = e⁻ᶻI₀(z) + 2 Σ_j e⁻ᶻI_j(z) cos jθ for every column, with θ = 2πτ/p and z = ℓ⁻²."""
    parts = []
    for k, (ell, period) in enumerate(zip(_each(kernel.lengthscale, columns), _each(kernel.period, columns), strict=True)):
        z = ell**-2.0
        j = np.arange(int(40 + 9 * math.sqrt(z)))
        power = np.where(j > 0, 2, 1) * special.ive(j, z)
        j, power = j[power > NEGLIGIBLE], power[power > NEGLIGIBLE]
        frequencies = np.zeros((len(j), columns))
        frequencies[:, k] = 2 * np.pi / period * j
        parts.append(Waves(frequencies, power / power.sum(), True))
    return _at_most(convolved(parts, count, rng), count, rng)


@waves.register
def _(kernel: Cosine, columns: int, count: int, rng: np.random.Generator) -> Waves:
    return Waves((2 * np.pi / _each(kernel.period, columns))[None], np.ones(1), True)


@waves.register
def _(kernel: Constant, columns: int, count: int, rng: np.random.Generator) -> Waves:
    return Waves(np.zeros((1, columns)), np.ones(1), True)


@waves.register
def _(kernel: Scaled, columns: int, count: int, rng: np.random.Generator) -> Waves:
    inner = waves(kernel.kernel, columns, count, rng)
    return replace(inner, power=float(kernel.variance) * inner.power)


@waves.register
def _(kernel: Sum, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """A mixture in proportion to the power of the terms. (This is a sum inside a product; other sums are expanded.)"""
    parts = [waves(term, columns, count, rng) for term in kernel.terms]
    both = Waves(
        np.concatenate([p.frequencies for p in parts]),
        np.concatenate([p.power for p in parts]),
        all(p.exact for p in parts),
    )
    return _at_most(both, count, rng)


@waves.register
def _(kernel: Product, columns: int, count: int, rng: np.random.Generator) -> Waves:
    return convolved([waves(factor, columns, count, rng) for factor in kernel.factors], count, rng)


@waves.register
def _(kernel: Power, columns: int, count: int, rng: np.random.Generator) -> Waves:
    return convolved([waves(kernel.kernel, columns, count, rng) for _ in range(kernel.exponent)], count, rng)


@waves.register
def _(kernel: Columns, columns: int, count: int, rng: np.random.Generator) -> Waves:
    inner = waves(kernel.kernel, len(kernel.columns), count, rng)
    frequencies = np.zeros((len(inner.power), columns))
    np.add.at(frequencies.T, list(kernel.columns), inner.frequencies.T)
    return replace(inner, frequencies=frequencies)
