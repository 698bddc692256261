"""``covary datasets`` and shell completion of names."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from covary import datasets
from covary.datasets.plain import plainly

from .conftest import COMMAND
from .test_fit import error

Call = Callable[..., Any]


def test_the_list(call: Call) -> None:
    result = call("datasets")
    assert result.exit_code == 0, result.output
    for words in ("measured", "generated", "iris", "species", "CC BY 4.0", "step", "R&W, section 5.4.3", "y1,y2"):
        assert words in result.stdout
    found = json.loads(call("datasets", "--json").stdout, parse_constant=pytest.fail)["datasets"]
    assert [row["name"] for row in found] == datasets.names()
    assert set(found[0]) == {"name", "kind", "rows", "columns", "target", "licence", "source"}


def test_one_of_them(call: Call) -> None:
    result = call("datasets", "coal")
    assert result.exit_code == 0
    for words in ("coal mines", "112", "disasters", "unlimited", "Jarrett", "--out coal.csv", "load_coal"):
        assert words in result.stdout
    found = json.loads(call("datasets", "robot_arm", "--json").stdout)
    assert (found["targets"], found["rows"], found["licence"]) == (["y1", "y2"], 200, "generated")
    assert "ε" in call("datasets", "neal").stdout
    for function in (f for name, f in vars(datasets).items() if name.startswith(("load_", "make_"))):
        line = plainly(function.__doc__.strip().splitlines()[0])
        assert not re.search(r"[\\`{}]|:\w+:|big[lr]|mathrm|frac|varepsilon|make_", line), line
    assert "target   none" in " ".join(call("datasets", "disk").stdout.split("\n"))


def test_a_file_to_work_with(call: Call, tmp_path: Path) -> None:
    result = call("datasets", "iris", "--out", "my iris.csv")
    assert result.exit_code == 0, result.output
    assert "covary fit 'my iris.csv' --target species" in result.stdout
    assert pd.read_csv(tmp_path / "my iris.csv").equals(pd.DataFrame(datasets.load_iris()))
    assert call("datasets", "iris", "--out", "b.csv", "-q").stdout == ""
    assert json.loads(call("datasets", "iris", "--out", "c.csv", "--json").stdout)["written"] == "c.csv"
    call("datasets", "step", "--rows", 10, "--seed", 3, "--out", "s.tsv")
    found = pd.read_csv(tmp_path / "s.tsv", sep="\t")
    assert found.equals(pd.DataFrame(datasets.make_step(10, random_state=3)))
    assert call("datasets", "sine", "--out", "-").stdout.startswith("x,y\n0.0,")
    call("datasets", "flights", "--out", "f.parquet")
    assert pd.read_parquet(tmp_path / "f.parquet")["date"].dtype.kind == "M"
    assert call("datasets", "flights", "--out", "-").stdout.splitlines()[1].startswith("2013-01-01,Tue,")


def test_a_file_can_be_fitted(call: Call, tmp_path: Path) -> None:
    assert call("datasets", "two_optima", "--out", "t.csv").exit_code == 0
    result = call("fit", "t.csv", "--target", "y", "--restarts", 0, "-q")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "t.covary").exists()


def test_mistakes_are_one_sentence(call: Call, tmp_path: Path) -> None:
    assert error(call("datasets", "irs"), 2).rstrip().endswith("did you mean 'iris', 'disk' or 'outliers'?")
    assert "covary datasets lists them" in error(call("datasets", "zzzz"), 2)
    assert "'iris' takes no --rows; it takes nothing, because the data" in error(call("datasets", "iris", "--rows", 5), 2)
    assert "'iris' takes no --seed; it takes nothing, because the data" in error(call("datasets", "iris", "--seed", 5), 2)
    assert "require the name" in error(call("datasets", "--out", "x.csv"), 2)
    assert "suffix" in error(call("datasets", "iris", "--out", "iris.doc"), 2)
    assert "does not exist" in error(call("datasets", "iris", "--out", "no/iris.csv"), 2)
    assert "error: --rows is 9999; draw at most 2,000" in error(call("datasets", "gp", "--rows", 9999, "--out", "g.csv"), 2)
    assert not list(tmp_path.iterdir())


def complete(words: str) -> list[str]:
    """What bash is offered after these words."""
    env = {"_COVARY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=os.environ | env, check=False)
    return done.stdout.split()


def test_the_shell_completes_commands_options_and_names() -> None:
    assert "datasets" in complete("covary d")
    assert "--target" in complete("covary fit a.csv --t")
    assert complete("covary datasets ir") == ["iris"]
    assert set(complete("covary datasets neal")) == {"neal", "neal_binary", "neal_classes"}
    assert complete("covary fit a.csv --method v") == ["vecchia"]
    assert complete("covary predict a") == []  # bash then offers files


def test_completion_can_be_installed(shell: Any, tmp_path: Path) -> None:
    """In a home of its own: the script is written and sourced, and bash completes with it."""
    assert "--install-completion" in shell("--help").stdout.decode()
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    env = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = shell("--install-completion", "bash", env=env)
    assert done.returncode == 0, done.stderr.decode()
    script = tmp_path / ".bash_completions" / "covary.sh"
    assert str(script) in (tmp_path / ".bashrc").read_text()
    assert "_COVARY_COMPLETE=complete_bash" in script.read_text()
    assert "complete -o default" in script.read_text()  # files where covary has nothing to offer
