"""Front doors with scikit-learn's habits."""

from covary.estimators.classifier import GPClassifier as GPClassifier
from covary.estimators.regressor import GPRegressor as GPRegressor
