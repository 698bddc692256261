"""Fits to tables by the family of Gaussian processes, compared with those of the estimators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import covary
from covary import GPClassifier, GPRegressor
from covary.families.gaussian_process.settings import CLASSIFIER, REGRESSOR
from covary.fits import Request, family
from covary.tables.observed import Names


def test_settings_have_the_defaults_of_the_estimators() -> None:
    assert REGRESSOR.arguments == GPRegressor().get_params(deep=False)
    assert CLASSIFIER.arguments == GPClassifier().get_params(deep=False)


def test_a_fit_to_a_table_is_that_of_the_estimator(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(size=30), "b": rng.choice(["u", "v"], 30), "c": rng.normal(size=30)})
    X.loc[3, "c"] = np.nan
    targets = {"y": X["a"] + 0.1 * rng.normal(size=30), "kind": pd.Series(np.where(X["a"] > 0.5, "high", "low"), name="kind")}
    for name, y in targets.items():
        path = tmp_path / f"{name}.csv"
        X.assign(**{name: y}).to_csv(path, index=False, float_format="%.17g")
        request = Request(str(path), Names([name]), missing="drop", options={"restarts": 1})
        task = family("gaussian_process").prepare(request)
        done = task.run(None)
        assert (done.learned, done.dropped, done.open) == (30, 0, 0)
        kind = GPRegressor if name == "y" else GPClassifier
        model = kind(n_restarts=1, missing="drop", random_state=0).fit(X, y)
        assert done.fit.state.log_evidence == model.log_marginal_likelihood_
        assert done.fit.origin.arguments == model.fit_.origin.arguments
        assert done.fit.origin.estimator == kind.__name__
        assert done.fit.columns == model.columns_
        covary.files.write_fit(done.fit, tmp_path / "m.covary")
        np.testing.assert_array_equal(covary.load(tmp_path / "m.covary").predict(X[:3]), model.predict(X[:3]))
