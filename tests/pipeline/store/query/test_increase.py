"""Increases of counters are the sum of what Rates makes frame by frame, however the rows are stored
and whatever is skipped.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.frame import Device, Frame, blank, schema_of
from pipeline.observation import Observation
from pipeline.rates import Rates
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files import merge
from pipeline.store.files.wal import Wal
from pipeline.store.keep.compact import compact
from pipeline.store.query import store as query
from pipeline.store.query.increase import increases
from pipeline.store.query.store import Store, Window
from tests.fakes import FakeClock
from tests.pipeline.store.days import at, later
from tests.pipeline.store.keep.test_seal import store

KIND = "ib_port"
# 64 bits with a pace, 16 and 8 bits that stick, plain
COUNTERS = ["receive_words", "symbol_errors", "link_downed", "out_of_sequence"]
DEVICES = 3
ALL = Window()
# What a device's counter does from one second to the next: stays, rises, is reset, goes
# to its end, is not read.
MOVES = ["still"] * 6 + ["rise", "jump", "reset", "fall", "top", "missing"]


def frames(
    moves: dict[tuple[str, int], list[str]], epochs: list[int], clock: FakeClock
) -> list[Observation]:
    """One observation per second; ``epochs`` are the seconds at which all devices begin again."""
    schema, n = schema_of(KIND), len(next(iter(moves.values())))
    value = dict.fromkeys(moves, 10)
    made = []
    for second in range(n):
        clock.advance(1.0)
        devices = tuple(
            Device("n1", KIND, f"port-{i}", {"epoch": str(sum(s <= second for s in epochs))})
            for i in range(DEVICES)
        )
        gauges, counters, observed = blank(KIND, devices)
        for (name, i), steps in moves.items():
            width = next(f.width for f in schema.counters if f.name == name)
            top = 2**width - 1 if width < 64 else 2**52  # the engine's increments are float64
            change = {
                "rise": value[name, i] + 3,
                "jump": value[name, i] + 10**6,
                "reset": 2,
                "fall": value[name, i] // 2,
                "top": top,
            }
            value[name, i] = min(change.get(steps[second], value[name, i]), top)
            counters[schema.counter_row[name], i] = value[name, i]
            observed[schema.counter_row[name], i] = steps[second] != "missing"
        frame = Frame(
            schema,
            clock.time_ns(),
            clock.monotonic_ns(),
            devices,
            gauges,
            counters,
            observed,
            np.zeros(DEVICES, np.int64),
        )
        made.append(
            Observation(
                "infiniband",
                "n1",
                "boot-1",
                second,
                clock.time_ns(),
                clock.monotonic_ns(),
                1,
                (frame,),
            )
        )
    return made


def expected(observations: list[Observation]) -> dict[str, dict[str, int | None]]:
    """Increase by device and counter: frame by frame, through the one place where
    counters are subtracted.
    """
    rates, schema = Rates(schema_of(KIND), 1.0), schema_of(KIND)
    total: dict[str, dict[str, int | None]] = {}
    for o in observations:
        frame = rates.add(o.frames[0], o.boot_id)
        assert frame.increments is not None
        for i, device in enumerate(frame.devices):
            sums = total.setdefault(device.id, dict.fromkeys(COUNTERS))
            for name in COUNTERS:
                delta = frame.increments.delta[schema.counter_row[name], i]
                sums[name] = sums[name] if np.isnan(delta) else (sums[name] or 0) + int(delta)
    return total


def found(root: Path, window: Window = ALL) -> dict[str, dict[str, int | None]]:
    """The same from the store."""
    rows = increases(Store(root), KIND, COUNTERS, window)
    return {
        row["device"]: {name: row[name] for name in COUNTERS} for row in rows.iter_rows(named=True)
    }


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data(), st.lists(st.integers(1, 24), max_size=2))
def test_increases_are_those_of_rates(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, epochs: list[int]
) -> None:
    """Resets, new epochs, saturation, what was not read: sealed, in many small files,
    compacted, and still in the log.
    """
    root = tmp_path_factory.mktemp("rises")
    n = data.draw(st.integers(2, 25))
    steps = st.lists(st.sampled_from(MOVES), min_size=n, max_size=n)
    moves = {(name, i): data.draw(steps) for name in COUNTERS for i in range(DEVICES)}
    clock = at(1)
    whole = frames(moves, epochs, clock)
    cut = data.draw(st.one_of(st.just(n), st.integers(0, n)))
    store(root, [(o, ()) for o in whole[:cut]], clock, segment_bytes=8_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            merge, "GROUP_ROWS", 4
        )  # so that devices have row groups of their own, as they have in a real day
        if data.draw(st.booleans()):
            compact(later(root))
    wal = Wal(root / "wal", clock, SelfMetrics())
    for o in whole[cut:]:
        wal.write(o, ())
    wal.close()
    assert found(root) == expected(whole)


@pytest.mark.slow
def test_a_window_cuts_increases(tmp_path: Path) -> None:
    """Only samples within count, each against the sample before it within."""
    clock = at(1)
    whole = frames(
        {(name, i): ["rise"] * 20 for name in COUNTERS for i in range(DEVICES)}, [], clock
    )
    store(tmp_path, [(o, ()) for o in whole], clock)
    times = [datetime.fromtimestamp(o.time_ns / 1e9, UTC) for o in whole]
    assert found(tmp_path, Window(times[5], times[15])) == expected(whole[5:15])
    assert found(
        tmp_path, Window(times[0] - timedelta(days=3), times[-1] + timedelta(days=3), ("port-1",))
    ) == {"port-1": expected(whole)["port-1"]}
    assert found(tmp_path, Window(times[-1] + timedelta(days=3))) == {}


def test_counters_that_stand_still_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day in which nothing rose is answered from the footer alone, and the
    answer is 0, not nothing.
    """
    clock = at(1)
    whole = frames(
        {(name, i): ["still"] * 40 for name in COUNTERS for i in range(DEVICES)}, [], clock
    )
    store(tmp_path, [(o, ()) for o in whole], clock)
    compact(later(tmp_path))
    asked: list[str] = []
    collect = query.Store.collect

    def watching(self: Store, rows: pl.LazyFrame) -> pl.DataFrame:
        asked.append(" ".join(rows.collect_schema()))
        return collect(self, rows)

    monkeypatch.setattr(query.Store, "collect", watching)
    assert found(tmp_path) == {f"port-{i}": dict.fromkeys(COUNTERS, 0) for i in range(DEVICES)}
    assert not [columns for columns in asked if set(columns.split()) & set(COUNTERS)]


