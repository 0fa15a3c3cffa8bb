"""A stalled job of several nodes, through the bytes that NCCL and PyTorch would write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.sources.nccl.flight_recorder.dump import parse_dump
from collector.sources.nccl.ras.parse import parse_ras
from detectors.nccl.case import Case
from detectors.nccl.judge import judge
from pipeline.clock import SECOND_NS
from simulator.nccl.job import Peer
from simulator.nccl.json_reply import render_json
from simulator.nccl.stalled import STEP, WORLD, How, StalledJob

NODES, GPUS, STUCK_NS = 3, 8, 1_772_409_600 * SECOND_NS
PEERS = tuple(
    Peer(f"10.0.0.{n}", 1000 + 10 * n + g, (g,)) for n in range(NODES) for g in range(GPUS)
)
CALLS = range(len(STEP))


def stalled(culprit: int, at: int, how: How = "late", tensor: int = 4) -> StalledJob:
    """A job whose rank ``culprit`` does not make call ``at`` of its 50th step."""
    return StalledJob(PEERS, tensor, culprit, at, how, 49, STUCK_NS, 0xC0DE)


@pytest.mark.parametrize("at", CALLS)
@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_two_replies_name_the_rank_that_did_not_come(at: int, tensor: int) -> None:
    """Whichever group waits first, and whoever waits for that group."""
    for culprit in (0, 5, 23):
        text = render_json(stalled(culprit, at, tensor=tensor).ras(), "2026-03-02 00:00:00")
        looks = [replace(parse_ras(text.encode()), time_ns=n * SECOND_NS) for n in (1, 20)]
        verdict = judge(Case(looks, live=True))
        assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("host_hang", [culprit])


@pytest.mark.parametrize("at", CALLS)
def test_dumps_name_the_rank_that_did_not_come(at: int) -> None:
    """Of all ranks, half a minute after."""
    job = stalled(13, at)
    dumps = [
        parse_dump(job.dump(rank), f"trace_{rank}", time_ns=STUCK_NS + 30 * SECOND_NS)
        for rank in job.groups[WORLD]
    ]
    verdict = judge(Case(dumps, live=True))
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("host_hang", [13])


def test_a_process_that_does_not_answer_is_named_by_one_reply() -> None:
    """RAS lists it as missing."""
    text = render_json(stalled(9, 2, "gone").ras({9: "unresponsive"}), "2026-03-02 00:00:00")
    verdict = judge(Case([replace(parse_ras(text.encode()), time_ns=1)], live=True))
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("process_lost", [9])


def test_another_call_is_named_by_replies_and_by_dumps() -> None:
    """Broadcast where all others called AllReduce."""
    job = stalled(9, len(STEP) - 1, "mismatch")
    text = render_json(job.ras(), "2026-03-02 00:00:00")
    looks = [replace(parse_ras(text.encode()), time_ns=n * SECOND_NS) for n in (1, 20)]
    dumps = [
        parse_dump(job.dump(rank), f"trace_{rank}", time_ns=STUCK_NS + 30 * SECOND_NS)
        for rank in job.groups[WORLD]
    ]
    for reports in (looks, dumps):
        verdict = judge(Case(reports, live=True))
        assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("order_mismatch", [9])
