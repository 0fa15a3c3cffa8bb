"""The memory of the judge on disk: kept each minute and when the agent stops, taken back at the
next start, and put into the store.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from collector.agent.left_open import left_open, logged_after
from collector.agent.unfed import unfed
from collector.config.settings import Sources
from detectors.kit.snapshot import Memory, SnapshotError, read
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock
from pipeline.finding import Finding, Incident
from pipeline.guard import Guard, Health
from pipeline.judge import Judge
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.layout import write_whole

log = logging.getLogger("tocsin.agent")

EVERY_S = 60.0
SOONEST_S = 5.0  # after an incident opened, changed or ended: a crash should not tell it twice
STALE_S = 24 * 3600.0  # older memory knows nothing of what has become of the devices since
# observations between the snapshot and the end of the log: five minutes of a node
MAX_READ_AGAIN = 1000
KEPT = 60  # snapshots in the store: of each start and each day
FILE, FOLDER = "detectors.npz", "snapshots"
CLOSE_S = 5.0


class Snapshots:
    """The sink that keeps the memory of the judge that made what it is given: it is called between
    two observations, in their thread.

    What the detectors remember is copied there; bytes are made and written in a thread of their
    own. Trouble with the disk is said once and counted.
    """

    name = "snapshot"

    def __init__(self, root: Path, boot_id: str, clock: Clock, metrics: SelfMetrics) -> None:
        self._root, self._boot_id, self._clock, self._metrics = root, boot_id, clock, metrics
        self._path = root / "state" / FILE
        self._judge: Judge | None = None
        self._last: Observation | None = None
        self._kept_ns: int | None = None
        self._urgent = False
        self._epoch = self._day = ""
        self._guard = Guard(metrics, clock)
        self._health = Health("saving the detectors' state")
        # A thread that waits, not one per snapshot: starting one would wait for it, and for the
        # interpreter's lock that it then holds.
        self._waiting: queue.SimpleQueue[tuple[Memory, Mapping[str, str]]] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        for outcome in ("ok", "failed"):
            metrics.add(agent.SNAPSHOTS, outcome, amount=0)

    def follow(self, judge: Judge) -> None:
        """From now on keep this judge's memory."""
        self._judge = judge

    def restore(self, judge: Judge, sources: Sources | None = None) -> tuple[str, ...]:
        """Give a new judge the memory that was kept, brought up to date with what was logged
        after it; who stays cold. ``sources`` that are read from here on; all where it is None.
        """
        facts, outcome, cold = self._taken(judge, sources or Sources())
        for memory in judge.memories:
            self._metrics.add(
                agent.RESTORES,
                memory.name,
                outcome if memory.name not in cold or not facts else "version",
            )
        if not facts:
            if outcome != "none":
                log.warning("detectors start cold: snapshot %s is %s", self._path, outcome)
            self._end_what_stood(judge)
            return tuple(memory.name for memory in judge.memories)
        again, standing, opened = 0, judge.standing(), judge.open()
        for logged in logged_after(self._root / "wal", facts):
            judge.judge(logged.observation)
            again += 1
            if again == MAX_READ_AGAIN:
                break
        judge.begins_anew(cold, standing, opened)
        age_s = (self._clock.time_ns() - int(facts["time_ns"])) / 1e9
        log.info(
            "detectors restored: snapshot of %.0f s ago, %d observations replayed; cold: %s",
            age_s,
            again,
            ", ".join(cold) or "none",
        )
        return cold

    def write(
        self,
        observation: Observation,
        _findings: Sequence[Finding] = (),
        incidents: Sequence[Incident] = (),
    ) -> None:
        """Keep what is remembered if it is time."""
        self._last = observation
        self._urgent = self._urgent or bool(incidents)
        self._epoch = _epoch(observation) or self._epoch
        if self._due() and not self.busy:
            self._keep(observation)

    @property
    def trouble(self) -> str:
        """Why the last one could not be written; empty where it was."""
        return self._health.reason

    @property
    def busy(self) -> bool:
        """Whether it is being written."""
        return not self._idle.is_set()

    def close(self) -> None:
        """Keep what is remembered now, within a deadline."""
        if self._idle.wait(CLOSE_S) and self._last is not None:
            self._keep(self._last)
            self._idle.wait(CLOSE_S)

    def _due(self) -> bool:
        """At the first observation, each minute, and soon after incidents."""
        if self._kept_ns is None:
            return True
        return (
            self._clock.monotonic_ns() - self._kept_ns
            >= (SOONEST_S if self._urgent else EVERY_S) * SECOND_NS
        )

    def _keep(self, last: Observation) -> None:
        if self._judge is None:
            return
        self._kept_ns, self._urgent = self._clock.monotonic_ns(), False
        memory = Memory.of(self._judge.memories)
        facts = {
            "host": last.host,
            "boot_id": last.boot_id,
            "epoch": self._epoch,
            "seq": str(last.seq),
        }
        facts |= {"time_ns": str(last.time_ns), "mono_ns": str(last.mono_ns)}
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="snapshot", daemon=True)
            self._thread.start()
        self._idle.clear()
        self._waiting.put((memory, facts))

    def _run(self) -> None:
        while True:
            work = partial(self._write, *self._waiting.get())
            self._guard.call("sink", self.name, work)
            del work  # with the copy of all memory, which is 0.6 MiB
            self._idle.set()

    def _write(self, memory: Memory, facts: Mapping[str, str]) -> None:
        data = memory.to_bytes(**facts)
        day = datetime.fromtimestamp(int(facts["time_ns"]) / 1e9, UTC).date().isoformat()
        try:
            write_whole(self._path, lambda scratch: scratch.write_bytes(data))
            if day != self._day:
                self._store(data, day, facts)
                self._day = day
        except OSError as error:
            self._metrics.add(agent.SNAPSHOTS, "failed")
            self._health.failed(str(error), self._clock.time_ns())
            return
        self._health.succeeded()
        self._metrics.add(agent.SNAPSHOTS, "ok")
        self._metrics.set(agent.SNAPSHOT_BYTES, len(data))
        self._metrics.set(agent.SNAPSHOT_TIME, int(facts["time_ns"]) / 1e9)

    def _store(self, data: bytes, day: str, facts: Mapping[str, str]) -> None:
        """The first of a start and of each day: what a replay of the
        readings after it begins with.
        """
        path = (
            self._root
            / FOLDER
            / f"date={day}"
            / f"{facts['host']}-{facts['boot_id'] or 'boot'}-{facts['seq']}.npz"
        )
        write_whole(path, lambda scratch: scratch.write_bytes(data))
        for old in self._stored()[:-KEPT]:
            old.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                old.parent.rmdir()

    def _stored(self) -> list[Path]:
        """Those in the store, the oldest first."""
        found = (self._root / FOLDER).glob("date=*/*.npz")
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)

    def _end_what_stood(self, judge: Judge) -> None:
        """With the next observation: a judge that starts cold could never end it."""
        newest_first = [self._path]
        with contextlib.suppress(OSError):
            newest_first += reversed(self._stored())
        before = left_open(newest_first, self._root / "wal", self._clock, self._metrics)
        detectors = {finding.detector for finding in before.findings}
        everybody = {memory.name for memory in judge.memories} | detectors
        judge.begins_anew(everybody, before.findings, before.incidents)

    def _taken(
        self, judge: Judge, sources: Sources
    ) -> tuple[Mapping[str, str], str, tuple[str, ...]]:
        """(facts, outcome, who stays cold); without facts nobody was restored,
        and the outcome says why.
        """
        try:
            kept = read(self._path.read_bytes())
            facts = kept.facts
            age_s = (self._clock.time_ns() - int(facts["time_ns"])) / 1e9
            int(facts["seq"])
            if abs(age_s) > STALE_S:
                return {}, "stale", ()
            outcome = "restored" if facts["boot_id"] == self._boot_id else "rebooted"
            cold = kept.into([judge])
            ends = unfed(sources, judge.standing())
            rest = [memory for memory in judge.memories[1:] if memory.name not in ends]
            return facts, outcome, (*cold, *kept.into(rest), *ends)
        except FileNotFoundError:
            return {}, "none", ()
        except (OSError, SnapshotError, KeyError, ValueError):
            return {}, "corrupt", ()


def _epoch(observation: Observation) -> str:
    """The driver's load, as the GPUs' attributes tell it; empty where this reading has none."""
    epochs = {
        d.attributes.get("epoch", "")
        for f in observation.frames
        if f.kind == "gpu"
        for d in f.devices
    }
    return ",".join(sorted(epochs - {""}))
