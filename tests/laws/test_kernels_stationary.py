"""The properties in ``test_kernels`` for the stationary kernels."""

from __future__ import annotations

import pytest

from laws import test_kernels
from laws.tables import STATIONARY

globals().update({name: test for name, test in vars(test_kernels).items() if hasattr(test, "holds")})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    test_kernels.over(metafunc, STATIONARY)
