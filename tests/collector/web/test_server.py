"""The HTTP server, asked over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from collector.node.out_of_service import Out
from collector.web import AgentPages, ListenError, Web
from collector.web.addresses import parse
from collector.web.coalesce import ScrapeCoalescer, compress, with_zlib
from collector.web.connections import Connections
from collector.web.recent import Past
from collector.web.status import Node
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, SystemClock
from pipeline.exposition import TEXT, Exposition, Format
from pipeline.finding import Finding, Incident
from pipeline.frame import frame_of
from pipeline.guard import Guard
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, gpu, observed
from tests.ports import free_port
from tests.wait import PATIENCE_S

HOSTILE = '</td><script>alert("x")</script>\udcff'


class FakePages:
    """Pages that say what they are told."""

    def __init__(self, body: bytes = b"up 1\n") -> None:
        self.body: bytes | Exception = body
        self.renders = 0
        self.wrong = self.missing = ""
        self.busy = False
        self.answering = 0

    def metrics(self, form: Format) -> bytes:
        self.renders += 1
        if isinstance(self.body, Exception):
            raise self.body
        return self.body

    def unhealthy(self) -> str:
        return self.wrong

    def unready(self) -> str:
        return self.missing

    def reloading(self) -> bool:
        return self.busy

    def gpus(self) -> int:
        return self.answering

    def status(self) -> Mapping[str, Any]:
        raise RuntimeError("no status here")

    def recently(self, kind: str, device: str) -> Past:
        return {}

    def incidents(self) -> Sequence[Mapping[str, Any]]:
        return [{"id": "5a2e"}]

    def closed(self) -> Sequence[Mapping[str, Any]]:
        return [{"id": "77aa"}]

    def incident(self, text: str) -> Mapping[str, Any] | None:
        return {"id": "5a2e"} if text == "5a2e" else None

    def health(self) -> Mapping[str, Any]:
        return {"verdict": "ok"}


def guard() -> Guard:
    """A guard whose counts nobody looks at."""
    return Guard(SelfMetrics(), SystemClock())


def agent_pages(
    clock: FakeClock, *, simulated: str = "", name: str = "NVIDIA H100 80GB HBM3", state: int = 0
) -> AgentPages:
    """Pages of an agent that has read one GPU and has one finding about it."""
    metrics = SelfMetrics()
    metrics.set(agent.SOURCE_SUCCESS, 1, "nvml")
    metrics.set(agent.SOURCE_LAST_SUCCESS, clock.time_ns() / 1e9, "nvml")
    exposition = Exposition(metrics, clock=clock, periods={"nvml": 1.0})
    device = gpu(0, name=name)
    values = {"state": state, "temperature_celsius": 41, "power_milliwatts": 71234}
    frame = frame_of("gpu", [(device, values)], clock.time_ns(), clock.monotonic_ns())
    finding = Finding(
        "xid", device, "xid", "onset", "page", clock.time_ns(), clock.time_ns(), f"XID 79 {HOSTILE}"
    )
    exposition.write(observed(clock, frame), [finding])
    return AgentPages(exposition, metrics, clock, Node("n1", "0.1.0", simulated))


@asynccontextmanager
async def serving(web: Web) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A started server, with a client on its first address."""
    bound = await web.start()
    try:
        async with aiohttp.ClientSession(
            f"http://{bound[0]}", headers={"Accept-Encoding": "identity"}, auto_decompress=False
        ) as session:
            yield session, bound[0]
    finally:
        await web.stop()


def connections_of(web: Web) -> Connections:
    """Those of a started server."""
    assert web._listener.connections is not None
    return web._listener.connections


async def accepted(web: Web, connections: int) -> None:
    """Returns once so many connections have reached the server."""
    async with asyncio.timeout(PATIENCE_S):
        while len(connections_of(web)._server.connections) < connections:  # noqa: ASYNC110 - aiohttp has no event for it
            await asyncio.sleep(0)


def ask(
    pages: Any,
    work: Callable[[aiohttp.ClientSession], Awaitable[Any]],
    *,
    health_require_gpus: bool = False,
) -> Any:
    """What ``work`` finds on a server with these pages."""

    async def run() -> Any:
        web = Web(pages, guard(), ["127.0.0.1:0"], health_require_gpus=health_require_gpus)
        async with serving(web) as (session, _):
            return await work(session)

    return asyncio.run(run())


