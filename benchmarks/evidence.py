"""One evidence with its gradient, compared with the two LAPACK calls that it needs, and with the evidence alone."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import interleaved
from benchmarks.problem import START_NOISE, model, table
from benchmarks.report import Bar, Report, Table

SIZES = (1000, 2000, 3000, 4000)
LIMITS = {1000: 2.2, 3000: 1.6}  # of dpotrf + dpotri
GRADIENT = 3.0  # of a value


def measure(n: int, repeats: int) -> dict[str, float]:
    """Return the best time of LAPACK, of evidence and gradient (with a reused buffer and without), and of a value."""
    from scipy.linalg import lapack

    from covary import Data, log_evidence, log_evidence_and_grad
    from covary.inference.base import Memory

    X, y = table(n)
    data, start = Data(X, y), model()
    K = np.asfortranarray(start.kernel.gram(X))
    K.flat[:: n + 1] += START_NOISE
    square = np.empty_like(K)
    workspace = Memory()

    def refill() -> None:
        square[...] = K

    def two_calls() -> None:
        L, info = lapack.dpotrf(square, lower=1, clean=0, overwrite_a=1)
        _, info_inverse = lapack.dpotri(L, lower=1, overwrite_c=1)
        assert info == info_inverse == 0

    return interleaved(
        {
            "lapack": two_calls,
            "gradient": lambda: log_evidence_and_grad(start, data, workspace=workspace),
            "value": lambda: log_evidence(start, data),
            "plain": lambda: log_evidence_and_grad(start, data),
        },
        repeats,
        prepare={"lapack": refill},
    )


def run(smoke: bool = False) -> Report:
    """Measure, and compare with the targets."""
    rows, bars = [], []
    for n in (200,) if smoke else SIZES:
        best = measure(n, 3 if smoke else max(7, 30000 // n))
        over, gradient = best["gradient"] / best["lapack"], best["plain"] / best["value"]
        times = [f"{1e3 * best[name]:.1f}" for name in ("lapack", "gradient", "plain", "value")]
        rows.append([str(n), *times, f"{over:.2f}", f"{best['plain'] / best['lapack']:.2f}", f"{gradient:.2f}"])
        if n in LIMITS:
            bars.append(Bar(f"evidence and gradient / (dpotrf + dpotri), n = {n}", over, LIMITS[n]))
        if not smoke:
            bars.append(Bar(f"evidence and gradient / evidence, n = {n}", gradient, GRADIENT))
    columns = ("n", "LAPACK, ms", "gradient, ms", "(new buffer), ms", "value, ms", "/ LAPACK", "(new buffer)", "/ value")
    notes = (
        "LAPACK: dpotrf and dpotri on the same matrix, in place, without the time to copy the matrix.",
        "gradient: `log_evidence_and_grad` of the ARD squared exponential with nine kernel parameters and the noise, in a "
        "buffer that is reused, as inside `learn`. (new buffer): the same call without such a buffer.",
        "value: `log_evidence`, which also allocates a new buffer. The last column compares it with the gradient in a new "
        "buffer.",
    )
    table_ = Table("Seconds and ratios", columns, rows, notes)
    return Report(
        "One evidence and gradient",
        "The time of one step of a fit, compared with the linear algebra that it cannot avoid.",
        [table_],
        bars,
    )
