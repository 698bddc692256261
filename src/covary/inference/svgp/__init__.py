"""Variational inference through inducing inputs, in batches: any likelihood, any number of rows."""

from covary.inference.svgp.svgp import SVGP as SVGP
