"""Messages of a cluster of any size for the gateway's benchmark: those of one real agent, recorded
at a real broker and sent again under the names of many hosts, each at a phase of its own.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from pipeline.bus.arrays import pack_words
from pipeline.bus.batch import Batch, assemble, decode, head_of
from pipeline.bus.stack import TIMES, Encoded, encode_groups, encode_stack, stacks_of
from pipeline.bus.taker import pack
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.judged import JudgedObservation
from tests.agents import AgentProcess
from tests.nats import Nats

PERIOD_NS = 5 * SECOND_NS  # between two batches of an agent
NODES_PER_RACK, NODES_PER_LEAF = 8, 64
SPREAD = 2_654_435_761
SKIPPED = 4  # batches: of the start, which are not like the others
# Marks that JSON writes as they are, and that no name of the simulated node holds.
HOST, NUMBER, RACK, LEAF = b"@host@", b"@number@", b"@rack@", b"@leaf@"
ONE = np.uint64(1)
RECORD = struct.Struct("<QII")
ON_ITS_WAY_NS = SECOND_NS // 1000
Message = tuple[int, str, bytes]  # when the broker stored it, the host, the payload


def recorded(seconds: float) -> list[Batch]:
    """What an agent of a simulated HGX H100 sends in that time."""
    with tempfile.TemporaryDirectory() as folder, Nats(Path(folder) / "nats") as server:
        server.stream()
        bus = ("--bus.servers", server.url, "--bus.cluster", "c1")
        with AgentProcess(Path(folder) / "agent", "--simulate", "hgx-h100", *bus) as agent:
            agent.ready()
            time.sleep(seconds + SKIPPED * PERIOD_NS / SECOND_NS)
        return [decode(payload) for _, payload in server.stored()][SKIPPED:]


def write(batches: list[Batch], nodes: int, path: Path, *, join_s: float = 0.0) -> int:
    """All messages of so many nodes, in the order of their arrival, and the time of the first one;
    the nodes come one after the other, over ``join_s`` seconds.
    """
    begin_ns = batches[0].sent_ns
    hosts = sorted((_Host(number) for number in range(nodes)), key=_phase)
    with path.open("wb") as file:
        for batch in batches:
            round_ = _Round(batch)
            for host in hosts:
                sent_ns = batch.sent_ns + host.phase_ns
                if sent_ns - begin_ns < host.number / nodes * join_s * SECOND_NS:
                    continue
                name, payload = host.name.encode(), round_.payload(host)
                file.write(RECORD.pack(sent_ns + ON_ITS_WAY_NS, len(name), len(payload)))
                file.write(name + payload)
    return begin_ns + ON_ITS_WAY_NS


def read(path: Path) -> Iterator[Message]:
    """What ``write`` wrote."""
    with path.open("rb") as file:
        while head := file.read(RECORD.size):
            at_ns, name, size = RECORD.unpack(head)
            yield at_ns, file.read(name).decode(), file.read(size)


def _phase(host: _Host) -> int:
    return host.phase_ns


class _Host:
    """One node of the cluster."""

    def __init__(self, number: int) -> None:
        self.name, self.number = f"node-{number:05}", number
        # Spread evenly, as hashes of names are (Knuth's multiplicative hashing).
        self.phase_ns = number * SPREAD % PERIOD_NS // 1000 * 1000
        self._known: dict[bytes, bytes] = {}

    def about(self, template: bytes) -> bytes:
        """A description of this node's devices, the same object for the same one."""
        if template not in self._known:
            self._known[template] = self.own(template)
        return self._known[template]

    def own(self, template: bytes) -> bytes:
        """With the names of this node in the places of the marks."""
        for mark, name in (
            (HOST, self.name),
            (NUMBER, f"{self.number}"),
            (RACK, f"{self.number // NODES_PER_RACK}"),
            (LEAF, f"{self.number // NODES_PER_LEAF}"),
        ):
            template = template.replace(mark, name.encode())
        return template


class _Round:
    """One recorded batch, encoded once: what differs from node to node are names and times."""

    def __init__(self, batch: Batch) -> None:
        marked = _marked(batch)
        stacks = stacks_of([judged.observation for judged in marked.judged])
        encoded = [encode_stack(stack) for stack in stacks]
        self._abouts = [each.about for each in encoded]
        self._head = head_of(marked, stacks)
        self._bits, self._words = _packed(encoded)
        _, later = _packed([_later(each) for each in encoded])
        self._times = np.flatnonzero(later != self._words)

    def payload(self, host: _Host) -> bytes:
        """What this node sends."""
        words = self._words.copy()
        words[self._times] += np.uint64(host.phase_ns)
        return assemble(
            host.own(orjson.dumps(self._at(host.phase_ns))),
            [host.about(about) for about in self._abouts],
            [self._bits, pack_words(words)],
        )

    def _at(self, phase_ns: int) -> Mapping[str, Any]:
        observations = self._head["observations"]
        times = [at_ns + phase_ns for at_ns in observations["time_ns"]]
        return self._head | {
            "sent_ns": self._head["sent_ns"] + phase_ns,
            "observations": observations | {"time_ns": times},
        }


def _packed(encoded: Sequence[Encoded]) -> tuple[bytes, NDArray[np.uint64]]:
    """Bits as bytes, and all words."""
    bits, words = encode_groups(encoded)
    return pack(bits, [])[0], np.concatenate(
        [np.zeros(0, np.uint64), *(each.reshape(-1) for each in words)]
    )


def _later(encoded: Encoded) -> Encoded:
    """By one nanosecond, of unix time."""
    words = encoded.words.copy()
    words[:, 0] += ONE
    sampled = words[:, TIMES : TIMES + len(orjson.loads(encoded.about)["devices"])]
    sampled[sampled != 0] += ONE
    return replace(encoded, words=words)


def _marked(batch: Batch) -> Batch:
    """The recorded batch with marks in the places of a node's names."""
    known: dict[int, tuple[Device, ...]] = {}
    return replace(
        batch,
        host=HOST.decode(),
        judged=tuple(_marked_observation(each, known) for each in batch.judged),
        open=(),
    )


def _marked_observation(
    judged: JudgedObservation, known: dict[int, tuple[Device, ...]]
) -> JudgedObservation:
    one = judged.observation
    for frame in one.frames:
        known.setdefault(id(frame.devices), tuple(map(_marked_device, frame.devices)))
    frames = tuple(replace(frame, devices=known[id(frame.devices)]) for frame in one.frames)
    events = tuple(replace(event, device=_marked_device(event.device)) for event in one.events)
    return JudgedObservation(replace(one, host=HOST.decode(), frames=frames, events=events))


def _marked_device(device: Device) -> Device:
    host, number, places = HOST.decode(), NUMBER.decode(), {"rack": RACK, "leaf": LEAF}
    name = host if device.kind == "node" else f"{device.id}-{number}"
    facts = {
        key: f"{value}-{places[key].decode()}" if key in places else value
        for key, value in device.attributes.items()
    }
    return Device(host, device.kind, name, facts)
