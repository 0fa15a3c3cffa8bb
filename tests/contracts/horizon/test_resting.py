"""Detectors and fusions that rest while their findings are open say what they say where they are
asked about every observation, in the same reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from detectors.host import Host
from detectors.incidents import Incidents
from detectors.infiniband import IbLink
from detectors.node_horizon import NodeHorizon
from detectors.xid import Xid
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, Frame, frame_of
from pipeline.gpu_state import GpuState
from pipeline.interfaces import Detector
from pipeline.observation import Event, Observation, Value
from tests.contracts.horizon.sides import Said, by_count, joined, singles
from tests.contracts.horizon.world import Agent

MINUTE_NS = 60 * SECOND_NS
READINGS = 40 * 60  # longer than a day, after which an XID is forgotten
PERIODS = {"nvml": 60.0, "infiniband": 60.0}
CODES = (13, 31, 45, 48, 63, 74, 79, 94, 119)
GPUS, PORTS = 8, 2


def detectors() -> Sequence[Detector]:
    """Those of events, and one whose findings come and go."""
    return [Xid(), Host(), IbLink()]


class _Spell:
    """Something that lasts: begins by chance, and is over after a time drawn from ``lengths``."""

    def __init__(self, rng: np.random.Generator, chance: float, longest: int) -> None:
        self._rng, self._chance, self._longest, self._left = rng, chance, longest, 0

    def lasts(self) -> bool:
        """In this reading."""
        if self._left == 0 and self._rng.random() < self._chance:
            self._left = int(self._rng.integers(1, self._longest))
        self._left = max(0, self._left - 1)
        return self._left > 0


def rare_events(host: str, seed: int) -> Iterator[Observation]:
    """A node to which something happens every few hours: XIDs, resets, GPUs that ask for recovery,
    are not read, are given away, leave or are replaced; links that are down.
    """
    rng = np.random.default_rng(seed)
    epochs, cards = [0] * GPUS, [0] * GPUS
    asks, unread, given, away = (
        [_Spell(rng, 0.0004, n) for _ in range(GPUS)] for n in (9, 200, 90, 400)
    )
    down = [_Spell(rng, 0.002, 60) for _ in range(PORTS)]
    for number in range(READINGS):
        mono_ns = 1000 * SECOND_NS + number * MINUTE_NS + int(rng.integers(0, SECOND_NS))
        time_ns = 1_700_000_000 * SECOND_NS + mono_ns
        gpus: list[tuple[Device, dict[str, float | None]]] = []
        events: list[Event] = []
        for n in range(GPUS):
            epochs[n] += rng.random() < 0.0005
            cards[n] += rng.random() < 0.0001
            facts = {
                "index": str(n),
                "pci_bus_id": f"0000:{n:02x}:00.0",
                "epoch": f"580#{epochs[n]}",
            }
            gpu = Device(host, "gpu", f"GPU-{host}-{n}-{cards[n]}", facts)
            state = float(GpuState.PASSTHROUGH if given[n].lasts() else GpuState.OK)
            values: dict[str, float | None] = {
                "state": state,
                "recovery_action": float(asks[n].lasts()),
            }
            if not away[n].lasts():
                gpus.append((gpu, {} if unread[n].lasts() else values))
            if rng.random() < 0.0005:
                xid: dict[str, Value] = {"code": int(rng.choice(CODES)), "origin": "kmsg"}
                events.append(Event(time_ns, mono_ns, gpu, "xid", xid))
        yield _read("nvml", host, number, frame_of("gpu", gpus, time_ns, mono_ns), events)
        ports = [(_port(host, n), {"state": 1 if down[n].lasts() else 4}) for n in range(PORTS)]
        frame = frame_of("ib_port", ports, time_ns + SECOND_NS, mono_ns + SECOND_NS)
        yield _read("infiniband", host, number, frame, [])


def _port(host: str, number: int) -> Device:
    facts = {"device": f"mlx5_{number}", "port": "1", "expected_by": "learned", "leaf": "leaf1"}
    return Device(host, "ib_port", f"0x{host}{number}", facts)


def _read(source: str, host: str, seq: int, frame: Frame, events: Sequence[Event]) -> Observation:
    return Observation(
        source, host, "boot", seq, frame.time_ns, frame.mono_ns, 0, (frame,), tuple(events)
    )


@pytest.fixture(scope="module")
def agents() -> list[Agent]:
    """Four such nodes."""
    return [list(rare_events(f"n{seed}", seed)) for seed in range(4)]


@pytest.fixture(scope="module")
def alone(agents: list[Agent]) -> Said:
    """What their agents say."""
    return singles(agents, PERIODS, detectors)


@pytest.mark.slow
def test_what_rests_says_the_same_in_the_same_reading(agents: list[Agent], alone: Said) -> None:
    """Findings that open, get worse, end by themselves or leave with their device."""
    said = [word for words in alone.values() for word in words]
    for kind in ("cleared", "ongoing"):
        assert sum(kind in one for one in said) > 20
    assert joined(agents, PERIODS, by_count, detectors) == alone


def test_what_is_open_is_not_asked_about_in_every_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an XID its detector rests until the day is over on which it may come back, and the
    fusion for a minute each.
    """
    asked = {"xid": 0, "incidents": 0}

    def counted(kind: Any) -> None:
        update = kind.update

        def count(*args: object) -> object:
            asked[kind.name] += 1
            return update(*args)

        monkeypatch.setattr(kind, "update", count)

    counted(Xid)
    counted(Incidents)
    gpu, judge = Device("n1", "gpu", "GPU-1"), NodeHorizon(detectors, Incidents, PERIODS)
    for number in range(6 * 60):
        mono_ns = (1 + number) * MINUTE_NS // 6
        facts: dict[str, Value] = {"code": 48, "origin": "kmsg"}
        events = [Event(mono_ns, mono_ns, gpu, "xid", facts)] if number == 6 else []
        frame = frame_of("gpu", [(gpu, {"state": 0, "recovery_action": 0})], mono_ns, mono_ns)
        judge.judge([_read("nvml", "n1", number, frame, events)])
    assert asked["xid"] < 30  # the first reading, and a burst of three minutes
    assert asked["incidents"] < 3 * 60  # asked once a minute, and shown the reading before
