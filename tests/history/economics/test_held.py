"""Who had the GPUs of a node, from events of which some are missing."""

from __future__ import annotations

import pytest

from history.economics.held import held
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.observation import Event

NODE = Device("n1", "node", "n1")
END = 100
Row = tuple[str, int, int, str]  # job, from, until, GPUs


def at(second: int, kind: str, job: str, gpus: str = "", scheduler: str = "slurm") -> Event:
    """An event of a job; "" as the scheduler is a program that uses NCCL."""
    facts = {"job": job} | ({"gpus": gpus} if gpus else {})
    facts |= {"scheduler": scheduler} if scheduler else {}
    return Event(second * SECOND_NS, 0, NODE, f"job_{kind}", facts)


def process(second: int, kind: str, job: str, gpus: str = "") -> Event:
    """An event of a program that uses NCCL."""
    return at(second, kind, job, gpus, "")


CASES: dict[str, tuple[list[Event], list[Row]]] = {
    "a job that ends": (
        [at(10, "started", "71", "a b"), at(20, "ended", "71")],
        [("71", 10, 20, "a b")],
    ),
    "a job that runs": ([at(10, "started", "71", "a")], [("71", 10, END, "a")]),
    "a job reported again": (
        [at(10, "started", "71", "a"), at(20, "started", "71", "a b")],
        [("71", 10, 20, "a"), ("71", 20, END, "a b")],
    ),
    "the next one takes all": (
        [at(10, "started", "71", "a"), at(20, "started", "72", "a"), at(30, "ended", "72")],
        [("71", 10, 20, "a"), ("72", 20, 30, "a")],
    ),
    "the next one takes some": (
        [at(10, "started", "71", "a b"), at(20, "started", "72", "b"), at(30, "ended", "72")],
        [("71", 10, 20, "b"), ("71", 10, END, "a"), ("72", 20, 30, "b")],
    ),
    "a process of a job that is over": (
        [
            at(10, "started", "71", "a"),
            process(11, "started", "71.0", "a"),
            at(20, "started", "72", "a"),
        ],
        [("71.0", 11, 20, "a"), ("71", 10, 20, "a"), ("72", 20, END, "a")],
    ),
    "a process that was not seen to end": (
        [
            at(10, "started", "71", "a"),
            process(11, "started", "71.0", "a"),
            at(20, "ended", "71"),
        ],
        [("71.0", 11, 20, "a"), ("71", 10, 20, "a")],
    ),
    "a program that begins again in its job": (
        [
            at(10, "started", "71", "a"),
            process(11, "started", "71", "a"),
            process(20, "ended", "71"),
            at(30, "started", "71", "a"),
            at(40, "ended", "71"),
        ],
        [("71", 11, 20, "a"), ("71", 10, 30, "a"), ("71", 30, 40, "a")],
    ),
    "programs that share a GPU": (
        [process(10, "started", "x", "a"), process(20, "started", "y", "a")],
        [("x", 10, END, "a"), ("y", 20, END, "a")],
    ),
    "a program under a name of its own": (
        [
            at(10, "started", "71", "a"),
            process(11, "started", "torchrun:x", "a"),
            at(20, "started", "71", "a"),
        ],
        [("torchrun:x", 11, END, "a"), ("71", 10, 20, "a"), ("71", 20, END, "a")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_gpu_is_held_until_its_job_ends_or_another_has_it(case: str) -> None:
    """Where jobs overlap the last one counts: the scheduler's."""
    events, rows = CASES[case]
    assert [
        (one.start.attributes["job"], one.begin_ms // 1000, one.end_ms // 1000, " ".join(one.gpus))
        for one in held(events, (), END * 1000)
    ] == rows


@pytest.mark.parametrize("later", [[], [at(50, "started", "72", "b")]])
@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes", ""])
def test_no_job_is_held_over_a_restart_of_its_node(scheduler: str, later: list[Event]) -> None:
    """It ends where the node was last seen; one that begins afterwards is not touched by it."""
    events = [at(10, "started", "71", "a", scheduler), *later]
    first, *others = sorted(held(events, [(30_000, 40_000)], END * 1000), key=lambda h: h.begin_ms)
    assert (first.end_ms, first.gpus) == (30_000, ("a",))
    assert [one.end_ms for one in others] == [END * 1000 for _ in later]
