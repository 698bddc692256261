r"""Toy regression problems with one input: steps, sines, spikes, gaps, outliers.

The arguments of each function are the number of rows, the standard deviation of the noise and a seed. It returns a DataFrame
whose last column is the target; ``frame.attrs["truth"]`` is the target without noise. If a book only plots its function, a
function with the features it describes is used instead, as noted in the docstring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covary._types import Seed
from covary.datasets.frames import check, frame, generator

if TYPE_CHECKING:
    import pandas as pd


def _noisy(
    x: np.ndarray, f: np.ndarray, noise: float, rng: np.random.Generator | np.random.RandomState, source: str
) -> pd.DataFrame:
    return frame({"x": x, "y": f + noise * rng.standard_normal(len(x))}, source=source, truth=f, noise=noise)


def make_line(n: int = 3, *, noise: float = 1.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""A straight line with random weights: :math:`y = w_1 + w_2 x + \varepsilon`, :math:`w \sim N(0, I)`, x in [−5, 5].

    For Bayesian linear regression, in which the posterior of the weights can be plotted. They are in ``attrs["weights"]``.

    References
    ----------
    Rasmussen & Williams (2006), section 2.1.1 and figure 2.1.

    Examples
    --------
    >>> make_line().shape
    (3, 2)
    """
    n, rng = check("make_line", n, noise), generator(random_state)
    weights, x = rng.standard_normal(2), rng.uniform(-5, 5, n)
    table = _noisy(x, weights[0] + weights[1] * x, noise, rng, "R&W, section 2.1.1")
    table.attrs["weights"] = weights.tolist()
    return table


def make_step(n: int = 64, *, noise: float = 0.1, random_state: Seed = 0) -> pd.DataFrame:
    r"""A step: :math:`y = \mathrm{sign}(x) + \varepsilon` at n equally spaced points of [−1, 1].

    No single length-scale is adequate: the log evidence of a squared exponential, of a sum of two and of the neural-network
    kernel differ by tens of nats. The book specifies 64 points and the noise; the height of the step is chosen here.

    References
    ----------
    Rasmussen & Williams (2006), section 5.4.3, figures 5.9 and 5.10.

    Examples
    --------
    >>> make_step(4, noise=0.0)["y"].tolist()
    [-1.0, -1.0, 1.0, 1.0]
    """
    n, rng = check("make_step", n, noise), generator(random_state)
    x = np.linspace(-1, 1, n)
    return _noisy(x, np.where(x < 0, -1.0, 1.0), noise, rng, "R&W, section 5.4.3")


def make_cubic(n: int = 20, *, noise: float = 0.3, random_state: Seed = 0) -> pd.DataFrame:
    r"""A cubic, :math:`y = x^3 - x + \varepsilon`, x uniform on [−1.5, 1.5]: polynomials of high order overfit it.

    The thesis fits orders 1 to 20 to 20 points of an unspecified function; this function is chosen here.

    References
    ----------
    Gibbs (1997), section 1.1.4, figure 1.2.

    Examples
    --------
    >>> make_cubic().shape
    (20, 2)
    """
    n, rng = check("make_cubic", n, noise), generator(random_state)
    x = np.sort(rng.uniform(-1.5, 1.5, n))
    return _noisy(x, x**3 - x, noise, rng, "Gibbs, section 1.1.4")


def make_sine(n: int = 9, *, noise: float = 12**-0.5, uneven: bool = False, random_state: Seed = 0) -> pd.DataFrame:
    r"""A raised sine, :math:`y = \tfrac12 + \sin 2\pi x + \varepsilon`, at n equally spaced points of [0, 1].

    For underfitting, overfitting and early stopping with polynomials. The noise is uniform, by default on [−½, ½], which has
    variance 1/12 (β = 12 in the book).

    Parameters
    ----------
    uneven
        Draw x from Beta(0.6, 1.5) instead, dense on the left, to show error bars that widen where data are sparse.

    References
    ----------
    Coolen, section 3.1, figures 3.2 to 3.4, and section 3.3, figure 3.6.

    Examples
    --------
    >>> make_sine()["x"].tolist()[:3]
    [0.0, 0.125, 0.25]
    """
    n, rng = check("make_sine", n, noise), generator(random_state)
    x = np.sort(rng.beta(0.6, 1.5, n)) if uneven else np.linspace(0, 1, n)
    f = 0.5 + np.sin(2 * np.pi * x)
    y = f + noise * 12**0.5 * rng.uniform(-0.5, 0.5, n)
    return frame({"x": x, "y": y}, source="Coolen, section 3.1", truth=f, noise=noise)


