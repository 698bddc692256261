r"""Toy classification problems with two or three classes and one, two or four inputs.

The last column is the label. If labels are drawn at random, ``frame.attrs["truth"]`` contains the probability of the second
label in sorted order (for three labels, rows with the probabilities of all).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covary._types import Seed
from covary.datasets.frames import check, frame, generator

if TYPE_CHECKING:
    import pandas as pd


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(z / 2))


def make_three_clusters(n: int = 60, *, noise: float = 0.8, random_state: Seed = 0) -> pd.DataFrame:
    """Three clusters on a line: a third at −6 and a sixth at 2 of class 1, half at 0 of class −1.

    60 rows give 20, 30 and 10 points as in the book. Laplace's method is too uncertain on the left, EP is not.

    Parameters
    ----------
    noise
        The standard deviation within a cluster.

    References
    ----------
    Rasmussen & Williams (2006), section 3.7.2, figure 3.6.

    Examples
    --------
    >>> make_three_clusters()["label"].value_counts().to_dict()
    {1: 30, -1: 30}
    """
    n, rng = check("make_three_clusters", n, noise, least=3), generator(random_state)
    left, right = n // 3, n // 6
    centre = np.repeat([-6.0, 0.0, 2.0], [left, n - left - right, right])
    x = centre + noise * rng.standard_normal(n)
    return frame({"x": x, "label": np.where(centre == 0, -1, 1)}, source="R&W, section 3.7.2", noise=noise)


def make_lone_points(n: int = 40, *, noise: float = 0.12, random_state: Seed = 0) -> pd.DataFrame:
    """Two clusters in the unit square, and one point of each class far inside the other cluster's corner.

    A short length-scale classifies the lone points correctly, a long one does not. Class 0 is around (0.3, 0.3), class 1
    around (0.7, 0.7); the lone points, in the last two rows, are (0.95, 0.95) of class 0 and (0.05, 0.05) of class 1. The
    book only plots its points; these positions are chosen here.

    References
    ----------
    Rasmussen & Williams (2006), sections 1.2 and 3.7.1, figures 1.2 and 3.5.

    Examples
    --------
    >>> make_lone_points()["label"].tolist()[-2:]
    [0, 1]
    """
    n, rng = check("make_lone_points", n, noise, least=4), generator(random_state)
    label = np.append(np.arange(n - 2) % 2, [0, 1])
    X = np.clip(0.3 + 0.4 * label[:, None] + noise * rng.standard_normal((n, 2)), 0, 1)
    X[-2:] = [[0.95, 0.95], [0.05, 0.05]]
    return frame({"x1": X[:, 0], "x2": X[:, 1], "label": label}, source="R&W, section 3.7.1", noise=noise)


def make_logistic(n: int = 60, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""Labels from a linear logistic model along (1, 1): :math:`p(+1) = \sigma(x_1 + x_2)`, :math:`x \sim N(0, 4I)`.

    No line separates the classes, but the direction of the weights is well determined. The book only plots its points.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the latent value before the label is drawn.

    References
    ----------
    Rasmussen & Williams (2006), section 3.3, figure 3.1.

    Examples
    --------
    >>> sorted(make_logistic()["label"].unique().tolist())
    [-1, 1]
    """
    n, rng = check("make_logistic", n, noise), generator(random_state)
    X = 2 * rng.standard_normal((n, 2))
    p = _sigmoid(X.sum(1))
    label = np.where(rng.random(n) < _sigmoid(X.sum(1) + noise * rng.standard_normal(n)), 1, -1)
    columns = {"x1": X[:, 0], "x2": X[:, 1], "label": label}
    return frame(columns, source="R&W, section 3.3", truth=p, noise=noise)


def make_squashed(
    n: int = 100, *, noise: float = 0.0, lengthscale: float = 0.3, variance: float = 9.0, random_state: Seed = 0
) -> pd.DataFrame:
    r"""Labels from a Gaussian process over the unit square, through the logistic function: :math:`p(+1) = \sigma(f(x))`.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to f before the label is drawn.
    lengthscale, variance
        Parameters of the squared exponential kernel of f.

    References
    ----------
    Rasmussen & Williams (2006), section 1.2 and figure 3.2 (σ_f² = 9 as in figure 3.5).

    Examples
    --------
    >>> make_squashed().shape
    (100, 3)
    """
    from covary.datasets.surfaces import make_gp

    n, rng = check("make_squashed", n, noise), generator(random_state)
    drawn = make_gp(n, noise=0.0, lengthscale=lengthscale, variance=variance, columns=2, width=1.0, random_state=rng)
    f = drawn["y"].to_numpy()
    label = np.where(rng.random(n) < _sigmoid(f + noise * rng.standard_normal(n)), 1, -1)
    columns = {"x1": drawn["x1"] + 0.5, "x2": drawn["x2"] + 0.5, "label": label}
    return frame(columns, source="R&W, section 1.2", truth=_sigmoid(f), noise=noise)