def get(
    pages: Any, path: str, method: str = "GET", **headers: str
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of one request."""

    async def work(session: aiohttp.ClientSession) -> tuple[int, Mapping[str, str], bytes]:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        async with session.request(
            method, path, headers=named, skip_auto_headers=("Accept",)
        ) as answer:
            return answer.status, answer.headers, await answer.read()

    found: tuple[int, Mapping[str, str], bytes] = ask(pages, work)
    return found


def test_metrics_are_text_004_for_those_who_ask_for_nothing() -> None:
    """A scraper without Accept header gets text 0.0.4, uncompressed, that a
    Prometheus parser reads.
    """
    status, headers, body = get(agent_pages(FakeClock()), "/metrics")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "Content-Encoding" not in headers
    names = {family.name for family in parse_text(body.decode())}
    assert {
        "tocsin_gpu_temperature_celsius",
        "tocsin_source_success",
        "tocsin_finding_active",
    } <= names


def test_metrics_are_openmetrics_and_gzip_when_asked() -> None:
    """Format and compression follow the request's headers, and caches are told so."""
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    status, headers, body = get(
        agent_pages(FakeClock()), "/metrics", Accept=accept, Accept_Encoding="gzip"
    )
    assert (status, headers["Content-Encoding"], headers["Vary"]) == (
        200,
        "gzip",
        "Accept, Accept-Encoding",
    )
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    text = gzip.decompress(body).decode()
    assert text.endswith("# EOF\n")
    assert list(parse_openmetrics(text))  # type: ignore[no-untyped-call]  # the client has no annotation here


@pytest.mark.parametrize("pack", [compress, with_zlib])
def test_both_compressors_make_plain_gzip(pack: Callable[[bytes], bytes]) -> None:
    """The fast compressor and its fallback both give what gzip unpacks."""
    page = b"tocsin_gpu_state 1\n" * 5000
    assert gzip.decompress(pack(page)) == page
    assert len(pack(page)) < len(page) / 20


def test_head_gives_the_headers_alone() -> None:
    """HEAD answers like GET without a body."""
    status, headers, body = get(FakePages(b"up 1\n"), "/metrics", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, "5", b"")


@pytest.mark.parametrize("path", ["/metrics", "/-/ready", "/health", "/", "/api/v1/status"])
def test_nothing_can_be_written(path: str) -> None:
    """Every path refuses methods that would change something, naming those it takes."""
    status, headers, _ = get(agent_pages(FakeClock()), path, "POST")
    assert status == 405
    assert set(headers["Allow"].replace(" ", "").split(",")) == {"GET", "HEAD"}


def test_an_unknown_path_is_404() -> None:
    """What is not served says so."""
    assert get(FakePages(), "/debug/pprof/")[0] == 404


@pytest.mark.parametrize("path", ["/metrics", "/nowhere", "/-/healthy", "/"])
def test_every_answer_carries_the_security_headers(path: str) -> None:
    """Browsers must not sniff, frame or cache, and nobody learns the versions of our stack."""
    _, headers, _ = get(agent_pages(FakeClock()), path)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Server"] == "tocsin"


@pytest.mark.parametrize(("path", "attribute"), [("/-/healthy", "wrong"), ("/-/ready", "missing")])
def test_health_and_readiness_say_what_is_wrong(path: str, attribute: str) -> None:
    """200 while all is well, else 503 with the reason in words."""
    pages = FakePages()
    assert get(pages, path)[0] == 200
    setattr(pages, attribute, "the NVML source has given nothing yet")
    status, _, body = get(pages, path)
    assert (status, body) == (503, b"the NVML source has given nothing yet\n")


def test_health_may_require_gpus() -> None:
    """With health_require_gpus it is 503 while no GPU answers, with dcgm-exporter's header and
    words, but not while a reload runs; without it a node may have no GPU.
    """
    pages = FakePages()

    async def health(session: aiohttp.ClientSession) -> tuple[int, str | None, str]:
        async with session.get("/health") as answer:
            return answer.status, answer.headers.get("X-GPU-Collectors"), await answer.text()

    def asked() -> tuple[int, str | None, str]:
        found: tuple[int, str | None, str] = ask(pages, health, health_require_gpus=True)
        return found

    assert ask(pages, health)[:2] == (200, None)
    status, collectors, text = asked()
    assert (status, collectors) == (503, "0")
    assert "no GPU collector registered" in text
    pages.busy = True
    assert asked() == (200, None, "OK - reload in progress")
    pages.busy, pages.answering = False, 8
    assert asked() == (200, None, "OK")


def test_a_gpu_that_does_not_answer_does_not_count() -> None:
    """Its row stays on the page, with its state."""
    assert agent_pages(FakeClock()).gpus() == 1
    assert agent_pages(FakeClock(), state=1).gpus() == 0


@pytest.mark.parametrize("path", ["/health", "/healthz"])
def test_dcgm_exporters_health_is_kept(path: str) -> None:
    """dcgm-exporter's /health: 200 with its two headers and its texts, also while a reload
    runs; /healthz is the same.
    """
    pages = FakePages()
    status, headers, body = get(pages, path)
    assert (status, body) == (200, b"OK")
    assert (headers["X-Registry-Available"], headers["X-Reload-In-Progress"]) == ("true", "false")
    pages.busy = True
    status, headers, body = get(pages, path)
    assert (status, body, headers["X-Reload-In-Progress"]) == (
        200,
        b"OK - reload in progress",
        "true",
    )


def test_a_page_that_cannot_be_made_is_500_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error of ours answers as dcgm-exporter does, is counted per scrape and logged
    once, and the server goes on.
    """
    pages = FakePages()
    pages.body = RuntimeError("broken template")
    metrics = SelfMetrics()

    async def run() -> list[tuple[int, str]]:
        web = Web(pages, Guard(metrics, SystemClock()), ["127.0.0.1:0"])
        async with serving(web) as (session, _):
            answers = []
            for _ in range(3):
                async with session.get("/metrics") as answer:
                    answers.append((answer.status, await answer.text()))
            pages.body = b"up 1\n"
            async with session.get("/metrics") as answer:
                answers.append((answer.status, await answer.text()))
            return answers

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(run()) == [(500, "internal server error\n")] * 3 + [(200, "up 1\n")]
    assert metrics.value(agent.STAGE_FAILURES, "web", "metrics", "RuntimeError") == 3
    assert sum("broken template" in record.message for record in caplog.records) == 1


def test_scrapes_that_wait_together_share_one_page() -> None:
    """Eight at the same moment cost one rendering per format, and the next one is made again."""
    pages = FakePages()

    async def run() -> tuple[int, int]:
        gather = ScrapeCoalescer(pages.metrics, 16)
        await asyncio.gather(*(gather.page(TEXT, gzip=False) for _ in range(8)))
        together = pages.renders
        await gather.page(TEXT, gzip=False)
        return together, pages.renders

    assert asyncio.run(run()) == (1, 2)


def test_a_client_that_leaves_does_not_take_the_page_from_the_others() -> None:
    """Cancelling one of two that wait leaves the other its page."""

    async def run() -> bytes:
        gather = ScrapeCoalescer(FakePages(b"up 1\n").metrics, 16)
        leaving = asyncio.ensure_future(gather.page(TEXT, gzip=False))
        staying = asyncio.ensure_future(gather.page(TEXT, gzip=False))
        await asyncio.sleep(0)
        leaving.cancel()
        return await staying

    assert asyncio.run(run()) == b"up 1\n"


@pytest.mark.slow
def test_the_seventeenth_scrape_at_once_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen clients that do not read their page hold sixteen slots; one more is told so at
    once, health still answers.
    """
    for name in ("READ_S", "WRITE_S"):  # on a busy machine sixteen clients take longer to arrive
        monkeypatch.setattr(f"collector.web.connections.{name}", PATIENCE_S)
    pages = FakePages(b"x" * (32 << 20))  # more than the sockets' buffers take

    async def run() -> tuple[int, str, int]:
        async with serving(Web(pages, guard(), ["127.0.0.1:0"])) as (session, address):
            host, port = parse(address)
            slow = [await asyncio.open_connection(host, port, limit=1) for _ in range(16)]
            for reader, writer in slow:
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                await reader.read(1)  # the answer has begun
            async with session.get("/metrics") as answer:
                refused = answer.status, await answer.text()
            async with session.get("/-/healthy") as answer:
                healthy = answer.status
            for _, writer in slow:
                writer.transport.abort()
            return *refused, healthy

    assert asyncio.run(run()) == (503, "scrape concurrency limit reached\n", 200)


def test_seventeen_parallel_scrapes_of_good_clients_are_all_answered_or_refused() -> None:
    """Parallel scrapes never get an empty or a broken page: 200 with the whole page, or 503."""
    body = b"tocsin_gpu_state 1\n" * 20_000

    async def work(session: aiohttp.ClientSession) -> set[tuple[int, int]]:
        async def one() -> tuple[int, int]:
            async with session.get("/metrics") as answer:
                return answer.status, len(await answer.read())

        return set(await asyncio.gather(*(one() for _ in range(17))))

    answers = ask(FakePages(body), work)
    assert answers <= {(200, len(body)), (503, 33)}
    assert (200, len(body)) in answers


def test_a_client_that_says_nothing_is_cut_off() -> None:
    """A connection without a request is aborted past its deadline; one
    that is being served is not.
    """

    async def run() -> tuple[int, int]:
        web = Web(FakePages(), guard(), ["127.0.0.1:0"])
        async with serving(web) as (_, address):
            host, port = parse(address)
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /metrics HTTP/1.1\r\n")  # a head that never ends
            await writer.drain()
            await accepted(web, 1)
            now = asyncio.get_running_loop().time()
            early, late = connections_of(web).sweep(now + 1), connections_of(web).sweep(now + 11)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            return early, late

    assert asyncio.run(run()) == (0, 1)


def test_clients_that_hold_connections_do_not_keep_a_scraper_out() -> None:
    """The number of connections is bounded: the one that has dawdled longest
    makes room for the next.
    """

    async def run() -> tuple[int, bytes, int]:
        web = Web(FakePages(), guard(), ["127.0.0.1:0"])
        async with serving(web) as (session, address):
            host, port = parse(address)
            connections_of(web)._most = 2
            held = []
            for _ in range(2):
                held.append(await asyncio.open_connection(host, port))
                held[-1][1].write(b"GET /metrics HTTP/1.1\r\n")  # a head that never ends
                await accepted(web, len(held))
            async with session.get("/metrics") as answer:
                status, body = answer.status, await answer.read()
            with contextlib.suppress(ConnectionResetError):
                assert await held[0][0].read() == b""
            for _, writer in held:
                writer.close()
            return status, body, len(connections_of(web))

    assert asyncio.run(run()) == (200, b"up 1\n", 2)


@pytest.mark.slow
def test_a_connection_is_hung_up_on_where_all_others_are_being_served() -> None:
    """An answer that runs is never cut off for a newcomer."""

    async def run() -> tuple[bytes, bytes]:
        web = Web(FakePages(b"x" * 50_000_000), guard(), ["127.0.0.1:0"])
        async with serving(web) as (_, address):
            host, port = parse(address)
            connections_of(web)._most = 1
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: n1\r\n\r\n")
            head = await reader.readline()  # the rest does not fit into the buffers between us
            late_reader, late_writer = await asyncio.open_connection(host, port)
            late = await late_reader.read()
            for one in (writer, late_writer):
                one.close()
            return head, late

    assert asyncio.run(run()) == (b"HTTP/1.1 200 OK\r\n", b"")


def test_connections_that_have_ended_are_forgotten() -> None:
    """A thousand scrapes, each on a connection of its own, leave nothing behind."""

    async def run() -> int:
        web = Web(FakePages(), guard(), ["127.0.0.1:0"])
        async with serving(web) as (_, address):
            for _ in range(50):
                async with aiohttp.request(
                    "GET", f"http://{address}/metrics", headers={"Connection": "close"}
                ) as answer:
                    await answer.read()
            async with asyncio.timeout(PATIENCE_S):
                while connections_of(web)._server.connections:  # noqa: ASYNC110 - aiohttp has no event for it
                    await asyncio.sleep(0)
            connections_of(web).sweep(asyncio.get_running_loop().time())
            return len(connections_of(web)) + len(connections_of(web)._by_protocol)

    assert asyncio.run(run()) == 0


def test_malformed_requests_are_counted_and_said_once_per_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A port scanner cannot fill the log: the first of a kind is a line, the rest a number."""
    metrics = SelfMetrics()

    async def run() -> list[bytes]:
        answers = []
        async with serving(Web(FakePages(), Guard(metrics, SystemClock()), ["127.0.0.1:0"])) as (
            _,
            address,
        ):
            for junk in [
                b"GET / HTTP/9.9\r\n\r\n",
                b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n",
            ] * 10:
                reader, writer = await asyncio.open_connection(*parse(address))
                writer.write(junk)
                answers.append(await reader.readline())
                writer.close()
        return answers

    with caplog.at_level(logging.DEBUG):
        answers = asyncio.run(run())
    assert set(answers) == {b"HTTP/1.0 400 Bad Request\r\n"}
    counted = {
        labels[2]: value
        for metric, rows in metrics.series()
        if metric is agent.STAGE_FAILURES
        for labels, value in rows
    }
    assert sum(counted.values()) == 20
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == len(counted)
    assert all(record.name == "tocsin.web" and not record.exc_info for record in lines)


def test_several_addresses_are_served_at_once() -> None:
    """IPv4 and IPv6 addresses side by side; port 0 is answered with the port that was given."""

    async def run() -> list[int]:
        web = Web(FakePages(), guard(), ["127.0.0.1:0", "[::1]:0", "localhost:0"])
        bound = await web.start()
        try:
            async with aiohttp.ClientSession() as session:
                answers = []
                for address in bound:
                    async with session.get(f"http://{address}/metrics") as answer:
                        answers.append(answer.status)
                return answers
        finally:
            await web.stop()

    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    answers = asyncio.run(run())
    assert len(answers) >= 3
    assert set(answers) == {200}


@pytest.mark.parametrize("address", [":0", "[::]:0"])
def test_an_address_of_no_host_is_every_interface(address: str) -> None:
    """Port alone, or IPv6's word for all, is reached over IPv4 too, as with dcgm-exporter."""

    async def run() -> int:
        web = Web(FakePages(), guard(), [address])
        bound = await web.start()
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{parse(bound[0])[1]}/metrics") as answer,
            ):
                return answer.status
        finally:
            await web.stop()

    assert asyncio.run(run()) == 200


