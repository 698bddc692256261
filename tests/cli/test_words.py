"""What the command says of a fit: advice in its own options, and the relevance of inputs that a report shows too."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import covary
from covary import GPClassifier, GPRegressor
from covary.cli import app
from covary.cli.words import CHOICES, FLAGS, OBJECTS, OPTIONS, PYTHON, complaint, in_options
from covary.committee import Committee
from covary.committee.ledger import Ledger
from covary.datasets import load
from covary.executors import Dask

from .conftest import waves, write
from .sentences import UNREACHED, UNSAID, advice, errors, modules

Call = Callable[..., Any]
KERNELS = [name for name in vars(covary.kernels) if name[0].isupper()]
NUMBERS = {f.name for name in KERNELS for f in getattr(getattr(covary.kernels, name), "__dataclass_fields__", {}).values()}
LEFT = re.compile(
    r"^(?!Dense)(?:[a-z]\w*\.)*[A-Za-z]\w*: |\b[a-z]\w*=(?! )"  # who complains, an argument
    r"|\b[A-Z][A-Za-z]+\w*\(|\b[a-z_]{2,}\((?!s\))"  # an object, a call
    r"|\b(?:covary|model|gram|inference|likelihoods|means|parameters|selection|datasets|kernels)\.[A-Za-z]\w*"
    rf"|\bGP[A-Z]\w+|\b(?:{'|'.join(name for name in (*OPTIONS, *PYTHON) if '_' in name)})\b"
)


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
    assert "if they stand, use --likelihood student_t, which they do not move" in said
    assert "likelihood=" not in said
    model: Any = covary.load(tmp_path / "t.covary")
    assert "use likelihood='student_t'" in str(model.summary())
    assert call("report", "t.covary", "--out", "r.html").exit_code == 0
    for page in ("t.html", "r.html"):  # who asks the command is told its options, who asks Python its arguments
        assert "use --likelihood student_t" in (tmp_path / page).read_text()
        assert "likelihood=" not in (tmp_path / page).read_text()
    model.report(tmp_path / "p.html")
    assert "likelihood=&#39;student_t&#39;" in (tmp_path / "p.html").read_text()
    assert "--likelihood" not in (tmp_path / "p.html").read_text()
    assert "use --likelihood student_t" in " ".join(call("info", "t.covary").stdout.split())
    again = call("fit", "t.csv", "--target", "y", "--likelihood", "student_t")  # the advice works
    assert again.exit_code == 0
    assert "Outliers" not in str(covary.load(tmp_path / "t.covary").diagnose().warnings)


# every sentence ------------------------------------------------------------------------------------------------------
def python_in(text: str) -> list[str]:
    """What only a program can make use of, but for what is said to be so."""
    text = re.sub(r"\w+=(?:'[^']*'|\{[^}]*\}|[\w.]+)(?:(?:, | or )'[^']*')* \(in Python\)", "", text)
    text = re.sub(r"\(in Python, [^)]*\)|\b[Ii]n Python, \w+\([^)]*\)", "", text)
    text = re.sub(r"(?<![\w=])(?:'[^']*'|\"[^\"]*\")(?!\w)", "'a'", text)  # names and values
    for _ in range(3):  # kernels are text that the command reads, one inside another
        text = re.sub(rf"\b(?:{'|'.join(KERNELS)}|fixed|bounded|(?<=\.)on)\([^()]*\)", "a kernel", text)
    text = re.sub(rf"\b(?:{'|'.join(NUMBERS)})=\S+|^(?:--kernel: )?(?:{'|'.join(KERNELS)}): ", "", text)
    return [found[0] for found in LEFT.finditer(text)]


def test_no_error_or_advice_is_left_in_python() -> None:
    """Over every sentence in the source that a command can come to say."""
    found = {complaint(said.text): said.where for said in errors()}
    assert len(found) > 500
    found |= {in_options(said.text): said.where for said in advice()}
    assert not {where: (text, python_in(text)) for text, where in found.items() if python_in(text)}


def test_a_sentence_in_options_stays_as_it_is() -> None:
    for translate, sentences in ((complaint, errors()), (in_options, advice())):
        for said in sentences:
            once = translate(said.text)
            assert translate(once) == once
    assert in_options("load: the error bars are too narrow.") == "load: the error bars are too narrow."  # the name of a target


def test_what_is_left_to_python_has_no_option() -> None:
    """And no command enters the rooms whose sentences are not looked at."""
    assert not set(PYTHON) & set(OPTIONS)
    command = Path(inspect.getfile(covary)).parent / "cli"
    imported = {
        name
        for file in command.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom | ast.Import)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    }
    for room in UNREACHED:
        assert not [name for name in imported if name.startswith(f"covary.{room.removesuffix('.py').replace('/', '.')}")], room
    library = modules()
    for place, name in UNSAID:
        assert [f for f in ast.walk(library[place]) if isinstance(f, ast.FunctionDef) and f.name == name], (place, name)


def test_the_table_names_options_and_arguments_that_there_are() -> None:
    commands: Any = typer.main.get_command(app.app)
    takes = {text: p for part in commands.commands.values() for p in part.params for text in (*p.opts, *p.secondary_opts)}
    assert set(OPTIONS.values()) | set(FLAGS.values()) | set(CHOICES) <= set(takes)
    for said in OBJECTS.values():
        option, _, value = said[said.index("--") :].partition(" ")
        assert option.rstrip(")") in takes
        assert not value or value in set(CHOICES[option])
    assert not {f"--{name.replace('_', '-')}" for name in PYTHON} & set(takes)
    makers = (GPRegressor, GPClassifier, Committee, Dask, load)
    calls = (*(m if inspect.isfunction(m) else m.__init__ for m in makers), GPRegressor.fit, GPRegressor.predict_interval)
    arguments = {name for call in calls for name in inspect.signature(call).parameters}
    assert set(OPTIONS) - {"categories"} <= arguments


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Use inference='ep', which is closer.", "Use --inference ep, which is closer."),
        ("fit with method='exact', 'low_rank' or 'vecchia', or not", "fit with --method exact, low_rank or vecchia, or not"),
        ("give noise_variance per row, or", "give --noise-column, or"),
        ("seasons: seasonality=['yearly', 'weekly'], or", "seasons: --seasonality yearly,weekly, or"),
        ("In Python, GPClassifier(inference='ep', multi_class='one_vs_rest') is", None),
        ("fit with local_errors=False, or", "fit with local_errors=False (in Python), or"),
        ("kernel.lengthscale[x] = 3.2 at its lower bound", None),
        ("Periodic(period=fixed(1)) in it", None),
        (
            "gram.Dense: K + noise is not positive definite; use fewer rows.",
            "K + noise is not positive definite; use fewer rows.",
        ),
        ("Ledger: 'kept' is a file; give a folder.", "--checkpoint: 'kept' is a file; give a folder."),
        ("Committee: rule is 'grbcm'; use rule='rbcm'.", "--rule is 'grbcm'; use --rule rbcm."),
        ("gram.LowRank: no covariance; use rule='dtc'.", "--method low_rank: no covariance; use rule='dtc' (in Python)."),
        ("keep it: Committee(folder='...').", "keep it: --folder."),
        ("Committee: no covariance; use nearest=None.", "--experts: no covariance; use nearest=None (in Python)."),
        ("use Exact(), Laplace() or EP().", "use --inference exact, --inference laplace or --inference ep."),
        ("--kernel: kernels.Matern52: lengthscale has 3 entries.", "--kernel: Matern52: lengthscale has 3 entries."),
        ("--kernel: kernels.parse: 'x' is none; write Matern52().", "--kernel: 'x' is none; write Matern52()."),
        ("column 'use method=svd' of \"missing='drop'.csv\" is empty; fill it, or leave it out.", None),
        (
            "Dask's scheduler and the workers' folder differ: use method='exact'.",
            "Dask's scheduler and the workers' folder differ: use --method exact.",
        ),
    ],
)
def test_arguments_become_options(text: str, said: str | None) -> None:
    assert complaint(text) == (text if said is None else said)


def said_by(result: Any, code: int) -> str:
    assert result.exit_code == code, result.output
    return " ".join(result.stderr.split()).removeprefix("covary: error: ")


def test_errors_of_the_library_through_the_command(call: Call, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", waves())
    fit = ("fit", "t.csv", "--target", "y", "--restarts", 0, "--quiet")
    said = said_by(call(*fit, "--kernel", "Matern52(lengthscale=[1, 2, 3])"), 2)
    assert said.startswith("--kernel: Matern52: lengthscale has 3 entries but there are 2 input columns;")
    said = said_by(call(*fit, "--method", "markov"), 2)
    assert said.startswith("--method markov: there are 2 input columns")
    assert said.endswith("or use --method exact.")
    said = said_by(call(*fit, "--method", "subset", "--objective", "loo"), 2)
    assert said == "--objective is 'loo' and the method 'subset'; it goes with Gaussian noise and --method exact."


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
        assert said.startswith(f"--checkpoint: {'' if name == 'batches' else 'the checkpoint '}'{name}' ")


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
