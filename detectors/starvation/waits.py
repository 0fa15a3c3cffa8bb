"""From how much a GPU does beside its usual work, and how its node waits, to what it waits for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# The first of these that holds is the answer; between data and processors the one that its tasks
# wait for most, measured by the threshold of each.
WAITS = ("", "memory", "data", "cpu", "power", "communication", "nothing")
CODE = {name: number for number, name in enumerate(WAITS)}
# Thresholds are proposed, and scored in F80 to F85.
LESS = 0.9  # of the usual utilisation: a fair loader keeps it above (MLPerf Storage)
MEMORY, IO, CPU = 0.01, 0.10, 0.20  # shares of the time in which tasks wait
FAULTS_PER_S = 100.0  # pages that must be read from a disk
SLOW, HELD = 0.95, 0.30  # of the usual clock; share of the time a throttle reason was active
# Of the usual tensor activity, at full utilisation: kernels only wait for a third of the time.
SPINS = 2 / 3
DIMS = 0.7  # the same of power, of which a waiting GPU uses a part; where there is no activity
# A node that swaps waits for its disks too, and all of its tasks for memory; one that reads much
# reclaims its page cache on the way, for a small part of that time.
SWAPS = 0.05  # of the wait for input and output
STOPPED_PERCENT = 1.0
# Of a wait that is usual so much is taken off at most: loaders that always wait for their disks and
# keep up nonetheless are still what a job waits for when it does less.
MAX_USUAL = 0.3


def waits(now: Mapping[str, Floats], usual: Mapping[str, Floats]) -> Codes:
    """Codes of WAITS, (gpu,). ``now`` has used, tensor, power, clock, held, the node's or job's io,
    cpu and memory, the node's faults, and storage: 1 where a file system clearly holds requests up,
    else 0. ``usual`` has all but held, faults and storage as they are while the job works. Pressure
    counts beyond the usual: processors that were overbooked before are no reason to be slower now.

    >>> one = {
    ...     name: np.array([value])
    ...     for name, value in {
    ...         "used": 40.0,
    ...         "tensor": 20.0,
    ...         "power": 3e5,
    ...         "clock": 1700.0,
    ...         "held": 0.0,
    ...         "io": 0.3,
    ...         "cpu": 0.0,
    ...         "memory": 0.0,
    ...         "faults": 0.0,
    ...         "storage": 0.0,
    ...     }.items()
    ... }
    >>> usual = {
    ...     name: np.array([v])
    ...     for name, v in {
    ...         "used": 98.0,
    ...         "tensor": 50.0,
    ...         "power": 6e5,
    ...         "clock": 1700.0,
    ...         "io": 0.02,
    ...         "cpu": 0.05,
    ...         "memory": 0.0,
    ...     }.items()
    ... }
    >>> WAITS[waits(one, usual)[0]]
    'data'
    """
    less = now["used"] < LESS * usual["used"]
    full = now["used"] >= LESS * usual["used"]
    slow = full & (now["clock"] < SLOW * usual["clock"]) & (now["held"] >= HELD)
    spins = np.where(
        np.isfinite(now["tensor"]) & (usual["tensor"] > 0),
        now["tensor"] < SPINS * usual["tensor"],
        now["power"] < DIMS * usual["power"],
    )
    memory, io, cpu = (_beyond(now[name], usual[name]) for name in ("memory", "io", "cpu"))
    data = np.fmax(np.fmax(io / IO, now["faults"] / FAULTS_PER_S), now["storage"])
    processors = cpu / CPU
    found = [
        less & (memory >= MEMORY) & ~(memory < SWAPS * io),
        less & (data >= 1) & ~(data < processors),
        less & (processors >= 1),
        slow,
        full & spins,
        less & (now["used"] <= STOPPED_PERCENT),
    ]
    return np.select(found, range(1, len(WAITS)), 0).astype(np.int64)


def _beyond(now: Floats, usual: Floats) -> Floats:
    """Share of the time beyond the usual; all of it where the usual is not known."""
    beyond: Floats = now - np.where(np.isfinite(usual), np.fmin(usual, MAX_USUAL), 0.0)
    return beyond
