"""Levels of a search: their definition by each gram, what is evaluated on each, and the cost."""

from __future__ import annotations

import numpy as np
import pytest

from covary import GP, Data, Model
from covary.gram import Dense, LowRank, Markov, Subset, Vecchia
from covary.gram.base import AbstractGram
from covary.kernels import Matern52
from covary.likelihoods import Gaussian
from covary.optimise.base import Clock
from covary.selection.state import GAIN, Levels

X = np.random.default_rng(0).random((5000, 2))
DATA = Data(X, X[:, 0])
MODEL = Model(GP(1.0 * Matern52(lengthscale=[1.0, 1.0])), likelihood=Gaussian(0.1))


@pytest.mark.parametrize(
    ("gram", "rows", "levels"),
    [
        (Dense(), 700, (700,)),
        (Dense(), 2000, (500, 2000)),
        (Dense(), 12_000, (750, 3000, 12_000)),
        (Subset(1000), 5000, (400, 1000)),
        (LowRank(50), 4000, (4000,)),
        (LowRank(50), 5000, (500, 2000, 5000)),
        (LowRank(50), 100_000, (500, 2000, 16_000, 100_000)),
        (Vecchia(10), 16_000, (16_000,)),
        (Vecchia(10), 100_000, (6250, 60_000)),
        (Markov(), 100_000, (100_000,)),
    ],
    ids=str,
)
def test_every_gram_defines_its_levels(gram: AbstractGram, rows: int, levels: tuple[int, ...]) -> None:
    assert gram.levels(rows, 400) == levels
    assert gram.levels(rows, None) == ((min(rows, 1000),) if isinstance(gram, Subset) else (rows,))
    costs = [gram.cost(level) for level in levels]
    assert costs == sorted(costs) or isinstance(gram, LowRank)  # few inducing inputs cost less than many rows, exactly


def test_a_coarse_level_of_inducing_inputs_is_dense() -> None:
    gram = LowRank(50).prepare(MODEL, DATA)[0]
    some, dense = gram.at(DATA, 500, key=3)
    assert isinstance(dense, Dense)
    assert some.rows == 500
    assert gram.at(DATA, 5000) == (DATA, gram)
    assert [gram.approximates(rows) for rows in (500, 2000, 5000)] == [False, False, True]


def test_a_coarse_level_of_neighbours_keeps_all_rows() -> None:
    data, thinned = Vecchia(10).at(DATA, 1000)
    assert data is DATA
    assert isinstance(thinned, Vecchia)
    assert thinned.terms == 1000


def test_rows_of_a_level_are_the_same_every_time() -> None:
    first, second, other = (Dense().at(DATA, 500, key=key)[0] for key in (1, 1, 2))
    np.testing.assert_array_equal(first.X.x, second.X.x)
    assert not np.array_equal(first.X.x, other.X.x)


def test_what_an_evaluation_takes_is_estimated_from_other_levels() -> None:
    ladder, clock = Levels(DATA, Dense(), iterated=False), Clock()
    assert ladder.sizes == (1250, 5000)
    assert ladder.seconds(5000, clock) == 0.0
    clock.took[1250] = 0.1
    assert ladder.seconds(5000, clock) == pytest.approx(0.1 * Dense().cost(5000) / Dense().cost(1250))
    clock.took[5000] = 3.0
    assert ladder.seconds(5000, clock) == 3.0


def test_steps_count_for_more_where_the_evidence_is_approximate() -> None:
    assert Levels(DATA, Dense(), iterated=False).gain(5000) == GAIN
    ladder = Levels(DATA, LowRank(50), iterated=False)
    assert (ladder.gain(2000), ladder.gain(5000)) == (GAIN, 5 * GAIN)


def test_training_in_batches_begins_on_dense_levels() -> None:
    ladder = Levels(DATA, LowRank(50), iterated=True, batches=True)
    assert ladder.sizes == (250, 1000)
    assert isinstance(ladder.at(250)[1], Dense)
