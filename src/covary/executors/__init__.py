"""Executors, which run work in this process or on the workers of a Dask cluster."""

from covary.executors.choose import Dask as Dask
from covary.executors.choose import Serial as Serial
from covary.executors.choose import as_executor as as_executor
