"""The server before clients who mean harm: strangers, guessers, dawdlers, those who hold
connections and those who flood.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import bcrypt
import pytest

from collector.config.web.security import WebFile
from collector.web import Web
from collector.web.connections import READ_S
from tests.certificates import Authority
from tests.collector.web.guarded import AUTHORITY, MUTUAL, Guarded, client, configure, serving, tls
from tests.wait import PATIENCE_S

USERS = {"prom": bcrypt.hashpw(b"tick", bcrypt.gensalt(4)).decode()}
STRANGER = Authority("stranger")


def basic(password: str, user: str = "prom") -> str:
    """The header of a user."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ask(
    work: Callable[[Guarded], Awaitable[Any]], file: Path | None = None, **settings: Any
) -> Any:
    """What ``work`` finds on a server."""

    async def run() -> Any:
        async with serving(file, **settings) as served:
            return await work(served)

    return asyncio.run(run())


async def hung_up(served: Guarded, who: ssl.SSLContext) -> bool:
    """Whether a client's connection ends before it gets any answer."""
    try:
        reader, writer = await asyncio.open_connection(
            served.host, served.port, ssl=who, server_hostname="localhost"
        )
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    except OSError:  # TLS' own errors among them
        return True
    return answer == b""


def test_a_client_with_our_authoritys_certificate_is_served(tmp_path: Path) -> None:
    """Mutual TLS as Prometheus speaks it."""
    who = client(tmp_path, "prom.example.com")
    assert ask(
        lambda served: served.get(client=who), configure(tmp_path, tls_server_config=MUTUAL)
    ) == (200, "up 1\n")


@pytest.mark.parametrize(
    ("names", "by", "days"),
    [((), None, 1), (("prom.example.com",), STRANGER, 1), (("prom.example.com",), None, -1)],
    ids=str,
)
def test_a_client_without_a_good_certificate_gets_no_byte(
    tmp_path: Path,
    names: tuple[str, ...],
    by: Authority | None,
    days: float,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """None, a stranger's, an expired one: the handshake fails, which is counted each time and said
    once in OpenSSL's words.
    """
    who = client(tmp_path, *names, by=by or AUTHORITY, days=days)

    async def work(served: Guarded) -> tuple[list[bool], float]:
        refused = [await hung_up(served, who) for _ in range(3)]
        return refused, served.refused("handshake")

    assert ask(work, configure(tmp_path, tls_server_config=MUTUAL)) == ([True] * 3, 3)
    lines = [record.message for record in caplog.records if "client rejected" in record.message]
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("names", "by", "served"),
    [((), None, True), (("a",), None, True), (("a",), STRANGER, False)],
    ids=str,
)
def test_a_certificate_that_is_optional_is_verified_if_given(
    tmp_path: Path, names: tuple[str, ...], by: Authority | None, served: bool
) -> None:
    """VerifyClientCertIfGiven: none is as good as ours, a stranger's is refused."""
    file = configure(
        tmp_path, tls_server_config=MUTUAL | {"client_auth_type": "VerifyClientCertIfGiven"}
    )
    who = client(tmp_path, *names, by=by or AUTHORITY)

    async def work(server: Guarded) -> bool:
        return not await hung_up(server, who)

    assert ask(work, file) is served


@pytest.mark.parametrize(
    ("name", "served"),
    [("prom.example.com", True), ("other.example.com", False), ("prom.example.co", False)],
)
def test_only_listed_names_of_certificates_are_let_in(
    tmp_path: Path, name: str, served: bool
) -> None:
    """A certificate of our authority with another name ends at the door."""
    file = configure(
        tmp_path, tls_server_config=MUTUAL | {"client_allowed_sans": ["prom.example.com"]}
    )
    who = client(tmp_path, name)

    async def work(server: Guarded) -> tuple[bool, float]:
        return not await hung_up(server, who), server.refused("certificate")

    assert ask(work, file) == (served, 0 if served else 1)


