"""Counters files: what dcgm-exporter takes is taken, what it refuses is refused in its
words with file and line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.dcgm import (
    DEFAULT_FILE,
    EXTENDED_FILE,
    LOWER_CASE_FILE,
    CountersError,
    load,
    parse,
)
from pipeline.dcgm.counters import Compat
from pipeline.dcgm.names import ids as dcgm_ids
from tests.sources import ROOT

NAMES = ROOT / "tests" / "data" / "dcgm" / "names.txt"  # dcgm_fields.go of go-dcgm v1.4611
TEMP = "DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).\n"

# dcgm-exporter 4.8.2, etc/default-counters.csv, active rows in file order.
DEFAULT_IDS = [
    100,
    101,
    140,
    150,
    155,
    156,
    202,
    203,
    204,
    206,
    207,
    230,
    251,
    252,
    253,
    449,
    526,
    393,
    394,
    395,
]
DEFAULT_IDS += [1, 1001, 1004, 1005, 1009, 1010]


def refused(text: str) -> str:
    """The message a file is refused with."""
    with pytest.raises(CountersError) as error:
        parse(text, "c.csv")
    return str(error.value)


def test_the_default_set_is_that_of_dcgm_exporter() -> None:
    """The 26 rows of 4.8.2 in file order, without a warning."""
    counters = load()
    assert [row.id for row in counters.rows] == DEFAULT_IDS
    assert counters.warnings == ()


def test_the_49_default_set_has_its_one_new_field() -> None:
    """4.9 added the framebuffer's capacity."""
    assert {row.id for row in load(compat="dcgm-4.9").rows} - {row.id for row in load().rows} == {
        1625
    }


def test_the_extended_set_is_the_default_and_more() -> None:
    """Everything of the default set, in its order, and the fields that a GPU dies of."""
    rows = load(EXTENDED_FILE).rows
    assert rows[: len(DEFAULT_IDS)] == load().rows
    assert {311, 391, 240, 409, 9001, 9002, 9005, 9006} <= {row.id for row in rows}


def test_the_set_with_the_lower_case_names_is_that_of_dcgm_exporter() -> None:
    """The rows of its 1.x-compatibility-metrics.csv, less the two that DCGM 4 has no value for."""
    counters = load(LOWER_CASE_FILE)
    assert [row.id for row in counters.rows] == [
        *(100, 101, 140, 150, 155, 156, 202, 203, 204, 206, 207, 230, 251, 252, 449),
        *(1001, 1004, 1005, 1009, 1010),
    ]
    assert all(row.name.startswith("dcgm_") for row in counters.rows)
    assert len(counters.warnings) == 2


def test_blanks_around_fields_are_dropped() -> None:
    """The shipped file's own `DCGM_FI_DEV_DEC_UTIL ,` is a good row; tabs are not blanks."""
    (row,) = parse("DCGM_FI_DEV_DEC_UTIL ,  gauge ,  Decoder utilization (in %).  \n", "c.csv").rows
    assert (row.name, row.type, row.help) == (
        "DCGM_FI_DEV_DEC_UTIL",
        "gauge",
        "Decoder utilization (in %).",
    )
    assert "could not find Prometheus metric type '\tgauge'" in refused(
        "DCGM_FI_DEV_GPU_TEMP,\tgauge,x\n"
    )


def test_a_comment_after_a_blank_is_a_record() -> None:
    """`#` starts a comment in column 0 only."""
    assert "expected 3 fields" in refused(" # a comment\n")


def test_the_number_in_the_message_counts_records_from_zero() -> None:
    """dcgm-exporter counts records, we add the line of the file."""
    text = "# one\n\nDCGM_FI_DEV_GPU_TEMP, gauge\n"
    assert refused(text) == (
        "c.csv, line 3: malformed CSV record; err: failed to parse line 0 "
        "(`[DCGM_FI_DEV_GPU_TEMP gauge]`), expected 3 fields"
    )


def test_an_unquoted_comma_in_a_help_text_is_an_error() -> None:
    """The first record has three fields, so another count is refused as Go refuses it."""
    assert (
        refused(TEMP + "DCGM_FI_DEV_SM_CLOCK, gauge, clock, in MHz\n")
        == "c.csv: record on line 2: wrong number of fields"
    )


def test_four_columns_everywhere_are_an_error() -> None:
    """Where all records have four fields, it is dcgm-exporter that refuses them."""
    assert (
        "failed to parse line 0 (`[DCGM_FI_DEV_SM_CLOCK gauge clock in MHz]`), expected 3 fields"
        in refused("DCGM_FI_DEV_SM_CLOCK, gauge, clock, in MHz\n")
    )


