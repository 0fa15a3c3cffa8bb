"""Frames, truth and findings of a run on disk, so that others can score again: frames
in the store's own layout.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pipeline.clock import SystemClock
from pipeline.documents import finding_document, incident_document
from pipeline.finding import Finding, Incident
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal, segments

CLUSTER = "simulated"
FSYNC_S = 3600.0  # a dump that a crash tears is made again
MAX_BYTES = 1 << 50  # nothing is dropped: a segment is sealed as soon as it is full


class Dump:
    """A folder with ``store/``, ``truth.jsonl``, and for each candidate and scope
    ``findings-*.jsonl`` and ``incidents-*.jsonl``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._wal = Wal(
            folder / "wal", SystemClock(), SelfMetrics(), fsync_s=FSYNC_S, max_bytes=MAX_BYTES
        )

    def __enter__(self) -> Self:
        return self

    def observation(self, observation: Observation) -> None:
        """Keep one observation."""
        self._wal.write(observation, ())
        if self._wal.path is None:  # a segment is full
            self._seal()

    def truth(self, lines: Iterable[str]) -> None:
        """Keep the true faults."""
        (self._folder / "truth.jsonl").write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8"
        )

    def results(
        self, name: str, findings: Sequence[Finding], incidents: Sequence[tuple[int, Incident]]
    ) -> None:
        """Keep the findings and incidents of a candidate, each update of an incident with its unix
        time in ns.
        """
        self._lines(f"findings-{name}", (finding_document(finding) for finding in findings))
        self._lines(
            f"incidents-{name}",
            ({"told_ns": at, **incident_document(incident)} for at, incident in incidents),
        )

    def _lines(self, name: str, documents: Iterable[Mapping[str, Any]]) -> None:
        lines = (json.dumps(each) + "\n" for each in documents)
        (self._folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Make the rest of the log into Parquet."""
        self._wal.close()
        self._seal()
        (self._folder / "wal").rmdir()

    def _seal(self) -> None:
        seal: Any = importlib.import_module("pipeline.store.keep.seal")  # here: it needs pyarrow
        for segment in segments(self._folder / "wal"):
            seal.seal(segment, self._folder / "store", CLUSTER)