def test_plain_http_on_a_tls_port_is_refused(tmp_path: Path) -> None:
    """No answer in the clear, not even an error page."""

    async def work(served: Guarded) -> bytes:
        reader, writer = await served.open()
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            answer = await reader.read()
        writer.close()
        return answer

    assert b"HTTP" not in ask(work, configure(tmp_path, tls_server_config=tls()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/metrics", "/", "/page.js", "/api/v1/status", "/-/healthy", "/health", "/nowhere"]
)
def test_every_path_wants_the_password(tmp_path: Path, path: str) -> None:
    """Nothing is told to strangers, not even what exists; who has the password is served."""
    file = configure(tmp_path, tls_server_config=tls(), basic_auth_users=USERS)
    who = client(tmp_path)

    async def work(served: Guarded) -> tuple[list[int], float]:
        tries = [
            {},
            {"Authorization": basic("tock")},
            {"Authorization": basic("tick", "root")},
            {"Authorization": basic("tick")},
        ]
        return [(await served.get(path, who, **headers))[0] for headers in tries], served.refused(
            "password"
        )

    statuses, refused = ask(work, file)
    assert statuses[:3] == [401] * 3
    assert statuses[3] not in (401, 429)
    assert refused == 3


def test_a_refusal_asks_for_the_password(tmp_path: Path) -> None:
    """As RFC 7617 wants it, so that a browser shows its dialogue."""

    async def work(served: Guarded) -> str | None:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{served.address}/metrics") as answer,
        ):
            return answer.headers.get("WWW-Authenticate")

    assert ask(work, configure(tmp_path, basic_auth_users=USERS)) == "Basic"


def test_requests_beyond_the_rate_are_429(tmp_path: Path) -> None:
    """The burst passes, the rest is told to come later; strangers do not use it up."""
    file = configure(tmp_path, basic_auth_users=USERS, rate_limit={"interval": "1h", "burst": 3})

    async def work(served: Guarded) -> list[int]:
        strangers = [(await served.get())[0] for _ in range(5)]
        return strangers + [(await served.get(Authorization=basic("tick")))[0] for _ in range(5)]

    assert ask(work, file) == [401] * 5 + [200] * 3 + [429] * 2


def test_headers_of_the_file_are_on_every_answer(tmp_path: Path) -> None:
    """In place of ours, refusals included."""
    file = configure(
        tmp_path,
        basic_auth_users=USERS,
        http_server_config={
            "headers": {"X-Frame-Options": "sameorigin", "Strict-Transport-Security": "max-age=1"}
        },
    )

    async def work(served: Guarded) -> list[tuple[str | None, str | None, str | None]]:
        found = []
        async with aiohttp.ClientSession(f"http://{served.address}") as session:
            for headers in ({}, {"Authorization": basic("tick")}):
                async with session.get("/metrics", headers=headers) as answer:
                    given = answer.headers
                    found.append(
                        (
                            given.get("X-Frame-Options"),
                            given.get("Strict-Transport-Security"),
                            given.get("X-Content-Type-Options"),
                        )
                    )
        return found

    assert ask(work, file) == [("sameorigin", "max-age=1", "nosniff")] * 2


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"]
)
def test_no_path_takes_anything(method: str) -> None:
    """There is nothing to write to: no method but GET and HEAD is known,
    with or without credentials.
    """

    async def work(served: Guarded) -> set[int]:
        async with aiohttp.ClientSession(f"http://{served.address}") as session:
            paths = [
                route.resource.canonical
                for route in served.web._application().router.routes()
                if route.resource is not None
            ]
            found = set()
            for path in paths:
                async with session.request(method, path.replace("{id}", "5a2e")) as answer:
                    found.add(answer.status)
            return found

    assert ask(work) == {405}


@pytest.mark.parametrize("head", [b"Content-Length: 100000000000", b"Transfer-Encoding: chunked"])
def test_a_request_with_a_body_is_refused_unread(head: bytes) -> None:
    """However much is announced, none of it is waited for: 413, and the connection ends."""

    async def work(served: Guarded) -> tuple[bytes, bool, float]:
        reader, writer = await served.open()
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        writer.close()
        return answer[:12], b"up 1" in answer, served.refused("body")

    assert ask(work) == (b"HTTP/1.1 413", False, 1)


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * 20_000,
        b"\r\n".join(b"X-%d: y" % n for n in range(2000)),
        b"X" * 20_000 + b": y",
    ],
    ids=["value", "many", "name"],
)
def test_a_head_that_is_too_large_is_refused(head: bytes) -> None:
    """Long values, long names, thousands of headers: 400, and nothing of it is kept."""

    async def work(served: Guarded) -> bytes:
        reader, writer = await served.open()
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            answer = await reader.readline()
        writer.close()
        return answer

    assert ask(work) == b"HTTP/1.0 400 Bad Request\r\n"


