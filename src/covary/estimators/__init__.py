"""Estimators with the interface of scikit-learn; each builds the record of a fit and predicts with it."""

# JAX is imported first, because it loads slowly from deep inside nested imports: Python 3.11 allocates a new chunk of its stack
# for every call near a chunk's end (0.2 s in the search for plugins)
import jax.numpy as jnp  # noqa: F401

from covary.estimators.classifier import GPClassifier as GPClassifier
from covary.estimators.regressor import GPRegressor as GPRegressor
