"""The catalogue: one table, and what must hold over all its rows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from pipeline.catalog import (
    EVENTS,
    FACTS,
    FIELDS,
    KINDS,
    METRICS,
    PROFILES,
    Dcgm,
    Field,
    Metric,
    facts_of,
    fields_of,
)

BASE_UNITS = (
    "_bytes",
    "_bytes_per_second",
    "_celsius",
    "_hertz",
    "_joules",
    "_ratio",
    "_seconds",
    "_watts",
    "_bits_per_second",
)

# Native units by the end of a column's name, with the factor to the base
# unit and the family's unit.
NATIVE = {
    "_percent": (1, 100, "_ratio"),
    "_megahertz": (1_000_000, 1, "_hertz"),
    "_watts": (1, 1, "_watts"),
    "_milliwatts": (1, 1000, "_watts"),
    "_milliwatts_per_second": (1, 1000, "_watts_per_second"),
    "_millijoules": (1, 1000, "_joules"),
    "_milliseconds": (1, 1000, "_seconds"),
    "_microseconds": (1, 1_000_000, "_seconds"),
    "_nanoseconds": (1, 1_000_000_000, "_seconds"),
    "_bits_per_second": (1, 8, "_bytes_per_second"),
    "_celsius": (1, 1, "_celsius"),
    "_kibibytes": (1024, 1, "_bytes"),
    "_mebibytes_per_second": (1 << 20, 1, "_bytes_per_second"),
    "_megabytes_per_second": (1_000_000, 1, "_bytes_per_second"),
    "_kilobytes_per_second": (1000, 1, "_bytes_per_second"),
    "_bytes": (1, 1, "_bytes"),
    "_words": (4, 1, "_bytes"),
}
GPU_KINDS = ("gpu", "gpu_instance", "nvlink")

# Ids of the counters file that dcgm-exporter 4.8 ships by default. 230, 449 and 526 are
# worked out by the dialect.
DEFAULT_COUNTERS = {
    100: "DCGM_FI_DEV_SM_CLOCK",
    101: "DCGM_FI_DEV_MEM_CLOCK",
    140: "DCGM_FI_DEV_MEMORY_TEMP",
    150: "DCGM_FI_DEV_GPU_TEMP",
    155: "DCGM_FI_DEV_POWER_USAGE",
    156: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    202: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    203: "DCGM_FI_DEV_GPU_UTIL",
    204: "DCGM_FI_DEV_MEM_COPY_UTIL",
    206: "DCGM_FI_DEV_ENC_UTIL",
    207: "DCGM_FI_DEV_DEC_UTIL",
    251: "DCGM_FI_DEV_FB_FREE",
    252: "DCGM_FI_DEV_FB_USED",
    253: "DCGM_FI_DEV_FB_RESERVED",
    393: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    394: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    395: "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    1001: "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    1004: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    1005: "DCGM_FI_PROF_DRAM_ACTIVE",
    1009: "DCGM_FI_PROF_PCIE_TX_BYTES",
    1010: "DCGM_FI_PROF_PCIE_RX_BYTES",
}
# The renamed fields of the 4.9 generation, from its release notes: legacy id, new id, new name.
RENAMED = {
    100: (1603, "DCGM_FI_DEV_SM_CLOCK_HERTZ"),
    101: (1604, "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ"),
    156: (1611, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"),
    203: (1613, "DCGM_FI_DEV_GPU_UTIL_RATIO"),
    204: (1614, "DCGM_FI_DEV_MEMORY_UTIL_RATIO"),
    206: (1615, "DCGM_FI_DEV_ENC_UTIL_RATIO"),
    207: (1616, "DCGM_FI_DEV_DEC_UTIL_RATIO"),
    251: (1626, "DCGM_FI_DEV_FB_FREE_BYTES"),
    252: (1627, "DCGM_FI_DEV_FB_USED_BYTES"),
    253: (1628, "DCGM_FI_DEV_FB_RESERVED_BYTES"),
    140: (140, "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"),
    150: (150, "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
    155: (155, "DCGM_FI_DEV_BOARD_POWER_WATTS"),
    202: (202, "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"),
    393: (393, "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
    394: (394, "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"),
    395: (395, "DCGM_FI_DEV_ROW_REMAP_FAILED"),
    1001: (1001, "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
    1004: (1004, "DCGM_FI_PROF_TENSOR_UTIL_RATIO"),
    1005: (1005, "DCGM_FI_PROF_DRAM_UTIL_RATIO"),
}


def metrics() -> dict[str, list[Metric]]:
    """Every family of the program, by name."""
    found: dict[str, list[Metric]] = defaultdict(list)
    for metric in (*(f.metric for f in FIELDS), *METRICS):
        found[metric.name].append(metric)
    return found


def dcgm(kind: str) -> Iterator[Dcgm]:
    """DCGM rows of a kind."""
    for rows in (*(f.dcgm for f in fields_of(kind)), *(f.dcgm for f in facts_of(kind))):
        yield from rows


def every(fields: Iterator[Field] | tuple[Field, ...] = FIELDS) -> pytest.MarkDecorator:
    """Parametrise over fields, each named."""
    return pytest.mark.parametrize("field", list(fields), ids=lambda f: f"{f.kind}-{f.name}")


def test_ids_and_names_are_unique() -> None:
    """A column's id is its own forever; its name is its own within its kind."""
    assert [i for i, n in Counter(f.id for f in FIELDS).items() if n > 1] == []
    assert [k for k, n in Counter((f.kind, f.name) for f in FIELDS).items() if n > 1] == []
    assert [k for k, n in Counter((f.kind, f.name) for f in FACTS).items() if n > 1] == []


