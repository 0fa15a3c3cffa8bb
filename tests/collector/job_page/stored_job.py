"""A training job of two nodes as its agents store it: it loads, makes steps, saves every twenty
minutes, and dies in a way of the test's choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collector.sources.joblog.match import hits
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Device, frame_of
from pipeline.nccl.wire import line_event
from pipeline.observation import Event
from tests.collector.sources.joblog.wrapped import line_of
from tests.pipeline.store.stored import StoreMaker

BEGIN_NS = 1_800_000_000 * SECOND_NS
MINUTE_NS = 60 * SECOND_NS
HOSTS, GPUS = ("n1", "n2"), 4
LOAD, SAVE_EVERY = 3, 20  # minutes
JOB = "71"
Kind = tuple[float, float]  # utilization in percent, tensor activity in percent
STEPS, PAUSE, SPIN, IDLE = (98.0, 40.0), (20.0, 2.0), (100.0, 0.0), (0.0, 0.0)


def uuid(host: str, gpu: int) -> str:
    """UUID of a GPU."""
    return f"GPU-{host}-{gpu}"


class StoredJob:
    """``minutes`` is how long it runs; ``scheduler`` is who gave the GPUs, and the job's name."""

    def __init__(
        self, root: Path, minutes: int = 90, *, job: str = JOB, begin_ns: int = BEGIN_NS
    ) -> None:
        self.root, self.minutes, self.job, self.begin_ns = root, minutes, job, begin_ns
        self.maker = StoreMaker(root, boot=f"{job.rpartition('/')[2]}-{begin_ns}")
        self.stalled = minutes  # from this minute on its ranks spin
        self.open_on: set[str] = set()  # hosts on which its end is not seen

    @property
    def end_ns(self) -> int:
        """Unix time of its end."""
        return self.begin_ns + self.minutes * MINUTE_NS

    def run(self, *, outcome: str = "", ended_by: Any = (), late_s: float = 0.0) -> None:
        """Write it from begin to end, which is noticed some seconds later."""
        for host in HOSTS:
            gpus = [uuid(host, gpu) for gpu in range(GPUS)]
            about: dict[str, Any] = {
                "job": self.job,
                "gpus": " ".join(gpus),
                "hosts": 2,
                "name": "llm",
                "user": "ada",
            }
            self.event(host, 0, "job_started", **about)
            for gpu in range(GPUS):
                self.event(
                    host,
                    0,
                    "nccl_process_found",
                    pid=pid(gpu),
                    rank=rank(host, gpu),
                    job=f"{self.job}.0" if self.job.isdecimal() else self.job,
                    gpus=uuid(host, gpu),
                )
        for minute in range(self.minutes):
            for host in HOSTS:
                self.frame(host, minute)
        facts: dict[str, Any] = {"outcome": outcome} if outcome else {}
        facts |= dict(ended_by)
        for host in HOSTS:
            if host not in self.open_on:
                self.event(host, self.minutes + late_s / 60, "job_ended", job=self.job, **facts)

    def after(self, host: str, minutes: int = 15, boot_id: str = "") -> None:
        """The node goes on without the job, in another boot if one is given."""
        for minute in range(minutes):
            at = self.end_ns + (minute + 1) * MINUTE_NS
            self.maker.add(host, at, frames=[self._gpus(host, at, IDLE)], boot_id=boot_id)

    def frame(self, host: str, minute: int) -> None:
        """Two readings of a minute."""
        for second in (10, 40):
            at = self.begin_ns + minute * MINUTE_NS + second * SECOND_NS
            self.maker.add(host, at, frames=[self._gpus(host, at, self._kind(minute))])

    def event(self, host: str, minute: float, kind: str, *, gpu: int = -1, **facts: Any) -> None:
        """An event of the node, or of one of its GPUs."""
        at = self.begin_ns + round(minute * MINUTE_NS)
        device = Device(host, "gpu", uuid(host, gpu)) if gpu >= 0 else Device(host, "node", host)
        self.maker.add(host, at, events=[Event(at, at, device, kind, facts)])

    def line(self, host: str, minute: float, text: str) -> None:
        """A line of the job's log, as the agent of a node reads it."""
        at = self.begin_ns + round(minute * MINUTE_NS)
        found = [
            line_event(hit, Device(host, "node", host), at, at, self.job)
            for hit in hits(line_of(text))
        ]
        assert found, text
        self.maker.add(host, at, events=found)

    def incident(self, minute: float, device: Device, summary: str, **more: Any) -> None:
        """An incident with one finding."""
        at = self.begin_ns + round(minute * MINUTE_NS)
        detector, fault = more.pop("detector", "gpu_lost"), more.pop("fault", "fault")
        severity = more.pop("severity", "page")
        finding = Finding(detector, device, fault, "onset", severity, at, at, summary)
        about = {"jobs": (self.job,)} | more
        incident = Incident(
            f"{finding.id}aa",
            device,
            fault,
            severity,
            "RESTART_BM",
            at,
            (finding.id,),
            summary,
            **about,
        )
        self.maker.add(device.host or "n1", at, findings=[finding], incidents=[incident])

    def close(self) -> Path:
        """The store."""
        self.maker.close()
        return self.root

    def _kind(self, minute: int) -> Kind:
        if minute < LOAD:
            return IDLE
        if minute >= self.stalled:
            return SPIN
        return PAUSE if minute % SAVE_EVERY == 0 else STEPS

    def _gpus(self, host: str, at: int, kind: Kind) -> Any:
        return frame_of("gpu", list(self._rows(host, kind)), at, at)

    def _rows(self, host: str, kind: Kind) -> Iterator[tuple[Device, dict[str, float]]]:
        utilization, tensor = kind
        for gpu in range(GPUS):
            facts = {"index": str(gpu), "uuid": uuid(host, gpu)}
            yield (
                Device(host, "gpu", uuid(host, gpu), facts),
                {
                    "gpu_utilization_percent": utilization,
                    "tensor_activity_percent": tensor,
                    "power_milliwatts": 650_000.0 if kind == STEPS else 300_000.0,
                    "power_limit_enforced_milliwatts": 700_000.0,
                },
            )


def pid(gpu: int) -> int:
    """Process of a GPU."""
    return 4000 + gpu


def rank(host: str, gpu: int) -> int:
    """Rank of a GPU's process."""
    return HOSTS.index(host) * GPUS + gpu
