"""Batches: what an agent observed is what a gateway judges, and bytes of strangers cost nothing."""

from __future__ import annotations

import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stream_setup import MAX_MESSAGE
from pipeline.bus import batch as wire
from pipeline.bus.batch import (
    COUNT,
    LENGTHS,
    MAGIC,
    PREFIX,
    VERSION,
    BatchError,
    Decoder,
    decode,
    encode,
)
from pipeline.bus.observations import DOCUMENT, MAX_DOCUMENT, MAX_TEXT
from pipeline.finding import Incident
from pipeline.frame import Device, frame_of
from pipeline.judged import JudgedObservation
from pipeline.nccl.member import Member
from pipeline.nccl.report import Communicator, Report
from pipeline.nccl.wire import events_of, reports_in
from pipeline.observation import Event, Observation, Unread
from pipeline.plain import plain
from tests.fakes import FakeClock, gpu, gpu_frame, observed
from tests.pipeline.bus.batches import FINDING, batch, day

INCIDENT = Incident(
    "i1", gpu(1), "ecc", "page", "COMPONENT_RESET", 5, ("f1",), "GPU 1.", jobs=("71",)
)


def packed(body: bytes, *abouts: bytes, claims: int | None = None) -> bytes:
    """Bytes with the frame of a batch around any body and descriptions of stacks."""
    parts = [COUNT.pack(len(abouts))]
    for about in abouts:
        squeezed = zlib.compress(about)
        parts.append(LENGTHS.pack(len(about), len(squeezed)) + squeezed)
    rest = b"".join([*parts, zlib.compress(body)])
    length = len(body) if claims is None else claims
    return PREFIX.pack(MAGIC, VERSION, length, zlib.crc32(rest)) + rest


def opened(raw: bytes) -> tuple[bytes, list[bytes]]:
    """Body and descriptions of a sound batch."""
    length, rest = wire._checked(raw)
    abouts, squeezed = wire._parts(rest)
    return wire._inflated(squeezed, length), [wire._inflated(a, size) for size, a in abouts]


def forged(
    abouts: list[dict[str, object]] | None = None,
    frames: list[object] | None = None,
    **changes: object,
) -> bytes:
    """A sound batch whose head, numbers of frames or descriptions say something else."""
    body, sound = opened(encode(batch([JudgedObservation(day(1)[0])])))
    size, bits = LENGTHS.unpack_from(body)
    values = body[LENGTHS.size + size :]
    reported = orjson.loads(body[LENGTHS.size : LENGTHS.size + size])
    if frames is not None:
        reported["observations"]["frames"] = frames
    head = orjson.dumps(reported | changes)
    said = sound if abouts is None else [*map(orjson.dumps, abouts)]
    return packed(LENGTHS.pack(len(head), bits) + head + values, *said)


def about(**changes: object) -> dict[str, object]:
    """The description of a GPU with one column."""
    gpus = {"kind": "gpu", "devices": [["n1", "gpu", "GPU-0", {}]]}
    return gpus | {"gauges": ["temperature_celsius"], "counters": []} | changes


@pytest.mark.slow
def test_five_seconds_of_a_node_come_back_bit_for_bit() -> None:
    """Frames, events, what was not read, findings and incidents."""
    judged = [JudgedObservation(o) for o in day(5)]
    event = Event(
        7, 8, gpu(1), "xid", {"code": 79, "ratio": float("inf"), "by": "kmsg", "new": True}
    )
    last = replace(
        judged[-1].observation,
        host="n1",
        events=(event,),
        unread=(Unread("hung", "GPU-1", "power"),),
        outcome="failed",
        error="timed out",
    )
    judged[-1] = JudgedObservation(last, (FINDING,), (INCIDENT,))
    sent = replace(batch(judged, number=4, previous=17), open=(INCIDENT, INCIDENT))
    back = decode(encode(sent))
    assert [b.observation for b in back.judged] == [j.observation for j in judged]
    assert [repr(b) for b in back.judged[-1][1:]] == [repr(j) for j in judged[-1][1:]]
    assert replace(back, judged=()) == replace(sent, judged=())


