"""An hour of a small simulated fleet, judged as its agents do and kept as they keep it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from detectors.paging import in_service, judge_in_service
from evaluation.metrics.scope import ByHost
from evaluation.runs.run import Job, rendered
from pipeline.clock import SECOND_NS
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.seal import seal
from tests.fakes import FakeClock

STEP_S = 10.0
# The last 71 minutes of a run in which a GPU is lost after an hour and a half: drift from what was
# declared is told of after an hour. A full hour begins in it: a store has a folder for each.
FROM_S, DAYS = 3500, 0.09
PERIODS = {"nvml": STEP_S, "infiniband": STEP_S}
SETTINGS = ("--source.nvml.period", "10s", "--source.infiniband.period", "10s")


def judge(*, disabled: Collection[str] = (), calibrated: bool = False) -> Judge:
    """As an agent makes it, or a gateway that may have learnt."""
    detectors = in_service(disabled=disabled)
    return judge_in_service(SelfMetrics(), FakeClock(), PERIODS, detectors, calibrated=calibrated)


def observations(nodes: int) -> Iterator[Observation]:
    """A part of a run in which GPUs are lost, as each agent of a small fleet sees it."""
    cut, count = ByHost(), dict[str, int]()
    run = rendered(Job("F06", "nominal", 3, "dev", (), days=DAYS, nodes=nodes))
    begin_ns = run.topology.begin_ns + FROM_S * SECOND_NS
    for whole in run.observations():
        if whole.time_ns < begin_ns:
            continue
        for host, part in cut.split(whole):
            count[host] = count.get(host, 0) + 1
            yield replace(part, boot_id=f"boot of {host}", seq=count[host])


@cache
def lived(nodes: int) -> list[JudgedObservation]:
    """What the agents said."""
    judges: dict[str, Judge] = {}
    return [judges.setdefault(seen.host, judge()).judge(seen) for seen in observations(nodes)]


def keep(root: Path, judged: list[JudgedObservation], *, sealed: bool = True) -> None:
    """Write it as agents do, each into a log of its own; then seal it all into one store."""
    logs: dict[str, Wal] = {}
    for one in judged:
        host = one.observation.host
        folder = root / "wal" if not sealed else root.parent / f"wal of {host}"
        log = logs.setdefault(
            host, Wal(folder, FakeClock(), SelfMetrics(), fsync_s=1e9, max_bytes=1 << 40)
        )
        log.write(*one)
    for host, log in logs.items():
        log.close()
        for segment in segments(root.parent / f"wal of {host}") if sealed else ():
            seal(segment, root, "c")
