"""What kernel logs say of nodes, by hours: of files, which are read once, and of a Loki, which is
asked hour by hour.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from collector.node.inventory import pci_key
from collector.sources.kmsg.collapse import Run
from collector.sources.kmsg.joiner import Joiner
from collector.sources.kmsg.parse import parse_uuid
from collector.sources.kmsg.parsed_line import ParsedLine
from collector.sources.kmsg.records import Record, clean
from collector.sources.kmsg.to_events import Log, tell
from history.kernel_logs.lines import LogLine
from history.meaning.labels import LabelMap
from history.meaning.node_names import NodeNames
from history.remembered import Host
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event

MAX_KEPT = 1_000_000  # things that happened, of all files: 500 MB at most
FLOOD_NS = 10 * 10**9  # equal ones of a node so close together are one with a count
MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Happening:
    """What a log says happened on a node that ``nodes`` name, best first."""

    nodes: tuple[str, ...]
    origin: str
    record: Record
    parsed: ParsedLine


@dataclass(slots=True)
class KernelLogs:
    """All logs of a site. ``skipped`` counts what they hold beside: by reason."""

    loki: Callable[[int, int], Iterable[LogLine]] | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    uuids: dict[tuple[str, str], str] = field(default_factory=dict)  # by node as named, address
    _kept: list[Happening] = field(default_factory=list)
    _sorted: bool = True

    def add(self, lines: Iterable[LogLine]) -> None:
        """Take the lines of a file, in their order."""
        self._sorted = False
        for one in self._happenings(lines):
            if len(self._kept) < MAX_KEPT:
                self._kept.append(one)
            else:
                self.skipped[f"more than {MAX_KEPT:,} events"] += 1

    def between(self, begin_ms: int, end_ms: int) -> Iterator[Happening]:
        """What happened from ``begin_ms`` up to ``end_ms``, unix time, in order. SiteError of a
        Loki.
        """
        if not self._sorted:
            self._kept.sort(key=_time_ns)
            self._sorted = True
        first, last = (bisect_left(self._kept, ms * MS, key=_time_ns) for ms in (begin_ms, end_ms))
        found = self._kept[first:last]
        if self.loki is not None:
            found += self._happenings(self.loki(begin_ms * MS, end_ms * MS))
            found.sort(key=_time_ns)
        yield from found

    def _happenings(self, lines: Iterable[LogLine]) -> Iterator[Happening]:
        joiners: dict[tuple[str, ...], Joiner] = {}
        for line in lines:
            if line.is_foreign:
                self.skipped["in a form that is not known"] += 1
                continue
            if known := parse_uuid(line.record.text):
                self.uuids.update({(node, known[0]): known[1] for node in line.nodes})
            joiner = joiners.setdefault(line.nodes, Joiner())
            parsed = joiner.feed(line.record)
            if parsed is None:
                continue
            if line.record.time_ns <= 0:
                self.skipped["no time of day: use dmesg -T or journalctl -o short-iso"] += 1
            else:
                yield Happening(line.nodes, line.origin, line.record, parsed)


def _time_ns(one: Happening) -> int:
    return one.record.time_ns


def by_node(
    found: Iterable[Happening],
    hosts: Mapping[str, Host],
    labels: LabelMap,
    logs: KernelLogs,
    begin_ms: int = 0,
) -> dict[str, list[Event]]:
    """Events of each node of the store, in order; those of no node that has series are counted as
    skipped, from ``begin_ms`` (unix time) on: those before it were with the hour before.
    """
    names = NodeNames(hosts, labels.nodes)
    runs: dict[str, list[tuple[Happening, Run]]] = {}
    for one in found:
        host = next(filter(None, map(names.named, one.nodes)), "")
        if not host:
            about = clean(one.nodes[0]) if one.nodes else "a file that names no node"
            if one.record.time_ns >= begin_ms * MS:
                logs.skipped[f"no series of the node: {about}"] += 1
            continue
        own = runs.setdefault(host, [])
        if own and own[-1][1].parsed == one.parsed and _near(own[-1][1], one):
            own[-1][1].last = one.record
            own[-1][1].count += 1
        else:
            own.append((one, Run(one.parsed, one.record, one.record)))
    return {
        host: [_event(one, run, host, hosts[host], logs) for one, run in own]
        for host, own in runs.items()
    }


def _near(run: Run, one: Happening) -> bool:
    return one.record.time_ns - run.last.time_ns <= FLOOD_NS


def _event(one: Happening, run: Run, host: str, known: Host, logs: KernelLogs) -> Event:
    first = Instant(run.first.time_ns // MS * MS, 0)  # an import's times are milliseconds
    last = Instant(run.last.time_ns, 0)
    device = _gpu(one, host, known, logs) or Device(host, "node", host)
    return tell(run, device, Log(one.origin, ""), first, last)


def _gpu(one: Happening, host: str, known: Host, logs: KernelLogs) -> Device | None:
    """The GPU at the address; else by the UUID that the driver printed for it."""
    if not one.parsed.pci:
        return None
    pci = pci_key(one.parsed.pci)
    for gpu, its in known.gpus.items():
        if pci_key(its.attributes.get("pci_bus_id", "")) == pci:
            return Device(host, "gpu", gpu, its.attributes)
    uuid = next((logs.uuids[n, pci] for n in one.nodes if (n, pci) in logs.uuids), "")
    if uuid in known.gpus:
        return Device(host, "gpu", uuid, known.gpus[uuid].attributes)
    return Device(host, "gpu", uuid, {"pci_bus_id": one.parsed.pci}) if uuid else None
