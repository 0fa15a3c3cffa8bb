"""Nodes that no agent read in the time of a report, because they were down all the time: they have
no rows, and would raise the availability of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from history.economics.begun_before import LOOK_BACK
from history.economics.sacct import NodeEvent
from history.meaning.node_names import same_host, short_name
from pipeline.store.query.busy import BUCKET_MS, Busy
from pipeline.store.query.canned.question import names
from pipeline.store.query.store import Store, Window

MAX_NAMES = 5  # of a note

Facts = Mapping[tuple[str, str], Mapping[str, str]]  # by host and GPU


@dataclass(slots=True)
class Unread:
    """Nodes without a reading, with the facts of their GPUs; ``notes`` name them."""

    nodes: list[Busy] = field(default_factory=list)
    facts: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def unread(
    store: Store,
    since: datetime,
    until: datetime,
    events: Iterable[NodeEvent],
    read: Collection[str],
) -> Unread:
    """Nodes that schedulers had as down or drained between two times and that are not among those
    ``read``, with the GPUs that the store knew in the ``LOOK_BACK`` before.
    """
    found, lacking = Unread(), _lacking(since, until, events, read)
    if not lacking:
        return found
    begin_ms, end_ms = (round(at.timestamp() * 1000) for at in (since, until))
    known = names(store, Window(since - LOOK_BACK, since))
    gpus: dict[str, dict[str, str]] = defaultdict(dict)
    for (host, device), facts in known.facts.items():
        if known.kinds[host, device] == "gpu":
            # of two GPUs with one index the later one replaced the other
            gpus[host][facts.get("index") or device] = device
    hosts = _by_short_name(gpus)
    counted, left_out = [], []
    for name in lacking:
        same = [host for host in hosts.get(short_name(name), ()) if same_host(name, host)]
        if len(same) != 1:
            left_out.append(name)
            continue
        (host,) = same
        own = tuple(sorted(gpus[host].values()))
        counted.append(f"{host} ({len(own)} GPUs)")
        # Its jobs ended when it went away: a restart of no length says so.
        none = np.full(((end_ms - begin_ms) // BUCKET_MS, len(own)), np.nan, np.float32)
        found.nodes.append(Busy(host, own, begin_ms, none, ((begin_ms, begin_ms),)))
        found.facts |= {(host, gpu): known.facts[host, gpu] for gpu in own}
    if counted:
        found.notes.append(
            "Nodes without a reading, counted as the accounting has them: " + some(counted)
        )
    if left_out:
        found.notes.append(
            "Nodes that the accounting has as down or drained, left out because the store knows no "
            f"GPU of them: {some(left_out)}"
        )
    return found


def _lacking(
    since: datetime, until: datetime, events: Iterable[NodeEvent], read: Collection[str]
) -> list[str]:
    begin_s, end_s = since.timestamp(), until.timestamp()
    there = {
        one.node
        for one in events
        if one.begin_s < end_s and (one.end_s is None or one.end_s > begin_s)
    }
    hosts = _by_short_name(read)
    return [
        name
        for name in sorted(there)
        if not any(same_host(name, host) for host in hosts.get(short_name(name), ()))
    ]


def _by_short_name(hosts: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        found[short_name(host)].append(host)
    return found


def some(names: Collection[str]) -> str:
    """The number of some names, and the first of them, for a note.

    >>> some(["n1", "n2"]), some([f"n{number}" for number in range(7)])
    ('2 (n1, n2)', '7 (n0, n1, n2, n3, n4, ...)')
    """
    ordered = sorted(names)
    more = ", ..." if ordered[MAX_NAMES:] else ""
    return f"{len(ordered):,} ({', '.join(ordered[:MAX_NAMES])}{more})"
