"""A simulated node owns its directory: /proc, kernel log, markers; and takes no
directory that is not its own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator.injection import inject
from simulator.nvml_client import NVMLError, open_client
from simulator.rendering import Rendering, render_once
from tests.fakes import FakeClock

RECORD = re.compile(r"(?P<prio>\d),(?P<seq>\d+),(?P<usec>\d+),-;(?P<text>[ -~]+)")


@pytest.mark.slow
def test_kernel_log_has_the_records_of_dev_kmsg(tmp_path: Path) -> None:
    """Kernel priority, rising sequence numbers, monotonic microseconds, continuation
    lines with a leading blank.
    """
    clock = FakeClock()
    rendering = Rendering(tmp_path, "hgx-h100", seed=1, clock=clock)
    inject(rendering.node, "xid@gpu2+1s:code=79")
    inject(rendering.node, "link_down@mlx5_0+5s")
    for _ in range(10):
        clock.advance(1)
        rendering.step(1)
    rendering.close()
    lines = (tmp_path / "dev" / "kmsg").read_text().splitlines()
    records = [match for line in lines if (match := RECORD.fullmatch(line))]
    assert len(records) + sum(
        line.startswith((" SUBSYSTEM=", " DEVICE=")) for line in lines
    ) == len(lines)
    assert [int(r["seq"]) for r in records] == list(range(len(records)))
    assert all(int(r["prio"]) < 8 for r in records)
    xid = next(r for r in records if "Xid" in r["text"])
    assert 101e6 <= int(xid["usec"]) <= 102e6
    assert records[-1]["text"] == "mlx5_core 0000:18:00.0 ibp24s0: Link down"


@pytest.mark.slow
def test_proc_tells_boot_and_driver(tmp_path: Path) -> None:
    """Btime is the clock's boot, the boot id is a UUID, the driver's version stands
    where the driver puts it.
    """
    clock = FakeClock()
    render_once(tmp_path, "hgx-h100", seconds=1, clock=clock)
    proc = tmp_path / "proc"
    assert (
        f"btime {(clock.time_ns() - clock.monotonic_ns()) // 10**9}\n"
        in (proc / "stat").read_text()
    )
    assert re.fullmatch(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n",
        (proc / "sys/kernel/random/boot_id").read_text(),
    )
    assert "580.95.05" in (proc / "driver/nvidia/version").read_text()
    assert re.search(r"^MemTotal: +\d+ kB$", (proc / "meminfo").read_text(), re.MULTILINE)


@pytest.mark.slow
def test_processes_of_the_job_have_names_while_it_lives(tmp_path: Path) -> None:
    """/proc/PID/comm is there for what NVML lists, and gone when the job died."""
    rendering = Rendering(tmp_path, "gb200", seed=1, clock=FakeClock())
    rendering.step(60)
    nvml = open_client(tmp_path)
    (process,) = nvml.nvmlDeviceGetComputeRunningProcesses_v3(nvml.nvmlDeviceGetHandleByIndex(1))
    comm = tmp_path / "proc" / str(process.pid) / "comm"
    assert comm.read_text() == "python3\n"
    inject(rendering.node, "oom_kill")
    rendering.step(10)
    assert not comm.parent.exists()
    rendering.close()


@pytest.mark.slow
def test_another_start_is_another_boot(tmp_path: Path) -> None:
    """The boot id changes with the time of the boot, the GPUs' identities do not."""
    first = render_once(tmp_path / "a", "gb200", seconds=1, clock=FakeClock())
    later = FakeClock()
    later.step(3600)
    second = render_once(tmp_path / "b", "gb200", seconds=1, clock=later)
    boots = {(tmp_path / d / "proc/sys/kernel/random/boot_id").read_text() for d in "ab"}
    assert len(boots) == 2
    assert first.uuids == second.uuids


@pytest.mark.slow
def test_render_once_is_reproducible(tmp_path: Path) -> None:
    """The same profile, seed, faults and clock give the same files, byte for byte."""
    for name in ("a", "b"):
        render_once(
            tmp_path / name,
            "hgx-a100",
            seed=7,
            seconds=90,
            faults=("ecc_storm@gpu1+30s",),
            clock=FakeClock(),
        )
    files = sorted(
        p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file()
    )
    assert len(files) > 300
    assert [
        f for f in files if (tmp_path / "a" / f).read_bytes() != (tmp_path / "b" / f).read_bytes()
    ] == []


@pytest.mark.slow
def test_ready_marks_a_directory_that_can_be_read(tmp_path: Path) -> None:
    """``ready`` is there once everything is written, and gone when the simulation ends."""
    rendering = Rendering(tmp_path, "gb200", seed=1, clock=FakeClock())
    assert not (tmp_path / "ready").exists()
    rendering.ready()
    assert (tmp_path / "ready").exists()
    assert open_client(tmp_path).nvmlDeviceGetCount() == 4
    rendering.close()
    assert not (tmp_path / "ready").exists()


def test_foreign_directory_is_refused_untouched(tmp_path: Path) -> None:
    """A directory with other files in it is not written into."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="no simulated node"):
        Rendering(tmp_path, "hgx-h100", seed=1)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_unknown_profile_creates_nothing(tmp_path: Path) -> None:
    """A typing mistake leaves no directory behind."""
    with pytest.raises(ValueError, match="no profile"):
        Rendering(tmp_path / "node", "hgx-h1000", seed=1)
    assert not (tmp_path / "node").exists()


@pytest.mark.slow
def test_directory_of_a_running_simulation_is_refused(tmp_path: Path) -> None:
    """Two simulations never write one directory."""
    first = Rendering(tmp_path, "gb200", seed=1, clock=FakeClock())
    with pytest.raises(FileExistsError, match="being simulated by another process"):
        Rendering(tmp_path, "gb200", seed=2)
    first.close()


@pytest.mark.slow
def test_directory_of_an_ended_simulation_is_used_again(tmp_path: Path) -> None:
    """What an earlier one left (killed or ended) is replaced; who still has its table
    open sees the driver go (9).
    """
    first = Rendering(tmp_path, "hgx-h100", seed=1, clock=FakeClock())
    first.ready()
    stale = open_client(tmp_path)
    first.close()
    second = Rendering(tmp_path, "gb200", seed=2, clock=FakeClock())
    with pytest.raises(NVMLError) as caught:
        stale.nvmlDeviceGetCount()
    assert caught.value.value == 9
    assert open_client(tmp_path).nvmlDeviceGetCount() == 4
    assert len(list((tmp_path / "sys/class/infiniband").iterdir())) == 4
    second.close()
