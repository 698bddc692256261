r"""Toy regression problems with several inputs, samples of Gaussian processes, targets over many powers of ten.

Arguments and results are as in :mod:`covary.datasets.curves`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._types import Seed
from covary.datasets.frames import check, frame, generator, one_of

if TYPE_CHECKING:
    import pandas as pd

KERNELS = ("squared_exponential", "exponential")


def _named(X: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": X[:, 0]} if X.shape[1] == 1 else {f"x{k + 1}": X[:, k] for k in range(X.shape[1])}


def _noisy(X: np.ndarray, f: np.ndarray, noise: float, rng: np.random.Generator, source: str) -> pd.DataFrame:
    y = f + noise * rng.standard_normal(len(f))
    return frame({**_named(X), "y": y}, source=source, truth=f, noise=noise)


def make_gp(
    n: int = 20,
    *,
    noise: float = 0.1,
    lengthscale: float = 1.0,
    variance: float = 1.0,
    columns: int = 1,
    width: float = 10.0,
    kernel: str = "squared_exponential",
    random_state: Seed = 0,
) -> pd.DataFrame:
    r"""A draw from a Gaussian process: y is normal with covariance :math:`\sigma_f^2 k(|x - x'|/\ell) + \sigma_n^2\delta`.

    The defaults are (ℓ, σ_f, σ_n) = (1, 1, 0.1) as in R&W's figures on hyperparameters. ``n=7, noise=0.1**0.5`` gives the two
    optima of figure 5.5, ``lengthscale=0.0632, width=1`` the equivalent kernels of figure 2.6, and
    ``columns=2, lengthscale=0.1, variance=10, width=1`` the smooth or rough surfaces of Coolen's figure 4.1.

    Parameters
    ----------
    lengthscale, variance
        ℓ and σ_f².
    columns
        The number of inputs.
    width
        Inputs are uniform on [−width/2, width/2].
    kernel
        ``"squared_exponential"``, exp(−r²/2), or ``"exponential"``, exp(−r).

    References
    ----------
    Rasmussen & Williams (2006), sections 2.2, 2.3 and 5.4.1, figures 2.5, 2.6, 5.3 to 5.5; Coolen, eqs. 4.32, 4.33.

    Examples
    --------
    >>> make_gp(7, noise=0.1**0.5).shape
    (7, 2)
    """
    n, rng = check("make_gp", n, noise), generator(random_state)
    one_of("make_gp", "kernel", kernel, KERNELS)
    if n > 2000:
        raise fail("datasets.make_gp", Option("n") + f" is {n}", "draw at most 2,000 rows: the full covariance is factorised")
    X = width * (rng.random((n, columns)) - 0.5)
    square = ((X[:, None] - X[None]) ** 2).sum(2) / lengthscale**2
    K = variance * (np.exp(-0.5 * square) if kernel == KERNELS[0] else np.exp(-np.sqrt(square)))
    values, vectors = np.linalg.eigh(K)  # a square root without jitter
    f = vectors @ (np.sqrt(np.maximum(values, 0)) * rng.standard_normal(n))
    return _noisy(X, f, noise, rng, "R&W, section 2.3")


def make_product(n: int = 2000, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""A saddle, :math:`y = 4 x_1 x_2 + \varepsilon` with standard normal inputs, a benchmark of distributed experts.

    References
    ----------
    DGP thesis, section 1.5.4.

    Examples
    --------
    >>> make_product(5).columns.tolist()
    ['x1', 'x2', 'y']
    """
    n, rng = check("make_product", n, noise), generator(random_state)
    X = rng.standard_normal((n, 2))
    return _noisy(X, 4 * X[:, 0] * X[:, 1], noise, rng, "DGP thesis, section 1.5.4")


