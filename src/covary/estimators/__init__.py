"""Front doors with scikit-learn's habits."""

from covary.estimators.regressor import GPRegressor as GPRegressor