def test_all_interfaces_of_each_family_can_be_named() -> None:
    """IPv6's word for all leaves the port to the IPv4 address beside it."""

    async def run() -> list[str]:
        port = free_port()
        web = Web(FakePages(), guard(), [f"0.0.0.0:{port}", f"[::]:{port}"])
        bound = await web.start()
        await web.stop()
        return bound

    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    assert len(asyncio.run(run())) == 2


@pytest.mark.parametrize("wide_first", [True, False])
def test_a_port_can_be_opened_to_all_interfaces_and_closed_to_them_again(
    *, wide_first: bool
) -> None:
    """A server that follows another takes its port over, between loopback and all interfaces; it
    stays closed to other processes.
    """

    async def run() -> int:
        port = free_port()
        first, then = [f":{port}", f"127.0.0.1:{port}"][:: 1 if wide_first else -1]
        old = Web(FakePages(), guard(), [first])
        await old.start()
        new = Web(FakePages(), guard(), [then], follows=old)
        await new.start()
        await old.stop()
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port)).close()
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{port}/metrics") as answer,
            ):
                return answer.status
        finally:
            await new.stop()

    assert asyncio.run(run()) == 200


def test_a_host_that_no_name_can_be_is_refused() -> None:
    """An empty or too long label is an error of the address, not of Python."""
    for address in ("..:9400", f"{'a' * 70}:9400"):
        with pytest.raises(ListenError, match=re.escape(f"cannot listen on {address}")):
            asyncio.run(Web(FakePages(), guard(), [address]).start())


