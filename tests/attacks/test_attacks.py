"""Every class of attacks, whole: none succeeds, and none has lost its cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from attacks.record import classes, count, module


@pytest.mark.slow
@pytest.mark.parametrize("name", classes())
def test_no_attack_succeeds(name: str, tmp_path: Path) -> None:
    found = count(name, tmp_path / name)
    assert not found.failed, "\n".join(found.failed[:20])
    assert found.tried >= module(name).LEAST
