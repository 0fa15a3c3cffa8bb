"""Reports and lines that lie: a verdict always comes, in bounded time and memory."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.sources.joblog.table import PATTERNS
from detectors.nccl.case import Case
from detectors.nccl.judge import judge
from detectors.nccl.verdict import CAUSES
from detectors.nccl.words import lines
from pipeline.nccl.hit import Hit
from pipeline.nccl.member import WHOLE, Member
from pipeline.nccl.report import Communicator, Report, Unlisted
from tests.detectors.nccl.jobs import ras

ADDITIONS = 10**8  # seconds on any machine
SMALL = st.integers(-1, 4)
NAMES = st.sampled_from(["", "a", "0", "10.0.0.1"])
NAMED = [pattern.name for pattern in PATTERNS]
FIELDS = {
    "st_b": "12", "hca": (
        "mlx5_0"
    ), "peer": "n2", "enq": "5", "done": "4", (
        "ranks"
    ): "0,1,2", "jf": "3", "node": "n1", "t": "[0-3]", "why": (
        "Killed"
    ),
    "code": "-9", "lr": "0", "pid": "3", "err": "x", "what": (
        "Init START"
    ), "comm": "0x1", "rank": "1", "nranks": "3", "xid": "79", "bdf": "0:1:0",
    "lib": "libnccl.so.2", "r": "1", "seq": "5", "op": "X", "ran": "10", "sig": "9",
}  # fmt: skip
MEMBERS = st.builds(
    Member,
    SMALL,
    SMALL,
    NAMES,
    SMALL,
    SMALL,
    state=st.sampled_from(["ok", "left", "dead", "init", "abort", "unresponsive"]),
    error=SMALL,
    launched=st.lists(
        st.tuples(st.sampled_from([WHOLE, "AllReduce"]), st.integers(-1, 3)), max_size=2
    ).map(tuple),
    completed=st.lists(
        st.tuples(st.sampled_from([WHOLE, "AllReduce"]), st.integers(-1, 3)), max_size=2
    ).map(tuple),
)
COMMUNICATORS = st.builds(
    Communicator,
    NAMES,
    SMALL,
    st.lists(MEMBERS, max_size=5).map(tuple),
    NAMES,
    NAMES,
    st.lists(SMALL, max_size=3).map(tuple),
    st.lists(st.builds(Unlisted, SMALL, NAMES, SMALL), max_size=2).map(tuple),
)
CROSSED = st.builds(
    Report,
    st.sampled_from(["ras", "flight_recorder", "inspector", "log"]),
    time_ns=st.integers(0, 2).map(lambda n: n * 20 * 10**9),
    world_rank=SMALL,
    communicators=st.lists(COMMUNICATORS, max_size=3).map(tuple),
)
HITS = st.builds(
    Hit,
    st.sampled_from(NAMED),
    st.just("link"),
    st.just("reporter"),
    SMALL,
    NAMES,
    SMALL,
    SMALL,
    SMALL,
    NAMES,
    SMALL,
    st.just(FIELDS),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(CROSSED, max_size=4), st.lists(HITS, max_size=6))
def test_a_verdict_always_comes(reports: list[Report], hits: list[Hit]) -> None:
    """Whatever is reported, in numbers and names that contradict each other; and it can be
    given in words and as JSON.
    """
    verdict = judge(Case(reports, hits))
    assert verdict.cause in CAUSES
    assert 0.0 <= verdict.confidence <= 1.0
    assert verdict.document()["class"] == verdict.cause
    assert list(lines(verdict))


def bombs() -> dict[str, Case]:
    """Small or large, each made to take all memory or for ever."""
    many = tuple(
        Member(r, host="h", pid=r, launched=(("AllReduce", r), ("AllGather", -r)))
        for r in range(5_000)
    )
    ranks = tuple(range(1_000_000))
    member = (Member(0, 0, launched=((WHOLE, 2),), completed=((WHOLE, 1),)),)
    begun = [
        Hit(
            "comm_life",
            "mapping",
            "nobody",
            10**18,
            "h",
            n,
            fields={
                "what": "Init START",
                "comm": f"{n}",
                "rank": "0",
                "nranks": "999999999999",
                "commid": f"{n}",
            },
        )
        for n in range(2000)
    ]
    return {
        "a size without end": Case(
            [ras(Communicator("c", 10**18, (), unlisted=(Unlisted(10**18, "AllReduce", 3),)))]
        ),
        "ranks without end": Case(
            [
                Report(
                    "flight_recorder",
                    world_rank=0,
                    communicators=(Communicator("0", 10**6, member, ranks=ranks),),
                )
            ]
        ),
        "every rank elsewhere": Case(
            [ras(Communicator("c", 5_000, many)), ras(Communicator("c", 5_000, many), at=20.0)]
        ),
        "counts beyond 64 bits": Case(
            [
                ras(
                    Communicator(
                        "c",
                        2,
                        (Member(0, launched=(("A", 2**70),)), Member(1, launched=(("A", 1),))),
                    )
                )
            ]
        ),
        "communicators without end": Case(
            [ras(*(Communicator(f"{n}", 2, (Member(0), Member(1))) for n in range(5_000)))]
        ),
        "beginnings without end": Case(
            hits=[*begun, Hit("cuda", "gpu", "reporter", 10**18 + 10**12, fields={"err": "x"})]
        ),
        "processes without end": Case(
            hits=[
                Hit("cuda", "gpu", "reporter", 0, f"h{n}", n, fields={"err": "x"})
                for n in range(2000)
            ]
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", list(bombs()))
def test_a_lie_costs_little(name: str) -> None:
    """At most as much CPU as a hundred million additions, whatever a report says of its own size;
    memory without end would take longer.
    """
    case = bombs()[name]
    begin = time.process_time()
    judge(case)
    took_s = time.process_time() - begin
    begin = time.process_time()
    sum(n + 1 for n in range(ADDITIONS // 20))
    assert took_s < 20 * (time.process_time() - begin)
