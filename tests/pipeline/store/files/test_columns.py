"""Which columns a file has: those with values, fractions as decimals where nothing is lost by it;
readers see no difference.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.catalog import field
from pipeline.replay import replay
from pipeline.store.files.columns import of_rollup, of_rows, of_sources
from pipeline.store.files.parquet import ForeignError, Writer, conform, read, write
from pipeline.store.files.schema import schema
from pipeline.store.keep.compact import compact
from pipeline.store.query.store import Store
from tests.fakes import FakeClock, gpu_frame, observed
from tests.pipeline.store.days import at, later
from tests.pipeline.store.keep.test_seal import Seen, same, store

ACTIVITY = "tensor_activity_percent"  # rounded at its source
PLACES = field("gpu", ACTIVITY).decimals


def stored(clock: FakeClock, *readings: dict[str, float], first: int = 0) -> list[Seen]:
    """One GPU with these readings, a second apart."""
    whole: list[Seen] = []
    for number, values in enumerate(readings):
        clock.advance(1.0)
        whole.append((observed(clock, gpu_frame(clock, values), seq=first + number), ()))
    return whole


def gpu_files(root: Path) -> list[Path]:
    """Files of the table of GPUs."""
    return sorted(root.glob("gpu/**/*.parquet"))


def test_a_column_without_a_value_is_not_in_the_file(tmp_path: Path) -> None:
    """Two hundred readings that this GPU does not have cost nothing, and
    come back as not observed.
    """
    clock = at(1)
    whole = stored(clock, {"power_milliwatts": 5.0}, {"power_milliwatts": 6.0})
    store(tmp_path, whole, clock)
    (path,) = gpu_files(tmp_path)
    assert pq.read_schema(path).names == [*schema("gpu").names[:8], "power_milliwatts"]
    same(list(replay(tmp_path)), whole)


@pytest.mark.slow
def test_a_compacted_day_has_the_columns_of_all_its_files(tmp_path: Path) -> None:
    """A reading that came at noon is not observed before, and lost nowhere."""
    whole: list[Seen] = []
    readings: list[dict[str, float]] = [
        {"power_milliwatts": 5.0},
        {ACTIVITY: 7.25},
        {"energy_millijoules": 2**60 + 1},
    ]
    for number, values in enumerate(readings):
        clock = at(1 + number)
        whole += (part := stored(clock, values, first=number))
        store(tmp_path, part, clock)
    compact(later(tmp_path))
    (path,) = gpu_files(tmp_path)
    assert set(pq.read_schema(path).names[8:]) == {
        "power_milliwatts",
        ACTIVITY,
        "energy_millijoules",
    }
    same(list(replay(tmp_path)), whole)


def test_a_roll_up_has_what_became_of_the_days_columns(tmp_path: Path) -> None:
    """Nothing else, and every one of theirs."""
    clock = at(1)
    store(tmp_path, stored(clock, {ACTIVITY: 7.25, "energy_millijoules": 5.0}), clock)
    compact(later(tmp_path))
    (path,) = tmp_path.glob("gpu_1m/**/*.parquet")
    wanted = [f"{ACTIVITY}_{what}" for what in ("min", "max", "mean", "last")]
    assert set(pq.read_schema(path).names[7:]) == {
        *wanted,
        "energy_millijoules_last",
        "energy_millijoules_increase",
    }


def test_a_question_about_a_column_that_no_file_has_finds_nothing(tmp_path: Path) -> None:
    """The table has it, the files need not: null, alone, in a condition, and in base units."""
    clock = at(1)
    store(tmp_path, stored(clock, {"power_milliwatts": 5.0}), clock)
    asked = Store(tmp_path)
    assert asked.sql("SELECT tensor_activity_percent FROM gpu").rows() == [(None,)]
    assert asked.sql("SELECT device FROM gpu WHERE tensor_activity_percent > 1").rows() == []
    assert asked.sql("SELECT power_watts, tensor_activity_ratio FROM gpu_base").rows() == [
        (0.005, None)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
def test_rounded_fractions_are_decimals_that_others_read_as_such(
    tmp_path: Path, *, compacted: bool
) -> None:
    """An integer of 64 bits in the file, its point in the type; here the same float as before."""
    clock, values = at(1), [0.0, 0.1, 33.3333, 99.9999, 100.0, 1e11 + 0.0001]
    whole = stored(clock, *({ACTIVITY: value} for value in values))
    store(tmp_path, whole, clock)
    if compacted:
        compact(later(tmp_path))
    (path,) = gpu_files(tmp_path)
    assert pq.read_schema(path).field(ACTIVITY).type == pa.decimal128(18, PLACES)
    group = pq.read_metadata(path).row_group(0)
    column = next(
        c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == ACTIVITY
    )
    assert (column.physical_type, "DELTA_BINARY_PACKED" in column.encodings) == ("INT64", True)
    assert read(path, "gpu")[ACTIVITY].to_pylist() == values
    same(list(replay(tmp_path)), whole)


@pytest.mark.slow
@pytest.mark.parametrize("odd", [1 / 3, -0.0, 1e300, float("inf"), 2.0**53])
def test_one_value_that_decimals_would_change_keeps_the_column_a_float(
    tmp_path: Path, odd: float
) -> None:
    """In its own file and in the day that this is merged into: nothing is rounded on the way."""
    clock = at(1)
    first, second = (
        stored(clock, {ACTIVITY: 12.5}),
        stored(clock, {ACTIVITY: odd}, {ACTIVITY: 0.5}, first=1),
    )
    store(tmp_path, first, clock)
    store(tmp_path, second, clock)
    compact(later(tmp_path))
    (path,) = gpu_files(tmp_path)
    assert pq.read_schema(path).field(ACTIVITY).type == pa.float64()
    same(list(replay(tmp_path)), [*first, *second])


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**53) + 1, 2**53 - 1)), min_size=1, max_size=40)
)
def test_any_decimal_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, units: list[int | None]
) -> None:
    """Whatever the places hold, missing ones among them: the float nearest to
    it, as the source had it.
    """
    floats = [None if n is None else n / 10**PLACES for n in units]
    empty = {c.name: pa.nulls(len(units), c.type) for c in schema("gpu")}
    rows = pa.table(empty | {ACTIVITY: pa.array(floats, pa.float64())}, schema=schema("gpu"))
    path = tmp_path_factory.mktemp("any") / "a.parquet"
    write(rows, "gpu", path)
    back = read(path, "gpu")[ACTIVITY].to_pylist()
    assert np.array(back, float).tobytes() == np.array(floats, float).tobytes()


def test_a_slice_of_decimals_is_that_slice() -> None:
    """Readers cut columns into runs before and after they are turned into floats."""
    words = pa.chunked_array(
        [
            pa.array([1, None, 3], pa.decimal128(18, PLACES)),
            pa.array([4, 5], pa.decimal128(18, PLACES)),
        ]
    )
    rows = conform(pa.table({ACTIVITY: words.slice(1, 3)}), "gpu", [ACTIVITY])
    assert rows[ACTIVITY].to_pylist() == [None, 3.0, 4.0]


def test_conditions_prune_by_the_bounds_of_decimals(tmp_path: Path) -> None:
    """Row groups that cannot hold the value are not decoded, and those that can are."""
    clock = at(1)
    store(tmp_path, stored(clock, {ACTIVITY: 1.5}, {ACTIVITY: 99.25}), clock)
    asked = Store(tmp_path)
    assert asked.sql(
        "SELECT tensor_activity_percent FROM gpu WHERE tensor_activity_percent > 50"
    ).rows() == [(99.25,)]
    assert (
        asked.sql(
            "SELECT tensor_activity_percent FROM gpu WHERE tensor_activity_percent > 99.25"
        ).rows()
        == []
    )


def test_a_file_refuses_rows_that_it_has_no_column_for(tmp_path: Path) -> None:
    """A value is never dropped in silence."""
    clock = at(1)
    store(tmp_path, stored(clock, {"power_milliwatts": 5.0}), clock)
    rows = read(gpu_files(tmp_path)[0], "gpu")
    with (
        Writer("gpu", tmp_path / "new.parquet", of_sources("gpu", [])) as file,
        pytest.raises(ValueError, match="power_milliwatts"),
    ):
        file.write(rows)


def test_tables_of_happenings_keep_all_their_columns() -> None:
    """People ask for them by name, whether or not one has a value yet."""
    for table in ("events", "findings", "incidents", "devices", "reads"):
        assert of_rows(table, schema(table).empty_table()).names == schema(table).names


def test_a_day_of_another_catalogue_gives_no_roll_up_of_unknown_columns() -> None:
    """A column that this version does not know has no place here; its
    day waits (see compact.py).
    """
    with pytest.raises(KeyError):
        of_rollup("gpu_1m", pa.schema([("new_celsius", pa.int64())]))


def test_a_damaged_decimal_column_is_named(tmp_path: Path) -> None:
    """Pages of decimals carry checksums like all others."""
    clock = at(1)
    store(tmp_path, stored(clock, *({ACTIVITY: n / 8} for n in range(50))), clock)
    (path,) = gpu_files(tmp_path)
    group = pq.read_metadata(path).row_group(0)
    column = next(
        c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == ACTIVITY
    )
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 3] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(ForeignError, match=path.name):
        read(path, "gpu")
