r"""An input-dependent error scale: a second Gaussian process for the logarithm of the squared errors.

A model with a single noise level predicts the same scatter everywhere, but its leave-one-out errors may be ten times smaller
in some regions than in others. With standardised squared errors :math:`q_i` of :math:`w_i` observations, :math:`\log q_i` is
a noisy observation of a function h,

.. math:: \log q_i = h(x_i) + \psi(w_i/2) - \log(w_i/2) + \varepsilon_i, \qquad \mathrm{var}\,\varepsilon_i = \psi'(w_i/2),

with the moments of the logarithm of a :math:`\chi^2_w/w` (Goldberg, Williams & Bishop 1998 and Kersting et al. 2007 model the
noise in this way). The predictive variance at x is multiplied by :math:`c\,e^{p\,h(x)}`; since h(x) is uncertain, the
observation is a mixture of normals with heavier tails (:class:`covary.prediction.Mixed`). Level c and power p maximise the
leave-one-out likelihood; the process is kept only if it is clearly better than one factor for all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special
from scipy.optimize import minimize_scalar

from covary.data import Data, Inputs, Rows, as_inputs
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.vecchia import Vecchia
from covary.inference.condition import condition
from covary.kernels.base import AbstractKernel
from covary.kernels.stationary import Matern32
from covary.likelihoods.gaussian import Gaussian
from covary.means.functions import Constant
from covary.model import GP, Model
from covary.parameters import parameters
from covary.posterior import Posterior
from covary.prediction import Mixed
from covary.selection.learn import learn

ROWS = 3000  # rows from which the process is learned; it is then conditioned on all rows
NEIGHBOURS = 30
FEWEST = 500  # minimum number of rows; fewer errors contain too little information
FLOOR = 1e-8  # the smallest squared standardised error that is distinguished from zero
JUDGED = 20_000  # rows whose leave-one-out predictions determine level and power
POWERS = (0.25, 0.5, 0.75, 1.0)
LEVELS, COARSE = (-5.0, 5.0), {"xatol": 0.02}  # search range and tolerance of the logarithm of the level
CLEARLY = 0.02  # minimum gain of the leave-one-out log likelihood, in nats per row


@dataclass(frozen=True)
class LocalScale:
    """Input-dependent factors that multiply predictive variances.

    ``posterior`` is the posterior of h over inputs divided by ``unit``; ``level`` and ``power`` convert h to the factor;
    ``gain`` is the increase of the leave-one-out log likelihood, in nats per row.
    """

    posterior: Posterior
    unit: np.ndarray
    level: float
    power: float
    gain: float

    def _of(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        unsure = self.power**2 * variance
        return self.level * np.exp(self.power * mean + unsure / 2), unsure

    @cached_property
    def _left_out(self) -> tuple[np.ndarray, np.ndarray]:
        y = self.posterior.leave_one_out()
        return self._of(y.mean, y.variance + self.posterior.model.noise)

    def at(self, X: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean factor at every row, and the variance of its logarithm."""
        inputs = as_inputs(X, "LocalScale")
        y = self.posterior.predict(inputs.with_x(inputs.x / self.unit)).y
        return self._of(y.mean, y.variance)

    def left_out(self, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Return the same at the training rows, each predicted from the others; at other rows the same as :meth:`at`."""
        own = self.posterior.data.X.x
        same = X.x.shape == own.shape and np.array_equal(X.x / self.unit, own)
        return self._left_out if same else self.at(X)

    def factor(self, X: Rows) -> np.ndarray:
        """Return the mean factor at every row."""
        return self.at(X)[0]


def local_scale(
    posterior: Posterior, *, always: bool = False, key: int = 0, max_time: float | None = None
) -> LocalScale | None:
    """Estimate the local scale of a posterior's errors; return None if it does not clearly improve leave-one-out predictions.

    Parameters
    ----------
    posterior
        A posterior under Gaussian noise with one output.
    always
        Whether to return a scale even for few rows or a small gain.
    key
        The seed for choosing the rows from which the process is learned.
    max_time
        Time limit in seconds for learning the process; it does not include conditioning on all rows afterwards.

    Examples
    --------
    >>> from covary import GP, Data, Model
    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(0.0, 10.0, 600)[:, None]
    >>> y = np.sin(x[:, 0]) + np.where(x[:, 0] < 5, 0.01, 1.0) * rng.normal(size=600)
    >>> post = condition(Model(GP("SquaredExponential()"), likelihood=Gaussian(0.5)), Data(x, y))
    >>> scale = local_scale(post)
    >>> bool(scale.factor([[8.0]])[0] > 1000 * scale.factor([[2.0]])[0])
    True
    """
    data = posterior.data
    if data.rows < FEWEST and not always:
        return None
    w, q = errors(posterior)
    t = np.log(np.maximum(q, FLOOR)) - (special.psi(w / 2) - np.log(w / 2))
    unit = scales(posterior.model.kernel, data.X)
    seen = Data(data.X.with_x(data.X.x / unit), t, noise_variance=special.polygamma(1, w / 2))
    order = np.random.default_rng(key).permutation(data.rows)
    some = seen.take(np.sort(order[:ROWS]))
    centre = float(np.average(some.y, weights=1 / (some.noise_variance + some.y.var())))
    start = Model(GP(float(some.y.var()) * Matern32(), mean=Constant(centre)), likelihood=Gaussian(1.0))
    process = conditioned(learn(start, some, key=key, max_time=max_time).model, seen)
    judged = np.sort(order[:JUDGED])
    w, q = w[judged], q[judged]

    def value(level: float, power: float) -> float:
        factor, unsure = LocalScale(process, unit, level, power, 0.0)._of(*moments)
        stated = Mixed(np.zeros_like(q), factor, None, unsure)
        return float(np.average(stated.log_prob(np.sqrt(q)), weights=w))

    left = process.leave_one_out()
    moments = left.mean[judged], left.variance[judged] + process.model.noise
    plain = value(max(float(np.average(q, weights=w)), FLOOR), 0.0)  # the best single factor for all rows
    found = []
    for power in POWERS:
        best: Any = minimize_scalar(
            lambda log, p=power: -value(np.exp(log), p), bounds=LEVELS, method="bounded", options=COARSE
        )
        found.append((-float(best.fun), float(np.exp(best.x)), power))
    top, level, power = max(found)
    gain = top - plain
    return LocalScale(process, unit, level, power, gain) if always or gain > CLEARLY else None


def conditioned(model: Model, seen: Data) -> Posterior:
    """Return the posterior of h: exact for few rows, otherwise by Vecchia's approximation."""
    gram: AbstractGram = Dense() if seen.rows <= ROWS else Vecchia(NEIGHBOURS)
    return condition(model, seen, gram=gram)


def errors(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Return every row's number of observations, and their mean squared standardised error with the row left out."""
    data, left = posterior.data, posterior.leave_one_out()
    noise = posterior.model.gaussian.variances(data)
    w = np.ones(data.rows) if data.weight is None else data.weight
    scatter = np.zeros(data.rows) if data.scatter is None else data.scatter
    stated = left.variance + noise
    return w, scatter / (w * noise) + (data.y - left.mean) ** 2 / stated


def scales(kernel: AbstractKernel, X: Inputs) -> np.ndarray:
    """Return initial length-scales: the learned ones if there is one per column, else from the columns' standard deviations."""
    for path, p in parameters(kernel).items():
        if path.split(".")[-1] == "lengthscale" and np.shape(p.value) == (X.columns,):
            return np.asarray(p.value, np.float64)
    spread = X.x.std(0)
    return np.where(spread > 0, spread, 1.0) * np.sqrt(X.columns)
