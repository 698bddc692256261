"""Vecchia's approximation: every row conditioned on its nearest neighbours among the rows before it."""

from covary.gram.vecchia.vecchia import NearestNeighbours as NearestNeighbours
from covary.gram.vecchia.vecchia import Vecchia as Vecchia
