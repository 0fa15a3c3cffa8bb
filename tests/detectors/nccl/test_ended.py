"""Processes that end, in the order in which looks at their nodes find them gone: by the events of
the real source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.sources.nccl.jobs import Jobs
from detectors.kit.snapshot import dump, load
from detectors.nccl.detector import Nccl
from pipeline.clock import SECOND_NS, Instant
from pipeline.frame import Device
from pipeline.observation import Event
from tests.collector.sources.nccl.processes import process
from tests.detectors.nccl.jobs import BEGIN_NS
from tests.detectors.nccl.test_detector import JOB, Scene, late, with_gpus

LOOK_S = 15


class Nodes(Scene):
    """Nodes with two or four ranks each of one job of Slurm's, whose agents look every 15 s."""

    def __init__(self, folder: Path, hosts: Sequence[str] = ("n1",)) -> None:
        super().__init__(hosts)
        self._folder, self._jobs = folder, {host: Jobs(host) for host in hosts}
        per_node = 4 // len(hosts)
        self.ranks = {
            host: range(place * per_node, (place + 1) * per_node)
            for place, host in enumerate(hosts)
        }
        self.gpus = {host: self.gpus[host][:per_node] for host in hosts}
        for host in hosts:
            gpus = " ".join(gpu.id for gpu in self.gpus[host])
            facts = {"job": JOB, "gpus": gpus, "scheduler": "slurm"}
            self.see(
                host, Event(self.now.time_ns, 0, Device(host, "node", host), "job_started", facts)
            )
            self.look(host)

    @property
    def now(self) -> Instant:
        """Unix and monotonic time."""
        now = BEGIN_NS + round(self.second * SECOND_NS)
        return Instant(now, now)

    def look(self, host: str = "n1", *, without: Sequence[int] = (), restarts: int = 0) -> None:
        """A look at a node on which these ranks are gone; processes have other pids and start times
        after each restart.
        """
        found = [
            replace(
                process(self._folder, 100 * restarts + rank + 800, rank=rank, started_s=restarts),
                uuids=(gpu.id,),
            )
            for rank, gpu in zip(self.ranks[host], self.gpus[host], strict=True)
            if rank not in without
        ]
        self.see(host, *self._jobs[host].update(found, self.second, self.now))

    def stall(self, behind: int = 3) -> None:
        """Two reports in which one rank is behind, before a look."""
        self.report(with_gpus(late(self.second, behind=behind), self))
        self.wait(20)
        self.report(with_gpus(late(self.second, behind=behind), self))
        self.wait(1)

    def named(self) -> dict[str, tuple[str, ...]]:
        """Evidence by the device of each lost process that is paged and open."""
        found = {}
        for finding in self.findings:
            if finding.fault == "hang/process_lost" and finding.severity == "page":
                found[finding.device.id] = finding.evidence if finding.active else ()
        return {device: evidence for device, evidence in found.items() if evidence}

    def proc(self) -> list[str]:
        """What the evidence says of processes, without who they are."""
        texts = {text for evidence in self.named().values() for text in evidence}
        return sorted({text.partition(" ended ")[2] for text in texts if text.startswith("proc: ")})


def test_a_process_that_others_outlive_is_named(tmp_path: Path) -> None:
    """It ended while they ran, whatever happens to them later."""
    scene = Nodes(tmp_path)
    scene.stall()
    scene.look(without=[3])
    scene.wait(30)
    assert scene.named().keys() == {"GPU-n1-3"}
    assert scene.proc() == ["while other processes of its job ran on the node"]


def test_of_two_that_end_between_the_same_looks_the_first_is_not_known(tmp_path: Path) -> None:
    """Both are named, and the evidence says so."""
    scene = Nodes(tmp_path)
    scene.stall()
    scene.look(without=[1, 3])
    scene.wait(30)
    assert scene.named().keys() == {"GPU-n1-1", "GPU-n1-3"}
    (words,) = scene.proc()
    assert words.endswith("; 2 ended between the same two looks, the first is not known")


def test_those_that_end_after_the_first_are_not_named(tmp_path: Path) -> None:
    """A launcher ends the others one by one: the root cause is the one of the first look."""
    scene = Nodes(tmp_path)
    scene.stall()
    scene.look(without=[3])
    scene.wait(LOOK_S)
    scene.look(without=[0, 1, 3])
    scene.wait(30)
    assert scene.named().keys() == {"GPU-n1-3"}
    assert "after another process of its job" in scene.proc()


