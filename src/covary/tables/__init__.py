"""Real-world tables: cells, columns, files on disk, and the numeric matrix passed to kernels."""

from covary.tables.columns import Columns as Columns
