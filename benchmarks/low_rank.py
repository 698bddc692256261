"""The VFE bound with its gradient, compared with other libraries: ``python -m benchmarks.low_rank --out docs/benchmarks``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Others, fresh, say
from benchmarks.report import Bar, Report, Table, figure, write

ROWS, INDUCING, COLUMNS = 20_000, 500, 8
PEERS = {"GPyTorch": ("gpytorch", "gpytorch"), "GPflow": ("gpflow", "gpflow")}
TEXT = """\
One evaluation of the collapsed variational bound (Titsias 2009) and its gradient over the hyperparameters, for n = 20,000 rows
with m = 500 inducing inputs, eight columns and a squared exponential with one length-scale per column, in float64. Every
library runs in a separate process; the time is the best of several evaluations after the first. The bounds must agree. The
second row of covary includes the gradient over the inducing inputs, which the other libraries compute in the same pass."""


def problem(rows: int = ROWS, inducing: int = INDUCING) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, targets and inducing inputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, COLUMNS))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=rows), X[:inducing].copy()


def best(function: Any, repeats: int = 6) -> tuple[float, float, float]:
    """Return the value, and the time of the first and of the best later call."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        value = float(function())
        times.append(time.perf_counter() - began)
    return value, times[0], min(times[1:])


def covary(learned: bool, rows: int = ROWS, inducing: int = INDUCING, repeats: int = 6) -> dict[str, float]:
    """covary's."""
    from covary import GP, Data, Model, log_evidence_and_grad
    from covary.gram import LowRank
    from covary.kernels import SquaredExponential
    from covary.likelihoods import Gaussian

    X, y, Z = problem(rows, inducing)
    model = Model(GP(1.0 * SquaredExponential(np.full(COLUMNS, 2.0))), likelihood=Gaussian(0.05))
    data, gram = Data(X, y), LowRank(Z, rule="vfe", learned=learned)
    value, first, later = best(lambda: log_evidence_and_grad(model, data, gram=gram)[0], repeats)
    return {"value": value, "first": first, "seconds": later}


def gpytorch() -> dict[str, float]:
    """GPyTorch: an exact GP with an inducing point kernel."""
    import gpytorch as g
    import torch

    torch.set_default_dtype(torch.float64)
    X, y, Z = (torch.as_tensor(v) for v in problem())

    class Sparse(g.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = g.means.ZeroMean()
            base = g.kernels.ScaleKernel(g.kernels.RBFKernel(ard_num_dims=COLUMNS))
            base.outputscale, base.base_kernel.lengthscale = 1.0, torch.full((1, COLUMNS), 2.0)
            self.covar_module = g.kernels.InducingPointKernel(base, inducing_points=Z, likelihood=likelihood)

        def forward(self, x: Any) -> Any:
            return g.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = g.likelihoods.GaussianLikelihood()
    likelihood.noise = 0.05
    model = Sparse(likelihood).train()
    target = g.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def once() -> float:
        model.zero_grad()
        loss = -target(model(X), y) * len(y)
        loss.backward()
        return -float(loss)

    value, first, later = best(once)
    return {"value": value, "first": first, "seconds": later}


def gpflow() -> dict[str, float]:
    """GPflow: SGPR, compiled."""
    import gpflow as g
    import tensorflow as tf

    X, y, Z = problem()
    kernel = g.kernels.SquaredExponential(variance=1.0, lengthscales=np.full(COLUMNS, 2.0))
    model = g.models.SGPR((X, y[:, None]), kernel, Z, noise_variance=0.05)

    @tf.function
    def once() -> Any:
        with tf.GradientTape() as tape:
            value = model.elbo()
        return value, tape.gradient(value, model.trainable_variables)

    value, first, later = best(lambda: once()[0].numpy())
    return {"value": value, "first": first, "seconds": later}


def run(smoke: bool = False) -> Report:
    """Run every installed library."""
    if smoke:
        found = {"covary": covary(False, 1500, 30, 2) | {"others": 0.0}}
    else:
        found, jobs = {}, {"covary": ("covary", {"learned": False}), "covary, with Z": ("covary", {"learned": True})}
        for name, (module, target) in PEERS.items():
            if importlib.util.find_spec(module) is not None:
                jobs[name] = (target, {})
        for name, (target, options) in jobs.items():
            outcome = fresh(f"benchmarks.low_rank:{target}", limit=600, **options)
            say(f"{name}: {outcome.failure or outcome.value}")
            if not outcome.failure:
                found[name] = outcome.value | {"others": outcome.others}
    mine = found["covary"]["seconds"]
    rows = [
        [name, figure(f["seconds"]), figure(f["seconds"] / mine), figure(f["first"]), f"{f['value']:.3f}", f"{f['others']:.1f}"]
        for name, f in found.items()
    ]
    bars = [
        Bar(f"time: {name} / covary", f["seconds"] / mine, 2.0, least=True)
        for name, f in found.items()
        if not name.startswith("covary")
    ]
    columns = ("library", "seconds", "/ covary", "first call", "bound", "background load")
    return Report("Evidence and gradient of VFE", TEXT, [Table(f"n = {ROWS:,}, m = {INDUCING}", columns, rows)], bars)


def main() -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.low_rank", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    parser.add_argument("--smoke", action="store_true", help="run covary alone on few rows, and write nothing")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with Others() as others:
        report = run(smoke=options.smoke)
    print(report.markdown())
    if options.out and not options.smoke:
        write(options.out, "low_rank", report, others.cores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
