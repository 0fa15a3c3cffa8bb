"""The source of jobs: reads the allocations of all providers; a frame of allocations, events of
changes.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from collector.node.gpu_processes import NO_INSTANCE, GpuProcesses, ProcessesByGpu
from collector.node.inventory import Inventory
from collector.node.job_processes import JobProcesses
from collector.node.kept_jobs import KeptJobs
from collector.node.pods_by_gpu import Pod, PodsByGpu
from collector.node.trainings import Trainings
from collector.sources.jobs.allocation import (
    EVIDENCE,
    Allocation,
    Scheduler,
    clean,
    identity_of,
    merged,
)
from collector.sources.jobs.gpus import Gpus
from collector.sources.jobs.job_tracker import JobTracker
from collector.sources.jobs.pods_of_trainings import in_trainings
from collector.sources.jobs.providers import AllocationProvider, KubeletProvider
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.shares import fair
from pipeline.catalog import agent
from pipeline.catalog.device_job import KIND
from pipeline.clock import Clock, instant
from pipeline.frame import Device, frame_of
from pipeline.observation import Reading, Unread
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.jobs")

# Rows of one node: 16 GPUs in 7 instances, each shared by two. Beyond it
# attribution is cut in equal shares of tenants, and the reading reports that.
MAX_HOLDINGS = 256
BLIND = "cannot be asked"


class JobsSource:
    """Reads ``providers``.

    ``hidden`` are facts that must not be seen: they are left out here, before anything is shown or
    stored.

    A provider that does not answer reports nothing: its earlier answer is not repeated, for it may
    no longer be true. ``trainings`` is None where no source learns them.
    """

    name = "jobs"

    def __init__(
        self,
        providers: Sequence[AllocationProvider],
        host: str,
        clock: Clock,
        metrics: SelfMetrics,
        *,
        holders: GpuProcesses,
        inventory: Inventory,
        hidden: Iterable[str] = (),
        pods: PodsByGpu | None = None,
        trainings: Trainings | None = None,
        running: JobProcesses | None = None,
        kept: KeptJobs | None = None,
        cuts: Cuts | None = None,
    ) -> None:
        self._providers, self._holders, self._inventory = tuple(providers), holders, inventory
        self._host, self._clock, self._metrics, self._hidden = host, clock, metrics, tuple(hidden)
        self._cuts = cuts or Cuts(metrics)
        self._up: dict[str, bool] = {}
        self._devices: tuple[Device, ...] = ()
        self._tracker, self._pods = JobTracker(host, kept), pods or PodsByGpu()
        self._trainings, self._running = trainings, running or JobProcesses()

    def read(self) -> Reading:
        """Current allocations. Never raises for a provider's failure."""
        now = instant(self._clock)
        processes = self._holders.look()
        known = processes.gpus or self._inventory.devices("gpu")
        gpus = Gpus(known, processes.instances, processes.others)
        unread: list[Unread] = []
        answers = [
            holding
            for provider in self._providers
            for holding in self._ask(provider, gpus, processes, unread)
        ]
        if self._trainings is not None:
            answers = in_trainings(answers, self._trainings)
        every = merged(replace(h, facts=clean(h.facts, self._hidden)) for h in answers)
        self._pods.learn(_pods(every))
        every.sort(key=lambda h: gpus.index.get(h.uuid, "").zfill(4))
        holdings = self._within(every, unread)
        self._running.learn(_running(holdings, every, processes), _tenants(holdings))
        rows = [
            (self._device(h, gpus), {"processes": n})
            for h, n in _counted(holdings, every, processes)
        ]
        frame = frame_of(KIND, rows, *now)
        if _same(frame.devices, self._devices):
            frame = replace(frame, devices=self._devices)
        self._devices = frame.devices
        blind = {_scheduler(u.field) for u in unread if u.reason == BLIND}
        # All: a GPU that jobs share is not that of the one whose row is shown.
        events = self._tracker.update(every, now, blind=blind, unnamed=self._unnamed(every))
        return Reading((frame,), tuple(events), tuple(unread))

    def close(self) -> None:
        """Close the providers that have something to close."""
        for provider in self._providers:
            if callable(close := getattr(provider, "close", None)):
                close()

    def _within(self, every: Sequence[Allocation], unread: list[Unread]) -> list[Allocation]:
        """As many as may be shown, in their order: of each tenant the surest first, for a claim
        takes no place of what is known.
        """
        surest = sorted(every, key=lambda h: -EVIDENCE.index(h.evidence))
        kept, cut = fair(surest, attrgetter("tenant"), MAX_HOLDINGS)
        if cut:
            unread.append(Unread("too many jobs", field=f"{len(cut)} more"))
        self._cuts.put(self.name, "jobs", Counter((h.facts.get("job", ""), h.tenant) for h in cut))
        shown = {h.identity for h in kept}
        return [h for h in every if h.identity in shown]

    def _unnamed(self, holdings: Iterable[Allocation]) -> set[str]:
        """GPUs of pods before the API server has said which pods are of trainings."""
        if self._trainings is None or self._trainings.learned:
            return set()
        return {h.uuid for h in holdings if h.scheduler == "kubernetes" and "job" not in h.facts}

    def _ask(
        self,
        provider: AllocationProvider,
        gpus: Gpus,
        processes: ProcessesByGpu,
        unread: list[Unread],
    ) -> list[Allocation]:
        try:
            if not provider.there():
                return []
            found = list(provider.holdings(gpus, processes))
        except OSError as error:
            self._note_answer(provider.name, up=False, why=str(error))
            unread.append(Unread(BLIND, field=provider.name))
            return []
        self._note_answer(provider.name, up=True)
        unread += provider.unread
        return found

    def _note_answer(self, name: str, *, up: bool, why: str = "") -> None:
        if self._up.get(name, True) != up:
            if up:
                log.info("%s answers again: job attribution resumed", name)
            else:
                log.warning(
                    "no job attribution: %s does not answer (%s); metrics go on without its jobs",
                    name,
                    why,
                )
        self._up[name] = up
        self._metrics.set(agent.JOBS_TELLER_UP, float(up), name)

    def _device(self, holding: Allocation, gpus: Gpus) -> Device:
        place = {
            "index": gpus.index.get(holding.uuid, ""),
            "uuid": holding.uuid,
            "gpu_instance": holding.instance,
        }
        facts = {
            **place,
            "scheduler": holding.scheduler,
            **holding.facts,
            "evidence": holding.evidence,
        }
        return Device(
            self._host,
            KIND,
            identity_of(holding),
            {name: value for name, value in facts.items() if value},
        )


