"""Retention: what goes by age, what goes by the budget and in which order,
and its metrics.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.catalog import agent
from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.layout import day_folder, folder
from pipeline.store.keep.compact import compact
from pipeline.store.keep.policy import DAY_S, Policy, Upkeep
from pipeline.store.keep.retain import BLOCK, DEFAULT_BYTES, budget, retain, sizes
from pipeline.store.keep.upkeep import upkeep
from tests.pipeline.store.days import MIDNIGHT_NS, files, later, two_days

MIDNIGHT_US = MIDNIGHT_NS // 1000
FOR_EVER = Policy(0, 0, 0, 0, 1 << 50)


class House:
    """A store of empty-handed files: sizes, places and ages are all that retention looks at."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, table: str, day: float, hour: int | None = None, blocks: int = 1) -> Path:
        """One file of a table on a day after the first; of an hour, or of the whole day.

        Written in that hour.
        """
        begin = MIDNIGHT_US + round(day * 86_400_000_000) + (hour or 0) * 3_600_000_000
        where = day_folder(table, begin) if hour is None else folder(table, begin)
        name = "c1-n1-day-0001.parquet" if hour is None else "c1-n1-b-0000000000000001.parquet"
        path = self.root / where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(BLOCK * blocks))
        os.utime(path, (begin / 1e6, begin / 1e6))
        return path

    def left(self) -> list[str]:
        """What is there now."""
        return sorted(
            p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if p.is_file()
        )


@pytest.mark.parametrize(
    ("table", "policy"),
    [
        ("gpu", Policy(raw_s=30 * DAY_S)),
        ("reads", Policy(raw_s=30 * DAY_S)),
        ("gpu_1m", Policy(minute_s=30 * DAY_S)),
        ("gpu_15m", Policy(quarter_s=30 * DAY_S)),
        ("events", Policy(events_s=30 * DAY_S)),
        ("findings", Policy(events_s=30 * DAY_S)),
        ("devices", Policy(events_s=30 * DAY_S)),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_each_table_is_kept_as_long_as_it_says(tmp_path: Path, table: str, policy: Policy) -> None:
    """Thirty days and not one less; the empty folders go too."""
    house = House(tmp_path)
    old, young = house.put(table, 0), house.put(table, 2)
    retain(later(tmp_path, 30.99), policy)
    assert old.exists()
    retain(later(tmp_path, 31.01), policy)
    assert (old.parent.exists(), young.exists()) == (False, True)


def test_by_default_measurements_go_after_a_month_and_events_stay(tmp_path: Path) -> None:
    """Thirty days, thirteen months, forever."""
    house = House(tmp_path)
    for table in ("gpu", "gpu_1m", "gpu_15m", "events"):
        house.put(table, 0)
    removed = retain(later(tmp_path, 31.1), Policy())
    assert removed.sizes == {"gpu": {"age": BLOCK}}
    removed = retain(later(tmp_path, 400), Policy())
    assert removed.sizes == {"gpu_1m": {"age": BLOCK}}
    retain(later(tmp_path, 5000), Policy())
    assert house.left() == [
        f"{t}/date=2027-01-15/c1-n1-day-0001.parquet" for t in ("events", "gpu_15m")
    ]


def test_what_was_written_while_the_clock_stood_wrong_is_kept_as_long(tmp_path: Path) -> None:
    """A board without a battery boots in 1970; its first rows are not thrown
    away when the time is set.
    """
    house = House(tmp_path)
    odd = house.put("gpu", -365 * 57, 0)
    now = later(tmp_path, 3).now_us
    os.utime(odd, (now / 1e6, now / 1e6))
    retain(later(tmp_path, 3), Policy())
    assert odd.exists()
    retain(later(tmp_path, 40), Policy())
    assert not odd.exists()


def test_over_the_budget_the_oldest_of_the_least_valuable_goes_first(tmp_path: Path) -> None:
    """Quarantine, then measurements hour by hour, then roll-ups from fine to coarse, then
    events; each oldest first.
    """
    house = House(tmp_path)
    order = [
        ["quarantine/gpu/date=2027-01-15/hour=00/c1-n1-b-0000000000000001.parquet"],
        [
            "gpu/date=2027-01-15/c1-n1-day-0001.parquet",
            "reads/date=2027-01-15/c1-n1-day-0001.parquet",
        ],
        [
            "gpu/date=2027-01-16/hour=03/c1-n1-b-0000000000000001.parquet",
            "nvlink/date=2027-01-16/hour=03/c1-n1-b-0000000000000001.parquet",
        ],
        ["gpu/date=2027-01-16/hour=04/c1-n1-b-0000000000000001.parquet"],
        ["gpu_1m/date=2027-01-14/c1-n1-day-0001.parquet"],
        ["gpu_15m/date=2027-01-14/c1-n1-day-0001.parquet"],
        [
            "events/date=2027-01-13/c1-n1-day-0001.parquet",
            "findings/date=2027-01-13/c1-n1-day-0001.parquet",
        ],
    ]
    house.put("quarantine/gpu", 0, 0)
    for table, day, hour in (
        ("gpu", 0, None), ("reads", 0, None), ("gpu", 1, 3), ("nvlink", 1, 3), ("gpu", 1, 4),
        ("gpu_1m", -1, None), ("gpu_15m", -1, None), ("events", -2, None), ("findings", -2, None),
    ):  # fmt: skip
        house.put(table, day, hour)
    expected = sorted(name for names in order for name in names)
    for names in order:
        assert house.left() == expected
        retain(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=len(expected) * BLOCK - 1))
        expected = [name for name in expected if name not in names]
    assert house.left() == expected == []


def test_within_the_budget_nothing_goes(tmp_path: Path) -> None:
    """The budget is a bound, not a wish."""
    house = House(tmp_path)
    for day in range(10):
        house.put("gpu", day)
    assert not retain(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=10 * BLOCK)).paths


