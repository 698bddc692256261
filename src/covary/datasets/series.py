r"""Sequences and samples: autoregressions, chaos, hidden Markov chains, lighthouse flashes, coin tosses, energy levels.

The hidden variable of each row (a state, a band), if any, is the last column, so that estimates can be compared with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covary._checks import fail
from covary._types import ArrayLike, Seed
from covary.datasets.frames import check, frame, generator, one_of

if TYPE_CHECKING:
    import pandas as pd

START = np.array([0.6, 0.4])
MOVES = np.array([[0.7, 0.3], [0.4, 0.6]])
SYMBOLS = np.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])
ENSEMBLES = ("goe", "gue", "poisson")


def make_autoregression(
    n: int = 200, *, noise: float = 1.0, coefficients: ArrayLike = (1.4, -0.7), random_state: Seed = 0
) -> pd.DataFrame:
    r"""An autoregressive series in its stationary state: :math:`X_t = \sum_k a_k X_{t-k} + b_0 Z_t`.

    Columns ``t`` and ``y``. The default has order two and a period of about eleven steps.

    Parameters
    ----------
    noise
        b₀, the standard deviation of the innovations.
    coefficients
        a₁, a₂, …; the roots of 1 − Σ a_k z^k must lie outside the unit circle.

    References
    ----------
    Rasmussen & Williams (2006), section B.3 and figure B.1.

    Examples
    --------
    >>> make_autoregression().shape
    (200, 2)
    """
    n, rng = check("make_autoregression", n, noise), generator(random_state)
    a = np.atleast_1d(np.asarray(coefficients, np.float64))
    roots = np.abs(np.linalg.eigvals(np.vstack([a, np.eye(len(a))[:-1]])))
    if roots.max() >= 1:
        what = f"coefficients are {a.tolist()}"
        raise fail("datasets.make_autoregression", what, "give coefficients of a stationary series", argument="coefficients")
    burn = int(np.ceil(40 / -np.log(max(roots.max(), 1e-9)))) + len(a)  # the influence of the start is below 1e-17
    z, y = rng.standard_normal(n + burn), np.zeros(n + burn)
    for t in range(len(a), n + burn):
        y[t] = a @ y[t - len(a) : t][::-1] + noise * z[t]
    table = frame({"t": np.arange(n), "y": y[burn:]}, source="R&W, section B.3", noise=noise)
    table.attrs["coefficients"] = a.tolist()
    return table


def make_mackey_glass(n: int = 500, *, noise: float = 0.0, delay: float = 17.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""The chaotic Mackey–Glass series: prediction six steps ahead from four values six steps apart.

    .. math:: \dot x = \frac{0.2\,x(t - \tau)}{1 + x(t - \tau)^{10}} - 0.1\,x(t)

    Columns ``x0``, ``x6``, ``x12``, ``x18`` (x at t, t − 6, t − 12, t − 18) and target ``y``, x(t + 6). Integrated by the
    classical fourth-order Runge–Kutta method with steps of 0.1 from a constant past near 1.2; the first 300 units are dropped.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the series.
    delay
        τ; the series is chaotic for τ of about 17 and above.

    References
    ----------
    Mackey & Glass (1977); the task as in Moody & Darken (1989).

    Examples
    --------
    >>> make_mackey_glass(10).columns.tolist()
    ['x0', 'x6', 'x12', 'x18', 'y']
    """
    n, rng = check("make_mackey_glass", n, noise), generator(random_state)
    h, steps = 0.1, (n + 24 + 300) * 10
    lag = round(delay / h)
    x = np.full(steps + lag + 1, 1.2 + 0.01 * rng.standard_normal())

    def slope(now: float, then: float) -> float:
        return 0.2 * then / (1 + then**10) - 0.1 * now

    for i in range(lag, steps + lag):
        old, new = x[i - lag], x[i - lag + 1]
        middle, now = (old + new) / 2, x[i]
        a = slope(now, old)
        b = slope(now + h / 2 * a, middle)
        c = slope(now + h / 2 * b, middle)
        x[i + 1] = now + h / 6 * (a + 2 * b + 2 * c + slope(now + h * c, new))
    clean = x[lag + 3000 :: 10][: n + 24]
    seen = clean + noise * rng.standard_normal(len(clean))
    at = np.arange(18, n + 18)
    columns = {f"x{k}": seen[at - k] for k in (0, 6, 12, 18)}
    return frame(
        {**columns, "y": seen[at + 6]}, source="Mackey & Glass (1977)", truth=clean[at + 6] if noise else None, noise=noise
    )


