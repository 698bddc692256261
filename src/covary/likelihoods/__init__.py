"""Observation models p(y | f)."""

from covary.likelihoods.base import AbstractLikelihood as AbstractLikelihood
from covary.likelihoods.bernoulli import Bernoulli as Bernoulli
from covary.likelihoods.binomial import Binomial as Binomial
from covary.likelihoods.gamma import Gamma as Gamma
from covary.likelihoods.gaussian import Gaussian as Gaussian
from covary.likelihoods.heteroscedastic import HeteroscedasticGaussian as HeteroscedasticGaussian
from covary.likelihoods.laplace import DoubleExponential as DoubleExponential
from covary.likelihoods.negative_binomial import NegativeBinomial as NegativeBinomial
from covary.likelihoods.noise_basis import BasisNoise as BasisNoise
from covary.likelihoods.ordinal import Ordinal as Ordinal
from covary.likelihoods.poisson import Poisson as Poisson
from covary.likelihoods.softmax import Softmax as Softmax
from covary.likelihoods.student_t import StudentT as StudentT