def test_the_write_ahead_log_and_the_outbox_count_and_are_never_touched(tmp_path: Path) -> None:
    """The last seconds are worth more than any budget; what waits for the object
    store has a bound of its own.
    """
    house = House(tmp_path)
    for name in ("wal/b-0001.wal", "outbox/routine/gpu/date=2027-01-15/hour=01/x.parquet"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(bytes(BLOCK))
    house.put("gpu", 0)
    assert sum(sizes(tmp_path).values()) == 3 * BLOCK
    retain(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=1))
    assert [name.split("/")[0] for name in house.left()] == ["outbox", "wal"]


def test_what_the_object_store_does_not_have_goes_last_and_is_counted_apart(tmp_path: Path) -> None:
    """Uploaded events go before measurements that nobody else has."""
    house = House(tmp_path)
    waiting, uploaded, events = (
        house.put("gpu", 0, 1),
        house.put("gpu", 0, 2),
        house.put("events", 0, 1),
    )
    most = Policy(0, 0, 0, 0, max_bytes=round(1.2 * BLOCK))
    removed = retain(later(tmp_path), most, lambda path: path == waiting)
    assert (waiting.exists(), uploaded.exists(), events.exists()) == (True, False, False)
    assert removed.sizes == {"gpu": {"budget": BLOCK}, "events": {"budget": BLOCK}}
    removed = retain(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=1), lambda path: path == waiting)
    assert removed.sizes == {"gpu": {"budget_not_uploaded": BLOCK}}


def test_a_link_in_the_outbox_counts_once_and_frees_nothing(tmp_path: Path) -> None:
    """Removing one of two names of a file is not mistaken for room."""
    house = House(tmp_path)
    shared, alone = house.put("gpu", 0, 1, blocks=8), house.put("gpu", 0, 2, blocks=8)
    link = tmp_path / "outbox/routine/gpu/x.parquet"
    link.parent.mkdir(parents=True)
    link.hardlink_to(shared)
    assert sum(sizes(tmp_path).values()) == 16 * BLOCK
    retain(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=12 * BLOCK))
    assert (alone.exists(), sum(sizes(tmp_path).values())) == (False, 8 * BLOCK)


