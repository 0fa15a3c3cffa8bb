"""Ports: words and packets with the traffic, errors with the quality of the link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evaluation.independent.site.cluster import Cluster
from evaluation.independent.site.draw import Values
from evaluation.independent.site.faults import Effect, parts, sized

ACTIVE, DOWN, POLLING, LINK_UP = 4.0, 1.0, 2.0, 5.0
STICKS = {"symbol_errors": 65_535.0, "link_downed": 255.0, "link_error_recoveries": 255.0}
PACKET_WORDS = 1_040.0


class Links:
    """All ports of a cluster: arrays are (port,)."""

    def __init__(self, source: np.random.Generator, cluster: Cluster) -> None:
        size = len(cluster.ports)
        self._source, self._bits = source, cluster.model.port_bits
        # Log-normal between links; most are far below what is specified.
        self._ratio = 10.0 ** np.clip(source.normal(-17.5, 0.8, size), -20, -15.3)
        self._words = source.integers(0, 2**45, (2, size)).astype(float)
        self._packets = np.floor(self._words / PACKET_WORDS)
        self._symbols = source.integers(0, 30, size).astype(float)
        self._downed = source.poisson(0.3, size).astype(float)
        self._waits = source.integers(0, 2**31, size).astype(float)
        self._is_down = np.zeros(size, bool)

    def read(self, seconds: float, traffic: Values, active: list[Effect]) -> dict[str, Values]:
        """Columns after so many seconds."""
        down = np.isin(np.arange(len(self._ratio)), parts(active, "link_down"))
        ratio = np.maximum(self._ratio, sized(active, "bit_errors", len(down)))
        self._downed += down & ~self._is_down
        self._is_down = down
        self._symbols += np.where(down, 0, self._source.poisson(ratio * self._bits * seconds))
        self._move(seconds, np.where(down, 0.0, traffic))
        return self._columns(down)

    def _move(self, seconds: float, traffic: Values) -> None:
        words = self._bits / 32 * seconds * traffic
        words = words * np.exp(self._source.normal(0, 0.05, (2, len(traffic))))
        quiet = self._source.poisson(20 * seconds, (2, len(traffic)))
        self._words += np.floor(words) + 64 * quiet
        self._packets += np.floor(words / PACKET_WORDS) + quiet
        self._waits += np.floor(1e6 * seconds * traffic * self._source.random(len(traffic)) ** 3)

    def _columns(self, down: NDArray[np.bool_]) -> dict[str, Values]:
        size = len(self._ratio)
        return {
            "state": np.where(down, DOWN, ACTIVE),
            "physical_state": np.where(down, POLLING, LINK_UP),
            "rate_bits_per_second": np.where(down, np.nan, self._bits),
            "width_lanes": np.where(down, np.nan, 4.0),
            "expected": np.ones(size),
            "receive_words": self._words[0].copy(),
            "transmit_words": self._words[1].copy(),
            "receive_packets": self._packets[0].copy(),
            "transmit_packets": self._packets[1].copy(),
            "symbol_errors": np.minimum(self._symbols, STICKS["symbol_errors"]),
            "symbol_errors_extended": self._symbols.copy(),
            "link_downed": np.minimum(self._downed, STICKS["link_downed"]),
            "link_downed_extended": self._downed.copy(),
            "link_error_recoveries": np.zeros(size),
            "receive_errors": np.zeros(size),
            "transmit_discards": np.zeros(size),
            "transmit_wait_ticks": np.minimum(self._waits, 2.0**32 - 1),
        }
