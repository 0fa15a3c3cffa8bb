"""Asks ports' performance agents through perfquery, a few times a minute, for counters that sysfs
lacks or that are stuck there.

It asks in a thread of its own: a perfquery that hangs never delays the reading of sysfs. It asks a
port only about itself, through that port: a question to a LID that does not answer would raise
PortRcvSwitchRelayErrors at the switch, an error we look for.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from collector.sources.infiniband.perfquery import judge, parse
from collector.sources.infiniband.sysfs_port import counter_places
from pipeline import child
from pipeline.catalog.agent import PERFQUERY_RUNS
from pipeline.clock import SECOND_NS, Clock
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.infiniband")

# between two questions of one kind to one port; symbol errors are judged over 5 minutes and more
INTERVAL_S = 60.0
PER_MINUTE = 30  # starts of perfquery: 8 ports, two sets each, and room for others
TIMEOUT_S = 5.0
STALE_INTERVALS = 3  # an answer stands that long, then it is no longer shown
MAX_PAUSE_S = 3600.0
# "Not supported" is remembered until the driver makes the port again, or this long: a
# lost packet reads the same.
UNSUPPORTED_S = 6 * 3600.0
MAX_BYTES = 1 << 16

Run = Callable[..., child.Finished]


@dataclass(frozen=True, slots=True)
class Question:
    """A port to ask about itself: its device id, RDMA device and number, and the LID
    it has now (0: unknown).

    ``wanted`` holds fields that sysfs does not give, by option of perfquery. ``epoch`` changes when
    the driver makes the port again; what was remembered about it is then forgotten.
    """

    id: str
    device: str
    port: int
    lid: int
    wanted: Mapping[str, frozenset[str]]
    epoch: str = ""


@dataclass(slots=True)
class _Memory:
    """What is known about one option of one port."""

    epoch: str
    wanted: frozenset[str] = frozenset()
    due_ns: float = 0.0
    pause_s: float = 0.0
    failure: str = ""
    answered_ns: float = 0.0
    values: Mapping[str, int] | None = None


class PerformanceAgents:
    """Answers of perfquery by port. ``ask`` lets the thread see to what is due; ``close`` ends it.

    Tests call ``ask_due`` themselves and start no thread.
    """

    def __init__(
        self,
        program: str,
        clock: Clock,
        metrics: SelfMetrics,
        *,
        interval_s: float = INTERVAL_S,
        per_minute: int = PER_MINUTE,
        timeout_s: float = TIMEOUT_S,
        run: Run = child.run,
    ) -> None:
        self._program = program
        self._clock = clock
        self._metrics = metrics
        self._interval_s, self._per_minute, self._timeout_s = interval_s, per_minute, timeout_s
        self._run = run
        self._questions: tuple[Question, ...] = ()
        self._memory: dict[tuple[str, str], _Memory] = {}
        self._starts: deque[int] = deque()
        self._missing = _Memory("")
        self._stopping = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="perfquery")
        self._asking: Future[None] | None = None

    def ask(self, questions: Sequence[Question]) -> None:
        """Replace what is to be asked, and let the thread see to what is due. Never waits.

        An error of ours in the thread is raised here, once, so that it reaches the reader's guard.
        """
        self._questions = tuple(questions)
        if self._asking is not None and self._asking.done():
            asked, self._asking = self._asking, None
            asked.result()
        if (
            self._program
            and not self._stopping
            and self._asking is None
            and self._due(self._clock.monotonic_ns())
        ):
            self._asking = self._thread.submit(self.ask_due)

    def values(self, port: str, epoch: str = "") -> dict[str, int]:
        """Counters of a port by field name, of this epoch and not older than three intervals."""
        oldest = self._clock.monotonic_ns() - STALE_INTERVALS * self._interval_s * SECOND_NS
        found: dict[str, int] = {}
        for option in counter_places().perfquery:
            memory = self._memory.get((port, option))
            if memory and memory.values and memory.epoch == epoch and memory.answered_ns >= oldest:
                found.update(memory.values)
        return found

    def failures(self) -> tuple[tuple[str, str], ...]:
        """(reason, port) of what could not be asked; the port is empty where perfquery
        itself is not to be had. A port that is not asked any more, as it is down or gone, has none.
        """
        asked = {question.id for question in self._questions}
        if self._missing.failure:
            return ((self._missing.failure, ""),) if asked else ()
        known = [(key, m) for key, m in list(self._memory.items()) if key[0] in asked]
        return tuple(
            (f"perfquery_{m.failure}", port)
            for (port, _), m in known
            if m.failure not in ("", "unsupported")
        )

    def ask_due(self) -> None:
        """Ask everything that is due, within the budget, what waits longest first."""
        for question, option in self._due(self._clock.monotonic_ns()):
            now = self._clock.monotonic_ns()
            while self._starts and now - self._starts[0] >= 60 * SECOND_NS:
                self._starts.popleft()
            if self._stopping or len(self._starts) >= self._per_minute:
                self._metrics.add(PERFQUERY_RUNS, "over_budget")
                return
            self._starts.append(now)
            self._ask(question, option)
            if self._missing.failure:
                return

    def close(self) -> None:
        """Stop asking.

        A perfquery that is running ends by its own deadline; nobody waits for it here.
        """
        self._stopping = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _due(self, now_ns: int) -> list[tuple[Question, str]]:
        if now_ns < self._missing.due_ns:
            return []
        waiting = [
            (memory.due_ns, question, option)
            for question in self._questions
            for option in question.wanted
            if (memory := self._remember(question, option)).due_ns <= now_ns
        ]
        return [
            (question, option)
            for _, question, option in sorted(waiting, key=lambda entry: entry[0])
        ]

    def _remember(self, question: Question, option: str) -> _Memory:
        memory = self._memory.get((question.id, option))
        wanted = question.wanted[option]
        if memory is None or memory.epoch != question.epoch or memory.wanted != wanted:
            memory = self._memory[question.id, option] = _Memory(question.epoch, wanted)
        return memory

    def _ask(self, question: Question, option: str) -> None:
        # where Debian and Red Hat keep it, and services do not look
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        program = shutil.which(self._program, path=path) or self._program
        argv = [program, *option.split(), "-C", question.device, "-P", str(question.port)]
        try:
            finished = self._run(argv, timeout_s=self._timeout_s, max_bytes=MAX_BYTES)
        except OSError as error:
            self._say(
                self._missing, "perfquery_missing", f"{self._program}: {error.strerror or error}"
            )
            self._put_off(self._missing, self._interval_s)
            self._metrics.add(PERFQUERY_RUNS, "missing")
            return
        self._say(self._missing, "", self._program)
        self._missing.pause_s = self._missing.due_ns = 0.0
        memory = self._remember(question, option)
        where = f"{' '.join(argv)} ({question.id})"
        outcome, values = self._judge(question, option, finished)
        self._metrics.add(PERFQUERY_RUNS, outcome)
        self._say(memory, "" if outcome == "ok" else outcome, where)
        if outcome == "ok":
            now = self._clock.monotonic_ns()
            memory.values, memory.answered_ns = values, now
            memory.pause_s, memory.due_ns = 0.0, now + self._interval_s * SECOND_NS
        elif outcome == "unsupported":
            memory.due_ns = self._clock.monotonic_ns() + UNSUPPORTED_S * SECOND_NS
        else:
            self._put_off(memory, self._interval_s)

    def _judge(
        self, question: Question, option: str, finished: child.Finished
    ) -> tuple[str, dict[str, int]]:
        if finished.timed_out or finished.returncode is None:
            return "timeout", {}
        text = finished.stdout.decode(errors="replace")
        answer = judge(finished.returncode, text)
        if answer != "ok":
            return answer, {}
        blocks = [b for b in parse(text) if b.port == question.port and question.lid in (0, b.lid)]
        if len(blocks) != 1:
            return "garbage", {}
        fields = counter_places().perfquery[option]
        wanted = question.wanted[option]
        values = {
            fields[name]: value
            for name, value in blocks[0].counters.items()
            if fields.get(name) in wanted
        }
        return ("ok", values) if values else ("unsupported", {})

    def _put_off(self, memory: _Memory, first_s: float) -> None:
        memory.pause_s = min(memory.pause_s * 2 or first_s, MAX_PAUSE_S)
        memory.due_ns = self._clock.monotonic_ns() + memory.pause_s * SECOND_NS

    @staticmethod
    def _say(memory: _Memory, failure: str, where: str) -> None:
        """One line per change of state."""
        if failure != memory.failure:
            if failure in ("", "unsupported"):
                log.info("%s: %s", where, failure or "works again")
            else:
                log.warning(
                    "%s: %s; continuing with sysfs only", where, failure.removeprefix("perfquery_")
                )
        memory.failure = failure
