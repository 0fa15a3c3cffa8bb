"""One simulated node-day is written, compacted, asked and replayed: every canned question
against a count made by hand.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.replay import replay
from pipeline.store.query.canned import QUESTIONS, resolve
from pipeline.store.query.store import Store, Window
from tests.node_day import DAY_S, DOWN, MIDNIGHT_NS, STEP_S, XIDS, Counted, Tally, checksum

pytestmark = pytest.mark.integration

Day = tuple[Path, Counted]
ALL = Window()


def ask(day: Day, name: str, window: Window = ALL) -> dict[str, dict[str, Any]]:
    """Rows of an answer by device."""
    return {row["device"]: row for row in QUESTIONS[name].ask(Store(day[0]), window).to_dicts()}


def watched(day: Day, kind: str, column: str) -> dict[str, Tally]:
    """What was counted of a column, by device."""
    tally, names = (
        day[1].columns[kind, column],
        ("total", "number", "least", "most", "last", "rise", "before"),
    )
    return {
        device: Tally(*(getattr(tally, name)[i].item() for name in names))
        for i, device in enumerate(day[1].devices[kind])
    }


def test_replay_gives_every_observation_bit_for_bit(day: Day) -> None:
    """After compaction, in order, frames and all."""
    assert [checksum(o) for o, _ in replay(day[0])] == day[1].sums
    assert len(day[1].sums) == 2 * (DAY_S - len(DOWN)) // STEP_S + len(XIDS)


def test_a_day_is_one_file_per_table(day: Day) -> None:
    """And the write-ahead log is empty."""
    names = {path.parent.parent.name: path for path in day[0].glob("*/date=2027-01-15/*.parquet")}
    assert {
        "gpu",
        "ib_port",
        "nvlink",
        "node",
        "reads",
        "devices",
        "events",
        "gpu_1m",
        "gpu_15m",
    } <= names.keys()
    assert not list(day[0].glob("*/date=*/hour=*/*.parquet"))
    assert not list((day[0] / "wal").glob("*.wal"))


def test_ecc(day: Day) -> None:
    """Lifetime errors of the day."""
    corrected, uncorrected = (
        watched(day, "gpu", f"ecc_{kind}_aggregate") for kind in ("corrected", "uncorrected")
    )
    rows, remapped, pending = (
        ask(day, "ecc"),
        watched(day, "gpu", "remapped_rows_correctable"),
        watched(day, "gpu", "row_remap_pending"),
    )
    assert len(rows) == 8
    for device, row in rows.items():
        assert (row["corrected"], row["uncorrected"]) == (
            corrected[device].rise,
            uncorrected[device].rise,
        )
        assert (row["rows_remapped_correctable"], row["row_remap_pending"]) == (
            remapped[device].rise,
            pending[device].last,
        )
    assert sum(row["corrected"] for row in rows.values()) > 0


def test_links(day: Day) -> None:
    """Errors, traffic and state of each port; healthy NVLinks are not listed."""
    errors, downed = (
        watched(day, "ib_port", "symbol_errors"),
        watched(day, "ib_port", "link_downed"),
    )
    traffic = {
        "received_bytes": watched(day, "ib_port", "receive_words"),
        "sent_bytes": watched(day, "ib_port", "transmit_words"),
    }
    rows = ask(day, "links")
    assert rows.keys() == errors.keys()
    for device, row in rows.items():
        assert (row["symbol_errors"], row["downed"], row["state"]) == (
            errors[device].rise,
            downed[device].rise,
            "active",
        )
        for name, tally in traffic.items():
            assert row[name] == float(4 * tally[device].rise)
    assert sum(row["symbol_errors"] for row in rows.values()) > 0


def test_throttle(day: Day) -> None:
    """Seconds by reason."""
    rows = ask(day, "throttle")
    for reason in ("power_cap", "sw_thermal", "hw_thermal"):
        counted = watched(day, "gpu", f"throttled_{reason}_nanoseconds")
        assert {d: row[f"{reason}_seconds"] for d, row in rows.items()} == {
            d: t.rise / 1e9 for d, t in counted.items()
        }
    assert max(row["power_cap_seconds"] for row in rows.values()) > 3600


def test_power(day: Day) -> None:
    """Means, peaks, limits and energy."""
    watts, limit = (
        watched(day, "gpu", "power_milliwatts"),
        watched(day, "gpu", "power_limit_enforced_milliwatts"),
    )
    energy = watched(day, "gpu", "energy_millijoules")
    for device, row in ask(day, "power").items():
        assert row["mean_watts"] == pytest.approx(
            watts[device].total / watts[device].number / 1000, rel=1e-9
        )
        assert (row["maximum_watts"], row["limit_watts"]) == (
            watts[device].most / 1000,
            limit[device].last / 1000,
        )
        assert row["energy_kilowatt_hours"] == pytest.approx(energy[device].rise / 3.6e9, rel=1e-12)


def test_temperature(day: Day) -> None:
    """Core, memory and margin."""
    core, memory, margin = (
        watched(day, "gpu", f"{name}_celsius")
        for name in ("temperature", "memory_temperature", "temperature_margin")
    )
    for device, row in ask(day, "temperature").items():
        assert row["mean_celsius"] == pytest.approx(
            core[device].total / core[device].number, rel=1e-9
        )
        assert (row["maximum_celsius"], row["memory_maximum_celsius"]) == (
            core[device].most,
            memory[device].most,
        )
        assert row["least_margin_celsius"] == margin[device].least


def test_xids(day: Day) -> None:
    """Each line of the log once."""
    rows = QUESTIONS["xids"].ask(Store(day[0]), ALL).to_dicts()
    assert sorted((row["code"], row["count"]) for row in rows) == [(31, 2), (43, 1)]
    assert {row["first"] for row in rows} == {_time(3_000), _time(50_000)}


def test_gaps(day: Day) -> None:
    """Minutes without an agent, for both sources; the kernel log is read when it
    speaks and has no period.
    """
    rows = [
        row
        for row in QUESTIONS["gaps"].ask(Store(day[0]), ALL).to_dicts()
        if row["source"] != "kmsg"
    ]
    assert [(row["source"], row["seconds"], row["why"]) for row in rows] == [
        (source, 1.0 * STEP_S + len(DOWN), "not read") for source in ("infiniband", "nvml")
    ]
    assert {row["from"] for row in rows} == {_time(DOWN[0] - STEP_S)}


def test_device(day: Day) -> None:
    """Every field of one GPU, found by its index."""
    window = resolve(Store(day[0]), ALL, ["3"])
    fields = {
        row["field"]: row for row in QUESTIONS["device"].ask(Store(day[0]), window).to_dicts()
    }
    (device,) = window.devices
    watts, energy = (
        watched(day, "gpu", "power_milliwatts")[device],
        watched(day, "gpu", "energy_millijoules")[device],
    )
    assert len(fields) > 150
    assert fields["power_watts"]["samples"] == (DAY_S - len(DOWN)) // STEP_S
    assert fields["power_watts"]["maximum"] == watts.most / 1000
    assert fields["energy_joules"]["increase"] == energy.rise / 1000


def test_health(day: Day) -> None:
    """Events by device."""
    counted: dict[tuple[str, str], int] = {}
    for device, kind, _ in day[1].events:
        counted[device, kind] = counted.get((device, kind), 0) + 1
    rows = QUESTIONS["health"].ask(Store(day[0]), ALL).to_dicts()
    assert {(row["device"], row["what"]): row["count"] for row in rows} == counted


def test_reads(day: Day) -> None:
    """All of each source."""
    rows = QUESTIONS["reads"].ask(Store(day[0]), ALL).to_dicts()
    assert {row["source"]: row["ok"] for row in rows} == {
        source: len(times) for source, times in day[1].reads.items()
    }
    assert {row["maximum_seconds"] for row in rows} == {0.0009}


def test_nodes(day: Day) -> None:
    """What is in it, and since when."""
    (row,) = QUESTIONS["nodes"].ask(Store(day[0]), ALL).to_dicts()
    assert (row["gpus"], row["ib_ports"], row["boots"]) == (8, 8, 1)
    assert (row["first"], row["last"]) == (_time(0), _time(DAY_S - STEP_S))


def _time(second: int) -> datetime:
    return datetime.fromtimestamp(MIDNIGHT_NS // 10**9 + second + 0.5, UTC)