def _scheduler(provider: str) -> Scheduler:
    """Whose jobs a provider knows."""
    return "kubernetes" if provider == KubeletProvider.name else "slurm"


def _pods(holdings: Iterable[Allocation]) -> Iterator[tuple[str, Pod]]:
    for one in holdings:
        if one.scheduler == "kubernetes":
            yield one.uuid, Pod(one.facts.get("namespace", ""), one.facts.get("pod", ""))


def _tenants(holdings: Iterable[Allocation]) -> dict[str, str]:
    return {job: h.tenant for h in holdings if (job := h.facts.get("job", ""))}


def _running(
    holdings: Sequence[Allocation], every: Sequence[Allocation], processes: ProcessesByGpu
) -> Iterator[tuple[str, int]]:
    """Jobs and processes of theirs that hold devices. The kubelet knows no processes: a pod's are
    those on a device that it has alone.
    """
    alone = Counter(h.uuid for h in every)
    for h in holdings:
        if job := h.facts.get("job", ""):
            others = processes.holders.get(h.uuid, ()) if alone[h.uuid] == 1 else ()
            pids = h.pids or (one.pid for one in others if h.scheduler == "kubernetes")
            yield from ((job, pid) for pid in pids)


def _counted(
    holdings: Sequence[Allocation], every: Sequence[Allocation], processes: ProcessesByGpu
) -> list[tuple[Allocation, float]]:
    """Each with the processes that hold its device, NaN where that is not known.

    A pod's processes cannot be distinguished from another's by the kubelet: those of a device
    that it has alone are its own.
    """
    alone = Counter((h.uuid, h.instance) for h in every)
    counts: list[tuple[Allocation, float]] = []
    for h in holdings:
        holders = processes.holders.get(h.uuid)
        if holders is None or (h.scheduler == "kubernetes" and alone[h.uuid, h.instance] > 1):
            counts.append((h, math.nan))
        elif h.scheduler == "kubernetes":
            counts.append((h, float(sum(h.instance in {"", _inside(i)} for _, i in holders))))
        else:
            counts.append((h, float(len(h.pids))))
    return counts


def _inside(instance: int) -> str:
    return "" if instance == NO_INSTANCE else str(instance)


def _same(a: Sequence[Device], b: Sequence[Device]) -> bool:
    return len(a) == len(b) and all(
        x == y and x.attributes == y.attributes for x, y in zip(a, b, strict=True)
    )
