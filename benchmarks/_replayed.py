"""Messages of a cluster of any size for the gateway's benchmark: those of one real agent, recorded
at a real broker and sent again under the names of many hosts, each at a phase of its own.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pipeline.bus.batch import Batch, decode, encode
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.judged import JudgedObservation
from tests.agents import AgentProcess
from tests.nats import Nats

PERIOD_NS = 5 * SECOND_NS  # between two batches of an agent
NODES_PER_RACK, NODES_PER_LEAF = 8, 64
SPREAD = 2_654_435_761
SKIPPED = 4  # batches: of the start, which are not like the others
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


def write(batches: list[Batch], nodes: int, path: Path) -> None:
    """All messages of so many nodes, in the order of their arrival."""
    with path.open("wb") as file:
        for round_ in batches:
            for host in sorted((_Host(number) for number in range(nodes)), key=_phase):
                sent_ns = round_.sent_ns + host.phase_ns
                name, payload = host.name.encode(), encode(host.batch(round_))
                file.write(RECORD.pack(sent_ns + ON_ITS_WAY_NS, len(name), len(payload)))
                file.write(name + payload)


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
        self.name, self._number = f"node-{number:05}", number
        # Spread evenly, as hashes of names are (Knuth's multiplicative hashing).
        self.phase_ns = number * SPREAD % PERIOD_NS // 1000 * 1000
        self._devices: dict[int, tuple[Device, ...]] = {}

    def batch(self, batch: Batch) -> Batch:
        """The recorded batch as this node would send it."""
        return replace(
            batch,
            host=self.name,
            sent_ns=batch.sent_ns + self.phase_ns,
            judged=tuple(self._judged(each) for each in batch.judged),
            open=(),
        )

    def _judged(self, judged: JudgedObservation) -> JudgedObservation:
        one = judged.observation
        frames = tuple(
            replace(f, devices=self._own(f.devices), time_ns=f.time_ns + self.phase_ns)
            for f in one.frames
        )
        events = tuple(replace(e, device=self._device(e.device)) for e in one.events)
        at_ns = one.time_ns + self.phase_ns
        own = replace(one, host=self.name, time_ns=at_ns, frames=frames, events=events)
        return JudgedObservation(own)

    def _own(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        if id(devices) not in self._devices:
            self._devices[id(devices)] = tuple(map(self._device, devices))
        return self._devices[id(devices)]

    def _device(self, device: Device) -> Device:
        name = self.name if device.kind == "node" else f"{device.id}-{self._number}"
        places = {
            "rack": self._number // NODES_PER_RACK,
            "leaf": self._number // NODES_PER_LEAF,
        }
        facts = {
            key: f"{value}-{places[key]}" if key in places else value
            for key, value in device.attributes.items()
        }
        return Device(self.name, device.kind, name, facts)
