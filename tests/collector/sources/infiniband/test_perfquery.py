"""The parser over recordings of the real perfquery (infiniband-diags 44.0 over ibsim); what each
means stands in its test.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.infiniband.perfquery import Block, judge, parse
from collector.sources.infiniband.sysfs_port import counter_places
from pipeline.catalog import field

DATA = Path(__file__).parents[3] / "data" / "infiniband"
RECORDINGS = {
    r["file"].removesuffix(".txt"): r for r in json.loads((DATA / "manifest.json").read_text())
}
PERFQUERY = sorted(name for name in RECORDINGS if name.startswith("perfquery-"))

# Whatever no test names is management traffic of the recording itself.
TRAFFIC = {"PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts"}


def recorded(name: str) -> str:
    """A recorded output."""
    return (DATA / f"{name}.txt").read_text()


def only(name: str) -> Block:
    """The one port of a recording."""
    (block,) = parse(recorded(name))
    return block


def errors(block: Block) -> dict[str, int]:
    """What is neither zero nor traffic."""
    return {name: value for name, value in block.counters.items() if value and name not in TRAFFIC}


def test_every_recording_is_used() -> None:
    """The manifest and the files are the same set, so that no situation is forgotten."""
    assert {path.stem for path in DATA.glob("perfquery-*.txt")} == set(PERFQUERY)


@pytest.mark.parametrize(
    ("name", "lid", "port", "found"),
    [
        ("perfquery-clean", 5, 1, {}),
        ("perfquery-x-clean", 5, 1, {}),
        (
            "perfquery-x-remote",
            6,
            1,
            {},
        ),  # asked from another node: it belongs to the LID that answered
        (
            "perfquery-errors",
            5,
            1,
            {
                "SymbolErrorCounter": 123,
                "LinkErrorRecoveryCounter": 5,
                "LinkDownedCounter": 2,
                "PortRcvErrors": 77,
                "PortXmitWait": 4_000_000_000,
            },
        ),
        ("perfquery-D", 5, 1, {"PortInactiveDiscards": 9}),
        ("perfquery-E", 5, 1, {"PortLocalPhysicalErrors": 70}),
        ("perfquery-switch-port", 2, 3, {"SymbolErrorCounter": 999, "PortXmitDiscards": 12}),
        ("perfquery-down", 5, 1, {"LinkDownedCounter": 3}),  # an unlinked port answers its own host
        ("perfquery-r-after", 5, 1, {}),
    ],
)
def test_one_port(name: str, lid: int, port: int, found: dict[str, int]) -> None:
    """A block is attributed to the LID and port it names, with its errors and no others."""
    block = only(name)
    assert (block.lid, block.port, errors(block)) == (lid, port, found)


def test_data_counters_are_words_of_four_bytes() -> None:
    """The 64-bit data counter times the catalogue's factor is the traffic in bytes."""
    words = only("perfquery-x-errors").counters["PortXmitData"]
    assert words == 1_234_567_890_123
    assert field("ib_port", "transmit_words").base(words) == 4_938_271_560_492


def test_several_ports_in_one_output() -> None:
    """Each port of a switch is a block of its own, and only the bad one has errors."""
    blocks = parse(recorded("perfquery-l-switch"))
    assert [(b.lid, b.port) for b in blocks] == [(2, 1), (2, 2), (2, 3), (2, 4)]
    assert [b.port for b in blocks if errors(b)] == [3]


def test_the_sum_over_all_ports_is_no_port() -> None:
    """Port 255 is an aggregate and must not become one more port."""
    assert "port 255" in recorded("perfquery-a-switch")
    assert parse(recorded("perfquery-a-switch")) == ()


@pytest.mark.parametrize("name", ["perfquery-saturated", "perfquery-r-before"])
def test_saturated_counters_are_at_the_maximum_the_catalogue_knows(name: str) -> None:
    """Every error counter at its end is recognised as stuck by the width in the catalogue: at
    least this, rate unknown.
    """
    block = only(name)
    classic = counter_places().perfquery[""]
    rows = {counter: field("ib_port", name) for counter, name in classic.items()}
    full = {counter for counter, row in rows.items() if block.counters[counter] == 2**row.width - 1}
    assert full == {
        "SymbolErrorCounter",
        "LinkErrorRecoveryCounter",
        "LinkDownedCounter",
        "PortRcvErrors",
        "PortXmitDiscards",
        "LocalLinkIntegrityErrors",
        "ExcessiveBufferOverrunErrors",
        "VL15Dropped",
        "PortXmitWait",
    }
    assert all(rows[counter].overflow == "sticks" for counter in full)
    assert block.counters["PortXmitData"] == 2**32 - 1


def test_a_reset_between_two_reads_goes_down() -> None:
    """After ``perfquery -r`` by someone else every counter is below or at what it was."""
    before, after = only("perfquery-r-before"), only("perfquery-r-after")
    assert all(after.counters[name] <= value for name, value in before.counters.items())


@pytest.mark.parametrize("name", PERFQUERY)
def test_the_exit_code_decides(name: str) -> None:
    """Only exit 0 is an answer; a refused set and an unreachable port are told apart; a
    failure never gives counters.
    """
    judgement = judge(RECORDINGS[name]["exit"], recorded(name))
    unsupported = {"perfquery-T-unsupported", "perfquery-bad-option"}
    silent = {"perfquery-unreachable", "perfquery-no-route", "perfquery-no-device"}
    assert judgement == (
        "unsupported" if name in unsupported else "no_answer" if name in silent else "ok"
    )
    assert judgement == "ok" or parse(recorded(name)) == ()


def test_success_without_an_answer_is_garbage() -> None:
    """Exit 0 and empty output is not a healthy port."""
    assert judge(0, "") == judge(0, "segfault at 0\n") == "garbage"


@pytest.mark.slow
@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    """Hostile output gives blocks or nothing, values within 64 bits, and bounded counts."""
    for block in parse(text + "\n# Port counters: Lid 1 port 1\n" + text):
        assert all(0 <= value < 2**64 for value in block.counters.values())


def test_dots_may_shrink_to_none() -> None:
    """Long names leave one dot or none between colon and value."""
    (block,) = parse(
        "# Port counters: Lid 7 port 1 (CapMask: 0x1200)\n"
        "VeryLongName:.5\n"
        "Other:18446744073709551615\n"
        "TooBig:99999999999999999999\n"
    )
    assert dict(block.counters) == {"VeryLongName": 5, "Other": 2**64 - 1}