def make_hidden_markov(n: int = 200, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    """Symbols from a hidden Markov model with two states, and the states.

    π = (0.6, 0.4); A = (0.7, 0.3; 0.4, 0.6); B = (0.5, 0.4, 0.1; 0.1, 0.3, 0.6), rows by state. Columns ``t``, ``symbol``
    (0, 1, 2), target ``state`` (0, 1). With noise, the symbol is a real number with Gaussian noise added. The tutorial has
    no numbers; these parameters are chosen here.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the symbols.

    References
    ----------
    Bilmes (1998), A gentle tutorial of the EM algorithm, section 4.

    Examples
    --------
    >>> make_hidden_markov(3).columns.tolist()
    ['t', 'symbol', 'state']
    """
    n, rng = check("make_hidden_markov", n, noise), generator(random_state)
    state = np.empty(n, int)
    for t, u in enumerate(rng.random(n)):
        state[t] = int(u >= (START[0] if t == 0 else MOVES[state[t - 1], 0]))
    symbol = (rng.random(n)[:, None] >= np.cumsum(SYMBOLS, axis=1)[state][:, :2]).sum(1)
    shown = symbol if noise == 0 else symbol + noise * rng.standard_normal(n)
    table = frame({"t": np.arange(n), "symbol": shown, "state": state}, source="Bilmes, section 4", noise=noise)
    table.attrs |= {"start": START.tolist(), "moves": MOVES.tolist(), "symbols": SYMBOLS.tolist()}
    return table


def make_mixture(
    n: int = 300,
    *,
    noise: float = 1.0,
    weights: ArrayLike = (0.5, 0.3, 0.2),
    means: ArrayLike = ((-3.0, 0.0), (2.0, 2.0), (2.0, -3.0)),
    random_state: Seed = 0,
) -> pd.DataFrame:
    r"""Points of a mixture of isotropic Gaussians, :math:`\sum_l \alpha_l N(x \mid \mu_l, \sigma^2 I)`, and their components.

    Parameters
    ----------
    noise
        σ, the standard deviation of every component.
    weights, means
        α, which sum to one, and μ, one row per component.

    References
    ----------
    Bilmes (1998), A gentle tutorial of the EM algorithm, section 3. The numbers are chosen here.

    Examples
    --------
    >>> make_mixture().columns.tolist()
    ['x1', 'x2', 'component']
    """
    n, rng = check("make_mixture", n, noise), generator(random_state)
    alpha, mu = np.asarray(weights, np.float64), np.asarray(means, np.float64)
    if mu.ndim != 2 or alpha.shape != mu.shape[:1] or not np.isclose(alpha.sum(), 1) or (alpha < 0).any():
        raise fail("datasets.make_mixture", f"weights are {alpha.tolist()}", "give one per row of means, with a sum of one")
    component = rng.choice(len(alpha), n, p=alpha)
    X = mu[component] + noise * rng.standard_normal((n, mu.shape[1]))
    columns = {**{f"x{k + 1}": X[:, k] for k in range(X.shape[1])}, "component": component}
    return frame(columns, source="Bilmes, section 3", noise=noise)


def make_lighthouse(
    n: int = 100, *, noise: float = 0.0, along: float = 1.0, off: float = 1.0, random_state: Seed = 0
) -> pd.DataFrame:
    r"""Positions where flashes of a lighthouse reach the shore: :math:`x = a + b\tan\theta`, θ uniform; Cauchy distribution.

    The mean of x is not informative about a, but the posterior is. One column, ``x``.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to x.
    along, off
        a, the position along the shore, and b, the distance from it.

    References
    ----------
    Gibbs (1997), section 1.1.2, eqs. 1.3 to 1.7, figure 1.1.

    Examples
    --------
    >>> round(float(make_lighthouse(2001)["x"].median()), 1)
    1.0
    """
    n, rng = check("make_lighthouse", n, noise), generator(random_state)
    x = along + off * np.tan(np.pi * (rng.random(n) - 0.5)) + noise * rng.standard_normal(n)
    table = frame({"x": x}, source="Gibbs, section 1.1.2", noise=noise, targets=0)
    table.attrs |= {"along": float(along), "off": float(off)}
    return table


def make_coin(n: int = 1024, *, noise: float = 0.0, heads: float = 0.25, random_state: Seed = 0) -> pd.DataFrame:
    """Tosses of a biased coin: columns ``toss`` and ``heads`` (0 or 1).

    Parameters
    ----------
    noise
        The fraction of tosses that are misread.
    heads
        The probability of heads.

    References
    ----------
    DGP thesis, section 1.1.2, figure 1.1.

    Examples
    --------
    >>> make_coin(4).shape
    (4, 2)
    """
    n, rng = check("make_coin", n, noise), generator(random_state)
    seen = (rng.random(n) < heads) ^ (rng.random(n) < noise)
    table = frame({"toss": np.arange(n), "heads": seen.astype(int)}, source="DGP thesis, section 1.1.2", noise=noise, targets=0)
    table.attrs["probability"] = float(heads)
    return table


def make_spacings(n: int = 500, *, noise: float = 0.0, ensemble: str = "goe", random_state: Seed = 0) -> pd.DataFrame:
    """Spacings of energy levels, in units of their mean, of random matrices or of independent levels.

    Each row comes from a separate 2 by 2 matrix, for which Wigner's surmise is exact:
    p(s) = (π/2) s exp(−πs²/4) for ``"goe"`` (real symmetric), (32/π²) s² exp(−4s²/π) for ``"gue"`` (complex), exp(−s) for
    ``"poisson"``. One column, ``s``.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to s.
    ensemble
        One of the three.

    References
    ----------
    Gibbs (1997), section 6.5.4, figure 6.13.

    Examples
    --------
    >>> round(float(make_spacings(4000)["s"].mean()), 1)
    1.0
    """
    n, rng = check("make_spacings", n, noise), generator(random_state)
    one_of("make_spacings", "ensemble", ensemble, ENSEMBLES)
    if ensemble == "poisson":
        s = rng.exponential(size=n)
    else:
        parts = rng.standard_normal((n, 2 if ensemble == "goe" else 3))  # the spacing is the norm of two or three normals
        s = np.sqrt((parts**2).sum(1)) * ((2 / np.pi) ** 0.5 if ensemble == "goe" else (np.pi / 8) ** 0.5)
    return frame({"s": s + noise * rng.standard_normal(n)}, source="Gibbs, section 6.5.4", noise=noise, targets=0)


def make_bands(n: int = 48, *, noise: float = 0.0, bands: int = 4, random_state: Seed = 0) -> pd.DataFrame:
    r"""Crossing energy levels along a line through a crystal, and the bands to which they belong.

    .. math:: E_b(k) = e_b + 2t_b\cos(k + \varphi_b), \qquad k \in [-\pi, \pi]

    Columns ``k``, ``rank`` (of the level among those at its k), ``energy``, target ``band``; n · bands rows. The calculations
    of the thesis are not public; a tight-binding model is used instead.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the energies.
    bands
        The number of bands.

    References
    ----------
    Gibbs (1997), sections 6.3 and 6.4.

    Examples
    --------
    >>> make_bands(10).shape
    (40, 4)
    """
    n, rng = check("make_bands", n, noise), generator(random_state)
    k = np.linspace(-np.pi, np.pi, n)
    offset, hop, phase = np.arange(bands) * 0.8, rng.uniform(0.4, 1.0, bands), rng.uniform(0, 2 * np.pi, bands)
    clean = offset + 2 * hop * np.cos(k[:, None] + phase)
    seen = clean + noise * rng.standard_normal(clean.shape)
    order = np.argsort(seen, axis=1)
    columns = {
        "k": np.repeat(k, bands),
        "rank": np.tile(np.arange(bands), n),
        "energy": np.take_along_axis(seen, order, 1).ravel(),
        "band": order.ravel(),
    }
    table = frame(columns, source="Gibbs, section 6.4", noise=noise)
    table.attrs |= {"offset": offset.tolist(), "hop": hop.tolist(), "phase": phase.tolist()}
    return table
