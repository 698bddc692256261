"""Kernels on one input as state space models: exact inference in O(n)."""

from covary.gram.markov.markov import Grid as Grid
from covary.gram.markov.markov import Markov as Markov
from covary.gram.markov.markov import MarkovBound as MarkovBound
from covary.gram.markov.markov import MarkovFactor as MarkovFactor
from covary.gram.markov.markov import rung as rung
