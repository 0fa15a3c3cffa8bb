"""Sends and receives of real dumps' form: who never called the other end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from collector.sources.nccl.flight_recorder.dump import parse_dump
from detectors.nccl.case import Case
from detectors.nccl.judge import judge
from detectors.nccl.verdict import Verdict
from pipeline.nccl.report import Report
from pipeline.nccl.wire import packed, unpacked_report

BEGIN_NS = 1_795_168_800_000_000_000
RANKS = 4


def call(name: str, seq: int, *, state: str = "scheduled") -> dict[str, Any]:
    """A send or receive as PyTorch 2.13 dumps it."""
    return {
        "record_id": seq,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": 0,
        "p2p_seq_id": seq,
        "op_id": seq,
        "profiling_name": name,
        "time_created_ns": BEGIN_NS + seq,
        "state": state,
        "is_p2p": True,
        "retired": state == "completed",
    }


def dump(rank: int, entries: Sequence[dict[str, Any]]) -> Report:
    """The dump of a rank."""
    document = {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str([*range(RANKS)])}},
        "pg_status": {},
        "entries": [
            *entries,
            *([] if entries else [call(f"nccl:recv {rank}<-9", 1, state="completed")]),
        ],
    }
    return parse_dump(json.dumps(document).encode(), f"/dumps/rank_{rank}.json")


def of(*dumps: Report) -> Verdict:
    """The verdict; what is stored between is the same."""
    return judge(Case(tuple(unpacked_report(packed(report)) for report in dumps)))


def culprits(verdict: Verdict) -> list[int]:
    """Ranks that are named."""
    return [culprit.rank for culprit in verdict.culprits]


def test_a_receive_whose_send_was_never_called_names_the_sender() -> None:
    """A pipeline of four stages: 2 and 3 wait, 1 waits for 0, which called nothing."""
    verdict = of(
        dump(0, []),
        dump(1, [call("nccl:recv 1<-0", 2)]),
        dump(2, [call("nccl:recv 2<-1", 2)]),
        dump(3, [call("nccl:recv 3<-2", 2)]),
    )
    assert (verdict.cause, culprits(verdict)) == ("host_hang", [0])
    assert any("never began the latest send for rank 1" in e.text for e in verdict.evidence)


def test_a_send_whose_receive_was_never_called_names_the_receiver() -> None:
    """The other way round."""
    verdict = of(dump(0, [call("nccl:send 0->1", 2)]), dump(1, []), dump(2, []), dump(3, []))
    assert culprits(verdict) == [1]


def test_a_transfer_that_both_called_names_nobody() -> None:
    """It is in flight."""
    verdict = of(
        dump(0, [call("nccl:send 0->1", 2)]),
        dump(1, [call("nccl:recv 1<-0", 2)]),
        dump(2, []),
        dump(3, []),
    )
    assert verdict.culprits == ()


def test_a_sender_without_a_dump_is_not_named() -> None:
    """What it called is not known."""
    verdict = of(*(dump(rank, [call(f"nccl:recv {rank}<-0", 2)]) for rank in (1, 2, 3)))
    assert verdict.culprits == ()


def test_a_batch_is_over_with_its_last_entry() -> None:
    """Of a coalesced batch PyTorch marks only that one as completed."""
    batch = [call("nccl:recv 1<-0", 2), call("nccl:coalesced", 2, state="completed")]
    assert of(dump(0, []), dump(1, batch), dump(2, []), dump(3, [])).culprits == ()
    batch[1]["state"], batch[1]["retired"] = "scheduled", False
    assert culprits(of(dump(0, []), dump(1, batch), dump(2, []), dump(3, []))) == [0]
