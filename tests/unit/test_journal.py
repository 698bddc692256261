"""Interrupted learning: time limit, Ctrl-C, kill; and the contents of the journal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from covary import GP, Data, Model, learn
from covary._checks import CovaryError
from covary.data import Inputs
from covary.executors.fingerprint import fingerprint
from covary.gram import LowRank, Vecchia
from covary.kernels import Matern12, Matern32, Matern52
from covary.likelihoods import Gaussian
from covary.means import Function
from covary.selection.journal import Journal, JournalKey
from covary.selection.state import watching

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=150)
MODEL = Model(GP(1.0 * Matern52(np.ones(3))), likelihood=Gaussian(0.1))
DATA = Data(X, Y)


class Killed(Exception):
    """Stands for a power cut."""


def break_off(after: int, path: Path, **options: Any) -> None:
    """Learn, and die after so many evaluations."""
    seen = []

    def count(now: Any) -> None:
        seen.append(now)
        if len(seen) == after:
            raise Killed

    with pytest.raises(Killed), watching(count):
        learn(MODEL, DATA, checkpoint=path, **options)


@pytest.mark.parametrize("gram", [None, LowRank(20, rule="vfe"), LowRank(12, rule="vfe", learned=True), Vecchia(10)], ids=str)
def test_a_search_that_was_killed_ends_where_it_would_have_ended(gram: Any, tmp_path: Path) -> None:
    options = {} if gram is None else {"gram": gram}
    whole = learn(MODEL, DATA, **options)
    path = tmp_path / "fit.journal"
    break_off(6, path, **options)
    made: list[Any] = []
    resumed = learn(MODEL, DATA, checkpoint=path, **options)
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    assert resumed.value == whole.value
    with watching(made.append):
        again = learn(MODEL, DATA, checkpoint=path, **options)
    np.testing.assert_array_equal(again.theta, whole.theta)


def test_what_is_known_is_not_computed_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "problem", 2)
    calls: list[np.ndarray] = []

    def function(theta: np.ndarray) -> tuple[float, np.ndarray]:
        calls.append(theta)
        return float(theta.sum()), theta * 2

    kept = journal.kept(JournalKey(10), function)
    first = kept(np.array([1.0, 2.0]))
    later = Journal(tmp_path / "j", "problem", 2).kept(JournalKey(10), function)
    second = later(np.array([1.0, 2.0]))
    assert len(calls) == 1
    assert first[0] == second[0]
    np.testing.assert_array_equal(first[1], second[1])
    later(np.array([1.0, 2.5]))
    Journal(tmp_path / "j", "problem", 2).kept(JournalKey(11), function)(np.array([1.0, 2.0]))  # other rows: another value
    assert len(calls) == 3


def test_half_a_record_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    break_off(5, path)
    path.write_bytes(path.read_bytes()[:-7])
    assert learn(MODEL, DATA, checkpoint=path).value == learn(MODEL, DATA).value


@pytest.mark.parametrize("other", [Data(X, Y + 1e-9), Data(X[:149], Y[:149])], ids=["values", "rows"])
def test_a_journal_of_other_data_is_refused(other: Data, tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    break_off(3, path)
    with pytest.raises(CovaryError, match="belongs to another problem"):
        learn(MODEL, other, checkpoint=path)
    with pytest.raises(CovaryError, match="belongs to another problem"):
        learn(Model(GP(1.0 * Matern52(np.full(3, 2.0))), likelihood=Gaussian(0.1)), DATA, checkpoint=path)


ROUGH, SMOOTH = Model(GP(1.0 * Matern12(np.ones(3)))), Model(GP(1.0 * Matern32(np.ones(3))))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"rivals": [ROUGH]}, {"rivals": [SMOOTH]}),
        ({"rivals": [ROUGH]}, {"n_restarts": 1}),  # the second start of one is the rival of the other
        ({"starts": [ROUGH]}, {"rivals": [ROUGH]}),
        ({"tie": []}, {"tie": [["kernel.variance", "likelihood.variance"]]}),
        ({"coarse": True}, {"coarse": False}),
    ],
    ids=["rivals", "restarts", "starts", "ties", "levels"],
)
def test_a_journal_of_another_search_is_refused(first: Any, then: Any, tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    break_off(3, path, **first)
    with pytest.raises(CovaryError, match="belongs to another problem"):
        learn(MODEL, DATA, checkpoint=path, **then)


def test_a_file_that_is_no_journal_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    with pytest.raises(CovaryError, match="is not a checkpoint; give the name of a new file"):
        learn(MODEL, DATA, checkpoint=path)
    assert path.read_text() == "precious"


def test_fingerprints_tell_shapes_types_and_numbers_apart() -> None:
    a = np.arange(6.0)
    others = [(a.reshape(2, 3),), (a.astype(np.float32),), (a, 1), (-a,), (LowRank(a[:, None]),), (LowRank(-a[:, None]),)]
    others += [(Data(a[:, None], a),), (Data(a[:, None], a, weight=a + 1),), (Data(a[:, None], a, a + 1),)]
    others += [(Data(Inputs(a[:, None], {"output": np.repeat([0, i], 3)}), a),) for i in (1, 2)]
    assert len({fingerprint(a), *(fingerprint(*parts) for parts in others)}) == 12


def weighted(c: float) -> Any:
    """Return an objective with its optimum where the logarithm of the length-scale is c."""
    return lambda model, data: -((jnp.log(model.kernel.kernel.lengthscale) - c) ** 2).sum()


CENTRE = 0.0


def centred(model: Any, data: Data) -> Any:
    return weighted(CENTRE)(model, data)


class Centred:
    def __init__(self, c: float) -> None:
        self.c = c

    def __repr__(self) -> str:
        return "Centred()"

    def __call__(self, model: Any, data: Data) -> Any:
        return weighted(self.c)(model, data)


def test_a_journal_of_another_objective_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objectives differ in code, defaults, enclosed values, attributes or global variables, even if their names are equal."""
    others = [weighted(1.0), partial(weighted(0.0), data=1), Centred(0.0), Centred(1.0), centred, jax.jit(weighted(2.0))]
    others += [lambda model, data, c=0.0: c, lambda model, data, c=1.0: c, Centred(2.0).__call__, Function(weighted(3.0))]
    others += [Function(weighted(4.0)), lambda model, data: np.sin(data), lambda model, data: np.cos(data)]
    known = {fingerprint(other) for other in others}
    assert len(known) == len(others)
    assert {fingerprint(weighted(1.0)), fingerprint(Centred(1.0)), fingerprint(centred)} <= known
    monkeypatch.setitem(globals(), "CENTRE", 1.0)
    assert fingerprint(centred) not in known
    with pytest.raises(CovaryError, match=r"contains a Generator, which cannot be compared .* leave checkpoint out"):
        fingerprint(lambda model, data: RNG.normal())
    fixed = {"priors": None, "checkpoint": tmp_path / "j"}
    found = learn(MODEL, DATA, objective=weighted(0.0), **fixed)
    assert learn(MODEL, DATA, objective=weighted(0.0), **fixed).value == found.value
    with pytest.raises(CovaryError, match="belongs to another problem"):
        learn(MODEL, DATA, objective=weighted(1.0), **fixed)


CODE = """
import sys, time, numpy as np
from covary import GP, Data, Model, learn
from covary.likelihoods import Gaussian
from covary.means import Function
from covary.selection.state import watching
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))
def tell(now):
    if now.steps == 3:
        print("ready", flush=True)
    time.sleep(0.2)
with watching(tell):
    model = Model(GP("1.0 * Matern52(lengthscale=[1,1,1,1])"), likelihood=Gaussian(0.1))
    fit = learn(model, Data(X, np.sin(X[:, 0])), n_restarts=20)
print(fit.status, np.isfinite(fit.value), flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_keeps_the_best_so_far() -> None:
    process = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    rest, error = process.communicate(timeout=300)
    assert rest == "interrupted True\n", error
    assert process.returncode == 0


def test_ctrl_c_ends_a_search_within_a_search_and_the_second_time_is_ordinary() -> None:
    from covary.optimise.base import Clock, interruptible

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may have none
    outer, inner = Clock(), Clock()
    try:
        with interruptible(outer):
            with interruptible(Clock()):
                pass  # one that was over before
            assert not outer.interrupted
            with interruptible(inner):
                signal.raise_signal(signal.SIGINT)
            assert (inner.interrupted, outer.interrupted) == (True, True)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
