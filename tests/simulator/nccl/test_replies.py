"""The fake RAS replies are those of NCCL, byte for byte, wherever a recording can tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.sources.nccl.ras.json_report import parse_json
from collector.sources.nccl.ras.text import parse_text
from simulator.nccl.job import OPERATIONS, Comm, Job, Peer, Seat, build
from simulator.nccl.json_reply import render_json
from simulator.nccl.text_reply import render_text
from tests.collector.sources.nccl.recordings import reply
from tests.simulator.nccl.recorded_jobs import job_of, without_time


@pytest.mark.parametrize(
    "name", ["ok.json", "async_one.json", "nocomm.json", "kill_t7.json", "stop_t7.json"]
)
def test_json_is_that_of_nccl(name: str) -> None:
    """A job rebuilt from a recording is rendered to the same bytes."""
    recorded = reply(name).decode()
    assert without_time(render_json(job_of(name), "")) == without_time(recorded)


@pytest.mark.parametrize("name", ["ok", "async_one", "nocomm", "kill_t7", "stop_t7"])
def test_text_of_the_same_moment_is_that_of_nccl(name: str) -> None:
    """The same job in NCCL's other form."""
    assert without_time(render_text(job_of(f"{name}.json"))) == without_time(
        reply(f"{name}.txt").decode()
    )


@pytest.mark.parametrize(
    ("name", "life"),
    [("kill_t0.2.txt", "unresponsive"), ("kill_t50.txt", "unresponsive"), ("kill_t65.txt", "dead")],
)
def test_a_death_is_told_as_nccl_tells_it(name: str, life: str) -> None:
    """Missing for a minute, then dead."""
    job = job_of("kill_t7.json")
    (gone,) = (peer for peer in job.peers if peer.life != "alive")
    gone.life = "dead" if life == "dead" else "unresponsive"
    assert without_time(render_text(job)) == without_time(reply(name).decode())


def test_timeouts_are_told_as_nccl_tells_them() -> None:
    """The first query after a process stopped."""
    job = job_of("stop_t7.json")
    job.timeouts = 2
    assert without_time(render_text(job)) == without_time(reply("stop_t0.2.txt").decode())


def test_ranks_that_are_behind_are_told_as_nccl_tells_them() -> None:
    """31 communicators of 16 ranks; in one of them the last four have
    launched one AllReduce less.
    """
    pids = [*range(23800, 23812), 23883, 23885, 23887, 23889]
    peers = [Peer(f"127.0.1.{1 + r // 8}", pid, (r % 8,)) for r, pid in enumerate(pids)]

    def comm(identity: int, counts: list[int]) -> Comm:
        return Comm(
            identity,
            (1, 1),
            [
                Seat(peer, peer.gpus[0], counts=[0, 0, 0, 0, n])
                for peer, n in zip(peers, counts, strict=True)
            ],
        )

    job = Job(
        peers,
        [
            comm(0xC7075C59E2491F69, [11] * 12 + [10] * 4),
            *(comm(n, [5] * 16) for n in range(1, 31)),
        ],
    )
    assert without_time(render_text(job)) == without_time(reply("mismatch_4of16.txt").decode())


@pytest.mark.parametrize("nccl", ["2.27.7", "2.28.9"])
def test_older_releases_print_as_they_did(nccl: str) -> None:
    """Seconds with two decimals until 2.28.3, with three from 2.28.7."""
    job = job_of("ok.json")
    pairs = [Comm(n, (1, 1), [Seat(job.peers[n], n), Seat(job.peers[n + 4], n)]) for n in range(4)]
    assert len({seat.peer.host for seat in pairs[0].seats}) == 2
    older = replace(job, nccl=nccl, comms=[*job.comms, *pairs])
    assert without_time(render_text(older)) == without_time(reply(f"ok_{nccl}-1.txt").decode())


def test_the_comma_is_missing_where_nccl_forgot_it() -> None:
    """In the entries of missing ranks of 2.28.7 to 2.28.9, and nowhere else."""
    job = job_of("kill_t7.json")
    whole, broken = (
        render_json(job, ""),
        render_json(replace(job, nccl="2.28.9"), "").replace("2.28.9", "2.30.7"),
    )
    assert len(whole) - len(broken) == 2
    assert parse_json(broken.encode()).communicators == parse_json(whole.encode()).communicators


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [8, 64, 1024])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_job_says_the_same_in_both_forms(ranks: int, seed: int) -> None:
    """Whoever is behind, missing or failing is found alike in text and JSON; nothing is unknown."""
    job = build(ranks, seed=seed)
    late, dead = job.peers[seed], job.peers[-seed]
    for _ in range(3):
        job.launch("AllReduce")
    job.launch("AllGather", without=[late])
    dead.life = "dead"
    text, whole = (
        parse_text(render_text(job, verbose=True)),
        parse_json(render_json(job, "").encode()),
    )
    assert text.trusted
    assert whole.trusted
    assert text.discarded == ()
    for reported in (text, whole):
        gone = {
            (m.host, m.pid) for c in reported.communicators for m in c.members if m.state == "dead"
        }
        assert gone == {(dead.host, dead.pid)}
    behind = {
        (m.host, m.pid)
        for c in text.communicators
        for m in c.members
        if dict(m.launched).get("AllGather") == 0
    }
    assert behind == {(late.host, late.pid)}
    assert {
        m.pid
        for c in whole.communicators
        for m in c.members
        if dict(m.launched).get("AllGather") == 0
    } == {late.pid}


@pytest.mark.parametrize("sizes", [(2, 1), (4, 4, 1), (3, 2, 1)])
def test_uneven_jobs_are_understood(sizes: tuple[int, ...]) -> None:
    """Nodes with different numbers of processes, and processes with different numbers of GPUs."""
    peers = [
        Peer(f"10.0.0.{n}", 100 * n + p, tuple(range(1 + p % 2)))
        for n, size in enumerate(sizes)
        for p in range(size)
    ]
    job = Job(peers, [Comm(7, (1, 1), [Seat(peer, 0) for peer in peers])])
    report = parse_text(render_text(job))
    assert report.discarded == ()
    assert (report.nodes, report.processes) == (len(sizes), sum(sizes))


def test_the_counters_are_in_the_order_of_nccl() -> None:
    """The report of a collective lands in its own counter."""
    job = build(8)
    job.launch("ReduceScatter")
    report = parse_json(render_json(job, "").encode())
    assert dict(report.communicators[0].members[0].launched) == {
        name: int(name == "ReduceScatter") for name in OPERATIONS
    }