@pytest.mark.slow
def test_handshakes_that_never_end_are_bounded_in_number_and_time(tmp_path: Path) -> None:
    """Clients that connect and say nothing to a TLS port make room for a
    scraper, and are cut off.
    """
    who = client(tmp_path)

    async def work(served: Guarded) -> tuple[int, int, int, int]:
        served.connections._most = 20
        silent = [await served.open() for _ in range(20)]
        status, _ = await served.get(client=who)
        most = len(served.connections)
        now = asyncio.get_running_loop().time()
        early, late = served.connections.sweep(now), served.connections.sweep(now + READ_S + 1)
        for reader, writer in silent:
            async with asyncio.timeout(PATIENCE_S):
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
            writer.close()
        return status, most, early, late

    status, most, early, late = ask(work, configure(tmp_path, tls_server_config=tls()))
    assert (status, early) == (200, 0)
    assert most <= 20
    assert late >= 18


@pytest.mark.slow
def test_handshakes_are_begun_one_at_a_time_with_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of them costs the node a share of a core, however fast it comes; the
    kernel lets the others queue.
    """
    pause = 0.02
    monkeypatch.setattr("collector.web.connections.HANDSHAKE_PAUSE_S", pause)
    who = client(tmp_path)

    async def work(served: Guarded) -> tuple[set[int], float]:
        began = asyncio.get_running_loop().time()
        statuses = {
            status
            for status, _ in await asyncio.gather(*(served.get(client=who) for _ in range(10)))
        }
        return statuses, asyncio.get_running_loop().time() - began

    statuses, took = ask(work, configure(tmp_path, tls_server_config=tls()))
    assert statuses == {200}
    assert took >= 9 * pause


@pytest.mark.slow
def test_a_flood_of_connections_shuts_nobody_out() -> None:
    """Hundreds more than may be open: they push each other out, and a scraper is served."""

    async def work(served: Guarded) -> tuple[int, bool]:
        flood = [await asyncio.open_connection(served.host, served.port) for _ in range(600)]
        status, _ = await served.get()
        bounded = len(served.connections) <= served.connections._most
        for _, writer in flood:
            writer.transport.abort()
        return status, bounded

    assert ask(work) == (200, True)


def test_out_of_descriptors_idle_clients_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the process has no descriptor left it neither spins nor gives up: each try ends an idle
    connection, and then whoever waits is served.
    """
    monkeypatch.setattr("collector.web.connections.EXHAUSTED_PAUSE_S", 0.001)

    async def work(served: Guarded) -> tuple[int, bytes, int]:
        loop, failures = asyncio.get_running_loop(), 5
        reader, writer = await served.open()
        really = loop.sock_accept

        async def accept(bound: socket.socket) -> tuple[socket.socket, Any]:
            nonlocal failures
            accepted, address = await really(bound)
            if failures:
                failures -= 1
                accepted.close()
                raise OSError(errno.EMFILE, "Too many open files")
            return accepted, address

        monkeypatch.setattr(loop, "sock_accept", accept)
        await asyncio.gather(
            *(served.get() for _ in range(6)), return_exceptions=True
        )  # the loop waits in the real one still
        status, _ = await served.get()
        with contextlib.suppress(ConnectionResetError):
            left = await reader.read()
        writer.close()
        return status, left, failures

    assert ask(work) == (200, b"", 0)


def test_a_client_that_does_not_read_its_answer_is_cut_off() -> None:
    """A page that nobody takes holds its connection until the deadline of writing, not forever."""

    async def work(served: Guarded) -> tuple[int, int]:
        reader, writer = await served.open()
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.read(1)
        now = asyncio.get_running_loop().time()
        counts = served.connections.sweep(now + 5), served.connections.sweep(now + 31)
        writer.transport.abort()
        return counts

    assert ask(work, page=b"x" * (32 << 20)) == (0, 1)


