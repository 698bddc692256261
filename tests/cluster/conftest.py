"""Fixtures: a scheduler with three workers for the tests of a file, and a scheduler without workers for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.machines import Cluster, cluster_in


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and three workers."""
    with cluster_in(tmp_path_factory.mktemp("cluster"), 3) as cluster:
        yield cluster


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler of its own, without workers."""
    (tmp_path / "lone").mkdir()
    with cluster_in(tmp_path / "lone", 0) as cluster:
        yield cluster
