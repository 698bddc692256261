"""What the command says of a fit: advice in its own options, and the relevance of inputs that a report shows too."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import covary
from covary.cli import app, options
from covary.cli.words import OPTIONS, PYTHON, in_options

Call = Callable[..., Any]
ARGUMENT = re.compile(r"\b([a-z]\w*)=(?=['\"\[]|fixed|True|False|\d)")


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
    assert "likelihood=&#39;student_t&#39;" in (tmp_path / "t.html").read_text()
    assert "--likelihood" not in (tmp_path / "t.html").read_text()
    assert "use --likelihood student_t" in " ".join(call("info", "t.covary").stdout.split())
    again = call("fit", "t.csv", "--target", "y", "--likelihood", "student_t")  # the advice works
    assert again.exit_code == 0
    assert "Outliers" not in str(covary.load(tmp_path / "t.covary").diagnose().warnings)


def advice() -> Iterator[str]:
    """Every text of the diagnosis that names an argument."""
    for file in Path(inspect.getfile(covary)).parent.joinpath("diagnosis").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and ". " not in node.value[:3]:
                text = node.value
                if ARGUMENT.search(text) and "\n" not in text:
                    yield text


def test_no_advice_of_the_diagnosis_is_left_in_python() -> None:
    texts = list(advice())
    assert len(texts) >= 5
    for text in texts:
        left = re.sub(r"In Python, GP\w+\([^)]*\)|\w+=\S+ \(in Python\)", "", in_options(text))
        assert not ARGUMENT.search(left), (text, left)


def test_the_options_are_options_of_fit() -> None:
    known = {text for given in vars(options).values() for text in _declared(given)}
    known |= {f"--{name.replace('_', '-')}" for name in inspect.signature(app.fit).parameters}
    assert set(OPTIONS.values()) <= known
    assert not {f"--{name.replace('_', '-')}" for name in PYTHON} & known
    estimators = (covary.GPRegressor, covary.GPClassifier)
    arguments = {name for kind in estimators for f in (kind.__init__, kind.fit) for name in inspect.signature(f).parameters}
    assert set(OPTIONS) - {"categories"} <= arguments


def _declared(given: Any) -> list[str]:
    return [text for part in get_args(given) for text in getattr(part, "param_decls", None) or ()]


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
    ],
)
def test_arguments_become_options(text: str, said: str | None) -> None:
    assert in_options(text) == (text if said is None else said)


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
