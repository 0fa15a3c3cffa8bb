"""What names a wait: the job's own control group, and mounts or disks that are slower than usual.
They never accuse GPUs that do their usual work.
"""

from __future__ import annotations

import pytest

from detectors.kit.snapshot import dump, load
from detectors.starvation import Starvation
from pipeline.finding import Finding
from pipeline.frame import Device, frame_of, schema_of
from pipeline.observation import Observation
from pipeline.rates import Rates
from tests.detectors.feed import Number, open_findings
from tests.detectors.starvation.test_detector import (
    CALM,
    PERIOD_S,
    READS,
    Node,
    all_wait,
)

pytestmark = pytest.mark.slow

DATA = {"mountpoint": "/data", "device": "filer:/datasets", "fstype": "nfs4"}
# Of each second: what NFS does while the job is fed, and while its server is slow.
FED = {"read_operations": 100.0, "read_microseconds": 400_000.0, "transmissions": 100.0}
SLOW = {
    "read_operations": 20.0,
    "read_microseconds": 3_600_000.0,
    "queue_microseconds": 1_800_000.0,
    "transmissions": 21.0,
}
DISK_FED = {"reads": 1000.0, "read_milliseconds": 100.0}
DISK_SLOW = {"reads": 100.0, "read_milliseconds": 2000.0}
OWN_CALM = {"pressure_io_some_microseconds": 0.0, "pressure_cpu_some_microseconds": 0.0}


class Wired(Node):
    """A node of which mounts, disks and control groups are read too."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: dict[Device, dict[str, float]] = {}
        self._sums: dict[tuple[Device, str], float] = {}
        self._by_kind: dict[str, Rates] = {}

    def has(self, kind: str, number: str, facts: dict[str, str], each: dict[str, float]) -> None:
        """What a device counts in each second from now on."""
        device = Device("n1", kind, number, facts)
        self.devices = {d: e for d, e in self.devices.items() if d != device} | {device: each}

    def run(
        self, minutes: float, waits: dict[str, float] = CALM, **more: Number | list[Number]
    ) -> list[Finding]:
        """As that of a node, with what is read beside it."""
        found: list[Finding] = []
        for _ in range(round(minutes * 60 / PERIOD_S)):
            self._read()
            found += super().run(PERIOD_S / 60, waits, **more)
        return found

    def _read(self) -> None:
        clock = self.feed.clock
        now = (clock.time_ns(), clock.monotonic_ns())
        frames = []
        for kind in sorted({device.kind for device in self.devices}):
            rows = []
            for device, each in self.devices.items():
                if device.kind == kind:
                    for name, more in each.items():
                        key = device, name
                        self._sums[key] = self._sums.get(key, 1e6) + more * PERIOD_S
                    rows.append((device, {n: int(self._sums[device, n]) for n in each}))
            rates = self._by_kind.setdefault(kind, Rates(schema_of(kind), PERIOD_S))
            frames.append(rates.add(frame_of(kind, rows, *now), self.feed.boot))
        assert (
            self.feed.observe(Observation("waits", "n1", self.feed.boot, 0, *now, 0, tuple(frames)))
            == []
        )


def working(*more: tuple[str, str, dict[str, str], dict[str, float]]) -> Wired:
    """A node whose job has worked for ten minutes, with these devices beside it."""
    node = Wired()
    for one in more:
        node.has(*one)
    assert node.run(10) == []
    return node


def test_the_file_system_that_is_slow_is_named() -> None:
    """With its latency, what is usual, and what the requests wait for."""
    node = working(("mount", "0", DATA, FED))
    node.has("mount", "0", DATA, SLOW)
    found = node.run(6, READS, gpu_utilization_percent=50)
    assert open_findings(found) == all_wait("data")
    assert "NFS reads on /data take 180 ms (usual 4" in found[0].summary
    assert "tasks of its node wait for input and output 40% of the time" in found[0].summary
    assert (
        "filer:/datasets: 3.6 requests under way on average, 50% of their time until a slot for "
        "them is free, 5% sent again"
    ) in found[0].evidence


def test_pressure_without_a_slow_file_system_names_none() -> None:
    """The answer is that of a node without any."""
    node = working(("mount", "0", DATA, FED), ("disk", "nvme0n1", {}, DISK_FED))
    found = node.run(6, READS, gpu_utilization_percent=50)
    assert open_findings(found) == all_wait("data")
    assert "NFS" not in found[0].summary
    assert "nvme" not in found[0].summary


def test_a_disk_that_is_slow_is_named() -> None:
    """Where pressure says that tasks wait for it; alone it is no reason."""
    node = working(("disk", "nvme0n1", {}, DISK_FED))
    node.has("disk", "nvme0n1", {}, DISK_SLOW)
    assert node.run(6, CALM, gpu_utilization_percent=50) == []
    found = node.run(6, READS, gpu_utilization_percent=50)
    assert "reads of nvme0n1 take 20 ms (usual 0.1" in found[0].summary


def test_metadata_that_no_pressure_counts_is_a_wait_for_data() -> None:
    """The kernel does not count waits for lookups and opens of NFS: its own times show them."""
    each = {"other_operations": 50.0, "other_microseconds": 50_000.0}
    node = working(("mount", "0", DATA, each))
    node.has("mount", "0", DATA, {**each, "other_microseconds": 2_500_000.0})
    found = node.run(12, CALM, gpu_utilization_percent=50)
    assert open_findings(found) == all_wait("data")
    assert "NFS metadata operations on /data take 50 ms (usual 1" in found[0].summary


def test_an_evaluation_is_no_wait_because_a_file_system_is_slow_just_then() -> None:
    """Nine minutes of less use, while somebody's backup slows requests for which no task waits."""
    node = working(("mount", "0", DATA, FED), ("job_group", "0", {"job": "42"}, OWN_CALM))
    node.has("mount", "0", DATA, SLOW)
    assert node.run(9, CALM, gpu_utilization_percent=80) == []
    assert node.run(20) == []


