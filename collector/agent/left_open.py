"""What an earlier life left open whose memory is not taken back: nobody else can end it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from detectors.kit.snapshot import SnapshotError, read
from pipeline.clock import Clock
from pipeline.finding import Finding, Incident
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.record import CorruptError
from pipeline.store.files.segment import NewerError
from pipeline.store.files.wal import read_segment, segments

# Observations of the log after a snapshot: an hour of a node, of which the log holds a quarter. The
# log of an agent whose store is not sealed must not hold up its start.
MAX_FOLLOWED = 10_000


class LeftOpen(NamedTuple):
    """Findings and incidents that had not ended."""

    findings: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()


def left_open(snapshots: Iterable[Path], wal: Path, clock: Clock, metrics: SelfMetrics) -> LeftOpen:
    """What was open at the end of the log, by the first of these snapshots that can be read."""
    for path in snapshots:
        judge = Judge((), metrics, clock, periods_s={})
        with contextlib.suppress(OSError, SnapshotError, KeyError, ValueError):
            kept = read(path.read_bytes())
            if kept.into([judge]):
                continue
            for one in islice(logged_after(wal, kept.facts), MAX_FOLLOWED):
                judge.follow(one.findings, one.incidents)
            return LeftOpen(judge.standing(), judge.open())
    return LeftOpen()


def logged_after(wal: Path, facts: Mapping[str, str]) -> Iterator[JudgedObservation]:
    """What the write-ahead log holds of the time after a snapshot: of its boot by
    number, of a later one by time.
    """
    boot, seq, time_ns = facts["boot_id"], int(facts["seq"]), int(facts["time_ns"])
    for judged in _logged(segments(wal)):
        observation = judged.observation
        later = (
            observation.seq > seq if observation.boot_id == boot else observation.time_ns > time_ns
        )
        if later:
            yield judged


def _logged(paths: Iterable[Path]) -> Iterator[JudgedObservation]:
    for path in paths:
        with contextlib.suppress(
            CorruptError, NewerError, OSError
        ):  # sealing says so, and puts it aside
            yield from read_segment(path)
