"""Stochastic variational inference on a table of 46 thousand rows: ``python -m benchmarks.svgp --out docs/benchmarks``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Others, fresh, say
from benchmarks.report import Bar, Report, Table, figure, write
from benchmarks.tables import folder, load, synthetic

TABLE = "uci_hl/protein"
INDUCING = 500
EPOCHS, BATCH, RATE = 100, 1024, 0.01
LIMIT = 1800.0  # seconds allowed to one fit
WORSE = 0.01  # limits on covary's scores relative to GPyTorch: ratio of RMSE, difference of NLPD in nats
METHODS = {"svgp": "covary, SVGP", "vfe": "covary, VFE", "gpytorch": "GPyTorch, SVGP"}
TEXT = f"""\
Protein (45,730 rows, 9 columns; splits as in `benchmarks/tables.py`), with inputs and target standardised by the training
rows, {INDUCING} inducing inputs that start at the same k-means centres, a Matérn 5/2 kernel with one length-scale per column,
Gaussian noise, a constant mean and no priors. covary's SVGP uses its defaults (natural gradients for q, Adam for the other
parameters, batches of 1,024). covary's VFE maximises the collapsed bound on all rows by L-BFGS with fixed inducing inputs.
GPyTorch's SVGP follows the tutorial of the library: Adam with step size {RATE} for all parameters, batches of {BATCH},
{EPOCHS} passes over the data, single precision. Scores are those of the test rows, in the units of the target. The time of
k-means is not counted."""


def problem(path: str | None, split: int, inducing: int) -> tuple[Any, ...]:
    """Return standardised inputs and targets of a split, the initial inducing inputs, and the scale of the target."""
    from covary.data import as_inputs
    from covary.gram.inducing import select
    from covary.kernels import Matern52

    table = synthetic(400) if path is None else load(Path(path), TABLE)
    X, y, X_new, y_new = table.split(split)
    centre, scale = X.mean(0), X.std(0)
    middle, spread = float(y.mean()), float(y.std())
    X, X_new, y = (X - centre) / scale, (X_new - centre) / scale, (y - middle) / spread
    Z = select("kmeans", Matern52(), as_inputs(X), inducing, key=0)
    return X, y, X_new, y_new, np.asarray(getattr(Z, "x", Z)), middle, spread


def scores(mean: np.ndarray, variance: np.ndarray, y: np.ndarray, middle: float, spread: float) -> dict[str, float]:
    """Return RMSE and NLPD in the units of y."""
    mean, variance = middle + spread * mean, spread**2 * variance
    rest = y - mean
    nlpd = 0.5 * np.log(2 * np.pi * variance) + 0.5 * rest**2 / variance
    return {"rmse": float(np.sqrt((rest**2).mean())), "nlpd": float(nlpd.mean())}


# each in a separate process -------------------------------------------------------------------------------------------


def _model(columns: int) -> Any:
    from covary import GP, Model
    from covary.kernels import Matern52
    from covary.likelihoods import Gaussian
    from covary.means import Constant

    return Model(GP(1.0 * Matern52(lengthscale=np.ones(columns)), mean=Constant()), likelihood=Gaussian(0.5))


def svgp(path: str | None, split: int, inducing: int, steps: int | None = None) -> dict[str, Any]:
    """covary's SVGP with its defaults."""
    from covary import Data, condition
    from covary.gram import LowRank
    from covary.inference import SVGP
    from covary.parameters import Packing

    X, y, X_new, y_new, Z, middle, spread = problem(path, split, inducing)
    how, data, began = SVGP(steps=steps), Data(X, y), time.perf_counter()
    found = how.train(Packing(_model(X.shape[1])), None, data, LowRank(Z), note=_tell(began))
    posterior = condition(found.model, data, inference=how, gram=LowRank(found.Z))
    took = time.perf_counter() - began
    new = posterior.predict(X_new).y
    more = {"seconds": took, "bound": found.value, "steps": found.steps, "per_step": 1e3 * found.seconds / found.steps}
    return scores(new.mean, new.variance, y_new, middle, spread) | more


