"""Series of one exporter, recorded by several servers, are one history."""

from __future__ import annotations

import numpy as np

from history.hour import Joined, Twin, changes, joined, side_by_side_ms
from history.meaning.column import Column
from history.site.series import Series
from tests.history.site import BEGIN_MS

POWER, HEAT = Column("gpu", "power_milliwatts"), Column("gpu", "temperature_celsius")
ENERGY = Column("gpu", "energy_millijoules")
TENSOR = Column("gpu", "tensor_activity_percent")


def twin(*cells: tuple[str, Column, list[tuple[int, float]]]) -> Twin:
    """What one server recorded: seconds since the begin, and values."""
    result = Twin()
    for device, column, samples in cells:
        times = np.array([BEGIN_MS + s * 1000 for s, _ in samples], np.int64)
        result.add(device, column, Series({}, times, np.array([v for _, v in samples], float)))
    return result


def values(whole: Joined, device: str, column: Column) -> list[tuple[int, float]]:
    """Samples of a cell, in seconds since the begin."""
    return [
        ((ms - BEGIN_MS) // 1000, value)
        for ms, value in zip(
            whole.times_ms.tolist(), whole.cells[device, column].tolist(), strict=True
        )
        if value == value  # noqa: PLR0124 - not NaN
    ]


def test_a_counter_goes_on_when_a_label_of_its_series_changes() -> None:
    """A job ends one series and begins another of the same counter."""
    whole = joined(
        {("a",): twin(("G", POWER, [(0, 1.0), (15, 2.0)]), ("G", POWER, [(30, 3.0)]))},
        collects=False,
    )
    assert values(whole, "G", POWER) == [(0, 1.0), (15, 2.0), (30, 3.0)]


def test_of_two_servers_the_one_with_more_scrapes_counts() -> None:
    """A scrape is never half of one and half of the other."""
    long = twin(("G", POWER, [(s, 1.0) for s in range(0, 300, 15)]))
    short = twin(("G", POWER, [(s + 7, 2.0) for s in range(0, 150, 15)]))
    whole = joined({("b",): short, ("a",): long}, collects=False)
    assert values(whole, "G", POWER) == [(s, 1.0) for s in range(0, 300, 15)]


def test_the_other_server_fills_a_gap() -> None:
    """Only where the first has none, at a distance that makes no scrape twice."""
    first = twin(("G", POWER, [(s, 1.0) for s in range(0, 600, 15) if not 200 < s < 400]))
    other = twin(("G", POWER, [(s + 5, 2.0) for s in range(150, 450, 15)]))
    whole = joined({("a",): first, ("b",): other}, collects=False)
    filled = [s for s, value in values(whole, "G", POWER) if value == 2.0]
    assert filled
    assert all(195 + 22 < s < 405 - 22 for s in filled)
    assert max(np.diff(whole.times_ms)) < 60_000


def test_a_copy_of_a_sample_is_taken_once_and_a_contradiction_is_counted() -> None:
    """Two series of one counter at one time, equal or not: the first counts."""
    equal = twin(("G", POWER, [(0, 1.0), (15, 2.0)]), ("G", POWER, [(15, 2.0)]))
    assert joined({("a",): equal}, collects=False).conflicts == 0
    other = twin(("G", POWER, [(0, 1.0), (15, 2.0)]), ("G", POWER, [(15, 3.0), (30, 4.0)]))
    whole = joined({("a",): other}, collects=False)
    assert whole.conflicts == 1
    assert values(whole, "G", POWER) == [(0, 1.0), (15, 2.0), (30, 4.0)]


def test_a_scrape_that_repeats_a_collection_is_left_out() -> None:
    """dcgm-exporter collects every 30 seconds; what is scraped between is the same again."""
    collected = [(s, float(s // 30)) for s in range(0, 300, 15)]
    one = twin(("G", POWER, collected), ("G", HEAT, collected), ("G", ENERGY, collected))
    whole = joined({("a",): one}, collects=True)
    assert values(whole, "G", ENERGY) == [(s, s / 30) for s in range(0, 300, 30)]


def test_values_that_stay_longer_are_the_devices_own() -> None:
    """A sensor that is stuck must be seen to be: every other scrape is kept."""
    stuck = [(s, 1.0) for s in range(0, 150, 15)]
    one = twin(("G", POWER, stuck), ("G", HEAT, stuck), ("G", ENERGY, stuck))
    whole = joined({("a",): one}, collects=True)
    assert values(whole, "G", POWER) == [(s, 1.0) for s in range(0, 150, 30)]


def test_nothing_is_left_out_of_an_exporter_that_reads_when_it_is_scraped() -> None:
    """node_exporter: counters of an idle port stay the same."""
    idle = [(s, 1.0) for s in range(0, 150, 15)]
    one = twin(("P", POWER, idle), ("P", HEAT, idle), ("P", ENERGY, idle))
    assert len(joined({("a",): one}, collects=False).times_ms) == 10


def test_cells_that_one_exporter_alone_has_are_taken_at_its_own_scrapes() -> None:
    """A second exporter with other metrics, and a third with some of them, whose copies fill gaps
    only.
    """
    power = twin(("G", POWER, [(s, 1.0) for s in range(0, 300, 15)]))
    tensor = [(s + 7, 2.0) for s in range(0, 150, 15)]
    other = twin(("G", TENSOR, tensor))
    third = twin(("G", POWER, [(5, 3.0)]), ("G", HEAT, [(5, 4.0)]))
    whole = joined({("a",): power, ("b",): other, ("c",): third}, collects=False)
    assert values(whole, "G", POWER) == [(s, 1.0) for s in range(0, 300, 15)]
    assert values(whole, "G", TENSOR) == tensor
    assert values(whole, "G", HEAT) == [(5, 4.0)]
    assert len(whole.times_ms) == 20 + 10 + 1


def test_a_column_that_fills_gaps_gives_no_scrapes_of_its_own() -> None:
    """Beside another exporter; by itself it does."""
    power = twin(("G", POWER, [(s, 1.0) for s in range(0, 300, 15) if not 100 < s < 200]))
    filler = twin(("G", HEAT, [(s + 7, 2.0) for s in range(0, 150, 15)]))
    whole = joined({("a",): power, ("b",): filler}, collects=False, fillers=(HEAT,))
    assert [s for s, _ in values(whole, "G", HEAT)] == [127, 142]
    alone = joined({("b",): filler}, collects=False, fillers=(HEAT,))
    assert len(values(alone, "G", HEAT)) == 10


def test_a_repeated_collection_is_left_out_though_another_exporter_is_scraped_between() -> None:
    """Each exporter repeats itself."""
    collected = [(s, float(s // 30)) for s in range(0, 300, 15)]
    one = twin(("G", POWER, collected), ("G", HEAT, collected), ("G", ENERGY, collected))
    other = twin(("G", TENSOR, [(s + 7, float(s)) for s in range(0, 300, 15)]))
    whole = joined({("a",): one, ("b",): other}, collects=True)
    assert values(whole, "G", ENERGY) == [(s, s / 30) for s in range(0, 300, 30)]


def test_exporters_without_a_device_in_common_at_one_time_are_of_two_machines() -> None:
    """Not those that share a GPU, also by way of a third, nor those of which one follows the
    other.
    """
    early, late = [(s, 1.0) for s in (0, 15)], [(s, 1.0) for s in (30, 45)]
    a, b = twin(("A", POWER, early + late)), twin(("B", POWER, late[:1]))
    assert side_by_side_ms([a, b]) == BEGIN_MS + 30_000
    assert side_by_side_ms([a, b, twin(("B", HEAT, early), ("A", HEAT, early))]) == 0
    assert side_by_side_ms([twin(("A", POWER, early)), twin(("B", POWER, late))]) == 0


def test_the_first_value_that_is_known_is_no_change() -> None:
    """The gauge of the last XID may be weeks old when it is seen first."""
    times = np.arange(5, dtype=np.int64)
    code = np.array([79.0, np.nan, 79.0, 48.0, 48.0])
    assert list(changes(times, code, float("nan"))) == [(3, 48.0)]
    assert list(changes(times, code, 31.0)) == [(0, 79.0), (3, 48.0)]
    assert list(changes(times, code, 79.0)) == [(3, 48.0)]
