"""Faults of gateways and of what agents send them: two real gateways, a real broker, and agents of
which half are behind a line that can be cut. Each test is held to its row of the table of faults.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline.bus.batch import MAGIC, PREFIX, VERSION, encode
from pipeline.judged import JudgedObservation
from tests.agents import AgentProcess
from tests.fakes import FakeClock, gpu_frame, observed
from tests.gateway.faults.cluster import Cluster, value
from tests.gateway.faults.hosts import Host, Reading
from tests.gateway.faults.measured import Measured
from tests.gateway.faults.watch import Watch
from tests.pipeline.bus.batches import batch
from tests.wait import until

pytestmark = [
    pytest.mark.integration,
    # Of what conftest.py collects.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


LISTENING = "listening on"


@contextmanager
def more(*hosts: Host) -> Iterator[None]:
    """Other hosts for a while."""
    with Reading(hosts):
        yield


def test_a_frozen_gateway_is_followed_and_does_not_report_when_it_wakes(
    cluster: Cluster, watch: Watch, measured: Measured
) -> None:
    """Nobody reports for as long as its lease lives, and never both: ``leader`` asserts it. What
    happens meanwhile is the other's to report.
    """
    frozen, other = cluster.until(cluster.leader, "a leader"), cluster.follower()
    known, missed = cluster.hosts("known"), cluster.missed
    meanwhile = Host(cluster.server.url, "meanwhile")
    with more(meanwhile):
        cluster.until(lambda: cluster.hosts("known") > known, "the host")
        frozen.process.send_signal(signal.SIGSTOP)
        meanwhile.lose_gpu()
        until(lambda: value(other, "tocsin_fleet_leader"), "the other", servers=[other])
        shown = 'host="meanwhile"'
        series = "tocsin_fleet_incident_active"
        until(
            lambda: any(shown in labels for labels in other.values(series)),
            "its fault",
            servers=[other],
        )
        frozen.process.send_signal(signal.SIGCONT)
    tick_s = cluster.judged_s(frozen)
    cluster.until(lambda: cluster.judged_s(frozen) > tick_s + 3, "it judges again")
    assert cluster.leader() is other
    measured.lost(meanwhile.dropped + cluster.missed - missed + _doubled(cluster, "meanwhile"))
    measured.silent(watch)


def _doubled(cluster: Cluster, host: str) -> int:
    """Incidents of a host that gateways know by more than one id."""
    return len(set().union(*(cluster.incidents(each, host) for each in cluster.gateways))) - 1


def test_agents_behind_a_cut_line_are_not_waited_for_and_lose_nothing(
    cluster: Cluster, watch: Watch, measured: Measured
) -> None:
    """A fault of the others is found meanwhile; theirs when the line is back, within a minute."""
    missed = cluster.missed
    cluster.line.cut()
    cluster.until(lambda: not cluster.far.connected, "the cut")
    cluster.far.lose_gpu()
    cluster.near.lose_gpu()
    cluster.until(lambda: "near" in cluster.open(), "the fault on this side")
    assert "far" not in cluster.open()
    cluster.line.heal()
    cluster.until(lambda: cluster.far.connected, "the line")
    cluster.until(lambda: "far" in cluster.open(), "the fault on the other side")
    measured.lost(cluster.far.dropped + cluster.near.dropped + cluster.missed - missed)
    measured.silent(watch)


def refused() -> list[bytes]:
    """What no agent of this version sends: torn, random, of another version, another host's, with
    a length that it has not.
    """
    sound = encode(batch([JudgedObservation(observed(FakeClock(), gpu_frame(FakeClock(), {})))]))
    return [
        sound[: len(sound) // 2],
        b"\0" * 100_000,
        PREFIX.pack(MAGIC, VERSION + 1, 0, 0) + sound[PREFIX.size :],
        sound,
        PREFIX.pack(MAGIC, VERSION, 1 << 31, 0),
    ]


def test_batches_that_no_agent_sends_are_refused_and_named(
    cluster: Cluster, watch: Watch, measured: Measured
) -> None:
    """Each is counted, by both gateways; the hosts are judged as before."""
    name = "tocsin_fleet_batches_refused_total"
    before = [value(gateway, name) for gateway in cluster.gateways]
    sent = refused()
    for payload in sent:
        cluster.publish("stranger", payload)
    lost = []
    for gateway, had in zip(cluster.gateways, before, strict=True):
        cluster.until(lambda g=gateway, n=had: value(g, name) >= n + len(sent), "the refusals")
        assert "a message of 'stranger' is refused" in gateway.log
        tick_s = cluster.judged_s(gateway)
        cluster.until(lambda g=gateway, t=tick_s: cluster.judged_s(g) > t, "a tick")
        lost.append(value(gateway, name) - had)
    measured.lost(max(lost))
    measured.silent(watch)


@pytest.mark.parametrize(("name", "wrong_s"), [("seconds", 2.6), ("day", -86400.0)])
def test_an_agent_with_a_wrong_clock_is_judged_with_the_others(
    cluster: Cluster, watch: Watch, measured: Measured, name: str, wrong_s: float
) -> None:
    """By times that are corrected: neither waits for the other, and its fault is an incident."""
    host = Host(cluster.server.url, name, wrong_s=wrong_s)
    known, missed = cluster.hosts("known"), cluster.missed
    with more(host):
        cluster.until(lambda: cluster.hosts("known") > known, "the host")
        host.lose_gpu()
        cluster.until(lambda: name in cluster.open(), "its fault")
    assert abs(cluster.judged_s(cluster.gateways[0]) - time.time()) < 3600
    measured.lost(host.dropped + cluster.missed - missed)
    measured.silent(watch)


def test_two_agents_of_one_name_are_shown(
    cluster: Cluster, watch: Watch, measured: Measured
) -> None:
    """Whoever clones a machine sees it in a number; what both send is stored."""
    twins = [Host(cluster.server.url, "twin") for _ in range(2)]
    with more(*twins):
        cluster.until(lambda: cluster.hosts("doubled") == 1, "the twins")
    starts = {batch.start for batch in cluster.batches("twin")}
    measured.lost(sum(twin.dropped for twin in twins) + 2 - len(starts))
    measured.silent(watch)


def test_gateways_that_are_started_again_go_on_from_their_snapshots(
    cluster: Cluster, watch: Watch, measured: Measured
) -> None:
    """One is stopped and goes on from its snapshot, one is killed and does from its last one, or in
    its first minute from what the stream retains: each has the same open incidents, under the same
    ids, and what happens meanwhile is found when one is back.
    """
    cluster.near.lose_gpu()
    cluster.until(lambda: "near" in cluster.open(), "an incident")
    meanwhile, known = Host(cluster.server.url, "unwatched"), cluster.hosts("known")
    with more(meanwhile):
        cluster.until(lambda: cluster.hosts("known") > known, "the host")
        leader, follower = cluster.until(cluster.leader, "a leader"), cluster.follower()
        before = _ids(leader)
        leader.process.kill()
        follower.process.terminate()
        for each in (leader, follower):
            each.process.wait()
        meanwhile.lose_gpu()
        cluster.gateways[:] = [cluster.gateway(each.storage.name) for each in (leader, follower)]
        cluster.until(lambda: any(LISTENING in each.log for each in cluster.gateways), "one")
        back_s = time.monotonic()
        stopped = cluster.gateways[1]
        cluster.until(lambda: "restored: snapshot" in stopped.log, "its snapshot")
        for again in cluster.gateways:
            cluster.until(lambda g=again: before <= _ids(g), "its incidents")
        cluster.until(lambda: "unwatched" in cluster.open(), "the fault meanwhile")
    lost = [len(before - _ids(each)) for each in cluster.gateways]
    measured.lost(max(lost) + meanwhile.dropped + _doubled(cluster, "unwatched"))
    measured.silent(watch, back_s)


def _ids(gateway: AgentProcess) -> set[str]:
    """Open incidents, as its API has them."""
    status, text = gateway.get("/api/v1/incidents")
    assert status == 200
    return {part.partition('"')[0] for part in text.split('"id":"')[1:]}
