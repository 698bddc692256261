"""Libraries with their defaults: one function per library that fits its default model, and the process it runs in.

A function takes the raw inputs and targets, applies the usual preprocessing of that library, and returns a function from
new inputs to the mean and the standard deviation of new observations (including the noise), in the units of y.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

Predict = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
SPREAD = 1.959963984540054  # standard deviations on either side of the mean that contain 95 %
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC")  # the last is XLA's


@dataclass(frozen=True)
class Method:
    """A library with its defaults: name, package, note, modules imported before the time is measured, and the fit."""

    name: str
    package: str
    note: str
    modules: tuple[str, ...]
    fit: Callable[[np.ndarray, np.ndarray], Predict]

    @property
    def present(self) -> bool:
        """Whether it can be imported."""
        return importlib.util.find_spec(self.modules[0].split(".")[0]) is not None

    @property
    def version(self) -> str:
        """Installed version."""
        if self.package == "covary":
            import covary

            return covary.__version__
        return metadata.version(self.package)


def standardiser(X: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Standardise to mean zero and variance one over these rows; constant columns are left unchanged."""
    constant = X.max(0) == X.min(0)
    centre, scale = np.where(constant, 0.0, X.mean(0)), np.where(constant, 1.0, X.std(0))
    return lambda rows: (rows - centre) / scale


def covary(X: np.ndarray, y: np.ndarray) -> Predict:
    """covary's default estimator."""
    from covary import GPRegressor

    model = GPRegressor(random_state=0).fit(X, y)
    return lambda rows: model.predict(rows, return_std=True)


def sklearn(X: np.ndarray, y: np.ndarray) -> Predict:
    """scikit-learn's regressor with the model of covary, because its default kernel has no free parameters."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    scaled = standardiser(X)
    kernel = ConstantKernel() * Matern(length_scale=np.ones(X.shape[1]), nu=2.5) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=5, random_state=0).fit(scaled(X), y)
    return lambda rows: model.predict(scaled(rows), return_std=True)


def gpytorch(X: np.ndarray, y: np.ndarray) -> Predict:
    """GPyTorch's ExactGP in Cholesky mode; one call of torch's L-BFGS, whose best point is kept even if it stops early."""
    import gpytorch as library
    import torch

    torch.set_default_dtype(torch.float64)
    scaled, centre, spread = standardiser(X), y.mean(), y.std()
    inputs, targets = torch.from_numpy(scaled(X)), torch.from_numpy((y - centre) / spread)

    class Exact(library.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(inputs, targets, likelihood)
            self.mean_module = library.means.ConstantMean()
            matern = library.kernels.MaternKernel(nu=2.5, ard_num_dims=X.shape[1])
            self.covar_module = library.kernels.ScaleKernel(matern)

        def forward(self, x: Any) -> Any:
            return library.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = library.likelihoods.GaussianLikelihood()
    model = Exact(likelihood)
    model.train()
    likelihood.train()
    evidence = library.mlls.ExactMarginalLogLikelihood(likelihood, model)
    search = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=200, max_eval=400, line_search_fn="strong_wolfe")
    best: dict[str, Any] = {"loss": float("inf"), "state": None}

    def closure() -> Any:
        search.zero_grad()
        loss = -evidence(model(inputs), targets)
        loss.backward()
        if float(loss) < best["loss"]:
            best.update(loss=float(loss), state={name: value.clone() for name, value in model.state_dict().items()})
        return loss

    with library.settings.fast_computations(False, False, False):
        try:
            search.step(closure)
        except Exception:
            if best["state"] is None:
                raise
    model.load_state_dict(best["state"])
    model.eval()
    likelihood.eval()

    def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad(), library.settings.fast_computations(False, False, False):
            found = likelihood(model(torch.from_numpy(scaled(rows))))
            return centre + spread * found.mean.numpy(), spread * found.stddev.numpy()

    return predict


def botorch(X: np.ndarray, y: np.ndarray) -> Predict:
    """BoTorch's SingleTaskGP with its own kernel and priors, on inputs normalised to the range of the training inputs."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(0)  # a second attempt starts from a draw from the priors
    inputs, targets = torch.from_numpy(X), torch.from_numpy(y)[:, None]
    transforms = {"input_transform": Normalize(X.shape[1]), "outcome_transform": Standardize(1)}
    model = SingleTaskGP(inputs, targets, **transforms)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))

    def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            found = model.posterior(torch.from_numpy(rows), observation_noise=True)
            return found.mean[:, 0].numpy(), found.variance[:, 0].sqrt().numpy()

    return predict


