"""What is remembered of each job: the latest reports of every source, the latest lines, and
hardware that failed recently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from detectors.nccl.case import Ended
from pipeline.clock import SECOND_NS
from pipeline.nccl.hit import Hit
from pipeline.nccl.member import Member
from pipeline.nccl.report import Report
from pipeline.nccl.wire import packed, unpacked_hit, unpacked_report

MAX_JOBS = 256  # of one agent a handful; of a cluster's some hundred
MAX_OVER = 256  # jobs of which it is remembered that they are over: the first leaves
MAX_HITS = 2000  # of one job
MAX_DUMPS = 16_384  # ranks of one job
MAX_HOSTS = 4096  # of one job
MAX_ENDED = 256  # processes of one job that ended one by one
MAX_PAUSES = 64  # of one job: a rank that saves does so again
USUAL = 1.5  # how much longer than the longest before a pause may last, as of detectors/hang
RAS_LOOKS = 6  # enough to see who is always behind (slow.py)
# members of a report, of which only as many looks are kept as a verdict needs: about 1 MB each
LARGE = 4000
LASTS_NS = 3600 * SECOND_NS  # evidence that was not renewed in an hour is stale
LINES_LAST_NS = 900 * SECOND_NS  # a line is of its moment
# operations of a rank: completed ones, to compare with who is behind, and unfinished ones
KEPT_DONE, KEPT_OPEN = 4, 8
KEPT_TIMINGS = 64
# lines in which PyTorch's watchdog has lost its patience (collector/sources/joblog/table.py)
GAVE_UP = frozenset({"wd_timeout", "wd_progress", "wd_stuck", "desync", "desync_never"})


@dataclass(slots=True)
class JobBook:
    """One job.

    ``looks`` are RAS reports, the oldest first; ``dumps`` and ``logs`` the latest
    of each rank or process.
    """

    looks: list[Report] = field(default_factory=list)
    others: dict[str, Report] = field(default_factory=dict)
    # with when they were read, on the detector's clock
    hits: dict[tuple[str, str], tuple[int, Hit]] = field(default_factory=dict)
    # processes that ended while others of the job ran, by host and pid
    ended: dict[tuple[str, int], Ended] = field(default_factory=dict)
    seen_ns: int = 0
    due_ns: int = 0  # when it is judged next, 0 where nothing is new
    suspected_ns: int = 0  # since when the verdict is the same, 0 where there is none
    suspicion: str = ""  # what that verdict is
    hosts: list[str] = field(default_factory=list)  # whose agents reported it
    reported: list[list[str]] = field(default_factory=list)  # host, kind, id and fault of findings
    paused: dict[str, int] = field(default_factory=dict)  # the longest that ended, ns, by suspicion

    def reports(self) -> list[Report]:
        """All that is known now."""
        return [*self.looks, *self.others.values()]

    def take(self, report: Report, now_ns: int) -> None:
        """A new report takes the place of the one before from the same rank or process."""
        self.seen_ns = now_ns
        if report.teller == "ras":
            if report.trusted:
                if self.looks and _moves(self.looks[-1], report):
                    # the job goes on: what was reported of a stall is over
                    self.others, self.hits, self.ended = {}, {}, {}
                large = sum(len(c.members) for c in report.communicators) > LARGE
                self.looks = [*self.looks, lean(report)][-2 if large else -RAS_LOOKS :]
            return
        key = (
            f"{report.teller} {report.world_rank} {report.host} {report.pid} "
            f"{report.origin if report.world_rank < 0 else ''}"
        )
        if key in self.others or len(self.others) < MAX_DUMPS:
            self.others[key] = lean(report)

    def add_line(self, hit: Hit, now_ns: int) -> None:
        """A new line. One that is read again (the log was reread) counts once."""
        self.seen_ns = now_ns
        if len(self.hits) >= MAX_HITS:
            del self.hits[next(iter(self.hits))]
        self.hits.setdefault((hit.name, hit.text), (now_ns, hit))

    def at(self, host: str) -> None:
        """An agent of this node reported the job."""
        if host not in self.hosts and len(self.hosts) < MAX_HOSTS:
            self.hosts.append(host)

    def lost(self, ended: Ended, now_ns: int) -> None:
        """A process ended."""
        self.seen_ns = now_ns
        if len(self.ended) < MAX_ENDED:
            self.ended[ended.host, ended.pid] = ended

    def restarted(self, host: str) -> None:
        """A process was found on a node. Where all of the job there had ended, it began again."""
        if any(one.last for one in self.ended.values() if one.host == host):
            self.ended = {key: one for key, one in self.ended.items() if one.host != host}

    def weight(self) -> tuple[bool, bool, int]:
        """The least is missed least."""
        return bool(self.reported), bool(self.looks), self.seen_ns

    def gave_up(self) -> bool:
        """Whether a watchdog of the job has timed out."""
        return any(hit.name in GAVE_UP for _, hit in self.hits.values())

    def is_usual(self, now_ns: int) -> bool:
        """Whether what is suspected has ended by itself before, and may again: a rank that saves
        alone keeps the others waiting like one that is stuck.
        """
        usual_ns = USUAL * self.paused.get(self.suspicion, 0)
        return 0 < now_ns - self.suspected_ns < usual_ns

    def recovers(self, now_ns: int) -> None:
        """What was suspected has ended by itself."""
        if self.suspicion and (self.suspicion in self.paused or len(self.paused) < MAX_PAUSES):
            lasted_ns = max(now_ns - self.suspected_ns, self.paused.get(self.suspicion, 0))
            self.paused[self.suspicion] = lasted_ns
        self.suspicion, self.suspected_ns = "", 0

    def forget(self, now_ns: int) -> None:
        """What is too old."""
        self.hits = {
            key: line for key, line in self.hits.items() if now_ns - line[0] < LINES_LAST_NS
        }


def _moves(before: Report, now: Report) -> bool:
    """Whether any rank has launched more."""
    counts = {(c.key, m.rank, m.pid): m.launched for c in before.communicators for m in c.members}
    return any(
        counts.get((c.key, m.rank, m.pid), m.launched) < m.launched
        for c in now.communicators
        for m in c.members
        if m.launched
    )


def lean(report: Report) -> Report:
    """A report with what a verdict can use of it: the ends of long lists."""
    communicators = (
        replace(c, members=tuple(map(_lean_member, c.members))) for c in report.communicators
    )
    return replace(
        report, communicators=tuple(communicators), discarded=(), peers=tuple(report.peers[-64:])
    )


def _lean_member(member: Member) -> Member:
    if len(member.operations) <= KEPT_DONE + KEPT_OPEN and len(member.timings) <= KEPT_TIMINGS:
        return member
    done = [o for o in member.operations if o.completed][-KEPT_DONE:]
    unfinished = [o for o in member.operations if not o.completed][:KEPT_OPEN]
    return replace(member, operations=(*done, *unfinished), timings=member.timings[-KEPT_TIMINGS:])


class JobStore:
    """All jobs. The one without a report for longest is dropped first, of those that RAS says
    nothing of and no finding is about: names of jobs cost their users nothing.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, JobBook] = {}
        self._over: dict[str, None] = {}

    def ends(self, job: str) -> None:
        """No process of it is left."""
        self._over.pop(job, None)
        if len(self._over) >= MAX_OVER:
            del self._over[next(iter(self._over))]
        self._over[job] = None

    def begins(self, job: str) -> None:
        """It has processes, or is queued again under its name."""
        self._over.pop(job, None)

    def is_over(self, job: str) -> bool:
        """Whether all of its processes have ended."""
        return job in self._over

    def of(self, job: str) -> JobBook:
        """The job's, new where it is not known."""
        if job not in self.jobs and len(self.jobs) >= MAX_JOBS:
            del self.jobs[min(self.jobs, key=lambda name: self.jobs[name].weight())]
        return self.jobs.setdefault(job, JobBook())

    def due(self, now_ns: int) -> Iterator[tuple[str, JobBook]]:
        """Jobs that are to be judged now."""
        yield from [
            (name, job) for name, job in self.jobs.items() if job.due_ns and now_ns >= job.due_ns
        ]

    def silent(self, now_ns: int) -> list[str]:
        """Jobs without a report for long."""
        return [name for name, job in self.jobs.items() if now_ns - job.seen_ns >= LASTS_NS]

    def state(self) -> State:
        """Everything."""
        jobs = {name: _document(job) for name, job in self.jobs.items()}
        return {"jobs": text_array(jobs), "over": text_array(list(self._over))}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        jobs = {
            str(name): _job(document) for name, document in from_text_array(state["jobs"]).items()
        }
        over = dict.fromkeys(str(name) for name in from_text_array(state["over"]))

        def commit() -> None:
            self.jobs, self._over = jobs, over

        return commit