def test_a_quoted_comma_is_part_of_the_help_text() -> None:
    """A field in quotes right after its comma may hold anything."""
    (row,) = parse('DCGM_FI_DEV_SM_CLOCK,gauge,"clock, in MHz"\n', "c.csv").rows
    assert row.help == "clock, in MHz"


@pytest.mark.parametrize(
    "name",
    [
        "DCGM_FI_DEV_GPU_TEMPP",
        "gpu_temp",
        "",
        "DCGM_FI_DEV_gpu_temp",
        "DCGM_EXP_NOTHING",
        "DCGM_FI_PROF_SM",
    ],
)
def test_an_unknown_field_is_an_error(name: str) -> None:
    """A typo must not switch monitoring off silently."""
    wanted = (
        f"c.csv, line 2: could not find DCGM field; err: unknown ExporterCounter field '{name}'"
    )
    assert refused(TEMP + f"{name}, gauge, x\n") == wanted


def test_an_unknown_type_is_an_error() -> None:
    """The types of both generations are taken, no other, also for exporter fields."""
    for kind in ("gauge", "counter", "untyped", "histogram", "summary", "label"):
        assert parse(f"DCGM_FI_DEV_GPU_TEMP, {kind}, x\n", "c.csv").rows
    for name in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_EXP_XID_ERRORS_COUNT"):
        assert "could not find Prometheus metric type 'Gauge'" in refused(f"{name}, Gauge, x\n")


@pytest.mark.parametrize("kind", ["histogram", "summary"])
def test_what_cannot_be_a_histogram_is_untyped(kind: str) -> None:
    """One value is no histogram."""
    assert parse(f"DCGM_FI_DEV_GPU_TEMP, {kind}, x\n", "c.csv").rows[0].type == "untyped"


@pytest.mark.parametrize(
    ("alias", "number"),
    [
        ("dcgm_gpu_temp", 150),
        ("dcgm_retired_pages_pending", 392),
        ("dcgm_nvlink_bandwidth_total", 449),
        ("dcgm_fi_prof_dram_active", 1005),
        ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 150),
        ("DCGM_FI_DEV_XID_ERROR", 230),
        ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1603),
        ("DCGM_FI_SYSTEM_DRIVER_VERSION", 1),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", 440),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_L11", 480),
        ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6", 451),
        ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L17", 493),
    ],
)
def test_aliases_are_accepted_and_kept_as_written(alias: str, number: int) -> None:
    """Old lower-case names, DCGM 4.6 names and 4.9 names mean the field they mean, under
    the name that was written.
    """
    (row,) = parse(f"{alias}, gauge, x\n", "c.csv").rows
    assert (row.id, row.name) == (number, alias)


def test_the_first_row_of_a_field_wins() -> None:
    """Two names of one field are one field."""
    (row,) = parse(TEMP + "dcgm_gpu_temp, counter, again\n", "c.csv").rows
    assert (row.name, row.type) == ("DCGM_FI_DEV_GPU_TEMP", "gauge")


@pytest.mark.parametrize(
    "name",
    [
        "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT",
        "DCGM_FI_DEV_CPU_UTIL_TOTAL",
        "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
        "dcgm_pcie_tx_throughput",
        "DCGM_EXP_GPU_HEALTH_STATUS",
        "DCGM_EXP_P2P_STATUS",
        "DCGM_FI_PROF_NVLINK_L3_TX_BYTES",
    ],
)
def test_what_needs_dcgm_itself_is_left_out_with_a_warning(name: str) -> None:
    """A file with fields that NVML cannot answer is taken; the log says which of them are
    missing, with file and line.
    """
    counters = parse(TEMP + f"{name}, gauge, x\n", "c.csv")
    assert [row.id for row in counters.rows] == [150]
    (warning,) = counters.warnings
    assert warning.startswith(f"c.csv, line 2: '{name}' ")
    assert warning.endswith("is left out")


@pytest.mark.parametrize(
    "name",
    ["DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_FI_DEV_NVLINK_GET_STATE"],
)
def test_what_cannot_be_a_label_is_left_out_with_a_warning(name: str) -> None:
    """The value has labels of its own or is that of a link: the log says that there is none."""
    counters = parse(f"{TEMP}{name}, label, x\n", "c.csv")
    assert [row.id for row in counters.rows] == [150]
    assert counters.warnings == (f"c.csv, line 2: '{name}' cannot be a label and is left out",)


