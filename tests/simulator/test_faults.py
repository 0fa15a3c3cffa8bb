"""Every fault has the signature it claims, as NVML, /sys and the kernel log of
a training node show it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.faults import FAULTS
from simulator.gpus import HW_BRAKE, HW_SLOWDOWN, HW_THERMAL, SW_THERMAL
from simulator.injection import inject
from simulator.nvml_state import HANG, SEGFAULT, NvmlState
from simulator.rendering import Rendering
from tests.fakes import FakeClock
from tests.simulator.nodes import TRAINING_S


class Stage:
    """A training node in a directory, and what it shows."""

    def __init__(self, directory: Path, profile: str = "hgx-h100") -> None:
        self.rendering = Rendering(directory, profile, seed=1, clock=FakeClock())
        self.node = self.rendering.node
        self.directory = directory
        self.rendering.step(TRAINING_S)
        assert self.node.demand.phase == "train"
        self._log = directory / "dev" / "kmsg"
        self._before = self._log.stat().st_size
        self._table = NvmlState(directory / "nvml.state")
        self._events = int(self.nvml("-/events"))

    def let(self, spec: str, seconds: float) -> Stage:
        """Inject a fault and let time pass."""
        inject(self.node, spec)
        return self.later(seconds)

    def later(self, seconds: float) -> Stage:
        """Let time pass."""
        self.rendering.step(seconds)
        return self

    def nvml(self, key: str) -> Any:
        """The value that answers a question."""
        return self._table.get(key).value

    def result(self, key: str) -> int:
        """NVML's return code for a question."""
        return self._table.get(key).result

    def grown(self, key: str, seconds: float) -> int:
        """How much a counter grows in that time."""
        before = self.nvml(key)
        self.later(seconds)
        return int(self.nvml(key) - before)

    def port(self, file: str, port: int = 4) -> str:
        """Content of a file below a port."""
        return (
            (self.directory / f"sys/class/infiniband/mlx5_{port}/ports/1" / file)
            .read_text()
            .strip()
        )

    def lines(self) -> list[str]:
        """Texts of the kernel log since training began."""
        with self._log.open() as log:
            log.seek(self._before)
            return [line.partition(";")[2].rstrip("\n") for line in log if not line.startswith(" ")]

    def xids(self) -> list[tuple[int, int]]:
        """(GPU, code) of NVML's events since training began."""
        texts = [
            str(self.nvml(f"-/event {n % 64}")).split()
            for n in range(self._events, int(self.nvml("-/events")))
        ]
        return [(int(gpu), int(code)) for gpu, _, code, *_ in texts]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A training H100 node, in memory where that is to be had: like the real /sys, a tree of small
    files is no matter for a disk.
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        dir=memory if os.access(memory, os.W_OK) else tmp_path
    ) as folder:
        play = Stage(Path(folder) / "node")
        yield play
        play.rendering.close()


CHECKS: dict[str, Callable[[Stage], None]] = {}


