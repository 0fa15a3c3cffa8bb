"""Which processes hold a GPU, where NVML lists its processes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from collector.node.gpu_processes import NO_INSTANCE, Holder
from collector.sources.nccl.discovery.holding import MPS, holding
from tests.collector.sources.nccl.processes import process


def held(proc: Path, *listed: int) -> list[tuple[int, tuple[str, ...]]]:
    """Of a process with a GPU, a worker that it forked, one that this forked, a process of another
    launcher and one with a rank of its own: pid and GPUs of those that are left.
    """
    rows = ((812, 1), (900, 812), (901, 900), (813, 1), (814, 812))
    found = [replace(process(proc, pid, rank=-1), parent=up, uuids=("GPU-0",)) for pid, up in rows]
    holders = {"GPU-0": tuple(Holder(pid, NO_INSTANCE) for pid in listed)}
    return [(one.pid, one.uuids) for one in holding(found, holders, proc)]


def test_workers_that_a_process_forked_are_none_of_the_job(tmp_path: Path) -> None:
    """They come and go with every epoch, and none of them is a loss: also where the program gave
    itself no rank. A child that computes is one.
    """
    assert held(tmp_path, 812, 814) == [(812, ("GPU-0",)), (813, ()), (814, ("GPU-0",))]


def test_a_list_without_a_process_s_parent_says_nothing_of_it(tmp_path: Path) -> None:
    """NVML may list another process, or none."""
    assert [pid for pid, _ in held(tmp_path, 813)] == [812, 900, 901, 813, 814]
    assert {uuids for _, uuids in held(tmp_path)} == {("GPU-0",)}


@pytest.mark.root
def test_no_name_of_a_process_gives_a_job_the_gpu_of_another(tmp_path: Path) -> None:
    """MPS' server holds a GPU for its own user, root's for all: who is called like it, and uses a
    GPU, makes none of those its holders that only opened it.
    """
    (tmp_path / "self").mkdir()
    victim = replace(process(tmp_path, 812), user=7, uuids=("GPU-0",))

    def gpus(server: int) -> tuple[str, ...]:
        folder = tmp_path / "900"
        folder.mkdir(exist_ok=True)
        (folder / "comm").write_text(f"{MPS}\n")
        os.chown(folder, server, server)
        (found,) = holding([victim], {"GPU-0": (Holder(900, NO_INSTANCE),)}, tmp_path)
        return found.uuids

    assert [gpus(user) for user in (666, 7, 0)] == [(), ("GPU-0",), ("GPU-0",)]
