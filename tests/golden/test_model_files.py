"""Model files written by earlier versions can be loaded and predict the same; see make_model_files.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from covary import Inputs, load

FILES = Path(__file__).parent / "model_files"
EXPECTED = {name: entry for page in FILES.glob("*.json") for name, entry in json.loads(page.read_text()).items()}


def test_every_file_has_its_predictions() -> None:
    assert set(EXPECTED) == {path.name for path in FILES.glob("*.covary")}
    assert len(EXPECTED) >= 4


@pytest.mark.parametrize("name", sorted(n for n, entry in EXPECTED.items() if "mean" in entry))
def test_an_old_file_predicts_what_it_did(name: str, tmp_path: Path) -> None:
    entry = EXPECTED[name]
    model = load(FILES / name)
    mean, std = model.predict(Inputs(np.array(entry["X"])), return_std=True)
    np.testing.assert_allclose(mean, entry["mean"], rtol=1e-9)
    np.testing.assert_allclose(std, entry["std"], rtol=1e-9)
    assert str(model.summary())
    more = model.update(_like(model, entry["X"]), np.zeros_like(entry["mean"]))  # and it goes on
    assert np.isfinite(more.log_marginal_likelihood_)


@pytest.mark.parametrize("name", sorted(n for n, entry in EXPECTED.items() if "classes" in entry))
def test_an_old_classifier_predicts_what_it_did(name: str) -> None:
    entry = EXPECTED[name]
    model = load(FILES / name)
    assert model.classes_.tolist() == entry["classes"]
    np.testing.assert_allclose(model.predict_proba(_like(model, entry["X"])), entry["probability"], rtol=1e-9)
    assert "classes" in str(model.summary())


def _like(model, X):
    import pandas as pd

    names = getattr(model, "feature_names_in_", None)
    return np.array(X) if names is None else pd.DataFrame(X, columns=names)
