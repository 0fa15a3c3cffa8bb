"""Memory of the processes that use most of a GPU, as series."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.sources.nvml import wire
from collector.sources.nvml.process_memory import ProcessMemory
from collector.sources.nvml.wire import GarbageError, Message, pack_document
from pipeline.catalog import agent
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.nvml.conftest import Scripted
from tests.collector.sources.nvml.node import ScriptedNode, uuid

pytestmark = pytest.mark.slow

GIB = 1 << 30
LISTED = "0/nvmlDeviceGetComputeRunningProcesses_v3()"
SLURM = "0::/system.slice/slurmstepd.scope/job_71/step_0/user/task_0\n"
POD = "0::/kubepods.slice/kubepods-pod1b9f7c1e_0000_4000_8000_00000000000a.slice/cri-x.scope\n"


def put(proc: Path, pid: int, name: str, cgroup: str) -> None:
    """A process as /proc shows it."""
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "cgroup").write_text(cgroup)


def use(node: ScriptedNode, *rows: tuple[int, int | None]) -> None:
    """Processes of the first GPU and what they use; None where the driver does not say."""
    node.table.set(f"{LISTED}.length", len(rows))
    for number, (pid, size) in enumerate(rows):
        node.table.set(f"{LISTED}[{number}].pid", pid)
        if size is not None:
            node.table.set(f"{LISTED}[{number}].usedGpuMemory", size)


def shown(metrics: SelfMetrics) -> dict[tuple[str, ...], float]:
    """Series by their labels after the UUID and instance."""
    series = dict(metrics.series()).get(agent.GPU_PROCESS_MEMORY, ())
    return {labels[2:]: value for labels, value in series}


def test_the_largest_processes_are_shown_with_name_and_job(
    scripted: Scripted, tmp_path: Path
) -> None:
    """By their control groups; one that ends has no series."""
    put(tmp_path, 50, "python3", SLURM)
    put(tmp_path, 51, "vllm", POD)
    node = scripted(1, proc=tmp_path, processes=2)
    use(node, (50, 3 * GIB), (51, 5 * GIB), (52, GIB))
    node.read()
    pod = "1b9f7c1e-0000-4000-8000-00000000000a"
    assert shown(node.metrics) == {
        ("51", "vllm", "", pod): 5.0 * GIB,
        ("50", "python3", "71", ""): 3.0 * GIB,
    }
    use(node, (52, GIB))
    node.read()
    assert shown(node.metrics) == {("52", "", "", ""): 1.0 * GIB}
    use(node)
    node.read()
    assert shown(node.metrics) == {}


def test_nothing_is_shown_where_it_was_not_asked_for(scripted: Scripted) -> None:
    """A process id is a new series each time, and names are nobody's business by default."""
    node = scripted(1)
    use(node, (50, GIB))
    node.read()
    assert shown(node.metrics) == {}


def test_what_the_driver_does_not_say_is_not_shown(scripted: Scripted) -> None:
    """Memory that is not available (MIG without privilege) is no number."""
    node = scripted(1, processes=4)
    use(node, (50, None), (51, GIB))
    node.read()
    assert [labels[0] for labels in shown(node.metrics)] == ["51"]


def test_a_gpu_that_is_lost_has_no_processes(tmp_path: Path) -> None:
    """What was said of it last is not true any more."""
    metrics = SelfMetrics()
    memory = ProcessMemory(tmp_path, metrics)
    gpu = Device("n1", "gpu", uuid(0))
    body = pack_document(wire.MEMORY, 0, memory=[[50, 3, GIB]])
    memory.take(Message(wire.MEMORY, 0, body[12:]), gpu)
    memory.show([gpu.id])
    assert metrics.value(agent.GPU_PROCESS_MEMORY, gpu.id, "3", "50", "", "", "") == GIB
    memory.show([])
    assert shown(metrics) == {}


@pytest.mark.parametrize(
    "document",
    [
        "{}",
        "[]",
        '{"memory": 1}',
        '{"memory": [[1, 2]]}',
        '{"memory": [[1, 2, -5]]}',
        f'{{"memory": [[1, 2, 1{"0" * 400}]]}}',
    ],
)
def test_memory_that_is_none_is_garbage(tmp_path: Path, document: str) -> None:
    """The child is hostile input too."""
    memory = ProcessMemory(tmp_path, SelfMetrics())
    with pytest.raises(GarbageError):
        memory.take(Message(wire.MEMORY, 0, document.encode()), Device("n1", "gpu", uuid(0)))
