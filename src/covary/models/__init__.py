"""Models that are Gaussian processes in another guise."""

from covary.models.linear import BayesianLinear as BayesianLinear
from covary.models.linear import FeatureKernel as FeatureKernel
from covary.models.linear import features_of as features_of
from covary.models.linear import moment_matched as moment_matched
