"""Pages of jobs from a store with what the agents of a run would have stored of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from collector.job_page.document import document
from collector.job_page.life import life_of
from evaluation.schedulers.placed import Placed, Scheduler
from pipeline.clock import SECOND_NS, SystemClock
from pipeline.finding import Finding, Incident
from pipeline.frame import Device, Frame, frame_of
from pipeline.observation import Event, Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal
from pipeline.store.query.store import Store, Window

COLUMNS = (
    "gpu_utilization_percent",
    "tensor_activity_percent",
    "power_milliwatts",
    "power_limit_enforced_milliwatts",
)
EVERY_NS = 60 * SECOND_NS
# Parts of a page that are the same whatever the job is called; who ended it, in whose words, and
# when it was reported, is the scheduler's own.
SAME = ("phases", "throughput", "gpu_hours", "incidents", "hosts", "gpus", "seconds")


class Recorded:
    """Observations that are passed on, with events and a reading of the GPUs each minute kept."""

    def __init__(self, observations: Iterator[Observation]) -> None:
        self._observations = observations
        self.frames: list[tuple[int, str, Frame]] = []  # unix ns, host
        self.events: list[Event] = []
        self._due_ns = 0

    def __iter__(self) -> Iterator[Observation]:
        for one in self._observations:
            self.events += one.events
            for frame in one.frames:
                if frame.kind == "gpu" and one.time_ns >= self._due_ns:
                    self._due_ns = one.time_ns + EVERY_NS
                    self.frames += _by_host(frame, one.time_ns)
            yield one


def _by_host(frame: Frame, at_ns: int) -> Iterator[tuple[int, str, Frame]]:
    values = {name: frame.gauge(name).tolist() for name in COLUMNS}
    rows: dict[str, list[tuple[Device, dict[str, float]]]] = {}
    for row, device in enumerate(frame.devices):
        read = {name: values[name][row] for name in COLUMNS if np.isfinite(values[name][row])}
        rows.setdefault(device.host, []).append((device, read))
    for host, its in rows.items():
        yield at_ns, host, frame_of("gpu", its, at_ns, at_ns)


def pages(  # noqa: PLR0917 - a run in parts
    root: Path,
    recorded: Recorded,
    findings: Sequence[Finding],
    incidents: Sequence[tuple[int, Incident]],
    over: Sequence[Placed],
    scheduler: Scheduler,
) -> Mapping[str, Any]:
    """The pages of jobs that have ended, without names, by number and run."""
    hosts = sorted({host for _, host, _ in recorded.frames})
    log = Wal(root / "wal", SystemClock(), SelfMetrics(), fsync_s=1e9, max_bytes=1 << 40)
    for number, (at_ns, host, what) in enumerate(_stored(recorded, findings, incidents, hosts)):
        frames = (what,) if isinstance(what, Frame) else ()
        events = (what,) if isinstance(what, Event) else ()
        seen = Observation(
            "test", host, f"boot of {host}", number + 1, at_ns, at_ns, 0, frames, events
        )
        log.write(
            seen,
            (what,) if isinstance(what, Finding) else (),
            (what,) if isinstance(what, Incident) else (),
        )
    log.close()
    store = Store(root)
    return {f"{job.number}/{job.attempt}": _page(store, job, scheduler) for job in over}


def _stored(
    recorded: Recorded,
    findings: Iterable[Finding],
    incidents: Iterable[tuple[int, Incident]],
    hosts: Sequence[str],
) -> list[tuple[int, str, Frame | Event | Finding | Incident]]:
    rows: list[tuple[int, str, Frame | Event | Finding | Incident]] = [*recorded.frames]
    rows += [(e.time_ns, e.device.host, e) for e in recorded.events if e.device.host in hosts]
    rows += [(f.time_ns, f.device.host or hosts[0], f) for f in findings]
    rows += [(at, i.root.host or hosts[0], i) for at, i in incidents]
    return sorted(rows, key=lambda row: row[0])


def _page(store: Store, job: Placed, scheduler: Scheduler) -> Mapping[str, Any]:
    life = life_of(store, scheduler.id_of(job), Window(), job.attempt + 1)
    whole = document(life)
    by = whole["ended_by"]
    for row in whole["incidents"]:
        del row["id"]  # it is made of names
    return {
        "cause": by["cause"],
        "next_step": by["next_step"],
        "also": scheduler.neutral(life.ending.also),
        **{name: scheduler.neutral(repr(whole[name])) for name in SAME},
    }
