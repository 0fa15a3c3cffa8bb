"""DuckDB reads the same files by their names alone and agrees with every canned question."""

# ruff: noqa: S608 - the texts are ours, of names in the catalogue and folders of the test

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from pipeline.store.query.canned import QUESTIONS
from pipeline.store.query.store import Store, Window
from tests.node_day import Counted

pytestmark = pytest.mark.integration

ALL = Window()

# What a counter rose by: a value below the one before came after a reset.
RISES = """
  sum(CASE WHEN {c} IS NULL OR {c}_before IS NULL THEN 0 WHEN {c} >= {c}_before THEN {c} - {c}_before ELSE {c} END)::DOUBLE AS {c}"""  # noqa: E501 - text as it is used
BEFORE = "lag({c}) OVER (PARTITION BY host, device ORDER BY boot_id, seq) AS {c}_before"


class Files:
    """The store as DuckDB sees it."""

    def __init__(self, root: Path) -> None:
        self._db = duckdb.connect()
        for table in ("gpu", "ib_port", "nvlink", "events", "reads", "devices"):
            files = (
                f"read_parquet('{root}/{table}/**/*.parquet', hive_partitioning = true, "
                "union_by_name = true)"
            )
            self._db.execute(f"CREATE VIEW {table} AS SELECT *, epoch_us(time) AS us FROM {files}")

    def ask(self, text: str) -> list[dict[str, Any]]:
        """Rows of an answer."""
        answer = self._db.execute(text)
        names = [column[0] for column in answer.description or ()]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    def increases(self, table: str, *counters: str) -> dict[str, dict[str, float]]:
        """Increases by device."""
        inner = ", ".join(["host", "device", *counters, *(BEFORE.format(c=c) for c in counters)])
        outer = ", ".join(["device", *(RISES.format(c=c) for c in counters)])
        return {
            row["device"]: row
            for row in self.ask(
                f"SELECT {outer} FROM (SELECT {inner} FROM {table}) GROUP BY device"
            )
        }


@pytest.fixture(scope="module")
def files(day: tuple[Path, Counted]) -> Files:
    """The day's files."""
    return Files(day[0])


def ours(day: tuple[Path, Counted], name: str, window: Window = ALL) -> list[dict[str, Any]]:
    """Our answer; times in microseconds."""
    rows = QUESTIONS[name].ask(Store(day[0]), window)
    moments = [column for column, kind in rows.schema.items() if isinstance(kind, pl.Datetime)]
    return rows.with_columns(pl.col(moments).dt.timestamp("us")).to_dicts()


def test_ecc(day: tuple[Path, Counted], files: Files) -> None:
    """Errors and replaced rows."""
    counters = (
        "ecc_corrected_aggregate",
        "ecc_uncorrected_aggregate",
        "remapped_rows_correctable",
        "remapped_rows_uncorrectable",
    )
    names = ("corrected", "uncorrected", "rows_remapped_correctable", "rows_remapped_uncorrectable")
    theirs = files.increases("gpu", *counters)
    for row in ours(day, "ecc"):
        assert [row[name] for name in names] == [theirs[row["device"]][c] for c in counters]


def test_links(day: tuple[Path, Counted], files: Files) -> None:
    """Errors and traffic of ports; no NVLink with an error."""
    theirs = files.increases(
        "ib_port",
        "symbol_errors",
        "link_downed",
        "link_error_recoveries",
        "receive_words",
        "transmit_words",
    )
    rows = ours(day, "links")
    assert {row["device"] for row in rows} == theirs.keys()
    for row in rows:
        their = theirs[row["device"]]
        assert [row[n] for n in ("symbol_errors", "downed", "recoveries")] == [
            their[n] for n in ("symbol_errors", "link_downed", "link_error_recoveries")
        ]
        assert [row["received_bytes"], row["sent_bytes"]] == [
            4 * their["receive_words"],
            4 * their["transmit_words"],
        ]
    wrong = "SELECT count(*) AS n FROM nvlink WHERE data_link_replay_errors > 0 OR state != 1"
    assert files.ask(wrong) == [{"n": 0}]


