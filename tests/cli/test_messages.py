"""Errors and advice in the command refer to options and lines of the file, which come from structured errors."""

from __future__ import annotations

import ast
import inspect
import json
import pickle
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import covary
from covary import GPClassifier, GPRegressor
from covary._errors import CovaryError, NotNumbers, Option, Place, Remedy, fail, phrase
from covary._write import NotWritten
from covary.cli import app
from covary.cli.rendering import (
    WORDS,
    code_of,
    message,
    names,
    option_of,
    rendered,
)
from covary.committee import Committee
from covary.committee.ledger import Ledger
from covary.datasets import load
from covary.executors import Dask
from covary.files.container import BadFile, NeedsFunctions
from covary.fits.answers import NoAnswer
from covary.tables.table import BadTable

from .conftest import waves, write

Call = Callable[..., Any]
KNOWN = names()
SOURCE = Path(covary.__file__).parent
KERNELS = [name for name in vars(covary.kernels) if name[0].isupper()]
NUMBERS = {f.name for name in KERNELS for f in getattr(getattr(covary.kernels, name), "__dataclass_fields__", {}).values()}
RAISED = {
    *("fail", "bad", "wrong", "usage", "CovaryError", "NotPositiveDefinite", "NotEnoughMemory", "NotWritten", "NotNumbers"),
    *("BadChoice", "BadFile", "BadModel", "BadTable", "BadUsage", "NoAnswer"),
}
MADE = (GPRegressor, GPClassifier, Committee, Dask, load)
CALLED = (
    *(m if inspect.isfunction(m) else m.__init__ for m in MADE),
    *(GPRegressor.fit, GPRegressor.predict_interval, GPRegressor.predict, covary.load, covary.learn, covary.condition),
)
ARGUMENTS = {name for call in CALLED for name in inspect.signature(call).parameters} - {"self", "X", "y", "n", "options"}


def outliers(path: Path) -> None:
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, 90))
    y = np.sin(x) + 0.1 * rng.normal(size=90)
    y[[10, 40, 41, 70]] += [4, -5, 6, 5]
    path.write_text("x,y\n" + "".join(f"{a:.5f},{b:.5f}\n" for a, b in zip(x, y, strict=True)))


def test_advice_on_outliers_names_the_option_that_helps(call: Call, tmp_path: Path) -> None:
    outliers(tmp_path / "t.csv")
    result = call("fit", "t.csv", "--target", "y", "--report", "t.html")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "warning" in said
    assert "if they are correct, use --likelihood student_t, which is robust to them" in said
    assert "likelihood=" not in said
    model: Any = covary.load(tmp_path / "t.covary")
    assert "use likelihood='student_t'" in str(model.summary())
    assert call("report", "t.covary", "--out", "r.html").exit_code == 0
    for page in ("t.html", "r.html"):  # the command shows options, Python arguments
        assert "use --likelihood student_t" in (tmp_path / page).read_text()
        assert "likelihood=" not in (tmp_path / page).read_text()
    model.report(tmp_path / "p.html")
    assert "likelihood=&#39;student_t&#39;" in (tmp_path / "p.html").read_text()
    assert "--likelihood" not in (tmp_path / "p.html").read_text()
    assert "use --likelihood student_t" in " ".join(call("info", "t.covary").stdout.split())
    again = call("fit", "t.csv", "--target", "y", "--likelihood", "student_t")  # the advice works
    assert again.exit_code == 0
    assert "Outliers" not in str(covary.load(tmp_path / "t.covary").diagnose().warnings)


# messages are data --------------------------------------------------------------------------------------------------
@cache
def trees() -> dict[str, list[ast.AST]]:
    """The nodes of the syntax tree of every module, the module first."""
    return {str(p.relative_to(SOURCE)): [*ast.walk(ast.parse(p.read_text("utf-8")))] for p in sorted(SOURCE.rglob("*.py"))}