@pytest.mark.parametrize("used", [98.0, 94.0])
def test_gpus_at_their_usual_work_are_never_accused(used: float) -> None:
    """Whatever mounts, disks and control groups show."""
    node = working(("mount", "0", DATA, FED), ("job_group", "0", {"job": "42"}, OWN_CALM))
    node.has("mount", "0", DATA, SLOW)
    node.has("job_group", "0", {"job": "42"}, dict.fromkeys(OWN_CALM, 9e5))
    assert node.run(20, READS, gpu_utilization_percent=used) == []


def test_the_job_s_own_control_group_counts_before_its_node() -> None:
    """Another job's tasks wait: this one, which does less, waits for nothing that shows. Its own
    do: they are what is named.
    """
    own = ("job_group", "0", {"job": "42"})
    node = working((*own, OWN_CALM))
    assert node.run(10, READS, gpu_utilization_percent=50) == []
    node = working((*own, OWN_CALM))
    node.has(*own, {**OWN_CALM, "pressure_io_some_microseconds": 7e5})
    found = node.run(6, CALM, gpu_utilization_percent=50)
    assert open_findings(found) == all_wait("data")
    assert "its tasks wait for input and output 70% of the time" in found[0].summary


def test_a_limit_of_processors_is_named() -> None:
    """Throttled tasks wait for a processor that nobody else has."""
    own = ("job_group", "0", {"job": "42"})
    node = working((*own, {**OWN_CALM, "cpu_throttled_microseconds": 0.0}))
    pressed = {"pressure_cpu_some_microseconds": 6e5, "cpu_throttled_microseconds": 3e6}
    node.has(*own, OWN_CALM | pressed)
    found = node.run(6, CALM, gpu_utilization_percent=50)
    assert open_findings(found) == all_wait("cpu")
    assert "its limit of processors (cpu.max) holds them back" in found[0].summary


def test_another_mount_under_the_same_number_begins_again() -> None:
    """What is usual for one says nothing of the next, which is always slow."""
    node = working(("mount", "0", DATA, FED))
    node.has("mount", "0", {**DATA, "mountpoint": "/archive"}, SLOW)
    node.run(2)
    found = node.run(6, READS, gpu_utilization_percent=50)
    assert open_findings(found) == all_wait("data")
    assert "NFS" not in found[0].summary


def test_a_restart_forgets_nothing_of_them() -> None:
    """What is usual for mounts and groups is in the snapshot."""
    node = working(("mount", "0", DATA, FED), ("job_group", "0", {"job": "42"}, OWN_CALM))
    again = Starvation()
    assert load(dump([node.feed.detector]), [again]) == ()
    node.feed.detector = again
    node.has("mount", "0", DATA, SLOW)
    found = node.run(12, CALM, gpu_utilization_percent=50)
    assert "NFS reads on /data take 180 ms (usual 4" in found[0].summary
