"""Inference methods: exact, Laplace's approximation, expectation propagation, and variational inference in batches."""

from covary.inference.base import AbstractInference as AbstractInference
from covary.inference.condition import condition as condition
from covary.inference.ep import EP as EP
from covary.inference.exact import Exact as Exact
from covary.inference.laplace import Laplace as Laplace
from covary.inference.svgp import SVGP as SVGP
