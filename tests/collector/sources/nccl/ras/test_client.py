"""The RAS client against a server of every manner: it gets the report, or names
why not, within its limits.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.nccl.ras.address import Address, RasError
from collector.sources.nccl.ras.client import ask, ask_any
from collector.sources.nccl.ras.json_report import parse_json
from pipeline.clock import SystemClock
from simulator.nccl.job import build
from simulator.nccl.server import Manner, RasServer
from tests.parts import need
from tests.wait import PATIENCE_S


@contextlib.contextmanager
def serving(
    manner: Manner = "sound", nccl: str = "2.30.7", ranks: int = 8
) -> Iterator[tuple[RasServer, Address]]:
    """A server of a healthy job."""
    job = build(ranks, nccl=nccl)
    with RasServer(lambda: job, SystemClock(), manner=manner) as server:
        yield server, Address(str(server.host), server.port)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [8, 1024])
def test_a_sound_server_gives_its_report(ranks: int) -> None:
    """Complete, and trusted."""
    with serving(ranks=ranks) as (_, address):
        report = parse_json(ask(address))
    assert report.trusted
    assert report.processes == ranks


def test_the_client_never_asks_for_what_has_crashed_jobs() -> None:
    """No text, no verbose report, no collection without a time limit."""
    with serving() as (server, address):
        ask(address)
        assert server.asked == ["CLIENT PROTOCOL 2", "TIMEOUT 5", "SET FORMAT json", "STATUS"]


def test_an_old_server_is_not_asked_for_its_report() -> None:
    """Before 2.28.7 it would be text."""
    with serving(nccl="2.27.7") as (server, address):
        with pytest.raises(RasError, match="no JSON") as refused:
            ask(address)
        assert refused.value.cause == "no_json"
        assert "STATUS" not in server.asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manner", "cause"), [("hang", "stopped"), ("drip", "silent"), ("refuse", "cut")]
)
def test_a_server_that_does_not_answer_costs_no_more_than_the_deadline(
    manner: Manner, cause: str
) -> None:
    """Silence, a byte at a time, and a closed door."""
    with serving(manner) as (_, address):
        began = time.monotonic()
        with pytest.raises(RasError) as refused:
            ask(address, read_s=0.3)
        assert refused.value.cause == cause
        assert time.monotonic() - began < PATIENCE_S


def test_a_flood_ends_at_the_limit() -> None:
    """Memory is bounded by what a report may take."""
    with serving("flood") as (_, address), pytest.raises(RasError) as refused:
        ask(address, max_bytes=100_000)
    assert refused.value.cause == "flood"


@pytest.mark.parametrize(
    "greeting",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n\r\n",
        b"x" * 100_000,
        b"OK\nOK\nOK\n",
        b"SERVER PROTOCOL 2\nOK\nmaybe\n",
        b"\xff\n\n\n",
    ],
)
def test_a_server_of_something_else_is_recognised(greeting: bytes) -> None:
    """Any process may listen on the port: its first line shows what it is."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def greet() -> None:
            connection, _ = other.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(greeting)
                connection.recv(1000)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(RasError) as refused:
            ask(Address("127.0.0.1", other.getsockname()[1]))
        thread.join()
    assert refused.value.cause == "garbage"


def test_nobody_listens() -> None:
    """A port that is free refuses at once."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    with pytest.raises(RasError) as refused:
        ask(Address("127.0.0.1", port))
    assert refused.value.cause == "refused"


def test_a_stopped_neighbour_is_passed_over() -> None:
    """The next listener answers for all of the job."""
    asked: list[int] = []

    def answer(address: Address, **_: object) -> bytes:
        asked.append(address.port)
        if address.port == 1:
            raise RasError("stopped", "takes no question")
        return b"report"

    assert ask_any([Address("h", 1), Address("h", 2), Address("h", 3)], ask=answer) == b"report"
    assert asked == [1, 2]


@pytest.mark.parametrize("cause", ["flood", "silent"])
def test_a_server_that_misbehaves_ends_the_tries(cause: str) -> None:
    """Its neighbours serve the same job: what one reports wrongly, or collects for too long, all
    do.
    """
    asked: list[int] = []

    def answer(address: Address, **_: object) -> bytes:
        asked.append(address.port)
        raise RasError(cause, "too much")

    with pytest.raises(RasError, match="too much"):
        ask_any([Address("h", 1), Address("h", 2)], ask=answer)
    assert asked == [1]


@pytest.mark.root
@pytest.mark.integration
def test_a_server_in_another_network_namespace_is_asked() -> None:
    """A pod's localhost is not ours: the connection is made inside, and our own
    namespace is left alone.
    """
    unshare = need("unshare", "util-linux")
    code = (
        "import subprocess,sys; sys.path.insert(0, sys.argv[1]); "
        "subprocess.run(['ip','link','set','lo','up'], check=True)\n"
        "from simulator.nccl.job import build; from "
        "simulator.nccl.server import RasServer\n"
        "from pipeline.clock import SystemClock; job = build(8)\n"
        "with RasServer(lambda: job, SystemClock(), port=28028): print('ready', "
        "flush=True); sys.stdin.read()"
    )
    root = str(Path(__file__).parents[5])
    argv = [unshare, "-n", sys.executable, "-c", code, root]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            pytest.skip("this machine does not let us make a network namespace")
        ours = Path("/proc/self/ns/net").stat().st_ino
        address = Address("127.0.0.1", 28028, f"/proc/{process.pid}/ns/net")
        assert parse_json(ask(address)).processes == 8
        assert Path("/proc/self/ns/net").stat().st_ino == ours
        process.communicate()


def test_a_namespace_that_is_gone_is_a_refusal() -> None:
    """The process may end at any time."""
    with pytest.raises(RasError) as refused:
        ask(Address("127.0.0.1", 1, f"/proc/{os.getpid()}/ns/none"))
    assert refused.value.cause == "refused"
