"""Other libraries: the same model, from the same start, fitted as the documentation of each library describes.

Every function runs in a separate process and returns the time of the fit (without import and data, but including any
compilation), the final hyperparameters, and the number of evaluations if it is known.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import Outcome, fresh
from benchmarks.problem import COLUMNS, START_NOISE, evidence_at, table

CAP = 60  # iterations allowed to libraries that would otherwise take many minutes


@dataclass(frozen=True)
class Peer:
    """A library to compare with: its name, its import, the largest n it is run at, and a note for the table."""

    name: str
    module: str
    largest: int
    note: str = ""

    @property
    def present(self) -> bool:
        """Whether it can be imported."""
        return importlib.util.find_spec(self.module) is not None


PEERS = {
    "gpytorch": Peer("GPyTorch", "gpytorch", 4000, "Cholesky mode, float64, torch L-BFGS with strong Wolfe search"),
    "gpy": Peer("GPy", "GPy", 4000, f"L-BFGS-B, at most {CAP} iterations"),
    "sklearn": Peer("scikit-learn", "sklearn", 4000, "its own L-BFGS-B, no restarts"),
    "gpjax": Peer("GPJax", "gpjax", 4000, f"fit_lbfgs in float64, at most {CAP} iterations"),
}


@dataclass(frozen=True)
class Fit:
    """A fit by another library: seconds, covary's log evidence at its optimum, evaluations if known, and background load."""

    seconds: float
    evidence: float
    evaluations: int | None
    others: float


def fit(key: str, n: int, limit: float) -> Fit | str:
    """Fit with one library in a separate process; return a message if that failed."""
    outcome: Outcome = fresh(f"benchmarks.peers:{key}", limit=limit, n=n)
    if outcome.failure:
        return outcome.failure
    v = outcome.value
    evidence = evidence_at(n, v["variance"], v["lengthscales"], v["noise"])
    return Fit(v["seconds"], float(evidence), v["evaluations"], outcome.others)


def _result(began: float, variance: Any, lengthscales: Any, noise: Any, evaluations: int | None) -> dict[str, Any]:
    return {
        "seconds": time.perf_counter() - began,
        "variance": float(np.squeeze(np.asarray(variance))),
        "lengthscales": np.asarray(lengthscales, np.float64).reshape(-1).tolist(),
        "noise": float(np.squeeze(np.asarray(noise))),
        "evaluations": evaluations,
    }


def sklearn(n: int) -> dict[str, Any]:
    """scikit-learn's GaussianProcessRegressor with its default optimiser, called here to count its evaluations."""
    from scipy.optimize import minimize
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    X, y = table(n)
    wide = (1e-5, 1e5)
    count = []

    def optimizer(objective: Any, start: Any, bounds: Any) -> tuple[Any, float]:
        out = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=bounds)  # what "fmin_l_bfgs_b" does
        count.append(int(out.nfev))
        return out.x, out.fun

    kernel = ConstantKernel(1.0, wide) * RBF(np.ones(COLUMNS), wide) + WhiteKernel(START_NOISE, wide)
    began = time.perf_counter()
    model = GaussianProcessRegressor(kernel, normalize_y=False, n_restarts_optimizer=0, optimizer=optimizer).fit(X, y)
    found = model.kernel_
    return _result(began, found.k1.k1.constant_value, found.k1.k2.length_scale, found.k2.noise_level, count[0])


def gpytorch(n: int) -> dict[str, Any]:
    """GPyTorch's ExactGP in Cholesky mode, one call of torch's L-BFGS."""
    import gpytorch as library
    import torch

    torch.set_default_dtype(torch.float64)
    X, y = (torch.from_numpy(v) for v in table(n))

    class Exact(library.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = library.means.ZeroMean()
            self.covar_module = library.kernels.ScaleKernel(library.kernels.RBFKernel(ard_num_dims=COLUMNS))

        def forward(self, x: Any) -> Any:
            return library.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = library.likelihoods.GaussianLikelihood()
    model = Exact(likelihood)
    model.covar_module.outputscale = 1.0
    model.covar_module.base_kernel.lengthscale = 1.0
    likelihood.noise = START_NOISE
    model.train()
    likelihood.train()
    evidence = library.mlls.ExactMarginalLogLikelihood(likelihood, model)
    search = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=200, max_eval=400, line_search_fn="strong_wolfe")
    count = [0]

    def closure() -> Any:
        search.zero_grad()
        loss = -evidence(model(X), y)
        loss.backward()
        count[0] += 1
        return loss

    began = time.perf_counter()
    with library.settings.fast_computations(False, False, False):
        search.step(closure)
    kernel = model.covar_module
    out = (kernel.outputscale.detach(), kernel.base_kernel.lengthscale.detach(), likelihood.noise.detach())
    return _result(began, *out, count[0])


def gpy(n: int) -> dict[str, Any]:
    """GPy's GPRegression with its default optimiser, stopped early."""
    import GPy

    X, y = table(n)
    began = time.perf_counter()
    kernel = GPy.kern.RBF(COLUMNS, variance=1.0, lengthscale=np.ones(COLUMNS), ARD=True)
    model = GPy.models.GPRegression(X, y[:, None], kernel, noise_var=START_NOISE)
    model.optimize("lbfgsb", max_iters=CAP)
    evaluations = getattr(model.optimization_runs[-1], "funct_eval", None)
    noise = model.Gaussian_noise.variance
    return _result(began, kernel.variance, kernel.lengthscale, noise, None if evaluations is None else int(evaluations))


def gpjax(n: int) -> dict[str, Any]:
    """GPJax's conjugate model with its L-BFGS, stopped early."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import gpjax as library
    import jax.numpy as jnp

    X, y = table(n)
    data = library.Dataset(X=jnp.asarray(X), y=jnp.asarray(y)[:, None])
    began = time.perf_counter()
    kernel = library.kernels.RBF(lengthscale=jnp.ones(COLUMNS), variance=jnp.asarray(1.0))
    prior = library.gps.Prior(mean_function=library.mean_functions.Zero(), kernel=kernel)
    model = prior * library.likelihoods.Gaussian(obs_stddev=jnp.sqrt(START_NOISE))

    def objective(m: Any, d: Any) -> Any:
        return -library.objectives.conjugate_mll(m, d)

    found, _ = library.fit_lbfgs(model=model, objective=objective, train_data=data, max_iters=CAP)
    value = library.parameters.val
    kernel = found.prior.kernel
    variance, lengthscale = np.asarray(value(kernel.variance)), np.asarray(value(kernel.lengthscale))
    return _result(began, variance, lengthscale, np.asarray(value(found.likelihood.obs_stddev)) ** 2, None)