@every()
def test_a_field_is_well_formed(field: Field) -> None:
    """Kinds, profiles and label names are known; names are plain."""
    assert field.kind in KINDS
    assert field.profile in PROFILES
    assert re.fullmatch(r"[a-z][a-z0-9_]*", field.name)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name, _ in field.labels)
    assert bool(field.states) == bool(field.metric.labels), (
        "one label more, and only for a field with states"
    )


@every()
def test_a_name_s_unit_agrees_with_the_scale(field: Field) -> None:
    """The unit at the end of a column's name, its scale and the unit of its family say the same."""
    unit = max((u for u in NATIVE if field.name.endswith(u)), key=len, default="")
    family = field.metric.name.removesuffix("_total")
    if unit:
        times, per, base = NATIVE[unit]
        assert (field.times, field.per) == (times, per)
        assert family.endswith(base)
    else:
        assert (field.times, field.per) == (1, 1)
        assert not family.endswith(
            tuple(u for u in BASE_UNITS if u not in {"_ratio", "_seconds", "_bits_per_second"})
        )


@pytest.mark.slow
@every()
def test_counters_end_in_total(field: Field) -> None:
    """A counter's family ends in _total, a gauge's does not."""
    assert field.metric.type == field.type
    assert field.metric.name.endswith("_total") == (field.type == "counter")


@pytest.mark.parametrize("name", sorted(metrics()))
def test_a_family_is_spelt_once(name: str) -> None:
    """Fields and parts of the program that share a family share its type, HELP and labels."""
    assert len({(m.type, m.help, m.labels) for m in metrics()[name]}) == 1


@pytest.mark.parametrize("metric", [found[0] for found in metrics().values()], ids=lambda m: m.name)
def test_help_is_a_sentence(metric: Metric) -> None:
    """HELP begins with a capital or a digit, ends with a full stop, and is one line."""
    assert re.fullmatch(r"[A-Z0-9][^\n]*\.", metric.help)
    assert metric.name.startswith("tocsin_")
    assert len(metric.help) <= 160


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_label_sets_are_unique(kind: str) -> None:
    """No two fields of a kind make the same series."""
    series = [(f.metric.name, f.labels) for f in fields_of(kind)]
    assert [s for s, n in Counter(series).items() if n > 1] == []


