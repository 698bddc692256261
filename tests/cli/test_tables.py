"""Reading tables: formats, delimiters, encodings, and the error message for each fault."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from covary._checks import NotEnoughMemory
from covary.tables import files
from covary.tables.files import read_table
from covary.tables.roles import choose, names_of, numbers
from covary.tables.table import BadChoice, BadTable, Table

from .conftest import refused

GOOD = "x,flag,y\n1.5,True,2\n2.5,False,3\n3.5,True,5\n"


def made(folder: Path, text: str | bytes, name: str = "t.csv") -> Table:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(str(path))


def values(table: Table, *names: str, **options: Any) -> Any:
    return numbers(table, list(names) or table.columns, **{"drop_missing": False, **options})[0]


EXPECTED = np.array([[1.5, 1, 2], [2.5, 0, 3], [3.5, 1, 5]])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.csv", GOOD.encode()),
        ("t.CSV", GOOD.encode()),
        ("table", GOOD.encode()),
        ("t.tsv", GOOD.replace(",", "\t").encode()),
        ("t.txt", GOOD.replace(",", "\t").encode()),
        ("t.txt", GOOD.encode()),
        ("t.csv", GOOD.replace(",", ";").encode()),
        ("t.csv", GOOD.replace(",", "\t").encode()),
        ("t.csv", GOOD.replace(",", ";").replace(".", ",").encode()),
        ("t.csv", b"sep=;\n" + GOOD.replace(",", ";").encode()),
        ("t.csv", GOOD.replace(",", " , ").encode()),
        ("t.csv", GOOD.replace("\n", "\r\n").encode()),
        ("t.csv", GOOD.replace("\n", "\r").encode()),
        ("t.csv", GOOD.replace("\n", "\n\n").encode()),
        ("t.csv", GOOD.rstrip("\n").encode()),
        ("t.csv", b"\xef\xbb\xbf" + GOOD.encode()),
        ("t.csv", GOOD.encode("utf-16")),
        ("t.csv.gz", gzip.compress(GOOD.encode(), mtime=0)),
        ("t.csv", gzip.compress(GOOD.encode(), mtime=0)),
        ("t.csv", b'"x","flag","y"\n"1.5","True","2"\n"2.5",false,"3"\n3.5,TRUE,5\n'),
        ("t.csv", b"x,flag,y,\n1.5,1,2,\n2.5,0,3,\n3.5,1,5,\n"),
        ("t.csv", b",x,flag,y\n0,1.5,1,2\n1,2.5,0,3\n2,3.5,1,5\n"),
    ],
)
def test_forms_of_one_table(tmp_path: Path, name: str, data: bytes) -> None:
    table = made(tmp_path, data, name)
    assert table.columns == ["x", "flag", "y"]
    np.testing.assert_array_equal(values(table), EXPECTED)


def test_parquet_with_an_index_decimals_and_gaps(tmp_path: Path) -> None:
    from decimal import Decimal

    frame = pd.DataFrame(
        {"x": [Decimal("1.5"), Decimal("2.5")], "n": pd.array([1, None], "Int64"), "b": [True, False]}, index=[7, 9]
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(str(tmp_path / "t.parquet"))
    assert table.columns == ["x", "n", "b"]
    with refused(BadTable, r"'n' .* has no value in row 2 \(1 missing"):
        values(table)
    np.testing.assert_array_equal(values(table, drop_missing=True), [[1.5, 1, 1]])


def test_latin_1_names_and_notes(tmp_path: Path) -> None:
    table = made(tmp_path, "größe;y\n1,5;2\n".encode("latin-1"))
    assert table.columns == ["größe", "y"]
    assert table.notes == ("columns are separated by semicolons", "numbers have a decimal comma")


def test_numbers_keep_every_digit(tmp_path: Path) -> None:
    exact = [0.1 + 0.2, 1 / 3, 1e-300, 123456789.123456789, 5e-324]
    table = made(tmp_path, "x,y\n" + "".join(f"{v!r},1\n" for v in exact))
    assert values(table, "x")["x"].tolist() == exact


def test_very_long_integers_and_mixed_truths_are_numbers(tmp_path: Path) -> None:
    table = made(tmp_path, f"x,y\n{'9' * 30},true\n1,\n,1\n")
    found = values(table, drop_missing=True)
    assert found.to_numpy().tolist() == [[1e30, 1.0]]


@pytest.mark.parametrize("word", ["", "NA", "N/A", "nan", "NaN", "null", "NULL", "None", "?", "#N/A", "<NA>", "  "])
def test_words_for_missing(tmp_path: Path, word: str) -> None:
    table = made(tmp_path, f"x,y\n1,2\n{word},3\n{word},4\n")
    with refused(BadTable, r"column 'x' of .* has no value on line 3 \(2 missing in this column\); leave such rows out"):
        values(table)


def test_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    table = made(tmp_path, '\n"two\nlines",y\n\n1,2\n\n"3",oops\n')
    assert table.columns == ["two lines", "y"]
    with refused(BadTable, r"'oops' on line 7"):
        values(table)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("x,y\n", "has column names but no rows"),
        ("1,2\n3,4\n", r"numbers \('1', ...\) on line 1 where column names are expected"),
        (",,\n1,2,3\n", "has no column names on line 1"),
        ("x,y,x\n1,2,3\n", r"two columns called 'x' \(columns 1 and 3\); rename one"),
        ("x,,y\n1,2,3\n5,7,2\n", "column 2 .* has no name"),
        ("x,y\n1,2\n1,2,3\n", "has 3 cells on line 3 but its header has 2 columns"),
        ("x,y\n1,2,3\n4,5,6\n", "has 3 cells on line 2 but its header has 2 columns"),
        (
            "# remark\nx,y\n1,2\n",
            "has 2 cells on line 2 but line 1, '# remark', is read as its header; begin with the column names",
        ),
        ('x,y\n1,2\n"3,4\n', "an opening quotation mark without a closing one"),
        ("x,y\n1,inf\n", r"column 'y' .* is inf on line 2; correct it"),
        ("x,y\n1,1e200\n", r"column 'y' .* is 1e\+200 on line 2; rescale"),
        ("x,y\n1,red\n2,\n3,blue\n", r"column 'y' .* contains text \('red' on line 2, 2 such values in all\)"),
        ("x,y\n1,\n2,\n", r"column 'y' .* is empty; fill it"),
        ("x,y\n,1\n2,\n", r"'x' .* has no value on line 2 \(1 missing in this column, 2 rows with a missing value in all\)"),
        (b"x,y\n1,\x00\x01\x02\x03\n", "contains binary data"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "contains binary data"),
        (b"PK\x03\x04zip", "zip archive"),
        (b"PAR1", "is a Parquet file"),
        (b"\x1f\x8b\x08\x00broken", "cannot be unzipped"),
    ],
)
def test_faults_are_one_sentence(tmp_path: Path, data: str | bytes, said: str) -> None:
    with refused(BadTable, said) as caught:
        values(made(tmp_path, data))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.csv", "there is no file"),
        ("t.doc", "suffix '.doc', which is not supported; give .csv"),
        ("folder.csv", "is a folder"),
        ("t.parquet", "is empty"),
        ("u.parquet", "damaged or not a Parquet"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "t.parquet").write_bytes(b"")
    (tmp_path / "u.parquet").write_bytes(b"PAR1 and no more")
    with refused(BadTable, said):
        read_table(str(tmp_path / name))


def test_dates_in_parquet_are_named(tmp_path: Path) -> None:
    pd.DataFrame({"when": pd.to_datetime(["2020-01-01", None]), "y": [1.0, 2.0]}).to_parquet(tmp_path / "t.parquet")
    with refused(BadTable, r"'when' .* contains dates or times \('2020-01-01 00:00:00' in row 1\)"):
        values(read_table(str(tmp_path / "t.parquet")), drop_missing=True)


def test_dropping_everything_is_refused(tmp_path: Path) -> None:
    with refused(BadTable, r"every row .* has a missing value \(2 of 3 in 'x'\); .*--ignore x"):
        values(made(tmp_path, "x,z,y\n,1,1\n,2,2\n3,,3\n"), drop_missing=True, ignorable=["x", "z"])


def test_roles(tmp_path: Path) -> None:
    table = made(tmp_path, 'a,"b,c",sd,w,y1,y2\n1,2,3,4,5,6\n')
    assert choose(table, targets=["y1"]).inputs == ["a", "b,c", "sd", "w", "y2"]
    roles = choose(table, targets=["y1,y2"], ignore=["b,c"], noise="sd", weight="w")
    assert (roles.inputs, roles.targets) == (["a"], ["y1", "y2"])
    assert names_of(["a, sd", "w", "a"], table, "keep") == ["a", "sd", "w"]
    for options, said in [
        ({"targets": ["y1"], "noise": "y1"}, "'y1' is given by --target and by --noise-column"),
        ({"targets": ["y1"], "weight": "w", "size": "w"}, "'w' is given by --weight-column and by --size-column"),
        ({"targets": ["y1"], "inputs": ["a,y1"]}, "'y1' is given by --target and by --inputs"),
        ({"targets": ["y1"], "ignore": ["a"], "inputs": ["a"]}, "'a' is given by --ignore and by --inputs"),
        ({"targets": ["y1"], "inputs": [""]}, "--inputs is empty; give the columns to learn from"),
        ({"targets": [","]}, "--target is empty"),
        ({"targets": ["y1", "y1"]}, "--target names a column twice"),
        ({"targets": ["y11"]}, "--target: .*t.csv' has no column 'y11'; did you mean 'y1'"),
        ({"targets": ["Y1"]}, "did you mean 'y1', in this case"),
        ({"targets": ["zzz"]}, "its columns are 'a', 'b,c', 'sd'"),
        ({"targets": ["y1"], "noise": "sdd"}, "--noise-column: .*did you mean 'sd'"),
        ({"targets": ["y1"], "ignore": ["a,b,c,sd,w,y2"]}, "--ignore: .*no column 'b'"),
    ]:
        with refused(BadChoice, said):
            choose(table, **options)
    with refused(BadTable, "has no input column left; give a table with at least one, or ignore fewer"):
        choose(table, targets=["y1"], ignore=["a", "b,c", "sd,w,y2"])
    with refused(BadTable, r"single column, 'x y'; separate columns"):
        choose(made(tmp_path, "x y\n1 2\n"), targets=["y"])


def test_thousands_of_columns_are_read(tmp_path: Path) -> None:
    count = 5000
    text = ",".join(f"c{i}" for i in range(count)) + "\n" + "\n".join(",".join(["1.5"] * count) for _ in range(3))
    table = made(tmp_path, text)
    roles = choose(table, targets=["c4999"])
    assert values(table, *roles.all).shape == (3, count)


def test_a_small_file_that_unzips_to_a_large_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"x,y\n" + b"1,2\n" * 100_000, mtime=0))
    assert len(read_table(str(tmp_path / "t.csv.gz")).frame) == 100_000
    monkeypatch.setattr(files, "free_memory", lambda: 2**20)
    with pytest.raises(NotEnoughMemory, match=r"unzips to more than .* GiB, which is too much for this machine"):
        read_table(str(tmp_path / "t.csv.gz"))


def test_texts_that_a_model_knows_are_no_gaps(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,soil\nNA,NA\n1,?\n2,clay\n", encoding="utf-8")
    assert read_table(str(tmp_path / "t.csv")).frame["soil"].isna().tolist() == [True, True, False]
    frame = read_table(str(tmp_path / "t.csv"), {"soil": ["NA", "clay"], "other": ["?"]}).frame
    assert frame["soil"].isna().tolist() == [False, True, False]
    assert frame["x"].isna().tolist() == [True, False, False]
    assert frame["x"].dtype == np.float64


def test_gaps_with_spaces_round_them(tmp_path: Path) -> None:
    """They were a category of their own, since cells are read without spaces at either end."""
    (tmp_path / "t.csv").write_text('x,soil,z\n1,"NA ",2\n2,clay,n/a \n3,NA\t,4\n', encoding="utf-8")
    frame = read_table(str(tmp_path / "t.csv")).frame
    assert frame["soil"].isna().tolist() == [True, False, True]
    assert frame["z"].isna().tolist() == [False, True, False]
    assert read_table(str(tmp_path / "t.csv"), {"soil": ["NA"]}).frame["soil"].tolist() == ["NA ", "clay", "NA\t"]
