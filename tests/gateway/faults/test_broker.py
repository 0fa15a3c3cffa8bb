"""Faults of the broker, with real servers: what agents lose is what is stated, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats import errors
from nats.js.errors import APIError

from collector.bus.connection import BusError, connect
from collector.config.settings import Bus
from pipeline.bus.batch import Batch, decode
from tests.gateway.faults.brokers import leader_of, three
from tests.gateway.faults.hosts import Host
from tests.nats import Nats
from tests.tcp_proxy import TcpProxy
from tests.wait import until

pytestmark = [
    pytest.mark.integration,
    # Of what conftest.py collects.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    """A broker for all tests here; each has hosts of its own."""
    with Nats(tmp_path_factory.mktemp("broker") / "nats") as running:
        running.stream()
        yield running


def arrived(server: Nats, host: str) -> list[int]:
    """Numbers of a host's observations in the stream."""
    return [judged.observation.seq for batch in batches(server, host) for judged in batch.judged]


def batches(server: Nats, host: str) -> list[Batch]:
    """What a host sent, as the stream has it."""
    return [decode(raw) for subject, raw in server.stored() if subject.endswith(f".{host}")]


def test_a_broker_that_is_gone_for_ten_minutes_costs_all_but_the_last_one(server: Nats) -> None:
    """What an agent cannot send is kept for a minute; all that is dropped is counted."""
    with Host(server.url, "away") as host:
        host.observe()
        until(lambda: arrived(server, "away") == [0], "the first")
        server.stop()
        for _ in range(600):
            host.observe()
            host.clock.passed_s += 1
        until(lambda: not host.connected, "the loss")
        server.start()
        until(lambda: arrived(server, "away")[-1:] == [600], "the last", servers=[server])
        found = arrived(server, "away")
    assert len(found) + host.dropped == host.observed
    # The one reading that was on its way is sent again or dropped, whichever comes first.
    assert 55 <= len(found) <= 63
    assert found == sorted(set(found))


def test_a_slow_broker_costs_nothing(server: Nats) -> None:
    """Each answer takes half a second, as over a line that is full: all arrives, in order, once."""
    with TcpProxy(server.port) as proxy, Host(proxy.url, "slow") as host:
        until(lambda: host.connected, "a connection")
        proxy.delay_s = 0.5
        for _ in range(300):
            host.observe()
        until(lambda: arrived(server, "slow")[-1:] == [299], "the last")
        # An agent that ends sooner cannot know that its last batch is there, and counts it.
        sent = len(batches(server, "slow"))
        until(lambda: host.acknowledged == sent or host.dropped, "the last answer")
    assert arrived(server, "slow") == [*range(300)]
    assert host.dropped == 0


def test_a_broker_that_begins_empty_costs_what_it_had_stored(server: Nats) -> None:
    """Until its stream is made again nothing is taken; then agents go on, with nothing dropped."""
    with Host(server.url, "emptied") as host:
        host.observe()
        until(lambda: arrived(server, "emptied") == [0], "the first")
        server.stop()
        server.forget()
        server.start()
        host.observe()
        until(lambda: "no stream" in host.trouble, "the reason")
        server.stream()
        until(lambda: arrived(server, "emptied") == [1], "the rest")
    assert host.dropped == 0


def test_a_broker_whose_disk_is_full_says_so_and_takes_up_again(tmp_path: Path) -> None:
    """Agents keep a minute; when there is room again nothing of it is lost."""
    with Nats(tmp_path / "nats", max_file=20_000) as small:
        small.stream(max_bytes=-1)
        with Host(small.url, "full") as host:
            until(lambda: _filled(host), "the reason", servers=[small])
            before = arrived(small, "full")
            last = host.observed
            host.observe()
            small.ask(_purged)
            until(lambda: last in arrived(small, "full"), "the rest")
            after = arrived(small, "full")
    assert [*before, *after] == [*range(last + 1)]
    assert host.dropped == 0


def _filled(host: Host) -> bool:
    """Whether the broker has no room for more of it."""
    for _ in range(10):
        host.observe()
    return "insufficient" in host.trouble


async def _purged(client: object) -> None:
    await client.jetstream().purge_stream("tocsin")  # type: ignore[attr-defined]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Nats]]:
    """Three brokers that are one."""
    with three(tmp_path) as made:
        yield made


def _has(server: Nats, host: str, number: int) -> bool:
    """Whether an observation is in the stream; nobody knows while the servers vote."""
    try:
        return arrived(server, host)[-1:] == [number]
    except (errors.Error, APIError):
        return False


def test_one_broker_of_three_costs_nothing(servers: list[Nats]) -> None:
    """The one that leads the stream dies: agents go to another, and each observation is there."""
    dying = leader_of("tocsin", servers)
    others = [each for each in servers if each is not dying]
    with Host([each.url for each in (dying, *others)], "r3") as host:
        host.observe()
        until(lambda: arrived(others[0], "r3") == [0], "the first")
        dying.stop()
        for _ in range(5):
            host.observe()
        until(lambda: _has(others[0], "r3", 5), "the last", servers=others)
    assert arrived(others[0], "r3") == [*range(6)]
    assert host.dropped == 0


def test_a_server_that_is_too_old_is_named_in_one_line() -> None:
    """With what is there and what is needed."""
    ended = asyncio.Event()
    info = b'INFO {"server_id":"X","version":"2.10.29","headers":true,"max_payload":1048576}\r\n'

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(info)
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()
        await writer.wait_closed()
        ended.set()

    async def notice(_: BaseException) -> None:
        """Not a failed attempt."""

    async def met() -> None:
        server = await asyncio.start_server(old, "127.0.0.1", 0)
        async with server:
            url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            try:
                await connect(Bus(servers=(url,)), "n1", notice)
            finally:
                await ended.wait()

    with pytest.raises(BusError, match=r"^the server is NATS 2\.10; 2\.11 or newer is needed$"):
        asyncio.run(met())
