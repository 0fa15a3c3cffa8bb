"""A quarter of 64 nodes of which every lost hour is known: jobs on some or all GPUs, pauses, faults
of a node or a GPU and repairs, with instants that no minute knows of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from history.economics.evidence import JobSpan, NodeEvidence, Span

GPUS, MINUTE_MS, HOUR_MS = 8, 60_000, 3_600_000
QUARTER_MS = 90 * 24 * HOUR_MS
BEGIN_MS = 1_800_000_000_000


class NodeQuarter:
    """One node. ``truth`` has GPU-milliseconds by cause; every third job leaves half of the GPUs
    idle. Drivers keep house at up to 3 %, and one minute in 500 is not read.
    """

    def __init__(self, number: int, length_ms: int = QUARTER_MS) -> None:
        self.rng = np.random.default_rng(number)
        self.host = f"gpu{number:02}"
        self.end_ms = BEGIN_MS + length_ms
        self.percent: NDArray[np.float32] = np.zeros((length_ms // MINUTE_MS, GPUS), np.float32)
        self.spans: list[Span] = []
        self.jobs: list[JobSpan] = []
        self.truth: Counter[str] = Counter()
        self.at, self.gpus = BEGIN_MS, GPUS
        while self.at < self.end_ms:
            self._job()
        self.percent += self.rng.uniform(0, 3, self.percent.shape).astype(np.float32)
        self.percent[self.rng.random(len(self.percent)) < 0.002] = np.nan

    def evidence(self) -> NodeEvidence:
        """What a report knows."""
        return NodeEvidence(
            host=self.host,
            gpus=tuple(f"GPU-{self.host}-{n}" for n in range(GPUS)),
            begin_ms=BEGIN_MS,
            bucket_ms=MINUTE_MS,
            busy=self.percent,
            spans=tuple(self.spans),
            jobs=tuple(self.jobs),
            models=("H100",) * GPUS,
            rack=f"r{int(self.host[3:]) // 8}",
        )

    def _job(self) -> None:
        """Waiting, loading, working with saves, and one of five ends."""
        self._lasts("idle", self.rng.exponential(2 * HOUR_MS))
        begin, self.gpus = self.at, int(self.rng.choice([GPUS, GPUS, GPUS // 2]))
        self._lasts("start_up", self.rng.uniform(4, 30) * MINUTE_MS)
        for _ in range(int(self.rng.integers(4, 30))):
            self._lasts("used", self.rng.uniform(0.5, 2.5) * HOUR_MS, busy=True)
            self._lasts("checkpoint", self.rng.uniform(3, 12) * MINUTE_MS)
        self._lasts("used", self.rng.uniform(10, 60) * MINUTE_MS, busy=True)
        end = str(self.rng.choice(["none", "stalled", "lost", "down", "repair"]))
        if end == "stalled":
            self._fault("stalled", self.rng.uniform(0.5, 4), busy=True)
        gpus = tuple(range(self.gpus))
        self.jobs.append(JobSpan(f"{self.host}-{begin}", begin, self.at, gpus, "ml"))
        self.gpus = GPUS
        if end == "lost":
            self.gpus = int(self.rng.choice([1, GPUS]))
            self._fault("lost", self.rng.uniform(1, 12))
            self.gpus = GPUS
        elif end == "down":
            self._fault("down", self.rng.uniform(0.3, 8), read=False)
        elif end == "repair":
            self._fault("repair", self.rng.uniform(2, 48))

    def _fault(self, cause: str, hours: float, *, busy: bool = False, read: bool = True) -> None:
        fault = "" if cause in ("down", "repair") else f"{cause}/x"
        begin = self.at
        self._lasts(cause, hours * HOUR_MS, busy=busy, read=read)
        part = "node" if cause == "repair" else ""
        for gpu in [-1] if self.gpus == GPUS else range(self.gpus):
            self.spans.append(Span(cause, begin, self.at, gpu, fault, part))

    def _lasts(self, cause: str, ms: float, *, busy: bool = False, read: bool = True) -> None:
        """Time passes; a minute's mean is of all that was in it."""
        begin, self.at = self.at, min(self.at + round(ms), self.end_ms)
        self.truth[cause] += (self.at - begin) * self.gpus
        self.truth["idle"] += (self.at - begin) * (GPUS - self.gpus)
        first, last = (begin - BEGIN_MS) / MINUTE_MS, (self.at - BEGIN_MS) / MINUTE_MS
        rows = np.arange(int(first), min(int(last) + 1, len(self.percent)))
        share = np.minimum(rows + 1, last) - np.maximum(rows, first)
        if busy:
            noise = self.rng.uniform(60, 97, (len(rows), self.gpus))
            self.percent[rows, : self.gpus] += (noise * share[:, None]).astype(np.float32)
        elif not read:
            self.percent[rows[share > 0.999]] = np.nan


def quarter(nodes: int) -> Iterator[NodeQuarter]:
    """All nodes, one at a time."""
    return map(NodeQuarter, range(nodes))
