"""Faults of gateways and of what agents send them: two real gateways, a real broker, and agents of
which half are behind a line that can be cut. All tests share them, and leave them as they were.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from pipeline.bus.batch import MAGIC, PREFIX, VERSION, encode
from pipeline.clock import SystemClock
from pipeline.judged import JudgedObservation
from tests.agents import AgentProcess
from tests.fakes import FakeClock, gpu_frame, observed
from tests.gateway.faults.cluster import Cluster, value
from tests.gateway.faults.hosts import Host, Reading
from tests.pipeline.bus.batches import batch
from tests.wait import until

pytestmark = [
    pytest.mark.integration,
    # Of what conftest.py collects.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SILENT_S = 15.0  # at most, while a gateway takes over (docs/fleet.md)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two gateways, of which one reports, and both hosts."""
    with ExitStack() as stack:
        made = Cluster(tmp_path_factory.mktemp("gateways"), stack)
        made.until(lambda: made.leader() and made.hosts("known") >= 2, "both hosts")
        yield made


@contextmanager
def more(*hosts: Host) -> Iterator[None]:
    """Other hosts for a while."""
    with Reading(hosts):
        yield


def test_a_frozen_gateway_is_followed_and_does_not_report_when_it_wakes(cluster: Cluster) -> None:
    """Nobody reports for as long as its lease lives, and never both: ``leader`` asserts it. What
    happens meanwhile is the other's to report.
    """
    frozen, other = cluster.until(cluster.leader, "a leader"), cluster.follower()
    known, meanwhile = cluster.hosts("known"), Host(cluster.server.url, "meanwhile")
    with more(meanwhile):
        cluster.until(lambda: cluster.hosts("known") > known, "the host")
        frozen.process.send_signal(signal.SIGSTOP)
        begun_s = time.monotonic()
        meanwhile.lose_gpu()
        until(lambda: value(other, "tocsin_fleet_leader"), "the other", servers=[other])
        # 5 s by benchmarks.take_over, on a machine that tests leave to it.
        assert time.monotonic() - begun_s < SILENT_S
        shown = 'host="meanwhile"'
        series = "tocsin_fleet_incident_active"
        until(
            lambda: any(shown in labels for labels in other.values(series)),
            "its fault",
            servers=[other],
        )
        frozen.process.send_signal(signal.SIGCONT)
    tick = value(frozen, "tocsin_fleet_tick_timestamp_seconds")
    cluster.until(
        lambda: value(frozen, "tocsin_fleet_tick_timestamp_seconds") > tick + 3, "it judges again"
    )
    assert cluster.leader() is other


def test_agents_behind_a_cut_line_are_not_waited_for_and_lose_nothing(cluster: Cluster) -> None:
    """A fault of the others is found meanwhile; theirs when the line is back, within a minute."""
    cluster.line.cut()
    cluster.until(lambda: not cluster.far.connected, "the cut")
    cluster.far.lose_gpu()
    cluster.near.lose_gpu()
    cluster.until(lambda: "near" in cluster.open(), "the fault on this side")
    assert "far" not in cluster.open()
    cluster.line.heal()
    cluster.until(lambda: cluster.far.connected, "the line")
    cluster.until(lambda: "far" in cluster.open(), "the fault on the other side")
    assert cluster.far.dropped == 0


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


def test_batches_that_no_agent_sends_are_refused_and_named(cluster: Cluster) -> None:
    """Each is counted, by both gateways; the hosts are judged as before."""
    name = "tocsin_fleet_batches_refused_total"
    before = [value(gateway, name) for gateway in cluster.gateways]
    for payload in refused():
        cluster.publish("stranger", payload)
    for gateway, had in zip(cluster.gateways, before, strict=True):
        cluster.until(lambda g=gateway, n=had: value(g, name) == n + 5, "five refusals")
        assert "reading a batch fails" in gateway.log
    tick = value(cluster.gateways[0], "tocsin_fleet_tick_timestamp_seconds")
    cluster.until(
        lambda: value(cluster.gateways[0], "tocsin_fleet_tick_timestamp_seconds") > tick, "a tick"
    )


@pytest.mark.parametrize(("name", "wrong_s"), [("seconds", 2.6), ("day", -86400.0)])
def test_an_agent_with_a_wrong_clock_is_judged_with_the_others(
    cluster: Cluster, name: str, wrong_s: float
) -> None:
    """By times that are corrected: neither waits for the other, and its fault is an incident."""
    host = Host(cluster.server.url, name, wrong_s=wrong_s)
    known = cluster.hosts("known")
    with more(host):
        cluster.until(lambda: cluster.hosts("known") > known, "the host")
        host.lose_gpu()
        cluster.until(lambda: name in cluster.open(), "its fault")
    tick = value(cluster.gateways[0], "tocsin_fleet_tick_timestamp_seconds")
    assert abs(tick - time.time()) < 3600


def test_two_agents_of_one_name_are_shown(cluster: Cluster) -> None:
    """Whoever clones a machine sees it in a number."""
    with more(*(Host(cluster.server.url, "twin") for _ in range(2))):
        cluster.until(lambda: cluster.hosts("doubled") == 1, "the twins")


def test_a_gateway_that_is_started_again_goes_on_from_its_snapshot(cluster: Cluster) -> None:
    """Stopped, then killed: with the same open incidents, under the same ids."""
    leader = cluster.until(cluster.leader, "a leader")
    cluster.near.lose_gpu()
    cluster.until(lambda: "near" in cluster.open(), "an incident")
    before = _ids(leader)
    for number in (signal.SIGTERM, signal.SIGKILL):
        place = cluster.gateways.index(leader)
        leader.process.send_signal(number)
        leader.process.wait()
        again = cluster.gateways[place] = cluster.gateway(leader.storage.name)
        cluster.until(lambda g=again: "restored: snapshot" in g.log, "its snapshot")
        cluster.until(lambda g=again: before <= _ids(g), "its incidents")
        leader = again
    cluster.until(cluster.leader, "a leader")


def _ids(gateway: AgentProcess) -> set[str]:
    """Open incidents, as its API has them."""
    status, text = gateway.get("/api/v1/incidents")
    assert status == 200
    return {part.partition('"')[0] for part in text.split('"id":"')[1:]}


def test_a_broker_that_begins_empty_is_read_from_its_begin(cluster: Cluster) -> None:
    """Nobody reports until stream and lease are made again; then the next seconds are judged."""
    cluster.server.stop()
    cluster.server.forget()
    leads = "tocsin_fleet_leader"
    until(
        lambda: not any(value(gateway, leads) for gateway in cluster.gateways),
        "silence",
        servers=cluster.gateways,
    )
    cluster.server.start()
    cluster.server.stream()
    now_s = SystemClock().time_ns() / 1e9
    name = "tocsin_fleet_tick_timestamp_seconds"
    cluster.until(
        lambda: all(value(gateway, name) > now_s for gateway in cluster.gateways),
        "the next seconds",
    )
    cluster.until(cluster.leader, "a leader")
    assert cluster.near.dropped == 0
