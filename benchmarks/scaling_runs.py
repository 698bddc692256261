"""The runs of ``benchmarks.scaling``, each in a separate process: a job, a table of five million rows, costs, real passes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import scaling_model as played
from benchmarks.measure import peak_bytes, say

COLUMNS = 8
EACH = 1000  # rows of an expert
EXPERTS, EVALUATIONS, TESTED = 48, 22, 2000  # of the job that is done by one process, one worker and two
FILES, ON_DISK = 10, 10_000  # of the table on disk: files and experts
FEW = 10  # new rows of a small prediction
TURNS = 3  # of a real pass, of which the best counts
COSTED = (250, 500, 1000, 2000, 3000)  # rows of an expert whose cost is measured


def problem(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and noisy targets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, COLUMNS))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * np.cos(X[:, 2]) + 0.5 * np.tanh(2 * X[:, 3]) + 0.2 * X[:, 4]
    return X, f + 0.3 * rng.standard_normal(rows)


def parts(rows: int, experts: int, rule: str, workers: int) -> tuple[Any, ...]:
    """Return a committee on synthetic rows: model, packing, recipe, committee, fixed parameters, executor, data."""
    from covary import GP, Data, Model
    from covary.committee import Committee
    from covary.committee.expert import Recipe
    from covary.executors import Dask, Serial
    from covary.gram import Dense
    from covary.inference import Exact
    from covary.kernels import Matern52
    from covary.likelihoods import Gaussian
    from covary.parameters import Packing

    model = Model(GP(1.0 * Matern52(lengthscale=np.full(COLUMNS, 2.0))), likelihood=Gaussian(0.1))
    executor = Dask(workers=workers) if workers else Serial()
    data = Data(*problem(rows))
    committee, _ = Committee(experts, rule=rule, partition="random", executor=executor).prepare(model, data)
    return model, Packing(model), Recipe(Exact(), Dense()), committee, committee.held(data), executor, data


def hidden(executor: Any) -> float:
    """Return the processor seconds of the workers, which would otherwise count as background load."""
    client = getattr(executor, "_client", None)
    return 0.0 if client is None else float(sum(client.run(time.process_time).values()))


# one job, by one process, one worker and two --------------------------------------------------------------------------
def job(workers: int, experts: int = EXPERTS, evaluations: int = EVALUATIONS, tested: int = TESTED) -> dict[str, Any]:
    """Run the job with a number of workers, or as a loop in this process if it is zero."""
    from covary import condition
    from covary.committee.expert import evidence

    model, packing, recipe, committee, held, executor, data = parts(experts * EACH, experts, "rbcm", workers)
    X_new, theta = problem(tested, 1)[0], packing.pack(model)

    def evaluate(at: np.ndarray) -> tuple[float, np.ndarray]:
        found = held.map(evidence, packing, recipe, at)
        return sum(v for v, _ in found), np.sum([g for _, g in found], axis=0)

    with executor:
        evaluate(theta)  # the workers start, read their rows and compile
        warm(model, data, committee, workers)
        began, used = time.perf_counter(), time.process_time()
        values = [evaluate(theta + 0.01 * i)[0] for i in range(evaluations)]
        middle = time.perf_counter()
        said = condition(model, data, gram=committee).latent(X_new)
        ended = time.perf_counter()
        cores, own = (time.process_time() - used) / (ended - began), hidden(executor)
    told = float(np.sum(values)).hex(), float(said.mean.sum()).hex(), float(said.variance.sum()).hex()
    return {
        "seconds": ended - began,
        "evaluation": (middle - began) / evaluations,
        "predict": ended - middle,
        "said": " ".join(told),
        "cores": cores,
        "hidden": own,
    }


# five million rows ----------------------------------------------------------------------------------------------------
def generate(folder: str, rows: int, files: int = FILES) -> dict[str, float]:
    """Write the table to files with a few row groups each."""
    import pandas as pd

    began = time.perf_counter()
    each = rows // files
    for i in range(files):
        X, y = problem(each, 100 + i)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)]).assign(y=y)
        frame.to_parquet(Path(folder) / f"part-{i:03d}.parquet", row_group_size=max(1, min(250_000, each // 2)), index=False)
    size = sum(p.stat().st_size for p in Path(folder).iterdir())
    return {"seconds": time.perf_counter() - began, "bytes": size}


class Clocked:
    """Seconds spent in given functions of a module, by name; none of them calls another."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, place: Any, name: str, title: str) -> None:
        """Start measuring ``place.name``."""
        inner = getattr(place, name)

        def outer(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return inner(*arguments, **named)
            finally:
                self.seconds[title] = self.seconds.get(title, 0.0) + time.perf_counter() - began
                say(f"{title}: {self.seconds[title]:.1f} s so far")

        setattr(place, name, outer)


def on_disk(folder: str, workers: int = 2, experts: int | None = ON_DISK, tested: int = played.TESTED) -> dict[str, Any]:
    """Fit and predict a table on disk; return the seconds of every phase, and the peak memory of every process."""
    import pandas as pd

    from covary import GPRegressor
    from covary.committee import Committee, Parquet, settings
    from covary.committee.experts import Table as OnDisk
    from covary.committee.experts import collect
    from covary.executors import Dask

    clock = Clocked()
    clock.watch(OnDisk, "survey", "rows checked")
    clock.watch(settings, "learn", "search on a sample of rows")
    clock.watch(OnDisk, "deal", "rows read and assigned to experts")
    clock.watch(settings, "shared", "search on experts")
    clock.watch(Committee, "condition", "every expert reads its rows and conditions")
    X_new, y_new = problem(tested, 99)
    frame = pd.DataFrame(X_new, columns=[f"x{j}" for j in range(COLUMNS)])
    with Dask(workers=workers) as executor:
        executor.map(abs, [1])  # start-up
        table = Parquet(folder)
        began = time.perf_counter()
        method = Committee(experts, partition="kd_tree")
        model = GPRegressor(method=method, executor=executor, random_state=0).fit(table, "y")
        fitted = time.perf_counter() - began
        members = model.posterior_.experts
        took, said = {}, {}
        for name, nearest, rows in (
            ("few", members.nearest, FEW),
            ("near", members.nearest, tested),
            ("predict", None, tested),
        ):
            members.nearest = nearest  # None: every expert is used
            began = time.perf_counter()
            said[name] = model.predict(frame[:rows], return_std=True)
            took[name] = time.perf_counter() - began
            say(f"{name}: {took[name]:.1f} s")
        client = executor._client
        peaks, own = list(client.run(peak_bytes).values()), hidden(executor)
    began, some = time.perf_counter(), members.held.items[:: max(1, len(members.held.items) // 20)]
    for piece in some:
        collect(piece)
    collected = (time.perf_counter() - began) / len(some)
    sizes = [int(n) for piece in members.held.items for n in piece.batch.rows]
    groups = [[int(n) for n in piece.batch.rows] for piece in members.held.items]
    assert model.learned_ is not None
    return {
        "hidden": own,
        "rows": table.rows,
        "experts": len(sizes),
        "sizes": [min(sizes), int(np.median(sizes)), max(sizes)],
        "groups": groups,
        "shared": 0 if members.shared is None else members.shared.rows,
        "seated": members._seats is not None,
        "fit": fitted,
        **took,
        "phases": clock.seconds,
        "collect": collected,
        "client": peak_bytes() / 2**30,
        "workers": [p / 2**30 for p in peaks],
        "scores": {name: scored(y_new, *said[name]) for name in ("near", "predict")},
        "chunks": len(table.chunks),
        "levels": [float(n) for n in model.learned_.levels],
        "steps": int(model.learned_.steps),
    }


def scored(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> tuple[float, float, float]:
    """Return RMSE, NLPD, and the coverage of the 95 % intervals."""
    z = (y - mean) / std
    nlpd = (0.5 * np.log(2 * np.pi * std**2) + 0.5 * z**2).mean()
    return float(np.sqrt(((y - mean) ** 2).mean())), float(nlpd), float((np.abs(z) < 1.96).mean())


# costs, and runs to check the model against ---------------------------------------------------------------------------
def timed(group: Any, packing: Any, recipe: Any, theta: np.ndarray, X: Any, repeats: int) -> list[float]:
    """On a worker: return the mean seconds of evidence and gradient, of conditioning and of a prediction."""
    from covary.committee.expert import evidence, expert

    model = packing.unpack(theta)
    took, kept = np.zeros(3), []  # the experts of a pass are kept, so that each allocates its own memory
    for turn in range(1 + repeats):
        marks = [time.perf_counter()]
        evidence(group, packing, recipe, theta)
        marks.append(time.perf_counter())
        post = expert(group.rows[0], model, recipe, None)
        kept.append(post)
        marks.append(time.perf_counter())
        post.latent(X)
        marks.append(time.perf_counter())
        took += np.diff(marks) if turn else 0.0  # the first turn compiles
    return [float(v) for v in took / repeats]


def nothing(piece: Any, size: int) -> np.ndarray:
    """On a worker: return a number of bytes."""
    return np.zeros(size // 8)


def costs(workers: int = 2, sizes: tuple[int, ...] = COSTED, tasks: int = 2000) -> dict[str, Any]:
    """Measure the costs of an expert, a task and a byte with all workers busy."""
    import pickle

    from covary.committee import GRBCM
    from covary.data import as_inputs
    from covary.executors import Dask
    from covary.prediction import Spread

    X_new = as_inputs(problem(played.TESTED, 1)[0])
    found, result, task, byte, own = [], 0, 0.0, 0.0, 0.0
    for n in sizes:
        model, packing, recipe, _, held, _, _ = parts(n * 2 * workers, 2 * workers, "rbcm", 0)
        groups = [g for item in held.items for g in alone(item)]
        theta = packing.pack(model)
        repeats = max(2, min(20, round(2e9 / n**3)))
        with Dask(workers=workers) as executor:
            executor.map(timed, groups, packing, recipe, theta, X_new, 1)
            each = np.mean(executor.map(timed, groups, packing, recipe, theta, X_new, repeats), axis=0)
            if n == sizes[0]:
                start = Spread(np.zeros(X_new.rows), np.ones(X_new.rows))
                result = len(pickle.dumps(GRBCM().opinion(start, start)))
                handles = executor.hold(int, list(range(tasks)))
                executor.map(nothing, handles, 8)
                began = time.perf_counter()
                executor.map(nothing, handles, 8)
                task = (time.perf_counter() - began) / tasks
                began = time.perf_counter()
                executor.map(nothing, handles, result)
                byte = max(0.0, (time.perf_counter() - began) / tasks - task) / result
            own += hidden(executor)
        found.append(each)
        say(f"{n} rows: evidence {each[0]:.4f}, condition {each[1]:.4f}, predict {each[2]:.4f} s; task {task:.5f} s")
    columns = [[float(v) for v in column] for column in np.array(found).T]
    return {"rows": list(sizes), **dict(zip(("evidence", "condition", "predict"), columns, strict=True))} | {
        "task": task,
        "byte": byte,
        "result": result,
        "hidden": own,
    }


def alone(group: Any) -> list[Any]:
    """Return the experts of a group, one by one."""
    from covary.committee.expert import Group

    return [Group((number,), (rows,)) for number, rows in zip(group.numbers, group.rows, strict=True)]


def passes(rows: int, workers: int = 2) -> dict[str, Any]:
    """Measure passes over a committee: all evidences, conditioning of all experts, and a prediction; the best of several."""
    from covary import condition
    from covary.committee.expert import evidence

    model, packing, recipe, committee, held, executor, data = parts(rows, rows // EACH, "rbcm", workers)
    X_new, theta = problem(played.TESTED, 1)[0], packing.pack(model)
    out: dict[str, Any] = {}
    with executor:
        warm(model, data, committee, workers)
        held.map(evidence, packing, recipe, theta, which=range(min(len(held.items), 2 * workers)))
        held.map(count)  # every worker has its rows
        turns: list[np.ndarray] = []
        post: Any = None
        for _ in range(TURNS):
            post = None  # the experts of the previous run are removed
            marks = [time.perf_counter()]
            held.map(evidence, packing, recipe, theta)
            marks.append(time.perf_counter())
            post = condition(model, data, gram=committee)
            marks.append(time.perf_counter())
            post.latent(X_new)
            marks.append(time.perf_counter())
            turns.append(np.diff(marks))
        out |= dict(zip(("evidence", "condition", "predict"), map(float, np.min(turns, axis=0)), strict=True))
        out["first"] = float(turns[0][1])
        out["hidden"] = hidden(executor)
    say(f"{rows} rows: {out}")
    out["seated"] = post.experts._seats is not None
    out["groups"] = [[int(d.rows) for d in group.rows] for group in held.items]
    return out


def warm(model: Any, data: Any, committee: Any, workers: int) -> None:
    """Let every worker condition an expert and predict once, so that it starts and compiles."""
    from covary import condition
    from covary.committee.experts import TOGETHER

    rows = 2 * max(1, workers) * TOGETHER  # two groups for each
    few = data.take(slice(0, min(rows, data.rows)))
    condition(model, few, gram=committee.replace(experts=few.rows // EACH, settled=None)).latent(problem(played.TESTED, 1)[0])


def count(group: Any) -> int:
    """On a worker: return the number of stored experts."""
    return len(group.rows)
