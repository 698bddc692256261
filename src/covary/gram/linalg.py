"""Dense linear algebra with three backends that agree to rounding: LAPACK on the host, XLA, and LAPACK called from XLA.

The host backend works in place on one buffer and is used by ``learn`` and ``condition`` on a CPU. The XLA backend runs on an
accelerator; the callback backend is for compiled code that must call LAPACK (samplers on a CPU). A backend is a *lane* in the
code. None of them is ever differentiated: gradients are hand-written in :mod:`covary.gram.base`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg

from covary._types import Array


class Lapack:
    """The LAPACK backend: NumPy arrays, in place."""

    xp: ModuleType = np

    @staticmethod
    def cholesky(A: np.ndarray) -> np.ndarray | None:
        """Return the lower factor, overwriting a Fortran-ordered A (upper triangle unchanged); None if A has none."""
        (potrf,) = linalg.get_lapack_funcs(("potrf",), (A,))
        factor, info = potrf(A, lower=1, clean=0, overwrite_a=1)
        return factor if info == 0 else None

    @staticmethod
    def inverse(L: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
        """Return the lower triangle of the inverse of L Lᵀ, overwriting L if allowed."""
        (potri,) = linalg.get_lapack_funcs(("potri",), (L,))
        inverse, _ = potri(L, lower=1, overwrite_c=int(overwrite))
        return inverse

    @staticmethod
    def solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Return (L Lᵀ)⁻¹ B."""
        (potrs,) = linalg.get_lapack_funcs(("potrs",), (L, B))
        X, _ = potrs(L, B, lower=1)
        return X

    @staticmethod
    def half_solve(L: np.ndarray, B: np.ndarray, *, transposed: bool = False, overwrite: bool = False) -> np.ndarray:
        """Return L⁻¹ B or L⁻ᵀ B."""
        if B.ndim == 1 or B.shape[1] == 1:  # one column: a second thread would not pay
            (trsv,) = linalg.get_blas_funcs(("trsv",), (L, B))
            return trsv(L, B.ravel(), lower=1, trans=int(transposed)).reshape(B.shape)
        (trsm,) = linalg.get_blas_funcs(("trsm",), (L, B))
        return trsm(1.0, L, B, side=0, lower=1, trans_a=int(transposed), overwrite_b=int(overwrite))

    @staticmethod
    def times_transposed(B: np.ndarray) -> np.ndarray:
        """Return BᵀB, computed by SciPy's BLAS."""
        (gemm,) = linalg.get_blas_funcs(("gemm",), (B,))
        return gemm(1.0, B, B, trans_a=1)

    @staticmethod
    def times(K: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Return K B for a symmetric K by SciPy's BLAS, whose threads are already running (NumPy's BLAS starts its own)."""
        if K.shape[0] < 2 or K.dtype != B.dtype:
            return K @ B
        if B.ndim == 1:
            (gemv,) = linalg.get_blas_funcs(("gemv",), (K, B))
            return gemv(1.0, K if K.flags.f_contiguous else K.T, B)
        (gemm,) = linalg.get_blas_funcs(("gemm",), (K, B))
        return gemm(1.0, K if K.flags.f_contiguous else K.T, B)

    @staticmethod
    def full(lower: np.ndarray) -> np.ndarray:
        """Return a symmetric matrix from its lower triangle (in a new buffer)."""
        out = np.tril(lower)
        return out + np.tril(out, -1).T


class Xla:
    """The XLA backend: JAX arrays; a matrix without a factor gives NaN."""

    xp: ModuleType = jnp

    @staticmethod
    def cholesky(A: jax.Array) -> jax.Array:
        return jnp.linalg.cholesky(A)

    @staticmethod
    def inverse(L: jax.Array, *, overwrite: bool = False) -> jax.Array:
        half = jax.scipy.linalg.solve_triangular(L, jnp.eye(L.shape[0], dtype=L.dtype), lower=True)
        return half.T @ half

    @staticmethod
    def solve(L: jax.Array, B: jax.Array) -> jax.Array:
        return jax.scipy.linalg.cho_solve((L, True), B)

    @staticmethod
    def half_solve(L: jax.Array, B: jax.Array, *, overwrite: bool = False) -> jax.Array:
        return jax.scipy.linalg.solve_triangular(L, B, lower=True)

    @staticmethod
    def times(K: jax.Array, B: jax.Array) -> jax.Array:
        return K @ B

    @staticmethod
    def full(lower: jax.Array) -> jax.Array:
        return lower


def _host_cholesky(A: Array) -> np.ndarray:
    factor = Lapack.cholesky(np.array(A, order="F"))
    return np.full(A.shape, np.nan, A.dtype) if factor is None else np.ascontiguousarray(np.tril(factor))


def _host_inverse(L: Array) -> np.ndarray:
    L = np.asarray(L)
    if not np.isfinite(L).all():
        return np.full(L.shape, np.nan, L.dtype)
    return np.ascontiguousarray(Lapack.full(Lapack.inverse(np.asfortranarray(L))))


def _host_solve(L: Array, B: Array) -> np.ndarray:
    return np.ascontiguousarray(Lapack.solve(np.asarray(L), np.asarray(B))).reshape(B.shape)


def _host_half(L: Array, B: Array) -> np.ndarray:
    return np.ascontiguousarray(Lapack.half_solve(np.asarray(L), np.asarray(B))).reshape(B.shape)


def _call(function: Callable[..., np.ndarray], like: jax.Array, *arguments: jax.Array) -> jax.Array:
    shape = jax.ShapeDtypeStruct(like.shape, like.dtype)
    return jax.pure_callback(function, shape, *arguments, vmap_method="sequential")


class Callback(Xla):
    """The callback backend: JAX arrays, with LAPACK called by a callback that uses only SciPy."""

    @staticmethod
    def cholesky(A: jax.Array) -> jax.Array:
        return _call(_host_cholesky, A, A)

    @staticmethod
    def inverse(L: jax.Array, *, overwrite: bool = False) -> jax.Array:
        return _call(_host_inverse, L, L)

    @staticmethod
    def solve(L: jax.Array, B: jax.Array) -> jax.Array:
        return _call(_host_solve, B, L, B)

    @staticmethod
    def half_solve(L: jax.Array, B: jax.Array, *, overwrite: bool = False) -> jax.Array:
        return _call(_host_half, B, L, B)


LANES: dict[str, type[Lapack] | type[Xla]] = {"lapack": Lapack, "xla": Xla, "callback": Callback}
