"""What the kernel prints about a port."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.infiniband import text

# Every rate the kernel can print: rate_show of drivers/infiniband/core/sysfs.c, lanes
# times the speed of one lane.
SPEEDS = {
    "": 2.5,
    " DDR": 5,
    " QDR": 10,
    " FDR10": 10,
    " FDR": 14,
    " EDR": 25,
    " HDR": 50,
    " NDR": 100,
    " XDR": 200,
}


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 12])
@pytest.mark.parametrize("speed", SPEEDS)
def test_rate(lanes: int, speed: str) -> None:
    """Every speed and width gives lanes times the lane's rate."""
    rate = lanes * SPEEDS[speed]
    printed = f"{rate:g} Gb/sec ({lanes}X{speed})\n".encode()
    assert text.rate(printed) == (rate * 1e9, lanes)


def test_states_that_the_kernel_has_no_name_for() -> None:
    """A code without a name is a code all the same."""
    assert text.code(b"9: <unknown>\n") == 9
    assert text.code(b"7: Phy Test\n") == 7


@pytest.mark.parametrize(
    "raw",
    [b"", b"\n", b"ACTIVE\n", b"4 ACTIVE", b"-1: DOWN", b"\xff\xfe\x00", b"4: ACTIVE\n5: LinkUp\n"],
)
def test_what_is_no_state(raw: bytes) -> None:
    """Anything else is refused, not guessed at."""
    with pytest.raises(ValueError, match="not a state"):
        text.code(raw)


@given(st.integers(0, 2**64 - 1))
def test_counters_are_exact(value: int) -> None:
    """Every 64-bit value comes back as it is."""
    assert text.count(f"{value}\n".encode()) == value


@pytest.mark.parametrize(
    "raw",
    [
        b"18446744073709551616\n",
        b"-1\n",
        b"1_000\n",
        b"+5\n",
        b"0x10\n",
        b"1.5\n",
        b"",
        b"12 13\n",
        b"9" * 64,
    ],
)
def test_what_is_no_counter(raw: bytes) -> None:
    """Signs, underscores, more than 64 bits and words are refused."""
    with pytest.raises(ValueError, match="not a counter"):
        text.count(raw)


def test_guids_in_any_spelling() -> None:
    """The kernel's, ibstat's and a bare spelling are one GUID; zero is none."""
    spellings = ("ec0d:9a03:00bf:c1e2", "0xEC0D9A0300BFC1E2", "ec0d9a0300bfc1e2\n")
    assert {text.guid(s) for s in spellings} == {"0xec0d9a0300bfc1e2"}
    assert text.guid("0000:0000:0000:0000") == text.guid("mlx5_0") == text.port_guid("fe80::") == ""


@pytest.mark.slow
@given(st.binary(max_size=4096))
def test_facts_are_bounded_and_printable(raw: bytes) -> None:
    """Whatever a file holds, a fact is one short printable line."""
    found = text.fact(raw)
    assert len(found) <= text.MAX_TEXT
    assert found.isprintable()
