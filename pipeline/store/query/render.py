"""Answers as text: a table for people, CSV, JSON lines.

Times are UTC in ISO form, nothing is rounded but in the table.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from pipeline.text_table import text_table

MAX_CELL = 120  # characters of one value in a table


def table(rows: pl.DataFrame) -> Iterator[str]:
    """Lines of a table as wide as it needs to be, numbers to the right."""
    return text_table(*cells(rows))


def cells(rows: pl.DataFrame) -> tuple[list[str], list[list[str]], list[bool]]:
    """Column names, the rows as text, and which columns are numbers; null is ``-``."""
    right = [dtype.is_numeric() for dtype in rows.dtypes]
    return rows.columns, [[_cell(value) for value in row] for row in rows.iter_rows()], right


def comma_separated(rows: pl.DataFrame) -> Iterator[str]:
    """CSV with a header (RFC 4180); what is missing is empty."""
    yield _line(rows.columns)
    for row in rows.iter_rows():
        yield _line("" if value is None else _text(value) for value in row)


def json_lines(rows: pl.DataFrame) -> Iterator[str]:
    """One JSON object per row; what is missing is null, and so is what JSON has no word for."""
    for row in rows.iter_rows(named=True):
        yield orjson.dumps(row, default=str, option=orjson.OPT_UTC_Z).decode() + "\n"


def parquet(rows: pl.DataFrame, path: Path) -> None:
    """A Parquet file with the answer, names as text."""
    rows.write_parquet(path)


def _line(values: Any) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(list(values))
    return out.getvalue()


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list):
        return orjson.dumps(value, default=str).decode()
    return str(value)


def _cell(value: Any) -> str:
    """A value for people: six significant digits, seconds, no control characters (what
    is stored may be hostile).
    """
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        text = str(value)
    elif isinstance(value, float):
        text = f"{value:.6g}" if abs(value) < 1e6 or not math.isfinite(value) else f"{value:,.0f}"
    elif isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
    else:
        text = value.isoformat() if isinstance(value, date) else _text(value)
    plain = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return plain if len(plain) <= MAX_CELL else plain[: MAX_CELL - 3] + "..."


FORMS = {"table": table, "csv": comma_separated, "json": json_lines}