def test_a_structure_is_left_out_with_a_word() -> None:
    """It has no value that could be shown; the file is good for all the rest."""
    counters = parse(f"DCGM_FI_DEV_ACCOUNTING_DATA, gauge, x\n{TEMP}", "c.csv")
    assert [row.id for row in counters.rows] == [150]
    assert any("is a structure" in text for text in counters.warnings)


@pytest.mark.parametrize("compat", ["dcgm-4.8", "dcgm-4.9"])
def test_every_name_of_dcgm_is_accepted(compat: Compat) -> None:
    """The names of go-dcgm v1.4611, one per line of a file: each is shown, or named as left out."""
    names = NAMES.read_text(encoding="utf-8").split()
    counters = parse("".join(f"{name}, gauge, x\n" for name in names), "c.csv", compat)
    warned = {text.split("'")[1] for text in counters.warnings}
    ids = {row.id for row in counters.rows}
    same = {name for name in names if dcgm_ids().get(name) in ids}
    assert set(names) == warned | same | {row.name for row in counters.rows}


@pytest.mark.parametrize(
    ("compat", "number"), [("dcgm-4.8", 203), ("dcgm-4.9", 1613), ("both", 1613)]
)
def test_the_ambiguous_name_follows_the_generation(compat: str, number: int) -> None:
    """DCGM 4.6 and dcgm-exporter 4.9 mean different units by one name: the switch decides,
    and the log says so once.
    """
    counters = parse("DCGM_FI_DEV_GPU_UTIL_RATIO, gauge, x\n", "c.csv", compat)  # type: ignore[arg-type]  # parametrised
    assert counters.rows[0].id == number
    assert len(counters.warnings) == 1


@pytest.mark.parametrize("compat", ["dcgm-4.8", "dcgm-4.9", "both"])
def test_a_row_of_49_alone_decides_what_the_ambiguous_name_means(compat: Compat) -> None:
    """A file that names a 4.9 field wants the ratio of 4.9 too, wherever the row stands and
    whatever the switch says; the warning names the row.
    """
    counters = parse(
        "DCGM_FI_DEV_GPU_UTIL_RATIO, gauge, x\nDCGM_FI_DEV_SM_CLOCK_HERTZ , gauge, x\n",
        "c.csv",
        compat,
    )
    assert [row.id for row in counters.rows] == [1613, 1603]
    (warning,) = counters.warnings
    assert "a ratio" in warning
    assert "(like 'DCGM_FI_DEV_SM_CLOCK_HERTZ' in line 2)" in warning


@pytest.mark.parametrize(
    "neighbour",
    ["DCGM_FI_DEV_GPU_TEMP_CELSIUS", "DCGM_EXP_XID_ERRORS_TOTAL", "DCGM_FI_DEV_SM_CLOCK"],
)
def test_a_row_of_both_generations_does_not_decide(neighbour: str) -> None:
    """DCGM 4.6 has those names too: the switch decides."""
    text = f"DCGM_FI_DEV_GPU_UTIL_RATIO, gauge, x\n{neighbour}, gauge, x\n"
    assert parse(text, "c.csv").rows[0].id == 203


def test_profiling_rows_are_skipped_where_the_first_gpu_has_none() -> None:
    """An old GPU is no error: the rows go, each with dcgm-exporter's
    warning, records counted from 0.
    """
    counters = parse(TEMP + "DCGM_FI_PROF_SM_ACTIVE, gauge, x\n", "c.csv").without_profiling()
    assert [row.id for row in counters.rows] == [150]
    assert counters.warnings == ("Skipping line 1 ('DCGM_FI_PROF_SM_ACTIVE'): metric not enabled",)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message carries the path and the reason."""
    missing = tmp_path / "none.csv"
    with pytest.raises(
        CountersError,
        match=f"Could not read metrics file '{missing}'; err: No such file or directory",
    ):
        load(missing)


def test_a_file_of_junk_is_an_error_not_a_crash(tmp_path: Path) -> None:
    """Bytes that are no text are named as an unknown field."""
    junk = tmp_path / "junk.csv"
    junk.write_bytes(b"\x00\xff\xfe,gauge,x\n")
    with pytest.raises(CountersError, match="unknown ExporterCounter field"):
        load(junk)


def test_shipped_files_are_package_data() -> None:
    """The files lie beside the code, so an installed agent has them."""
    assert DEFAULT_FILE.is_file()
    assert EXTENDED_FILE.is_file()
    assert LOWER_CASE_FILE.is_file()
