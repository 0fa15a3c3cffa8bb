"""The fake RAS server speaks NCCL's protocol: what was recorded of a real one,
and what its source says.
"""

from __future__ import annotations

import socket

import pytest

from pipeline.clock import SystemClock
from simulator.nccl.job import build
from simulator.nccl.server import MANNERS, Manner, RasServer
from tests.collector.sources.nccl.recordings import reply
from tests.simulator.nccl.recorded_jobs import job_of, without_time


def talk(server: RasServer, commands: bytes) -> str:
    """All that a server says until it hangs up."""
    with socket.create_connection((str(server.host), server.port), 5) as connection:
        connection.sendall(commands)
        if not commands.endswith(b"STATUS\n"):
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def test_refusals_are_those_of_nccl() -> None:
    """The recorded replies to bad commands, followed by a report."""
    job = job_of("ok.json")
    with RasServer(lambda: job, SystemClock()) as server:
        said = talk(
            server, b"FOO\nTIMEOUT x\nSET FORMAT xml\nMONITOR bogus\nCLIENT PROTOCOL 9\nSTATUS\n"
        )
    recorded = reply("badcmds.txt").decode()
    assert said[: len(recorded)] == recorded


@pytest.mark.parametrize(
    ("commands", "name"), [(b"STATUS\n", "ok.txt"), (b"SET FORMAT json\nSTATUS\n", "ok.json")]
)
def test_a_report_ends_the_connection(commands: bytes, name: str) -> None:
    """The end of the connection is the end of the report: there is no other."""
    job = job_of("ok.json")
    with RasServer(lambda: job, SystemClock()) as server:
        said = talk(server, commands)
    assert without_time(said.removeprefix("OK\n")) == without_time(reply(name).decode())


def test_commands_are_understood_in_any_case_and_with_carriage_returns() -> None:
    """As NCCL's own parser does."""
    job = build(8)
    with RasServer(lambda: job, SystemClock()) as server:
        assert (
            talk(server, b"client protocol 1\r\ntimeout 3\r\nmonitor all\r\n")
            == "SERVER PROTOCOL 2\nOK\nOK\n"
        )


@pytest.mark.parametrize(
    ("nccl", "said"), [("2.28.3", "ERROR: Unknown command SET FORMAT json\n"), ("2.28.7", "OK\n")]
)
def test_json_is_there_from_2_28_7_on(nccl: str, said: str) -> None:
    """Older releases do not know the command."""
    job = build(8, nccl=nccl)
    with RasServer(lambda: job, SystemClock()) as server:
        assert talk(server, b"SET FORMAT json\n") == said


def test_a_line_longer_than_the_buffer_ends_the_connection() -> None:
    """1024 bytes, as in NCCL."""
    job = build(8)
    with RasServer(lambda: job, SystemClock()) as server:
        assert talk(server, b"x" * 1024) == ""


@pytest.mark.parametrize("manner", MANNERS.values())
def test_a_server_of_any_manner_can_be_closed(manner: Manner) -> None:
    """Whatever it is doing to a client at the moment."""
    job = build(8)
    with RasServer(lambda: job, SystemClock(), manner=manner) as server:
        connection = socket.create_connection((str(server.host), server.port), 5)
        connection.sendall(b"STATUS\n")
    connection.close()
