"""Makes ``laws`` importable from every test, so that the families' tables are shared, and finds published data sets."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of published data sets: ``COVARY_DATA``, or ``shared/data`` in the checkout or beside it."""
    root = Path(__file__).resolve().parents[1]
    places = (
        [Path(os.environ["COVARY_DATA"])]
        if "COVARY_DATA" in os.environ
        else [root / "shared/data", root.parent / "shared/data"]
    )
    for place in places:
        if place.is_dir():
            return place
    pytest.skip("the published data sets are not here: set COVARY_DATA to their folder")
