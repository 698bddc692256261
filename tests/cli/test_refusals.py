"""What the command says when it refuses: the option, the file and its line, what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from covary import GPRegressor
from covary._errors import CovaryError, Option
from covary.cli.config import read_config
from covary.cli.errors import BadUsage
from covary.cli.rendering import message, rendered
from covary.executors.dealing import nobody
from covary.families.gaussian_process.checks import _peaks

Call = Callable[..., Any]
FIT = ("fit", "t.csv", "-t", "y", "--restarts", "0")
NO_Q = "'t.csv' has no column 'q'; its columns are 'x', 'z', 'y', 'k', 's'."


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0.1, 0.9, 20).round(3), rng.normal(size=20).round(3)
    x[4] = 6.5  # on line 6
    rows = [f"{a},{b},{np.sin(9 * a):.4f},{i % 7},0.5" for i, (a, b) in enumerate(zip(x, z, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["x,z,y,k,s", *rows]) + "\n")
    (tmp_path / "new.csv").write_text("x,z\n0.5,1\n")
    (tmp_path / "words.toml").write_text('data = "t.csv"\ntarget = "y"\nrestarts = "many"\n')
    (tmp_path / "choice.toml").write_text('data = "t.csv"\ntarget = "y"\nmissing = "dorp"\n')


REFUSED: list[tuple[tuple[str, ...], str, int]] = [
    # files that are not checkpoints
    (
        (*FIT, "--checkpoint", "new.csv"),
        "--checkpoint is 'new.csv', which is not a checkpoint; give the name of a new file.",
        2,
    ),
    ((*FIT, "--checkpoint", "t.csv"), "--checkpoint is 't.csv', which is also an input; write to another file.", 2),
    ((*FIT, "--checkpoint", "new.csv", "--method", "svgp"), "--checkpoint is 'new.csv', which is not a checkpoint; give", 2),
    ((*FIT, "--checkpoint", "new.csv", "--experts", "2"), "--checkpoint: 'new.csv' is a file; give the name of a folder.", 2),
    # files to write
    ((*FIT, "--report", "r.pdf"), "--report is 'r.pdf'; give a name that ends in .html.", 2),
    (("report", "t.csv", "--out", "r.pdf"), "--out is 'r.pdf'; give a name that ends in .html.", 2),
    (("export", "t.csv", "p.txt"), "FILE is 'p.txt'; give a name that ends in .py.", 2),
    (("export", "t.csv", "no/p.py"), "FILE: the folder 'no' does not exist; create it, or write elsewhere.", 2),
    (("datasets", "step", "--out", "/dev/full"), "--out: '/dev/full' was not written (No space left on device); free", 2),
    (("demo", "--out", "t.csv"), "--out: 't.csv' is a file; give the name of a folder.", 2),
    ((*FIT, "--save-config", "no/a.toml"), "--save-config: the folder 'no' does not exist; create it, or write elsewhere.", 2),
    ((*FIT, "--out", "a.html", "--report", "a.html"), "--report is 'a.html', to which --out writes as well; give", 2),
    # models
    (("report", "t.csv"), "'t.csv' is a table, or a damaged model file; give a model, which covary fit writes, as MODEL.", 4),
    (("predict", "-", "new.csv"), "a model cannot be read from stdin; give the name of a file.", 4),
    # columns
    (("fit", "t.csv", "-t", "q"), f"--target: {NO_Q}", 2),
    ((*FIT, "--inputs", "x,q"), f"--inputs: {NO_Q}", 2),
    ((*FIT, "--ignore", "q"), f"--ignore: {NO_Q}", 2),
    ((*FIT, "--categories", "q"), f"--categories: {NO_Q}", 2),
    ((*FIT, "--noise-column", "q"), f"--noise-column: {NO_Q}", 2),
    ((*FIT, "--inputs", "x,y"), "the column 'y' is given by --target and by --inputs; remove it from one of them.", 2),
    ((*FIT, "--noise-column", "y"), "the column 'y' is given by --target and by --noise-column; remove it from one", 2),
    ((*FIT, "--inputs", ""), "--inputs is empty; give the columns to learn from, or leave it out.", 2),
    (("fit", "t.csv", "-t", "y,y"), "--target names a column twice; give each target once.", 2),
    (
        (*FIT, "--categories", "y"),
        "--categories names the column 'y', which is no input; the inputs are 'x', 'z', 'k', 's'.",
        2,
    ),
    ((*FIT, "--partition", "column:q"), "--partition names the column 'q', which is no input; the inputs are 'x', 'z',", 2),
    # kernels
    (
        (*FIT, "--inputs", "x", "--kernel", "BrownianBridge()"),
        "--kernel: BrownianBridge: column 'x' of 't.csv' is 6.5 on line 6; scale the inputs to lie from 0 to 1.",
        3,
    ),
    (
        (*FIT, "--inputs", "x", "--missing", "indicator", "--kernel", "Matern52(lengthscale=[1, 2, 3])"),
        "--kernel: Matern52: lengthscale has 3 entries but the input table has 1 column; give one number or one per column.",
        2,
    ),
    (
        (*FIT, "--kernel", "Matern52() + White()"),
        "--kernel: no kernel is called 'White'; noise is learned from the data; leave it out, or give the known one with "
        "--noise-column.",
        2,
    ),
    (
        (*FIT, "--inputs", "x,z", "--kernel", "FactorMetric(SquaredExponential(), loadings=[[1], [2], [3]])"),
        "--kernel: FactorMetric: loadings has shape (3, 1) but the input table has 2 columns; give one row per column of the "
        "input table.",
        2,
    ),
    # choices that cannot be combined
    (
        ("fit", "t.csv", "-t", "y,z", "--method", "svgp"),
        "--method svgp: the target has 2 columns; give one observation per row, and fit several targets one at a time.",
        2,
    ),
    (
        ("fit", "t.csv", "-t", "k", "--method", "vecchia", "--likelihood", "poisson"),
        "--method vecchia: likelihoods other than Gaussian (sites of kind Diagonal) are not supported; use --method low_rank",
        2,
    ),
    (
        (*FIT, "--method", "low_rank", "--objective", "gcv"),
        "--objective is 'gcv', which requires the exact method, but the method is 'low_rank'; use --method exact, or "
        "--objective evidence.",
        2,
    ),
    (
        (*FIT, "--seasonality", "yearly"),
        "--seasonality yearly is given but no column of 't.csv' contains dates; give dates,",
        2,
    ),
    ((*FIT, "--workers", "2"), "--workers is for committees of experts, or a Parquet table; leave it out, or use --method", 2),
    (
        (*FIT, "--likelihood", "poisson"),
        " Poisson counts are 0, 1, 2 and so on: correct it, or choose another --likelihood.",
        3,
    ),
    (("datasets", "--rows", "4"), "--out, --rows and --seed require the name of a data set; covary datasets lists them.", 2),
    # configurations
    (("fit", "--config", "no.toml"), "--config: there is no file 'no.toml'; check the name.", 2),
    (("fit", "--config", "words.toml"), "--config: 'restarts' of 'words.toml' is 'many'; give a whole number.", 2),
    (
        ("fit", "--config", "choice.toml"),
        "--config: 'missing' of 'choice.toml' is 'dorp'; give one of refuse, drop, impute,",
        2,
    ),
]


@pytest.mark.parametrize(
    ("arguments", "said", "code"), REFUSED, ids=lambda value: " ".join(value) if type(value) is tuple else ""
)
def test_refusals_name_what_is_wrong_and_what_to_do(call: Call, arguments: tuple[str, ...], said: str, code: int) -> None:
    result = call(*arguments)
    assert said in " ".join(result.stderr.split()), result.output
    assert result.exit_code == code


def test_errors_of_the_command_have_parts(call: Call) -> None:
    with pytest.raises(BadUsage) as caught:
        read_config("missing.toml")
    error = caught.value
    assert (error.argument, error.what, error.do) == ("config", "there is no file 'missing.toml'", "check the name")


def test_files_that_could_not_be_written_name_the_option(call: Call, fitted: Path) -> None:
    for arguments in (("predict", fitted / "one.covary", "new.csv", "--out", "/dev/full"), (*FIT, "--out", "/dev/full")):
        assert "--out: '/dev/full' was not written" in call(*arguments).stderr
    result = call("predict", fitted / "one.covary", "new.csv", "--keep", "q")
    assert (result.exit_code, "--keep: 'new.csv' has no column 'q'" in result.stderr) == (2, True)


def test_too_little_memory_names_a_method(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covary._memory.free_memory", lambda: 1000)
    result = call(*FIT, "--method", "exact")
    assert result.exit_code == 6
    assert result.stderr.endswith("use fewer rows or an approximation such as --method low_rank.\n")


def test_schedulers_without_answer_or_workers() -> None:
    from covary.executors.cluster import connect

    with pytest.raises(CovaryError) as caught:
        connect("tcp://127.0.0.1:9", 0.5)
    assert message(caught.value).endswith("or use --workers for this machine.")
    assert str(caught.value).endswith("or use executor=Dask() for this machine.")
    client: Any = SimpleNamespace(scheduler=SimpleNamespace(address="tcp://h:1"))
    assert message(nobody(client, 3.0)).endswith("start some (dask worker ADDRESS --nthreads 1).")
    assert str(nobody(client, 3.0)).endswith("or raise timeout if they take longer.")


def test_a_report_says_which_starts_it_compares() -> None:
    def sentence(**learned: Any) -> str:
        part = SimpleNamespace(learned=SimpleNamespace(**learned) if learned else None)
        return rendered(_peaks(SimpleNamespace(state=SimpleNamespace(parts=[part]))).sentence)  # type: ignore[arg-type]

    assert sentence() == "The search had a single start; set --restarts to look for other explanations."
    assert sentence(in_pieces=True, restarts=[0, 1]) == "The starts of learning in batches are not compared."


def test_an_option_that_an_error_names_is_not_repeated() -> None:
    error = CovaryError("covary", "the column 'a' is also in " + Option("keep"), "remove it", argument="keep")
    assert message(error) == "the column 'a' is also in --keep; remove it."
    assert message(CovaryError("covary", "the column 'a' is missing", "add it", argument="keep")).startswith("--keep: the")


def test_an_estimator_names_the_columns_to_give() -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    model = GPRegressor("Matern52()", fixed="*").fit(X, X[:, 0])
    with pytest.raises(CovaryError, match="X has 1 features, but GPRegressor is expecting 2 features as input; give") as caught:
        model.predict(X[:, :1])
    assert (caught.value.argument, caught.value.do) == ("X", "give the columns of fit in their order")
