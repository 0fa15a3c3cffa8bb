"""Pickles: plain data comes out as it went in; whatever could do more is refused
before it does anything.
"""

from __future__ import annotations

import contextlib
import pickle
import pickletools
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.nccl.flight_recorder import plain_pickle
from collector.sources.nccl.flight_recorder.plain_pickle import load
from collector.sources.nccl.sanitize import FormatError
from tests.collector.sources.nccl.recordings import DUMPS

PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=20),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=5), inner, max_size=4),
        st.tuples(inner),
        st.tuples(inner, inner),
    ),
    max_leaves=30,
)


class Weapon:
    """What runs a command when an ordinary loader meets it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@given(value=PLAIN)
def test_plain_data_comes_out_as_it_went_in(protocol: int, value: Any) -> None:
    """Every protocol that has no text opcodes is read as Python's own loader reads it."""
    assert load(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("path", sorted(DUMPS.glob("*.pickle")), ids=lambda p: p.name)
def test_recorded_dumps_are_read_as_pythons_loader_reads_them(path: Path) -> None:
    """Real dumps need nothing that is refused here."""
    data = path.read_bytes()
    assert load(data) == pickle.loads(data)  # noqa: S301 - our own recording


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_nothing_is_ever_called(protocol: int, tmp_path: Path) -> None:
    """A payload that would run a command is refused, and has run nothing."""
    mark = tmp_path / "ran"
    with pytest.raises(FormatError):
        load(pickle.dumps({"entries": [Weapon(mark)]}, protocol))
    assert not mark.exists()


ACTS = [
    "GLOBAL",
    "STACK_GLOBAL",
    "REDUCE",
    "BUILD",
    "INST",
    "OBJ",
    "NEWOBJ",
    "NEWOBJ_EX",
    "EXT1",
    "EXT2",
    "EXT4",
    "PERSID",
    "BINPERSID",
]
ACTS += [
    "NEXT_BUFFER",
    "READONLY_BUFFER",
    "LONG4",
    "BINBYTES8",
    "BINUNICODE8",
    "BYTEARRAY8",
    "EMPTY_SET",
    "FROZENSET",
    "DUP",
    "POP",
]


@pytest.mark.parametrize("name", ACTS)
def test_an_opcode_that_plain_data_never_needs_is_refused(name: str) -> None:
    """Names, calls, persistent ids, buffers and sizes of eight bytes: none is known."""
    (code,) = (o.code for o in pickletools.opcodes if o.name == name)
    with pytest.raises(FormatError, match="refused"):
        load(b"\x80\x02]" + code.encode("latin-1") + b"os\nsystem\n\x00\x00\x00\x00.")


def test_a_memo_of_a_huge_number_costs_nothing() -> None:
    """Python's own loader makes an array of gigabytes of this."""
    assert load(b"\x80\x02]r" + struct.pack("<I", 0xFFFFFFFF) + b".") == []


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(b"\x80\x02" + b"(" * 10_000, id="marks"),
        pytest.param(b"\x80\x02X\xff\xff\xff\xffab", id="text longer than the file"),
        pytest.param(b"\x80\x02\x8a\xff" + b"\x7f" * 255 + b".", id="large integer"),
        pytest.param(b"\x80\x02h\x07.", id="recall of nothing"),
        pytest.param(b"\x80\x02}}Ns.", id="key that is no text"),
        pytest.param(b"\x80\x02}(X\x01\x00\x00\x00au.", id="odd dictionary"),
        pytest.param(b"\x80\x02(a.", id="append to nothing"),
        pytest.param(b"\x80\x02]]].", id="three values"),
        pytest.param(b"\x80\x02", id="no end"),
        pytest.param(b"\x80\x09.", id="protocol of the future"),
    ],
)
def test_bombs_are_refused(bomb: bytes) -> None:
    """Depth, size, and stacks that do not add up end in FormatError."""
    with pytest.raises(FormatError):
        load(bomb)


def test_a_list_of_lists_ten_thousand_deep_is_read_without_recursion() -> None:
    """Nesting costs no stack of ours: lists are appended to one another."""
    value = load(b"\x80\x02" + b"]" * 10_000 + b"a" * 9_999 + b".")
    assert len(value) == 1


def test_containers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of nothing but empty dictionaries does not fill the memory."""
    monkeypatch.setattr(plain_pickle, "MAX_CONTAINERS", 1000)
    with pytest.raises(FormatError, match="containers"):
        load(b"\x80\x02(" + b"}" * 2000)


@pytest.mark.slow
@given(st.binary(max_size=60), st.integers(0, 600), st.integers(0, 40))
def test_no_bytes_raise_anything_but_its_own_error(junk: bytes, at: int, cut: int) -> None:
    """Junk anywhere in a dump gives a value or FormatError."""
    whole = (DUMPS / "fr_gloo_missing2_rank1.pickle").read_bytes()
    with contextlib.suppress(FormatError):
        load(whole[:at] + junk + whole[at + cut :])
