"""What is read of job logs: the methods that run in a child (``reader``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from collector.sources.joblog.files import (
    Left,
    LiveFile,
    LiveFiles,
    below_root,
    job_of,
    tenant_of,
)
from collector.sources.joblog.lines import Joiner
from collector.sources.joblog.match import hits
from collector.sources.tail import Tail
from collector.sources.tenants.desk import Mark
from collector.sources.tenants.shares import fair
from pipeline.nccl.hit import Hit

CHUNK = 1 << 18  # bytes of one file at a time, so that no file keeps the others waiting
MAX_BYTES = 8 << 20  # of one read: 30 ms of work per MiB; what is left is read the next time
MAX_EVENTS = (
    2000  # of one read, in shares of the tenants: a stall of 16 ranks on a node makes some hundred
)
ALL = 1 << 62


@dataclass(frozen=True, slots=True)
class JobHit:
    """A line that matters, the job that its log is called after, and the user whose log it is."""

    job: str
    user: int
    hit: Hit


@dataclass(frozen=True, slots=True)
class LogLook:
    """One look at all files. ``fresh``: this reader knows no file yet, and has read nothing.

    ``lines`` are counts by outcome, ``troubles`` why files cannot be read, by path, ``places`` up
    to where each file that has grown was read, ``behind`` the bytes that were left, by job and
    user, and ``cut`` how many files of each user are not followed.
    """

    fresh: bool = False
    hits: tuple[JobHit, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()
    files: int = 0
    troubles: tuple[tuple[str, str], ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    behind: tuple[tuple[str, str, int], ...] = ()
    cut: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class _Followed:
    """One file of a user. ``trouble`` is why it cannot be read, ``reported`` the last place."""

    tail: Tail
    job: str
    user: int
    joiner: Joiner = field(default_factory=Joiner)
    trouble: str = ""
    reported: int = -1

    @property
    def tenant(self) -> str:
        return f"user{self.user}"


class LogReader:
    """Follows the files that ``patterns`` name."""

    def __init__(
        self,
        patterns: Sequence[str],
        mark: Mark = lambda subject, tenant: None,  # noqa: ARG005 - nobody is blamed
    ) -> None:
        self._patterns, self._mark = tuple(patterns), mark
        self._live = LiveFiles(patterns, mark)
        self._files: dict[str, _Followed] = {}
        self._begun = self._started = False

    def begin(self, places: tuple[tuple[str, int], ...], *, at_start: bool) -> None:
        """Go on where an earlier reader was. ``at_start`` of the agent what is there already is
        of before, and not read.
        """
        self._begun, self._started = True, not at_start
        for path, offset in places:
            self._follow(LiveFile(path, -1), from_the_end=ALL).tail.resume(offset)

    def look(self, now_s: float, skip: tuple[str, ...], *, new_files: bool) -> LogLook:
        """What was appended since the last look; ``new_files`` are looked for. ``now_s`` is unix
        time. Paths and patterns in ``skip`` are left alone.
        """
        if not self._begun:
            return LogLook(fresh=True)
        if new_files:
            self._find(now_s, frozenset(skip))
        found: dict[str, list[JobHit]] = {}  # by tenant
        counts: Counter[str] = Counter()
        grown: dict[str, int] = {}
        left = MAX_BYTES
        for path, followed in self._turns(skip):
            size = self._take(path, followed, found, counts)
            left -= size
            if followed.tail.offset != followed.reported:
                grown[path] = followed.reported = followed.tail.offset
            if left <= 0:
                break
        behind: Counter[tuple[str, str]] = Counter()
        for followed in self._files.values():
            behind[followed.job, followed.tenant] += followed.tail.behind
        all_hits = [(tenant, hit) for tenant, its in found.items() for hit in its]
        kept, dropped = fair(all_hits, lambda one: one[0], MAX_EVENTS)
        counts["dropped"] += len(dropped)
        return LogLook(
            hits=tuple(hit for _, hit in kept),
            lines=tuple(counts.items()),
            files=len(self._files),
            troubles=tuple((p, f.trouble) for p, f in self._files.items() if f.trouble),
            places=tuple(grown.items()),
            cut=tuple((f"user{user}", number) for user, number in self._live.cut.items()),
            behind=tuple((job, user, size) for (job, user), size in behind.items() if size),
        )

    def close(self) -> None:
        """Let go of every file."""
        for followed in self._files.values():
            followed.tail.close()
        self._files.clear()

    def _turns(self, skip: Sequence[str]) -> Iterator[tuple[str, _Followed]]:
        """Files, each as often as it has more to read: in rounds of one file of each
        tenant.
        """
        queues: dict[str, list[tuple[str, _Followed]]] = {}
        for path, followed in self._files.items():
            if path not in skip:
                queues.setdefault(tenant_of(path, followed.user), []).append((path, followed))
        while queues:
            for tenant, queue in list(queues.items()):
                path, followed = queue.pop(0)
                before = followed.tail.offset
                yield path, followed
                if followed.tail.offset - before >= CHUNK:
                    queue.append((path, followed))
                if not queue:
                    del queues[tenant]

    def _find(self, now_s: float, skip: frozenset[str]) -> None:
        """Follow files that came, let go of those that went or fell silent."""
        at_start = not self._started
        live = {file.path: file for file in self._live.look(now_s, skip, at_start=at_start)}
        for path in self._files.keys() - live.keys():
            tail = self._files.pop(path).tail
            if path not in self._live.gone:
                self._live.leave(path, Left(tail.inode, tail.offset))
            tail.close()
        for path, file in live.items():
            if path not in self._files:
                # One byte: with the end of the last line the next one is known to be whole.
                followed = self._follow(file, from_the_end=1 if at_start else ALL)
                if (left := self._live.left.pop(path, None)) and not at_start:
                    followed.tail.resume(left.offset)
        self._started = True

    def _follow(self, file: LiveFile, *, from_the_end: int) -> _Followed:
        name, root = below_root(file.path, self._patterns)
        tail = Tail(name, root=root, from_the_end=from_the_end)
        self._files[file.path] = followed = _Followed(tail, job_of(file.path), file.user)
        return followed

    def _take(
        self,
        path: str,
        followed: _Followed,
        found: dict[str, list[JobHit]],
        counts: Counter[str],
    ) -> int:
        """One piece of one file; how many bytes its lines had."""
        self._mark(path, followed.tenant)
        lost = followed.tail.lost
        try:
            lines = followed.tail.read(CHUNK)
        except OSError as error:
            followed.trouble = error.strerror or str(error)
            return 0
        followed.trouble = ""
        followed.user = followed.tail.user  # by its path a folder's link may lead to another's
        counts["too_long"] += followed.tail.lost - lost
        mine = found.setdefault(tenant_of(path, followed.user), [])
        for raw in lines:
            line = followed.joiner.add(raw.decode(errors="replace"))
            seen = list(hits(line, path)) if line else []
            counts["matched" if seen else "other"] += 1
            for hit in seen:
                if len(mine) < MAX_EVENTS:
                    mine.append(JobHit(followed.job, followed.user, hit))
                else:
                    counts["dropped"] += 1
        return sum(len(raw) + 1 for raw in lines)


def reader(mark: Mark, *patterns: str) -> LogReader:
    """The reader of a child."""
    return LogReader(patterns, mark)
