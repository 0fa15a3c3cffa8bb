"""The Inspector watch: logs of processes that have it switched on are
followed, in their own root.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.inspector.watch import LOOK_AGAIN_S, InspectorWatch
from tests.collector.sources.nccl.inspector.lines import line
from tests.collector.sources.nccl.processes import process, root_of

PROM = b'nccl_bus_bandwidth_gbs{collective="AllReduce"} 187.5\n'


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[InspectorWatch]:
    """Watches the processes of a made-up node."""
    watching = InspectorWatch(tmp_path)
    yield watching
    watching.close()


def switched_on(proc: Path) -> Found:
    """A process with the Inspector, and a folder for its files."""
    found = process(proc, NCCL_INSPECTOR_ENABLE="1", NCCL_INSPECTOR_DUMP_DIR="/dumps")
    (root_of(proc, found) / "dumps").mkdir()
    return found


def completed(watch: InspectorWatch, found: Found, now_s: float = 0.0) -> list[dict[str, int]]:
    """What each report of a look says is complete, of its one rank."""
    return [
        dict(report.communicators[0].members[0].completed)
        for _, report in watch.look([found], now_s)
    ]


def test_a_growing_log_is_followed(watch: InspectorWatch, tmp_path: Path) -> None:
    """A report comes with every growth, and none without."""
    found = switched_on(tmp_path)
    log = root_of(tmp_path, found) / f"dumps/pod-7-pid{found.inner_pid}.log"
    log.write_bytes(line(0) + b"\n")
    assert completed(watch, found) == [{"AllReduce": 1}]
    assert completed(watch, found) == []
    with log.open("ab") as file:
        file.write(line(1) + b"\n" + line(2))
    assert completed(watch, found) == [{"AllReduce": 2}]


def test_a_log_that_comes_later_is_found(watch: InspectorWatch, tmp_path: Path) -> None:
    """The plugin opens it with the first communicator."""
    found = switched_on(tmp_path)
    assert completed(watch, found) == []
    (root_of(tmp_path, found) / f"dumps/h-pid{found.inner_pid}.log").write_bytes(line(0) + b"\n")
    assert completed(watch, found, LOOK_AGAIN_S) == [{"AllReduce": 1}]


def test_a_process_without_the_inspector_has_no_log(watch: InspectorWatch, tmp_path: Path) -> None:
    """Nothing is opened that a job did not switch on."""
    found = process(tmp_path, NCCL_INSPECTOR_DUMP_DIR="/dumps")
    (root_of(tmp_path, found) / "dumps").mkdir()
    (root_of(tmp_path, found) / f"dumps/h-pid{found.inner_pid}.log").write_bytes(line(0) + b"\n")
    assert completed(watch, found) == []


def test_the_default_folder_is_where_the_process_runs(
    watch: InspectorWatch, tmp_path: Path
) -> None:
    """Named after the job."""
    found = process(tmp_path, NCCL_INSPECTOR_ENABLE="1", SLURM_JOB_ID="71")
    folder = root_of(tmp_path, found) / "work/nccl-inspector-71"
    folder.mkdir(parents=True)
    (tmp_path / str(found.pid) / "cwd").symlink_to("/work")
    (folder / f"h-pid{found.inner_pid}.log").write_bytes(line(0) + b"\n")
    assert completed(watch, found) == [{"AllReduce": 1}]


def test_a_log_that_is_a_link_is_not_followed(watch: InspectorWatch, tmp_path: Path) -> None:
    """Out of the container, or to another user's file."""
    found = switched_on(tmp_path)
    (tmp_path / "secret").write_bytes(line(0) + b"\n")
    (root_of(tmp_path, found) / f"dumps/h-pid{found.inner_pid}.log").symlink_to(tmp_path / "secret")
    assert completed(watch, found) == []


def test_bandwidth_is_read_from_the_file_of_each_gpu(watch: InspectorWatch, tmp_path: Path) -> None:
    """One that is half written is left for the next look."""
    found = switched_on(tmp_path)
    watch.look([found], 0)
    path = root_of(tmp_path, found) / f"dumps/nccl_inspector_metrics_{found.uuids[0]}.prom"
    path.write_bytes(PROM[:-1])
    assert watch.bandwidths([found]) == []
    path.write_bytes(PROM)
    assert watch.bandwidths([found]) == [187.5]


def test_a_process_that_ended_is_let_go(watch: InspectorWatch, tmp_path: Path) -> None:
    """With its files."""
    found = switched_on(tmp_path)
    (root_of(tmp_path, found) / f"dumps/h-pid{found.inner_pid}.log").write_bytes(line(0) + b"\n")
    watch.look([found], 0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    watch.look([], 1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 1
