r"""How large errors are, place by place: a second process for the logarithm of the squared errors.

A model with one noise level states the same scatter everywhere. Where its errors, each row predicted from the others, are
ten times smaller in one place than in another, this tells: with standardised squared errors :math:`q_i` of :math:`w_i`
observations, :math:`\log q_i` is a noisy view of a function h,

.. math:: \log q_i = h(x_i) + \psi(w_i/2) - \log(w_i/2) + \varepsilon_i, \qquad \mathrm{var}\,\varepsilon_i = \psi'(w_i/2),

the moments of the logarithm of a :math:`\chi^2_w/w` (Goldberg, Williams & Bishop 1998 and Kersting et al. 2007 put a process
on the noise in this way). A variance stated at x is multiplied by :math:`c\,e^{p\,h(x)}`, and since h(x) is not known exactly
the observation is a mixture of normals, with longer tails (:class:`covary.prediction.Mixed`). Level c and power p are those
that describe rows left out best; the process is kept only where it does so clearly better than one factor for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special
from scipy.optimize import minimize_scalar

from covary.data import Data, Inputs, as_inputs
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

ROWS = 3000  # from which the process is learned; all rows are then conditioned on
NEIGHBOURS = 30
FEWEST = 500  # rows below which errors say too little about where they are large
FLOOR = 1e-8  # the least squared standardised error that is told from none
JUDGED = 20_000  # rows left out by which level and power are chosen
POWERS = (0.25, 0.5, 0.75, 1.0)
LEVELS, COARSE = (-5.0, 5.0), {"xatol": 0.02}  # of the logarithm of the level
CLEARLY = 0.02  # nats a row by which rows left out must be described better


@dataclass(frozen=True)
class LocalScale:
    """Factors by which stated variances are multiplied, place by place.

    ``posterior`` is that of h over inputs divided by ``unit``, ``level`` and ``power`` turn it into the logarithm of the
    factor, ``gain`` is what rows left out gain by it, in nats a row.
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
        return self._of(y.mean, y.variance + float(self.posterior.model.likelihood.variance))

    def at(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The mean factor at every row, and the variance of its logarithm."""
        inputs = as_inputs(X, "LocalScale")
        y = self.posterior.predict(inputs.with_x(inputs.x / self.unit)).y
        return self._of(y.mean, y.variance)

    def left_out(self, X: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """The same at the rows it was learned from, each from the others; at other rows as anywhere."""
        own = self.posterior.data.X.x
        same = X.x.shape == own.shape and np.array_equal(X.x / self.unit, own)
        return self._left_out if same else self.at(X)

    def factor(self, X: Any) -> np.ndarray:
        """The mean factor at every row."""
        return self.at(X)[0]


def local_scale(
    posterior: Posterior, *, always: bool = False, key: int = 0, max_time: float | None = None
) -> LocalScale | None:
    """The local scale of a posterior's errors, or None where rows left out are not described clearly better by one.

    Parameters
    ----------
    posterior
        A posterior under Gaussian noise, of one output.
    always
        Whether to keep what is found even where rows are few or gain little.
    key
        Seed of the rows from which the process is learned.
    max_time
        Seconds for learning the process; conditioning on all rows follows.

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
    moments = left.mean[judged], left.variance[judged] + float(process.model.likelihood.variance)
    plain = value(max(float(np.average(q, weights=w)), FLOOR), 0.0)  # one factor for all, the best
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
    """The posterior of h: exact for few rows, else each row given its neighbours."""
    gram: AbstractGram = Dense() if seen.rows <= ROWS else Vecchia(NEIGHBOURS)
    return condition(model, seen, gram=gram)


def errors(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """How many observations every row stands for, and their mean squared standardised error with the row left out."""
    data, left = posterior.data, posterior.leave_one_out()
    noise = posterior.model.likelihood._each(data)
    w = np.ones(data.rows) if data.weight is None else data.weight
    scatter = np.zeros(data.rows) if data.scatter is None else data.scatter
    stated = left.variance + noise
    return w, scatter / (w * noise) + (data.y - left.mean) ** 2 / stated


def scales(kernel: AbstractKernel, X: Inputs) -> np.ndarray:
    """Length-scales to begin with: the learned ones where there is one a column, else from the columns' spread."""
    for path, p in parameters(kernel).items():
        if path.split(".")[-1] == "lengthscale" and np.shape(p.value) == (X.columns,):
            return np.asarray(p.value, np.float64)
    spread = X.x.std(0)
    return np.where(spread > 0, spread, 1.0) * np.sqrt(X.columns)
