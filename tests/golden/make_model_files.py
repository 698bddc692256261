"""Writes the model files that later versions must be able to read; run once per schema, and never over old ones.

python tests/golden/make_model_files.py schema1
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from covary import GPRegressor
from covary.kernels import Matern52, Periodic, bounded, fixed

HERE = Path(__file__).parent / "model_files"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(12, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=12)
NEW = RNG.normal(size=(4, 2))


def models() -> dict[str, GPRegressor]:
    """A few fitted models that between them use everything a file can hold."""
    frame = pd.DataFrame(X, columns=["height", "depth"])
    marked = bounded(2.0, 0.1, 10.0) * Matern52(lengthscale=[1.0, 2.0]) + Periodic(period=fixed(2.0)).on(0)
    twice = np.vstack([X, X[:5]]), np.concatenate([Y, Y[:5] + 0.1])
    return {
        "default": GPRegressor(random_state=0).fit(frame, Y),
        "kernel": GPRegressor(marked, mean="linear", noise=fixed(0.01), n_restarts=0, random_state=0).fit(X, Y),
        "outputs": GPRegressor(n_restarts=0, random_state=0).fit(X, np.column_stack([Y, 100 - 3 * Y])),
        "weights": GPRegressor(n_restarts=0, random_state=0).fit(*twice, noise_variance=np.full(17, 0.01)),
    }


def main(prefix: str) -> None:
    """Write the files and what they must predict."""
    expected = {}
    for name, model in models().items():
        path = HERE / f"{prefix}_{name}.covary"
        if path.exists():
            raise SystemExit(f"{path} exists; old files are kept as they are")
        model.save(path)
        mean, std = model._predict(NEW, return_std=True)
        expected[path.name] = {"X": NEW.tolist(), "mean": mean.tolist(), "std": std.tolist()}
    (HERE / f"{prefix}.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
