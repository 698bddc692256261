"""Representations of the covariance matrix K: dense, subset of rows, inducing inputs, neighbours, state space model."""

from covary.gram.base import AbstractGram as AbstractGram
from covary.gram.base import Bars as Bars
from covary.gram.dense import Dense as Dense
from covary.gram.low_rank import LowRank as LowRank
from covary.gram.markov import Markov as Markov
from covary.gram.subset import Subset as Subset
from covary.gram.vecchia import NearestNeighbours as NearestNeighbours
from covary.gram.vecchia import Vecchia as Vecchia
