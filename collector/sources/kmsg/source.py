"""The kernel log as a source: reads within a budget, joins and collapses lines, and says of
which device they speak.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.node.trainings import Trainings
from collector.sources.kmsg.attribution import Attribution
from collector.sources.kmsg.bookmark import Bookmark
from collector.sources.kmsg.collapse import Collapse, Run
from collector.sources.kmsg.device_reader import open_device
from collector.sources.kmsg.file_reader import MAX_LINE
from collector.sources.kmsg.joiner import Joiner
from collector.sources.kmsg.kernel_time import KernelTime, saved_time
from collector.sources.kmsg.opening import KMSG, SYSLOG_FILES, Opening, is_own_log
from collector.sources.kmsg.parse import parse_text, parse_uuid
from collector.sources.kmsg.previous_boot import PreviousBoot
from collector.sources.kmsg.previous_records import PSTORE, PreviousRecords
from collector.sources.kmsg.reader import Loss, Reader, UnavailableError
from collector.sources.kmsg.records import KERNEL, Record
from collector.sources.kmsg.to_events import Log, tell, tell_losses
from collector.sources.kmsg.untrusted_lines import SYSLOG, doubted
from collector.sources.kmsg.victim import OF_A_GROUP, of_training
from pipeline.catalog import agent
from pipeline.clock import Clock, Instant, instant
from pipeline.frame import Device
from pipeline.observation import Event, Reading, Unread
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.kmsg")

BATCH = 512
FORMAT = "in a format that is not understood"
MAX_SHOWN = 120  # characters of a line in a message
# of one read, a quarter of its period: what is left waits in the kernel's ring
BUDGET_NS = 250_000_000
MAX_RECORDS = 200_000  # of one read, whatever the clock says
# how long a record may take to its reader
SLACK_NS = {"kmsg": 0, "journal": 5_000_000_000, "file": 5_000_000_000, SYSLOG: 5_000_000_000}
FILES = ("file", SYSLOG)


class KernelLogSource:
    """Events from the kernel log, and once per boot from what is left of the boot before.

    ``user_lines`` also believes lines that user space wrote into the log (tests: only the kernel
    can write its own). ``saved``: the path is a finished log, to be read once and as it stands.
    ``awaits_gpus_ns``: an agent that has never read a GPU lets the log wait for so long, so that
    the lines of its first boot name the GPUs of their addresses. ``real``: the log is this
    machine's own, so its journal may stand in and its last boot is of interest; by default when
    the path is /dev/kmsg or that device. ``device`` opens what is no regular file.
    """

    name = "kmsg"

    def __init__(  # noqa: PLR0917 - the world comes in by constructor
        self,
        host: str,
        clock: Clock,
        boot_id: str,
        inventory: Inventory,
        state: State,
        metrics: SelfMetrics,
        *,
        path: Path = KMSG,
        user_lines: bool = False,
        saved: bool = False,
        awaits_gpus_ns: int = 0,
        real: bool | None = None,
        journalctl: str = "journalctl",
        files: Sequence[Path] = SYSLOG_FILES,
        pstore: Sequence[Path] = PSTORE,
        device: Callable[[Path], int] = open_device,
        trainings: Trainings | None = None,
    ) -> None:
        real = is_own_log(path) if real is None else real
        self._trainings = trainings or Trainings()
        self._boot_id = boot_id.replace("-", "")
        self._clock = clock
        self._metrics = metrics
        self._user_lines = user_lines
        self._saved = path if saved else None
        self._unread: list[Unread] = []
        self._format_shown = False  # the first line in an unknown format was logged
        # lines of programs in a saved log that look like events: how many, and the first
        self._imitations: tuple[int, Record] = (0, Record(""))
        self._newest = -1  # kernel time of the newest record so far
        self._node = Device(host, "node", host)
        self._began = self._now()
        self._inventory, self._awaits_gpus_ns = inventory, 0 if saved else awaits_gpus_ns
        self._bookmark = Bookmark(state)
        place = self._bookmark.saved
        self._places: dict[str, Any] = dict(place.get("places", {}))
        self._reached: dict[str, Any] = {
            "mode": place.get("mode", ""),
            "time_ns": place.get("time_ns", 0),
        }
        self._done: list[str] = place.get("previous", [])
        same_boot = place.get("boot_id") == self._boot_id
        uuids = place.get("uuids", {})
        self._attribution = Attribution(host, inventory, uuids if same_boot else {})
        self._joiner = Joiner(place.get("held") if same_boot else {})
        self._opening = Opening(
            self._boot_id,
            clock,
            path,
            saved=saved,
            stand_in=real,
            journalctl=journalctl,
            files=files,
            device=device,
        )
        self._previous: PreviousBoot | None = None
        if real:
            known = {
                **self._places.get(self._reached["mode"], {}),
                "time_ns": self._reached["time_ns"],
            }
            records = PreviousRecords(
                self._boot_id, clock, known, self._done, journalctl=journalctl, pstore=pstore
            )
            self._previous = PreviousBoot(
                records, self._attribution, {} if same_boot else uuids, user_lines=user_lines
            )
        self._reader: Reader | None = None
        self._kernel_time = KernelTime()
        self._first_look = False  # nobody has read this log before the agent came
        self._drained_ns = 0  # monotonic time of the last read that reached the end of the log

    def read(self) -> Reading:
        """What the log says since the last read.

        UnavailableError where there is no log to be had.
        """
        now = self._now()
        if self._awaits_gpus(now):
            return Reading()
        self._bookmark.save_due(now.mono_ns)
        events = self._before()
        try:
            events += self._current(self._reader or self._open())
        except UnavailableError:
            self._give_up_reader()
            if not events:
                raise
        self._bookmark.set(self._place(), now.mono_ns)
        unread, self._unread = tuple(self._unread), []
        return Reading(events=tuple(events), unread=unread)

    def _awaits_gpus(self, now: Instant) -> bool:
        """Until the first GPU is known, or it took too long: then none may come. What the log has
        stays there meanwhile.
        """
        waited_ns = now.mono_ns - self._began.mono_ns
        if self._inventory.devices("gpu") or waited_ns >= self._awaits_gpus_ns:
            self._awaits_gpus_ns = 0
        return self._awaits_gpus_ns > 0

    def close(self) -> None:
        """Keep the exact place and let go of everything."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._previous is not None:
            self._previous.close()
        self._bookmark.close()

    def _now(self) -> Instant:
        return instant(self._clock)

    def _open(self) -> Reader:
        reader = self._reader = self._opening.open(self._places)
        self._first_look = (
            self._saved is None and self._places.get(reader.mode, {}).get("stream") != reader.stream
        )
        self._drained_ns = 0
        self._kernel_time = KernelTime()
        self._metrics.replace(agent.KERNEL_LOG_MODE, {(reader.mode,): 1.0})
        if reader.mode == SYSLOG:
            log.warning(
                "the kernel log is read from a file of the syslog daemon, which programs can write "
                "to: its lines about hardware raise no finding; give the agent /dev/kmsg"
            )
        return reader

    def _give_up_reader(self) -> None:
        if self._reader is not None:
            self._opening.failed(self._reader.mode, self._places)
            self._reader.close()
            self._reader = None
        self._metrics.replace(agent.KERNEL_LOG_MODE, {("none",): 1.0})

    def _place(self) -> dict[str, Any]:
        """All that a restart needs, as plain data."""
        held = {key: list(value) for key, value in self._joiner.held.items()}
        places, uuids, done = dict(self._places), dict(self._attribution.uuids), list(self._done)
        return {
            "boot_id": self._boot_id,
            "places": places,
            "held": held,
            "uuids": uuids,
            "previous": done,
            **self._reached,
        }

    def _before(self) -> list[Event]:
        """Events of the previous boot, until all are reported."""
        if self._previous is None:
            return []
        events = self._previous.events()
        self._done = self._previous.done
        if self._previous.finished:
            self._previous.close()
            self._previous = None
        return events

    def _current(self, reader: Reader) -> list[Event]:
        """Events of this boot: what can be read now, within the budget."""
        collapse = Collapse()
        began_ns = self._clock.monotonic_ns()
        stream, records, ended = reader.stream, 0, False
        while not ended and (self._saved is not None or self._within(records, began_ns)):
            batch = reader.read(BATCH)
            stream = reader.stream
            for record in batch:
                self._take(record, collapse)
            records += len(batch)
            ended = not batch
        for record, parsed in self._joiner.overdue(final=self._saved is not None) if ended else ():
            collapse.add(record, parsed)
        self._metrics.add(agent.KERNEL_LOG_RECORDS, amount=records)
        self._report_imitations()
        self._places[reader.mode] = reader.position()
        now = self._now()
        where = Log(reader.mode, stream)
        events = [self._event(run, where, now) for run in collapse.runs()]
        losses = reader.losses()
        events += tell_losses(losses, self._node, where, now)
        self._unread += [self._not_understood(loss, records) for loss in losses if loss.example]
        if self._saved is not None:
            long = sum(loss.records for loss in losses if loss.reason == "oversize")
            self._unread += (
                [Unread(f"{long} lines are longer than {MAX_LINE} bytes")] if long else []
            )
        for reason, count in [
            *((loss.reason, loss.records) for loss in losses),
            *_suppressed(events),
        ]:
            self._metrics.add(agent.KERNEL_LOG_LOST, reason, amount=count)
        for kind, count in collapse.dropped.items():
            self._metrics.add(agent.KERNEL_LOG_DROPPED, kind, amount=count)
            if self._saved is not None:
                self._unread.append(Unread(f"{count} events left out: too many kinds of {kind}"))
        self._drained_ns = now.mono_ns if ended else self._drained_ns
        self._reached = {
            "mode": reader.mode,
            "time_ns": max((e.time_ns for e in events), default=self._reached["time_ns"]),
        }
        return events

    def _within(self, records: int, began_ns: int) -> bool:
        """Whether the read may go on: the rest of a saved log would never be read, but the rest of
        this machine's waits.
        """
        return records < MAX_RECORDS and self._clock.monotonic_ns() - began_ns < BUDGET_NS

    def _take(self, record: Record, collapse: Collapse) -> None:
        self._newest = max(self._newest, record.usec)
        if record.facility != KERNEL and not self._user_lines:
            self._not_believed(record)
            return
        if named := parse_uuid(record.text):
            self._attribution.learn(*named)
        if parsed := self._joiner.feed(record):
            collapse.add(record, parsed)

    def _not_understood(self, loss: Loss, records: int) -> Unread:
        """What is reported of lines in an unknown format.

        The words of a log that grows belong into no label of a metric: the first line is logged.
        """
        lines = "1 line is" if loss.records == 1 else f"{loss.records} lines are"
        reason = f"{lines} {FORMAT} ({records} records were read); {loss.example}"
        if self._saved is not None:
            return Unread(reason)
        if not self._format_shown:
            self._format_shown = True
            log.warning("%s; further ones are only counted", reason)
        return Unread(f"lines are {FORMAT}")

    def _not_believed(self, record: Record) -> None:
        """Count the line of a program; in a saved log, those that look like events are reported."""
        self._metrics.add(agent.KERNEL_LOG_PROGRAM_RECORDS)
        if self._saved is not None and parse_text(record.text):
            count, first = self._imitations
            self._imitations = (count + 1, first if count else record)

    def _report_imitations(self) -> None:
        (count, first), self._imitations = self._imitations, (0, Record(""))
        if count:
            log.warning(
                "%s: lines that programs wrote, not the kernel, give no event: %d look like one, "
                "the first (facility %d): %r",
                self._saved,
                count,
                first.facility,
                first.text[:MAX_SHOWN],
            )

    def _event(self, run: Run, log: Log, now: Instant) -> Event:
        first, last = (self._when(record, log.origin, now) for record in (run.first, run.last))
        parsed = run.parsed
        device = self._attribution.device(
            parsed.kind, parsed.pci, str(parsed.facts.get("interface", ""))
        )
        early = (
            first.mono_ns < self._began.mono_ns
            if first.mono_ns
            else first.time_ns < self._began.time_ns
        )
        event = tell(run, device, log, first, last, before_start=self._first_look and early)
        if parsed.kind in OF_A_GROUP:
            job = of_training(event.attributes, self._trainings)
            event = replace(event, attributes={**event.attributes, **job})
        return doubted(event) if log.origin == SYSLOG else event

    def _when(self, record: Record, mode: str, now: Instant) -> Instant:
        """The time of a record on our clocks; now where it has none.

        A saved log's newest line was printed when it was written.
        """
        if record.time_ns and (record.usec < 0 or mode in FILES):
            return Instant(record.time_ns, 0)
        if record.usec < 0:
            return now
        if self._saved is not None and mode == "file":
            return Instant(saved_time(record.usec, self._newest, self._saved.stat().st_mtime_ns), 0)
        mono_ns = self._kernel_time.monotonic(
            record.usec, max(0, self._drained_ns - SLACK_NS[mode]), now.mono_ns
        )
        return Instant(now.time_ns - now.mono_ns + mono_ns, mono_ns)


def _suppressed(events: Sequence[Event]) -> list[tuple[str, int]]:
    """What the kernel says it held back, as losses."""
    suppressed = [event.attributes for event in events if event.kind == "kernel_log_suppressed"]
    return [
        ("suppressed", int(facts["records"]) * int(facts.get("count", 1))) for facts in suppressed
    ]