def test_devices_that_change_within_a_batch_come_back() -> None:
    """A GPU that is lost, a serial number that becomes known, a column that is there once."""
    clock = FakeClock()
    device = gpu(0)
    named = Device(device.host, device.kind, device.id, {**device.attributes, "serial": "42"})
    frames = [
        gpu_frame(clock, {"temperature_celsius": 41.5}, {"temperature_celsius": None}),
        gpu_frame(clock, {"energy_millijoules": 2**64 - 1}),
        frame_of("gpu", [(named, {"temperature_celsius": -0.0})], 1_000, 2),
        frame_of("gpu", [], 2_000, 3),
    ]
    judged = [JudgedObservation(observed(clock, *frames, seq=9))]
    assert decode(encode(batch(judged))).judged[0].observation == judged[0].observation


def test_a_column_of_another_version_is_left_out() -> None:
    """The others come back: agents and gateways are not upgraded in the same second."""
    clock = FakeClock()
    values = {"temperature_celsius": 40.0, "power_milliwatts": 5.0, "energy_millijoules": 7}
    sent = batch([JudgedObservation(observed(clock, gpu_frame(clock, values)))])
    body, abouts = opened(encode(sent))
    newer = packed(body, *(a.replace(b"power_milliwatts", b"power_zilliwatts") for a in abouts))
    frame = decode(newer).judged[0].observation.frames[0]
    assert frame.value("temperature_celsius", 0) == 40
    assert frame.value("energy_millijoules", 0) == 7
    assert frame.value("power_milliwatts", 0) is None


def test_who_knows_the_devices_reads_what_a_newcomer_reads() -> None:
    """Also when they change from batch to batch; devices that stay are the same objects, by which
    all that follows knows them again.
    """
    clock, decoder = FakeClock(), Decoder()
    frames = [gpu_frame(clock, *[{"power_milliwatts": 5.0 + n}] * (1 + n % 2)) for n in range(4)]
    raws = [encode(batch([JudgedObservation(observed(clock, f))])) for f in frames]
    known = [decoder.decode(raw).batch() for raw in raws]
    assert [b.judged for b in known] == [decode(raw).judged for raw in raws]
    first, other, again, _ = (b.judged[0].observation.frames[0].devices for b in known)
    assert first is again
    assert first is not other


def test_what_is_known_of_a_host_is_bounded() -> None:
    """However often its devices change; another host's devices are not taken from it."""
    clock, decoder = FakeClock(), Decoder()
    for n in range(100):
        device = Device("n1", "gpu", "GPU-0", {"serial": str(n)})
        frame = frame_of("gpu", [(device, {"power_milliwatts": 5.0})], 1_000, 2)
        decoder.decode(encode(batch([JudgedObservation(observed(clock, frame))])))
    assert len(decoder._known) <= wire.MAX_KNOWN
    for n in range(10):
        device = Device("n1", "gpu", "GPU-0", {f"{n} {m}": "x" * 60_000 for m in range(20)})
        frame = frame_of("gpu", [(device, {"power_milliwatts": 5.0})], 1_000, 2)
        decoder.decode(encode(batch([JudgedObservation(observed(clock, frame))])))
    assert 0 < len(decoder._known) <= 3, "megabytes each"
    with pytest.raises(BatchError, match="n2 speaks of a device of 'n1'"):
        decoder.decode(forged(host="n2"))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "no batch"),
        (b"GET / HTTP/1.1\r\n\r\n", "no batch"),
        (
            PREFIX.pack(MAGIC, VERSION + 1, 0, 0),
            "format 4; this version reads 3",
        ),
        (PREFIX.pack(MAGIC, VERSION, 1 << 31, 0), "claims 2147483648 bytes"),
        (PREFIX.pack(MAGIC, VERSION, 9, 1) + b"x", "checksum"),
        (
            PREFIX.pack(MAGIC, VERSION, 9, zlib.crc32(b"\0\0no zlib")) + b"\0\0no zlib",
            "does not decompress",
        ),
        (PREFIX.pack(MAGIC, VERSION, 9, zlib.crc32(b"")), "does not decode"),
        (packed(b"", claims=3), "is not the 3 bytes"),
        (packed(bytes(4)), "does not decode"),
        (packed(bytes(4096), claims=4), "is not the 4 bytes"),
        (packed(LENGTHS.pack(2, 0) + b"{}"), "does not decode"),
        (forged(host="n2"), "n2 speaks of a device of 'n1'"),
        (forged(number=1.5), "1.5 where a number"),
        (forged(sent_ns=2**64 - 1), "where a number"),
        (forged(start=None), "None where a text"),
        (forged(places=[], abouts=[]), "belong to no observation"),
        (forged(frames=[7]), "belong to no observation"),
        (forged(frames=[1 << 40, len(day(1)[0].frames) - (1 << 40)]), "where a number"),
        (forged(observations={}), "does not decode"),
        (forged(places=[]), "does not decode"),
        (forged(abouts=[about(kind="tpu")]), "no kind of device"),
        (forged(abouts=[about(gauges=["x"] * 2000)]), "2000 columns"),
        (forged(abouts=[about(gauges=[7])]), "does not decode"),
        (forged(abouts=[about(devices=[["n1", "gpu", "", {}]] * 5000)]), "5000 devices of a kind"),
        (forged(abouts=[about(x="y" * (2 << 20))]), "a description of 20972.. bytes"),
        (forged(abouts=[about(devices=[["n1", "gpu", "GPU-0", []]])]), "does not decode"),
        (forged(observations=[[]]), "does not decode"),
    ],
)
def test_other_bytes_are_refused_with_a_reason(raw: bytes, says: str) -> None:
    """Torn, of another version, forged: one exception, which names what is wrong."""
    with pytest.raises(BatchError, match=says):
        decode(raw)


