"""Answers as text: exact for programs, readable for people, harmless for terminals."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.store.query.plot import Panel, moments, nice, svg
from pipeline.store.query.render import FORMS, MAX_CELL, parquet

WHEN = datetime(2027, 1, 15, 8, 30, 0, 123456, UTC)
ROWS = pl.DataFrame(
    {
        "time": pl.Series([WHEN, None], dtype=pl.Datetime("us", "UTC")),
        "device": ['GPU-"1",\n\x1b[31mred', "é"],
        "counter": pl.Series([2**64 - 1, None], dtype=pl.UInt64),
        "ratio": [1 / 3, float("nan")],
        "evidence": [["a", "b"], []],
    }
)


def text(form: str, rows: pl.DataFrame = ROWS) -> str:
    """A whole answer."""
    return "".join(FORMS[form](rows))


def test_json_is_exact() -> None:
    """One object per line; 64-bit counters whole, times with zone, NaN as null."""
    first, second = (json.loads(line) for line in text("json").splitlines())
    assert first == {
        "time": "2027-01-15T08:30:00.123456Z",
        "device": ROWS["device"][0],
        "counter": 2**64 - 1,
        "ratio": 1 / 3,
        "evidence": ["a", "b"],
    }
    assert second == {"time": None, "device": "é", "counter": None, "ratio": None, "evidence": []}


def test_csv_reads_back() -> None:
    """Quotes and newlines survive; what is missing is empty."""
    first, second = csv.DictReader(io.StringIO(text("csv")))
    assert first["device"] == ROWS["device"][0]
    assert (first["counter"], float(first["ratio"]), first["time"]) == (
        str(2**64 - 1),
        1 / 3,
        "2027-01-15T08:30:00.123456Z",
    )
    assert (second["counter"], second["time"]) == ("", "")


def test_a_table_keeps_terminals_safe() -> None:
    """No control character of what is stored reaches the screen, a cell is bounded,
    numbers are aligned to the right.
    """
    shown = text("table", ROWS.with_columns(pl.lit("x" * 1000).alias("long")))
    assert "\x1b" not in shown
    lines = shown.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) < 300
    assert "x" * (MAX_CELL + 1) not in shown
    assert lines[2].split()[-3:-1] == ["nan", "[]"]
    assert " -  " in lines[2]


def test_parquet_reads_back(tmp_path: Path) -> None:
    """The answer as it is."""
    parquet(ROWS, tmp_path / "answer.parquet")
    assert pl.read_parquet(tmp_path / "answer.parquet").equals(ROWS)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**6),
            st.sampled_from(["a", "&" * 40, 'c"<\x1b\0']),
            st.floats(-1e12, 1e12),
        ),
        max_size=30,
    )
)
@example([(0, "a", 5e-324)])
@example([(0, "a", 1e12), (1, "a", 1e12 + 1e-3)])
def test_every_plot_is_well_formed(points: list[tuple[int, str, float]]) -> None:
    """Whatever the numbers and names, XML that a browser takes, with
    coordinates inside the picture.
    """
    times = [WHEN + timedelta(seconds=s) for s, _, _ in points]
    columns = {
        "time": pl.Series(times, dtype=pl.Datetime("us", "UTC")),
        "name": [n for _, n, _ in points],
        "value": [v for *_, v in points],
    }
    rows = pl.DataFrame(columns, schema_overrides={"name": pl.String, "value": pl.Float64})
    root = ET.fromstring(svg([Panel("a < b", "watts", rows), Panel("dots", "", rows, dots=True)]))  # noqa: S314 - our own text
    for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 <= float(circle.attrib["cx"]) <= 960
        assert 0 <= float(circle.attrib["cy"]) <= 520


@pytest.mark.parametrize("seconds", [1, 90, 3600, 86_400, 9 * 86_400, 400 * 86_400])
def test_times_below_an_axis_are_few_and_round(seconds: int) -> None:
    """At most nine, each different from the next."""
    begin = round(WHEN.timestamp() * 1e6)
    words = [word for _, word in moments(begin, begin + seconds * 1_000_000)]
    assert len(words) <= 9
    assert len(set(words)) == len(words) or seconds > 300 * 86_400


@given(st.floats(-1e15, 1e15), st.floats(1e-9, 1e15))
def test_numbers_of_an_axis_enclose_the_data(low: float, span: float) -> None:
    """Rising, few, from below the least to above the greatest."""
    if low + span <= low or span < abs(low) * 1e-9:
        return
    ticks = nice(low, low + span)
    assert ticks == sorted(ticks)
    assert 2 <= len(ticks) <= 9
    assert ticks[0] <= low + span * 1e-6
    assert ticks[-1] >= low + span * (1 - 1e-6)


def test_a_mark_is_shown_at_its_time_also_beyond_the_last_row() -> None:
    """What ended before it is seen to have ended."""
    times = [WHEN, WHEN + timedelta(minutes=1)]
    rows = pl.DataFrame({"time": times, "name": ["GPU 5"] * 2, "value": [1.0, 2.0]})
    mark = round((WHEN + timedelta(minutes=3)).timestamp() * 1e6)
    drawn = ET.fromstring(svg([Panel("power", "W", rows, mark=mark)]))  # noqa: S314 - our own text
    (line,) = [one for one in drawn.iter() if "stroke-dasharray" in one.attrib]
    (curve,) = [one for one in drawn.iter() if one.tag.endswith("path")]
    assert line.attrib["x1"] == line.attrib["x2"]
    last = float(curve.attrib["d"].rpartition("L")[2].partition(" ")[0])
    assert last < float(line.attrib["x1"])
