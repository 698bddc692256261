"""How K is handled: dense, or through inducing inputs."""

from covary.gram.base import AbstractGram as AbstractGram
from covary.gram.base import Bars as Bars
from covary.gram.dense import Dense as Dense
from covary.gram.low_rank import LowRank as LowRank
