"""Events, frames, findings and incidents of a test as a store on disk: the log that an agent
writes, not yet sealed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline.finding import Finding, Incident
from pipeline.frame import Frame
from pipeline.observation import Event, Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal
from tests.fakes import FakeClock


class StoreMaker:
    """Writes observations in the order they are given, each host's of one boot: a second maker of
    the same store needs another ``boot``.
    """

    def __init__(self, root: Path, boot: str = "boot") -> None:
        self._boot = boot
        self._log = Wal(root / "wal", FakeClock(), SelfMetrics(), fsync_s=1e9, max_bytes=1 << 40)
        self._seq: defaultdict[str, int] = defaultdict(int)

    def add(
        self,
        host: str,
        time_ns: int,
        *,
        source: str = "test",
        boot_id: str = "",
        frames: Sequence[Frame] = (),
        events: Sequence[Event] = (),
        findings: Sequence[Finding] = (),
        incidents: Sequence[Incident] = (),
    ) -> None:
        """One observation and what was judged of it."""
        self._seq[host] += 1
        seen = Observation(
            source,
            host,
            boot_id or f"{self._boot} of {host}",
            self._seq[host],
            time_ns,
            time_ns,
            0,
            tuple(frames),
            tuple(events),
        )
        self._log.write(seen, tuple(findings), tuple(incidents))

    def close(self) -> None:
        """Write what is left."""
        self._log.close()


def store_events(root: Path, events: Iterable[Event]) -> None:
    """A store of events alone."""
    maker = StoreMaker(root)
    for event in events:
        maker.add(event.device.host, event.time_ns, events=(event,))
    maker.close()
