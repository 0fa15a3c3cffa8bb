"""Agents of a simulated run whose batches get lost, come late, or bear wrong times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pipeline.bus.batch import Batch, encode
from pipeline.clock import SECOND_NS
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from tests.contracts.horizon.world import LIVES, simulated, struck

PERIOD_S = 10
# Seconds by which the clocks of hosts are wrong, from the begin.
WRONG_S = (0, 95, -40)
DAYS = 0.007


class Agents:
    """Hosts that send what they read each ten seconds. Some batches are lost, some come late."""

    def __init__(self, seed: int, wrong_s: Sequence[int] = WRONG_S) -> None:
        self._rng, self._wrong_s = np.random.default_rng(seed), wrong_s
        self.kept: list[JudgedObservation] = []
        self._last = dict[str, int]()
        self._number = dict[str, int]()

    def batches(self) -> Iterator[tuple[int, str, bytes]]:
        """When the broker has each, by its clock, with the host."""
        lives = tuple(replace(life, step_s=0.0) for life in LIVES[: len(self._wrong_s)])
        sent: list[tuple[int, str, bytes]] = []
        agents = simulated("F06", lives, days=DAYS, seed=3)
        for agent, wrong_s in zip(agents, self._wrong_s, strict=True):
            windows: dict[int, list[Observation]] = {}
            for one in struck(agent, self._rng):
                windows.setdefault(one.time_ns // SECOND_NS // PERIOD_S, []).append(one)
            for window, seen in sorted(windows.items()):
                right_ns = (window + 1) * PERIOD_S * SECOND_NS
                late = self._rng.choice([0.0, 0.0, 0.0, 0.0, 70.0]) * (wrong_s == 0)
                arrives_ns = right_ns + round((self._rng.uniform(0.01, 0.3) + late) * SECOND_NS)
                payload = self._batch(seen, wrong_s, right_ns)
                if self._rng.random() > 0.05:
                    sent.append((arrives_ns, seen[0].host, payload))
        yield from sorted(sent)

    def _batch(self, seen: Sequence[Observation], wrong_s: int, right_ns: int) -> bytes:
        host = seen[0].host
        judged = tuple(JudgedObservation(_wrong(one, wrong_s * SECOND_NS)) for one in seen)
        self.kept += judged
        number = self._number[host] = self._number.get(host, -1) + 1
        previous = self._last.get(host, -1)
        self._last[host] = seen[-1].seq
        return encode(
            Batch(host, "start", number, previous, right_ns + wrong_s * SECOND_NS, judged)
        )


def _wrong(one: Observation, wrong_ns: int) -> Observation:
    """By a wrong clock of its host."""
    frames = tuple(replace(f, time_ns=f.time_ns + wrong_ns) for f in one.frames)
    events = tuple(replace(e, time_ns=e.time_ns + wrong_ns) for e in one.events)
    return replace(one, time_ns=one.time_ns + wrong_ns, frames=frames, events=events)
