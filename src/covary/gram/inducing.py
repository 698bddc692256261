r"""Selection of inducing inputs: random rows, cluster centres, greedy variance (pivoted Cholesky), leverage scores.

Good inducing inputs explain the prior variance: the trace of :math:`K - K_{fu}K_{uu}^{-1}K_{uf}` is the loss of the low-rank
evidence (Titsias 2009) and, up to a factor, a bound on its error (Burt et al. 2019). The greedy rule selects the row with the
largest remaining variance, as in the pivoted incomplete Cholesky factorisation (R&W, section 8.1); ridge
leverage scores sample rows by the share of their variance that no other row explains (Alaoui & Mahoney 2015).
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from covary._checks import fail
from covary._errors import Option
from covary.data import Inputs
from covary.gram.linalg import Lapack
from covary.kernels import tiles
from covary.kernels.base import AbstractKernel

RULES = ("greedy", "kmeans", "leverage", "random")
CANDIDATES = 20_000  # maximum number of rows that a rule chooses from; larger data are subsampled at random
EXPLAINED = 1e-12  # relative remaining variance below which a row adds nothing


def select(
    rule: str, kernel: AbstractKernel, X: Inputs, count: int, *, noise: float | np.ndarray | None = None, key: int = 0
) -> np.ndarray:
    """Select inducing inputs (m, d) for a kernel and rows X.

    Repeated rows are used only once, so m is at most the number of distinct rows; using all of these is exact.

    Parameters
    ----------
    rule
        ``"greedy"``, ``"kmeans"``, ``"leverage"`` or ``"random"``.
    kernel
        The kernel to approximate.
    X
        The rows of the data.
    count
        The number of inducing inputs.
    noise
        The noise variance, for leverage scores; by default a hundredth of the prior variance.
    key
        The random seed.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> from covary.data import as_inputs
    >>> X = as_inputs(np.linspace(0.0, 1.0, 11)[:, None], "example")
    >>> sorted(select("greedy", Matern52(0.3), X, 3)[:, 0].round(1).tolist())
    [0.0, 0.5, 1.0]
    """
    rng = np.random.default_rng(key)
    rows = distinct(X.x)
    if count >= len(rows):
        return X.x[np.sort(rows)].copy()
    if len(rows) > max(CANDIDATES, 2 * count):
        rows = rng.choice(rows, max(CANDIDATES, 2 * count), replace=False)
    rows = np.sort(rows)
    some = X.take(rows)
    if rule == "random":
        return some.x[np.sort(rng.choice(len(rows), count, replace=False))].copy()
    if rule == "kmeans":
        return _centres(kernel, some, count, rng)
    if rule == "leverage":
        return some.x[np.sort(_leverage(kernel, some, count, noise, rng))].copy()
    if rule == "greedy":
        return some.x[greedy(kernel, some, count)].copy()
    raise fail("gram.LowRank", Option("select") + f" is {rule!r}", f"choose one of {', '.join(map(repr, RULES))}")


def distinct(x: np.ndarray) -> np.ndarray:
    """Return one index for every distinct row."""
    return np.unique(x, axis=0, return_index=True)[1]


def greedy(kernel: AbstractKernel, X: Inputs, count: int) -> np.ndarray:
    r"""Return the indices of the pivots of an incomplete Cholesky factorisation (R&W, section 8.1).

    The first pivot is the row with the largest prior variance, each further one the row with the largest variance given the
    previous pivots, :math:`k_{ii} - \sum_j F_{ij}^2`. O(n m²); stops early when no variance is left to explain.
    """
    n = X.rows
    rest = tiles.diag(kernel, X).astype(np.float64)
    F = np.zeros((n, count), order="F")
    scale, chosen = float(rest.max()), []
    (gemv,) = linalg.get_blas_funcs(("gemv",), (F,))
    for j in range(count):
        pivot = int(np.argmax(rest))
        if rest[pivot] <= EXPLAINED * scale:
            break
        column = tiles.cross(kernel, X, X.take(slice(pivot, pivot + 1)))[:, 0]
        if j:
            column = column - gemv(1.0, F[:, :j], F[pivot, :j].copy())
        F[:, j] = column / np.sqrt(rest[pivot])
        rest = np.maximum(rest - F[:, j] ** 2, 0.0)
        rest[pivot] = 0.0
        chosen.append(pivot)
    return np.array(chosen)


def _centres(kernel: AbstractKernel, X: Inputs, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return cluster centres, computed with every column scaled by its standard deviation."""
    from sklearn.cluster import MiniBatchKMeans

    spread = X.x.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    seed = int(rng.integers(2**31 - 1))
    found = MiniBatchKMeans(count, batch_size=max(2048, 4 * count), max_iter=30, random_state=seed)
    found.set_params(n_init=1).fit(X.x / spread)
    return np.unique(found.cluster_centers_ * spread, axis=0)


def _leverage(
    kernel: AbstractKernel, X: Inputs, count: int, noise: float | np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    r"""Draw rows by approximate ridge leverage scores :math:`(k_{ii} - k_{iS}(K_{SS}+\lambda I)^{-1}k_{Si})/\lambda`.

    S is a uniform sample of twice as many rows (one round of Musco & Musco 2017), λ the noise variance.
    """
    prior = tiles.diag(kernel, X)
    ridge = float(np.mean(noise)) if noise is not None and np.all(np.asarray(noise) > 0) else 0.01 * float(np.mean(prior))
    sample = rng.choice(X.rows, min(2 * count, X.rows), replace=False)
    S = X.take(np.sort(sample))
    K = tiles.gram_lower(kernel, S)
    K.flat[:: len(K) + 1] += ridge
    L = Lapack.cholesky(K)
    if L is None:
        raise fail("gram.LowRank", "the kernel is not positive definite on a sample of the rows", "check its parameters")
    half = Lapack.half_solve(np.asfortranarray(np.tril(L)), tiles.cross(kernel, S, X), overwrite=True)
    score = np.maximum(prior - np.einsum("ij,ij->j", half, half), 1e-12 * prior) / ridge
    return rng.choice(X.rows, count, replace=False, p=score / score.sum())