def test_throttle(day: tuple[Path, Counted], files: Files) -> None:
    """Seconds by every reason that was observed."""
    rows = ours(day, "throttle")
    reasons = [name.removesuffix("_seconds") for name in rows[0] if name.endswith("_seconds")]
    theirs = files.increases("gpu", *(f"throttled_{reason}_nanoseconds" for reason in reasons))
    for row in rows:
        for reason in reasons:
            assert (
                row[f"{reason}_seconds"]
                == theirs[row["device"]][f"throttled_{reason}_nanoseconds"] / 1e9
            )


def test_xids(day: tuple[Path, Counted], files: Files) -> None:
    """Lines by GPU and code; a line that the log numbers counts once."""
    text = """
      SELECT device, code, count(*) AS n, min(us) AS first FROM (
        SELECT DISTINCT device, (attributes ->> 'code')::INT AS code, attributes ->> 'stream' AS stream, attributes ->> 'seq' AS line, us
        FROM events WHERE kind = 'xid')
      GROUP BY device, code"""  # noqa: E501 - text as it is used
    theirs = {(row["device"], row["code"]): (row["n"], row["first"]) for row in files.ask(text)}
    assert {
        (row["device"], row["code"]): (row["count"], row["first"]) for row in ours(day, "xids")
    } == theirs


def test_gaps(day: tuple[Path, Counted], files: Files) -> None:
    """More than three periods between good reads."""
    text = """
      WITH good AS (SELECT source, us, lag(us) OVER (PARTITION BY host, source ORDER BY us) AS before FROM reads WHERE outcome = 'ok'),
           usual AS (SELECT source, median(us - before) AS step FROM good GROUP BY source)
      SELECT good.source, before, us FROM good JOIN usual USING (source) WHERE us - before > 3 * step"""  # noqa: E501 - text as it is used
    theirs = sorted((row["source"], row["before"], row["us"]) for row in files.ask(text))
    assert sorted((row["source"], row["from"], row["until"]) for row in ours(day, "gaps")) == theirs


def test_device(day: tuple[Path, Counted], files: Files) -> None:
    """Means, extremes and numbers of samples of one GPU."""
    device = files.ask("SELECT min(device) AS device FROM gpu")[0]["device"]
    rows = {row["field"]: row for row in ours(day, "device", Window(devices=(device,)))}
    text = f"""
      SELECT avg(power_milliwatts) / 1000 AS mean, min(temperature_celsius) AS least, max(temperature_celsius) AS most, count(*) AS n,
             avg(gpu_utilization_percent) / 100 AS busy FROM gpu WHERE device = '{device}'"""  # noqa: E501 - text as it is used
    (their,) = files.ask(text)
    assert rows["power_watts"]["mean"] == pytest.approx(their["mean"], rel=1e-9)
    assert [rows["temperature_celsius"][name] for name in ("minimum", "maximum", "samples")] == [
        their["least"],
        their["most"],
        their["n"],
    ]
    assert rows["gpu_utilization_ratio"]["mean"] == pytest.approx(their["busy"], rel=1e-9)


def test_power(day: tuple[Path, Counted], files: Files) -> None:
    """Watts and energy."""
    text = """
      SELECT device, avg(power_milliwatts) / 1000 AS mean, max(power_milliwatts) / 1000 AS most,
             arg_max(power_limit_enforced_milliwatts, time) / 1000 AS cap FROM gpu GROUP BY device"""  # noqa: E501 - text as it is used
    theirs, energy = (
        {row["device"]: row for row in files.ask(text)},
        files.increases("gpu", "energy_millijoules"),
    )
    for row in ours(day, "power"):
        their = theirs[row["device"]]
        assert row["mean_watts"] == pytest.approx(their["mean"], rel=1e-9)
        assert (row["maximum_watts"], row["limit_watts"]) == (their["most"], their["cap"])
        assert row["energy_kilowatt_hours"] == pytest.approx(
            energy[row["device"]]["energy_millijoules"] / 3.6e9, rel=1e-12
        )