def test_a_job_all_of_whose_processes_end_between_two_looks_lost_none(tmp_path: Path) -> None:
    """Its allocation goes on, as that of a script with several steps does: nobody waits any more,
    and no rank is known to be the first.
    """
    for stalled in (False, True):
        scene = Nodes(tmp_path)
        if stalled:
            scene.stall()
            scene.wait(2 * LOOK_S)
        scene.look(without=range(4))
        scene.wait(120)
        assert scene.named() == {}
        faults = {finding.fault for finding in scene.findings if finding.severity != "record"}
        assert faults == ({"hang/host_hang"} if stalled else set())
        if stalled:
            last = scene.findings[-1]
            assert (last.phase, last.evidence[-1]) == (
                "cleared",
                "all processes of the job have ended",
            )


FAILED = "failed (exitcode: -11) local_rank: 3 (pid: 803) of binary: /usr/bin/python3"


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_what_a_launcher_says_after_the_last_process_is_no_stall(
    tmp_path: Path, *, again: bool, restarted: bool
) -> None:
    """The log is read after the look that finds them gone: nobody is left to wait. Where the job
    has begun again it counts.
    """
    scene = Nodes(tmp_path)
    scene.look(without=range(4))
    if again:
        scene.look(restarts=1)
    if restarted:
        kept, scene.detector = dump([scene.detector]), Nccl()
        assert load(kept, [scene.detector]) == ()
    scene.lines(FAILED)
    scene.wait(120)
    assert bool(scene.alerts()) is again


def test_a_process_that_a_launcher_names_by_its_id_is_that_of_its_gpu(tmp_path: Path) -> None:
    """One incident about a GPU of a node, whose job has an owner."""
    scene = Nodes(tmp_path)
    scene.look(without=[3])
    scene.lines(FAILED)
    scene.wait(60)
    (found,) = {f.device for f in scene.findings if f.severity == "page"}
    assert (found.host, found.kind, found.id) == ("n1", "gpu", "GPU-n1-3")


def test_a_job_that_ends_after_its_first_process_is_no_stall(tmp_path: Path) -> None:
    """A look later all are gone: the page, if it was sent, ends."""
    for seconds in (LOOK_S, 3 * LOOK_S):
        scene = Nodes(tmp_path)
        scene.stall()
        scene.look(without=[3])
        scene.wait(seconds)
        scene.look(without=range(4))
        scene.wait(60)
        assert scene.named() == {}


def test_all_processes_of_one_of_two_nodes(tmp_path: Path) -> None:
    """Others of the job run elsewhere and wait: the words say what is known of the first. It is
    over when those have ended too.
    """
    scene = Nodes(tmp_path, ("n1", "n2"))
    scene.stall(behind=2)
    scene.look("n2", without=range(4))
    scene.wait(30)
    assert scene.named().keys() == {"GPU-n2-0", "GPU-n2-1"}
    (words,) = scene.proc()
    assert words == (
        "between two looks with all processes of its job on the node, while others ran on other "
        "nodes; which was the first is not known"
    )
    scene.look("n1", without=range(4))
    scene.wait(60)
    assert scene.named() == {}


def test_both_of_two_nodes_within_the_time_between_two_looks(tmp_path: Path) -> None:
    """No node is accused for being looked at first."""
    scene = Nodes(tmp_path, ("n1", "n2"))
    scene.stall(behind=2)
    scene.look("n2", without=range(4))
    scene.wait(LOOK_S - 1)
    scene.look("n1", without=range(4))
    scene.wait(120)
    assert [f.fault for f in scene.findings if f.fault == "hang/process_lost"] == []


@pytest.mark.parametrize("hosts", [("n1",), ("n1", "n2")])
def test_a_job_that_begins_again_has_lost_nobody(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    """An elastic launcher starts all ranks again before the next look at each node."""
    scene = Nodes(tmp_path, hosts)
    scene.stall()
    for host in hosts:
        scene.look(host, restarts=1)
        scene.wait(2)
    scene.wait(120)
    assert scene.named() == {}


def test_a_restart_of_the_agent_changes_no_word(tmp_path: Path) -> None:
    """What was seen before it is remembered with its look."""
    scene = Nodes(tmp_path)
    scene.stall()
    scene.look(without=[3])
    fresh = Nccl()
    assert load(dump([scene.detector]), [fresh]) == ()
    scene.detector = fresh
    scene.wait(LOOK_S)
    scene.look(without=[0, 3])
    scene.wait(30)
    assert scene.named().keys() == {"GPU-n1-3"}