def test_no_more_open_incidents_are_kept_than_an_agent_repeats() -> None:
    """The newest, whatever a host sends: a gateway looks at all of them each second."""
    many = [plain(replace(INCIDENT, id=f"{n:x}")) for n in range(300)]
    kept = decode(forged(open=many)).open
    assert [one.id for one in kept] == [f"{n:x}" for n in range(44, 300)]


def _reported(ranks: int) -> JudgedObservation:
    """What the RAS of a job says of one communicator of so many ranks."""
    members = tuple(
        Member(
            rank,
            host=f"10.1.{rank // 2048}.{rank // 8 % 256}",
            pid=1000 + 7 * rank,
            gpu=rank % 8,
            state="ok",
            launched=(("AllReduce", 12_345 + rank % 3), ("ReduceScatter", 999)),
        )
        for rank in range(ranks)
    )
    said = Report("ras", job="77", communicators=(Communicator("5", ranks, members),))
    return JudgedObservation(
        Observation("nccl", "n1", "b", 0, 5000, 7, 0, events=events_of(said, gpu(), 5000))
    )


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [8, 512, 20_000])
def test_a_reply_about_many_ranks_arrives_and_fits_a_message(ranks: int) -> None:
    """A job has one rank for each GPU of its nodes."""
    sent = _reported(ranks)
    raw = encode(batch([sent]))
    assert len(raw) < MAX_MESSAGE
    ((found, _),) = reports_in(decode(raw).judged[0].observation.events)
    ((wanted, _),) = reports_in(sent.observation.events)
    assert found == wanted


def test_no_other_text_is_that_long() -> None:
    """Nor a reply about more ranks than a node reads."""
    for name, length in (("text", MAX_TEXT + 1), (DOCUMENT, MAX_DOCUMENT + 1)):
        event = Event(5000, 0, gpu(), "nccl_line", {name: "x" * length})
        said = JudgedObservation(Observation("nccl", "n1", "b", 0, 5000, 7, 0, events=(event,)))
        with pytest.raises(BatchError, match="where a text belongs"):
            decode(encode(batch([said])))


@pytest.mark.slow
def test_a_bomb_costs_no_more_than_a_batch() -> None:
    """A gigabyte of zeros in a megabyte, whatever length it claims."""
    bomb = bytes(64 << 20)
    raw = packed(bomb, claims=1000)
    tracemalloc.start()
    with pytest.raises(BatchError, match="is not the 1000 bytes"):
        decode(raw)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("values", [b"[],", b"{},", b'"a",', b"[[0.5]],"])