def _tell(began: float) -> Any:
    def note(step: int, steps: int, value: float) -> None:
        if step % max(1, steps // 20) < max(1, steps // 200):
            say(f"step {step} of {steps}: {value:.1f}, {time.perf_counter() - began:.0f} s")

    return note


def vfe(path: str | None, split: int, inducing: int, steps: int | None = None) -> dict[str, Any]:
    """covary's collapsed bound on all rows."""
    from covary import Data, condition, learn
    from covary.gram import LowRank

    X, y, X_new, y_new, Z, middle, spread = problem(path, split, inducing)
    data, gram, began = Data(X, y), LowRank(Z, rule="vfe"), time.perf_counter()
    found = learn(_model(X.shape[1]), data, gram=gram)
    posterior = condition(found, data, gram=gram)
    took = time.perf_counter() - began
    new = posterior.predict(X_new).y
    more = {"seconds": took, "bound": posterior.log_evidence, "steps": found.steps, "per_step": 1e3 * took / found.steps}
    return scores(new.mean, new.variance, y_new, middle, spread) | more


def gpytorch(path: str | None, split: int, inducing: int, steps: int | None = None) -> dict[str, Any]:
    """GPyTorch's SVGP as in its tutorial."""
    import gpytorch as library
    import torch

    X, y, X_new, y_new, Z, middle, spread = problem(path, split, inducing)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, target, fresh_x, start = (torch.tensor(v, dtype=torch.float32, device=device) for v in (X, y, X_new, Z))

    class Sparse(library.models.ApproximateGP):
        """One latent function."""

        def __init__(self) -> None:
            q = library.variational.CholeskyVariationalDistribution(start.shape[0])
            super().__init__(library.variational.VariationalStrategy(self, start, q, learn_inducing_locations=True))
            self.mean_module = library.means.ConstantMean()
            self.covar_module = library.kernels.ScaleKernel(library.kernels.MaternKernel(nu=2.5, ard_num_dims=x.shape[1]))

        def forward(self, inputs: Any) -> Any:
            return library.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))

    model, likelihood = Sparse().to(device), library.likelihoods.GaussianLikelihood().to(device)
    bound = library.mlls.VariationalELBO(likelihood, model, num_data=len(target))
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=RATE)
    total = steps or EPOCHS * -(-len(target) // BATCH)
    generator, done, recent, began = torch.Generator().manual_seed(0), 0, [], time.perf_counter()
    while done < total:
        for rows in torch.randperm(len(target), generator=generator).to(device).split(BATCH):
            adam.zero_grad()
            loss = -bound(model(x[rows]), target[rows])
            loss.backward()
            adam.step()
            recent = [*recent, -float(loss.detach()) * len(target)][-100:]
            done += 1
            if done % max(1, total // 20) == 0:
                say(f"step {done} of {total}: {np.mean(recent):.1f}, {time.perf_counter() - began:.0f} s")
            if done == total:
                break
    took = time.perf_counter() - began
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        parts = [likelihood(model(part)) for part in fresh_x.split(4096)]
    mean, variance = (torch.cat([getattr(p, name) for p in parts]).double().cpu().numpy() for name in ("mean", "variance"))
    more = {"seconds": took, "bound": float(np.mean(recent)), "steps": done, "per_step": 1e3 * took / done, "on": device}
    return scores(mean, variance, y_new, middle, spread) | more


# the page ---------------------------------------------------------------------------------------------------------------


def run(smoke: bool = False, splits: int = 5, path: Path | None = None, only: tuple[str, ...] = (), jobs: int = 1) -> Report:
    """Run every method on every split; if ``smoke``, covary alone on a synthetic table."""
    place = None if smoke else folder(path)
    if not smoke and place is None:
        raise FileNotFoundError(
            "The tables were not found; give their folder with --data or COVARY_DATA (see benchmarks/tables.py)."
        )
    names = {name: title for name, title in METHODS.items() if not only or name in only}
    notes = []
    if "gpytorch" in names and (smoke or importlib.util.find_spec("gpytorch") is None):
        names.pop("gpytorch")
        notes += [] if smoke else ["GPyTorch is not installed and is omitted."]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}

    def measure(item: tuple[int, str]) -> dict[str, Any] | str:
        split, name = item
        arguments = {"path": None if place is None else str(place.resolve()), "split": split}
        if smoke:
            return globals()[name](**arguments, inducing=20, steps=30) | {"others": 0.0}
        outcome = fresh(f"benchmarks.svgp:{name}", limit=LIMIT, **arguments, inducing=INDUCING)
        say(f"{METHODS[name]}, split {split}: {outcome.failure or outcome.value}, others {outcome.others:.1f}")
        return outcome.failure or outcome.value | {"others": outcome.others}

    items = [(split, name) for split in range(1 if smoke else splits) for name in names]
    with ThreadPoolExecutor(jobs) as pool:
        for (split, name), value in zip(items, pool.map(measure, items), strict=True):
            if isinstance(value, str):
                notes.append(f"{METHODS[name]}, split {split}: {value}.")
            else:
                found[name].append(value)
    if any(f.get("on") == "cuda" for f in found.get("gpytorch", [])):
        notes.append("GPyTorch ran on a GPU and covary on the CPU of the same machine, so the times cannot be compared.")
    if jobs > 1:
        notes.append(f"{jobs} fits ran at the same time.")

    def mean(name: str, key: str) -> float:
        return float(np.mean([f[key] for f in found[name]]))

    rows = []
    for name in (n for n in names if found[n]):
        error = 2 * np.std([f["nlpd"] for f in found[name]]) / np.sqrt(len(found[name]))
        spread = 2 * np.std([f["rmse"] for f in found[name]]) / np.sqrt(len(found[name]))
        last = [figure(mean(name, key)) for key in ("seconds", "steps", "per_step")]
        cells = [
            f"{mean(name, 'rmse'):.4f} ± {spread:.4f}",
            f"{mean(name, 'nlpd'):.4f} ± {error:.4f}",
            f"{mean(name, 'bound'):.0f}",
        ]
        rows.append([METHODS[name], *cells, *last, f"{mean(name, 'others'):.1f}"])
    columns = ("method", "RMSE", "NLPD", "bound", "seconds", "steps", "ms per step", "background load")
    many = max(len(v) for v in found.values())
    notes.append(f"Means over {many} split{'s' * (many > 1)}, ± two standard errors; the bound refers to standardised targets.")
    bars = []
    if found.get("gpytorch") and found.get("svgp"):
        bars = [
            Bar("RMSE: covary, SVGP / GPyTorch, SVGP", mean("svgp", "rmse") / mean("gpytorch", "rmse"), 1 + WORSE),
            Bar("NLPD: covary, SVGP minus GPyTorch, SVGP", mean("svgp", "nlpd") - mean("gpytorch", "nlpd"), WORSE, unit="nats"),
        ]
    return Report("Stochastic variational inference", TEXT, [Table("Protein", columns, rows, notes)], bars)


def main() -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.svgp", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write the page to; if omitted, the page is only printed")
    parser.add_argument("--smoke", action="store_true", help="run covary alone on 400 synthetic rows, and write nothing")
    parser.add_argument("--splits", type=int, default=5, help="number of splits to use (at most five)")
    parser.add_argument(
        "--only", action="append", choices=tuple(METHODS), default=[], help="only this method (may be repeated)"
    )
    parser.add_argument("--data", type=Path, help="folder of the tables (default: COVARY_DATA, or data)")
    parser.add_argument(
        "--jobs", type=int, default=1, help="number of fits that run at the same time (their times are then unreliable)"
    )
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with Others() as others:
        report = run(smoke=options.smoke, splits=options.splits, path=options.data, only=tuple(options.only), jobs=options.jobs)
    print(report.markdown())
    if options.out and not options.smoke:
        write(options.out, "svgp", report, others.cores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
