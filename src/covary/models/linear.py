r"""Bayesian linear regression: the weight-space view of Gaussian processes (R&W, section 2.1).

.. math:: f(x) = \phi(x)^\top w, \quad w \sim N(0, \Sigma_p), \quad y = f(x) + \varepsilon,\ \varepsilon \sim N(0, \sigma_n^2)

The posterior of the weights costs an N × N factorisation for N features (*primal*, eq. 2.11) or an n × n one for n rows
(*dual*, eq. 2.12). Both give the same results, which equal those of the Gaussian process with kernel
:math:`k(x, x') = \phi(x)^\top\Sigma_p\phi(x')`. Everything is computed with :math:`\psi = \Sigma_p^{1/2}\phi`, so features may
be linearly dependent, outnumber the rows, or have zero prior variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, optimize, special

from covary._checks import check_finite, check_matrix, check_positive, check_vector, fail
from covary._errors import Option
from covary._module import child, static
from covary._types import Array, ArrayLike
from covary.data import Inputs
from covary.kernels.base import AbstractKernel, Traits
from covary.means.functions import Function
from covary.model import GP
from covary.prediction import Prediction, Spread

REACH = 40.0  # half-width of the search for the ratio of noise to prior variance, in nats around the features' scale


def symmetric_root(B: np.ndarray) -> np.ndarray:
    r"""Return the symmetric square root :math:`U D^{1/2} U^\top` of a covariance; eigenvalues below rounding count as zero."""
    values, U = np.linalg.eigh((B + B.T) / 2)
    if len(values) and values[0] < -1e-10 * max(abs(values[0]), values[-1]):
        raise fail("models.BayesianLinear", "the prior covariance is not positive semi-definite", "check its entries")
    return (U * np.sqrt(np.maximum(values, 0.0))) @ U.T


@dataclass(frozen=True)
class BayesianLinear:
    r"""Linear regression on features, with a Gaussian prior over the weights.

    Parameters
    ----------
    features
        φ: a function of the table x (n, d) that returns (n, N). If None, the columns themselves are the features (add a column
        of ones, or a constant feature, for an intercept).
    prior_covariance
        Σ_p: a single variance for all weights, one variance per weight, or a matrix.
    noise_variance
        σ_n².

    References
    ----------
    Rasmussen & Williams (2006), eqs. 2.1 to 2.12.

    Examples
    --------
    >>> post = BayesianLinear(prior_covariance=100.0, noise_variance=0.01).condition([[1.0], [2.0]], [2.0, 4.0])
    >>> post.weights.round(3), post.predict([[3.0]]).f.mean.round(3)
    (array([2.]), array([6.]))
    """

    features: Callable[[Array], Array] | None = None
    _: KW_ONLY
    prior_covariance: ArrayLike = 1.0
    noise_variance: float = 1.0

    def whitened(self, X: ArrayLike) -> np.ndarray:
        """Return ψ(x) = Σ_p^½ φ(x) for every row: shape (n, N)."""
        x = check_matrix("models.BayesianLinear", "X", X).astype(np.float64)
        phi = x if self.features is None else np.asarray(self.features(x), np.float64)
        if phi.ndim != 2 or len(phi) != len(x):
            raise fail("models.BayesianLinear", f"the features have shape {phi.shape} for {len(x)} rows", "return one row each")
        check_finite("models.BayesianLinear", "a feature", phi)
        root = self.root(phi.shape[1])
        return phi @ root if root.ndim == 2 else phi * root

    def root(self, m: int) -> np.ndarray:
        """Return Σ_p^½ for m weights: standard deviations (m,), or a symmetric matrix."""
        B = np.asarray(self.prior_covariance, np.float64)
        if B.shape not in ((), (m,), (m, m)):
            what = f"the prior covariance has shape {B.shape} for {m} features"
            raise fail("models.BayesianLinear", what, f"give shape (), ({m}) or ({m}, {m})")
        if B.ndim == 2:
            return symmetric_root(B)
        check_positive("models.BayesianLinear", "prior_covariance", B, zero=True)
        return np.sqrt(np.broadcast_to(B, (m,)))

    def condition(self, X: ArrayLike, y: ArrayLike, *, route: str = "auto") -> LinearPosterior:
        """Return the posterior given rows and targets.

        Parameters
        ----------
        X, y
            Inputs (n, d) and targets (n,).
        route
            ``"primal"`` (N × N), ``"dual"`` (n × n), or ``"auto"``: the smaller one. With zero noise only the dual route works.
        """
        psi, y = self.whitened(X), check_vector("models.BayesianLinear", "y", y).astype(np.float64)
        n, m = psi.shape
        if len(y) != n:
            what = Option("y") + f" has {len(y)} entries but " + Option("X") + f" has {n} rows"
            raise fail("models.BayesianLinear", what, "give one per row")
        check_positive("models.BayesianLinear", "noise_variance", self.noise_variance, zero=True)
        if route not in ("auto", "primal", "dual"):
            raise fail("models.BayesianLinear", f"route is {route!r}", "choose 'auto', 'primal' or 'dual'", argument="route")
        if route == "auto":
            route = "primal" if m <= n and self.noise_variance > 0 else "dual"
        if route == "primal" and self.noise_variance == 0:
            raise fail("models.BayesianLinear", "the primal route divides by the noise variance, which is zero", "use 'dual'")
        return (_primal if route == "primal" else _dual)(self, psi, y)

    def learn(self, X: ArrayLike, y: ArrayLike) -> BayesianLinear:
        r"""Return a copy whose scale of Σ_p and noise variance maximise the evidence.

        With prior α⁻¹Σ_p and noise β⁻¹, the best β has a closed form for every α/β, so the search is one-dimensional and uses
        the singular values of ψ. The result satisfies MacKay's conditions: :math:`\alpha\,w^\top\Sigma_p^{-1}w = \gamma` and
        :math:`\beta\,|y - \Phi w|^2 = n - \gamma` with γ the effective number of parameters.

        References
        ----------
        MacKay (1992), *Bayesian interpolation*; Coolen, eq. 3.73 with the exponent corrected.
        """
        psi, y = self.whitened(X), check_vector("models.BayesianLinear", "y", y).astype(np.float64)
        n = len(y)
        U, s, _ = linalg.svd(psi, full_matrices=False)
        z2 = (U.T @ y) ** 2
        rest = max(float(y @ y - z2.sum()), 0.0)
        if not float(y @ y) > 0 or not s.any():
            raise fail("models.BayesianLinear", "the targets or the features are all zero", "give data that vary")

        def profile(log_ratio: float) -> tuple[float, float]:
            """Return −2/n log evidence for the best noise variance, up to a constant; and that variance."""
            scale = 1 + s**2 * np.exp(-log_ratio)
            noise = (rest + float((z2 / scale).sum())) / n
            return np.log(noise) + float(np.log(scale).sum()) / n, noise

        centre = 2 * np.log(s[0])
        grid = np.linspace(centre - REACH, centre + REACH, 161)
        with np.errstate(divide="ignore"):
            values = [profile(t)[0] for t in grid]
        i = int(np.clip(np.argmin(values), 1, len(grid) - 2))
        found: Any = optimize.minimize_scalar(
            lambda t: profile(t)[0], bounds=(grid[i - 1], grid[i + 1]), method="bounded", options={"xatol": 1e-10}
        )
        noise = profile(float(found.x))[1]
        scale = noise / np.exp(float(found.x))
        return replace(self, prior_covariance=np.asarray(self.prior_covariance) * scale, noise_variance=noise)

    def output_covariance(self, X: ArrayLike) -> np.ndarray:
        r"""Return the covariance of targets at X, :math:`C = \sigma_n^2 I + \Phi\Sigma_p\Phi^\top` (Coolen, eq. 4.7)."""
        psi = self.whitened(X)
        return psi @ psi.T + self.noise_variance * np.eye(len(psi))

    def output_precision(self, X: ArrayLike) -> np.ndarray:
        r"""Return the inverse, :math:`C^{-1} = \beta I - \beta^2\Phi A^{-1}\Phi^\top` (weight space; Coolen, section 4.1)."""
        psi, beta = self.whitened(X), 1 / self.noise_variance
        A = np.eye(psi.shape[1]) + beta * psi.T @ psi
        return beta * np.eye(len(psi)) - beta**2 * psi @ linalg.solve(A, psi.T, assume_a="pos")

    def kernel(self, columns: int) -> FeatureKernel:
        """Return the kernel φ(x)ᵀΣ_p φ(x') of the equivalent Gaussian process; ``features`` must be written with jax.numpy."""
        m = columns if self.features is None else np.asarray(self.features(np.zeros((1, columns)))).shape[1]
        root = self.root(m)
        return FeatureKernel(
            _columns if self.features is None else self.features, root=root if root.ndim == 2 else np.diag(root)
        )


@dataclass(frozen=True)
class LinearPosterior:
    """The posterior of the weights, with predictions."""

    model: BayesianLinear
    route: str
    white: np.ndarray  # E Σ_p^(−½)w, shape (N,)
    log_evidence: float
    effective: float
    factor: np.ndarray  # primal: R of I + ψᵀψ/σ² = RᵀR; dual: L of ψψᵀ + σ²I = L Lᵀ
    psi: np.ndarray  # ψ(X), (n, N)

    @property
    def weights(self) -> np.ndarray:
        r"""The posterior mean :math:`\bar w` (R&W, eq. 2.8), which is also the MAP and the ridge regression estimate."""
        root = self.model.root(len(self.white))
        return root @ self.white if root.ndim == 2 else root * self.white

    @cached_property
    def covariance(self) -> np.ndarray:
        """The posterior covariance A⁻¹ of the weights."""
        root = self.model.root(len(self.white))
        half = self._half(root if root.ndim == 2 else np.diag(root))
        if self.route == "primal":
            return half @ half.T
        return (root @ root if root.ndim == 2 else np.diag(root**2)) - half @ half.T

    def _half(self, psi: np.ndarray) -> np.ndarray:
        """Return rows whose products are ψA⁻¹ψᵀ (primal), or the reduction of ψψᵀ by the data (dual)."""
        if self.route == "primal":
            return linalg.solve_triangular(self.factor, psi.T, trans=1).T
        return linalg.solve_triangular(self.factor, self.psi @ psi.T, lower=True).T

    def predict(self, X: ArrayLike, *, covariance: bool = False) -> Prediction:
        """Return the mean and variance of f and of a new y at new inputs (R&W, eqs. 2.9, 2.11, 2.12)."""
        psi = self.model.whitened(X)
        half, noise = self._half(psi), self.model.noise_variance
        variance, joint = (half * half).sum(1), half @ half.T if covariance else None
        if self.route == "dual":
            variance = np.maximum((psi * psi).sum(1) - variance, 0.0)
            joint = psi @ psi.T - joint if joint is not None else None
        mean = psi @ self.white
        wider = None if joint is None else joint + noise * np.eye(len(mean))
        return Prediction(Spread(mean, variance, joint), Spread(mean, variance + noise, wider))


def _primal(model: BayesianLinear, psi: np.ndarray, y: np.ndarray) -> LinearPosterior:
    """Solve by QR factors of ψ/σ with the prior as N additional rows, which does not square the condition number."""
    (n, m), s = psi.shape, np.sqrt(model.noise_variance)
    Q, R = linalg.qr(np.vstack([psi / s, np.eye(m)]), mode="economic")  # type: ignore[misc]
    white = linalg.solve_triangular(R, Q[:n].T @ (y / s))  # type: ignore[union-attr]
    miss = (y - psi @ white) / s
    quad = miss @ miss + white @ white
    logdet = n * np.log(model.noise_variance) + 2 * np.log(np.abs(np.diagonal(R))).sum()
    value = -0.5 * (quad + logdet + n * np.log(2 * np.pi))
    return LinearPosterior(model, "primal", white, float(value), float((Q[:n] ** 2).sum()), R, psi)  # type: ignore[operator]


def _dual(model: BayesianLinear, psi: np.ndarray, y: np.ndarray) -> LinearPosterior:
    n = len(y)
    K = psi @ psi.T
    try:
        L = linalg.cholesky(K + model.noise_variance * np.eye(n), lower=True)
    except linalg.LinAlgError:
        what = f"{n} rows of {psi.shape[1]} features with noise variance {model.noise_variance:g} have a singular covariance"
        raise fail("models.BayesianLinear", what, "allow more noise") from None
    alpha = linalg.cho_solve((L, True), y)
    value = -0.5 * (y @ alpha + 2 * np.log(np.diagonal(L)).sum() + n * np.log(2 * np.pi))
    half = linalg.solve_triangular(L, psi, lower=True)
    return LinearPosterior(model, "dual", psi.T @ alpha, float(value), float((half**2).sum()), L, psi)


# kernels and features -------------------------------------------------------------------------------------------------


def _columns(x: Array) -> Array:
    return x


class FeatureKernel(AbstractKernel):
    r"""The kernel of a feature map, :math:`k(x, x') = \phi(x)^\top\Sigma_p\phi(x') = \psi(x)\cdot\psi(x')`.

    Its rank is at most N: with fewer features than rows the matrix is singular, and only the noise makes it invertible.

    Parameters
    ----------
    function
        φ: a function of the table x (n, d) that returns (n, N), written with jax.numpy.
    root
        Σ_p^½ as a matrix (N, N'); the identity if None. It is not learned; multiply the kernel by a variance instead.

    References
    ----------
    Rasmussen & Williams (2006), section 2.1.2; Gibbs (1997), eqs. 2.34 to 2.36; Coolen, eq. 4.7.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> k = FeatureKernel(lambda x: jnp.concatenate([jnp.ones_like(x), x**2], 1))
    >>> float(k([2.0], [3.0]))
    37.0
    """

    function: Callable[[Array], Array] = static()
    _: KW_ONLY
    root: Any = child(None)

    @property
    def traits(self) -> Traits:
        return Traits()

    def map(self, x: Array) -> Array:
        """Return ψ(x) for every row, in jax.numpy."""
        phi = self.function(x)
        return phi if self.root is None else phi @ self.root

    def block(self, X: Inputs, Z: Inputs) -> Array:
        return self.map(X.x) @ self.map(Z.x).T

    def block_diag(self, X: Inputs) -> Array:
        return (self.map(X.x) ** 2).sum(1)


@dataclass(frozen=True)
class KernelFeatures:
    r"""The features of a kernel on given rows, :math:`\psi(x) = D^{-1/2}U^\top k(X, x)` from :math:`K = U D U^\top`.

    On these rows ψ·ψ' equals the kernel exactly; elsewhere it is the Nyström approximation (R&W, section 4.3.2).
    """

    kernel: AbstractKernel
    rows: np.ndarray
    projection: np.ndarray  # U D^(−½), (n, r)

    def __call__(self, X: ArrayLike) -> np.ndarray:
        return self.kernel.cross(X, self.rows) @ self.projection


def features_of(kernel: AbstractKernel, X: ArrayLike, *, tolerance: float = 1e-12) -> KernelFeatures:
    """Return features ψ with ψ(x)·ψ(x') = k(x, x') on the rows of X; drop eigenvalues below ``tolerance`` of the largest.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> x = [[0.0], [0.5], [2.0]]
    >>> psi = features_of(Matern52(), x)
    >>> bool(abs(psi(x) @ psi(x).T - Matern52().gram(x)).max() < 1e-12)
    True
    """
    rows = check_matrix("models.features_of", "X", X)
    values, U = np.linalg.eigh(kernel.gram(rows))
    keep = values > tolerance * values[-1]
    return KernelFeatures(kernel, rows, U[:, keep] / np.sqrt(values[keep]))


# arbitrary models, from draws of their priors ---------------------------------------------------------------------------


def moment_matched(function: Callable[[Array, Array], Array], draws: ArrayLike) -> GP:
    r"""Return the Gaussian process with the mean and covariance of an arbitrary model's prior, estimated from draws.

    .. math:: a(x) = \langle f(x; w)\rangle, \qquad C(x, x') = \langle [f(x; w) - a(x)][f(x'; w) - a(x')]\rangle

    Parameters
    ----------
    function
        f(x, w): the values (n,) at the table x (n, d) for one draw w of the parameters, written with jax.numpy.
    draws
        Draws of w from the prior, one per row.

    References
    ----------
    Coolen, eqs. 4.28, 4.29.
    """
    draws = check_matrix("models.moment_matched", "draws", draws)

    def values(x: Array) -> Array:
        return jax.vmap(lambda w: function(x, w))(jnp.asarray(draws, x.dtype)).T  # (n, S)

    def centred(x: Array) -> Array:
        found = values(x)
        return (found - found.mean(1, keepdims=True)) / np.sqrt(len(draws))

    return GP(FeatureKernel(centred), mean=Function(lambda row: values(row[None]).mean()))


def density_by_draws(values: ArrayLike, y: ArrayLike, new: ArrayLike, grid: ArrayLike, *, noise_variance: float) -> np.ndarray:
    """Return the predictive density on a grid of targets, as a ratio of joint densities averaged over the prior.

    Parameters
    ----------
    values, new
        f(X; w) of shape (S, n) and f(x*; w) of shape (S,) for S draws w of the prior.
    y, grid
        The targets (n,), and the points where the density is evaluated.
    noise_variance
        The variance of Gaussian noise.

    References
    ----------
    Coolen, eqs. 4.2, 4.3.
    """
    miss = ((np.asarray(y) - np.asarray(values)) ** 2).sum(1) / noise_variance
    share = special.softmax(-0.5 * miss)
    each = np.exp(-0.5 * (np.asarray(grid)[:, None] - np.asarray(new)) ** 2 / noise_variance)
    return each @ share / np.sqrt(2 * np.pi * noise_variance)