def test_temperature(day: tuple[Path, Counted], files: Files) -> None:
    """Core, memory and margin."""
    text = """
      SELECT device, avg(temperature_celsius) AS mean, max(temperature_celsius) AS most, max(memory_temperature_celsius) AS memory,
             min(temperature_margin_celsius) AS margin FROM gpu GROUP BY device"""  # noqa: E501 - text as it is used
    theirs = {row["device"]: row for row in files.ask(text)}
    for row in ours(day, "temperature"):
        their = theirs[row["device"]]
        assert row["mean_celsius"] == pytest.approx(their["mean"], rel=1e-9)
        names = ("maximum_celsius", "memory_maximum_celsius", "least_margin_celsius")
        assert [row[name] for name in names] == [their["most"], their["memory"], their["margin"]]


def test_health(day: tuple[Path, Counted], files: Files) -> None:
    """Events by device and kind."""
    text = """
      SELECT device, kind, sum(coalesce((attributes ->> 'count')::INT, 1))::INT AS n, min(us) AS first, max(us) AS last
      FROM events GROUP BY device, kind"""  # noqa: E501 - text as it is used
    theirs = {
        (row["device"], row["kind"]): (row["n"], row["first"], row["last"])
        for row in files.ask(text)
    }
    assert {
        (row["device"], row["what"]): (row["count"], row["first"], row["last"])
        for row in ours(day, "health")
    } == theirs


def test_reads(day: tuple[Path, Counted], files: Files) -> None:
    """By source and outcome."""
    text = """
      SELECT source, count(*) AS n, count(*) FILTER (outcome = 'ok') AS ok, avg(duration_ns) / 1e9 AS mean FROM reads GROUP BY source"""  # noqa: E501 - text as it is used
    theirs = {row["source"]: row for row in files.ask(text)}
    for row in ours(day, "reads"):
        their = theirs[row["source"]]
        assert (row["reads"], row["ok"]) == (their["n"], their["ok"])
        assert row["mean_seconds"] == pytest.approx(their["mean"], rel=1e-9)


def test_nodes(day: tuple[Path, Counted], files: Files) -> None:
    """Devices by kind, first and last read."""
    kinds = {
        row["kind"]: row["n"]
        for row in files.ask("SELECT kind, count(DISTINCT device) AS n FROM devices GROUP BY kind")
    }
    (seen,) = files.ask(
        "SELECT min(us) AS first, max(us) AS last, count(DISTINCT boot_id) AS boots FROM reads"
    )
    (row,) = ours(day, "nodes")
    assert (row["gpus"], row["ib_ports"]) == (kinds["gpu"], kinds["ib_port"])
    assert {name: row[name] for name in seen} == seen


def test_field_ids_and_units_are_in_the_files(day: tuple[Path, Counted]) -> None:
    """A stranger finds each column's identity in the Parquet schema."""
    db = duckdb.connect()
    path = next((day[0] / "gpu").rglob("*.parquet"))
    rows = db.execute(
        f"SELECT name, field_id FROM parquet_schema('{path}') WHERE field_id IS NOT NULL"
    ).fetchall()
    assert dict(rows)["energy_millijoules"] > 1000
    assert len({number for _, number in rows}) == len(rows)


def test_roll_ups_add_up_to_the_raw_rows(day: tuple[Path, Counted], files: Files) -> None:
    """The increases of all quarters of an hour are the day's increase."""
    db = duckdb.connect()
    text = (
        "SELECT device, sum(energy_millijoules_increase)::DOUBLE FROM "
        f"read_parquet('{day[0]}/gpu_15m/**/*.parquet') GROUP BY device"
    )
    rolled = dict(db.execute(text).fetchall())
    assert rolled == {
        device: row["energy_millijoules"]
        for device, row in files.increases("gpu", "energy_millijoules").items()
    }
