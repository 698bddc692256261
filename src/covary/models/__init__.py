"""Models that are equivalent to, or built from, Gaussian processes."""

from covary.models.linear import BayesianLinear as BayesianLinear
from covary.models.linear import FeatureKernel as FeatureKernel
from covary.models.linear import features_of as features_of
from covary.models.linear import moment_matched as moment_matched
from covary.models.local_scale import LocalScale as LocalScale
from covary.models.local_scale import local_scale as local_scale
