"""Observation models p(y | f)."""

from covary.likelihoods.base import AbstractLikelihood as AbstractLikelihood
from covary.likelihoods.bernoulli import Bernoulli as Bernoulli
from covary.likelihoods.gaussian import Gaussian as Gaussian
from covary.likelihoods.softmax import Softmax as Softmax
from covary.likelihoods.student_t import StudentT as StudentT