def make_decades(n: int = 500, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""A positive target that spans forty powers of ten, for scores by decade.

    .. math:: y = 10^{g + \varepsilon}, \qquad g = -10.5 + 9.75\,(x_1 + \sin\pi x_2), \qquad x \in [-1, 1]^2

    from 10⁻³⁰ to 10⁹. The procedure is that of the thesis; the function is chosen here.

    References
    ----------
    DGP thesis, section 1.4.4.

    Examples
    --------
    >>> bool((make_decades()["y"] > 0).all())
    True
    """
    n, rng = check("make_decades", n, noise), generator(random_state)
    X = rng.uniform(-1, 1, (n, 2))
    g = -10.5 + 9.75 * (X[:, 0] + np.sin(np.pi * X[:, 1]))
    y = 10.0 ** (g + noise * rng.standard_normal(n))
    return frame({**_named(X), "y": y}, source="DGP thesis, section 1.4.4", truth=10.0**g, noise=noise)


def make_hills(n: int = 400, *, noise: float = 0.1, random_state: Seed = 0) -> pd.DataFrame:
    r"""Three hills and a valley over [0, 1]²: noisy points of a smooth surface.

    .. math:: y = \sum_j h_j\,e^{-|x - c_j|^2/2w_j^2} + \varepsilon

    with heights 1, 0.8, 0.6, −0.7, widths 0.15, 0.2, 0.1, 0.15 and centres (0.25, 0.3), (0.7, 0.75), (0.8, 0.2), (0.3, 0.8).
    The thesis plots its surface without a formula; this one is chosen here.

    References
    ----------
    Gibbs (1997), section 3.10.2, figures 3.6 and 3.7.

    Examples
    --------
    >>> make_hills().shape
    (400, 3)
    """
    n, rng = check("make_hills", n, noise), generator(random_state)
    X = rng.random((n, 2))
    centres = np.array([[0.25, 0.3], [0.7, 0.75], [0.8, 0.2], [0.3, 0.8]])
    height, width = np.array([1, 0.8, 0.6, -0.7]), np.array([0.15, 0.2, 0.1, 0.15])
    f = np.exp(-0.5 * ((X[:, None] - centres) ** 2).sum(2) / width**2) @ height
    return _noisy(X, f, noise, rng, "Gibbs, section 3.10.2")


def make_potential(n: int = 500, *, noise: float = 0.0, columns: int = 4, random_state: Seed = 0) -> pd.DataFrame:
    r"""A noise-free energy surface: Morse oscillators, each coupled to the next.

    .. math:: V = \sum_k (1 - e^{-x_k})^2 + 0.1\sum_k x_k x_{k+1}, \qquad x_k \in [-0.5, 1.5]

    The surfaces of the thesis (four and six inputs, hundreds to thousands of points) are not public; a smooth,
    noise-free surface with the same number of inputs is used instead.

    References
    ----------
    Gibbs (1997), section 3.10.4.

    Examples
    --------
    >>> make_potential(columns=6).shape
    (500, 7)
    """
    n, rng = check("make_potential", n, noise), generator(random_state)
    X = rng.uniform(-0.5, 1.5, (n, columns))
    V = ((1 - np.exp(-X)) ** 2).sum(1) + 0.1 * (X[:, :-1] * X[:, 1:]).sum(1)
    return _noisy(X, V, noise, rng, "Gibbs, section 3.10.4")


def make_robot_arm(n: int = 200, *, noise: float = 0.05, random_state: Seed = 0) -> pd.DataFrame:
    r"""Position of the hand of a two-link arm as a function of its two angles. Two targets.

    .. math:: y_1 = 2\cos x_1 + 1.3\cos(x_1 + x_2) + \varepsilon_1,\qquad y_2 = 2\sin x_1 + 1.3\sin(x_1 + x_2) + \varepsilon_2

    with :math:`|x_1|` uniform on [0.453, 1.932], either sign, and x₂ uniform on [0.534, 3.142].

    References
    ----------
    MacKay (1992), A practical Bayesian framework for backpropagation networks, section 3; Neal (1996).

    Examples
    --------
    >>> make_robot_arm().attrs["targets"]
    ['y1', 'y2']
    """
    n, rng = check("make_robot_arm", n, noise), generator(random_state)
    a = rng.uniform(0.453, 1.932, n) * rng.choice([-1.0, 1.0], n)
    b = rng.uniform(0.534, 3.142, n)
    f = np.stack([2 * np.cos(a) + 1.3 * np.cos(a + b), 2 * np.sin(a) + 1.3 * np.sin(a + b)], axis=1)
    y = f + noise * rng.standard_normal((n, 2))
    return frame({"x1": a, "x2": b, "y1": y[:, 0], "y2": y[:, 1]}, source="MacKay (1992)", truth=f, noise=noise, targets=2)


def make_friedman(n: int = 100, *, noise: float = 1.0, columns: int = 10, random_state: Seed = 0) -> pd.DataFrame:
    r"""Friedman's function of five of ten inputs, for relevance and interactions.

    .. math:: y = 10\sin(\pi x_1 x_2) + 20(x_3 - \tfrac12)^2 + 10x_4 + 5x_5 + \varepsilon, \qquad x \in [0, 1]^{10}

    References
    ----------
    Friedman (1991), Multivariate adaptive regression splines, section 4.3.

    Examples
    --------
    >>> make_friedman().shape
    (100, 11)
    """
    n, rng = check("make_friedman", n, noise), generator(random_state)
    if columns < 5:
        raise fail("datasets.make_friedman", f"columns is {columns}", "give five or more", argument="columns")
    X = rng.random((n, columns))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return _noisy(X, f, noise, rng, "Friedman (1991)")


def make_four_points(n: int = 4, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""Four points of a plane, solved analytically in the book: (1, 0) → ¾, (0, 1) → ¼, (−1, 0) → −¼, (0, −1) → −¾.

    The linear model :math:`f = w\cdot x` with bootstrapped noise has :math:`t^* = \tfrac12(x_1 + x_2)` and
    :math:`\Delta t^* = \tfrac14\sqrt{(2 + |x|^2)/3}` (eq. 3.50). More rows repeat the four points; noise is added.

    References
    ----------
    Coolen, section 3.3, eqs. 3.47 to 3.50.

    Examples
    --------
    >>> make_four_points()["y"].tolist()
    [0.75, 0.25, -0.25, -0.75]
    """
    n, rng = check("make_four_points", n, noise), generator(random_state)
    turn = np.arange(n) % 4
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])[turn]
    return _noisy(X, np.array([0.75, 0.25, -0.25, -0.75])[turn], noise, rng, "Coolen, section 3.3")
