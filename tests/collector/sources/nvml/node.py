"""A node whose driver is a script: the table that the C stub reads, and an NvmlSource over
it with the real pynvml.
"""

from __future__ import annotations

import random
from pathlib import Path

from collector.node.gpu_processes import GpuProcesses
from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.nvml.source import NvmlSource
from collector.sources.nvml.states import NAMES
from collector.sources.nvml.worker import Deadlines
from pipeline.frame import Frame
from pipeline.observation import Reading
from pipeline.selfmetrics import SelfMetrics
from simulator.nvml_state import NvmlState
from tests.fakes import FakeClock
from tests.stub.library import environment

# Long enough for a loaded machine: only tests that wait for a hang have short deadlines.
PATIENT = Deadlines(call_s=20, slow_s=20, silent_s=20, sweep_s=20)


def uuid(gpu: int) -> str:
    """UUID of a scripted GPU."""
    return f"GPU-00000000-0000-0000-0000-{gpu:012d}"


class ScriptedNode:
    """GPUs that answer a few questions; tests change the answers while it runs.

    ``stub`` is None for the simulated client.
    """

    def __init__(
        self,
        folder: Path,
        stub: Path | None,
        gpus: int = 2,
        *,
        deadlines: Deadlines = PATIENT,
        links_every: int = 1,
        facts_every_s: float = 1e6,
        hold: float = 0.0,
        expected: int = 0,
        processes: int = 0,
        proc: Path = Path("/nonexistent"),
        sysfs: Path = Path("/nonexistent"),
        dev: Path = Path("/nonexistent"),
        state: State | None = None,
        holders: GpuProcesses | None = None,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.table = NvmlState(folder / "nvml.state", create=True)
        self.clock = FakeClock()
        self.metrics = SelfMetrics()
        self.inventory = Inventory("n1", state or State(None))
        self._environment = None if stub is None else environment(stub, folder / "nvml.state")
        self.table.set("-/nvmlDeviceGetCount()", gpus)
        self.table.set("-/nvmlSystemGetDriverVersion()", "580.95.05")
        for gpu in range(gpus):
            self.add_gpu(gpu)
        self.source = NvmlSource(
            "" if stub else f"simulator.nvml_client:open_client:{folder}",
            "n1",
            self.clock,
            self.inventory,
            self.metrics,
            deadlines=deadlines,
            links_every=links_every,
            facts_every_s=facts_every_s,
            hold=hold,
            expected=expected,
            processes=processes,
            proc=proc,
            sysfs=sysfs,
            dev=dev,
            holders=holders,
            env=self._environment,
            rng=random.Random(1),
            state=state,
        )

    def add_gpu(self, gpu: int) -> None:
        """One more GPU, with what every GPU answers."""
        self.table.set(f"-/nvmlDeviceGetHandleByIndex({gpu})", gpu)
        self.table.set(f"{gpu}/nvmlDeviceGetIndex()", gpu)
        self.table.set(f"{gpu}/nvmlDeviceGetUUID()", uuid(gpu))
        self.table.set(f"{gpu}/nvmlDeviceGetPciInfo_v3().busId", f"00000000:{gpu + 16:02X}:00.0")
        self.table.set(f"{gpu}/nvmlDeviceGetTemperature(0)", 40 + gpu)
        self.table.set(f"{gpu}/field 83", 1_000_000 + gpu)

    def read(self, seconds: float = 1.0) -> Reading:
        """One reading, ``seconds`` after the one before."""
        self.clock.advance(seconds)
        return self.source.read()

    def states(self, seconds: float = 1.0) -> list[str]:
        """State of every GPU in a new reading."""
        return states(self.read(seconds))

    def value(self, key: str) -> int:
        """A number in the table."""
        return int(self.table.get(key).value)

    def close(self) -> None:
        """End the driver child, and let go of the table."""
        self.source.close()
        self.table.close()


def frame(reading: Reading, kind: str) -> Frame:
    """The frame of that kind."""
    (found,) = (f for f in reading.frames if f.kind == kind)
    return found


def states(reading: Reading) -> list[str]:
    """State of every GPU, by row."""
    return [NAMES[int(code)] for code in frame(reading, "gpu").gauge("state")]


def values(reading: Reading, kind: str = "gpu") -> list[dict[str, float | int]]:
    """What was observed, by row."""
    return [observed for _, observed in frame(reading, kind).records()]


def reasons(reading: Reading) -> list[str]:
    """Why things could not be read."""
    return [unread.reason for unread in reading.unread]