def test_a_head_of_tiny_values_is_refused_before_it_is_decoded(
    values: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 16 MiB of empty lists, 70 kB in a message, a decoder of JSON makes 480 MiB."""
    monkeypatch.setattr(wire, "MAX_HEAD_VALUES", 2000)
    body, abouts = opened(encode(batch([JudgedObservation(day(1)[0])])))
    size, bits = LENGTHS.unpack_from(body)
    head, rest = body[LENGTHS.size : LENGTHS.size + size], body[LENGTHS.size + size :]
    head = b'%b,"more":[%b0]}' % (head[:-1], values * 2000)
    with pytest.raises(BatchError, match="more than 2000 values in its head"):
        decode(packed(LENGTHS.pack(len(head), bits) + head + rest, *abouts))


def test_what_is_in_a_text_of_a_head_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply about many ranks is JSON in one text of an event."""
    monkeypatch.setattr(wire, "MAX_HEAD_VALUES", 2000)
    document = '{"\\\\a":[1,2]},' * 2000
    event = Event(5000, 0, gpu(), "nccl_line", {DOCUMENT: document})
    said = JudgedObservation(Observation("nccl", "n1", "b", 0, 5000, 7, 0, events=(event,)))
    (back,) = decode(encode(batch([said]))).judged
    assert back.observation.events[0].attributes[DOCUMENT] == document


@pytest.mark.parametrize(
    ("width", "says"), [(1000, "early"), (3000, "96000 readings of devices; 32768 at most")]
)
def test_a_stack_that_claims_too_much_is_refused_before_memory_is_taken(
    width: int, says: str
) -> None:
    """Readings that are not there, and more than a minute of any node."""
    devices = [["n1", "gpu", f"GPU-{n}", {}] for n in range(width)]
    places = [[[0, n] for n in range(32)]]
    raw = forged(abouts=[about(devices=devices)], places=places, frames=[32])
    tracemalloc.start()
    with pytest.raises(BatchError, match=says):
        decode(raw)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


@pytest.mark.slow
@given(st.data())
def test_damage_is_refused_or_changes_values_only(data: st.DataObject) -> None:
    """Bytes changed under a right checksum: a BatchError, or observations of this host."""
    parts = opened(encode(batch([JudgedObservation(o) for o in day(2)])))
    damaged = [bytearray(part) for part in (parts[0], *parts[1])]
    for part in data.draw(st.lists(st.sampled_from(damaged), min_size=1, max_size=8)):
        part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    try:
        back = decode(packed(*map(bytes, damaged)))
    except BatchError:
        return
    for judged in back.judged:
        assert isinstance(judged.observation, Observation)
        assert {d.host for f in judged.observation.frames for d in f.devices} <= {back.host}
        assert all(isinstance(f.gauges, np.ndarray) for f in judged.observation.frames)


def test_equal_texts_of_a_hosts_devices_are_one_object() -> None:
    """144 NVLinks say of which GPU they are, of which model and driver: 150 kB of each host."""
    devices = [Device("n1", "nvlink", f"GPU-0/{n}", {"gpu": "GPU-" + "0" * 9}) for n in range(2)]
    frame = frame_of("nvlink", [(each, {"state": 1.0}) for each in devices], 1_000, 2)
    back = decode(encode(batch([JudgedObservation(observed(FakeClock(), frame))])))
    one, other = back.judged[0].observation.frames[0].devices
    assert one.attributes["gpu"] is other.attributes["gpu"]
    assert one.attributes == devices[0].attributes


def test_a_text_that_is_not_utf_8_costs_its_own_characters_only() -> None:
    """Wherever it came in: of a device, an event, an incident or a source."""
    half = "a\udcffb"
    odd = Device("n1", "gpu", half, {"name": half})
    clock = FakeClock()
    seen = replace(
        observed(clock, frame_of("gpu", [(odd, {"power_milliwatts": 1.0})], 0, 0)),
        events=(Event(0, 0, odd, "xid", {"message": half}),),
        unread=(Unread(half),),
        error=half,
    )
    incident = replace(INCIDENT, root=odd, summary=half)
    sent = replace(batch([JudgedObservation(seen, (), (incident,))]), open=(incident,))
    read = decode(encode(sent))
    (arrived,) = read.judged
    (event,), (frame,) = arrived.observation.events, arrived.observation.frames
    assert (event.device.id, event.attributes["message"]) == ("a?b", "a?b")
    assert (frame.devices[0].id, frame.devices[0].attributes["name"]) == ("a?b", "a?b")
    assert (arrived.observation.error, arrived.incidents[0].summary) == ("a?b", "a?b")
    assert read.open[0].root.id == "a?b"
