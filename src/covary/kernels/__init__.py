"""Covariance functions and the algebra that combines them.

>>> from covary.kernels import Matern52, Periodic
>>> 2.0 * Matern52(lengthscale=[1.0, 3.0]) + Periodic().on(0)
2.0 * Matern52(lengthscale=[1.0, 3.0]) + Columns(Periodic(lengthscale=1.0, period=1.0), columns=[0])
"""

from covary.kernels.base import AbstractKernel as AbstractKernel
from covary.kernels.base import Power as Power
from covary.kernels.base import Product as Product
from covary.kernels.base import Scaled as Scaled
from covary.kernels.base import Sum as Sum
from covary.kernels.base import Traits as Traits
from covary.kernels.combine import Columns as Columns
from covary.kernels.combine import Function as Function
from covary.kernels.combine import tensor as tensor
from covary.kernels.dot_product import Constant as Constant
from covary.kernels.dot_product import Linear as Linear
from covary.kernels.dot_product import Polynomial as Polynomial
from covary.kernels.features import random_features as random_features
from covary.kernels.nonstationary import NeuralNetwork as NeuralNetwork
from covary.kernels.nonstationary import Wiener as Wiener
from covary.kernels.periodic import Cosine as Cosine
from covary.kernels.periodic import Periodic as Periodic
from covary.kernels.stationary import Matern12 as Matern12
from covary.kernels.stationary import Matern32 as Matern32
from covary.kernels.stationary import Matern52 as Matern52
from covary.kernels.stationary import RationalQuadratic as RationalQuadratic
from covary.kernels.stationary import SquaredExponential as SquaredExponential
from covary.kernels.text import CATALOGUE as CATALOGUE
from covary.kernels.text import parse as parse
from covary.kernels.wiener import IntegratedWiener as IntegratedWiener
from covary.parameters import bounded as bounded
from covary.parameters import fixed as fixed
