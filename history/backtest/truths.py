"""What a site knew, as faults that each count once, and which alerts are about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from history.backtest.judged import Alert, History
from history.backtest.known import EARLY_NS, Known
from history.meaning.node_names import NodeNames
from pipeline.clock import SECOND_NS

# A drain, its ticket and the reboot are one fault where they begin within a day of one another.
TOGETHER_NS = EARLY_NS
# Slurm itself writes "Node unexpectedly rebooted" of a node that crashed.
PLANNED = re.compile(
    r"maint|upgrad|updat|(?<!unexpected )(?<!unexpectedly )reboot|reimag|rebuild"
    r"|(?<!dis)(?<!des)patch|(?<!un)planned|(?<!un)schedul|resv|reserv",
    re.IGNORECASE,
)
# So many nodes within so long are a roll-out or an outage of what they share, and no fault of each.
MANY_NODES, MANY_NS = 5, 900 * SECOND_NS
REBOOT_NS = 1800 * SECOND_NS  # after a reboot the node is back: an alert later is another thing
RULES = "alert"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a node that the site knew: entries of one node that belong together, earliest
    first. ``is_planned``: work on many nodes, or announced as such.
    """

    entries: tuple[Known, ...]
    is_planned: bool

    @property
    def node(self) -> str:
        """Its node."""
        return self.entries[0].node

    @property
    def opened_ns(self) -> int:
        """When the site knew first."""
        return self.entries[0].opened_ns

    @property
    def sources(self) -> tuple[str, ...]:
        """Who said so."""
        return tuple(dict.fromkeys(one.source for one in self.entries))

    @property
    def cause(self) -> str:
        """In the site's words."""
        return "; ".join(dict.fromkeys(one.cause for one in self.entries if one.cause))

    def covers(self, alert: Alert, end_ns: int) -> bool:
        """Whether an alert may be about it: of its node, from a day before it to its end."""
        until = max(one.closed_ns or end_ns for one in self.entries)
        opened = alert.incident.opened_ns
        return (
            alert.incident.root.host == self.node and self.opened_ns - EARLY_NS <= opened <= until
        )


@dataclass(frozen=True, slots=True)
class Match:
    """A fault that was known, with the first alert about its node, None where there was none."""

    fault: Fault
    alert: Alert | None

    @property
    def lead_s(self) -> float | None:
        """How long before the site's own entry the alert was there; negative is after it."""
        if self.alert is None:
            return None
        return (self.fault.opened_ns - self.alert.incident.opened_ns) / SECOND_NS


def placed(entries: Iterable[Known], names: NodeNames) -> tuple[list[Known], list[Known]]:
    """Entries with their nodes as a history names them, and those of no node of it."""
    found, lost = [], []
    for one in entries:
        node = names.named(one.node)
        if node:
            found.append(replace(one, node=node))
        else:
            lost.append(one)
    return found, lost


def faults(entries: Iterable[Known], history: History) -> list[Fault]:
    """The faults of a history's nodes in its time, by time. What the site's own rules alerted on
    is no truth, and left out.
    """
    inside = [
        one
        for one in entries
        if one.source != RULES
        and one.node in history.nodes
        and one.opened_ns <= history.end_ns
        and (one.closed_ns or history.end_ns) >= history.begin_ns
    ]
    crowded = _crowded(inside)
    made = []
    for node in sorted({one.node for one in inside}):
        own = sorted((one for one in inside if one.node == node), key=lambda one: one.opened_ns)
        for group in _together(own):
            planned = any(PLANNED.search(one.cause) or one in crowded for one in group)
            made.append(Fault(tuple(group), planned))
    return sorted(made, key=lambda one: (one.opened_ns, one.node))


def reboots(history: History) -> list[Known]:
    """Boots that were seen, as entries; planned ones join the drain that they belong to."""
    return [
        Known(one.node, one.time_ns, one.time_ns + REBOOT_NS, "another boot", "reboot")
        for one in history.reboots
    ]


def labels(history: History) -> list[Known]:
    """Verdicts ``real`` of operators, as entries."""
    return [
        Known(one.node, one.opened_ns, one.opened_ns + 1, one.cause or "labelled real", "label")
        for one in history.verdicts.values()
        if one.verdict == "real"
    ]


def matches(known: Iterable[Fault], alerts: Sequence[Alert], end_ns: int) -> list[Match]:
    """Each fault with its first alert."""
    return [
        Match(one, next((alert for alert in alerts if one.covers(alert, end_ns)), None))
        for one in known
    ]


def is_explained(alert: Alert, known: Iterable[Fault], end_ns: int) -> bool:
    """Whether the site knew a fault, or planned work, that the alert may be about."""
    return any(one.covers(alert, end_ns) for one in known)


def _together(own: Sequence[Known]) -> Iterator[list[Known]]:
    group: list[Known] = []
    for one in own:
        is_later = not group or one.opened_ns - group[-1].opened_ns > TOGETHER_NS
        if is_later and not any(not e.closed_ns or e.closed_ns >= one.opened_ns for e in group):
            if group:
                yield group
            group = []
        group.append(one)
    if group:
        yield group


def _crowded(entries: Sequence[Known]) -> set[Known]:
    """Entries of many nodes within minutes."""
    ordered = sorted(entries, key=lambda one: one.opened_ns)
    found: set[Known] = set()
    begin = 0
    for end, one in enumerate(ordered):
        while one.opened_ns - ordered[begin].opened_ns > MANY_NS:
            begin += 1
        window = ordered[begin : end + 1]
        if len({other.node for other in window}) >= MANY_NODES:
            found.update(window)
    return found
