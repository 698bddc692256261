"""Posteriors: means, variances, draws, components of the function, leave-one-out predictions."""

from covary.posterior.base import AbstractPosterior as AbstractPosterior
from covary.posterior.base import square_root as square_root
from covary.posterior.classes import class_probabilities as class_probabilities
from covary.posterior.combination import Combination as Combination
from covary.posterior.gaussian import Posterior as Posterior
from covary.posterior.gaussian import sample_prior as sample_prior
from covary.posterior.gaussian import with_matrix as with_matrix
from covary.posterior.leave_one_out import cavities as cavities
from covary.posterior.outcomes import outcomes as outcomes
