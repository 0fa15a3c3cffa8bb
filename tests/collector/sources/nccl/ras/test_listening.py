"""Listening to a job: events come when they come, and nothing ever waits for them."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from collector.sources.nccl.ras.address import Address
from collector.sources.nccl.ras.listening import AGAIN_S, Listening
from pipeline.clock import SystemClock
from pipeline.nccl.report import PeerEvent
from simulator.nccl.job import Job, build
from simulator.nccl.monitor_event import MonitorEvent
from simulator.nccl.server import RasServer
from tests.wait import PATIENCE_S, until

JOB: Job = build(8)


@pytest.fixture
def server() -> Iterator[RasServer]:
    """The RAS of a job."""
    with RasServer(lambda: JOB, SystemClock()) as made:
        yield made


@pytest.fixture
def listening() -> Iterator[Listening]:
    """Who listens."""
    made = Listening()
    yield made
    made.close()


def events(listening: Listening, server: RasServer, now_s: float = 0.0) -> list[PeerEvent]:
    """Events as soon as there are any."""
    found: list[PeerEvent] = []

    def some() -> bool:
        found.extend(listening.look(Address(str(server.host), server.port), now_s))
        return bool(found)

    until(some, "an event")
    return found


def begin(listening: Listening, server: RasServer, now_s: float = 0.0) -> None:
    """Connect, and wait until the server knows."""
    assert listening.look(Address(str(server.host), server.port), now_s) == []
    until(lambda: bool(server.listeners), "the server to know its listener")


def test_a_death_is_an_event(server: RasServer, listening: Listening) -> None:
    """With the process that died."""
    begin(listening, server)
    server.tell(MonitorEvent("PEER_DEAD", JOB.peers[3]))
    (event,) = events(listening, server)
    assert (event.event, event.group, event.peer.pid, event.peer.host) == (
        "PEER_DEAD",
        "lifecycle",
        JOB.peers[3].pid,
        JOB.peers[3].host,
    )


def test_hints_are_not_asked_for(server: RasServer, listening: Listening) -> None:
    """The trace names healthy peers too."""
    begin(listening, server)
    server.tell(MonitorEvent("PEER_RETRY", JOB.peers[1]))
    server.tell(MonitorEvent("PEER_DEAD", JOB.peers[2]))
    assert [e.event for e in events(listening, server)] == ["PEER_DEAD"]


def test_a_server_that_is_gone_is_tried_again_later(listening: Listening) -> None:
    """Not at every look."""
    tries: list[Address] = []

    def refuse(address: Address, _: float) -> socket.socket:
        tries.append(address)
        ours, theirs = socket.socketpair()
        theirs.close()
        return ours

    listening._open_to = refuse
    for now_s in (0.0, 1.0, AGAIN_S - 1, AGAIN_S):
        assert listening.look(Address("h", 1), now_s) == []
    assert len(tries) == 2


@pytest.mark.parametrize("manner", ["hang", "flood"])
def test_a_look_never_waits(manner: str, listening: Listening) -> None:
    """A server that is silent, and one that never stops."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    listening._open_to = lambda _, __: ours
    began = time.monotonic()
    for _ in range(20):
        if manner == "flood":
            with contextlib.suppress(BlockingIOError):
                theirs.send(b"x" * 100_000)
        assert listening.look(Address("h", 1), 0.0) == []
    assert time.monotonic() - began < PATIENCE_S
    theirs.close()
