"""Covariance functions and the algebra that combines them.

>>> from covary.kernels import Matern52, Periodic
>>> 2.0 * Matern52(lengthscale=[1.0, 3.0]) + Periodic().on(0)
2.0 * Matern52(lengthscale=[1.0, 3.0]) + Columns(Periodic(lengthscale=1.0, period=1.0), columns=[0])
"""

from typing import Any as _Any

from covary._names import missing as _missing
from covary.kernels import waves as _waves  # noqa: F401  (registers spectra)
from covary.kernels.authors import KERNELS as _KERNELS
from covary.kernels.base import AbstractKernel as AbstractKernel
from covary.kernels.base import Power as Power
from covary.kernels.base import Product as Product
from covary.kernels.base import Scaled as Scaled
from covary.kernels.base import Sum as Sum
from covary.kernels.base import Traits as Traits
from covary.kernels.categorical import Categories as Categories
from covary.kernels.categorical import Exchangeable as Exchangeable
from covary.kernels.categorical import Hamming as Hamming
from covary.kernels.combine import Columns as Columns
from covary.kernels.combine import Function as Function
from covary.kernels.combine import tensor as tensor
from covary.kernels.dot_product import Constant as Constant
from covary.kernels.dot_product import Linear as Linear
from covary.kernels.dot_product import Polynomial as Polynomial
from covary.kernels.features import random_features as random_features
from covary.kernels.isotropic import Bessel as Bessel
from covary.kernels.isotropic import GammaExponential as GammaExponential
from covary.kernels.isotropic import PiecewisePolynomial as PiecewisePolynomial
from covary.kernels.isotropic import SquaredExponentialMixture as SquaredExponentialMixture
from covary.kernels.matern import Matern as Matern
from covary.kernels.matern import MaternHalfInteger as MaternHalfInteger
from covary.kernels.matern import OrnsteinUhlenbeck as OrnsteinUhlenbeck
from covary.kernels.metric import FactorMetric as FactorMetric
from covary.kernels.networks import ArcCosine as ArcCosine
from covary.kernels.networks import TanhNetwork as TanhNetwork
from covary.kernels.networks import random_network as random_network
from covary.kernels.networks import simulated_covariance as simulated_covariance
from covary.kernels.nonstationary import NeuralNetwork as NeuralNetwork
from covary.kernels.nonstationary import Wiener as Wiener
from covary.kernels.periodic import Cosine as Cosine
from covary.kernels.periodic import Periodic as Periodic
from covary.kernels.processes import BrownianBridge as BrownianBridge
from covary.kernels.processes import FractionalBrownian as FractionalBrownian
from covary.kernels.spectral import Periodised as Periodised
from covary.kernels.spectral import Spectral as Spectral
from covary.kernels.spectral import SpectralMixture as SpectralMixture
from covary.kernels.spectrum import eigenfunctions as eigenfunctions
from covary.kernels.spectrum import expected_upcrossings as expected_upcrossings
from covary.kernels.spectrum import kernel_pca as kernel_pca
from covary.kernels.spectrum import spectral_density as spectral_density
from covary.kernels.spectrum import squared_exponential_eigensystem as squared_exponential_eigensystem
from covary.kernels.sphere import GreatCircle as GreatCircle
from covary.kernels.sphere import OnSphere as OnSphere
from covary.kernels.sphere import SinePower as SinePower
from covary.kernels.stationary import RBF as RBF
from covary.kernels.stationary import Matern12 as Matern12
from covary.kernels.stationary import Matern32 as Matern32
from covary.kernels.stationary import Matern52 as Matern52
from covary.kernels.stationary import RationalQuadratic as RationalQuadratic
from covary.kernels.stationary import SquaredExponential as SquaredExponential
from covary.kernels.structure import Additive as Additive
from covary.kernels.structure import BasisFunctions as BasisFunctions
from covary.kernels.structure import GaussianBasis as GaussianBasis
from covary.kernels.structure import Invariant as Invariant
from covary.kernels.structure import Normalised as Normalised
from covary.kernels.text import CATALOGUE as CATALOGUE
from covary.kernels.text import parse as parse
from covary.kernels.varying import ChangePoint as ChangePoint
from covary.kernels.varying import FunctionField as FunctionField
from covary.kernels.varying import GaussianField as GaussianField
from covary.kernels.varying import ModulatedSquaredExponential as ModulatedSquaredExponential
from covary.kernels.varying import PaciorekSchervish as PaciorekSchervish
from covary.kernels.varying import VaryingAmplitude as VaryingAmplitude
from covary.kernels.varying import VaryingLengthscale as VaryingLengthscale
from covary.kernels.warped import Mapped as Mapped
from covary.kernels.warped import Warped as Warped
from covary.kernels.wiener import IntegratedWiener as IntegratedWiener
from covary.parameters import bounded as bounded
from covary.parameters import fixed as fixed
from covary.parameters import learned as learned

CATALOGUE.update(  # every kernel exported here can be written as text
    (name, value)
    for name, value in list(globals().items())
    if isinstance(value, type)
    and issubclass(value, AbstractKernel)
    and name == value.__name__
    and value not in (AbstractKernel, Sum, Product, Scaled, Power, Function)
)


def __getattr__(name: str) -> _Any:
    lower = {known.lower(): known for known in CATALOGUE}
    hint = str(_KERNELS.get(name) or (f"write {lower[name.lower()]}" if name.lower() in lower else ""))
    raise _missing("covary.kernels", name, hint)