def make_chirp(n: int = 10, *, noise: float = 0.0, random_state: Seed = 4) -> pd.DataFrame:
    r"""A chirp, :math:`y = \sin\bigl((x - 2.5)^2\bigr) + \varepsilon`, x uniform on [0, 5].

    The defaults give the ten noise-free points of the figure, for which the best squared exponential has a standard deviation
    of 0.594 and a length-scale of 0.279. An integer seed is used with NumPy's legacy generator, as in the original.

    References
    ----------
    DGP thesis, section 1.3, figure 1.6 (its numbers match the data of scikit-learn's gallery).

    Examples
    --------
    >>> make_chirp()["x"].round(3).tolist()[:2]
    [4.835, 2.736]
    """
    n, rng = check("make_chirp", n, noise), _legacy(random_state)
    x = rng.uniform(0, 5, n)
    f = np.sin((x - 2.5) ** 2)
    return _noisy(x, f, noise, rng, "DGP thesis, figure 1.6")


def make_two_optima(n: int = 20, *, noise: float = 0.5, random_state: Seed = 0) -> pd.DataFrame:
    r"""A sine with noise as large as the signal: :math:`y = \tfrac12\sin 3x + \varepsilon`, x uniform on [0, 5].

    The log evidence has two optima, signal plus noise or pure noise: with the defaults −21.805 and −23.872 for a squared
    exponential and zero mean. An integer seed is used with NumPy's legacy generator.

    References
    ----------
    DGP thesis, section 1.4.2, figure 1.8; the same behaviour in Gibbs (1997), section 2.4.1, and Rasmussen & Williams
    (2006), figure 5.5.

    Examples
    --------
    >>> make_two_optima().shape
    (20, 2)
    """
    n, rng = check("make_two_optima", n, noise), _legacy(random_state)
    x = rng.uniform(0, 5, n)
    return _noisy(x, 0.5 * np.sin(3 * x), noise, rng, "DGP thesis, figure 1.8")


def make_gap(n: int = 37, *, noise: float = 0.1, random_state: Seed = 0) -> pd.DataFrame:
    r"""A smooth curve with no data between 2.5 and 3.5 and one outlier near (1, 0); x in [0, 6].

    .. math:: y = 1 + \sin 1.3x + 0.3\cos 3x + \varepsilon

    Error bars should widen in the gap, and the fit should not follow the outlier, which is the last row. The thesis only plots
    its data (MacKay's); the function is chosen here to have the same features.

    References
    ----------
    Gibbs (1997), section 3.10.1, figure 3.5.

    Examples
    --------
    >>> bool(make_gap()["x"].between(2.5, 3.5).any())
    False
    """
    n, rng = check("make_gap", n, noise, least=2), generator(random_state)
    x = rng.uniform(0, 5, n)
    x = np.append(np.sort(np.where(x < 2.5, x, x + 1))[: n - 1], 1.0)
    f = 1 + np.sin(1.3 * x) + 0.3 * np.cos(3 * x)
    table = _noisy(x, f, noise, rng, "Gibbs, section 3.10.1")
    table.loc[n - 1, "y"] = noise * rng.standard_normal()
    return table


