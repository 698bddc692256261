r"""Toy regressions on one input: steps, sines, spikes, gaps, outliers.

Every function takes the number of rows, the standard deviation of the noise and a seed, and returns a frame whose last column
is the target; ``frame.attrs["truth"]`` is the target without noise. Where a book only draws its function, a function with the
features it names stands in, and the docstring says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covary.datasets.frames import check, frame, generator

if TYPE_CHECKING:
    import pandas as pd


def _noisy(x: np.ndarray, f: np.ndarray, noise: float, rng: np.random.Generator, source: str) -> pd.DataFrame:
    return frame({"x": x, "y": f + noise * rng.standard_normal(len(x))}, source=source, truth=f, noise=noise)


def make_line(n: int = 3, *, noise: float = 1.0, random_state: Any = 0) -> pd.DataFrame:
    r"""A straight line with random weights: :math:`y = w_1 + w_2 x + \varepsilon`, :math:`w \sim N(0, I)`, x in [−5, 5].

    Bayesian linear regression, where the posterior of the weights can be drawn. Weights in ``attrs["weights"]``.

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


def make_step(n: int = 64, *, noise: float = 0.1, random_state: Any = 0) -> pd.DataFrame:
    r"""A step: :math:`y = \mathrm{sign}(x) + \varepsilon` on n even places of [−1, 1].

    No length-scale suits it: the evidence of one squared exponential, of a sum of two and of the neural-network kernel
    differ by tens of nats. The book gives 64 places and the noise; the height of the step is ours.

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


def make_cubic(n: int = 20, *, noise: float = 0.3, random_state: Any = 0) -> pd.DataFrame:
    r"""A cubic, :math:`y = x^3 - x + \varepsilon`, x uniform on [−1.5, 1.5]: polynomials of order 1 to 20 over-fit it.

    The thesis draws 20 points of a function it does not name; this one is ours.

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


def make_sine(n: int = 9, *, noise: float = 12**-0.5, uneven: bool = False, random_state: Any = 0) -> pd.DataFrame:
    r"""A raised sine, :math:`y = \tfrac12 + \sin 2\pi x + \varepsilon`, on n even places of [0, 1].

    Under-fitting, over-fitting and early stopping with polynomials. The noise is uniform, by default on [−½, ½], which has
    variance 1/12 (β = 12 in the book).

    Parameters
    ----------
    uneven
        Places drawn from Beta(0.6, 1.5) instead, crowded on the left, for error bars that widen where data are missing.

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


def make_chirp(n: int = 10, *, noise: float = 0.0, random_state: Any = 4) -> pd.DataFrame:
    r"""A chirp, :math:`y = \sin\bigl((x - 2.5)^2\bigr) + \varepsilon`, x uniform on [0, 5].

    With the defaults the ten noise-free points of the figure: a squared exponential fits them best at a standard deviation
    of 0.594 and a length-scale of 0.279. A whole seed is that of NumPy's legacy generator, as in the original.

    References
    ----------
    DGP thesis, section 1.3, figure 1.6 (its numbers are those of scikit-learn's gallery data).

    Examples
    --------
    >>> make_chirp()["x"].round(3).tolist()[:2]
    [4.835, 2.736]
    """
    n, rng = check("make_chirp", n, noise), _legacy(random_state)
    x = rng.uniform(0, 5, n)
    f = np.sin((x - 2.5) ** 2)
    return _noisy(x, f, noise, rng, "DGP thesis, figure 1.6")


def make_two_optima(n: int = 20, *, noise: float = 0.5, random_state: Any = 0) -> pd.DataFrame:
    r"""A sine under noise as large as itself: :math:`y = \tfrac12\sin 3x + \varepsilon`, x uniform on [0, 5].

    The evidence has two optima, signal or all noise: with the defaults −21.805 and −23.872 for a squared exponential of zero
    mean. A whole seed is that of NumPy's legacy generator.

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


def make_gap(n: int = 37, *, noise: float = 0.1, random_state: Any = 0) -> pd.DataFrame:
    r"""A smooth curve with nothing seen between 2.5 and 3.5 and one outlier near (1, 0); x in [0, 6].

    .. math:: y = 1 + \sin 1.3x + 0.3\cos 3x + \varepsilon

    Error bars must widen in the gap and the outlier must not be chased. The thesis uses a set of MacKay's that is only
    drawn; the function is ours, its features are the thesis's. The outlier is the last row.

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


def make_spike(n: int = 120, *, noise: float = 1.0, random_state: Any = 0) -> pd.DataFrame:
    r"""A nerve's spike: flat, then a sharp peak and a slow swing back. A sixth of the rows are exact zeros before it.

    .. math:: f(x) = 10\,e^{-\frac12((x - 0.35)/0.02)^2} - 3\,e^{-\frac12((x - 0.5)/0.1)^2}

    One length-scale cannot serve both the peak and the rest. x is even on [0, 1], and n/6 further rows with target zero
    lie on [−0.2, 0), as in the thesis; the recording itself is not public, the shape is ours.

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


def make_neal(n: int = 100, *, noise: float = 0.1, random_state: Any = 0) -> pd.DataFrame:
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
    n: int = 100, *, noise: float = 0.1, share: float = 0.05, outlier: float = 1.0, random_state: Any = 0
) -> pd.DataFrame:
    """Neal's regression with outliers: as :func:`make_neal`, but some rows have much more noise.

    For likelihoods with long tails. Which rows they are is in ``attrs["outliers"]``.

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


def make_sinc(n: int = 100, *, noise: float = 0.1, random_state: Any = 0) -> pd.DataFrame:
    r"""The cardinal sine, :math:`y = \sin x / x + \varepsilon`, on n even places of [−10, 10].

    The usual example of support and relevance vector regression.

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


def make_uneven(n: int = 200, *, noise: float = 0.3, random_state: Any = 0) -> pd.DataFrame:
    r"""Two hundred points crowded in two places of [0, 6], for pictures of inducing inputs.

    .. math:: y = \sin 2x + 0.6\cos 4.5x + \varepsilon

    Two thirds of the inputs are normal about 1.5, the rest about 4.5, both with standard deviation 0.7, folded into [0, 6].
    In the manner of the one-dimensional set of Snelson & Ghahramani; the function is ours.

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


def _legacy(random_state: Any) -> Any:
    """NumPy's old generator for a whole seed, so that published figures are met; else as elsewhere."""
    return np.random.RandomState(random_state) if isinstance(random_state, int | np.integer) else generator(random_state)
