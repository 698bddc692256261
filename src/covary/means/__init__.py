"""Mean functions, and explicit basis functions with vague or Gaussian weights."""

from covary.means.basis import Basis as Basis
from covary.means.basis import ConstantBasis as ConstantBasis
from covary.means.basis import LinearBasis as LinearBasis
from covary.means.basis import PolynomialBasis as PolynomialBasis
from covary.means.basis import basis_weights as basis_weights
from covary.means.basis import gaussian_weights as gaussian_weights
from covary.means.basis import scale_free_log_evidence as scale_free_log_evidence
from covary.means.functions import AbstractMean as AbstractMean
from covary.means.functions import Constant as Constant
from covary.means.functions import Function as Function
from covary.means.functions import Linear as Linear
from covary.means.functions import Zero as Zero
