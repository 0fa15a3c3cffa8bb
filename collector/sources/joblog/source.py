"""Job logs as a source: follows the files that the configuration names, and gives the lines that
say something about a stall.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from collector.sources.joblog.files import job_of, live_files, root_of
from collector.sources.joblog.lines import Joiner
from collector.sources.joblog.match import hits
from collector.sources.tail import Tail
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock, instant
from pipeline.frame import Device
from pipeline.nccl.wire import line_event
from pipeline.observation import Event, Reading, Unread
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.joblog")

LOOK_NS = 30 * SECOND_NS  # between two looks for new files
CHUNK = 1 << 18  # bytes of one file at a time, so that no file keeps the others waiting
MAX_BYTES = 8 << 20  # of one read: 30 ms of work per MiB; what is left is read the next time
MAX_EVENTS = 2000  # of one read: a stall of 16 ranks on a node makes some hundred


@dataclass(slots=True)
class _Followed:
    """One file. ``trouble`` is why it cannot be read, so that this is said once."""

    tail: Tail
    job: str
    joiner: Joiner = field(default_factory=Joiner)
    trouble: str = ""


class JobLogSource:
    """Reads what was appended since the last read.

    A file that is there at the start is read from its end: what it says is of before.

    One that appears later is read from its beginning. Truncation, rotation and lines without end
    are survived (collector/sources/tail.py).
    """

    name = "joblog"

    def __init__(
        self, patterns: Sequence[str], host: str, clock: Clock, metrics: SelfMetrics
    ) -> None:
        self._patterns = tuple(patterns)
        self._node = Device(host, "node", host)
        self._clock = clock
        self._metrics = metrics
        self._files: dict[str, _Followed] = {}
        self._look_ns = 0
        self._started = False

    def read(self) -> Reading:
        """Events of the lines that became whole, and the files that could not be read."""
        now = self._clock.monotonic_ns()
        if now >= self._look_ns or not self._started:
            self._look()
            self._look_ns = now + LOOK_NS
        counts: Counter[str] = Counter()
        events: list[Event] = []
        waiting, left = list(self._files.items()), MAX_BYTES
        while waiting and left > 0:
            more = []
            for path, followed in waiting:
                size = self._take(path, followed, events, counts) if left > 0 else 0
                left -= size
                if size >= CHUNK:
                    more.append((path, followed))
            waiting = more
        for outcome, count in counts.items():
            self._metrics.add(agent.JOB_LOG_LINES, outcome, amount=count)
        troubles = Counter(
            followed.trouble for followed in self._files.values() if followed.trouble
        )
        return Reading(
            events=tuple(events), unread=tuple(Unread(f"job log: {why}") for why in troubles)
        )

    def close(self) -> None:
        """Let go of every file."""
        for followed in self._files.values():
            followed.tail.close()

    def _look(self) -> None:
        """Follow files that came, let go of those that went or fell silent."""
        live = live_files(self._patterns, self._clock.time_ns() / 1e9)
        for path in self._files.keys() - set(live):
            self._files.pop(path).tail.close()
        for path in live:
            if path not in self._files:
                root = root_of(path, self._patterns)
                # One byte: with the end of the last line the next one is known to be whole.
                tail = Tail(
                    path[len(str(root).rstrip("/")) + 1 :],
                    root=root,
                    from_the_end=1 << 62 if self._started else 1,
                )
                self._files[path] = _Followed(tail, job_of(path))
        self._metrics.set(agent.JOB_LOG_FILES, len(self._files))
        self._started = True

    def _take(
        self, path: str, followed: _Followed, events: list[Event], counts: Counter[str]
    ) -> int:
        """One piece of one file; how many bytes its lines had."""
        lost = followed.tail.lost
        try:
            lines = followed.tail.read(CHUNK)
        except OSError as error:
            self._trouble(path, followed, error.strerror or str(error))
            return 0
        self._trouble(path, followed, "")
        counts["too_long"] += followed.tail.lost - lost
        time_ns, mono_ns = instant(self._clock)
        for raw in lines:
            line = followed.joiner.add(raw.decode(errors="replace"))
            found = list(hits(line, path)) if line else []
            counts["matched" if found else "other"] += 1
            for hit in found:
                if len(events) < MAX_EVENTS:
                    events.append(line_event(hit, self._node, time_ns, mono_ns, followed.job))
                else:
                    counts["dropped"] += 1
        return sum(len(raw) + 1 for raw in lines)

    def _trouble(self, path: str, followed: _Followed, what: str) -> None:
        if what != followed.trouble:
            followed.trouble = what
            log.warning("job log %s: %s", path, what or "can be read again")