def signature(check: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Register the check of the fault that the function is named after."""
    CHECKS[check.__name__.removesuffix("_")] = check
    return check


@signature
def xid(stage: Stage) -> None:
    """One kernel line with the code, and one NVML event."""
    stage.let("xid@gpu2:code=31", 1)
    assert stage.xids() == [(2, 31)]
    assert [
        line for line in stage.lines() if line.startswith("NVRM: Xid (PCI:0000:52:00): 31, pid=")
    ] == stage.lines()


@signature
def ecc_sbe(stage: Stage) -> None:
    """Volatile and aggregate correctable counts of one GPU, nothing else."""
    stage.let("ecc_sbe@gpu3:count=7", 1)
    assert stage.nvml("3/field 3") == stage.nvml("3/field 5") == 7
    assert stage.nvml("2/field 3") == stage.nvml("3/field 4") == 0
    assert stage.lines() == []


@signature
def ecc_dbe(stage: Stage) -> None:
    """XIDs 48, 63, 94 in this order, one uncorrectable error, a pending remap, a used bank;
    the job's processes leave.
    """
    stage.let("ecc_dbe@gpu5", 2)
    assert stage.xids() == [(5, 48), (5, 63), (5, 94)]
    assert stage.nvml("5/field 4") == stage.nvml("5/field 143") == stage.nvml("5/field 144") == 1
    assert stage.nvml("5/nvmlDeviceGetRowRemapperHistogram().high") == 1
    assert stage.later(10).nvml("5/nvmlDeviceGetComputeRunningProcesses_v3().length") == 0


@signature
def ecc_storm(stage: Stage) -> None:
    """XID 92 and correctable errors at the stated rate, until it ends."""
    stage.let("ecc_storm@gpu3:rate=50,lasts=60s", 1)
    assert stage.xids() == [(3, 92)]
    assert 300 < stage.grown("3/field 3", 10) < 700
    stage.later(60)
    assert stage.grown("3/field 3", 10) == 0


@signature
def remap(stage: Stage) -> None:
    """A bank runs out of spare rows (63 eight times), the ninth fails with 64 and the flag;
    NVML recommends a reset.
    """
    stage.let("remap@gpu0:state=failed", 3)
    assert stage.xids() == [(0, 63)] * 8 + [(0, 64), (0, 154)]
    assert stage.nvml("0/field 145") == 1
    assert stage.nvml("0/nvmlDeviceGetRowRemapperHistogram().none") == 1
    assert (
        stage.nvml("0/nvmlDeviceGetRowRemapperHistogram().max") == stage.node.profile.gpu.banks - 1
    )
    assert stage.nvml("0/field 230") == 1


@signature
def sram_threshold(stage: Stage) -> None:
    """The threshold flag with parity errors in SRAM and XID 48."""
    stage.let("sram_threshold@gpu6", 1)
    assert stage.nvml("6/nvmlDeviceGetSramEccErrorStatus().bThresholdExceeded") == 1
    assert stage.nvml("6/nvmlDeviceGetSramEccErrorStatus().aggregateUncParity") > 4
    assert stage.xids() == [(6, 48)]


@signature
def thermal(stage: Stage) -> None:
    """Heat up to the limit, thermal reason bits, their nanoseconds, lower clocks; its
    neighbours stay as they were.
    """
    cool = stage.nvml("0/nvmlDeviceGetTemperature(0)")
    stage.let("thermal@gpu0:resistance=3", 400)
    assert stage.nvml("0/nvmlDeviceGetTemperature(0)") > cool + 15
    assert stage.nvml("0/nvmlDeviceGetMarginTemperature()") <= 3
    assert stage.nvml("0/field 269") + stage.nvml("0/field 270") > 10e9
    assert stage.nvml("0/nvmlDeviceGetClockInfo(1)") < 0.9 * stage.nvml(
        "1/nvmlDeviceGetClockInfo(1)"
    )
    assert stage.nvml("1/field 269") == stage.nvml("1/field 270") == 0


@signature
def power_brake(stage: Stage) -> None:
    """Clocks halved, slowdown and brake bits, the brake's nanoseconds; all over when it ends."""
    stage.let("power_brake@gpu4:lasts=30s", 10)
    reasons = stage.nvml("4/nvmlDeviceGetCurrentClocksEventReasons()")
    assert reasons & HW_SLOWDOWN
    assert reasons & HW_BRAKE
    assert not reasons & (HW_THERMAL | SW_THERMAL)
    assert stage.nvml("4/nvmlDeviceGetClockInfo(1)") < 0.6 * stage.nvml(
        "3/nvmlDeviceGetClockInfo(1)"
    )
    stage.later(60)
    assert stage.nvml("4/field 271") == pytest.approx(30e9, rel=0.05)
    assert not stage.nvml("4/nvmlDeviceGetCurrentClocksEventReasons()") & HW_BRAKE


@signature
def power_limit(stage: Stage) -> None:
    """The enforced limit is below the default while the requested one is not; power obeys."""
    stage.let("power_limit@gpu1:watts=350", 20)
    assert stage.nvml("1/nvmlDeviceGetEnforcedPowerLimit()") == stage.nvml("1/field 190") == 350_000
    assert stage.nvml("1/field 189") == stage.nvml("1/field 192") == 700_000
    assert stage.nvml("1/nvmlDeviceGetPowerUsage()") < 365_000


@signature
def slow_clock(stage: Stage) -> None:
    """A clock well below the others', and no reason bit."""
    stage.let("slow_clock@gpu7:percent=20", 20)
    others = min(stage.nvml(f"{gpu}/nvmlDeviceGetClockInfo(1)") for gpu in range(7))
    assert stage.nvml("7/nvmlDeviceGetClockInfo(1)") < 0.9 * others
    assert stage.nvml("7/nvmlDeviceGetCurrentClocksEventReasons()") == 0
    assert stage.nvml("7/nvmlDeviceGetUtilizationRates().gpu") >= 95


@signature
def pcie_narrow(stage: Stage) -> None:
    """Fewer lanes in NVML and in /sys, the maximum unchanged, and back when it ends."""
    stage.let("pcie_narrow@gpu2:width=4,lasts=10s", 1)
    width = stage.directory / "sys/bus/pci/devices/0000:52:00.0/current_link_width"
    assert stage.nvml("2/nvmlDeviceGetCurrPcieLinkWidth()") == int(width.read_text()) == 4
    assert stage.nvml("2/nvmlDeviceGetMaxPcieLinkWidth()") == 16
    assert stage.later(10).nvml("2/nvmlDeviceGetCurrPcieLinkWidth()") == 16


@signature
def pcie_replay(stage: Stage) -> None:
    """Replays at the stated rate and AER lines of that GPU."""
    stage.let("pcie_replay@gpu2:rate=10", 1)
    assert 40 < stage.grown("2/field 94", 10) < 180
    assert any("AER" in line for line in stage.lines())
    assert any(line.startswith("nvidia 0000:52:00.0: PCIe Bus Error") for line in stage.lines())


@signature
def nvlink_errors(stage: Stage) -> None:
    """Replays and CRC errors of one link, shown by the link and in the GPU's sum."""
    stage.let("nvlink_errors@gpu1:link=5,rate=20", 30)
    assert stage.nvml("1/nvmlDeviceGetNvLinkErrorCounter(5, 0)") == stage.nvml("1/field 52") > 300
    assert stage.nvml("1/nvmlDeviceGetNvLinkErrorCounter(4, 0)") == 0


@signature
def nvlink_down(stage: Stage) -> None:
    """The link's state is 0, its traffic stands, XID 74 names it."""
    stage.let("nvlink_down@gpu1:link=5", 1)
    assert [stage.nvml(f"1/nvmlDeviceGetNvLinkState({link})") for link in (4, 5)] == [1, 0]
    assert stage.grown("1/field 138 scope 5", 5) == 0
    assert stage.xids() == [(1, 74)]
    assert "fatal error detected on link 5(" in stage.lines()[0]


@signature
def gpu_lost(stage: Stage) -> None:
    """79 and the line without code, GPU_IS_LOST for that GPU only, 154 (reboot) later;
    the others lose their job.
    """
    stage.let("gpu_lost@gpu2", 1)
    assert stage.result("2/*") == 15
    assert stage.result("1/*") == 0
    assert stage.lines()[0] == "NVRM: GPU 0000:52:00.0: GPU has fallen off the bus."
    stage.later(60)
    assert stage.xids() == [(2, 79), (2, 154)]
    assert stage.nvml("1/nvmlDeviceGetComputeRunningProcesses_v3().length") == 0


@signature
def driver_hang(stage: Stage) -> None:
    """Every question about the GPU hangs, and answers again when it ends."""
    stage.let("driver_hang@gpu3:lasts=10s", 1)
    assert stage.result("3/*") == HANG
    assert stage.later(10).result("3/*") == 0


@signature
def driver_crash(stage: Stage) -> None:
    """One question kills the caller; a question that was never answered is
    not answered afterwards.
    """
    stage.let("driver_crash@gpu3:call=nvmlDeviceGetFanSpeed(),lasts=10s", 1)
    assert stage.result("3/nvmlDeviceGetFanSpeed()") == SEGFAULT
    assert stage.later(10).result("3/nvmlDeviceGetFanSpeed()") == 3


@signature
def driver_unload(stage: Stage) -> None:
    """Initialisation and all calls answer DRIVER_NOT_LOADED; afterwards volatile counters begin at
    zero, lifetime ones do not.
    """
    stage.let("ecc_sbe@gpu0:count=5", 1)
    stage.let("driver_unload:lasts=10s", 1)
    assert stage.result("-/nvmlInit()") == stage.result("-/*") == 9
    stage.later(10)
    assert stage.result("-/nvmlInit()") == stage.result("-/*") == 0
    assert (stage.nvml("0/field 3"), stage.nvml("0/field 5")) == (0, 5)
    assert stage.nvml("0/field 83") < 5_000_000


@signature
def passthrough(stage: Stage) -> None:
    """All GPUs are bound to vfio-pci and NVIDIA's driver is not there, until they come back."""
    drivers = [
        gpu / "driver"
        for gpu in sorted((stage.directory / "sys/bus/pci/devices").iterdir())
        if (gpu / "driver").is_symlink()
    ]
    assert [driver.resolve().name for driver in drivers] == ["nvidia"] * 8
    stage.let("passthrough:lasts=10s", 1)
    assert [driver.resolve().name for driver in drivers] == ["vfio-pci"] * 8
    assert stage.result("-/nvmlInit()") == 9
    stage.later(10)
    assert [driver.resolve().name for driver in drivers] == ["nvidia"] * 8
    assert stage.result("-/nvmlInit()") == 0


@signature
def fabric_manager(stage: Stage) -> None:
    """The control group of its service is gone while it does not run; GPUs stay registered."""
    group = stage.directory / "sys/fs/cgroup/system.slice/nvidia-fabricmanager.service"
    assert (group / "cgroup.procs").read_text().strip().isdecimal()
    stage.let("fabric_manager:lasts=10s", 1)
    assert not group.exists()
    assert group.parent.is_dir()
    assert stage.nvml("0/nvmlDeviceGetGpuFabricInfoV().state") == 3
    stage.later(10)
    assert (group / "cgroup.procs").exists()


@signature
def nccl_stall(stage: Stage) -> None:
    """All but the culprit at 100 %, without tensor work or traffic, at low flat power; then
    the watchdog ends the job.
    """
    stage.let("nccl_stall@gpu6", 60)
    assert [stage.nvml(f"{gpu}/nvmlDeviceGetUtilizationRates().gpu") for gpu in (0, 6)] == [100, 0]
    assert stage.nvml("0/gpm 5") == stage.nvml("0/gpm 10") == 0
    watts = []
    for _ in range(20):
        watts.append(stage.nvml("0/nvmlDeviceGetPowerUsage()") / 1000)
        stage.later(0.5)
    assert 90 < min(watts) < max(watts) < 170
    assert max(watts) - min(watts) < 15
    assert stage.grown("0/field 138 scope 3", 5) == 0
    assert int(stage.port("counters/port_xmit_data")) == int(
        stage.later(5).port("counters/port_xmit_data")
    )
    assert stage.later(600).nvml("0/nvmlDeviceGetComputeRunningProcesses_v3().length") == 0


@signature
def ras_manner(stage: Stage) -> None:
    """The job's RAS server is told how to behave, until it ends; how it behaves is tested where it
    serves (nccl/test_node_job.py).
    """
    stage.let("ras_manner:manner=cut,lasts=30s", 1)
    assert stage.node.ras_manner == "cut"
    assert stage.later(30).node.ras_manner == "sound"


@signature
def host_stall(stage: Stage) -> None:
    """All GPUs idle at once while the processes hold them, until it ends."""
    stage.let("host_stall:lasts=60s", 30)
    assert {stage.nvml(f"{gpu}/nvmlDeviceGetUtilizationRates().gpu") for gpu in range(8)} == {0}
    assert stage.nvml("0/nvmlDeviceGetComputeRunningProcesses_v3().length") == 1
    assert stage.later(60).nvml("0/nvmlDeviceGetUtilizationRates().gpu") >= 95


@signature
def oom_kill(stage: Stage) -> None:
    """The kernel's line names the process, and the job's processes leave."""
    pid = stage.nvml("0/nvmlDeviceGetComputeRunningProcesses_v3()[0].pid")
    stage.let("oom_kill:name=trainer", 5)
    assert stage.lines()[0].startswith(f"Out of memory: Killed process {pid} (trainer) ")
    assert stage.nvml("0/nvmlDeviceGetComputeRunningProcesses_v3().length") == 0


@signature
def nvlink_fabric(stage: Stage) -> None:
    """State, status, health mask and summary of this GPU alone; healthy again when it ends."""
    fabric = "nvmlDeviceGetGpuFabricInfoV()"

    def shown(gpu: int) -> list[int]:
        parts = ("state", "status", "healthMask", "healthSummary")
        return [stage.nvml(f"{gpu}/{fabric}.{part}") for part in parts]

    for kind, expected in (
        ("unhealthy", [3, 0, 0x9A, 2]),
        ("failed", [3, 999, 0xAA, 1]),
        ("unregistered", [2, 0, 0xAA, 1]),
        ("degraded", [3, 0, 0xA9, 3]),
        ("recovering", [3, 0, 0xA6, 1]),
    ):
        stage.let(f"nvlink_fabric@gpu5:kind={kind},lasts=10s", 2)
        assert shown(5) == expected
        assert shown(4) == [3, 0, 0xAA, 1]
        stage.later(10)
        assert shown(5) == [3, 0, 0xAA, 1]


@signature
def symbol_errors(stage: Stage) -> None:
    """Symbol errors grow on a port that stays active."""
    stage.let("symbol_errors@mlx5_4:ber=1e-11", 30)
    assert 60 < int(stage.port("counters/symbol_error")) < 260  # 425e9 x 1e-11 x 30 = 128
    assert stage.port("state") == "4: ACTIVE"
    assert int(stage.port("counters/symbol_error", 3)) < 3


@signature
def link_flap(stage: Stage) -> None:
    """Down for the stated time, up again, as often as stated: state, rate, counters,
    carrier changes and mlx5 lines.
    """
    carrier = stage.directory / "sys/class/net/ibp154s0/carrier_changes"
    before = int(carrier.read_text())
    stage.let("link_flap@mlx5_4:down=10s,times=2,every=20s", 5)
    assert (stage.port("state"), stage.port("phys_state")) == ("1: DOWN", "2: Polling")
    stage.later(10)
    assert (stage.port("state"), stage.port("rate")) == ("4: ACTIVE", "400 Gb/sec (4X NDR)")
    stage.later(60)
    assert stage.port("counters/link_downed") == "2"
    assert int(carrier.read_text()) - before == 4
    assert [line.rpartition(": ")[2] for line in stage.lines()] == ["Link down", "Link up"] * 2


@signature
def link_down(stage: Stage) -> None:
    """Down, and it stays down."""
    stage.let("link_down@mlx5_4", 300)
    assert stage.port("state") == "1: DOWN"
    assert stage.port("counters/link_downed") == "1"


@signature
def counter_saturated(stage: Stage) -> None:
    """The counter shows the end of its register and does not move on."""
    stage.let("counter_saturated@mlx5_4", 1)
    stage.let("symbol_errors@mlx5_4:ber=1e-10", 30)
    assert stage.port("counters/symbol_error") == str(2**16 - 1)
    stage.let("counter_saturated@mlx5_4:counter=downed", 1)
    assert stage.port("counters/link_downed") == str(2**8 - 1)


@signature
def nic_lost(stage: Stage) -> None:
    """The health line, then the adapter is gone from /sys, and back when it ends."""
    device = stage.directory / "sys/class/infiniband/mlx5_4"
    stage.let("nic_lost@mlx5_4:lasts=30s", 1)
    assert "device's health compromised" in stage.lines()[0]
    stage.later(10)
    assert not device.exists()
    assert sorted(p.name for p in device.parent.iterdir()) == [
        f"mlx5_{n}" for n in (0, 1, 2, 3, 5, 6, 7)
    ]
    stage.later(30)
    assert stage.port("state") == "4: ACTIVE"


@signature
def nic_narrow(stage: Stage) -> None:
    """Fewer lanes by the adapter's PCI device; all of them when it ends."""
    width = stage.directory / "sys/class/infiniband/mlx5_4/device/current_link_width"
    stage.let("nic_narrow@mlx5_4:width=4,lasts=10s", 1)
    assert width.read_text().strip() == "4"
    stage.later(10)
    assert width.read_text().strip() == "16"


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_its_signature(stage: Stage, name: str) -> None:
    """What ``--list`` promises is what the real collectors will see."""
    CHECKS[name](stage)


@pytest.mark.slow
def test_uncontained_error_needs_a_reset(stage: Stage) -> None:
    """With contained=0 the burst ends in 95, and NVML recommends a GPU reset
    by field 230 and XID 154.
    """
    stage.let("ecc_dbe@gpu5:contained=0", 2)
    assert stage.xids() == [(5, 48), (5, 63), (5, 95), (5, 154)]
    assert stage.nvml("5/field 230") == 1
    assert "to 0x1 (GPU Reset Required)" in stage.lines()[-1]


@pytest.mark.slow
def test_xid_of_an_instance_names_it(tmp_path: Path) -> None:
    """On a split GPU the line carries GPU-I and the NVML event the instance."""
    stage = Stage(tmp_path / "mig", "hgx-h100-mig")
    stage.let("xid@gpu0:code=13,instance=1", 1)
    assert stage.lines()[0].startswith("NVRM: Xid (PCI:0000:1b:00 GPU-I:01): 13, pid=")
    assert str(stage.nvml(f"-/event {int(stage.nvml('-/events')) - 1}")).split()[3] == "1"
    stage.rendering.close()


@pytest.mark.slow
def test_lost_gpu_comes_back_with_fresh_volatile_counters(stage: Stage) -> None:
    """A loss that lasts some time ends as a reboot does: answers again, energy from
    zero, no recovery action.
    """
    stage.let("gpu_lost@gpu2:lasts=60s", 70)
    assert stage.result("2/*") == 0
    assert stage.nvml("2/field 230") == 0
    assert stage.nvml("2/field 83") < stage.nvml("1/field 83")


@pytest.mark.slow
def test_storm_may_end_in_an_uncorrectable_error(stage: Stage) -> None:
    """With ``dbe`` the storm is followed by the burst of an uncorrectable error."""
    stage.let("ecc_storm@gpu3:dbe=20s", 10)
    assert stage.xids() == [(3, 92)]
    assert stage.later(15).xids() == [(3, 92), (3, 48), (3, 63), (3, 94)]