def _document(job: JobBook) -> dict[str, object]:
    return {
        "looks": [packed(report) for report in job.looks],
        "others": {key: packed(report) for key, report in job.others.items()},
        "hits": [[at, packed(hit)] for at, hit in job.hits.values()],
        "ended": [list(astuple(one)) for one in job.ended.values()],
        "numbers": [job.seen_ns, job.due_ns, job.suspected_ns],
        "suspicion": job.suspicion,
        "paused": job.paused,
        "hosts": job.hosts,
        "told": job.reported,
    }


def _ended(row: Sequence[Any]) -> Ended:
    host, pid, rank, uuid, seen_ns, last = row
    return Ended(str(host), int(pid), int(rank), str(uuid), int(seen_ns), bool(last))


def _job(document: Mapping[str, Any]) -> JobBook:
    looks, others, hits, numbers, reported, ended = (
        document[n] for n in ("looks", "others", "hits", "numbers", "told", "ended")
    )
    if not (isinstance(looks, list) and isinstance(others, dict) and isinstance(hits, list)):
        raise TypeError("book: wanted lists of reports and lines")
    if not (isinstance(numbers, list) and isinstance(reported, list) and isinstance(ended, list)):
        raise TypeError("book: wanted numbers, and what was reported")
    seen, due, suspected = (int(n) for n in numbers)
    return JobBook(
        [unpacked_report(text) for text in looks],
        {str(key): unpacked_report(text) for key, text in others.items()},
        {(hit.name, hit.text): (int(at), hit) for at, text in hits if (hit := unpacked_hit(text))},
        {(one.host, one.pid): one for one in map(_ended, ended)},
        seen,
        due,
        suspected,
        str(document["suspicion"]),
        [str(host) for host in document["hosts"]],
        [[str(part) for part in row] for row in reported],
        {str(words): int(lasted_ns) for words, lasted_ns in _mapping(document["paused"]).items()},
    )


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("book: wanted pauses by suspicion")
    return value
