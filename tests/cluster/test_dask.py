"""Executors on a local cluster: results do not depend on deaths of workers or clients, lack of memory, or other clients."""

from __future__ import annotations

import io
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster import pieces
from cluster.machines import PATH, TESTS, Cluster, until
from covary._checks import CovaryError
from covary.committee.ledger import Ledger
from covary.committee.shuffle import load, spread
from covary.executors import Dask, Serial
from covary.tables.parquet import Parquet

THETA = np.array([0.7, 1.3, 2.1])
MANY = list(range(24))


def same(a: Any, b: Any) -> bool:
    """The same to the last bit."""
    return all(x == y and u.tobytes() == v.tobytes() for (x, u), (y, v) in zip(a, b, strict=True))


@pytest.fixture(scope="module")
def executor(cluster: Cluster) -> Iterator[Dask]:
    with Dask(cluster.address) as executor:
        until(lambda: executor.workers == 3)
        yield executor


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    serial = Serial()
    return serial.map(pieces.evaluate, serial.hold(pieces.load, MANY), THETA)


def test_the_results_are_those_of_one_process_in_the_same_order(executor: Dask, expected: list[Any]) -> None:
    told: list[tuple[int, int]] = []
    handles = executor.hold(pieces.load, MANY)
    assert same(executor.map(pieces.evaluate, handles, THETA, note=lambda *v: told.append(v)), expected)
    assert told == [(k, 24) for k in range(1, 25)]
    some = [5, 17, 2, 23]
    assert same(executor.map(pieces.evaluate, [handles[i] for i in some], THETA), [expected[i] for i in some])
    assert same(executor.map(pieces.evaluate, list(map(pieces.load, some)), THETA), [expected[i] for i in some])
    large = np.concatenate([THETA, np.zeros(300_000)])  # more than a task carries by itself
    assert same(executor.map(pieces.evaluate, handles, large), expected)
    assert len(set(executor.map(pieces.pid, MANY))) == 3
    executor.release(handles)


def test_data_stay_where_they_were_loaded_and_every_worker_has_its_share(executor: Dask) -> None:
    handles = executor.hold(pieces.pid, MANY)
    first = executor.map(max, [[h] for h in (1, 2)])
    assert first == [1, 2]
    homes = executor.map(pieces.and_me, handles)
    shares = Counter(home for home, _ in homes)
    assert len(shares) == 3
    assert min(shares.values()) >= 2  # what each is given at first; one may help another, who is slow
    assert all(home == me for home, me in homes)  # read by whoever works with it
    assert [home for home, _ in executor.map(pieces.and_me, handles)] == [home for home, _ in homes]  # not loaded again


@pytest.mark.parametrize("size", [3, 300_000], ids=["small", "large"])
def test_a_worker_killed_in_the_middle_changes_no_bit(size: int, cluster: Cluster, executor: Dask, expected: list[Any]) -> None:
    theta = np.concatenate([THETA, np.zeros(size - 3)])
    handles = executor.hold(pieces.load, MANY)
    executor.map(pieces.evaluate, handles, theta)  # data are everywhere

    def kill(done: int, _: int) -> None:
        if done == 6:
            cluster.kill()

    try:
        assert same(executor.map(pieces.evaluate, handles, theta, 0.1, note=kill), expected)
        assert executor.workers == 2
    finally:
        cluster.start()
        until(lambda: executor.workers == 3)
    assert same(executor.map(pieces.evaluate, handles, theta), expected)


def test_an_error_comes_back_as_it_is_and_the_next_call_works(executor: Dask) -> None:
    with pytest.raises(CovaryError, match=r"^pieces: piece 4 is refused\.$"):
        executor.map(pieces.fail_at, MANY, 4, 0.02)
    for error, kind in (("timeout", TimeoutError), ("os", OSError), ("key", KeyError)):
        with pytest.raises(kind, match="mine"):
            executor.map(pieces.late, [1, 2], error)
    handles = executor.hold(lambda number: pieces.fail_at(number, 3), MANY[:5])
    with pytest.raises(CovaryError, match="piece 3 is refused"):
        executor.map(pieces.fail_at, handles, -1)
    assert executor.map(pieces.fail_at, MANY, -1) == MANY


