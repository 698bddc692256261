"""Scores of predictions: errors, densities, calibration, relative deviances, cross-validation and learning curves."""

from covary.metrics.decades import Decades as Decades
from covary.metrics.decades import by_decades as by_decades
from covary.metrics.decades import relative_deviance as relative_deviance
from covary.metrics.decades import relative_deviance_log10 as relative_deviance_log10
from covary.metrics.scores import calibration_error as calibration_error
from covary.metrics.scores import coverage as coverage
from covary.metrics.scores import crps as crps
from covary.metrics.scores import mae as mae
from covary.metrics.scores import mse as mse
from covary.metrics.scores import msll as msll
from covary.metrics.scores import nlpd as nlpd
from covary.metrics.scores import pit as pit
from covary.metrics.scores import r2 as r2
from covary.metrics.scores import rmse as rmse
from covary.metrics.scores import sharpness as sharpness
from covary.metrics.scores import smse as smse
from covary.metrics.validation import CrossValidation as CrossValidation
from covary.metrics.validation import LearningCurve as LearningCurve
from covary.metrics.validation import cross_validate as cross_validate
from covary.metrics.validation import learning_curve as learning_curve
from covary.metrics.validation import scorer as scorer
