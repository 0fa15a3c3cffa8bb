"""Retention: what goes by age, what goes by the budget and in which order,
and its metrics.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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
    old, young, _ = house.put(table, 0), house.put(table, 2), house.put("node", 40)
    retain(later(tmp_path, 30.99), policy)
    assert old.exists()
    retain(later(tmp_path, 31.01), policy)
    assert (old.parent.exists(), young.exists()) == (False, True)


def test_by_default_measurements_go_after_a_month_and_events_stay(tmp_path: Path) -> None:
    """Thirty days, thirteen months, forever."""
    house = House(tmp_path)
    for table in ("gpu", "gpu_1m", "gpu_15m", "events"):
        house.put(table, 0)
    house.put("events", 6000)
    removed = retain(later(tmp_path, 31.1), Policy())
    assert removed.sizes == {"gpu": {"age": BLOCK}}
    removed = retain(later(tmp_path, 400), Policy())
    assert removed.sizes == {"gpu_1m": {"age": BLOCK}}
    retain(later(tmp_path, 5000), Policy())
    assert [name for name in house.left() if "date=2027" in name] == [
        f"{t}/date=2027-01-15/c1-n1-day-0001.parquet" for t in ("events", "gpu_15m")
    ]


def test_what_was_written_while_the_clock_stood_wrong_is_kept_as_long(tmp_path: Path) -> None:
    """A board without a battery boots in 1970; its first rows are not thrown
    away when the time is set.
    """
    house = House(tmp_path)
    odd, _ = house.put("gpu", -365 * 57, 0), house.put("node", 50)
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
    """Removing one of two names of a file is not mistaken for room: the other one stays too."""
    house = House(tmp_path)
    shared, alone = house.put("gpu", 0, 1, blocks=8), house.put("gpu", 0, 2, blocks=8)
    link = tmp_path / "outbox/routine/gpu/x.parquet"
    link.parent.mkdir(parents=True)
    link.hardlink_to(shared)
    assert sum(sizes(tmp_path).values()) == 16 * BLOCK
    retain(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=12 * BLOCK))
    assert (alone.exists(), sum(sizes(tmp_path).values())) == (False, 8 * BLOCK)
    assert not retain(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=BLOCK)).paths
    assert shared.exists()
    link.unlink()  # it was sent
    retain(later(tmp_path), Policy(0, 0, 0, 0, max_bytes=BLOCK))
    assert not shared.exists()


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
    House(tmp_path).put("events", 40)
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


def test_a_clock_that_is_400_days_ahead_for_one_run_removes_nothing(tmp_path: Path) -> None:
    """Age counts from the newest data: 31 days of it stay, whatever the clock shows."""
    house = House(tmp_path)
    for day in range(31):
        house.put("gpu", day)
    before = house.left()
    removed = retain(later(tmp_path, 431), Policy())
    assert (removed.paths, removed.held_back) == ([], {})
    assert house.left() == before


def test_data_written_with_a_wrong_clock_cost_one_day_and_the_rest_is_held_back(
    tmp_path: Path,
) -> None:
    """The agent stored an hour with a date of next year: the oldest day goes, the others are named,
    and once the clock is right nothing is too old any longer.
    """
    house = House(tmp_path)
    for day in range(30):
        house.put("gpu", day)
        house.put("reads", day)
    house.put("gpu", 430, 3)
    for _ in range(5):
        removed = retain(later(tmp_path, 430.2), Policy())
    assert removed.held_back == {"gpu": 29 * BLOCK, "reads": 29 * BLOCK}
    assert not (tmp_path / "gpu/date=2027-01-15").exists()
    removed = retain(later(tmp_path, 30.2), Policy())
    assert (removed.paths, removed.held_back) == ([], {})
    assert len(house.left()) == 2 * 29 + 1 + 1  # and state/retention.json


def test_an_operator_who_confirms_gets_all_of_it_removed(tmp_path: Path) -> None:
    """After a look at the clock: `tocsin compact --once --confirm-removal`."""
    house = House(tmp_path)
    for day in (*range(20), 60):
        house.put("gpu", day)
    removed = retain(later(tmp_path, 61), Policy(), confirmed=True)
    assert removed.sizes == {"gpu": {"age": 20 * BLOCK}}
    assert removed.held_back == {}


@pytest.mark.slow
def test_a_node_that_was_off_for_ten_days_catches_up_by_itself(tmp_path: Path) -> None:
    """Ten days are too old at once; they go within four days of new data, one every six hours."""
    house = House(tmp_path)
    for day in range(30):
        house.put("gpu", day)
    most = 0
    for hours in range(0, 96, 1):
        day = 40 + hours // 24
        house.put("gpu", day, hours % 24)
        removed = retain(later(tmp_path, day + (hours % 24 + 1) / 24), Policy())
        gone = {path.parent.name for path in removed.paths}
        assert len(gone) <= 1
        most = max(most, removed.held_back.get("gpu", 0))
    assert most >= 9 * BLOCK
    assert removed.held_back == {}
    assert (tmp_path / "gpu/date=2027-01-29").exists()  # 30 days before


def test_files_of_one_day_that_expire_one_after_the_other_go_in_the_same_turn(
    tmp_path: Path,
) -> None:
    """Compaction writes a day's tables within minutes: the last ones wait for no other turn."""
    house = House(tmp_path)
    for table in ("gpu", "node"):
        house.put(table, 0)
    house.put("reads", 40)
    late = house.put("ib_port", 0)
    at_s = (later(tmp_path, 1.01).now_us) / 1e6
    os.utime(late, (at_s, at_s))
    assert set(retain(later(tmp_path, 31.005), Policy()).sizes) == {"gpu", "node"}
    removed = retain(later(tmp_path, 31.02), Policy())
    assert (set(removed.sizes), removed.held_back) == ({"ib_port"}, {})


def test_what_is_not_ours_is_never_removed(tmp_path: Path) -> None:
    """A folder named like a file, another's name, a link, a file of a newer version: by age or for
    the budget. They are named and counted.
    """
    house = House(tmp_path)
    ours = house.put("gpu", 0)
    (ours.parent / "c1-n1-day-0002.parquet").mkdir()
    (ours.parent / "report.parquet").write_bytes(bytes(9 * BLOCK))
    (ours.parent / "c1-n1-day-0003.parquet").symlink_to(ours)
    newer = ours.parent / "c1-n1-day-0004.parquet"
    table = pa.table({"x": [1]}).replace_schema_metadata(
        {"tocsin.table": "gpu", "tocsin.format": "99"}
    )
    pq.write_table(table, newer)
    house.put("node", 40)
    report = upkeep(later(tmp_path, 41), Policy(max_bytes=1))
    assert sorted(path.name for path in ours.parent.iterdir()) == [
        "c1-n1-day-0002.parquet",
        "c1-n1-day-0003.parquet",
        "c1-n1-day-0004.parquet",
        "report.parquet",
    ]
    assert report.skipped == {"no_file": 2, "name": 1, "newer": 1, "disk": 0}
    assert f"{ours.parent / 'report.parquet'}: not a name of ours" in report.skipped_names
    metrics = SelfMetrics()
    Upkeep.from_json(report.to_json()).publish(metrics, MIDNIGHT_NS)
    assert metrics.value(agent.STORE_SKIPPED, "newer") == 1


def files_of(root: Path, table: str) -> list[str]:
    """Names of a table's files, relative to the root."""
    return sorted(p.relative_to(root).as_posix() for p in (root / table).rglob("*.parquet"))