def test_an_interrupt_takes_back_what_is_outstanding(executor: Dask, tmp_path: Path) -> None:
    def interrupt(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor.map(pieces.evaluate, executor.hold(pieces.load, MANY), THETA, 0.2, str(tmp_path), note=interrupt)
    until(lambda: not any(executor._client.processing().values()))
    time.sleep(0.5)
    assert len(list(tmp_path.iterdir())) <= 2 + 6 + 6  # known, finished meanwhile, and in the hands of three workers
    assert executor.map(pieces.fail_at, [1, 2], -1) == [1, 2]


CLIENT = """
import os, signal, sys, numpy as np
from cluster import pieces
from covary.committee.ledger import Ledger
from covary.executors import Dask
address, folder = sys.argv[1:]
executor = Dask(address)
keys = [f"piece {k}" for k in range(24)]
theta = np.array([0.7, 1.3, 2.1])
def killed(done, _):
    if done == 7:
        os.kill(os.getpid(), signal.SIGKILL)
executor.map(pieces.evaluate, executor.hold(pieces.load, range(24)), theta, keep=Ledger(folder, "p"), keys=keys, note=killed)
"""


def test_a_client_that_was_killed_goes_on_where_it_was(
    cluster: Cluster, executor: Dask, expected: list[Any], tmp_path: Path
) -> None:
    kept, log = tmp_path / "kept", tmp_path / "log"
    log.mkdir()
    run = [sys.executable, "-c", CLIENT, cluster.address, str(kept)]
    done = subprocess.run(run, env={**os.environ, "PYTHONPATH": PATH, "JAX_PLATFORMS": "cpu"}, timeout=600, check=False)
    assert done.returncode == -signal.SIGKILL
    ledger, keys = Ledger(kept, "p"), [f"piece {k}" for k in MANY]
    assert sum(ledger.get(key) is not None for key in keys) == 7
    handles = executor.hold(pieces.load, MANY)
    results = executor.map(pieces.evaluate, handles, THETA, 0.0, str(log), keep=ledger, keys=keys)
    assert same(results, expected)
    assert len(list(log.iterdir())) == 24 - 7
    assert same([ledger.get(key) for key in keys], expected)


@pytest.mark.parametrize("splitter", [pieces.Signs(), None], ids=["sorted", "arrival"])
def test_workers_read_a_table_themselves_and_the_rows_are_those_of_one_process(
    splitter: Any, executor: Dask, tmp_path: Path
) -> None:
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(5000, 3)), columns=["a", "b", "y"])
    table.to_parquet(tmp_path / "table.parquet", row_group_size=700)
    found = []
    for where in (Serial(), executor):
        options: dict[str, Any] = {
            "folder": tmp_path / type(where).__name__,
            "splitter": splitter,
            "experts": 4,
            "per_batch": 2,
        }
        batches = spread(where, Parquet(tmp_path / "table.parquet"), target="y", encode=pieces.encode, **options)
        found.append(where.map(pieces.total, where.hold(load, batches)))
    assert found[0] == found[1]
    assert sum(rows for batch in found[0] for rows, _ in batch) == 5000


def test_two_clients_at_once_do_not_disturb_each_other(cluster: Cluster, expected: list[Any]) -> None:
    found: dict[str, Any] = {}

    def work(name: str, theta: np.ndarray) -> None:
        with Dask(cluster.address) as mine:
            handles = mine.hold(pieces.load, MANY)
            found[name] = [mine.map(pieces.evaluate, handles, theta, 0.01) for _ in range(3)]

    def quarrel() -> None:
        with Dask(cluster.address) as mine:
            try:
                mine.map(pieces.fail_at, MANY, 7)
            except CovaryError as error:
                found["error"] = str(error)

    threads = [threading.Thread(target=work, args=("one", THETA)), threading.Thread(target=work, args=("two", 2 * THETA))]
    threads.append(threading.Thread(target=quarrel))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    other = Serial().map(pieces.evaluate, list(map(pieces.load, MANY)), 2 * THETA)
    assert all(same(result, expected) for result in found["one"])
    assert all(same(result, other) for result in found["two"])
    assert found["error"] == "pieces: piece 7 is refused."


# what cannot work ---------------------------------------------------------------------------------------------------
def test_a_scheduler_that_does_not_answer_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else gets that port
        places = [f"127.0.0.1:{s.getsockname()[1]}" for s in (silent, closed)]
        for address in (*(f"tcp://{place}" for place in places), "tcp://no.such.host.invalid:8786"):
            with pytest.raises(CovaryError, match=rf"^Dask: no scheduler answers at {address} within 1 s"):
                Dask(address, timeout=1.0).map(pieces.pid, [1])


