"""How many nodes of a store are judged together: as many as fit in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collector.replaying.nodes import NODES_AT_ONCE
from pipeline.store.query.hosts import reads_below

MAX_NODES = 256  # beyond it each costs hardly less
DENSE = 7200.0  # reads of a node in an hour: GPUs and ports each second


def nodes_at_once(root: Path, hours: Sequence[int]) -> int:
    """Of the store below ``root``, whose ``hours`` (unix time of their begins, microseconds) are
    judged: as many nodes as have the reads that ``NODES_AT_ONCE`` have which read each second.

    By the first of them, the last and the one in the middle: memory is proportional to the reads
    of an hour, and a fleet that is read each 15 or 60 s has few.
    """
    looked = {hours[0], hours[len(hours) // 2], hours[-1]} if hours else set()
    each = [reads / len(hosts) for hosts, reads in (reads_below(root, h) for h in looked) if hosts]
    fitting = NODES_AT_ONCE * DENSE / max([*each, 1.0])
    return int(min(max(fitting, NODES_AT_ONCE), MAX_NODES))
