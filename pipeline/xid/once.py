"""One XID, reported several times, counts once: by the kernel log, by NVML, in other words, and
again after a crash of the agent.

Two rules. In one log, lines are numbered: ``_Tally`` knows how many lines of a key there were up to
a number, so an event that is read again, even cut into other pieces, adds only what is new. Between
reporters (kernel log, NVML, a line that names no code) there are no common numbers: reports of the
same boot, device, code and sub-code within 2 s are one (sub-code unknown fits any).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipeline.observation import Event, Value

# the kernel prints a line and NVML delivers its event well within this;
# measured apart at most by a poll
WINDOW_NS = 2_000_000_000
# reports of one reporter this close together share an entry: bounds memory, keeps windows fair
MERGE_NS = 10_000_000_000
MAX_REPORTS = 256  # per device
MAX_TALLIES, MAX_POINTS = 256, 96


@dataclass(slots=True)
class Report:
    """What one reporter said about one code of one device; ``matched`` is how many of these others
    have said too, by reporter.
    """

    boot: str
    code: int
    sub_code: int | None
    reporter: str
    first_ns: int
    last_ns: int
    count: int
    matched: dict[str, int] = field(default_factory=dict)

    def fits(self, other: Report) -> bool:
        """Whether both may speak of the same occurrence."""
        return (
            self.code == other.code
            and self.reporter != other.reporter
            and (not self.boot or not other.boot or self.boot == other.boot)
            and (self.sub_code is None or other.sub_code is None or self.sub_code == other.sub_code)
            and self.first_ns - WINDOW_NS <= other.last_ns
            and other.first_ns <= self.last_ns + WINDOW_NS
        )

    def continues(self, other: Report) -> bool:
        """Whether this is more of the same from the same reporter, close
        enough to share an entry.
        """
        same = (self.boot, self.code, self.sub_code, self.reporter) == (
            other.boot,
            other.code,
            other.sub_code,
            other.reporter,
        )
        return same and 0 <= self.first_ns - other.first_ns <= MERGE_NS

    def take_from(self, other: Report) -> int:
        """How many of ours the other report already stands for; remembers that they are taken."""
        free = other.count - other.matched.get(self.reporter, 0)
        taken = max(0, min(self.count, free))
        other.matched[self.reporter] = other.matched.get(self.reporter, 0) + taken
        return taken


class _Tally:
    """Lines of one key in one log: how many there were up to a line number, at
    numbers where an event ended.

    Events of one key never interleave (the source collapses runs), so the tally before an event is
    that of the event before it.
    """

    def __init__(self, points: Iterable[tuple[int, int]] = ()) -> None:
        self.points: list[tuple[int, int]] = [(int(seq), int(total)) for seq, total in points]

    def new(self, first: int, last: int, count: int) -> int:
        """How many of ``count`` lines from ``first`` to ``last`` were not counted before."""
        if not self.points:
            self.points = [(first - 1, 0)]
        before = [total for seq, total in self.points if seq < first]
        if not before:
            return 0  # older than all we remember: counted long ago
        highest, total = self.points[-1][1], before[-1] + count
        self.points = sorted({**dict(self.points), last: total}.items())[-MAX_POINTS:]
        return max(0, total - highest)


class Once:
    """Tells how many lines of an XID event are news.

    State is plain data (``document``), bounded, and survives a restart.
    """

    def __init__(self, document: dict[str, Any] | None = None) -> None:
        document = document or {}
        self._reports: dict[str, deque[Report]] = {
            device: deque((Report(*row) for row in rows), maxlen=MAX_REPORTS)
            for device, rows in document.get("reports", {}).items()
        }
        self._tallies: OrderedDict[tuple[Value, ...], _Tally] = OrderedDict(
            (tuple(key), _Tally(points)) for key, points in document.get("tallies", [])
        )

    def document(self) -> dict[str, Any]:
        """The state, as JSON can hold it."""
        return {
            "reports": {
                device: [
                    [
                        r.boot,
                        r.code,
                        r.sub_code,
                        r.reporter,
                        r.first_ns,
                        r.last_ns,
                        r.count,
                        r.matched,
                    ]
                    for r in reports
                ]
                for device, reports in self._reports.items()
            },
            "tallies": [[list(key), tally.points] for key, tally in self._tallies.items()],
        }

    def new(self, event: Event, boot_id: str) -> int:
        """How many occurrences this event adds.

        ``boot_id`` is that of the observation it came in.
        """
        report = _report(event, boot_id)
        report.count = self._unread(event, report)
        reports = self._reports.setdefault(_place(event), deque(maxlen=MAX_REPORTS))
        for other in reports:
            if report.count and report.fits(other):
                report.count -= report.take_from(other)
        if report.count:
            if reports and report.continues(reports[-1]):
                reports[-1].last_ns = max(reports[-1].last_ns, report.last_ns)
                reports[-1].count += report.count
            else:
                reports.append(report)
        return report.count

    def since(self, device_id: str, start_ns: int) -> dict[int, int]:
        """Occurrences per code of a device after ``start_ns``, as far as
        the bounded memory reaches.
        """
        counts: dict[int, int] = {}
        for report in self._reports.get(device_id, ()):
            if report.last_ns > start_ns:
                counts[report.code] = counts.get(report.code, 0) + report.count
        return counts

    def forget(self, device_id: str) -> None:
        """Drop what is known of a device."""
        self._reports.pop(device_id, None)

    def _unread(self, event: Event, report: Report) -> int:
        stream, seq = event.attributes.get("stream"), event.attributes.get("seq")
        if stream is None or not isinstance(seq, int):
            return report.count
        key = (
            stream,
            _place(event),
            report.code,
            -1 if report.sub_code is None else report.sub_code,
            report.reporter,
        )
        tally = self._tallies.setdefault(key, _Tally())
        self._tallies.move_to_end(key)
        if len(self._tallies) > MAX_TALLIES:
            self._tallies.popitem(last=False)
        last = event.attributes.get("last_seq", seq)
        return tally.new(seq, last if isinstance(last, int) else seq, report.count)


def _place(event: Event) -> str:
    """The GPU's identity; that of one that nobody knows is its PCI address."""
    known = event.device.kind == "gpu"
    return event.device.id if known else f"{event.device.id} {event.attributes.get('pci', '')}"


def _report(event: Event, boot_id: str) -> Report:
    facts = event.attributes
    reporter = str(facts.get("origin", "")) + ("/inferred" if facts.get("inferred") else "")
    sub_code = facts.get("sub_code")
    last = facts.get("last_time_ns", event.time_ns)
    return Report(
        _boot(event, boot_id),
        int(facts["code"]),
        sub_code if isinstance(sub_code, int) else None,
        reporter,
        event.time_ns,
        last if isinstance(last, int) else event.time_ns,
        int(facts.get("count", 1)),
    )


def _boot(event: Event, boot_id: str) -> str:
    """The boot an event belongs to, empty where it is not known; kernel and journal spell it
    with and without dashes.
    """
    stream = str(event.attributes.get("stream", ""))
    if event.attributes.get("previous_boot"):
        boot_id = stream if len(stream) >= 32 else ""
    return boot_id.replace("-", "")