@pytest.mark.parametrize(
    "address",
    [
        "9400",
        "127.0.0.1",
        "127.0.0.1:99999",
        "::1:9400",
        "host name:1",
        "[::1]",
        "127.0.0.1:-1",
        "",
    ],
)
def test_what_is_no_address_is_refused_by_name(address: str) -> None:
    """The message carries what the user typed."""
    with pytest.raises(ListenError, match=re.escape(f"{address!r} is not a listen address")):
        asyncio.run(Web(FakePages(), guard(), [address]).start())


def test_an_address_in_use_is_a_clear_start_error() -> None:
    """The message names the address and the reason, and no other address is left open."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        socket.create_server(("127.0.0.1", 0)) as probe,
    ):
        free, busy = probe.getsockname()[1], taken.getsockname()[1]
        probe.close()
        with pytest.raises(
            ListenError, match=f"cannot listen on 127.0.0.1:{busy}: the address is in use"
        ):
            asyncio.run(
                Web(FakePages(), guard(), [f"127.0.0.1:{free}", f"127.0.0.1:{busy}"]).start()
            )
        with socket.create_server(("127.0.0.1", free)):
            pass


def test_stopping_lets_a_running_scrape_end() -> None:
    """A scrape under way when the server stops gets its whole page; a new connection is
    refused; stopping twice is safe.
    """
    body = b"x" * (8 << 20)

    async def run() -> int:
        web = Web(FakePages(body), guard(), ["127.0.0.1:0"])
        host, port = parse((await web.start())[0])
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"200 OK" in head
        stopping = asyncio.ensure_future(web.stop())
        received = await reader.readexactly(len(body))
        writer.close()
        await stopping
        await web.stop()
        with pytest.raises(OSError, match="Connect"):
            await asyncio.open_connection(host, port)
        return len(received)

    assert asyncio.run(run()) == len(body)


def test_the_status_document_has_devices_findings_and_sources() -> None:
    """Programs get the same as people: values in base units, null where nothing was read."""
    status, headers, body = get(agent_pages(FakeClock()), "/api/v1/status")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    document = json.loads(body)
    (row,) = document["gpus"]
    assert (row["index"], row["state"], row["temperature_celsius"], row["power_watts"]) == (
        "0",
        "ok",
        41.0,
        71.234,
    )
    assert row["memory_used_bytes"] is None
    (source,) = document["sources"]
    assert (
        source["name"],
        source["success"],
        source["age_seconds"],
        source["duration_seconds"],
    ) == ("nvml", True, 0.0, None)
    (finding,) = document["findings"]
    assert (finding["severity"], finding["device"]) == ("page", "GPU-00000000")
    assert document["simulated"] is None


def test_old_readings_are_not_shown_as_new() -> None:
    """Past three periods the values are gone from the document and the device says it is
    not fresh; its state stays.
    """
    clock = FakeClock()
    pages = agent_pages(clock)
    clock.advance(60)
    (row,) = pages.status()["gpus"]
    assert (row["fresh"], row["temperature_celsius"], row["state"]) == (False, None, "ok")


def incident_pages(clock: FakeClock, note: str = "on it") -> AgentPages:
    """Pages of an agent with one incident that somebody took on, on a
    node that is out of service.
    """
    metrics, device, now = SelfMetrics(), gpu(0), clock.time_ns()
    exposition = Exposition(metrics, clock=clock)
    finding = Finding("xid", device, "xid", "onset", "page", now, now, "XID 79.")
    reported = Incident(
        "5a2e",
        device,
        "xid",
        "page",
        "RESTART_BM",
        now,
        (finding.id, "gone"),
        "It left.",
        reason="Power-cycle it.",
    )
    exposition.write(
        observed(clock),
        (finding,),
        (replace(reported, acknowledged_ns=now, note=note, acknowledged_by="ada"),),
    )
    out = Out("n1", "node", "n1", now, now + 3600 * SECOND_NS, "new firmware", "ada")
    return AgentPages(
        exposition,
        metrics,
        clock,
        Node("n1", "0.1.0"),
        out=lambda: (out,),
        health=lambda: {device: "failed"},
    )


def test_open_incidents_are_served_to_programs() -> None:
    """Who is to blame, what to do and why, who took it on; of its findings
    those that stand, in words.
    """
    status, headers, body = get(incident_pages(FakeClock()), "/api/v1/incidents")
    (incident,) = json.loads(body)["incidents"]
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert (incident["id"], incident["device"], incident["reason"]) == (
        "5a2e",
        gpu(0).id,
        "Power-cycle it.",
    )
    assert (incident["acknowledged_by"], incident["note"]) == ("ada", "on it")
    assert len(incident["findings"]) == 2
    assert [finding["summary"] for finding in incident["standing"]] == ["XID 79."]
