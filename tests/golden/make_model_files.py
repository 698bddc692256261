"""Writes the model files that later versions must be able to read; run once per schema, and never over old ones.

python tests/golden/make_model_files.py schema2
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from covary import GPClassifier, GPRegressor, Inputs
from covary.kernels import Matern52, Periodic, bounded, fixed

HERE = Path(__file__).parent / "model_files"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(12, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=12)
NEW = RNG.normal(size=(4, 2))


def models() -> dict[str, Any]:
    """A few fitted models that between them use everything a file can hold."""
    frame = pd.DataFrame(X, columns=["height", "depth"])
    marked = bounded(2.0, 0.1, 10.0) * Matern52(lengthscale=[1.0, 2.0]) + Periodic(period=fixed(2.0)).on(0)
    twice = np.vstack([X, X[:5]]), np.concatenate([Y, Y[:5] + 0.1])
    return {
        "default": GPRegressor(random_state=0).fit(frame, Y),
        "kernel": GPRegressor(marked, mean="linear", noise=fixed(0.01), n_restarts=0, random_state=0).fit(X, Y),
        "outputs": GPRegressor(n_restarts=0, random_state=0).fit(X, np.column_stack([Y, 100 - 3 * Y])),
        "weights": GPRegressor(n_restarts=0, random_state=0).fit(*twice, noise_variance=np.full(17, 0.01)),
        "robust": GPRegressor(likelihood="student_t", n_restarts=0, random_state=0).fit(X, Y),
        "counts": GPRegressor(likelihood="poisson", inference="ep", n_restarts=0).fit(
            X, np.round(np.exp(Y)), size=np.arange(1, 13)
        ),
        "noise": GPRegressor(likelihood="heteroscedastic", n_restarts=0, random_state=0).fit(X, Y),
        "two": GPClassifier(random_state=0).fit(frame, np.where(Y > 0, "yes", "no")),
        "three": GPClassifier(random_state=0).fit(X, np.digitize(Y, [-0.4, 0.4])),
        "rest": GPClassifier(multi_class="one_vs_rest", inference="ep", link="probit").fit(X, np.digitize(Y, [-0.4, 0.4])),
    }


def told(model: Any, new: np.ndarray) -> dict[str, Any]:
    """What a model says at new inputs."""
    if hasattr(model, "classes_"):
        named = hasattr(model, "feature_names_in_")
        frame: Any = pd.DataFrame(new, columns=model.feature_names_in_) if named else new
        return {"X": new.tolist(), "probability": model.predict_proba(frame).tolist(), "classes": model.classes_.tolist()}
    mean, std = model.predict(Inputs(new), return_std=True)
    return {"X": new.tolist(), "mean": mean.tolist(), "std": std.tolist()}


def main(prefix: str) -> None:
    """Write the files and what they must predict."""
    expected = {}
    for name, model in models().items():
        path = HERE / f"{prefix}_{name}.covary"
        if path.exists():
            raise SystemExit(f"{path} exists; old files are kept as they are")
        model.save(path)
        expected[path.name] = told(model, NEW)
    (HERE / f"{prefix}.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
