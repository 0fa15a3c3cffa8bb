"""NVLinks and InfiniBand ports: traffic that integrates exactly, and bit errors
at the rate of the wire.

Symbol errors per second are signalling rate x BER (IBTA 1.7, volume 1, PortCounters): they come on
idle links too, since links always send.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.counters import Counter
from simulator.profile import NvLink, Ports
from simulator.workload import Demand

HEALTHY_BER = 1e-16  # after FEC; cables are tested below 1e-15, the specification asks for 1e-12
NVLINK_RAW_BER = 1e-9  # before FEC: fills the first bins of the FEC history
PACKET_BYTES = 4096 + 66  # InfiniBand MTU of 4096 with its headers
FEC_BINS = 16
PCIE_LANES = 16  # of every adapter's slot


class NvLinks:
    """Links of all GPUs, arrays (GPU, link).

    ``error_rate`` is replays per second, which faults raise.
    """

    def __init__(self, gpus: int, model: NvLink, rng: np.random.Generator) -> None:
        shape = (gpus, model.links)
        self.model = model
        self._rng = rng
        self.up = np.ones(shape, bool)
        self.sent = Counter(shape)
        self.received = Counter(shape)
        self.error_rate = np.zeros(shape)
        self.replays, self.recoveries, self.crc = (np.zeros(shape, np.uint64) for _ in range(3))
        self.fec = np.zeros((*shape, FEC_BINS), np.uint64)
        # Codewords of 544 symbols of 10 bits; each further bin is a hundred
        # times rarer on a good link.
        codewords = model.gigabytes_per_second * 8e9 / 5440
        self._fec_rate = codewords * np.array(
            [1.0, *(NVLINK_RAW_BER * 5440 * 0.01**k for k in range(FEC_BINS - 1))]
        )
        self.fec_knob = np.ones(shape)

    def advance(self, dt: float, demand: Demand, present: NDArray[np.bool_]) -> None:
        """Traffic and errors of ``dt`` seconds."""
        live = self.up & present[:, None]
        speed = self.model.gigabytes_per_second * 1e9 * demand.nvlink * live
        jitter = self._rng.normal(1, 0.01, (2, *live.shape))
        self.sent.add(speed * dt * jitter[0])
        self.received.add(speed * dt * jitter[1])
        if self.error_rate.any():
            replays = self._rng.poisson(self.error_rate * dt * live).astype(np.uint64)
            self.replays += replays
            self.crc += replays
            self.recoveries += (replays // np.uint64(16)).astype(np.uint64)
        if self.model.version >= 5:
            rate = self._fec_rate * live[..., None] * dt
            rate[..., 1:] *= self.fec_knob[..., None] ** np.arange(1, FEC_BINS)
            self.fec += self._rng.poisson(np.minimum(rate, 1e15)).astype(np.uint64)


class IbPorts:
    """Ports of a node, arrays (port,). ``present`` is whether the adapter still answers on PCI."""

    ERRORS = (
        "symbol",
        "recovery",
        "downed",
        "receive",
        "remote_physical",
        "discards",
        "integrity",
        "wait",
    )

    def __init__(self, model: Ports, rng: np.random.Generator) -> None:
        n = len(model.devices)
        self.model = model
        self._rng = rng
        self.up = np.ones(n, bool)
        self.present = np.ones(n, bool)
        self.ber = np.full(n, HEALTHY_BER)
        self.sent, self.received = Counter((n,)), Counter((n,))
        self.sent_packets, self.received_packets = Counter((n,)), Counter((n,))
        self.errors = {name: np.zeros(n, np.uint64) for name in self.ERRORS}
        self.carrier_changes = np.full(n, 2, np.uint64)  # up since boot: one down, one up
        self.pcie_width = np.full(n, PCIE_LANES)

    def advance(self, dt: float, demand: Demand) -> None:
        """Traffic and bit errors of ``dt`` seconds."""
        live = self.up & self.present
        speed = (
            self.model.gigabits_per_second
            * 1e9
            / 8
            * demand.fabric
            * live
            * (self.pcie_width / PCIE_LANES)
        )
        jitter = self._rng.normal(1, 0.005, (2, live.size))
        for counter, packets, noise in (
            (self.sent, self.sent_packets, jitter[0]),
            (self.received, self.received_packets, jitter[1]),
        ):
            counter.add(speed * dt * noise)
            packets.add(speed * dt * noise / PACKET_BYTES)
        # Management traffic: the subnet manager's sweeps.
        self.sent_packets.add(live * dt * 0.2)
        self.received_packets.add(live * dt * 0.2)
        rate = self.model.signalling_gigabits_per_second * 1e9 * self.ber * live
        self.errors["symbol"] += self._rng.poisson(rate * dt).astype(np.uint64)
        # Congestion: ticks in which data waited, in proportion to how full the wire is.
        self.errors["wait"] += (demand.fabric**2 * live * dt * 2e4).astype(np.uint64)

    def lower(self, port: int) -> None:
        """The link goes down."""
        if self.up[port]:
            self.up[port] = False
            self.errors["downed"][port] += np.uint64(1)
            self.carrier_changes[port] += np.uint64(1)

    def raise_(self, port: int) -> None:
        """The link comes back."""
        if not self.up[port]:
            self.up[port] = True
            self.errors["recovery"][port] += np.uint64(1)
            self.carrier_changes[port] += np.uint64(1)
