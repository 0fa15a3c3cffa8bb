"""The tables that XIDs are judged by, row for row: repetition, the registers of XID
74, the units of NVLink 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from detectors.xid.nvlink5 import CODES, ROOTS, rules_of
from detectors.xid.repetition import REPEATED
from pipeline.finding import Finding, Severity
from pipeline.xid.table import xid_entry
from tests.detectors.feed import open_findings
from tests.detectors.xid_log import GPU, HOUR, LINK, MEMORY, PROGRAM, Log, id_

# Repetition. NVSentinel's and gpud's rules; the one over all codes of programs is ours.


class OpenFinding(NamedTuple):
    """An open finding in the end."""

    device: str
    fault: str
    severity: Severity


def bursts(
    code: int, *gpus: int, times: int = 1, **facts: int
) -> list[tuple[int, int, dict[str, int]]]:
    """So many bursts of a code, each on all of these GPUs."""
    return [(code, gpu, facts) for _ in range(times) for gpu in gpus]


HARD, SOFT = {"gpc": 2, "tpc": 4}, {"gpc": 3, "tpc": 0}
STORIES = {
    "31 twice on one GPU: hardware": (
        bursts(31, 3, times=2),
        {OpenFinding(id_(3), REPEATED, "ticket")},
    ),
    "31 twice on two GPUs: the program": (bursts(31, 3, 4, times=2), set()),
    "13 twice on one unit: hardware": (
        bursts(13, 1, times=2, **HARD),
        {OpenFinding(id_(1), REPEATED, "ticket")},
    ),
    "13 twice on one unit, and a program that fails all over": (
        [*bursts(13, 1, **HARD), *bursts(13, 4, 5, 6, **SOFT), *bursts(13, 1, **HARD)],
        {OpenFinding(id_(1), REPEATED, "ticket")},
    ),
    "31 now here, now there: the program": (bursts(31, 3, 4, 5, 3), set()),
    "31 again and again on one GPU, once on another: hardware": (
        bursts(31, 4, 3, 3, 3),
        {OpenFinding(id_(3), REPEATED, "ticket")},
    ),
    "13 on two units: the program": ([*bursts(13, 1, **HARD), *bursts(13, 1, **SOFT)], set()),
    "any other code of programs twice on one GPU: hardware": (
        bursts(69, 2, times=2),
        {OpenFinding(id_(2), REPEATED, "ticket")},
    ),
    "the same on three GPUs: the program": (bursts(69, 2, 3, 4, times=2), set()),
    "two codes of programs on one GPU: hardware": (
        [*bursts(69, 2), *bursts(39, 2)],
        {OpenFinding(id_(2), REPEATED, "ticket")},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("story", "expected"), STORIES.values(), ids=STORIES)
def test_repetition_tells_hardware_from_programs(
    story: list[tuple[int, int, dict[str, int]]], expected: set[OpenFinding]
) -> None:
    """Bursts half an hour apart in one job over all GPUs of the node; what the job
    itself is reported is left out.
    """
    node = Log(period_s=60)
    node.quiet(120)
    node.job("42", *range(8))
    for code, gpu, facts in story:
        node.xid(code, gpu=gpu, **facts)
        node.quiet(HOUR / 2)
    assert {
        OpenFinding(f.device.id, f.fault, f.severity)
        for f in node.findings
        if f.phase == "onset" and f.fault != PROGRAM
    } == expected


def test_the_job_is_acquitted_when_one_gpu_alone_repeats_its_code() -> None:
    """Within the hour that a program's failure is remembered; with another GPU
    that failed it is still open.
    """
    for others, still_open in (((), []), ((5,), [("job", "42", PROGRAM, "ticket")])):
        node = Log(period_s=60)
        node.job("42", *range(8))
        for gpu in (*others, 1):
            node.xid(13, gpu=gpu, **HARD)
            node.quiet(600)
        node.xid(13, gpu=1, **HARD)
        assert [
            updates for updates in open_findings(node.findings) if updates[2] == PROGRAM
        ] == still_open


def test_an_acquitted_job_is_not_blamed_again_when_the_burst_is_over() -> None:
    """Neither by later lines of the burst, nor by its end, nor by what
    waited an hour for its report.
    """
    node = Log(period_s=60)
    node.job("42", *range(8))
    node.xid(13, gpu=1, **HARD)
    node.quiet(600)
    node.xid(13, gpu=1, **HARD)
    node.xid(43, gpu=1)
    assert [f.phase for f in node.quiet(3 * HOUR) if f.fault == PROGRAM] == []


def test_a_code_of_the_hardware_that_comes_back_beside_one_of_a_program_is_told_too() -> None:
    """161 the second time within a week, in a burst that a program's 31 opened or closed: the job
    gets the finding of its program, and the GPU its own.
    """
    for codes in ((161, 31), (31, 161)):
        node = Log(period_s=60)
        node.job("42", *range(8))
        node.xid(161, gpu=1)
        node.quiet(HOUR)
        for code in codes:
            node.xid(code, gpu=1)
        node.quiet(600)
        assert {(f.device.kind, f.severity) for f in node.findings if f.active} >= {
            ("job", "ticket"),
            ("gpu", "ticket"),
        }


@pytest.mark.slow
def test_a_contained_error_that_comes_back_after_reboots_is_no_case_for_an_inspection() -> None:
    """94 is exempt: the GPU is usable each time, and its rows are counted elsewhere."""
    node = Log(period_s=60)
    for _ in range(3):
        node.quiet(HOUR)
        node.xid(94)
        node.reboot()
    assert {(f.severity, f.action) for f in node.findings} == {("ticket", "RESTART_APP")}


@pytest.mark.slow
def test_a_gpu_that_failed_five_times_in_a_day_is_not_well_ten_minutes_after_its_reset() -> None:
    """Three clean hours it takes; a GPU that failed once is believed after ten minutes."""
    node = Log(period_s=60)
    node.quiet(120)
    for _ in range(5):
        node.xid(119)
        node.quiet(600)
    node.restart_counters()
    assert node.quiet(2.5 * HOUR) == []
    assert [f.phase for f in node.quiet(HOUR)] == ["cleared"]


# XID 74 (NVLink 4 and older), NVIDIA's workflow: register, bit, what it says alone, what it says
# the second time within a day.

ALONE, LATER = ("page", "page"), ("ticket", "page")
REGISTERS = {
    **dict.fromkeys([(0, 1), (0, 20)], ALONE),
    **dict.fromkeys([(0, 21), (0, 22)], ("ticket", "ticket")),
    **dict.fromkeys([(2, 13), (3, 18)], ALONE),
    **dict.fromkeys([(0, 4), (0, 5), (2, 0), (2, 1), (2, 2), (2, 6)], LATER),
    **dict.fromkeys([(0, bit) for bit in (8, 9, 12, 16, 17, 24, 28)], LATER),
    **dict.fromkeys([(0, 27), (0, 29), (2, 16), (2, 17), (2, 18), (2, 19)], ("ticket", "ticket")),
    (1, 0): ("ticket", "ticket"),  # no cause of these is published: the registers are in the text
    (5, 31): ("ticket", "ticket"),
}


def line_74(register: int, bit: int) -> str:
    """XID 74 as the driver prints it."""
    words = ", ".join(f"0x{1 << bit if n == register else 0:x}" for n in range(7))
    return (
        "NVRM: Xid (PCI:0000:1b:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error "
        f"detected on link 4({words})"
    )


def severity_of(findings: list[Finding]) -> str:
    """The reported severity, empty where there is none."""
    return findings[-1].severity if findings else ""


@pytest.mark.slow
@pytest.mark.parametrize(("register", "bit"), REGISTERS)
def test_each_bit_of_xid_74_says_what_the_workflow_says(register: int, bit: int) -> None:
    """The first time, and the second within a day of the same link: hardware
    pages, all else is a ticket.
    """
    node = Log(period_s=60)
    node.quiet(120)
    first = severity_of(node.line(line_74(register, bit)))
    node.quiet(HOUR)
    second = severity_of(node.line(line_74(register, bit))) or first
    assert (first, max(first, second, key=["ticket", "page"].index)) == REGISTERS[register, bit]


@pytest.mark.parametrize("bit", [1, 20, 21, 22])
def test_bits_that_count_alone_say_nothing_beside_another_code(bit: int) -> None:
    """What comes with another code follows from it: a ticket, whatever the bit."""
    node = Log()
    node.quiet(60)
    node.xid(43)
    assert severity_of(node.line(line_74(0, bit))) == "ticket"


# NVLink 5, from NVIDIA's catalogue: code, units, how the error status (for link events the
# sub-code) is to be read.

UNITS = """
144 SAW_MVB                                     reset    0x2 0x10
144 SAW_MVB                                     leads48  0x1 0x8
144 SAW_MVB                                     record   0x4 0x20
145 RLW_REMAP                                   reset    0x40 0x80
145 RLW_REMAP                                   eval154  0x1 0x2 0x4 0x8 0x10 0x20
145 RLW_REMAP                                   record   0x100 0x200
145 RLW_RSPCOL                                  reset    0x2
145 RLW_RSPCOL                                  record   0x1
145 RLW_RXPIPE                                  record   0x1 0x2 0x4 0x8
145 RLW_SRC_TRACK                               reset    0x1 0x10 0x20
145 RLW_SRC_TRACK                               eval154  0x4 0x8
145 RLW_SRC_TRACK                               record   0x2
145 RLW_TAGSTATE                                reset    0x2 0x20000 0x100000
145 RLW_TAGSTATE                                record   0x1 0x10000
145 RLW_CTRL                                    record   *
146 TLW_CTRL,TLW_RX,TLW_RX_PIPE0,TLW_RX_PIPE1   reset    0x4
146 TLW_CTRL,TLW_RX,TLW_RX_PIPE0,TLW_RX_PIPE1   leads48  0x2
146 TLW_CTRL,TLW_RX,TLW_RX_PIPE0,TLW_RX_PIPE1   record   0x1
146 TLW_TX,TLW_TX_PIPE0,TLW_TX_PIPE1            reset    0x4
146 TLW_TX,TLW_TX_PIPE0,TLW_TX_PIPE1            leads48  0x2
146 TLW_TX,TLW_TX_PIPE0,TLW_TX_PIPE1            record   0x1
147 TREX                                        record   *
148 NVLPW_CTRL,NVLPW                            record   *
149 NETIR_LINK_EVT,NETIR_LINK_DOWN              reset    0 1 2 4 10 15 16 17 18 21 22 32 33 34 35 36 37 42 43
149 NETIR_LINK_EVT,NETIR_LINK_DOWN              record   38 40
149 NETIR_BER_EVENT                             record   *
149 NETIR,NETIR_INT                             reset    *
149 NETIR_MFDE_EVENT                            reset    0x1 0x4 0x5 0x7
149 NETIR_MFDE_EVENT                            record   0x3
150 MSE_WATCHDOG                                reset    *
"""  # noqa: E501 - text as it is used
LINK_EVENTS = ("NETIR_LINK_EVT", "NETIR_LINK_DOWN")


class Row(NamedTuple):
    """One unit and one value of it."""

    code: int
    unit: str
    outcome: str
    value: str


def rows() -> Iterator[Row]:
    """Every row of the table by itself."""
    for line in UNITS.split("\n")[1:-1]:
        code, units, outcome, *values = line.split()
        yield from (
            Row(int(code), unit, outcome, value) for unit in units.split(",") for value in values
        )


ROWS = tuple(rows())


def line_5(code: int, unit: str, value: str, severity: str) -> str:
    """An event of NVLink 5 as the driver prints it."""
    number = 0x1234 if value == "*" else int(value, 0)
    sub_code, status = (number, 0) if unit in LINK_EVENTS else (0, number)
    words = f"(0x{sub_code << 20:08x} 0x{status:08x} 0x00000000)"
    return (
        f"NVRM: Xid (PCI:0000:1b:00): {code}, pid='<unknown>', name=<unknown>, {unit} {severity} "
        f"XC0 i0 Link 03 {words}"
    )


def test_every_rule_of_the_shipped_table_stands_here() -> None:
    """What the detector goes by is what was copied from the catalogue, value by
    value: none more, none less.
    """
    shipped = {
        (code, unit, outcome, value)
        for code in CODES
        for unit, outcomes in rules_of(xid_entry(code).notes).items()
        for outcome, values in outcomes.items()
        for value in values
    }
    assert {
        (r.code, r.unit, r.outcome, r.value if r.value == "*" else int(r.value, 0)) for r in ROWS
    } == shipped


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.code}-{row.unit}-{row.value}")
def test_each_rule_of_nvlink_5_decides_against_the_word_in_the_line(row: Row) -> None:
    """A rule that asks for a reset pages though the line says Nonfatal; every other one is for the
    record though it says Fatal.
    """
    node = Log()
    node.quiet(60)
    word, severity = ("Nonfatal", "page") if row.outcome == "reset" else ("Fatal", "record")
    assert [f.severity for f in node.line(line_5(row.code, row.unit, row.value, word))] == [
        severity
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.outcome == "eval154"], ids=lambda row: f"{row.unit}-{row.value}"
)
def test_what_the_recovery_action_decides_waits_for_it(row: Row) -> None:
    """XID 154 beside it asks for a reset: then it is a page, about the link."""
    node = Log()
    node.quiet(60)
    node.line(line_5(row.code, row.unit, row.value, "Fatal"))
    assert [(f.fault, f.severity) for f in node.xid(154, recovery_to=1)] == [(LINK, "page")]


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.outcome == "leads48"], ids=lambda row: f"{row.unit}-{row.value}"
)
def test_what_a_memory_error_explains_is_read_with_it(row: Row) -> None:
    """48 follows, and 94 says that it was contained: one ticket about the memory beside
    a record about the link.
    """
    node = Log()
    node.quiet(60)
    node.line(line_5(row.code, row.unit, row.value, "Fatal"))
    node.xid(48)
    node.xid(94)
    assert [
        kind for *_, kind in open_findings([*node.findings, *node.quiet(60)]) if kind != "record"
    ] == ["ticket"]


@pytest.mark.parametrize("unit", sorted({row.unit for row in ROWS} - set(LINK_EVENTS)))
def test_the_status_that_stands_for_noise_is_for_the_record_in_any_unit(unit: str) -> None:
    """0x80000000."""
    code = next(row.code for row in ROWS if row.unit == unit)
    node = Log()
    node.quiet(60)
    assert [f.severity for f in node.line(line_5(code, unit, "0x80000000", "Fatal"))] == ["record"]


@pytest.mark.parametrize(
    ("root", "sub_codes"),
    [
        ("the link or its cable", (2, 4, 10, 42, 43)),
        ("software or its user", (15, 17, 22, 38)),
        ("software or the link", (16, 18)),
        ("the peer device", (21, 32, 33, 34, 35, 36, 37)),
        ("the host", (40,)),
    ],
)
def test_the_root_of_a_link_event_is_named_by_its_sub_code(
    root: str, sub_codes: tuple[int, ...]
) -> None:
    """The faulty side is in the evidence; sub-codes 0 and 1 name none."""
    assert ROOTS[root] == set(sub_codes)
    for sub_code in sub_codes:
        node = Log()
        node.quiet(60)
        findings = node.line(line_5(149, "NETIR_LINK_EVT", str(sub_code), "Fatal"))
        assert f"root cause: {root}" in findings[0].evidence[0]


def test_faults_of_a_gpu_memory_and_link_stay_apart() -> None:
    """Each kind of trouble is a finding of its own name, so that what
    people do about it differs.
    """
    node = Log()
    node.quiet(60)
    for gpu, code in enumerate((46, 95)):
        node.xid(code, gpu=gpu)
    node.line(line_5(150, "MSE_WATCHDOG", "0x1", "Fatal").replace("0000:1b:00", "0000:3b:00"))
    assert {fault for _, _, fault, _ in open_findings(node.findings)} <= {GPU, MEMORY, LINK}
