"""The agent's own process, read from a made-up /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.process_collector import ProcessCollector

from pipeline.exposition.process import ProcessSamples

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
# A command with a blank and a bracket in its name: only the last bracket ends it.
STAT = "4242 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 {utime} {stime} 13 14 15 16 17 18 {start} {vsize} {rss} 21 22\n"


def proc(folder: Path, **files: str) -> Path:
    """A /proc with these files, the process's own below self."""
    (folder / "self" / "fd").mkdir(parents=True)
    for number in range(3):
        (folder / "self" / "fd" / str(number)).touch()
    told = {
        "stat": "cpu 1 2\nbtime 1700000000\nprocesses 5\n",
        "self/stat": STAT.format(utime=3 * TICKS, stime=TICKS, start=10 * TICKS, vsize=2**40 + 1, rss=7),
        "self/limits": "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\n",
    }
    for name, text in (told | {key.replace("_", "/"): value for key, value in files.items()}).items():
        if text:
            (folder / name).write_text(text)
    return folder


def told(folder: Path) -> dict[str, float]:
    """What it says, by name."""
    return {sample.family.name: sample.value for sample in ProcessSamples(folder).samples()}


def test_each_number_is_read(tmp_path: Path) -> None:
    """Exactly what the kernel's files hold, in base units."""
    assert told(proc(tmp_path)) == {
        "process_virtual_memory_bytes": 2**40 + 1,
        "process_resident_memory_bytes": 7 * PAGE,
        "process_cpu_seconds_total": 4.0,
        "process_start_time_seconds": 1_700_000_010.0,
        "process_open_fds": 3,
        "process_max_fds": 1024,
    }


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ({"self_limits": "Limit Soft\n"}, {"process_max_fds"}),
        ({"self_limits": "Max open files unlimited unlimited files\n"}, {"process_max_fds"}),
        ({"stat": "cpu 1\n"}, {"process_start_time_seconds"}),
        ({"self_stat": "junk"}, {"process_virtual_memory_bytes", "process_resident_memory_bytes", "process_cpu_seconds_total"}),
    ],
)
def test_what_the_kernel_does_not_tell_is_absent(tmp_path: Path, files: dict[str, str], missing: set[str]) -> None:
    """One unreadable number hides no other."""
    names = set(told(proc(tmp_path, **files)))
    assert not missing & names
    assert "process_open_fds" in names


def test_no_proc_no_samples(tmp_path: Path) -> None:
    """A container without /proc is no error."""
    assert told(tmp_path / "nowhere") == {}


def test_it_agrees_with_prometheus_client() -> None:
    """Names and values of this process are those of the client's own collector."""
    ours = told(Path("/proc"))
    theirs = {s.name: s.value for m in ProcessCollector(registry=CollectorRegistry()).collect() for s in m.samples}
    assert set(ours) == set(theirs)
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert ours[name] == pytest.approx(theirs[name])
    assert ours["process_cpu_seconds_total"] == pytest.approx(theirs["process_cpu_seconds_total"], abs=1.0)
