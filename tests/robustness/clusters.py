"""Attacks on embedded clusters: workers killed at random times, other processes at their ports, keys readable by others."""

from __future__ import annotations

import os
import random
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from cluster import pieces
from covary import GPRegressor
from covary.committee import Committee
from covary.executors import Dask, Serial
from robustness.record import Case, refuses

TITLE = "embedded clusters: workers killed, ports, keys"
LEAST = 51
LIMIT = 300.0  # seconds after which a case counts as hung

RNG = np.random.default_rng(3)
X = RNG.uniform(-3, 3, (240, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(240)
THETA = np.array([0.7, 1.3, 2.1])


# what the cases share ---------------------------------------------------------------------------------------------
def within(work: Callable[[], Any], seconds: float = LIMIT) -> Any:
    """What it returns or raises; a failure if it does not end."""
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.append((True, work()))
        except BaseException as error:
            ended.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert ended, f"hung for {seconds:.0f} s"
    done, value = ended[0]
    if not done:
        raise value
    return value


def until(true: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: waited in vain"
        time.sleep(0.02)


def family(executor: Dask) -> list[psutil.Process]:
    """The process that keeps the workers, and all below it."""
    started = executor._cluster.started if executor._cluster is not None else []
    found: list[psutil.Process] = []
    for process in started:
        try:
            keeper = psutil.Process(process.pid)
            found += [keeper, *keeper.children(recursive=True)]
        except psutil.Error:
            pass
    return found


def workers(executor: Dask) -> list[psutil.Process]:
    """The worker processes themselves."""
    found = []
    for process in family(executor):
        try:
            if any("spawn_main" in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            pass
    return found


def kill(processes: list[psutil.Process]) -> int:
    """All of them, at once."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
    return len(processes)


def fit(executor: Any) -> tuple[bytes, ...]:
    """A small committee, and everything that must not depend on who did the work."""
    committee = Committee(8, rule="grbcm", partition="kd_tree")
    model = GPRegressor("1.0 * Matern52(lengthscale=[1.0, 1.0])", method=committee, executor=executor, n_restarts=0)
    model.set_params(random_state=0).fit(X, Y)
    mean, std = model.predict(X[:20], return_std=True)
    return model.learned_.theta.tobytes(), mean.tobytes(), std.tobytes()


class Shared:
    """One cluster of so many workers for several cases, and how many calls an undisturbed fit makes."""

    def __init__(self, count: int) -> None:
        self.executor = Dask(workers=count)
        self.expected = within(partial(fit, self.executor))
        real, calls = self.executor.map, [0]

        def counted(*arguments: Any, **more: Any) -> Any:
            calls[0] += 1
            return real(*arguments, **more)

        self.executor.map = counted  # type: ignore[method-assign]
        assert within(partial(fit, self.executor)) == self.expected
        self.executor.map, self.calls = real, calls[0]  # type: ignore[method-assign]


# workers that die -------------------------------------------------------------------------------------------------
def killed_in_a_fit(shared: Callable[[], Shared], seed: int, who: str) -> None:
    """SIGKILL at a random moment of a fit; twice for some; the same bits as undisturbed."""
    found, rng = shared(), random.Random(seed)
    moments = [(rng.randrange(found.calls), rng.uniform(0, 0.2)) for _ in range(2 if seed % 3 == 0 else 1)]
    real, calls, threads, hit = found.executor.map, [0], list[threading.Timer](), [0]

    def strike() -> None:
        until(lambda: workers(found.executor), "somebody to kill")  # they may be starting again after the case before
        hit[0] += kill(workers(found.executor) if who == "workers" else family(found.executor))

    def watched(*arguments: Any, **more: Any) -> Any:
        for call, pause in moments:
            if call == calls[0]:
                threads.append(threading.Timer(pause, strike))
                threads[-1].start()
        calls[0] += 1
        return real(*arguments, **more)

    found.executor.map = watched  # type: ignore[method-assign]
    try:
        assert within(partial(fit, found.executor)) == found.expected, "other bits"
    finally:
        found.executor.map = real  # type: ignore[method-assign]
        for thread in threads:
            thread.join()
    assert hit[0], "nobody was killed"


def killed_while_starting(seed: int) -> None:
    """Workers killed as they come up: they are started again."""
    rng = random.Random(100 + seed)
    with Dask(workers=1 + seed % 2) as executor:
        done = threading.Event()

        def disturb() -> None:
            for _ in range(2):
                while not (found := workers(executor)):
                    if done.wait(0.01):
                        return
                done.wait(rng.uniform(0, 1.0))
                kill(found)

        thread = threading.Thread(target=disturb, daemon=True)
        thread.start()
        try:
            assert within(partial(executor.map, pieces.fail_at, range(6), -1)) == list(range(6))
        finally:
            done.set()
            thread.join()


def killed_at_every_piece(shared: Callable[[], Shared], every: int) -> None:
    """Again and again in one call, but never the same piece too often: it goes on to the end."""
    executor, handles = shared().executor, shared().executor.hold(pieces.load, range(12))
    expected = Serial().map(pieces.evaluate, [pieces.load(k) for k in range(12)], THETA)

    def disturb(done: int, _: int) -> None:
        if done % every == 0 and done < 12:
            kill(workers(executor))

    found = within(lambda: executor.map(pieces.evaluate, handles, THETA, 0.02, note=disturb))
    assert all(a == b and u.tobytes() == v.tobytes() for (a, u), (b, v) in zip(found, expected, strict=True))


def always_killed(shared: Callable[[], Shared], where: int) -> None:
    """A piece that ends its worker each time is named."""
    import dask
    import distributed  # noqa: F401  (its settings are there before one of them is changed)

    with dask.config.set({"distributed.scheduler.allowed-failures": 1}):
        said = refuses(lambda: within(lambda: shared().executor.map(suicide, range(6), where)))
    assert f"piece {where + 1} of 6 ended its worker 2 times" in said, said
    assert shared().executor.map(suicide, range(6), -1) == list(range(6))  # and the next call works


def suicide(number: int, where: int) -> int:
    """Ends its process at one of its pieces."""
    if number == where:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def cannot_be_started(variable: str, value: str) -> None:
    """Workers that cannot come up: a sentence, not a wait for ever."""
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        said = refuses(lambda: within(lambda: Dask(workers=1).map(len, ["a"])))
    finally:
        os.environ.pop(variable) if before is None else os.environ.update({variable: before})
    assert "its 1 worker" in said, said


# ports and keys -----------------------------------------------------------------------------------------------------
def listening(executor: Dask) -> list[Any]:
    """The addresses on which this process and those it started listen."""
    found = []
    for process in [psutil.Process(), *family(executor)]:
        found += [c.laddr for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    return found


def only_loopback(shared: Callable[[], Shared]) -> None:
    """Every socket is on loopback: the scheduler's two, each worker's two and its nanny's."""
    found = listening(shared().executor)
    assert len(found) >= 5, found
    assert all(address.ip in ("127.0.0.1", "::1") for address in found), found


STRANGER = """
import os, sys, threading
from distributed import Client
from distributed.security import Security
how, addresses = sys.argv[1], sys.argv[2:]
def visit(address):
    security = Security.temporary() if how == "other keys" else None
    client = Client(address, timeout=3.0, security=security, set_as_default=False)
    print("ran", address, client.run(os.getpid), client.run_on_scheduler(os.getpid), flush=True)
threading.excepthook = lambda _: None
threads = [threading.Thread(target=visit, args=(address,), daemon=True) for address in addresses]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(6.0)
print("tried", flush=True)
os._exit(0)
"""


def stranger(shared: Callable[[], Shared], how: str) -> None:
    """A client without the keys runs nothing, at any port."""
    executor = shared().executor
    scheme = "tcp" if how == "no keys" else "tls"
    addresses = [f"{scheme}://{address.ip}:{address.port}" for address in listening(executor)]
    command = [sys.executable, "-c", STRANGER, how, *addresses]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.stdout == "tried\n", done.stdout + done.stderr[-300:]
    assert within(lambda: executor.map(len, ["ab"])) == [2]


def noise(shared: Callable[[], Shared], content: bytes) -> None:
    """Bytes that are no message: the workers go on."""
    executor = shared().executor
    for address in listening(executor):
        with socket.create_connection((address.ip, address.port), timeout=5) as link:
            link.settimeout(1.0)
            try:
                link.sendall(content)
                link.recv(100)
            except OSError:
                pass
    assert within(lambda: executor.map(len, ["ab"])) == [2]


def web(shared: Callable[[], Shared], page: str) -> None:
    """The HTTP servers that Dask always starts say nothing."""
    for address in listening(shared().executor):
        with socket.create_connection((address.ip, address.port), timeout=5) as link:
            link.settimeout(1.0)
            said = b""
            try:
                link.sendall(f"GET {page} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                said = link.recv(200)
            except OSError:
                pass
        assert b" 200 " not in said[:20], f"port {address.port}: {said!r}"


def keys_are_private(shared: Callable[[], Shared]) -> None:
    """Keys are in files that only the user can read, and neither in arguments nor in the environment."""
    cluster = shared().executor._cluster
    folder = cluster.scratch.path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.glob("*.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    secret = (folder / "key.pem").read_text().splitlines()[1]
    assert len(list(folder.glob("*.pem"))) == 2
    for process in family(shared().executor):
        assert secret not in " ".join(process.cmdline()) + " ".join(process.environ().values())


def keys_go(_: Path) -> None:
    """Nothing is left of a cluster that was closed."""
    with Dask(workers=1) as executor:
        assert executor.map(len, ["ab"]) == [2]
        folder, processes = executor._cluster.scratch.path, family(executor)
    assert not folder.exists()
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def tls_elsewhere(folder: Path, how: str) -> None:
    """A scheduler with keys of its own: reached with them, refused without."""
    import dask
    from distributed import LocalCluster
    from distributed.security import Security

    folder.mkdir()
    made = Security.temporary()
    (folder / "key.pem").write_text(made.tls_client_key)
    (folder / "cert.pem").write_text(made.tls_client_cert)
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    named = {"tls.ca-file": cert, "tls.client.key": key, "tls.client.cert": cert}
    security = Security(require_encryption=True, tls_ca_file=cert, tls_client_key=key, tls_client_cert=cert)
    options: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "tls://"}
    options |= {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(security=made, **options))
        address = cluster.scheduler_address
        if how == "nothing":
            said = refuses(lambda: within(lambda: Dask(address, timeout=3.0).map(len, ["ab"])))
            assert "keys" in said, said
            return
        if how == "other keys":
            other = Dask(address, timeout=3.0, security=Security.temporary())
            assert "keys" in refuses(lambda: within(lambda: other.map(len, ["ab"])))
            return
        given = {} if how == "configuration" else {"security": security}
        if how == "configuration":
            stack.enter_context(dask.config.set({f"distributed.comm.{name}": value for name, value in named.items()}))
        with Dask(address, timeout=20.0, **given) as executor:
            assert within(lambda: executor.map(len, ["ab"])) == [2]


def cases(folder: Path) -> Iterator[Case]:
    """All of them, the same every time."""
    one, two = (cache(partial(Shared, count)) for count in (1, 2))
    try:
        for count, shared in ((1, one), (2, two)):
            for seed in range(10):
                who = "keeper" if seed in (4, 8) else "workers"
                yield Case(f"{count} workers, {who} killed, {seed}", partial(killed_in_a_fit, shared, 10 * count + seed, who))
            yield Case(f"{count} workers, killed every 4 pieces", partial(killed_at_every_piece, shared, 4))
            yield Case(f"{count} workers, a piece that kills", partial(always_killed, shared, 2))
        for seed in range(4):
            yield Case(f"killed while starting, {seed}", partial(killed_while_starting, seed))
        yield Case("no Python to be found", partial(cannot_be_started, "PYTHONHOME", str(folder / "nowhere")))
        yield Case("only loopback", partial(only_loopback, two))
        for how in ("no keys", "tls without keys", "other keys"):
            yield Case(f"a client with {how}", partial(stranger, two, how))
        random_bytes = random.Random(0).randbytes
        hello = ssl.MemoryBIO(), ssl.MemoryBIO()
        probe = ssl._create_unverified_context().wrap_bio(*hello)
        with suppress(ssl.SSLWantReadError):
            probe.do_handshake()
        for name, content in {
            "nothing": b"",
            "letters": b"GET / HTTP/1.1\r\n\r\n" * 50,
            "bytes": random_bytes(5000),
            "a large length": b"\xff" * 64,
            "half a handshake": hello[1].read()[:40],
        }.items():
            yield Case(f"{name} at every port", partial(noise, two, content))
        for page in (
            "/",
            "/status",
            "/info/main/workers.html",
            "/json/counts.json",
            "/json/identity.json",
            "/metrics",
            "/health",
        ):
            yield Case(f"GET {page}", partial(web, two, page))
        yield Case("keys are private", partial(keys_are_private, two))
        yield Case("keys go", partial(keys_go, folder))
        for number, how in enumerate(("nothing", "other keys", "configuration", "security=")):
            yield Case(f"tls scheduler, {how}", partial(tls_elsewhere, folder / f"tls{number}", how))
    finally:
        for shared in (one, two):
            if shared.cache_info().currsize:
                shared().executor.close()