def test_no_workers_other_versions_and_a_scheduler_that_goes_away(
    lone: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from covary.executors import cluster

    connect = cluster.connect
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "connect", lambda address, _, security: connect(address, 300.0, security))
        with pytest.raises(CovaryError, match=r"has had no workers for 1 s; start some"):
            Dask(lone.address, timeout=1.0).map(pieces.pid, [1])
    fake = tmp_path / "fake" / "covary"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("__version__ = '0.0.1'")
    lone.start(env={"PYTHONPATH": f"{fake.parent}{os.pathsep}{TESTS}"})
    import covary

    with pytest.raises(CovaryError) as caught:
        Dask(lone.address, timeout=300.0).map(pieces.pid, [1])
    said = str(caught.value)
    assert "has covary 0.0.1, this process has covary " + covary.__version__ in said
    assert "the only worker differs" in said
    assert "tcp://127.0.0.1:" in said
    lone.kill()
    lone.start()
    with Dask(lone.address, timeout=300.0) as executor:

        def replace(done: int, _: int) -> None:
            if done == 3:
                lone.kill()
                lone.start()

        assert executor.map(pieces.fail_at, executor.hold(int, MANY), -1, note=replace) == MANY  # the only worker died
    ledger = Ledger(tmp_path / "kept", "p")

    def away(done: int, _: int) -> None:
        if done == 3:
            lone.scheduler.kill()

    with Dask(lone.address, timeout=300.0) as executor:
        until(lambda: executor.workers == 1)
        with pytest.raises(CovaryError) as caught:
            executor.map(pieces.fail_at, MANY, -1, 0.3, note=away, keep=ledger, keys=[str(k) for k in MANY])
    said = str(caught.value)
    assert f"the connection to the scheduler at {lone.address} was lost" in said
    assert str(ledger.place) in said
    assert ledger.get("0") == 0


def test_workers_that_come_later_are_compared_too() -> None:
    from covary.executors.cluster import check_here, versions

    check_here(versions())
    with pytest.raises(CovaryError, match=r"joined later has jax .*, this process has jax 0\.0"):
        check_here({**versions(), "jax": "0.0"})


# on this machine --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def small() -> Iterator[Dask]:
    """Two workers of little memory; a piece may end one of them once."""
    import dask

    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), Dask(workers=2, memory="700MiB") as executor:
        executor.map(pieces.pid, [1])
        yield executor


