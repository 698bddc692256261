r"""Scores of predictions: errors, densities, calibration.

Functions take plain arrays: targets y, predicted means and standard deviations of a *new observation* (including noise), each
(n,), or (n, p) for p outputs (r2, smse and msll then scale each output separately). Scores are averages over all entries. Input
with an undefined score raises an error; NaN is returned only if documented. "DGP thesis" is the chapter on distributed GPs.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf, ndtr, ndtri

from covary._checks import as_numbers, check_finite, fail
from covary._errors import Place
from covary._types import ArrayLike
from covary._words import counted

_LEVELS = np.arange(1, 20) / 20
_FAR = 1e150  # standardised errors are clipped here, so that their squares are finite


def r2(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Compute R², :math:`1 - \sum(y_i-\hat y_i)^2 / \sum(y_i-\bar y)^2` (DGP thesis, eq. 1.52).

    The fraction of variance explained: 1 is perfect, 0 is the score of predicting the mean of y; there is no lower bound.

    >>> r2([1.0, 3.0], [1.0, 3.0]), r2([1.0, 3.0], [2.0, 2.0])
    (1.0, 0.0)
    """
    return 1.0 - _smse("metrics.r2", y, mean)


def mse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Compute the mean squared error, :math:`\frac1n\sum(y_i-\hat y_i)^2` (R&W, section 2.5).

    >>> mse([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    error = _inputs("metrics.mse", y, mean)[1]
    _refuse("metrics.mse", np.abs(error) >= _FAR, f"the error is {_FAR:g} or more", "give y in larger units, or use rmse")
    return float(np.mean(error**2))


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Compute the square root of :func:`mse`, in the units of y, without overflow or underflow of the squares.

    >>> rmse([0.0, 0.0], [3e-200, 3e-200])
    3e-200
    """
    return _mean(_inputs("metrics.rmse", y, mean)[1], power=2)


def mae(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Compute the mean absolute error, :math:`\frac1n\sum|y_i-\hat y_i|`, which the median minimises (R&W, section 2.4).

    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    return _mean(np.abs(_inputs("metrics.mae", y, mean)[1]))


def smse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Compute the standardised mean squared error: :func:`mse` over the variance of the test targets y (R&W, section 2.5).

    About 1 for the trivial prediction, the mean of the training targets; equal to 1 − R².

    >>> smse([1.0, 3.0], [2.0, 2.0])
    1.0
    """
    return _smse("metrics.smse", y, mean)


def nlpd(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    r"""Compute the mean negative log predictive density, :math:`\frac12\log(2\pi\sigma^2)+\frac{(y-\mu)^2}{2\sigma^2}`.

    In nats; lower is better (R&W, eq. 2.34). ``std`` includes the noise: σ² = V[f] + σ_n².

    >>> round(nlpd([0.0], [0.0], [1.0]), 6)
    0.918939
    """
    return float(np.mean(_losses("metrics.nlpd", y, mean, std)))


def msll(y: ArrayLike, mean: ArrayLike, std: ArrayLike, y_train: ArrayLike) -> float:
    r"""Compute the mean standardised log loss: :func:`nlpd` minus that of a trivial Gaussian (R&W, section 2.5).

    The trivial Gaussian has the mean and variance of the *training* targets. Negative values are better than it.

    >>> msll([0.0, 2.0], [1.0, 1.0], [1.0, 1.0], y_train=[0.0, 2.0])
    0.0
    """
    who = "metrics.msll"
    losses, train = _losses(who, y, mean, std), _array(who, "y_train", y_train)
    if train.shape[1:] != losses.shape[1:]:
        what = f"y_train has shape {train.shape} but y has {losses.shape}"
        raise fail(who, what, "give the same number of outputs in both", argument="y_train")
    location, scale = (np.broadcast_to(moment, losses.shape) for moment in _moments(who, "y_train", train))
    return float(np.mean(losses - _losses(who, y, location, scale)))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    r"""Compute the continuous ranked probability score of Gaussian predictions, in the units of y; lower is better.

    :math:`\int(F(t)-[t\ge y])^2dt = \sigma\{z(2\Phi(z)-1)+2\varphi(z)-1/\sqrt\pi\}`, z = (y − μ)/σ. It tends to the
    absolute error as σ → 0, and is more robust to outliers than :func:`nlpd` (Gneiting & Raftery 2007, section 4.2).

    >>> round(crps([0.0], [0.0], [1.0]), 6)
    0.233695
    """
    _, error, std, z = _inputs("metrics.crps", y, mean, std)
    each = error * erf(z / np.sqrt(2)) + std * ((np.sqrt(2) * np.exp(-0.5 * z**2) - 1) / np.sqrt(np.pi))
    return _mean(each)


def pit(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> np.ndarray:
    r"""Compute the probability integral transforms :math:`\Phi((y-\mu)/\sigma)`, with the shape of y (Dawid 1984).

    Uniform on (0, 1) if the predictions are calibrated; concentrated at both ends if the error bars are too narrow.

    >>> pit([0.0, 1.959964], [0.0, 0.0], [1.0, 1.0]).round(3)
    array([0.5  , 0.975])
    """
    return ndtr(_inputs("metrics.pit", y, mean, std)[3])


def coverage(y: ArrayLike, mean: ArrayLike, std: ArrayLike, level: float = 0.95) -> float:
    r"""Compute the share of targets in their central interval, :math:`|y-\mu|\le\Phi^{-1}(\frac{1+\mathrm{level}}2)\,\sigma`.

    Near ``level`` if the predictions are calibrated; more is not better.

    >>> coverage([0.0, 3.0], [0.0, 0.0], [1.0, 1.0])
    0.5
    """
    _level("metrics.coverage", level)
    return float(np.mean(np.abs(_inputs("metrics.coverage", y, mean, std)[3]) <= -ndtri(0.5 * (1 - level))))


def calibration_error(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    r"""Compute the mean over levels of :math:`|\mathrm{coverage}(\mathrm{level})-\mathrm{level}|` of central intervals.

    The levels are 0.05, 0.10, ..., 0.95. 0 is perfect; by chance n independent, calibrated targets score about
    0.32/√n (after Kuleshov, Fenner & Ermon 2018, with absolute differences).

    >>> round(calibration_error([0.0, 0.0], [0.0, 0.0], [1.0, 1.0]), 6)  # all covered at every level
    0.5
    """
    needed = np.sort(np.abs(_inputs("metrics.calibration_error", y, mean, std)[3]), axis=None)  # half-widths that cover y
    observed = np.searchsorted(needed, -ndtri(0.5 * (1 - _LEVELS)), side="right") / needed.size
    return float(np.mean(np.abs(observed - _LEVELS)))


def sharpness(std: ArrayLike) -> float:
    r"""Compute the root mean predictive variance, :math:`(\frac1n\sum\sigma_i^2)^{1/2}`.

    It measures the width of predictions, whether correct or not: among calibrated models, smaller is better. Close to
    :func:`rmse` if the variances are correct (Gneiting et al. 2007).

    >>> sharpness([3.0, 3.0])
    3.0
    """
    return _mean(_positive("metrics.sharpness", _array("metrics.sharpness", "std", std)), power=2)


# parts ----------------------------------------------------------------------------------------------------------


def _array(who: str, name: str, value: ArrayLike, *, like: np.ndarray | None = None, finite: bool = True) -> np.ndarray:
    """Return a float64 array (n,) or (n, p), after checking that it is finite (if ``finite``) and has the shape of ``like``."""
    array = as_numbers(who, name, value, "encode it as numbers first").astype(np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        what = f"{name} has shape {array.shape}"
        raise fail(who, what, "give one number per row, or a table (n, p) for p outputs", argument=name)
    if like is not None and array.shape != like.shape:
        what = f"{name} has shape {array.shape} but y has {like.shape}"
        raise fail(who, what, "give arrays of the same shape", argument=name)
    if finite:
        check_finite(who, name, array)
    return array


def _refuse(who: str, bad: np.ndarray, what: str, do: str) -> None:
    if bad.any():
        where = Place(*np.argwhere(bad)[0][:2])
        raise fail(who, f"{what} " + where + f" ({counted(int(bad.sum()), 'such entry', 'such entries')} in all)", do)


def _positive(who: str, std: np.ndarray) -> np.ndarray:
    _refuse(who, std <= 0, "std is not positive", "give positive standard deviations")
    return std


def _representable(who: str, array: np.ndarray) -> np.ndarray:
    _refuse(who, np.isinf(array), "y and its prediction are too far apart for floats", "fix or drop such rows")
    return array


def _level(who: str, level: float) -> None:
    if not 0 < level < 1:
        raise fail(who, f"level is {level}", "give a number between 0 and 1, such as 0.95", argument="level")


def _inputs(
    who: str, y: ArrayLike, mean: ArrayLike, std: ArrayLike = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return targets, errors, standard deviations (one number is broadcast) and errors/std clipped at ±1e150, after checks."""
    y = _array(who, "y", y)
    mean = _array(who, "mean", mean, like=y)
    std = _positive(who, _array(who, "std", std if np.ndim(std) else np.full(y.shape, std), like=y))
    with np.errstate(over="ignore"):
        error = _representable(who, y - mean)
        return y, error, std, np.clip(error / std, -_FAR, _FAR)


def _square(who: str, z: np.ndarray) -> np.ndarray:
    _refuse(who, np.abs(z) == _FAR, f"y is {_FAR:g} standard deviations or more from its prediction", "fix or drop such rows")
    return z**2


def _losses(who: str, y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> np.ndarray:
    """Return the negative log density of each entry (R&W, eq. 2.34)."""
    *_, std, z = _inputs(who, y, mean, std)
    return 0.5 * np.log(2 * np.pi) + np.log(std) + 0.5 * _square(who, z)


def _smse(who: str, y: ArrayLike, mean: ArrayLike) -> float:
    y = _array(who, "y", y)
    return float(np.mean(_square(who, _inputs(who, y, mean, np.broadcast_to(_moments(who, "y", y)[1], y.shape))[3])))


def _scaled(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the array times 2^−exponent, and the exponent per column: exact, and squares neither overflow nor underflow."""
    exponent = np.frexp(np.abs(array).max(0))[1]
    return np.ldexp(array, -exponent), exponent


def _mean(array: np.ndarray, power: int = 1) -> float:
    """Return the mean, or with power 2 the root mean square."""
    scaled, exponent = _scaled(array.ravel())
    return float(np.ldexp(np.mean(scaled**power) ** (1 / power), exponent))


def _moments(who: str, name: str, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and standard deviation (dividing by n) of each output; raise an error if one is constant."""
    scaled, exponent = _scaled(array)
    mean, std = np.ldexp(scaled.mean(0), exponent), np.ldexp(scaled.std(0), exponent)
    if np.any((array.max(0) == array.min(0)) | (std == 0)):
        raise fail(who, f"{name} is constant", "give targets that vary: there is no spread to compare with", argument=name)
    return mean, std