def calls() -> Iterator[tuple[str, ast.Call, ast.AST]]:
    """Every call that makes an error, with the function or module that it stands in."""
    for path, nodes in trees().items():
        made = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in RAISED]
        inside = {id(part): f for f in nodes if made and isinstance(f, ast.FunctionDef) for part in ast.walk(f)}
        for node in made:
            yield f"{path}:{node.lineno}", node, inside.get(id(node), nodes[0])


def literals(node: ast.AST, around: ast.AST) -> Iterator[str]:
    """The texts of an expression as they stand in the source, and those of the names in it; not what is handed to Option."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in values)  # type: ignore[misc]
        case ast.Name(id=name):
            for part in ast.walk(around):
                given = isinstance(part, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in part.targets)
                if given and not any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(part.value)):
                    yield from literals(part.value, around)
        case ast.BinOp(left=left, right=right):
            yield from literals(left, around)
            yield from literals(right, around)
        case ast.IfExp(body=body, orelse=other):
            yield from literals(body, around)
            yield from literals(other, around)


def test_arguments_with_values_are_options_in_every_message() -> None:
    """``use gram=Dense()`` is written ``"use " + Option("gram", "Dense()")``, so that the command can show an option."""
    wrong, count = [], 0
    named = re.compile(rf"(?<![\w.(=])(?:{'|'.join(sorted(ARGUMENTS | {'gram', 'rule', 'nearest'}))})=(?! )")
    for where, call, around in calls():
        count += 1
        for text in (text for given in call.args[1:] for text in literals(given, around)):
            if named.search(text):
                wrong.append(f"{where}: {text}")
    assert count > 500
    assert not wrong, "\n".join(wrong)


CODE = re.compile(
    r"\b(?:Dask|Serial|LowRank|Dense|Exact|EP|Laplace|GPRegressor|GPClassifier|Committee)\("
    rf"|(?<![\w.'\"])(?:{'|'.join(sorted(name for name in ARGUMENTS if '_' in name))})(?![\w'\"])"
)


def plain_texts(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """The texts with several words in a module, except docstrings and what is handed to Option or Remedy."""
    aside = set[int]()
    for node in nodes:
        if isinstance(node, ast.Expr):
            aside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            aside.update(map(id, node.values))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Option", "Remedy"):
            aside.update(map(id, ast.walk(node)))
    for node in nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in aside:
            yield from ((node.lineno, text) for text in literals(node, nodes[0]) if " " in text)


def test_texts_contain_no_code() -> None:
    """Names of arguments with underscores and calls such as ``Dense()`` are Options too, in errors, advice and notes."""
    found = [
        f"{path}:{line}: {text}"
        for path, nodes in trees().items()
        if not path.endswith("/export.py")  # writes Python code
        for line, text in plain_texts(nodes)
        if CODE.search(text)
    ]
    assert not found, "\n".join(found)


def test_every_option_is_known_to_the_command() -> None:
    known = {*KNOWN.options, *KNOWN.python, *WORDS, *NUMBERS, *(name for name, _ in KNOWN.values)}
    strange, remedies = set(), set()
    for path, nodes in trees().items():
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if node.func.id == "Option" and isinstance(first, ast.Constant) and first.value not in known:
                    strange.add(f"{path}:{node.lineno}: {first.value}")
                if node.func.id == "Remedy" and isinstance(first, ast.Constant):
                    remedies.add(first.value)
    assert not strange
    assert set(KNOWN.remedies) <= remedies


def test_errors_have_three_parts() -> None:
    """None is raised with one text that holds what raises it, what was given and what to do."""
    for where, call, _ in calls():
        assert len(call.args) > 1 or any(isinstance(a, ast.Starred) for a in call.args), where
        assert not any(isinstance(a, ast.Constant) and a.value == "" for a in call.args[1:]), where


def test_the_table_names_options_and_arguments_that_there_are() -> None:
    commands: Any = typer.main.get_command(app.app)
    every = [p for part in commands.commands.values() for p in part.params]
    takes = {text: p for p in every for text in (*p.opts, *p.secondary_opts, p.metavar) if text}
    assert set(KNOWN.options.values()) <= set(takes)
    for said in (*KNOWN.values.values(), *KNOWN.sources.values()):
        option, _, value = said.removeprefix("no ").partition(" ")
        assert option in takes
        assert not value or value in set(KNOWN.choices[option[2:].replace("-", "_")])
    assert not set(KNOWN.python) & set(KNOWN.options)
    assert not {f"--{name.replace('_', '-')}" for name in KNOWN.python} & set(takes)
    of_tables = {
        *("target", "family", "settings", "inputs", "ignore", "drop_missing", "noise_column", "weight_column", "size_column"),
        *("scheduler", "out", "predictions", "config", "save_config", "report", "keep", "file"),
    }
    assert set(KNOWN.options) - {"categories"} - of_tables <= ARGUMENTS | {"n", "gram"}


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (Option("inference", "'ep'"), "--inference ep"),
        (Option("inference", "Laplace()", "EP()"), "--inference laplace or --inference ep"),
        (Option("method", "'exact'", "'low_rank'", "'vecchia'"), "--method exact, low_rank or vecchia"),
        (Option("noise_variance"), "--noise-column"),
        (Option("seasonality", "['yearly', 'weekly']"), "--seasonality yearly,weekly"),
        (Option("multi_class", "'one_vs_rest'"), "multi_class='one_vs_rest' (in Python)"),
        (Option("local_errors", "False"), "local_errors=False (in Python)"),
        (Option("lengthscale", "[1.0, 1.0]"), "lengthscale=[1.0, 1.0]"),
        (Option("rule", "'rbcm'"), "--rule rbcm"),
        (Option("rule", "'dtc'", "'fitc'"), "rule='dtc' or 'fitc' (in Python)"),
        (Option("folder", "..."), "--folder"),
        (Option("nearest", "None"), "nearest=None (in Python)"),
        (Option("gram", "LowRank(...)"), "--method low_rank"),
        (Option("ignore", "'two words'"), "--ignore 'two words'"),
        (Option("ignore", '"it\'s"'), "--ignore 'it'\"'\"'s'"),
        (Option("std", "False"), "--no-std"),
        (Option("executor", "Serial()"), "no --workers"),
    ],
)
def test_arguments_become_options(part: Option, shown: str) -> None:
    assert option_of(part) == shown
    assert rendered("use " + part + ", or not") == f"use {shown}, or not"


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (fail("gram.Dense", "K + noise is not positive definite", "use fewer rows"), 3, None),
        (
            fail("learn", "'kept' is a file", "give a folder", argument="checkpoint"),
            2,
            "--checkpoint: 'kept' is a file; give a folder.",
        ),
        (
            fail("Committee", Option("rule") + " is 'grbcm'", "use " + Option("rule", "'rbcm'")),
            2,
            "--rule is 'grbcm'; use --rule rbcm.",
        ),
        (
            fail("gram.LowRank", "no covariance", "use " + Option("rule", "'dtc'")),
            2,
            "--method low_rank: no covariance; use rule='dtc' (in Python).",
        ),
        (
            fail("kernels.Matern52", "lengthscale has 3 entries but " + Option("X") + " has 2 columns", "give one or two"),
            3,
            "Matern52: lengthscale has 3 entries but the input table has 2 columns; give one or two.",
        ),
        (fail("kernels.parse", "'x' is none", "write Matern52()"), 3, "'x' is none; write Matern52()."),
        (fail("GPRegressor", Option("X") + " is nan " + Place(5, "b"), "drop it"), 3, None),
        (fail("fit", "column 'use method=svd' of \"missing='drop'.csv\" is empty", "fill it"), 3, None),
    ],
)
def test_errors_in_options(error: CovaryError, code: int, shown: str | None) -> None:
    if shown is None:
        shown = error.message().replace("X is", "the input table is")
    assert message(error) == shown
    assert code_of(error) == code


@pytest.mark.parametrize(("kind", "code"), [(NoAnswer, 5), (BadFile, 4), (NeedsFunctions, 4), (NotWritten, 2), (BadTable, 3)])
def test_exit_codes_depend_on_classes_and_not_on_their_names(kind: type[CovaryError], code: int) -> None:
    own = type("Own", (kind,), {})
    assert code_of(own("predict", "it failed")) == code
    assert code_of(type(kind.__name__, (CovaryError,), {})("elsewhere", "it failed"), 1) == 1


def test_errors_travel_with_all_they_hold() -> None:
    """Workers raise them in other processes."""
    what = Option("y") + " is nan " + Place(3, "b") + ", or " + Remedy("leave out", "leave it out")
    for error in (fail("GPRegressor", what, "use " + Option("missing", "'drop'")), NotNumbers("learn", "no", argument="X")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert vars(again) == vars(error)
        assert phrase(again.what).parts == phrase(error.what).parts
        assert (str(again), again.args) == (str(error), error.args)


def said_by(result: Any, code: int) -> str:
    assert result.exit_code == code, result.output
    return " ".join(result.stderr.split()).removeprefix("covary: error: ")


def test_errors_of_the_library_through_the_command(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", waves())
    fit = ("fit", "t.csv", "--target", "y", "--restarts", 0, "--quiet")
    said = said_by(call(*fit, "--kernel", "Matern52(lengthscale=[1, 2, 3])"), 2)
    assert said.startswith("--kernel: Matern52: lengthscale has 3 entries but the input table has 2 columns;")
    said = said_by(call(*fit, "--method", "markov"), 2)
    assert said.startswith("--method markov: the input table has 2 columns")
    assert said.endswith("or use --method exact.")
    said = said_by(call(*fit, "--method", "subset", "--objective", "loo"), 2)
    assert said.startswith(
        "--objective is 'loo', which requires the exact method, but the method is 'subset'; use --method exact"
    )


def test_a_checkpoint_of_another_problem_is_wrong_usage(call: Call, tmp_path: Path) -> None:
    """Whoever keeps it: the search, a committee or the search in batches."""
    write(tmp_path / "t.csv", waves(60))
    fit = ("fit", "t.csv", "--target", "y", "--restarts", 0, "--quiet", "--max-time", 1)
    for name, options in (("one", []), ("many", ["--experts", 2]), ("batches", ["--method", "svgp"])):
        if name == "many":  # the folder is empty when all is done
            Ledger(name, "another problem").put("expert 0", 1.0)
        else:
            assert call(*fit, *options, "--checkpoint", name).exit_code == 0
        said = said_by(call(*fit, *options, "--ignore", "z", "--checkpoint", name), 2)
        assert said.startswith(f"--checkpoint '{name}")


# relevance ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["y", "kind", "level"])
def test_the_command_and_a_report_show_the_same_relevance(call: Call, tmp_path: Path, target: str) -> None:
    """From draws of the function; of several classes from the posterior mean."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    y = 2 * np.sin(x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=80)
    kinds = {
        "y": [f"{v:.5f}" for v in y],
        "kind": np.where(y > 0, "up", "down"),
        "level": [f"c{v}" for v in np.digitize(y, [-1, 1])],
    }
    rows = [",".join([*(f"{v:.5f}" for v in a), str(b)]) for a, b in zip(x, kinds[target], strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([f"a,b,c,{target}", *rows]) + "\n")
    fit = call("fit", "t.csv", "--target", target, "--report", "t.html", "--json")
    assert fit.exit_code == 0, fit.output
    found = json.loads(call("info", "t.covary", "--json").stdout)["relevance"]
    assert json.loads(fit.stdout)["relevance"] == pytest.approx(found, abs=1e-9)
    text = (tmp_path / "t.html").read_text().replace("\u00a0", " ")
    figure = next(part for part in text.split("<figure") if 'aria-label="Relevance of the inputs' in part)
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", figure)
    names = [word for word in shown if word in found]
    percent = [word for word in shown if re.fullmatch(r"[\d.]+ %", word)][-len(found) :]
    assert names == list(found)
    assert percent == [f"{100 * v:.0f} %" if v >= 0.1 else f"{100 * v:.1f} %" for v in found.values()]
