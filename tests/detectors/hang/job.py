"""A training job on some nodes, driven phase by phase: what its GPUs show while they work,
wait, idle or have gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from detectors.hang import Hang
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.interfaces import Detector
from tests.detectors.feed import Feed, Number, a_gpu

PER_NODE = 8
Shows = Mapping[str, Number]

# Native units; counters by what they grow per second. Figures of H100s: 500 to 690 W in training,
# 100 to 150 W waiting or held.
_SAME: Shows = {"state": 0, "power_limit_enforced_milliwatts": 700_000, "mig_mode_current": 0}


def shows(
    *,
    util: Number,
    watts: float,
    tensor: Number = 0,
    nvlink: Number = 0,
    pcie: Number = 1e5,
    processes: int = 1,
) -> dict[str, Number]:
    """What a GPU shows; ``nvlink`` MiB/s and ``pcie`` bytes/s each way."""
    return {
        **_SAME, (
            "gpu_utilization_percent"
        ): util, "energy_millijoules": watts * 1000, "power_milliwatts": watts * 1000,
        (
            "tensor_activity_percent"
        ): tensor, "dram_activity_percent": tensor, "compute_processes": processes,
        (
            "nvlink_transmit_mebibytes_per_second"
        ): nvlink, "nvlink_receive_mebibytes_per_second": nvlink,
        "pcie_transmit_bytes": pcie, "pcie_receive_bytes": pcie,
    }  # fmt: skip


WORKS = shows(util=100, watts=550, tensor=40, nvlink=80_000, pcie=1e9)
WAITS = shows(util=100, watts=120)
HELD = shows(util=0, watts=135)
SAVES = shows(util=6, watts=140, pcie=2e10)
EVALUATES = shows(util=80, watts=380, tensor=20, nvlink=10_000, pcie=1e9)
GONE = shows(util=0, watts=72, processes=0)
LOST: Shows = {"state": 1}


class Training:
    """A job on ``nodes`` nodes that a scheduler told of, seen whole unless it ``reaches`` further;
    it has worked for a while and, unless it is young or has not ``saved``, written a checkpoint
    by copying to the host.
    """

    def __init__(
        self,
        nodes: int = 2,
        *,
        reaches: int | None = None,
        scheduler: bool = True,
        worked_s: float = 1000.0,
        saved: bool = True,
        **facts: str,
    ) -> None:
        self.hosts = [f"n{node}" for node in range(nodes)]
        self.gpus = [a_gpu(host, index) for host in self.hosts for index in range(PER_NODE)]
        self.feed = Feed(self._detector(), gpus=self.gpus)
        if scheduler:
            self.begins("7", reaches or nodes, **facts)
        self.all(WORKS, worked_s)
        if saved and worked_s >= 1000:
            self.all(SAVES, 60)
            self.all(WORKS, 60)

    @staticmethod
    def _detector() -> Detector:
        return Hang()

    def all(self, what: Shows, seconds: float, **odd: Shows) -> list[Finding]:
        """All GPUs show this, but those that are named (``gpu3``) or on a node that is (``n1``)."""
        each = [odd.get(f"gpu{row}", odd.get(gpu.host, what)) for row, gpu in enumerate(self.gpus)]
        return self.each(each, seconds)

    def each(self, what: Sequence[Shows], seconds: float) -> list[Finding]:
        """Each GPU shows its own."""
        names = dict.fromkeys(name for shown in what for name in shown)
        return self.feed.run(
            seconds, **{name: [shown.get(name) for shown in what] for name in names}
        )

    def begins(self, job: str, hosts: int | None = None, **facts: str) -> None:
        """The scheduler gives all GPUs to a job."""
        for host in self.hosts:
            own = " ".join(gpu.id for gpu in self.gpus if gpu.host == host)
            node, size = Device(host, "node", host), hosts or len(self.hosts)
            self.feed.event(
                node,
                "job_started",
                source="jobs",
                job=job,
                gpus=own,
                hosts=size,
                **facts,  # type: ignore[arg-type] # none is an age
            )

    def ends(self, job: str = "7") -> list[Finding]:
        """The scheduler says that it is over."""
        said: list[Finding] = []
        for host in self.hosts:
            said += self.feed.event(
                Device(host, "node", host), "job_ended", source="jobs", job=job, outcome="failed"
            )
        return said