def test_a_certificate_is_exchanged_while_clients_are_connected(tmp_path: Path) -> None:
    """The next connection sees the new one; connections under the old rules end, with their answer
    if they are getting one.
    """
    file = configure(tmp_path, tls_server_config=tls())
    who = client(tmp_path)

    async def certificate(served: Guarded) -> bytes | None:
        _, writer = await asyncio.open_connection(
            served.host, served.port, ssl=who, server_hostname="localhost"
        )
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return bytes(shown)

    async def work(served: Guarded) -> tuple[bool, bytes, int]:
        before = await certificate(served)
        idle_reader, idle = await asyncio.open_connection(
            served.host, served.port, ssl=who, server_hostname="localhost"
        )
        idle.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await idle_reader.readuntil(b"up 1\n")
        configure(tmp_path, tls_server_config=tls())
        assert served.web._file is not None
        assert served.web._file.look()
        served.web._listener.renew()
        with contextlib.suppress(ConnectionResetError, ssl.SSLError):
            left = await idle_reader.read()
        idle.close()
        return before != await certificate(served), left, (await served.get(client=who))[0]

    assert ask(work, file) == (True, b"", 200)


def test_an_answer_that_is_on_its_way_survives_a_rotation() -> None:
    """Only then does its connection end."""
    body = b"x" * (8 << 20)

    async def work(served: Guarded) -> int:
        reader, writer = await served.open()
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        served.web._listener.renew()
        async with asyncio.timeout(PATIENCE_S):
            received = await reader.read(-1)
        writer.close()
        return len(received)

    assert ask(work, page=body) == len(body)


def test_a_client_that_has_just_connected_gets_its_answer_and_no_second_one() -> None:
    """A scrape whose connection was opened a moment before the rules changed is not
    lost; the connection is.
    """

    async def work(served: Guarded) -> tuple[bytes, float]:
        reader, writer = await served.open()
        served.web._listener.renew()
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        async with asyncio.timeout(PATIENCE_S):
            received = await reader.read()
        writer.close()
        return received[:15], received.count(b"up 1")

    assert ask(work) == (b"HTTP/1.1 200 OK", 1)


def test_probes_have_a_listener_of_their_own(tmp_path: Path) -> None:
    """Plain and without password, for it tells nothing but health: no metrics, no page, no API."""
    file = configure(tmp_path, tls_server_config=MUTUAL, basic_auth_users=USERS)

    async def work(served: Guarded) -> dict[str, int]:
        (health,) = served.web.health_bound
        found = {}
        async with aiohttp.ClientSession(f"http://{health}") as session:
            for path in (
                "/-/healthy",
                "/-/ready",
                "/health",
                "/healthz",
                "/metrics",
                "/",
                "/api/v1/status",
                "/api/v1/incidents",
            ):
                async with session.get(path) as answer:
                    found[path] = answer.status
        return found

    found = ask(work, file, health_listen=["127.0.0.1:0"])
    assert {path for path, status in found.items() if status == 200} == {
        "/-/healthy",
        "/-/ready",
        "/health",
        "/healthz",
    }
    assert {status for status in found.values() if status != 200} == {404}


@pytest.mark.slow
def test_no_client_writes_the_log(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """A thousand refusals are counted; a line is written for the first of a kind, without a
    word of the client's own.
    """

    async def work(served: Guarded) -> float:
        for number in range(300):
            await served.get(
                f"/\x7fevil{number}", Authorization=f"evil {number}", User_Agent="evil"
            )
        for _ in range(20):
            _, writer = await served.open()
            writer.write(b"evil")
            writer.transport.abort()
        return served.refused("password")

    with caplog.at_level(logging.INFO):
        assert ask(work, configure(tmp_path, basic_auth_users=USERS)) == 300
    ours = [record for record in caplog.records if record.name.startswith(("tocsin", "aiohttp"))]
    assert len(ours) <= 3
    assert "evil" not in caplog.text


def test_another_server_takes_the_address_over_without_a_closed_door(tmp_path: Path) -> None:
    """As on a reload: both answer on the same port until the old one stops, then the new one under
    its own rules; no request fails.
    """

    async def run() -> list[int]:
        async with serving() as old:
            file = configure(tmp_path, basic_auth_users=USERS)
            new = Web(
                old.web._pages, old.web._guard, ["127.0.0.1:0"], file=WebFile(file), follows=old.web
            )
            try:
                assert await new.start() == [old.address]
                both = [(await old.get(Authorization=basic("tick")))[0] for _ in range(10)]
                await old.web.stop()
                return both + [(await old.get())[0] for _ in range(3)]
            finally:
                await new.stop()

    assert asyncio.run(run()) == [200] * 10 + [401] * 3
