"""Optimisers: (function with gradient, start) -> Result."""

from covary.optimise.base import Result as Result
from covary.optimise.lbfgs import lbfgs as lbfgs
from covary.optimise.quasi_newton import quasi_newton as quasi_newton
