"""What the gateway remembers, on disk: judge, hosts, open seconds and the position in the stream,
of one instant, so that they agree. A start goes on from there and reads what came since.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from detectors.kit.snapshot import Kept, Memory, Named, SnapshotError, read
from gateway.fleet import Fleet
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock
from pipeline.guard import Health
from pipeline.judge import Judge
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.layout import write_whole

log = logging.getLogger("tocsin.gateway")

FILE = Path("state", "gateway.npz")
EVERY_NS = 60 * SECOND_NS
SHARE = 20  # between two snapshots at least so many times as long as the last one held up the judge
STALE_NS = 24 * 3600 * SECOND_NS  # older memory knows nothing of what became of the devices since
CLOSE_S = 30.0


class Snapshots:
    """Keeps the memory of ``judge``, ``fleet`` and ``others``. One thread takes, which also judges;
    bytes are made and written in a thread of their own.
    """

    def __init__(
        self,
        root: Path,
        cluster: str,
        clock: Clock,
        metrics: SelfMetrics,
        *,
        judge: Judge,
        fleet: Fleet,
        others: Sequence[Named] = (),
    ) -> None:
        self._path, self._cluster, self._judge, self._fleet = root / FILE, cluster, judge, fleet
        self._memories: tuple[Named, ...] = (*judge.memories, fleet, *others)
        self._clock, self._metrics = clock, metrics
        self._due_ns = clock.monotonic_ns() + EVERY_NS
        self._writing: threading.Thread | None = None
        self._health = Health("saving a snapshot")
        for outcome in ("ok", "failed"):
            metrics.add(agent.SNAPSHOTS, outcome, amount=0)

    def resume(self, stream: str) -> int:
        """Go on from the snapshot where it is of this stream; the sequence of the message that
        comes next. 0 where there is none that fits: nobody has changed then, and the log names why.
        """
        kept, why = self._read(stream)
        if kept is None:
            for memory in self._memories:
                self._metrics.add(agent.RESTORES, memory.name, why.partition(":")[0])
            if why != "none":
                log.warning("the last hour is judged again: snapshot %s is %s", self._path, why)
            return 0
        cold = kept.into(self._memories)
        self._judge.begins_anew(cold, self._judge.standing(), self._judge.open())
        for memory in self._memories:
            outcome = "version" if memory.name in cold else "restored"
            self._metrics.add(agent.RESTORES, memory.name, outcome)
        log.info(
            "restored: snapshot of %.0f s ago, to message %s; cold: %s",
            (self._clock.time_ns() - int(kept.facts["time_ns"])) / SECOND_NS,
            kept.facts["sequence"],
            ", ".join(cold) or "none",
        )
        return int(kept.facts["sequence"]) + 1

    def take(self, stream: str, sequence: int) -> None:
        """Keep what is remembered if it is time: everything until this message is in it."""
        busy = self._writing is not None and self._writing.is_alive()
        if sequence and not busy and self._clock.monotonic_ns() >= self._due_ns:
            self._take(stream, sequence)

    def close(self, stream: str, sequence: int) -> None:
        """Keep what is remembered now, within a deadline."""
        if self._writing is not None:
            self._writing.join(CLOSE_S)
        if sequence and (self._writing is None or not self._writing.is_alive()):
            self._take(stream, sequence).join(CLOSE_S)

    def _take(self, stream: str, sequence: int) -> threading.Thread:
        began_ns = self._clock.monotonic_ns()
        facts = {
            "cluster": self._cluster,
            "stream": stream,
            "sequence": str(sequence),
            "time_ns": str(self._clock.time_ns()),
        }
        memory = Memory.of(self._memories)
        took_ns = self._clock.monotonic_ns() - began_ns
        self._due_ns = began_ns + max(EVERY_NS, SHARE * took_ns)
        self._writing = threading.Thread(
            target=self._write, args=(memory, facts), name="snapshot", daemon=True
        )
        self._writing.start()
        return self._writing

    def _write(self, memory: Memory, facts: Mapping[str, str]) -> None:
        data = memory.to_bytes(**facts)
        try:
            write_whole(self._path, lambda scratch: scratch.write_bytes(data))
        except OSError as error:
            self._metrics.add(agent.SNAPSHOTS, "failed")
            self._health.failed(str(error), self._clock.monotonic_ns())
            return
        self._health.succeeded()
        self._metrics.add(agent.SNAPSHOTS, "ok")
        self._metrics.set(agent.SNAPSHOT_BYTES, len(data))
        self._metrics.set(agent.SNAPSHOT_TIME, int(facts["time_ns"]) / SECOND_NS)

    def _read(self, stream: str) -> tuple[Kept | None, str]:
        """The snapshot, or why it is left out."""
        try:
            kept = read(self._path.read_bytes())
            cluster, made_for = kept.facts["cluster"], kept.facts["stream"]
            age_ns = self._clock.time_ns() - int(kept.facts["time_ns"])
            int(kept.facts["sequence"])
        except FileNotFoundError:
            return None, "none"
        except (OSError, SnapshotError, KeyError, ValueError) as error:
            return None, f"corrupt: {' '.join(str(error).split())}"
        if (cluster, made_for) != (self._cluster, stream):
            return None, f"foreign: of the stream made at {made_for} of cluster {cluster!r}"
        if not (kept.knows(self._fleet) and kept.knows(self._judge)):
            return None, "version: of another version of Tocsin"
        if abs(age_ns) > STALE_NS:
            return None, f"stale: {age_ns / SECOND_NS / 3600:.0f} hours old"
        return kept, ""
