"""The end of the boot before this one as events: XID 79 usually ends in a cold reboot,
and nobody saw it happen.
"""

from __future__ import annotations

from collections.abc import Mapping

from collector.sources.kmsg.attribution import Attribution
from collector.sources.kmsg.collapse import Collapse
from collector.sources.kmsg.joiner import Joiner
from collector.sources.kmsg.parse import parse_uuid
from collector.sources.kmsg.previous_records import PreviousRecords
from collector.sources.kmsg.records import KERNEL
from collector.sources.kmsg.to_events import Log, tell
from pipeline.clock import Instant
from pipeline.observation import Event

BATCH = 1024  # records per read: no read takes long, the end of a boot takes seconds


class PreviousBoot:
    """Tells each event of the boot before once, with its own time and ``previous_boot`` set.

    ``uuids``: PCI address to GPU of then.
    """

    def __init__(
        self,
        records: PreviousRecords,
        attribution: Attribution,
        uuids: Mapping[str, str],
        *,
        user_lines: bool,
    ) -> None:
        self._records = records
        self._attribution = attribution
        self._uuids = dict(uuids)
        self._user_lines = user_lines
        self._joiner = Joiner()
        self._log: Log | None = None  # of the last record

    @property
    def finished(self) -> bool:
        """Whether everything was reported."""
        return self._records.finished

    @property
    def done(self) -> list[str]:
        """What was read to its end, to be kept over restarts."""
        return self._records.done

    def events(self) -> list[Event]:
        """The next events; often none."""
        collapses: dict[Log, Collapse] = {}
        for origin, record in self._records.read(BATCH):
            if record.facility != KERNEL and not self._user_lines:
                continue
            if named := parse_uuid(record.text):
                self._uuids[named[0]] = named[1]
            self._log = Log(origin, record.boot_id or origin)
            if parsed := self._joiner.feed(record):
                collapses.setdefault(self._log, Collapse()).add(record, parsed)
        if self._records.finished and self._log is not None:
            for record, parsed in self._joiner.overdue(final=True):
                collapses.setdefault(self._log, Collapse()).add(record, parsed)
        return [
            tell(
                run,
                self._attribution.device_before(run.parsed.kind, run.parsed.pci, self._uuids),
                log,
                Instant(run.first.time_ns, 0),
                Instant(run.last.time_ns, 0),
                previous_boot=True,
            )
            for log, collapse in collapses.items()
            for run in collapse.runs()
        ]

    def close(self) -> None:
        """Stop reading; safe to call twice."""
        self._records.close()