@pytest.mark.parametrize("name", sorted({f.metric.name for f in FIELDS}))
def test_fields_of_a_family_have_the_same_label_names(name: str) -> None:
    """Constant labels of one family have the same names in every field of one kind."""
    for kind in KINDS:
        assert (
            len(
                {
                    tuple(label for label, _ in f.labels)
                    for f in fields_of(kind)
                    if f.metric.name == name
                }
            )
            <= 1
        )


def test_label_names_do_not_collide() -> None:
    """A constant label never bears the name of a label that identifies the device."""
    for field in FIELDS:
        own = {label for label, _ in KINDS[field.kind].labels}
        assert own.isdisjoint({label for label, _ in field.labels} | set(field.metric.labels))


@pytest.mark.parametrize("kind", GPU_KINDS)
def test_dcgm_rows_are_unique(kind: str) -> None:
    """A DCGM id is shown by one field of a kind, under names that are its own."""
    rows = list(dcgm(kind))
    assert [i for i, n in Counter(r.id for r in rows).items() if n > 1] == []
    names = [name for r in rows for name in (r.name, r.new_name) if name]
    assert [n for n, c in Counter(names).items() if c > 1] == []
    assert all(re.fullmatch(r"DCGM_FI_[A-Z0-9_]+", n) for n in names)


@pytest.mark.parametrize("kind", GPU_KINDS)
def test_successors_exist(kind: str) -> None:
    """A field that another took the place of names one that is there,
    and is not renamed as well.
    """
    rows = {r.id: r for r in dcgm(kind)}
    for row in rows.values():
        if row.successor:
            assert row.successor in rows
            assert not row.new_name


@pytest.mark.parametrize(("number", "name"), DEFAULT_COUNTERS.items())
def test_the_default_counters_are_there(number: int, name: str) -> None:
    """Every row of dcgm-exporter's default counters file has a field."""
    assert {r.id: r.name for r in dcgm("gpu")}[number] == name


@pytest.mark.parametrize(("number", "new"), RENAMED.items())
def test_the_new_generation_is_there(number: int, new: tuple[int, str]) -> None:
    """Every renamed field of the 4.9 generation is known by its new name and id."""
    rows = {r.id: r for r in dcgm("gpu")}
    row = rows[number]
    successor = rows[row.successor] if row.successor else row
    assert (successor.id, successor.name if row.successor else row.new_name) == new


@pytest.mark.parametrize(
    ("number", "native", "shown"),
    [
        (100, 1980, 1980),
        (1603, 1980, 1_980_000_000),
        (155, 71_234, 71.234),
        (164, 699_999, 699),
        (156, 123_456, 123_456),
        (1611, 123_999, 123),
        (1613, 97, 0.97),
        (251, 5 * 2**20 + 7, 5),
        (1626, 5 * 2**20 + 7, 5 * 2**20 + 7),
        (240, 5_000_000_000, 5_000_000_000),
        (1617, 2_500_000_000, 2.5),
        (1001, 87.5, 0.875),
        (1009, 3, 3 * 2**20),
    ],
)
def test_dcgm_scales(number: int, native: float, shown: float) -> None:
    """A native value becomes what DCGM shows: its unit, and whole where DCGM's field is whole."""
    (row,) = (r for r in dcgm("gpu") if r.id == number)
    value = native * row.times / row.per
    assert (int(value) if row.whole else value) == pytest.approx(shown)


def test_a_node_s_series_are_bounded() -> None:
    """The default profile has about 90 series per GPU and none per NVLink; the
    minimal one about a dozen.
    """
    series: dict[tuple[str, str], int] = Counter()
    for field in FIELDS:
        series[field.kind, field.profile] += max(1, len(field.states))
    assert series["gpu", "minimal"] <= 12
    # A Hopper board has neither C2C, retired pages, a fan, nor Blackwell's repair flags and
    # unrepairable flag: 15 of these.
    assert series["gpu", "minimal"] + series["gpu", "default"] <= 105
    assert series["nvlink", "minimal"] + series["nvlink", "default"] == 0


def test_events_have_sentences() -> None:
    """Every kind of event says what it means."""
    assert all(re.fullmatch(r"[A-Z][^\n]*\.", event.help) for event in EVENTS.values())