SAME = "constant mean, Matérn-5/2 with a length-scale per column, noise; inputs and y standardised"
METHODS = {
    "covary": Method("covary", "covary", "`GPRegressor(random_state=0)`", ("covary.estimators",), covary),
    "sklearn": Method(
        "scikit-learn",
        "scikit-learn",
        "ConstantKernel * Matern(nu=2.5) with a length-scale per column + WhiteKernel, normalize_y, five restarts, inputs "
        "standardised (its default kernel has no free parameters)",
        ("sklearn.gaussian_process",),
        sklearn,
    ),
    "gpytorch": Method(
        "GPyTorch", "gpytorch", f"{SAME}; float64, no priors, torch L-BFGS with strong Wolfe search", ("gpytorch",), gpytorch
    ),
    "botorch": Method(
        "BoTorch",
        "botorch",
        "SingleTaskGP with its own kernel and priors, inputs normalised, y standardised, fit_gpytorch_mll, float64",
        ("botorch.models", "botorch.fit"),
        botorch,
    ),
}


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    """Return RMSE, NLPD under N(mean, std²), and the coverage and mean width of the 95 % intervals."""
    error = y - mean
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "nlpd": float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * (error / std) ** 2)),
        "coverage": float(np.mean(np.abs(error) <= SPREAD * std)),
        "width": float(np.mean(2 * SPREAD * std)),
    }


def attempt(fit: Callable[..., Predict], X: np.ndarray, y: np.ndarray, X_new: np.ndarray, y_new: np.ndarray) -> dict[str, Any]:
    """Fit, predict and score, and return a record."""
    gc.collect()
    began = time.perf_counter()
    try:
        predict = fit(X, y)
        fitted = time.perf_counter()
        mean, std = (np.asarray(v, np.float64) for v in predict(X_new))
        ended = time.perf_counter()
    except Exception as error:
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"[:200], "fit": time.perf_counter() - began}
    if mean.shape != y_new.shape or std.shape != y_new.shape or not (np.isfinite(mean) & np.isfinite(std) & (std > 0)).all():
        return {"status": "failed", "reason": "its predictions are not finite", "fit": fitted - began}
    return {"status": "ok", **scores(y_new, mean, std), "fit": fitted - began, "predict": ended - fitted}


def pin(core: int | None) -> None:
    """Keep every thread of this process on one core (if the system can), so that two fits do not share one."""
    if core is not None and hasattr(os, "sched_setaffinity") and Path("/proc/self/task").exists():
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), {core})


def serve(pipe: Any, key: str, core: int | None) -> None:
    """Run a worker: import the library, then run one task after another until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)  # hide warnings of the libraries without changing the filters that some of them rely on
    pin(core)
    for module in METHODS[key].modules:
        importlib.import_module(module)
    pipe.send("ready")
    try:
        while True:
            core, *task = pipe.recv()
            pin(core)
            pipe.send(attempt(METHODS[key].fit, *task))
    except (EOFError, BrokenPipeError):
        return


class Worker:
    """A long-lived process that runs one method. If it dies or has to be stopped, it is replaced at the next task."""

    def __init__(self, key: str) -> None:
        self.key, self.process, self.done = key, None, 0

    def run(self, core: int | None, limit: float, *task: np.ndarray) -> dict[str, Any]:
        """Return the record of one task; ``before`` counts earlier tasks of this process."""
        try:
            if self.process is None:
                self._start(core)
            before = self.done
            self.pipe.send((core, *task))
            if not self.pipe.poll(limit):
                self.stop(patience=0.0)
                return {"status": "stopped", "reason": f"stopped after {limit:g} s", "fit": limit, "before": before}
            self.done += 1
            return self.pipe.recv() | {"before": before}
        except (EOFError, OSError):
            status = self.stop()
            return {"status": "failed", "reason": f"its process ended with status {status}"}

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            self.process.kill()

    def stop(self, patience: float = 5.0) -> int | None:
        """Close the pipe, which ends an idle process, or kill it after a timeout. Return its exit status."""
        if self.process is None:
            return None
        self.pipe.close()
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        status, self.process, self.done = self.process.exitcode, None, 0
        return status

    def _start(self, core: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.key, core), daemon=True)
        self.process.start()
        other.close()
        self.pipe.recv()