def make_spike(n: int = 120, *, noise: float = 1.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""A nerve spike: flat, then a sharp peak and a slow recovery. A sixth of the rows are exact zeros before it.

    .. math:: f(x) = 10\,e^{-\frac12((x - 0.35)/0.02)^2} - 3\,e^{-\frac12((x - 0.5)/0.1)^2}

    No single length-scale fits both the peak and the rest. x is equally spaced on [0, 1], and n/6 further rows with target
    zero are on [−0.2, 0), as in the thesis. The recording is not public; the shape is chosen here.

    References
    ----------
    Gibbs (1997), section 3.10.3, figures 3.8 and 3.11.

    Examples
    --------
    >>> spike = make_spike()
    >>> int((spike["x"] < 0).sum()), spike["y"][spike["x"] < 0].abs().max().item()
    (20, 0.0)
    """
    n, rng = check("make_spike", n, noise, least=6), generator(random_state)
    before = n // 6
    x = np.concatenate([np.linspace(-0.2, 0, before, endpoint=False), np.linspace(0, 1, n - before)])
    f = 10 * np.exp(-0.5 * ((x - 0.35) / 0.02) ** 2) - 3 * np.exp(-0.5 * ((x - 0.5) / 0.1) ** 2)
    f = np.where(x < 0, 0.0, f)
    y = np.where(x < 0, 0.0, f + noise * rng.standard_normal(n))
    return frame({"x": x, "y": y}, source="Gibbs, section 3.10.3", truth=f, noise=noise)


def make_neal(n: int = 100, *, noise: float = 0.1, random_state: Seed = 0) -> pd.DataFrame:
    r"""Neal's regression: :math:`y = 0.3 + 0.4x + 0.5\sin 2.7x + 1.1/(1 + x^2) + \varepsilon`, :math:`x \sim N(0, 1)`.

    References
    ----------
    Neal (1997), Monte Carlo implementation of Gaussian process models for Bayesian regression and classification, the
    first example; fbm's ``rdata``.

    Examples
    --------
    >>> make_neal().columns.tolist()
    ['x', 'y']
    """
    n, rng = check("make_neal", n, noise), generator(random_state)
    x = rng.standard_normal(n)
    return _noisy(x, 0.3 + 0.4 * x + 0.5 * np.sin(2.7 * x) + 1.1 / (1 + x**2), noise, rng, "Neal (1997)")


def make_outliers(
    n: int = 100, *, noise: float = 0.1, share: float = 0.05, outlier: float = 1.0, random_state: Seed = 0
) -> pd.DataFrame:
    """Neal's regression with outliers: like :func:`make_neal`, but some rows have much more noise.

    For likelihoods with heavy tails. ``attrs["outliers"]`` contains the indices of the outliers.

    Parameters
    ----------
    share, outlier
        The probability that a row is an outlier, and its standard deviation.

    References
    ----------
    Neal (1997), the example with outliers; fbm's ``odata``.

    Examples
    --------
    >>> 0.03 < len(make_outliers(2000).attrs["outliers"]) / 2000 < 0.07
    True
    """
    n, rng = check("make_outliers", n, noise), generator(random_state)
    table = make_neal(n, noise=0.0, random_state=rng)
    odd = rng.random(n) < share
    table["y"] += np.where(odd, outlier, noise) * rng.standard_normal(n)
    table.attrs |= {"noise": float(noise), "outliers": np.flatnonzero(odd).tolist()}
    return table


def make_sinc(n: int = 100, *, noise: float = 0.1, random_state: Seed = 0) -> pd.DataFrame:
    r"""The cardinal sine, :math:`y = \sin x / x + \varepsilon`, at n equally spaced points of [−10, 10].

    The usual example for support and relevance vector regression.

    References
    ----------
    Rasmussen & Williams (2006), sections 6.4 and 6.6, for the methods; Tipping (2001) for the example.

    Examples
    --------
    >>> make_sinc(101, noise=0.0)["y"].max().item()
    1.0
    """
    n, rng = check("make_sinc", n, noise), generator(random_state)
    x = np.linspace(-10, 10, n)
    return _noisy(x, np.sinc(x / np.pi), noise, rng, "Tipping (2001)")


def make_uneven(n: int = 200, *, noise: float = 0.3, random_state: Seed = 0) -> pd.DataFrame:
    r"""Two hundred points concentrated in two regions of [0, 6], to illustrate inducing inputs.

    .. math:: y = \sin 2x + 0.6\cos 4.5x + \varepsilon

    Two thirds of the inputs are normal around 1.5, the rest around 4.5, with standard deviation 0.7, folded into [0, 6].
    Similar to the one-dimensional data of Snelson & Ghahramani; the function is chosen here.

    References
    ----------
    Snelson & Ghahramani (2006), figure 1; Rasmussen & Williams (2006), chapter 8.

    Examples
    --------
    >>> make_uneven().shape
    (200, 2)
    """
    n, rng = check("make_uneven", n, noise), generator(random_state)
    x = np.where(rng.random(n) < 2 / 3, 1.5, 4.5) + 0.7 * rng.standard_normal(n)
    x = np.abs(6 - np.abs(6 - np.abs(x)))
    return _noisy(x, np.sin(2 * x) + 0.6 * np.cos(4.5 * x), noise, rng, "Snelson & Ghahramani (2006)")


def _legacy(random_state: Seed) -> np.random.RandomState | np.random.Generator:
    """Return NumPy's legacy generator for an integer seed, to reproduce published figures; otherwise the usual one."""
    return np.random.RandomState(random_state) if isinstance(random_state, int | np.integer) else generator(random_state)
