"""Notifier: what a service manager hears, on a real datagram socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.agent.notify import Notifier
from pipeline.clock import SECOND_NS


class Manager:
    """A service manager's end of the socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)
        self.environ = {
            "NOTIFY_SOCKET": address,
            "WATCHDOG_USEC": "60000000",
            "WATCHDOG_PID": "4711",
        }

    def heard(self) -> list[str]:
        """Every datagram that waits."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    """One on a path, one on an abstract address, as containers have it."""
    made = Manager(
        str(tmp_path / "notify")
        if request.param == "path"
        else f"@tocsin-{tmp_path.name}-{id(tmp_path)}"
    )
    with made.socket:
        yield made


def test_ready_is_said_with_a_status(manager: Manager) -> None:
    """The manager learns that the start is over, and what to show people."""
    Notifier(manager.environ).ready("listening on 127.0.0.1:9400")
    assert manager.heard() == ["READY=1\nSTATUS=listening on 127.0.0.1:9400"]


def test_a_reload_carries_the_monotonic_time(manager: Manager) -> None:
    """Type=notify-reload asks for microseconds of CLOCK_MONOTONIC beside RELOADING=1."""
    Notifier(manager.environ).reloading(1_234_567_890)
    assert manager.heard()[0].split("\n")[:2] == ["RELOADING=1", "MONOTONIC_USEC=1234567"]


def test_the_end_is_said(manager: Manager) -> None:
    """A stop that takes its time is known to be a stop."""
    Notifier(manager.environ).stopping()
    assert manager.heard()[0].startswith("STOPPING=1\n")


def test_the_watchdog_is_petted_twice_in_its_time(manager: Manager) -> None:
    """With 60 s asked for, a word every 30 s whatever the rhythm of the loop."""
    notifier = Notifier(manager.environ, pid=4711)
    for second in range(100, 161):
        notifier.beat(second * SECOND_NS, alive=True)
    assert manager.heard() == ["WATCHDOG=1"] * 3


def test_a_loop_that_stands_still_is_not_vouched_for(manager: Manager) -> None:
    """No word while nothing is published: the manager restarts the process."""
    Notifier(manager.environ, pid=4711).beat(100 * SECOND_NS, alive=False)
    assert manager.heard() == []


@pytest.mark.parametrize(
    "change", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": ""}]
)
def test_a_watchdog_of_somebody_else_or_none_is_left_alone(
    manager: Manager, change: dict[str, str]
) -> None:
    """Variables that a wrapper inherited are no promise of ours."""
    notifier = Notifier(manager.environ | change, pid=4711)
    notifier.beat(100 * SECOND_NS, alive=True)
    assert not notifier.watched
    assert manager.heard() == []


def test_a_status_stays_one_line(manager: Manager) -> None:
    """Text from elsewhere cannot say READY=1, or anything else, to the manager."""
    Notifier(manager.environ).ready("one\nWATCHDOG=trigger")
    assert manager.heard() == ["READY=1\nSTATUS=one WATCHDOG=trigger"]


@pytest.mark.parametrize("address", ["", "/nowhere/at/all"])
def test_no_manager_is_no_trouble(address: str) -> None:
    """Started by hand, or by a manager that is gone, the agent says nothing and goes on."""
    notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1"})
    notifier.ready("fine")
    notifier.beat(SECOND_NS, alive=True)


@pytest.mark.slow
def test_a_manager_that_does_not_listen_is_not_waited_for(manager: Manager) -> None:
    """With the socket's queue full, words are dropped: the agent never blocks on its manager."""
    notifier = Notifier(manager.environ)
    for _ in range(10_000):
        notifier.stopping()
    assert len(manager.heard()) < 10_000