def test_workers_of_this_machine_have_one_thread(small: Dask) -> None:
    assert small.workers == 2
    told = small.map(pieces.threads, [1, 2, 3])
    assert all(t == {"pools": 1, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NPROC": "1"} for t in told)
    assert small.dashboard is None or small.dashboard.startswith("http")


@pytest.mark.slow
def test_a_piece_that_takes_all_memory_is_named_and_the_finished_are_kept(small: Dask, tmp_path: Path) -> None:
    ledger, keys = Ledger(tmp_path / "kept", "p"), [str(k) for k in MANY]
    with pytest.raises(CovaryError) as caught:
        small.map(pieces.fill, MANY, 10, 0.05, keep=ledger, keys=keys)
    said = str(caught.value)
    assert said.startswith("Dask: piece 11 of 24 ended its worker 2 times")
    assert "may use 0.7 GiB" in said
    assert "ran out of memory" in said
    assert "use more experts" in said
    assert str(ledger.place) in said
    kept = [k for k in MANY if ledger.get(str(k)) is not None]
    assert len(kept) >= 5  # those that its worker had before it
    assert 10 not in kept
    assert small.map(pieces.fill, MANY, -1, keep=ledger, keys=keys) == MANY  # the others go on


def test_all_workers_killed_at_once_change_no_bit(small: Dask, expected: list[Any]) -> None:
    handles = small.hold(pieces.load, MANY)
    workers = set(small.map(pieces.pid, range(6)))

    def kill(done: int, _: int) -> None:
        if done == 3:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)

    assert same(small.map(pieces.evaluate, handles, THETA, 0.01, note=kill), expected)
    assert not workers & set(small.map(pieces.pid, range(4)))


def test_two_calls_at_once_start_the_workers_again_once() -> None:
    """Where whoever keeps them was killed, the second call waits for the first to replace it."""
    from covary.executors.cluster import Embedded

    class Process:
        def __init__(self, code: int | None) -> None:
            self.code = code

        def poll(self) -> int | None:
            return self.code

    class Kept(Embedded):
        def __init__(self) -> None:
            self.left, self.lock, self.started, self.begun = 3, threading.RLock(), [Process(-9)], 0  # type: ignore[list-item]
            self.other = threading.Thread(target=self.second)
            self.errors: list[BaseException] = []

        def second(self) -> None:
            try:
                self.tend(0)
            except BaseException as error:
                self.errors.append(error)

        def begin(self) -> None:
            self.begun += 1
            self.started.clear()
            if self.begun == 1:
                self.other.start()
                self.other.join(0.1)
            self.started.append(Process(None))  # type: ignore[arg-type]

    kept = Kept()
    kept.tend(0)
    kept.other.join()
    assert (kept.errors, kept.begun) == ([], 1)


def test_everything_listens_on_loopback_and_wants_keys(small: Dask) -> None:
    import psutil
    from distributed import Client

    keeper = psutil.Process(small._cluster.started[-1].pid)
    processes = [psutil.Process(), keeper, *keeper.children(recursive=True)]
    sockets = [c.laddr for p in processes for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert len(sockets) >= 2 + 1 + 1 + 1  # the scheduler and its pages; at least one worker, its pages and its nanny
    assert {address.ip for address in sockets} == {"127.0.0.1"}
    folder = small._cluster.scratch.path
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.glob("*.pem")} == {"key.pem": 0o600, "cert.pem": 0o600}
    for scheme in ("tcp", "tls"):
        address = small._cluster.address.replace("tls", scheme)
        with pytest.raises((OSError, TypeError)):
            Client(address, timeout=0.3, set_as_default=False)
    assert small.map(len, ["ab"]) == [2]


SCRIPT = """
import sys, time, distributed
from pathlib import Path
from covary.executors import Dask
from ours import square
for name in ("click", "json", "cloudpickle"):  # imported here already; workers find what is installed first
    Path(__file__).with_name(name + ".py").write_text("import os; os.abort()")
executor = Dask(workers=2)
found = executor.map(square, range(4), 1)
print([value for value, _ in found], *{pid for _, pid in found}, flush=True)
if "wait" in sys.argv:
    time.sleep(600)
"""
OURS = """
def square(number, add):
    import os, time
    time.sleep(0.2)
    return number**2 + add, os.getpid()
"""


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


@pytest.mark.parametrize("end", ["by itself", "killed", pytest.param("ended", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_plain_script_needs_no_guard_and_leaves_nothing_behind(end: str, tmp_path: Path) -> None:
    for name in ("mine", "data", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine" / "script.py").write_text(SCRIPT)
    (tmp_path / "mine" / "ours.py").write_text(OURS)  # workers find it: beside the script, after what is installed
    for name in ("click", "numpy", "json", "dask"):
        (tmp_path / "data" / f"{name}.py").write_text("import os; os.abort()")
    arguments = [sys.executable, str(tmp_path / "mine" / "script.py"), *([] if end == "by itself" else ["wait"])]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "TMPDIR": str(tmp_path / "tmp")}
    process = subprocess.Popen(
        arguments, env=env, cwd=tmp_path / "data", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("[1, 2, 5, 10] ")
    workers = [int(p) for p in line.split("]")[1].split()]
    assert len(workers) == 2
    if end != "by itself":
        assert all(map(alive, workers))
        os.kill(process.pid, signal.SIGKILL if end == "killed" else signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    until(lambda: not any(map(alive, workers)))
    if end == "by itself":
        assert process.returncode == 0
        assert errors == ""
    until(lambda: not list((tmp_path / "tmp").iterdir()))


FORK = """
import os
from covary.executors import Dask
executor = Dask(workers=1)
assert executor.map(len, ["ab"]) == [2]
if os.fork() == 0:
    assert executor.map(len, ["abc"]) == [3]
    raise SystemExit
assert os.wait()[1] == 0
assert executor.map(len, ["abcd"]) == [4]
"""


@pytest.mark.slow
def test_a_forked_copy_of_a_process_starts_workers_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_workers_start_where_the_current_folder_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.syspath_prepend("")  # as in an interactive session
    with Dask(workers=1) as executor:
        assert executor.map(len, ["ab"]) == [2]


def test_what_the_event_loop_finds_closed_at_the_end_is_not_told() -> None:
    executor = Dask(workers=1)
    executor.map(pieces.pid, [1])
    told = io.StringIO()
    root, log, handler = logging.getLogger("distributed"), logging.getLogger("distributed.batched"), logging.StreamHandler(told)
    cluster = executor._cluster.cluster
    closed = cluster.close

    def close(**kwargs: object) -> None:
        closed(**kwargs)
        log.warning("Batched Comm Closed")  # as the loop may, between the cluster's last word and its own end

    cluster.close = close
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)
    try:
        executor.close()
        assert told.getvalue() == ""
        log.warning("heard again")
        assert told.getvalue() == "heard again\n"
    finally:
        root.removeHandler(handler)
