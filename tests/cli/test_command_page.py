"""docs/command.md agrees with the help, and its examples run as written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer.main

import covary
from covary._families import options_of
from covary.cli import options
from covary.cli.app import app

Call = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "command.md").read_text("utf-8")
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*(?![\w-])")


def section(title: str) -> str:
    """What stands under a heading, up to the next of its kind."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def given(name: str) -> set[str]:
    """The options of a command, short ones too."""
    return {text for p in COMMANDS[name].params for text in (*p.opts, *p.secondary_opts) if text.startswith("-")}


def examples(text: str) -> Iterator[str]:
    """The commands of a page's blocks, but for those that show the form only."""
    for block in text.split("```")[1::2]:
        for line in block.splitlines():
            line = line.removeprefix("$ ").partition("  #")[0].strip()
            if line.startswith("covary ") and not re.search(r"\b(?:DATA|MODEL)\b", line):
                yield line


def test_every_option_stands_under_its_command() -> None:
    common = section("Options of every command")
    for name in COMMANDS:
        text = section(f"covary {name}") + common
        for option in given(name):
            assert f"`{option}" in text or f"[{option}" in text or f" {option} " in text, (name, option)


def test_no_option_stands_where_it_is_unknown() -> None:
    for name in COMMANDS:
        text = section(f"covary {name}")
        rows = [cell for line in text.splitlines() if line.startswith("| `-") for cell in [line.split("|")[1]]]
        forms = [line for block in text.split("```")[1::2] for line in block.splitlines() if line.startswith(f"covary {name}")]
        for option in {found for line in (*rows, *forms) for found in OPTION.findall(line)}:
            assert option in given(name), (name, option)
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for line in examples(file.read_text("utf-8")):
            name = line.split()[1]
            if name in COMMANDS:
                assert set(OPTION.findall(line.partition(" -- ")[0])) <= given(name), (file.name, line)


def test_which_commands_print_json() -> None:
    without = {name for name in COMMANDS if "--json" not in given(name)}
    said = re.search(r"`--json` \(not for ([^)]*)\)", PAGE)
    assert said is not None
    assert set(re.findall(r"`(\w+)`", said[1])) == without


CHOICES = {setting.option: setting.choices for setting in options_of(options.DEFAULT).settings if setting.choices}


@pytest.mark.parametrize(
    ("option", "choices"),
    [*CHOICES.items(), ("--missing", tuple(options.MissingChoice)), ("--error-bars", tuple(options.ErrorBarsChoice))],
)
def test_every_choice_is_in_the_table_and_in_the_help(option: str, choices: tuple[str, ...]) -> None:
    row = next(line for line in section("covary fit").splitlines() if line.startswith(f"| `{option}`"))
    declared = next(p for p in COMMANDS["fit"].params if option in p.opts)
    for choice in choices:
        assert f"`{choice}`" in row
        assert choice in f"{declared.metavar} {declared.help}" or choice == "evidence"


def test_the_default_number_of_restarts_is_that_of_the_estimators() -> None:
    said = f"{covary.GPRegressor().n_restarts}; {covary.GPClassifier().n_restarts} for classes"
    assert next(p for p in COMMANDS["fit"].params if "--restarts" in p.opts).show_default == said
    assert f"| `--restarts` | further starts of the search | {said} |" in PAGE


# examples ---------------------------------------------------------------------------------------------------------
def tables() -> None:
    """Small tables of the names the page uses."""
    rng = np.random.default_rng(0)
    n = 240
    area, age, garden = rng.uniform(0.5, 3, n), rng.uniform(0, 90, n), rng.uniform(0, 1, n)
    price = 1 + 0.8 * area + 0.3 * garden + 0.1 * rng.normal(size=n)
    houses = pd.DataFrame({"id": np.arange(n), "area": area, "age": age, "garden": garden, "price": price})
    houses["street"] = rng.choice(["elm", "oak", "high"], n)
    houses[:60].to_csv("houses.csv", index=False)
    houses[60:110].to_csv("new.csv", index=False)
    houses.assign(ill=np.where(price > 2.5, "yes", "no"))[["area", "age", "ill"]][:60].to_csv("patients.csv", index=False)
    wells = houses[["area", "age", "price"]][:60].rename(columns={"price": "yield"})
    wells.loc[3, "age"] = np.nan
    wells.to_csv("wells.csv", index=False)
    flights = houses[["area", "age", "price"]].rename(columns={"price": "delay"})
    flights.to_parquet("flights.parquet", row_group_size=100)
    flights.rename(columns={"delay": "y"}).to_parquet("big.parquet")
    flights[:50].to_parquet("new.parquet")
    people, dose = rng.integers(50, 500, 60), rng.uniform(0, 3, 60)
    cases = rng.poisson(people * 0.02 * np.exp(area[:60] / 3))
    pd.DataFrame({"area": area[:60], "inhabitants": people, "cases": cases}).to_csv("wards.csv", index=False)
    deaths = rng.binomial(20, 1 / (1 + np.exp(2 - 2 * dose)))
    pd.DataFrame({"dose": dose, "animals": 20, "deaths": deaths}).to_csv("doses.csv", index=False)
    drift = np.sin(dose) + 0.05 * rng.standard_t(2, 60)
    pd.DataFrame({"hour": dose, "drift": drift}).to_csv("sensors.csv", index=False)


def test_every_example_is_understood() -> None:
    """As far as names and values of options go."""
    found = list(examples(PAGE))
    assert len(found) > 20
    for line in found:
        _, *words = shlex.split(line)
        if words[0] in COMMANDS and "--config" not in words:
            COMMANDS[words[0]].make_context(words[0], words[1:])


@pytest.mark.slow
def test_every_example_runs(call: Call) -> None:
    tables()
    for line in examples(PAGE):
        _, *words = shlex.split(line)
        if words[0] in COMMANDS and words[-2:] != ["--workers", "8"]:  # too many for a test
            done = call(*words)
            assert done.exit_code == 0, (line, done.output)
            if words[0] == "predict" and words[2] in ("new.csv", "test.csv") and f"$ {line}" in PAGE:  # with its scores
                assert all(text in PAGE for text in done.stderr.splitlines()), done.stderr
