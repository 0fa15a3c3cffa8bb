"""InfiniBand ports of a fleet: traffic of the jobs and bit errors of the wires, for many
ports and ticks at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.fleet.demand import Demands
from simulator.links import HEALTHY_BER, PACKET_BYTES
from simulator.profile import Ports

Floats = NDArray[np.float64]

RAILS = 8
SWEEPS_PER_S = 0.2  # management packets of the subnet manager
WAIT_TICKS_PER_S = 2e4  # of transmit-wait on a full wire, as simulator/links.py
WORD_BYTES = 4


@dataclass(slots=True)
class PortChunk:
    """Increments (tick, port) of counters by name of the field; counters that
    did not move are left out.
    """

    increments: dict[str, Floats] = field(default_factory=dict)


class FleetPorts:
    """State of all ports, arrays (port,): the nodes' ends first, then, where they are seen, the
    switches' ends in the same order.

    Faults turn the knobs: ``ber`` of what a port receives, ``speed`` as a share of the full rate,
    ``up``, ``wait`` (ticks per second of congestion). ``rates`` holds extra events per second by
    counter, for those ports that have any.
    """

    def __init__(
        self,
        model: Ports,
        nodes: int,
        rng: np.random.Generator,
        *,
        switches: bool,
        background: bool,
    ) -> None:
        self.ends = RAILS * nodes
        n = self.ends * (2 if switches else 1)
        self.count, self.model, self._rng = n, model, rng
        self.up, self.present = np.ones(n, bool), np.ones(n, bool)
        self.ber = np.full(n, HEALTHY_BER if background else 0.0)
        self.healthy_ber = self.ber[0]
        self.speed, self.wait = np.ones(n), np.zeros(n)
        self.rates: dict[str, dict[int, float]] = {}

    def other(self, port: int) -> int | None:
        """The other end of a link, None where the frames do not hold it."""
        if self.count == self.ends:
            return None
        return port + self.ends if port < self.ends else port - self.ends

    def advance(self, ticks: int, dt: float, demands: Demands) -> PortChunk:
        """What the counters gain in each tick."""
        chunk, rng = PortChunk(), self._rng
        bytes_per_s = self.model.gigabits_per_second * 1e9 / 8
        fabric = np.repeat(demands.fabric, RAILS, axis=1)
        live = self.up[: self.ends] & self.present[: self.ends]
        moved = fabric * (live * self.speed[: self.ends] * bytes_per_s * dt)
        jitter = rng.standard_normal(moved.shape, np.float32).astype(np.float64)
        sent = moved * (1 + 0.005 * jitter)
        received = moved * (1 - 0.005 * jitter)
        for name, amount, back in (("transmit", sent, received), ("receive", received, sent)):
            whole = amount if self.count == self.ends else np.concatenate((amount, back), axis=1)
            chunk.increments[f"{name}_words"] = whole / WORD_BYTES
            chunk.increments[f"{name}_packets"] = whole / PACKET_BYTES + SWEEPS_PER_S * dt
        both = self.up & self.present
        waits = fabric**2 * (live * WAIT_TICKS_PER_S * dt)
        chunk.increments["transmit_wait_ticks"] = self._both_ends(waits) + self.wait * both * dt
        self._errors(chunk.increments, ticks, dt, both)
        return chunk

    def _both_ends(self, ends: Floats) -> Floats:
        return ends if self.count == self.ends else np.concatenate((ends, ends), axis=1)

    def _errors(
        self, into: dict[str, Floats], ticks: int, dt: float, live: NDArray[np.bool_]
    ) -> None:
        """Bit errors at signalling rate times BER, and what faults add: by the Poisson law, drawn
        for the ports that see any.
        """
        rate = self.model.signalling_gigabits_per_second * 1e9 * self.ber * live
        bad = self.ber > self.healthy_ber
        background = self._rng.poisson(float(rate[~bad].sum()) * dt * ticks)
        if background or bad.any():
            errors = into["symbol_errors"] = np.zeros((ticks, self.count))
            where = np.flatnonzero(~bad)
            if background:
                np.add.at(
                    errors,
                    (self._rng.integers(0, ticks, background), self._rng.choice(where, background)),
                    1.0,
                )
            if bad.any():
                errors[:, bad] += self._rng.poisson(rate[bad] * dt, (ticks, int(bad.sum())))
        for name, ports in self.rates.items():
            if ports:
                column = into.setdefault(name, np.zeros((ticks, self.count)))
                where = np.fromiter(ports, np.intp)
                mean = np.fromiter(ports.values(), np.float64) * live[where] * dt
                column[:, where] += self._rng.poisson(mean, (ticks, len(where)))
