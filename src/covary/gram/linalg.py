"""Dense algebra in three lanes that agree to rounding: LAPACK on the host, XLA, and LAPACK called back from XLA.

The host lane works on one buffer in place and is what ``learn`` and ``condition`` use on a CPU. The XLA lane runs on an
accelerator; the callback lane serves compiled code that must call LAPACK from inside (samplers on a CPU). None of them is
ever differentiated through: gradients are written by hand in :mod:`covary.gram.base`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg


class Lapack:
    """NumPy arrays, LAPACK in place."""

    xp: Any = np

    @staticmethod
    def cholesky(A: np.ndarray) -> np.ndarray | None:
        """The lower factor, written over a Fortran-ordered A (its upper triangle is left as it was); None if A has none."""
        (potrf,) = linalg.get_lapack_funcs(("potrf",), (A,))
        factor, info = potrf(A, lower=1, clean=0, overwrite_a=1)
        return factor if info == 0 else None

    @staticmethod
    def inverse(L: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
        """The inverse of L Lᵀ, its lower triangle only; over L itself if allowed."""
        (potri,) = linalg.get_lapack_funcs(("potri",), (L,))
        inverse, _ = potri(L, lower=1, overwrite_c=int(overwrite))
        return inverse

    @staticmethod
    def solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
        """(L Lᵀ)⁻¹ B."""
        (potrs,) = linalg.get_lapack_funcs(("potrs",), (L, B))
        X, _ = potrs(L, B, lower=1)
        return X

    @staticmethod
    def half_solve(L: np.ndarray, B: np.ndarray, *, transposed: bool = False, overwrite: bool = False) -> np.ndarray:
        """L⁻¹ B, or L⁻ᵀ B."""
        if B.ndim == 1 or B.shape[1] == 1:  # one column: no reason to wake a second thread
            (trsv,) = linalg.get_blas_funcs(("trsv",), (L, B))
            return trsv(L, B.ravel(), lower=1, trans=int(transposed)).reshape(B.shape)
        (trsm,) = linalg.get_blas_funcs(("trsm",), (L, B))
        return trsm(1.0, L, B, side=0, lower=1, trans_a=int(transposed), overwrite_b=int(overwrite))

    @staticmethod
    def times_transposed(B: np.ndarray) -> np.ndarray:
        """BᵀB by SciPy's BLAS."""
        (gemm,) = linalg.get_blas_funcs(("gemm",), (B,))
        return gemm(1.0, B, B, trans_a=1)

    @staticmethod
    def times(K: np.ndarray, B: np.ndarray) -> np.ndarray:
        """K B for a symmetric K by SciPy's BLAS, whose threads are awake already (NumPy brings a second set of its own)."""
        if K.shape[0] < 2 or K.dtype != B.dtype:
            return K @ B
        if B.ndim == 1:
            (gemv,) = linalg.get_blas_funcs(("gemv",), (K, B))
            return gemv(1.0, K if K.flags.f_contiguous else K.T, B)
        (gemm,) = linalg.get_blas_funcs(("gemm",), (K, B))
        return gemm(1.0, K if K.flags.f_contiguous else K.T, B)

    @staticmethod
    def full(lower: np.ndarray) -> np.ndarray:
        """A symmetric matrix from its lower triangle (a new buffer)."""
        out = np.tril(lower)
        return out + np.tril(out, -1).T


class Xla:
    """JAX arrays; a matrix without a factor gives NaN."""

    xp: Any = jnp

    @staticmethod
    def cholesky(A: Any) -> Any:
        return jnp.linalg.cholesky(A)

    @staticmethod
    def inverse(L: Any, *, overwrite: bool = False) -> Any:
        half = jax.scipy.linalg.solve_triangular(L, jnp.eye(L.shape[0], dtype=L.dtype), lower=True)
        return half.T @ half

    @staticmethod
    def solve(L: Any, B: Any) -> Any:
        return jax.scipy.linalg.cho_solve((L, True), B)

    @staticmethod
    def half_solve(L: Any, B: Any, *, overwrite: bool = False) -> Any:
        return jax.scipy.linalg.solve_triangular(L, B, lower=True)

    @staticmethod
    def times(K: Any, B: Any) -> Any:
        return K @ B

    @staticmethod
    def full(lower: Any) -> Any:
        return lower


def _host_cholesky(A: Any) -> np.ndarray:
    factor = Lapack.cholesky(np.array(A, order="F"))
    return np.full(A.shape, np.nan, A.dtype) if factor is None else np.ascontiguousarray(np.tril(factor))


def _host_inverse(L: Any) -> np.ndarray:
    L = np.asarray(L)
    if not np.isfinite(L).all():
        return np.full(L.shape, np.nan, L.dtype)
    return np.ascontiguousarray(Lapack.full(Lapack.inverse(np.asfortranarray(L))))


def _host_solve(L: Any, B: Any) -> np.ndarray:
    return np.ascontiguousarray(Lapack.solve(np.asarray(L), np.asarray(B))).reshape(B.shape)


def _host_half(L: Any, B: Any) -> np.ndarray:
    return np.ascontiguousarray(Lapack.half_solve(np.asarray(L), np.asarray(B))).reshape(B.shape)


def _call(function: Any, like: Any, *arguments: Any) -> Any:
    shape = jax.ShapeDtypeStruct(like.shape, like.dtype)
    return jax.pure_callback(function, shape, *arguments, vmap_method="sequential")


class Callback:
    """JAX arrays, LAPACK reached by a callback with only SciPy inside."""

    xp: Any = jnp

    @staticmethod
    def cholesky(A: Any) -> Any:
        return _call(_host_cholesky, A, A)

    @staticmethod
    def inverse(L: Any, *, overwrite: bool = False) -> Any:
        return _call(_host_inverse, L, L)

    @staticmethod
    def solve(L: Any, B: Any) -> Any:
        return _call(_host_solve, B, L, B)

    @staticmethod
    def half_solve(L: Any, B: Any, *, overwrite: bool = False) -> Any:
        return _call(_host_half, B, L, B)

    @staticmethod
    def times(K: Any, B: Any) -> Any:
        return K @ B

    @staticmethod
    def full(lower: Any) -> Any:
        return lower


LANES: dict[str, Any] = {"lapack": Lapack, "xla": Xla, "callback": Callback}
