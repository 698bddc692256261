"""Priors over hyperparameters, attached by path, and the default ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from covary._checks import fail
from covary.data import Data
from covary.distributions import AbstractDistribution, LogNormal, Uniform
from covary.parameters import POSITIVE, REAL, Packing, parameters, select


class Priors:
    """Densities by parameter path, with the log density and gradient over the unconstrained vector.

    The density is of the parameter; the vector's coordinate is the logarithm of a positive one, so the Jacobian is added:
    a log-normal prior is a normal one there, and its mode is the median.
    """

    def __init__(self, model: Any, by_pattern: Mapping[str, Any] | None) -> None:
        self.by_path: dict[str, Any] = {}
        paths = parameters(model)
        for pattern, prior in (by_pattern or {}).items():
            flat = prior if isinstance(prior, list | tuple) else [prior]
            if not all(isinstance(p, AbstractDistribution) for p in flat):
                raise fail("priors", f"{pattern!r} has {prior!r}", "give a distribution from covary.distributions")
            for path in select("priors", pattern, paths):
                self.by_path[path] = prior

    def bounds(self, packing: Packing) -> dict[str, tuple[float, float]]:
        """Uniform priors are bounds."""
        return {p: (d.lower, d.upper) for p, d in self.by_path.items() if isinstance(d, Uniform)}

    def log_prob_and_grad(self, packing: Packing, model: Any) -> tuple[float, np.ndarray]:
        """Σ log p(θ) + log |dθ/du| over the free parameters that have a prior, and its gradient over u."""
        value, gradient, found = 0.0, np.zeros(packing.size), parameters(model)
        for slot in packing.slots:
            prior = self.by_path.get(slot.paths[0])
            if prior is None:
                continue
            x = np.atleast_1d(np.asarray(found[slot.paths[0]].value, dtype=np.float64)).ravel()
            each = list(prior) if isinstance(prior, list | tuple) else [prior] * len(x)
            if len(each) != len(x):
                raise fail("priors", f"{slot.paths[0]} has {len(x)} entries but {len(each)} priors", "give one, or one each")
            slope = slot.space.slope(x)
            for i, (density, at) in enumerate(zip(each, x, strict=True)):
                value += float(density.log_prob(at))
                part = float(density.slope(at)) * slope[i]
                if slot.space is POSITIVE:
                    value, part = value + float(np.log(at)), part + 1.0
                elif slot.space is not REAL:
                    value, part = value + float(np.log(slope[i])), part + 1 - 2 * float(at)
                gradient[slot.start + i] += part * packing.scale.get(slot.paths[0], 1.0)
        return value, gradient


def default_priors(model: Any, data: Data) -> dict[str, Any]:
    """Weak priors from the data's scales: length-scales that grow with the number of inputs, noise below the signal.

    - ``lengthscale`` of stationary kernels: log-normal around e^√2 · √d times the column's standard deviation, with log
      standard deviation √3 (wide; it only keeps a column from being switched on or off without evidence);
    - ``likelihood.variance`` of Gaussian noise: log-normal around 1 % of var(y), log standard deviation 2.
    """
    from covary.selection.starts import column_scales, lengthscale_paths, target_scale

    scales = column_scales(data)
    out: dict[str, Any] = {}
    for path, columns in lengthscale_paths(model.prior.kernel, data.X.columns).items():
        size = np.size(parameters(model)[path].value)
        centre = np.sqrt(2) + 0.5 * np.log(len(columns))
        each = np.log(scales[columns]) if size > 1 else np.full(1, np.log(scales[columns]).mean())
        out[path] = [LogNormal(float(centre + e), scale=float(np.sqrt(3))) for e in each]
    if "likelihood.variance" in parameters(model):
        out["likelihood.variance"] = LogNormal(float(np.log(0.01 * target_scale(data) ** 2)), scale=2.0)
    return out
