"""Writing tables: CSV, TSV and text (optionally gzipped), Parquet, and Excel sheets."""

from __future__ import annotations

import io

from covary.tables.files import DELIMITERS, table_suffix
from covary.tables.sheets import sheet_bytes
from covary.tables.table import Frame


def table_bytes(frame: Frame, path: str) -> bytes:
    """Encode a table in the format given by the suffix (CSV for stdout); numbers keep all their digits."""
    suffix = ".csv" if path == "-" else table_suffix(path)
    if suffix == ".parquet":
        stream = io.BytesIO()
        frame.to_parquet(stream, engine="pyarrow", index=False)
        return stream.getvalue()
    if suffix == ".xlsx":
        return sheet_bytes(frame)
    text = frame.to_csv(index=False, sep=DELIMITERS[suffix or ""], lineterminator="\n")
    data = text.encode()
    if path.lower().endswith(".gz"):
        import gzip

        return gzip.compress(data, mtime=0)
    return data
