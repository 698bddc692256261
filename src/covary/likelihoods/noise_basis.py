"""Gaussian noise whose log variance is linear in basis functions of the inputs (Gibbs, eq. 2.24)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from dataclasses import replace as changed
from typing import Any, ClassVar, NoReturn

import numpy as np
from scipy import special

from covary._checks import CovaryError, check_matrix, check_positive, fail, namespace
from covary._errors import Option
from covary._module import Numbers, static
from covary._types import Array, ArrayLike
from covary._words import counted
from covary.data import Data, Rows, as_inputs
from covary.kernels.authors import rows_of
from covary.likelihoods.base import Moments
from covary.likelihoods.gaussian import Gaussian
from covary.parameters import fixed, positive, real
from covary.sites import Noise


class NoOneVariance(CovaryError, AttributeError):
    """Raised if a single noise variance is requested but it depends on the inputs."""


@dataclass(frozen=True)
class Bumps:
    r"""Gaussian bumps, :math:`\phi_j(x) = \exp(-\tfrac12\sum_k (x_k - a_{jk})^2/w_k^2)`: smooth functions of the inputs.

    Parameters
    ----------
    centres
        The a_j as rows, or as numbers for a single input column.
    width
        w, one number or one per column.
    """

    centres: tuple[tuple[float, ...], ...]
    width: float | tuple[float, ...] = 1.0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        a = np.asarray(self.centres, x.dtype)
        if a.shape[1] != x.shape[1]:
            what = f"the centres have {counted(a.shape[1], 'column')} but " + Option("X") + f" has {x.shape[1]}"
            raise fail("likelihoods.Bumps", what, "give the same number of columns")
        w = np.asarray(self.width, x.dtype)
        scaled, centres = x / w, a / w
        square = sum((scaled[:, k, None] - centres[None, :, k]) ** 2 for k in range(x.shape[1]))
        return namespace(x).exp(-0.5 * square)


class BasisNoise(Gaussian):
    r"""Gaussian noise with variance :math:`\theta_3(x) = \theta\,\exp\bigl(\sum_j \beta_j\phi_j(x)\bigr)`.

    For measurements whose precision depends on known inputs. The variance is positive for all weights. With β = 0 this is
    Gaussian noise of variance ``level``; a constant among the φ would be redundant with ``level``. It requires exact inference
    and a gram that supports noise per row. The weights are learned with the other parameters; the evidence is often flat in
    some of them, so use few functions, or priors on ``likelihood.weights``.

    The noise of a new observation depends on its inputs: use :meth:`noise_at`, or :meth:`predict` for the full prediction.

    Parameters
    ----------
    level
        θ, the noise variance where the sum is zero, in the units of y squared.
    function
        The φ: any function of the table x (n, d) that returns (n, J), such as ``Bumps``, in NumPy, or in jax.numpy to be
        differentiated over x.
    weights
        The β, one real number per function.

    References
    ----------
    Gibbs (1997), eq. 2.24; ∂θ₃/∂β_j = θ₃ φ_j.

    Examples
    --------
    >>> import numpy as np
    >>> noise = BasisNoise(0.1, function=lambda x: x, weights=[2.0])
    >>> noise.noise_at([[0.0], [1.0]]).round(4)
    array([0.1   , 0.7389])
    """

    level: Numbers = positive(1.0)
    _: KW_ONLY
    function: Callable[[np.ndarray], ArrayLike] = static()
    weights: Numbers = real()

    variance: ClassVar[Any]  # type: ignore[no-redef]  # not a number: see the property below

    @staticmethod
    def bumps(centres: ArrayLike, *, width: ArrayLike, level: float = 1.0) -> BasisNoise:
        """Create noise with Gaussian bumps at given centres, initially with zero weights.

        Parameters
        ----------
        centres
            The centres as rows (J, d), or (J,) for a single input column.
        width
            The width of the bumps, one number or one per column; typically the distance between centres.
        level
            The noise variance far from all centres.
        """
        a = np.asarray(centres, np.float64)
        a = check_matrix("likelihoods.BasisNoise", "centres", a[:, None] if a.ndim == 1 else a)
        w = np.asarray(width, np.float64)
        check_positive("likelihoods.BasisNoise", "width", w)
        rows = tuple(tuple(float(v) for v in row) for row in a)
        wide = float(w) if w.ndim == 0 else tuple(float(v) for v in w)
        return BasisNoise(level, function=Bumps(rows, wide), weights=np.zeros(len(a)))

    @property
    def variance(self) -> NoReturn:  # type: ignore[override]
        """Not available: code that requires a single noise variance raises an error."""
        do = "use " + Option("inference", "Exact()") + ", and likelihood.predict(posterior, X) for new observations"
        raise NoOneVariance("likelihoods.BasisNoise", "the noise depends on the inputs, so there is no single variance", do)

    def noise_at(self, X: Rows) -> np.ndarray:
        """Return the noise variance θ₃(x) at every row."""
        return self._shape(as_inputs(X, "likelihoods.BasisNoise").x)[0]

    def _shape(self, x: Array) -> tuple[np.ndarray, np.ndarray]:
        """Return θ₃ and φ at every row."""
        who = "likelihoods.BasisNoise"
        phi = rows_of(who, self.function, x)
        xp = namespace(phi, self.weights, self.level)
        beta = xp.asarray(self.weights, x.dtype)
        if beta.shape != phi.shape[1:]:
            what = f"weights has shape {beta.shape} for {phi.shape[1]} basis functions"
            raise fail(who, what, "give one each", argument="weights")
        most = 0.5 * float(np.log(np.finfo(x.dtype).max))  # avoids overflow
        return xp.asarray(self.level, x.dtype) * xp.exp(xp.clip(phi @ beta, -most, most)), phi

    # used by Exact --------------------------------------------------------------------------------------------------
    def variances(self, data: Data) -> np.ndarray:
        learned = self._shape(data.X.x)[0]
        return learned if data.noise_variance is None else learned + data.noise_variance

    def sites(self, data: Data) -> Noise:
        """Return the noise variance of every row."""
        check_positive("likelihoods.BasisNoise", "level", self.level)
        v = self.variances(data)
        return Noise(v if data.weight is None else v / data.weight)

    def pull_sites(self, data: Data, bar: np.ndarray) -> BasisNoise:
        """Return the gradient with respect to level and weights, given that with respect to the sites."""
        learned, phi = self._shape(data.X.x)
        each = (bar if data.weight is None else bar / data.weight) + self._repeat_slopes(data)
        each = each * learned
        return self.replace(level=float(each.sum()) / float(self.level), weights=phi.T @ each)

    def _repeat_slopes(self, data: Data) -> np.ndarray | float:
        """Return the derivative of :meth:`repeats` with respect to the noise variance of every row."""
        if data.weight is None and data.scatter is None:
            return 0.0
        v, outputs = self.variances(data).astype(np.float64), data.y.shape[1] if data.y.ndim == 2 else 1
        more = 0.0 if data.weight is None else data.weight.astype(np.float64) - 1
        scatter = 0.0 if data.scatter is None else data.scatter.astype(np.float64)
        return -0.5 * (outputs * more / v - scatter / v**2)

    # a new observation -----------------------------------------------------------------------------------------------
    def at(self, X: Rows) -> RowNoise:
        """Return the likelihood of new observations at given rows."""
        return RowNoise(fixed(self.noise_at(X)))

    def predict(self, posterior: Any, X: Rows, *, covariance: bool = False) -> Any:
        """Predict f and new observations y at new inputs, like ``posterior.predict`` for other likelihoods."""
        X = as_inputs(X, "likelihoods.BasisNoise")
        plain = changed(posterior, model=posterior.model.replace(likelihood=Gaussian(fixed(0.0))))
        found = plain.predict(X, covariance=covariance)
        f, noise = found.f, self.noise_at(X.with_x(X.x.astype(posterior.data.dtype)))
        wider = f.variance + (noise if f.variance.ndim == 1 else noise[:, None])
        joint = None if f.covariance is None else f.covariance + np.diag(noise)
        return changed(found, y=changed(f, variance=wider, covariance=joint))


class RowNoise(Gaussian):
    """Gaussian noise with one fixed variance per row of f."""

    def moments(self, f: np.ndarray, size: ArrayLike | None = None) -> Moments:
        return Moments(f, np.broadcast_to(np.asarray(self.variance), f.shape))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: ArrayLike | None = None) -> np.ndarray:
        return special.ndtr((y - f) / np.sqrt(np.asarray(self.variance)))

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: ArrayLike | None = None
    ) -> np.ndarray:
        return special.ndtr((y - mean) / np.sqrt(variance + np.asarray(self.variance)))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: ArrayLike | None = None) -> np.ndarray:
        """Draw one y for every latent value (…, n)."""
        return f + np.sqrt(np.asarray(self.variance)) * rng.standard_normal(np.shape(f))
