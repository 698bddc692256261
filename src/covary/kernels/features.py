r"""Random Fourier features: a finite feature map φ with :math:`E\,\varphi(x)\cdot\varphi(x') = k(x, x')`.

By Bochner's theorem a stationary kernel is the Fourier transform of a positive measure (R&W, eq. 4.5), so that

.. math:: k(x - x') = \sigma^2\,E_\omega \cos\omega\cdot(x - x')
    \approx \frac{\sigma^2}m \sum_j (\cos\omega_j x \cos\omega_j x' + \sin\omega_j x \sin\omega_j x'),

with ω = 2πs drawn from the spectral density S(s) over its mass (Rahimi & Recht 2007). Sines come in pairs with cosines, so
that φ(x)·φ(x) = k(x, x) exactly. Frequencies are a direction times a radius: directions in orthogonal blocks (Yu et al.
2016), radii one from each of m strata, which are narrow where frequencies are high: those decide how a function varies close
to data. All this leaves the expectation as it is.

===================  =============================================================================================
kernel               where ω comes from
===================  =============================================================================================
SquaredExponential   normal, variance ℓ⁻² (R&W, section 4.2.1: S(s) below eq. 4.9)
Matern12, 32, 52     multivariate Student t with 2ν = 1, 3, 5 degrees of freedom (R&W, eq. 4.15)
RationalQuadratic    normal of variance τ/ℓ², τ ~ Gamma(α, mean 1): the mixture of R&W, eq. 4.20
Periodic             harmonics jω₀ of power 2e⁻ᶻI_j(z), z = ℓ⁻² (Jacobi and Anger's series): exact
Cosine, Constant     one frequency, 2π/p or zero: exact
sums, products       sums of kernels put features side by side; in a product of stationary kernels frequencies add
Linear, Polynomial   monomials (R&W, eq. 4.24): exact
===================  =============================================================================================
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
from scipy import special

from covary._checks import fail
from covary._memory import check_memory
from covary._words import counted
from covary.data import Inputs, as_inputs
from covary.kernels.base import AbstractKernel, Power, Product, Scaled, Sum
from covary.kernels.combine import Columns
from covary.kernels.dot_product import Constant, Linear, Polynomial
from covary.kernels.periodic import Cosine, Periodic
from covary.kernels.stationary import Matern12, Matern32, Matern52, RationalQuadratic, SquaredExponential

WHO = "random_features"
MOST_MONOMIALS, MOST_TERMS = 10_000, 64
TAPER = 3  # the last of m strata of frequencies holds m⁻³ of the power; 4 and 6 do as well, 1 (equal strata) far worse
NEGLIGIBLE = 1e-17  # the power of a harmonic, as a part of one, from which a periodic kernel's series is cut off


@dataclass(frozen=True)
class Waves:
    """Σ_j power_j cos(ω_j·(x − x')): a stationary kernel if ``exact``, else one draw whose expectation is the kernel.

    ``frequencies`` has shape (m, d), in radians per unit of input; ``power`` (m,) adds up to k(x, x).
    """

    frequencies: np.ndarray
    power: np.ndarray
    exact: bool

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """The features of every row: cosines, then sines (none for a frequency of zero)."""
        phase, moving = x @ self.frequencies.T, self.frequencies.any(1)
        size = np.sqrt(self.power)
        return np.concatenate([size * np.cos(phase), size[moving] * np.sin(phase[:, moving])], axis=1)

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Frequencies of equal power, in random order and of random sign: one from each of ``count`` strata."""
        steps = np.cumsum(self.power)
        place = np.searchsorted(steps, strata(count, rng, 1)[0] * steps[-1], side="right")
        chosen = self.frequencies[rng.permutation(np.minimum(place, len(steps) - 1))]
        return chosen * rng.choice([-1.0, 1.0], size=(count, 1))

    def roughness(self) -> float:
        """How fast the waves are on average; less than any other's if they are exact."""
        return -1.0 if self.exact else float(self.power @ np.abs(self.frequencies).sum(1) / self.power.sum())


@dataclass(frozen=True)
class Monomials:
    """Features coefficient · x₁^m₁ ⋯ x_d^m_d: ``exponents`` (N, d), ``coefficients`` (N,)."""

    exponents: np.ndarray
    coefficients: np.ndarray

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """The features of every row: (rows, N)."""
        out = np.repeat(self.coefficients[:, None], len(x), axis=1)
        for k in np.flatnonzero(self.exponents.any(0)):
            powers = x[:, k] ** np.arange(self.exponents[:, k].max() + 1)[:, None]
            out *= powers[self.exponents[:, k]]
        return out.T


@dataclass(frozen=True)
class Part:
    """One summand: monomials times waves (either may be missing)."""

    monomials: Monomials | None
    waves: Waves | None

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """The features of every row."""
        factors = [factor.evaluate(x) for factor in (self.monomials, self.waves) if factor is not None]
        if len(factors) == 1:
            return factors[0]
        return (factors[0][:, :, None] * factors[1][:, None, :]).reshape(len(x), -1)

    @property
    def count(self) -> int:
        """How many features it has."""
        waves = 1 if self.waves is None else len(self.waves.power) + int(self.waves.frequencies.any(1).sum())
        return waves * (1 if self.monomials is None else len(self.monomials.coefficients))


@dataclass(frozen=True)
class Features:
    """A feature map: called with inputs (rows, d) it gives the matrix φ of shape (rows, F), in NumPy.

    ``count`` is F. If ``exact``, φ(x)·φ(x') is the kernel itself, else an unbiased estimate of it with an error of at
    most about :math:`k(0)\\sqrt{1.8/m}` (standard deviation) from m frequencies.
    """

    parts: tuple[Part, ...]
    columns: int

    @property
    def count(self) -> int:
        """How many features there are."""
        return sum(part.count for part in self.parts)

    @property
    def exact(self) -> bool:
        """Whether nothing was drawn at random."""
        return all(part.waves is None or part.waves.exact for part in self.parts)

    def __call__(self, X: Any) -> np.ndarray:
        inputs = as_inputs(X, "Features")
        if inputs.columns != self.columns:
            raise fail(
                "Features", f"X has {counted(inputs.columns, 'column')} but the features are of {self.columns}", "give as many"
            )
        check_memory("Features", 3 * 8 * inputs.rows * self.count, "ask for fewer rows at a time")
        x = np.asarray(inputs.x, np.float64)
        return np.concatenate([part.evaluate(x) for part in self.parts], axis=1)


def random_features(kernel: AbstractKernel, columns: int, count: int, *, key: int | np.random.Generator) -> Features:
    """A feature map φ of a kernel: E φ(x)·φ(x') = k(x, x').

    A linear model on φ with standard normal weights is an approximate Gaussian process, at O(n F²) for n rows (R&W,
    section 2.1.2); a draw of such weights is a function drawn from the prior, known everywhere.

    Parameters
    ----------
    kernel
        Any sum, product, power or restriction to columns of the kernels in the module's table.
    columns
        The number of input columns.
    count
        How many features to spend on the summands that are drawn at random, in equal shares; summands with finitely many
        features of their own come on top, exactly. The error falls like 1/√count.
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
            raise fail(WHO, f"{name} is {value!r}", f"give a whole number, {least} or more")
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
    """A variance times stationary kernels times kernels of the dot product."""

    variance: float
    stationary: tuple[AbstractKernel, ...] = ()
    located: tuple[AbstractKernel, ...] = ()

    def __mul__(self, other: Term) -> Term:
        return Term(self.variance * other.variance, self.stationary + other.stationary, self.located + other.located)

    def spectrum(self, columns: int, count: int, rng: np.random.Generator) -> Waves | None:
        """The spectrum of the stationary kernels' product, by at most ``count`` frequencies."""
        if not self.stationary:
            return None
        return convolved([waves(kernel, columns, count, rng) for kernel in self.stationary], count, rng)

    def scaled(self, powers: Monomials | None, spectrum: Waves | None) -> Part:
        """The features, with the variance taken up by one of the two factors."""
        if spectrum is not None:
            return Part(powers, replace(spectrum, power=self.variance * spectrum.power))
        assert powers is not None
        return Part(replace(powers, coefficients=math.sqrt(self.variance) * powers.coefficients), None)


@singledispatch
def terms(kernel: AbstractKernel) -> list[Term]:
    """The kernel as a sum of products; sums inside a stationary product stay closed."""
    if kernel.traits.stationary:
        return [Term(1.0, (kernel,))]
    raise _unknown(kernel)


def _unknown(kernel: AbstractKernel) -> Exception:
    return fail(WHO, f"{kernel!r} has no known feature map", "use stationary, linear or polynomial kernels")


def _opened(factors: list[list[Term]]) -> list[Term]:
    if math.prod(len(factor) for factor in factors) > MOST_TERMS:
        raise fail(WHO, f"the product opens into more than {MOST_TERMS} terms", "write the kernel with fewer sums inside it")
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
    """All products of the monomials of several kernels; None if there are none."""
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
    """The features of a kernel of the dot product."""
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
    """One uniform number from each of ``count`` parts of (0, 1), falling, and how long the parts are.

    They begin at (1 − i/count)^taper: equal for a taper of one, else ever shorter towards zero.
    """
    edges = np.linspace(1, 0, count + 1) ** taper
    length = edges[:-1] - edges[1:]
    return np.maximum(edges[1:] + length * rng.random(count), np.finfo(float).tiny), length


def directions(columns: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform directions, up to sign, as many at a time at right angles as there are columns (Yu et al. 2016)."""
    many = min(columns, count)
    frames = np.linalg.qr(rng.standard_normal((-(-count // many), columns, many)))[0]
    return frames.transpose(0, 2, 1).reshape(-1, columns)[:count]


def convolved(parts: list[Waves], count: int, rng: np.random.Generator) -> Waves:
    """The spectrum of a product of kernels: frequencies add (R&W, section 4.2.4), all pairs of them if they are few."""
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
    order = sorted(parts, key=Waves.roughness)  # the roughest kernel keeps its strata, the others are drawn to go with it
    out = _at_most(order[-1], count, rng, always=order[-1].exact)
    for other in order[:-1]:
        out = Waves(out.frequencies + other.draw(count, rng), float(other.power.sum()) * out.power, False)
    return out


def _at_most(spectrum: Waves, count: int, rng: np.random.Generator, *, always: bool = False) -> Waves:
    """The spectrum itself, or a draw of ``count`` frequencies if it has more."""
    if len(spectrum.power) <= count and not always:
        return spectrum
    return Waves(spectrum.draw(count, rng), np.full(count, spectrum.power.sum() / count), False)


def isotropic(radius: np.ndarray, power: np.ndarray, lengthscale: Any, columns: int, rng: np.random.Generator) -> Waves:
    """Waves of the given radii in random directions."""
    frequencies = radius[:, None] * directions(columns, len(radius), rng) / _each(lengthscale, columns)
    return Waves(frequencies, power, False)


def _each(value: Any, columns: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(value, np.float64), (columns,))


@singledispatch
def waves(kernel: AbstractKernel, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """The spectrum of a stationary kernel by at most ``count`` frequencies; register one's own kernel here."""
    raise _unknown(kernel)


@waves.register
def _(kernel: SquaredExponential, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """A normal vector's squared length is χ² with d degrees of freedom."""
    tail, power = strata(count, rng)
    return isotropic(np.sqrt(2 * special.gammainccinv(columns / 2, tail)), power, kernel.lengthscale, columns, rng)


@waves.register(Matern12)
@waves.register(Matern32)
@waves.register(Matern52)
def _(kernel: Any, columns: int, count: int, rng: np.random.Generator) -> Waves:
    """Eq. 4.15: (1 + |ω|²/2ν)^(−ν − d/2), Student's t; 1/(1 + |ω|²/2ν) then is a Beta(ν, d/2) number."""
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
    """A mixture (this is a sum inside a product; others are opened): every summand's share of the power is kept."""
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
