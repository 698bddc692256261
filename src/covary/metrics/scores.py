r"""Scores of predictions: errors, densities, calibration.

Functions take plain arrays: targets y, predicted means and standard deviations of a *new observation* (noise included), each
(n,), or (n, p) for p outputs (the scales of r2, smse and msll are each output's own). Scores average over all entries. What
has no score is refused, and NaN is returned only where a docstring says so. "DGP thesis" is the chapter on distributed GPs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erf, ndtr, ndtri

from covary._checks import as_numbers, check_finite, fail
from covary._words import counted

_LEVELS = np.arange(1, 20) / 20
_FAR = 1e150  # standardised errors are cut here: their squares are floats


def r2(y: Any, mean: Any) -> float:
    r"""The share of variance explained, :math:`1 - \sum(y_i-\hat y_i)^2 / \sum(y_i-\bar y)^2` (DGP thesis, eq. 1.52).

    1 is perfect, 0 is what predicting the mean of y scores; it has no lower end.

    >>> r2([1.0, 3.0], [1.0, 3.0]), r2([1.0, 3.0], [2.0, 2.0])
    (1.0, 0.0)
    """
    return 1.0 - _smse("metrics.r2", y, mean)


def mse(y: Any, mean: Any) -> float:
    r"""The mean squared error, :math:`\frac1n\sum(y_i-\hat y_i)^2` (R&W, section 2.5).

    >>> mse([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    error = _inputs("metrics.mse", y, mean)[1]
    _refuse("metrics.mse", np.abs(error) >= _FAR, f"the error is {_FAR:g} or more", "give y in larger units, or use rmse")
    return float(np.mean(error**2))


def rmse(y: Any, mean: Any) -> float:
    r"""The root of :func:`mse`, in the units of y; right even where the squares would overflow or vanish.

    >>> rmse([0.0, 0.0], [3e-200, 3e-200])
    3e-200
    """
    return _mean(_inputs("metrics.rmse", y, mean)[1], power=2)


def mae(y: Any, mean: Any) -> float:
    r"""The mean absolute error, :math:`\frac1n\sum|y_i-\hat y_i|`, the loss a median minimises (R&W, section 2.4).

    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    return _mean(np.abs(_inputs("metrics.mae", y, mean)[1]))


def smse(y: Any, mean: Any) -> float:
    r"""The standardised mean squared error: :func:`mse` over the variance of these, the test, targets (R&W, section 2.5).

    About 1 for the trivial predictor, the mean of the training targets; equals 1 − R².

    >>> smse([1.0, 3.0], [2.0, 2.0])
    1.0
    """
    return _smse("metrics.smse", y, mean)


def nlpd(y: Any, mean: Any, std: Any) -> float:
    r"""The negative log predictive density, the mean of :math:`\frac12\log(2\pi\sigma^2)+\frac{(y-\mu)^2}{2\sigma^2}`, in nats.

    Lower is better (R&W, eq. 2.34). ``std`` includes the noise: σ² = V[f] + σ_n².

    >>> round(nlpd([0.0], [0.0], [1.0]), 6)
    0.918939
    """
    return float(np.mean(_losses("metrics.nlpd", y, mean, std)))


def msll(y: Any, mean: Any, std: Any, y_train: Any) -> float:
    r"""The mean standardised log loss: :func:`nlpd` less that of the trivial Gaussian (R&W, section 2.5).

    The trivial predictor has the mean and variance of the *training* targets: 0 is no better than it, negative is better.

    >>> msll([0.0, 2.0], [1.0, 1.0], [1.0, 1.0], y_train=[0.0, 2.0])
    0.0
    """
    who = "metrics.msll"
    losses, train = _losses(who, y, mean, std), _array(who, "y_train", y_train)
    if train.shape[1:] != losses.shape[1:]:
        raise fail(who, f"y_train has shape {train.shape} but y has {losses.shape}", "give as many outputs in both")
    location, scale = (np.broadcast_to(moment, losses.shape) for moment in _moments(who, "y_train", train))
    return float(np.mean(losses - _losses(who, y, location, scale)))


def crps(y: Any, mean: Any, std: Any) -> float:
    r"""The continuous ranked probability score of Gaussian predictions, in the units of y; lower is better.

    :math:`\int(F(t)-[t\ge y])^2dt = \sigma\{z(2\Phi(z)-1)+2\varphi(z)-1/\sqrt\pi\}`, z = (y − μ)/σ. It tends to the
    absolute error as σ → 0, and forgives outliers that :func:`nlpd` does not (Gneiting & Raftery 2007, section 4.2).

    >>> round(crps([0.0], [0.0], [1.0]), 6)
    0.233695
    """
    _, error, std, z = _inputs("metrics.crps", y, mean, std)
    each = error * erf(z / np.sqrt(2)) + std * ((np.sqrt(2) * np.exp(-0.5 * z**2) - 1) / np.sqrt(np.pi))
    return _mean(each)


def pit(y: Any, mean: Any, std: Any) -> np.ndarray:
    r"""The probability integral transforms :math:`\Phi((y-\mu)/\sigma)`, of the shape of y (Dawid 1984).

    Uniform on (0, 1) if the predictions are calibrated; heaped at both ends if the error bars are too narrow.

    >>> pit([0.0, 1.959964], [0.0, 0.0], [1.0, 1.0]).round(3)
    array([0.5  , 0.975])
    """
    return ndtr(_inputs("metrics.pit", y, mean, std)[3])


def coverage(y: Any, mean: Any, std: Any, level: float = 0.95) -> float:
    r"""The share of targets inside their central interval, :math:`|y-\mu|\le\Phi^{-1}(\frac{1+\mathrm{level}}2)\,\sigma`.

    Near ``level`` if the predictions are calibrated; more is not better.

    >>> coverage([0.0, 3.0], [0.0, 0.0], [1.0, 1.0])
    0.5
    """
    _level("metrics.coverage", level)
    return float(np.mean(np.abs(_inputs("metrics.coverage", y, mean, std)[3]) <= -ndtri(0.5 * (1 - level))))


def calibration_error(y: Any, mean: Any, std: Any) -> float:
    r"""The mean over levels of :math:`|\mathrm{coverage}(\mathrm{level})-\mathrm{level}|`, central intervals.

    The levels are 0.05, 0.10, ..., 0.95. 0 is perfect; by chance n independent, calibrated targets score about
    0.32/√n (after Kuleshov, Fenner & Ermon 2018, with absolute differences).

    >>> round(calibration_error([0.0, 0.0], [0.0, 0.0], [1.0, 1.0]), 6)  # all covered at every level
    0.5
    """
    needed = np.sort(np.abs(_inputs("metrics.calibration_error", y, mean, std)[3]), axis=None)  # half-widths that just cover
    observed = np.searchsorted(needed, -ndtri(0.5 * (1 - _LEVELS)), side="right") / needed.size
    return float(np.mean(np.abs(observed - _LEVELS)))


def sharpness(std: Any) -> float:
    r"""The root mean predictive variance, :math:`(\frac1n\sum\sigma_i^2)^{1/2}`: how narrow predictions are, right or wrong.

    Of calibrated models prefer the smaller; about :func:`rmse` if the variances are right (Gneiting et al. 2007).

    >>> sharpness([3.0, 3.0])
    3.0
    """
    return _mean(_positive("metrics.sharpness", _array("metrics.sharpness", "std", std)), power=2)


# parts ----------------------------------------------------------------------------------------------------------


def _array(who: str, name: str, value: Any, *, like: np.ndarray | None = None, finite: bool = True) -> np.ndarray:
    """A float64 array of shape (n,) or (n, p), of the shape of y if that is given, finite unless told."""
    array = as_numbers(who, name, value, "encode it as numbers first").astype(np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        raise fail(who, f"{name} has shape {array.shape}", "give one number per row, or a table (n, p) for p outputs")
    if like is not None and array.shape != like.shape:
        raise fail(who, f"{name} has shape {array.shape} but y has {like.shape}", "give arrays of one shape")
    if finite:
        check_finite(who, name, array)
    return array


def _refuse(who: str, bad: np.ndarray, what: str, do: str) -> None:
    if bad.any():
        where = ", column ".join(str(i) for i in np.argwhere(bad)[0])
        raise fail(who, f"{what} at row {where} ({counted(int(bad.sum()), 'such entry', 'such entries')} in all)", do)


def _positive(who: str, std: np.ndarray) -> np.ndarray:
    _refuse(who, std <= 0, "std is not positive", "give positive standard deviations")
    return std


def _representable(who: str, array: np.ndarray) -> np.ndarray:
    _refuse(who, np.isinf(array), "y and its prediction are too far apart for floats", "mend or drop such rows")
    return array


def _level(who: str, level: Any) -> None:
    if not 0 < level < 1:
        raise fail(who, f"level is {level}", "give a number between 0 and 1, such as 0.95")


def _inputs(who: str, y: Any, mean: Any, std: Any = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Targets, errors, standard deviations (a single one serves all) and errors over std, cut at ±1e150; checked."""
    y = _array(who, "y", y)
    mean = _array(who, "mean", mean, like=y)
    std = _positive(who, _array(who, "std", std if np.ndim(std) else np.full(y.shape, std), like=y))
    with np.errstate(over="ignore"):
        error = _representable(who, y - mean)
        return y, error, std, np.clip(error / std, -_FAR, _FAR)


def _square(who: str, z: np.ndarray) -> np.ndarray:
    _refuse(who, np.abs(z) == _FAR, f"y is {_FAR:g} standard deviations or more from its prediction", "mend or drop such rows")
    return z**2


def _losses(who: str, y: Any, mean: Any, std: Any) -> np.ndarray:
    """The negative log density of each entry (R&W, eq. 2.34)."""
    *_, std, z = _inputs(who, y, mean, std)
    return 0.5 * np.log(2 * np.pi) + np.log(std) + 0.5 * _square(who, z)


def _smse(who: str, y: Any, mean: Any) -> float:
    y = _array(who, "y", y)
    return float(np.mean(_square(who, _inputs(who, y, mean, np.broadcast_to(_moments(who, "y", y)[1], y.shape))[3])))


def _scaled(array: np.ndarray) -> tuple[np.ndarray, Any]:
    """The array times 2^−exponent, each column of size about 1: exact, and its squares neither overflow nor vanish."""
    exponent = np.frexp(np.abs(array).max(0))[1]
    return np.ldexp(array, -exponent), exponent


def _mean(array: np.ndarray, power: int = 1) -> float:
    """The mean, or with power 2 the root mean square."""
    scaled, exponent = _scaled(array.ravel())
    return float(np.ldexp(np.mean(scaled**power) ** (1 / power), exponent))


def _moments(who: str, name: str, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (dividing by n) of each output; a constant one has no spread and is refused."""
    scaled, exponent = _scaled(array)
    mean, std = np.ldexp(scaled.mean(0), exponent), np.ldexp(scaled.std(0), exponent)
    if np.any((array.max(0) == array.min(0)) | (std == 0)):
        raise fail(who, f"{name} is constant", "give targets that vary: there is no spread to compare with")
    return mean, std
