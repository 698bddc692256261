"""Mean functions, and explicit basis functions with vague weights."""

from covary.means.basis import Basis as Basis
from covary.means.basis import LinearBasis as LinearBasis
from covary.means.functions import AbstractMean as AbstractMean
from covary.means.functions import Constant as Constant
from covary.means.functions import Function as Function
from covary.means.functions import Linear as Linear
from covary.means.functions import Zero as Zero
