"""Make ``laws`` and ``unit`` importable from every test, share compiled code, and find published data sets."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("laws.rows_likelihoods")

# Most of the time of the tests is the compiler's. What a worker, or a process that a test starts, has compiled is kept in the
# environment the tests run in and read by the others and by the next run; its key is the code with the compiler's version and
# flags. JAX_ENABLE_COMPILATION_CACHE=false compiles everything anew.
KEPT = Path(sys.prefix) / "compiled_by_tests"
if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK) and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(KEPT)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.02"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


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
