"""Job logs as a source: follows the files that the configuration names, and gives the lines that
say something about a stall.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from collector.node.trainings import Trainings
from collector.sources.joblog.reader import LogLook, LogReader
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import NODE, Desk, LocalDesk, LookLostError
from collector.sources.tenants.job_users import JobUsers
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock, instant
from pipeline.frame import Device
from pipeline.nccl.wire import line_event
from pipeline.observation import Reading, Unread
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.joblog")

LOOK_NS = 30 * SECOND_NS  # between two looks for new files
LOOK_S = 4.0  # for one look; the source has five seconds
MAX_PLACES = 1024  # four times as many files as are followed at once
SKIP_NS = 3600 * SECOND_NS  # for a file whose look was lost


class JobLogSource:
    """Reads what was appended since the last read.

    A file that is there at the start is read from its end: what it says is of before.

    One that appears later is read from its beginning. Truncation, rotation and lines without end
    are survived (collector/sources/tail.py). ``desk`` is where a LogReader reads: in a child, or by
    default in this process. A log is of the job that its name says, where ``users`` knows that job
    as one of the log's owner.
    """

    name = "joblog"

    def __init__(
        self,
        patterns: Sequence[str],
        host: str,
        clock: Clock,
        metrics: SelfMetrics,
        *,
        desk: Desk | None = None,
        cuts: Cuts | None = None,
        users: JobUsers | None = None,
        trainings: Trainings | None = None,
    ) -> None:
        self._patterns, self._trainings = tuple(patterns), trainings or Trainings()
        self._node = Device(host, "node", host)
        self._clock = clock
        self._metrics, self._cuts = metrics, cuts or Cuts(metrics)
        self._desk, self._users = desk or LocalDesk(LogReader(patterns)), users
        self._look_ns: int | None = None
        self._places: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._skipped: dict[str, int] = {}  # paths and patterns, until when

    def read(self) -> Reading:
        """Events of the lines that became whole, and the files that could not be read."""
        if not self._patterns:
            return Reading()
        time_ns, mono_ns = instant(self._clock)
        self._skipped = {path: at for path, at in self._skipped.items() if mono_ns < at}
        try:
            look = self._look(time_ns / SECOND_NS, mono_ns)
        except LookLostError as error:
            if error.subject:
                self._skipped[error.subject] = mono_ns + SKIP_NS
            return Reading(
                unread=(Unread(f"job log: look lost: {error.reason}", field=error.subject),)
            )
        finally:
            self._desk.tend()
        self._note(look)
        jobs = {key: self._job(*key, mono_ns) for key in {(h.job, h.user) for h in look.hits}}
        events = tuple(
            line_event(each.hit, self._node, time_ns, mono_ns, jobs[each.job, each.user])
            for each in look.hits
        )
        troubles = Counter(why for _, why in look.troubles)
        return Reading(events=events, unread=tuple(Unread(f"job log: {why}") for why in troubles))

    def close(self) -> None:
        """Let go of every file."""
        self._desk.close()

    def _job(self, name: str, user: int, mono_ns: int) -> str:
        job = name if self._users is None else self._users.job_of(name, user, mono_ns / SECOND_NS)
        training = self._trainings.of_group(job)
        return job if training is None else training.id

    def _look(self, now_s: float, mono_ns: int) -> LogLook:
        """One look, by a reader that knows up to where an earlier one had read."""
        due = self._look_ns is None or mono_ns >= self._look_ns
        at_start = self._look_ns is None
        skip = tuple(self._skipped)
        if at_start:
            self._desk.ask(LogReader.begin, NODE, LOOK_S, (), at_start=True)
        look = self._desk.ask(LogReader.look, NODE, LOOK_S, now_s, skip, new_files=due)
        if look.fresh:
            places = tuple(self._places.items())
            self._desk.ask(LogReader.begin, NODE, LOOK_S, places, at_start=False)
            look = self._desk.ask(LogReader.look, NODE, LOOK_S, now_s, skip, new_files=True)
        if due:
            self._look_ns = mono_ns + LOOK_NS
        return look

    def _note(self, look: LogLook) -> None:
        """Counts, cuts, and each trouble once."""
        self._metrics.set(agent.JOB_LOG_FILES, look.files)
        for outcome, count in look.lines:
            self._metrics.add(agent.JOB_LOG_LINES, outcome, amount=count)
        self._cuts.put(self.name, "bytes", {(job, user): size for job, user, size in look.behind})
        self._cuts.put(self.name, "logs", {("", user): number for user, number in look.cut})
        for path, offset in look.places:
            self._places.pop(path, None)
            self._places[path] = offset
        while len(self._places) > MAX_PLACES:
            del self._places[next(iter(self._places))]
        troubles = dict(look.troubles)
        for path in self._troubles.keys() | troubles.keys():
            if troubles.get(path) != self._troubles.get(path):
                log.warning("job log %s: %s", path, troubles.get(path) or "can be read again")
        self._troubles = troubles
