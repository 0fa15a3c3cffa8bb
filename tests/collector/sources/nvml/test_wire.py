"""Messages of the driver child: in any pieces, and never taken for granted."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.nvml import wire
from collector.sources.nvml.callboard import NO_DEVICE, SLOW, CallBoard
from collector.sources.nvml.questions import Call, FieldValue, Gpm, ways
from collector.sources.nvml.targets import Targets
from collector.sources.nvml.wire import ENTRY, GarbageError, Message, Stream, pack, pack_document
from pipeline.catalog import fields_of

MESSAGES = [
    pack_document(wire.READY, count=8),
    pack(wire.VALUES, 3, b"x" * 100),
    pack_document(wire.DONE, seconds=0.1),
]


@pytest.mark.slow
@given(st.lists(st.integers(1, 150)))
def test_messages_come_in_any_pieces(cuts: list[int]) -> None:
    """However the pipe cuts them, the messages are the same."""
    data, stream, got = b"".join(MESSAGES), Stream(), []
    for cut in [*cuts, len(data)]:
        got += stream.feed(data[:cut])
        data = data[cut:]
    assert [m.kind for m in got] == [wire.READY, wire.VALUES, wire.DONE]
    assert (got[1].gpu, got[1].body) == (3, b"x" * 100)


@pytest.mark.slow
@given(st.binary(min_size=12, max_size=200))
def test_garbage_is_recognised(data: bytes) -> None:
    """Bytes that are no message are an error of their own, whatever they are."""
    stream = Stream()
    with pytest.raises(GarbageError):
        stream.feed(b"\xff" + data)


def test_a_length_beyond_reason_is_garbage() -> None:
    """A child gone wrong cannot make its parent wait for a gigabyte."""
    with pytest.raises(GarbageError):
        Stream().feed(pack(wire.VALUES, 0, b"x" * (wire.MAX_BYTES + 1)))


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"text"', b"\xff"])
def test_a_document_that_is_none_is_garbage(body: bytes) -> None:
    """A body that should be a JSON object and is not is an error, not a crash."""
    with pytest.raises(GarbageError):
        Message(wire.READY, 0, body).document()


def device(**changes: object) -> Message:
    """A DEVICE message."""
    document = {"target": 1, "kind": "gpu", "id": "GPU-1", "facts": {}} | changes
    (message,) = Stream().feed(pack_document(wire.DEVICE, 0, **document))
    return message


@pytest.mark.parametrize(
    "changes", [{"kind": "cat"}, {"id": ""}, {"id": 7}, {"facts": []}, {"target": "one"}]
)
def test_a_device_that_is_none_is_garbage(changes: dict[str, object]) -> None:
    """What a child says of its devices is checked."""
    with pytest.raises(GarbageError):
        Targets().note(device(**changes))


@pytest.mark.parametrize("columns", [None, "state", [1], ["no_such_column"]])
def test_a_layout_the_catalogue_does_not_know_is_garbage(columns: object) -> None:
    """Columns are those of the catalogue."""
    targets = Targets()
    targets.note(device())
    (layout,) = Stream().feed(pack_document(wire.LAYOUT, 0, target=1, columns=columns, gpm=[]))
    with pytest.raises(GarbageError):
        targets.note(layout)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        wire.VALUES_HEAD.pack(1, 2, 0, 0) + bytes(ENTRY.size),
        wire.VALUES_HEAD.pack(1, 1, 1, 0) + bytes(ENTRY.size * 2),
        wire.VALUES_HEAD.pack(9, 1, 0, 0) + bytes(ENTRY.size),
    ],
    ids=["empty", "too few entries", "entries without columns", "no such target"],
)
def test_values_that_do_not_fit_are_garbage(body: bytes) -> None:
    """Values are taken only where they are as many as the columns."""
    targets = Targets()
    targets.note(device())
    (layout,) = Stream().feed(
        pack_document(wire.LAYOUT, 0, target=1, columns=["temperature_celsius"], gpm=[])
    )
    targets.note(layout)
    assert (
        targets.values(
            Message(wire.VALUES, 0, wire.VALUES_HEAD.pack(1, 1, 0, 5) + bytes(ENTRY.size))
        )[2]
        == 5
    )
    with pytest.raises(GarbageError):
        targets.values(Message(wire.VALUES, 0, body))


def test_the_board_shows_the_call_that_runs() -> None:
    """Who reads the same memory sees the call, its GPU and its patience, and when it is over."""
    board = CallBoard()
    reader = CallBoard(os.dup(board.fd))
    assert reader.running() is None
    board.begin("nvmlDeviceGetName", 3, SLOW)
    running = reader.running()
    assert running is not None
    assert (running.function, running.gpu, running.patience) == ("nvmlDeviceGetName", 3, SLOW)
    board.begin("nvmlInit", NO_DEVICE)
    board.end()
    assert reader.running() is None
    reader.close()
    board.close()


def test_every_read_of_the_catalogue_is_a_question() -> None:
    """The grammar covers the catalogue."""
    for kind in ("gpu", "gpu_instance", "nvlink"):
        for field in fields_of(kind):
            assert bool(ways(field.read, 4)) == (field.read != "source")


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("field 83", FieldValue(83, 0)),
        ("field 138 scope 4294967295", FieldValue(138, 4294967295)),
        ("field 222 scope link as bit_error_ratio", FieldValue(222, 6, "bit_error_ratio")),
        ("gpm 12", Gpm(12)),
        ("nvmlDeviceGetEccMode()[1]", Call("nvmlDeviceGetEccMode", (), (1,))),
        (
            "nvmlDeviceGetMemoryErrorCounter(1, 0, 7)",
            Call("nvmlDeviceGetMemoryErrorCounter", (1, 0, 7)),
        ),
        (
            "nvmlDeviceGetNvLinkRemotePciInfo(link).busId",
            Call("nvmlDeviceGetNvLinkRemotePciInfo", (6,), ("busId",)),
        ),
    ],
)
def test_a_question_is_read_as_documented(text: str, way: FieldValue | Gpm | Call) -> None:
    """Each form of the grammar means what gpu.py says."""
    assert ways(text, link=6) == (way,)


@pytest.mark.parametrize(
    "text", ["field", "field x", "gpm", "nvidia()", "nvmlDeviceGetName", "source | field 1"]
)
def test_a_question_outside_the_grammar_is_named(text: str) -> None:
    """A typing mistake in the catalogue is an error that shows the text."""
    with pytest.raises(ValueError, match=r"no question to NVML"):
        ways(text)