@pytest.mark.slow
def test_a_counter_that_only_rises_is_answered_from_its_own_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times, boots and numbers are decoded only where a counter fell; then that device's
    answer is still that of Rates.
    """
    clock = at(1)
    moves = {(name, i): ["rise"] * 40 for name in COUNTERS for i in range(DEVICES)}
    moves["out_of_sequence", 1] = ["rise"] * 20 + ["reset"] + ["rise"] * 19
    whole = frames(moves, [20], clock)
    store(tmp_path, [(o, ()) for o in whole], clock)
    monkeypatch.setattr(merge, "GROUP_ROWS", 8)
    compact(later(tmp_path))
    asked: list[tuple[list[str], tuple[str, ...]]] = []
    pieces = query.Store.pieces

    def watching(self: Store, name: str, columns: list[str], window: Window) -> object:
        asked.append((list(columns), window.devices))
        return pieces(self, name, columns, window)

    monkeypatch.setattr(query.Store, "pieces", watching)
    assert found(tmp_path) == expected(whole)
    ((columns, devices),) = asked
    assert not {"symbol_errors", "link_downed"} & set(columns)
    assert "out_of_sequence" in columns
    assert set(devices) <= {f"port-{i}" for i in range(DEVICES)}


def test_an_increase_may_exceed_what_a_float_holds(tmp_path: Path) -> None:
    """Sums are exact integers."""
    clock = at(1)
    moves = {(name, i): ["still"] * 3 for name in COUNTERS for i in range(DEVICES)}
    whole = frames(moves, [], clock)
    row = schema_of(KIND).counter_row["out_of_sequence"]
    for o, value in zip(whole, (1, 2**62, 2**62 + 2**60 + 1), strict=True):
        counters = o.frames[0].counters.copy()
        counters[row] = value
        object.__setattr__(o, "frames", (replace(o.frames[0], counters=counters),))
    store(tmp_path, [(o, ()) for o in whole], clock)
    assert found(tmp_path)["port-0"]["out_of_sequence"] == 2**62 + 2**60
