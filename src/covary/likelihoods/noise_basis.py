"""Gaussian noise whose level is a function of the inputs, written on a basis (Gibbs, eq. 2.24)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from dataclasses import replace as changed
from typing import Any, ClassVar

import numpy as np
from scipy import special

from covary._checks import CovaryError, check_matrix, check_positive, fail
from covary._module import static
from covary._words import counted
from covary.data import Data, as_inputs
from covary.likelihoods.base import Moments
from covary.likelihoods.gaussian import Gaussian
from covary.parameters import fixed, positive, real
from covary.sites import Noise


class NoOneVariance(CovaryError, AttributeError):
    """Asked for the noise variance where it depends on the inputs."""


@dataclass(frozen=True)
class Bumps:
    r"""Gaussian bumps, :math:`\phi_j(x) = \exp(-\tfrac12\sum_k (x_k - a_{jk})^2/w_k^2)`: smooth functions of the inputs.

    Parameters
    ----------
    centres
        The a_j, one row each; numbers for one input column.
    width
        w: one number, or one per column.
    """

    centres: tuple[tuple[float, ...], ...]
    width: float | tuple[float, ...] = 1.0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        a = np.asarray(self.centres, x.dtype)
        if a.shape[1] != x.shape[1]:
            raise fail(
                "likelihoods.Bumps",
                f"the centres have {counted(a.shape[1], 'column')} but X has {x.shape[1]}",
                "make them agree",
            )
        w = np.asarray(self.width, x.dtype)
        scaled, centres = x / w, a / w
        square = sum((scaled[:, k, None] - centres[None, :, k]) ** 2 for k in range(x.shape[1]))
        return np.exp(-0.5 * square)


class BasisNoise(Gaussian):
    r"""Gaussian noise with variance :math:`\theta_3(x) = \theta\,\exp\bigl(\sum_j \beta_j\phi_j(x)\bigr)`.

    For measurements that get better or worse along known inputs; positive whatever the weights, so always a proper noise. With
    β = 0 it is plain Gaussian noise of variance ``level``; a constant among the φ would say the same as ``level`` does. Exact
    inference only, under every gram that takes noise row by row. The weights are learned with the other parameters; the
    evidence is often flat in some of them, so few functions, or priors on ``likelihood.weights``, are wise.

    A new observation needs its inputs: :meth:`noise_at` gives its noise, :meth:`predict` the whole prediction.

    Parameters
    ----------
    level
        θ, the noise variance where the functions add up to zero, in the units of y squared.
    function
        The φ: any function of the table x (n, d) that returns (n, J), in NumPy; for example :class:`Bumps`.
    weights
        The β, one per function, real.

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

    level: Any = positive(1.0)
    _: KW_ONLY
    function: Callable[[np.ndarray], Any] = static()
    weights: Any = real()

    variance: ClassVar[Any]  # type: ignore[no-redef]  # not a number here: see the property below

    @staticmethod
    def bumps(centres: Any, *, width: Any, level: float = 1.0) -> BasisNoise:
        """The same with Gaussian bumps at given centres, all weights zero to begin with.

        Parameters
        ----------
        centres
            One row each (J, d), or (J,) for one input column.
        width
            The bumps' width: one number, or one per column; about the distance between centres.
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
    def variance(self) -> Any:  # type: ignore[override]
        """There is none: whatever would use one noise variance for all rows gets a sentence instead."""
        raise NoOneVariance(
            "likelihoods.BasisNoise: the noise depends on the inputs, so there is no one variance; use inference=Exact(), and "
            "likelihood.predict(posterior, X) for new observations."
        )

    def noise_at(self, X: Any) -> np.ndarray:
        """The noise variance θ₃(x) at every row."""
        return self._shape(np.asarray(as_inputs(X, "likelihoods.BasisNoise").x))[0]

    def _shape(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """θ₃ and φ at every row."""
        who = "likelihoods.BasisNoise"
        phi = np.asarray(self.function(x), x.dtype)
        if phi.ndim != 2 or len(phi) != len(x):
            raise fail(who, f"the function gave shape {phi.shape} for {len(x)} rows", "return one row for every row of x")
        beta = np.asarray(self.weights, x.dtype)
        if beta.shape != phi.shape[1:]:
            raise fail(who, f"weights has shape {beta.shape} for {phi.shape[1]} basis functions", "give one each")
        most = 0.5 * float(np.log(np.finfo(x.dtype).max))  # further out only rounding would follow
        return np.asarray(self.level, x.dtype) * np.exp(np.clip(phi @ beta, -most, most)), phi

    # what Exact asks for ---------------------------------------------------------------------------------------------
    def _each(self, data: Data) -> np.ndarray:
        learned = self._shape(np.asarray(data.X.x))[0]
        return learned if data.noise_variance is None else learned + data.noise_variance

    def sites(self, data: Data) -> Noise:
        """The noise variance of every row."""
        check_positive("likelihoods.BasisNoise", "level", self.level)
        v = self._each(data)
        return Noise(v if data.weight is None else v / data.weight)

    def pull_sites(self, data: Data, bar: np.ndarray) -> BasisNoise:
        """The gradient over level and weights, from one over the sites."""
        learned, phi = self._shape(np.asarray(data.X.x))
        each = (bar if data.weight is None else bar / data.weight) + self._repeat_slopes(data)
        each = each * learned
        return self.replace(level=float(each.sum()) / float(self.level), weights=phi.T @ each)

    def _repeat_slopes(self, data: Data) -> Any:
        """The slope of :meth:`repeats` over the noise variance of every row."""
        if data.weight is None and data.scatter is None:
            return 0.0
        v, outputs = self._each(data).astype(np.float64), data.y.shape[1] if data.y.ndim == 2 else 1
        more = 0.0 if data.weight is None else data.weight.astype(np.float64) - 1
        scatter = 0.0 if data.scatter is None else data.scatter.astype(np.float64)
        return -0.5 * (outputs * more / v - scatter / v**2)

    # a new observation -----------------------------------------------------------------------------------------------
    def at(self, X: Any) -> RowNoise:
        """Gaussian noise for given rows: the likelihood of new observations there."""
        return RowNoise(fixed(self.noise_at(X)))

    def predict(self, posterior: Any, X: Any, *, covariance: bool = False) -> Any:
        """What is believed of f and of a new y at new inputs, as ``posterior.predict`` gives it for other likelihoods."""
        X = as_inputs(X, "likelihoods.BasisNoise")
        plain = changed(posterior, model=posterior.model.replace(likelihood=Gaussian(fixed(0.0))))
        found = plain.predict(X, covariance=covariance)
        f, noise = found.f, self.noise_at(X.with_x(X.x.astype(posterior.data.dtype)))
        wider = f.variance + (noise if f.variance.ndim == 1 else noise[:, None])
        joint = None if f.covariance is None else f.covariance + np.diag(noise)
        return changed(found, y=changed(f, variance=wider, covariance=joint))


class RowNoise(Gaussian):
    """Gaussian noise with a variance of its own for every row, fixed: rows of f and variances belong together."""

    def moments(self, f: np.ndarray, size: Any = None) -> Moments:
        return Moments(f, np.broadcast_to(np.asarray(self.variance), f.shape))

    def cdf(self, y: np.ndarray, f: np.ndarray, size: Any = None) -> np.ndarray:
        return special.ndtr((y - f) / np.sqrt(np.asarray(self.variance)))

    def predictive_cdf(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, size: Any = None) -> np.ndarray:
        return special.ndtr((y - mean) / np.sqrt(variance + np.asarray(self.variance)))

    def sample(self, f: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Draws for latent values (…, n)."""
        return f + np.sqrt(np.asarray(self.variance)) * rng.standard_normal(np.shape(f))
