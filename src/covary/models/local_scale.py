r"""How large errors are, place by place: a second process for the logarithm of the squared errors.

A model with one noise level states the same scatter everywhere. Where its errors, each row predicted from the others, are
ten times smaller in one place than in another, this tells: with standardised squared errors :math:`q_i` of :math:`w_i`
observations, :math:`\log q_i` is a noisy view of a function h,

.. math:: \log q_i = h(x_i) + \psi(w_i/2) - \log(w_i/2) + \varepsilon_i, \qquad \mathrm{var}\,\varepsilon_i = \psi'(w_i/2),

the moments of the logarithm of a :math:`\chi^2_w/w` (Goldberg, Williams & Bishop 1998 and Kersting et al. 2007 put a process
on the noise in this way). A variance stated at x is multiplied by :math:`E\,e^{h(x)}`, raised to a power and scaled so that
rows left out are described best; the power nought leaves one number, and the process is kept only where it is clearly better.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

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
from covary.selection.learn import learn

ROWS = 3000  # from which the process is learned; all rows are then conditioned on
NEIGHBOURS = 30
FEWEST = 500  # rows below which errors say too little about where they are large
FLOOR = 1e-8  # the least squared standardised error that is told from none
POWERS = np.linspace(0.0, 1.0, 9)
CLEARLY = 0.02  # nats a row by which rows left out must be described better


@dataclass(frozen=True)
class LocalScale:
    """Factors by which stated variances are multiplied, place by place.

    ``posterior`` is that of h over inputs divided by ``unit``, ``level`` and ``power`` turn its mean factor into the one
    used, ``gain`` is what rows left out gain by it, in nats a row.
    """

    posterior: Posterior
    unit: np.ndarray
    level: float
    power: float
    gain: float

    @cached_property
    def _left_out(self) -> np.ndarray:
        left = self.posterior.leave_one_out()
        spread = left.variance + float(self.posterior.model.likelihood.variance)
        return self.level * np.exp(self.power * (left.mean + 0.5 * spread))

    def left_out(self, X: Inputs) -> np.ndarray:
        """The factor at the rows it was learned from, each from the others; at other rows as anywhere."""
        own = self.posterior.data.X.x
        same = X.x.shape == own.shape and np.array_equal(X.x / self.unit, own)
        return self._left_out if same else self.factor(X)

    def factor(self, X: Any) -> np.ndarray:
        """The factor at every row."""
        inputs = as_inputs(X, "LocalScale")
        y = self.posterior.predict(inputs.with_x(inputs.x / self.unit)).y
        return self.level * np.exp(self.power * (y.mean + 0.5 * y.variance))


def local_scale(posterior: Posterior, *, always: bool = False, key: int = 0) -> LocalScale | None:
    """The local scale of a posterior's errors, or None where rows left out are not described clearly better by one.

    Parameters
    ----------
    posterior
        A posterior under Gaussian noise, of one output.
    always
        Whether to keep what is found even where rows are few or gain little.
    key
        Seed of the rows from which the process is learned.

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
    rows = np.sort(np.random.default_rng(key).permutation(data.rows)[:ROWS])
    some = seen.take(rows)
    centre = float(np.average(some.y, weights=1 / (some.noise_variance + some.y.var())))
    start = Model(GP(float(some.y.var()) * Matern32(), mean=Constant(centre)), likelihood=Gaussian(1.0))
    fitted = learn(start, some, key=key).model
    process = conditioned(fitted, seen)
    log_factor = np.log(LocalScale(process, unit, 1.0, 1.0, 0.0).left_out(data.X))
    plain = _density(q, w, np.zeros_like(q))
    tried = [_best_level(q, w, power * log_factor) for power in POWERS]
    best = int(np.argmax([value for _, value in tried]))
    level, value = tried[best]
    gain = (value - max(plain, tried[0][1])) / w.sum()
    return LocalScale(process, unit, level, float(POWERS[best]), gain) if always or gain > CLEARLY else None


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


def _density(q: np.ndarray, w: np.ndarray, log_factor: np.ndarray) -> float:
    """The log density of rows left out, up to what does not depend on the factors."""
    return float(-0.5 * (w * (log_factor + q * np.exp(-log_factor))).sum())


def _best_level(q: np.ndarray, w: np.ndarray, log_factor: np.ndarray) -> tuple[float, float]:
    """The level that describes rows left out best, and how well."""
    level = float(np.average(q * np.exp(-log_factor), weights=w))
    return level, _density(q, w, log_factor + np.log(level))