def make_switch(n: int = 60, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""Class 1 changes sharply to 0 at x = 13 and gradually back between 29 and 43; x uniform on [0, 50].

    .. math:: p(1) = 1 \text{ below } 13, \qquad \min(1, \max(0, (x - 29)/14)) \text{ above}

    A classifier should be certain at the first change, uncertain along the second, and predict about ½ away from the data. The
    thesis only plots its points; the probabilities are chosen here.

    Parameters
    ----------
    noise
        The fraction of labels that are flipped.

    References
    ----------
    Gibbs (1997), section 4.5.1, figure 4.3.

    Examples
    --------
    >>> make_switch().query("x < 13")["label"].unique().tolist()
    [1]
    """
    n, rng = check("make_switch", n, noise), generator(random_state)
    x = np.sort(rng.uniform(0, 50, n))
    p = np.where(x < 13, 1.0, np.clip((x - 29) / 14, 0, 1))
    p = p + noise * (1 - 2 * p)
    label = (rng.random(n) < p).astype(int)
    return frame({"x": x, "label": label}, source="Gibbs, section 4.5.1", truth=p, noise=noise)


def make_probability_maps(n: int = 100, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""Three classes over the unit square drawn from smooth probability maps, with values between 0.04 and 0.87.

    .. math:: p_c \propto e^{a_c(x)}, \qquad a = 1.5\,(\cos\pi x_1,\ \sin\pi x_2 - \tfrac12,\ \cos\pi x_2\,x_1)

    The thesis plots its maps without a formula; these are chosen here.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to a before the class is drawn.

    References
    ----------
    Gibbs (1997), section 5.6.1, figure 5.4 and table 5.1.

    Examples
    --------
    >>> bool(np.allclose(np.sum(make_probability_maps().attrs["truth"], axis=1), 1))
    True
    """
    n, rng = check("make_probability_maps", n, noise), generator(random_state)
    X = rng.random((n, 2))
    a, b = X.T
    latent = 1.5 * np.stack([np.cos(np.pi * a), np.sin(np.pi * b) - 0.5, np.cos(np.pi * b) * a], axis=1)
    p = np.exp(latent) / np.exp(latent).sum(1, keepdims=True)
    label = (latent + noise * rng.standard_normal((n, 3)) + rng.gumbel(size=(n, 3))).argmax(1)
    return frame({"x1": a, "x2": b, "label": label}, source="Gibbs, section 5.6.1", truth=p, noise=noise)


def make_neal_binary(n: int = 300, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    r"""Neal's two classes: :math:`p(1) = \exp\bigl(-((x_1 - 0.4)^2 + (x_2 + 0.3)^2)^2\bigr)`, standard normal inputs.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the inputs after the class is drawn.

    References
    ----------
    Neal (1997), the example with two classes; fbm's ``bdata``.

    Examples
    --------
    >>> make_neal_binary().columns.tolist()
    ['x1', 'x2', 'label']
    """
    n, rng = check("make_neal_binary", n, noise), generator(random_state)
    X = rng.standard_normal((n, 2))
    p = np.exp(-(((X[:, 0] - 0.4) ** 2 + (X[:, 1] + 0.3) ** 2) ** 2))
    label = (rng.random(n) < p).astype(int)
    X = X + noise * rng.standard_normal((n, 2))
    return frame({"x1": X[:, 0], "x2": X[:, 1], "label": label}, source="Neal (1997)", truth=p, noise=noise)


def make_neal_classes(n: int = 1000, *, noise: float = 0.1, random_state: Seed = 0) -> pd.DataFrame:
    """Neal's three classes with four inputs, two of which are irrelevant.

    With x uniform on [0, 1]⁴: class 0 if the distance of (x₁, x₂) from (0.4, 0.5) is below 0.35, otherwise class 1 if
    0.8 x₁ + 1.8 x₂ < 0.6, otherwise class 2. Noise is then added to the inputs. The first 400 of 1,000 rows are for training.
    (The thesis prints the squared distance and omits the noise; this is Neal's original rule.)

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the inputs.

    References
    ----------
    Neal (1997), the example with three classes; Gibbs (1997), section 5.6.2, table 5.2.

    Examples
    --------
    >>> make_neal_classes().shape
    (1000, 5)
    """
    n, rng = check("make_neal_classes", n, noise), generator(random_state)
    X = rng.random((n, 4))
    near = np.hypot(X[:, 0] - 0.4, X[:, 1] - 0.5) < 0.35
    label = np.where(near, 0, np.where(0.8 * X[:, 0] + 1.8 * X[:, 1] < 0.6, 1, 2))
    X = X + noise * rng.standard_normal((n, 4))
    columns = {**{f"x{k + 1}": X[:, k] for k in range(4)}, "label": label}
    return frame(columns, source="Neal (1997)", noise=noise)


def make_rings(n: int = 30, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    """A disc of class 1 inside a ring of class −1: radii uniform on [0, 0.45] and [0.6, 1], half the rows each.

    No line separates the classes, but a polynomial kernel does. The book only plots its points; the radii are chosen here.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the coordinates.

    References
    ----------
    Coolen, section 5.3, figure 5.2.

    Examples
    --------
    >>> make_rings()["label"].tolist()[::15]
    [1, -1]
    """
    n, rng = check("make_rings", n, noise), generator(random_state)
    inside = np.arange(n) < n // 2
    radius = np.where(inside, rng.uniform(0, 0.45, n), rng.uniform(0.6, 1.0, n))
    angle = rng.uniform(0, 2 * np.pi, n)
    X = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1) + noise * rng.standard_normal((n, 2))
    columns = {"x1": X[:, 0], "x2": X[:, 1], "label": np.where(inside, 1, -1)}
    return frame(columns, source="Coolen, section 5.3", noise=noise)


def make_separable(n: int = 40, *, noise: float = 0.0, margin: float = 0.2, random_state: Seed = 0) -> pd.DataFrame:
    r"""Two classes in [−1, 1]² on either side of the line :math:`x_1 + x_2 = 0`, with no point closer to it than the margin.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the coordinates.
    margin
        Half the width of the empty strip, below √2.

    References
    ----------
    Rasmussen & Williams (2006), section 6.4.1, figure 6.2; Coolen, section 5.1, figure 5.1.

    Examples
    --------
    >>> table = make_separable()
    >>> bool((((table["x1"] + table["x2"]) * table["label"]) / 2**0.5 >= 0.2).all())
    True
    """
    n, rng = check("make_separable", n, noise), generator(random_state)
    X = np.empty((0, 2))
    while len(X) < n:
        new = rng.uniform(-1, 1, (4 * n, 2))
        X = np.concatenate([X, new[np.abs(new.sum(1)) >= 2**0.5 * margin]])
    X = X[:n]
    label = np.where(X.sum(1) > 0, 1, -1)
    X = X + noise * rng.standard_normal((n, 2))
    columns = {"x1": X[:, 0], "x2": X[:, 1], "label": label}
    return frame(columns, source="R&W, section 6.4.1; Coolen, section 5.1", noise=noise)


def make_few_labels(n: int = 3, *, noise: float = 0.0, random_state: Seed = 0) -> pd.DataFrame:
    """The two or three labelled points of the book's Bayesian classifier: (0, −1) → 1, (0, 1) → 0, (1, ½) → 0.

    Small enough to compute every integral by quadrature. More rows repeat the three points.

    Parameters
    ----------
    noise
        The standard deviation of the noise added to the coordinates.

    References
    ----------
    Coolen, section 3.4, eqs. 3.58 and 3.60, figure 3.7.

    Examples
    --------
    >>> make_few_labels(2)["label"].tolist()
    [1, 0]
    """
    n, rng = check("make_few_labels", n, noise), generator(random_state)
    turn = np.arange(n) % 3
    X = np.array([[0.0, -1.0], [0.0, 1.0], [1.0, 0.5]])[turn] + noise * rng.standard_normal((n, 2))
    columns = {"x1": X[:, 0], "x2": X[:, 1], "label": np.array([1, 0, 0])[turn]}
    return frame(columns, source="Coolen, section 3.4", noise=noise)
