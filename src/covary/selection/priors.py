"""Priors over hyperparameters, attached by path, and the default ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from covary._checks import fail, shown
from covary._words import counted
from covary.data import Data
from covary.distributions import AbstractDistribution, LogNormal, Uniform
from covary.likelihoods.gaussian import Gaussian
from covary.parameters import POSITIVE, REAL, Packing, Slot, parameters, select


class Priors:
    """Densities by parameter path, with the log density and gradient over the unconstrained vector.

    The density is of the parameter; the vector's coordinate is the logarithm of a positive one, so the Jacobian is added:
    a log-normal prior is a normal one there, and its mode is the median.
    """

    def __init__(self, model: Any, by_pattern: Mapping[str, Any] | None, *, who: str = "priors") -> None:
        self.by_path: dict[str, Any] = {}
        paths = parameters(model)
        if not isinstance(by_pattern or {}, Mapping):
            raise fail(who, f"they are {shown(by_pattern)}", "give distributions by path, or None")
        for pattern, prior in (by_pattern or {}).items():
            flat = prior if isinstance(prior, list | tuple) else [prior]
            if not all(isinstance(p, AbstractDistribution) for p in flat):
                raise fail(who, f"{pattern!r} has {shown(prior)}", "give a distribution from covary.distributions")
            for path in select(who, pattern, paths):
                self.by_path[path] = prior

    def of(self, slot: Slot) -> list[Any] | None:
        """The densities of a slot's entries, or None; parameters that are tied share the first prior given to any of them."""
        path = next((p for p in slot.paths if p in self.by_path), None)
        if path is None:
            return None
        prior, size = self.by_path[path], slot.stop - slot.start
        each = list(prior) if isinstance(prior, list | tuple) else [prior] * size
        if len(each) != size:
            raise fail(
                "priors",
                f"{path} has {counted(size, 'entry', 'entries')} but {counted(len(each), 'prior')}",
                "give one, or one each",
            )
        return each

    def box(self, packing: Packing) -> tuple[np.ndarray, np.ndarray]:
        """Uniform priors are bounds: the ends in unconstrained coordinates, infinite for every other prior."""
        lower, upper = np.full(packing.size, -np.inf), np.full(packing.size, np.inf)
        for slot in packing.slots:
            for i, density in enumerate(self.of(slot) or ()):
                if isinstance(density, Uniform):
                    with np.errstate(divide="ignore", invalid="ignore"):
                        ends = slot.space.unconstrain(np.array([density.lower, density.upper]))
                    ends = ends / packing.units[slot.start + i]
                    lower[slot.start + i] = -np.inf if np.isnan(ends[0]) else ends[0]
                    upper[slot.start + i] = np.inf if np.isnan(ends[1]) else ends[1]
        return lower, upper

    def log_prob_and_grad(self, packing: Packing, model: Any) -> tuple[float, np.ndarray]:
        """Σ log p(θ) + log |dθ/du| over the free parameters that have a prior, and its gradient over u."""
        value, gradient, found = 0.0, np.zeros(packing.size), parameters(model)
        for slot in packing.slots:
            each = self.of(slot)
            if each is None:
                continue
            x = np.atleast_1d(np.asarray(found[slot.paths[0]].value, dtype=np.float64)).ravel()
            slope = slot.space.slope(x)
            for i, (density, at) in enumerate(zip(each, x, strict=True)):
                value += float(density.log_prob(_inside(density, at)))
                part = float(density.slope(at)) * slope[i]
                if slot.space is POSITIVE:
                    value, part = value + float(np.log(at)), part + 1.0
                elif slot.space is not REAL:
                    value, part = value + float(np.log(slope[i])), part + 1 - 2 * float(at)
                gradient[slot.start + i] += part
        return value, packing.onto(gradient)


def _inside(density: AbstractDistribution, x: float) -> float:
    """x itself, except on the edge of a uniform prior, where the rounding of exp(log x) must not make it impossible."""
    if isinstance(density, Uniform):
        near = float(np.clip(x, density.lower, density.upper))
        return near if abs(near - x) <= 1e-12 * max(abs(density.lower), abs(density.upper)) else x
    return x


def default_priors(model: Any, data: Data) -> dict[str, Any]:
    """Weak priors from the data's scales: length-scales that grow with the number of inputs, noise below the signal.

    - ``lengthscale`` of stationary kernels: log-normal around e^√2 · √d times the column's standard deviation, with log
      standard deviation √3 (wide; it only keeps a column from being switched on or off without evidence);
    - ``kernel.variance``, where the kernel as a whole has one: log-normal around var(y), log standard deviation 2;
    - ``likelihood.variance`` of Gaussian noise: log-normal around 1 % of var(y), log standard deviation 2.

    Under another likelihood every variance of the kernel is log-normal around that of rough latent values (log standard
    deviation 2), and so is every positive parameter of the likelihood around its starting value (1 for ``degrees``).
    """
    from covary.selection.starts import column_scales, lengthscale_paths, target_scale, working

    scales = column_scales(data)
    out: dict[str, Any] = {}
    for path, columns in lengthscale_paths(model.prior.kernel, data.X.columns).items():
        size = np.size(parameters(model)[path].value)
        centre = np.sqrt(2) + 0.5 * np.log(len(columns))
        each = np.log(scales[columns]) if size > 1 else np.full(1, np.log(scales[columns]).mean())
        out[path] = [LogNormal(float(centre + e), scale=float(np.sqrt(3))) for e in each]
    found = parameters(model)
    if not isinstance(model.likelihood, Gaussian):
        return out | _other_priors(model, data, target_scale(working(model, data)))
    if "kernel.variance" in found:
        out["kernel.variance"] = LogNormal(float(2 * np.log(target_scale(data))), scale=2.0)
    if "likelihood.variance" in found:
        out["likelihood.variance"] = LogNormal(float(np.log(0.01 * target_scale(data) ** 2)), scale=2.0)
    return out


def _other_priors(model: Any, data: Data, level: float) -> dict[str, Any]:
    """The priors of variances and of the likelihood's own parameters where it is not Gaussian noise."""
    out: dict[str, Any] = {}
    starting, levels = model.likelihood.starting(data.y), model.likelihood.latent_levels(level)
    several = isinstance(model.prior.kernel, tuple)
    for path, parameter in parameters(model).items():
        if parameter.space is not POSITIVE:
            continue
        name = path.rsplit(".", 1)[-1]
        if path.startswith("kernel") and name == "variance":
            out[path] = LogNormal(float(2 * np.log(levels[int(path.split(".")[1]) if several else 0])), scale=2.0)
        elif path.startswith("likelihood."):
            centre = np.log(np.broadcast_to(starting.get(name, parameter.value), np.shape(parameter.value)).astype(np.float64))
            wide = 1.0 if name == "degrees" else 2.0
            each = [LogNormal(float(c), scale=wide) for c in np.ravel(centre)]
            out[path] = each if np.ndim(parameter.value) else each[0]
    return out
