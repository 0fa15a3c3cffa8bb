"""Faults of the broker, with a real server: what agents lose is what is stated, and counted, and
gateways report again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest
from nats.js.errors import APIError

from collector.bus.connection import BusError, connect
from collector.config.settings import Bus
from tests.gateway.faults.cluster import Cluster
from tests.gateway.faults.hosts import Host, Reading
from tests.gateway.faults.measured import Measured
from tests.gateway.faults.watch import Watch
from tests.tcp_proxy import TcpProxy

pytestmark = [
    pytest.mark.integration,
    # Of what conftest.py collects.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_a_broker_that_is_gone_for_ten_minutes_costs_all_but_the_last_one(
    cluster: Cluster, watch: Watch, measured: Measured
) -> None:
    """What an agent cannot send is kept for a minute; all that is dropped is counted. Nobody
    reports meanwhile.
    """
    with Host(cluster.server.url, "away") as host:
        host.observe()
        cluster.until(lambda: cluster.arrived("away") == [0], "the first")
        cluster.server.stop()
        for _ in range(600):
            host.observe()
            host.clock.passed_s += 1
        cluster.until(lambda: not host.connected, "the loss")
        cluster.until(lambda: not cluster.leader(), "silence")
        cluster.server.start()
        back_s = time.monotonic()
        cluster.until(lambda: cluster.arrived("away")[-1:] == [600], "the last")
        found = cluster.arrived("away")
    assert len(found) + host.dropped == host.observed
    assert found == sorted(set(found))
    # The one reading that was on its way is sent again or dropped, whichever comes first.
    assert len(found) <= 63
    measured.lost(host.dropped)
    measured.silent(watch, back_s)


def test_a_slow_broker_costs_nothing(cluster: Cluster, watch: Watch, measured: Measured) -> None:
    """Each answer takes half a second, as over a line that is full: all arrives, in order, once."""
    with TcpProxy(cluster.server.port) as proxy, Host(proxy.url, "slow") as host:
        cluster.until(lambda: host.connected, "a connection")
        proxy.delay_s = 0.5
        for _ in range(300):
            host.observe()
        cluster.until(lambda: cluster.arrived("slow")[-1:] == [299], "the last")
        # An agent that ends sooner cannot know that its last batch is there, and counts it.
        sent = len(cluster.batches("slow"))
        cluster.until(lambda: host.acknowledged == sent or host.dropped, "the last answer")
    assert cluster.arrived("slow") == [*range(300)]
    measured.lost(host.dropped)
    measured.silent(watch)


def test_a_broker_whose_disk_is_full_says_so_and_takes_up_again(
    cluster: Cluster, watch: Watch, measured: Measured
) -> None:
    """Agents keep a minute; when there is room again nothing of it is lost. The lease is a file
    too, so nobody reports meanwhile.
    """
    host = Host(cluster.server.url, "full")
    with Reading([host]):
        cluster.until(lambda: cluster.arrived("full"), "the first")
        cluster.server.ask(_filled)
        cluster.until(lambda: "insufficient" in host.trouble, "the reason")
        cluster.until(lambda: not cluster.leader(), "silence")
        last = host.observed
        cluster.server.ask(_emptied)
        back_s = time.monotonic()
        cluster.until(lambda: last in cluster.arrived("full"), "the rest")
        found = cluster.arrived("full")
    assert host.dropped == 0
    measured.lost(last + 1 - len({*found} & {*range(last + 1)}))
    measured.silent(watch, back_s)


async def _filled(client: Any) -> None:
    """Until there is no room for a message of any size."""
    stream = client.jetstream()
    await stream.add_stream(name="others", subjects=["others"])
    for size in (1 << 19, 1 << 14, 1 << 8, 1):
        with contextlib.suppress(APIError):
            while True:
                await stream.publish("others", bytes(size))


async def _emptied(client: Any) -> None:
    await client.jetstream().delete_stream("others")


def test_a_broker_that_begins_empty_costs_what_it_had_stored(
    cluster: Cluster, watch: Watch, measured: Measured
) -> None:
    """Until its stream is made again nothing is taken and nobody reports; then agents go on with
    nothing dropped, and the next seconds are judged.
    """
    with Host(cluster.server.url, "emptied") as host:
        host.observe()
        cluster.until(lambda: cluster.arrived("emptied") == [0], "the first")
        cluster.server.stop()
        cluster.server.forget()
        cluster.server.start()
        host.observe()
        cluster.until(lambda: "no stream" in host.trouble, "the reason")
        cluster.until(lambda: not cluster.leader(), "silence")
        cluster.server.stream(max_bytes=-1)
        back_s, now_s = time.monotonic(), time.time()
        cluster.until(lambda: cluster.arrived("emptied") == [1], "the rest")
    cluster.until(lambda: min(map(cluster.judged_s, cluster.gateways)) > now_s, "the next seconds")
    measured.lost(host.dropped + cluster.near.dropped)
    measured.silent(watch, back_s)


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
