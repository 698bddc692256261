"""The robustness tests: no case fails, and no group has lost cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from robustness.record import classes, count, module


@pytest.mark.slow
@pytest.mark.parametrize("name", classes())
def test_no_attack_succeeds(name: str, tmp_path: Path) -> None:
    found = count(name, tmp_path / name)
    assert not found.failed, "\n".join(found.failed[:20])
    assert found.tried >= module(name).LEAST


def test_the_table_names_every_class() -> None:
    """docs/trust.md lists what is tried, with at least so many cases, and says that none failed."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "trust.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")]
    found = {row[1].strip("`"): row for row in rows if len(row) == 4 and row[1].strip("`") in classes()}
    assert sorted(found) == classes()
    for name, (title, _, tried, failed) in found.items():
        assert (title, failed) == (module(name).TITLE, "0")
        assert int(tried.replace(",", "")) >= module(name).LEAST
