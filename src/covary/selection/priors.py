"""Priors over hyperparameters, attached by path, and the default ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from covary._checks import fail, shown
from covary._words import counted
from covary.data import Data
from covary.distributions import AbstractDistribution, LogNormal, Uniform
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.parameters import POSITIVE, REAL, Packing, Slot, parameters, select

Density: TypeAlias = AbstractDistribution | Sequence[AbstractDistribution]  # one for all entries, or one each


def each(prior: Density, entries: int) -> list[AbstractDistribution]:
    """Return the distribution of every entry of a parameter."""
    return [prior] * entries if isinstance(prior, AbstractDistribution) else list(prior)


class Priors:
    """Densities by parameter path, with the log density and its gradient with respect to the unconstrained vector.

    Densities are over the parameters themselves. The coordinate of a positive parameter is its logarithm, so the Jacobian is
    included: a log-normal prior becomes a normal one, and its mode is the median.
    """

    def __init__(self, model: Model, by_pattern: Mapping[str, Density] | None, *, who: str = "priors") -> None:
        self.by_path, self.who = dict[str, Density](), who
        paths = parameters(model)
        if not isinstance(by_pattern or {}, Mapping):
            raise fail(who, f"they are {shown(by_pattern)}", "give distributions by path, or None", argument="priors")
        for pattern, prior in (by_pattern or {}).items():
            flat = prior if isinstance(prior, list | tuple) else [prior]
            if not all(isinstance(p, AbstractDistribution) for p in flat):
                do = "give a distribution from covary.distributions"
                raise fail(who, f"{pattern!r} has {shown(prior)}", do, argument="priors")
            for path in select(who, pattern, paths, "priors"):
                self.by_path[path] = prior

    def of(self, slot: Slot) -> list[AbstractDistribution] | None:
        """Return the densities of a slot's entries, or None; tied parameters share the first prior given to any of them."""
        path = next((p for p in slot.paths if p in self.by_path), None)
        if path is None:
            return None
        size = slot.stop - slot.start
        densities = each(self.by_path[path], size)
        if len(densities) != size:
            what = f"{path} has {counted(size, 'entry', 'entries')} but {counted(len(densities), 'prior')}"
            raise fail(self.who, what, "give one, or one each", argument="priors")
        return densities

    def box(self, packing: Packing[Model]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of uniform priors in unconstrained coordinates; infinite for all other priors."""
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

    def log_prob_and_grad(self, packing: Packing[Model], model: Model) -> tuple[float, np.ndarray]:
        """Compute Σ log p(θ) + log |dθ/du| over the free parameters with a prior, and its gradient with respect to u."""
        value, gradient, found = 0.0, np.zeros(packing.size), parameters(model)
        for slot in packing.slots:
            densities = self.of(slot)
            if densities is None:
                continue
            x = np.atleast_1d(np.asarray(found[slot.paths[0]].value, dtype=np.float64)).ravel()
            slope = slot.space.slope(x)
            for i, (density, at) in enumerate(zip(densities, x, strict=True)):
                value += float(density.log_prob(np.asarray(_inside(density, at))))
                part = float(density.slope(np.asarray(at))) * slope[i]
                if slot.space is POSITIVE:
                    value, part = value + float(np.log(at)), part + 1.0
                elif slot.space is not REAL:
                    value, part = value + float(np.log(slope[i])), part + 1 - 2 * float(at)
                gradient[slot.start + i] += part
        return value, packing.onto(gradient)


def _inside(density: AbstractDistribution, x: float) -> float:
    """Return x, moved onto the edge of a uniform prior if only the rounding of exp(log x) puts it outside."""
    if isinstance(density, Uniform):
        near = float(np.clip(x, density.lower, density.upper))
        return near if abs(near - x) <= 1e-12 * max(abs(density.lower), abs(density.upper)) else x
    return x


def default_priors(model: Model, data: Data) -> dict[str, Density]:
    """Return weak priors from the scales of the data: length-scales grow with the number of inputs, noise below the signal.

    - ``lengthscale`` of stationary kernels: log-normal around e^√2 · √d times the column's standard deviation, with log
      standard deviation √3 (wide; it only prevents columns from being switched on or off without evidence);
    - ``kernel.variance``, where the kernel as a whole has one: log-normal around var(y), log standard deviation 2;
    - ``likelihood.variance`` of Gaussian noise: log-normal around 1 % of var(y), log standard deviation 2.

    For other likelihoods, every variance of the kernel is log-normal around that of rough latent values (log standard
    deviation 2), and every positive parameter of the likelihood around its starting value (also 2, but 1 for ``degrees``).
    """
    from covary.selection.starts import column_scales, lengthscale_paths, target_scale, working

    scales = column_scales(data)
    out: dict[str, Density] = {}
    for path, columns in lengthscale_paths(model.prior.kernel, data.X.columns).items():
        size = np.size(parameters(model)[path].value)
        centre = np.sqrt(2) + 0.5 * np.log(len(columns))
        logs = np.log(scales[columns]) if size > 1 else np.full(1, np.log(scales[columns]).mean())
        out[path] = [LogNormal(float(centre + log), scale=float(np.sqrt(3))) for log in logs]
    found = parameters(model)
    if not isinstance(model.likelihood, Gaussian):
        return out | _other_priors(model, data, target_scale(working(model, data)))
    if "kernel.variance" in found:
        out["kernel.variance"] = LogNormal(float(2 * np.log(target_scale(data))), scale=2.0)
    if "likelihood.variance" in found:
        out["likelihood.variance"] = LogNormal(float(np.log(0.01 * target_scale(data) ** 2)), scale=2.0)
    return out


def _other_priors(model: Model, data: Data, level: float) -> dict[str, Density]:
    """Return the priors of variances and of the likelihood's parameters for non-Gaussian likelihoods."""
    out: dict[str, Density] = {}
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
            densities = [LogNormal(float(c), scale=wide) for c in np.ravel(centre)]
            out[path] = densities if np.ndim(parameter.value) else densities[0]
    return out