def test_the_default_budget_is_20_gib_or_a_tenth_of_the_disk(tmp_path: Path) -> None:
    """Whichever is less."""
    disk = os.statvfs(tmp_path)
    assert budget(tmp_path, Policy()) == min(20 << 30, round(disk.f_blocks * disk.f_frsize / 10))
    assert budget(tmp_path, Policy(max_bytes=5)) == 5
    assert DEFAULT_BYTES == 20 * 2**30


@pytest.mark.slow
def test_a_day_whose_measurements_are_gone_still_answers(tmp_path: Path) -> None:
    """Roll-ups, events and findings stay; replay of that day is silent,
    and of the next one whole.
    """
    whole = two_days(tmp_path)
    compact(later(tmp_path))
    for path in tmp_path.rglob("*.parquet"):
        day = 0 if "date=2027-01-15" in str(path) else 1
        os.utime(path, (MIDNIGHT_US / 1e6 + day * DAY_S,) * 2)
    retain(later(tmp_path, 31.5), Policy())
    assert (files(tmp_path, "ib_port"), files(tmp_path, "reads")) == ([], [])
    assert files(tmp_path, "ib_port_1m") == files(tmp_path, "events") == ["c1-n1-day-0001.parquet"]
    assert [o.seq for o, _ in replay(tmp_path)] == [o.seq for o, _ in whole if o.seq >= 4000]


@pytest.mark.slow
def test_upkeep_says_what_it_did_and_what_is_there(tmp_path: Path) -> None:
    """The report survives its line, and becomes the agent's own numbers."""
    two_days(tmp_path, hours=(1,))
    house = House(tmp_path)
    house.put("gpu_1m", -40)
    bad = tmp_path / files_of(tmp_path, "node")[0]
    bad.write_bytes(b"x")
    report = Upkeep.from_json(
        upkeep(later(tmp_path), Policy(raw_s=0, minute_s=30 * DAY_S)).to_json()
    )
    assert report.removed == {"gpu_1m": {"age": BLOCK}}
    assert len(report.quarantined) == 1
    assert report.written > 5
    assert report.oldest_s["ib_port"] == MIDNIGHT_US / 1e6
    assert report.sizes == sizes(tmp_path)
    metrics = SelfMetrics()
    report.publish(metrics, MIDNIGHT_NS)
    assert metrics.value(agent.STORE_REMOVED_BYTES, "gpu_1m", "age") == BLOCK
    assert metrics.value(agent.STORE_LAST_REMOVAL) == MIDNIGHT_NS / 1e9
    assert metrics.value(agent.STORE_QUARANTINED) == 1
    assert metrics.value(agent.STORE_BYTES, "ib_port") == report.sizes["ib_port"]
    assert metrics.value(agent.STORE_OLDEST, "reads") == MIDNIGHT_US / 1e6
    assert metrics.value(agent.STORE_BUDGET) == report.budget


@pytest.mark.slow
def test_roll_ups_are_made_before_measurements_are_given_up(tmp_path: Path) -> None:
    """A small budget costs the seconds, not the day."""
    two_days(tmp_path, hours=(1,))
    upkeep(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=16 * BLOCK * 100))
    compacted = sum(sizes(tmp_path).values())
    two_days(tmp_path, hours=(2,))
    upkeep(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=compacted - 1))
    assert files(tmp_path, "ib_port") == []
    assert files(tmp_path, "ib_port_1m") == ["c1-n1-day-0002.parquet"]


def files_of(root: Path, table: str) -> list[str]:
    """Names of a table's files, relative to the root."""
    return sorted(p.relative_to(root).as_posix() for p in (root / table).rglob("*.parquet"))
