"""Users of the bus against a real server: a host publishes as itself and as nobody else."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from collector.bus.connection import BusError, connect, publish
from collector.bus.credentials import load
from collector.config.load import Inputs
from collector.config.load import load as configuration
from collector.config.settings import Bus
from gateway import stream_setup
from pipeline import child
from pipeline.bus import subjects
from tests.certificates import Authority
from tests.nats import PROGRAM, address_in
from tests.servers import Server
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PROGRAM_OF_USERS = ROOT / "deploy" / "nats" / "bus_users.py"


def users(folder: Path, *arguments: str) -> child.Finished:
    """The program, run as an operator does."""
    argv = [sys.executable, str(PROGRAM_OF_USERS), str(folder), "--cluster", "c1", *arguments]
    return child.run(argv, timeout_s=PATIENCE_S)


class Secured:
    """A server that knows the accounts of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.keys = folder, folder / "keys"
        assert users(self.keys, "init").returncode == 0
        assert users(self.keys, "host", "node01", "gpu-1.rack2").returncode == 0
        assert users(self.keys, "gateway", "g0").returncode == 0
        ports = folder / "ports"
        ports.mkdir()
        (folder / "nats.conf").write_text(
            f"host: 127.0.0.1\nport: -1\nports_file_dir: {json.dumps(str(ports))}\n"
            f"jetstream {{ store_dir: {json.dumps(str(folder / 'js'))} }}\n"
            "include keys/accounts.conf\n",
            encoding="utf-8",
        )
        argv = [str(PROGRAM), "-c", str(folder / "nats.conf")]
        self.server = Server(argv, folder / "log")
        self.url = until(lambda: address_in(ports), "its ports", servers=[self.server])

    def bus(self, who: str, cluster: str = "c1") -> Bus:
        """The settings of a host or gateway."""
        file = str(self.keys / f"{who}.creds")
        return Bus(servers=(self.url,), cluster=cluster, credentials_file=file)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """With the stream, which the gateway's user makes."""
    server = Secured(tmp_path_factory.mktemp("secured"))
    assert stream_setup.run(server.bus("gateways/g0"), 1, 1 << 24) == 0
    yield server
    server.server.end()


def sends(server: Secured, who: str, host: str) -> str:
    """How a message of a user on a host's subject ends: empty when it was stored."""
    heard: list[str] = []

    async def notice(error: BaseException) -> None:
        heard.append(str(error))

    async def once() -> str:
        client: Client = await connect(server.bus(f"hosts/{who}"), who, notice)
        try:
            await publish(client, subjects.frames("c1", host), b"frames", f"{who} {host}")
        except BusError:
            return heard[0]
        finally:
            await client.close()
        return ""

    return asyncio.run(once())


@pytest.mark.parametrize("who", ["node01", "gpu-1.rack2"])
def test_a_host_publishes_as_itself_and_as_nobody_else(secured: Secured, who: str) -> None:
    """Also where its name has a dot."""
    assert sends(secured, who, who) == ""
    assert "permissions violation" in sends(secured, who, "node02")


def test_the_stream_is_made_once(secured: Secured) -> None:
    """Asked for again, with other limits, it stays as it is."""
    assert stream_setup.run(secured.bus("gateways/g0"), 1, 1 << 25) == 0


def test_the_stream_of_another_cluster_is_not_taken_for_ones_own(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    """It would store nothing: the error names both."""
    assert stream_setup.run(secured.bus("gateways/g0", "c2"), 1, 1 << 24) == 1
    assert "takes tocsin.v1.c1.frames.*, not tocsin.v1.c2.frames.*" in caplog.text


@pytest.mark.parametrize(
    ("pattern", "takes"),
    [
        ("tocsin.v1.c1.frames.*", True),
        ("tocsin.v1.*.frames.*", True),
        ("tocsin.>", True),
        ("tocsin.v1.c1.frames.n1", False),
        ("tocsin.v1.c2.>", False),
        ("tocsin.v1.c1.frames.*.>", False),
    ],
)
def test_a_stream_that_takes_more_is_taken(pattern: str, *, takes: bool) -> None:
    """It may have been made by hand, with other wildcards."""
    assert stream_setup._takes(pattern, "tocsin.v1.c1.frames.*") == takes


def test_a_host_cannot_make_the_stream_or_read_it(secured: Secured) -> None:
    """It has no right on JetStream's own subjects."""

    async def asks() -> str:
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def notice(error: BaseException) -> None:
            heard.put_nowait(str(error))

        client = await connect(secured.bus("hosts/node01"), "node01", notice)
        await client.publish("$JS.API.STREAM.PURGE.tocsin", b"")
        words = await heard.get()
        await client.close()
        return words

    assert "permissions violation" in asyncio.run(asyncio.wait_for(asks(), PATIENCE_S))


def refusal(server: Secured, who: str) -> str:
    """What the server says to a user whom it does not let in."""
    credentials = load(server.keys / f"{who}.creds")

    async def asked() -> str:
        host, port = server.url.removeprefix("nats://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        nonce = json.loads((await reader.readline()).split(b" ", 1)[1])["nonce"]
        signature = credentials.sign(nonce).decode()
        connects = {"jwt": credentials.jwt.decode(), "sig": signature, "verbose": True}
        writer.write(b"CONNECT " + json.dumps(connects).encode() + b"\r\n")
        answer = (await reader.readline()).decode()
        writer.close()
        await writer.wait_closed()
        return answer

    return asyncio.run(asked())


def test_no_host_gets_the_inbox_of_gateways(tmp_path: Path) -> None:
    """One of their name would read their answers."""
    assert users(tmp_path, "init").returncode == 0
    refused = users(tmp_path, "host", "node01", "gateway")
    assert refused.returncode == 2
    assert b"host gateway" in refused.stderr
    assert not list(tmp_path.rglob("*.creds"))


def test_what_is_revoked_is_refused_and_a_new_user_of_the_host_is_not(tmp_path: Path) -> None:
    """After a reload of the server."""
    server = Secured(tmp_path)
    try:
        assert stream_setup.run(server.bus("gateways/g0"), 1, 1 << 24) == 0
        assert refusal(server, "hosts/node01") == "+OK\r\n"
        assert users(server.keys, "revoke", "node01").returncode == 0
        server.server.process.send_signal(signal.SIGHUP)
        log = tmp_path / "log"
        until(lambda: re.search("(?i)reload.*config", log.read_text()), "the reload")

        assert "authorization" in refusal(server, "hosts/node01").lower()
        assert sends(server, "gpu-1.rack2", "gpu-1.rack2") == ""
    finally:
        server.server.end()


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Files and folders; a second init would lock out everybody, and is refused."""
    keys = tmp_path / "keys"
    assert users(keys, "init").returncode == 0
    assert users(keys, "host", "node01").returncode == 0
    modes = {stat.S_IMODE(file.stat().st_mode) for file in keys.rglob("*")}
    assert modes == {0o600, 0o700}
    assert b"has an account already" in users(keys, "init").stderr
    assert b"is no name of a host" in users(keys, "host", "../node01").stderr
    assert b"nothing was written for it" in users(keys, "revoke", "node02").stderr


PAGE = (ROOT / "docs" / "bus.md").read_text(encoding="utf-8")


def block(title: str) -> str:
    """The file of docs/bus.md whose first line names it."""
    (text,) = re.findall(rf"^```\w*\n(# {re.escape(title)}.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def placed(text: str, places: dict[str, Path]) -> str:
    """With these files in the places of those on a machine."""
    for place, real in places.items():
        assert place in text
        text = text.replace(place, str(real))
    return text


def test_the_real_server_takes_the_configuration_of_the_page(tmp_path: Path) -> None:
    """That of one server of three, with accounts.conf beside it."""
    keys = tmp_path / "keys"
    assert users(keys, "init").returncode == 0
    (keys / "accounts.conf").rename(tmp_path / "accounts.conf")
    authority = Authority()
    certificate, key = authority.server().write(tmp_path, "tls")
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    places = {
        "/etc/nats/tls/server.pem": certificate,
        "/etc/nats/tls/server.key": key,
        "/etc/nats/tls/ca.pem": tmp_path / "ca.pem",
        "/var/lib/nats": tmp_path / "data",
    }
    file = tmp_path / "nats.conf"
    file.write_text(placed(block("/etc/nats/nats.conf"), places), encoding="utf-8")
    done = child.run([str(PROGRAM), "-t", "-c", str(file)], timeout_s=PATIENCE_S)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_a_gateway_takes_the_configuration_of_the_page(tmp_path: Path) -> None:
    """With the three servers of the other file."""
    places = {
        place: tmp_path / Path(place).name
        for place in ("/etc/tocsin/bus.creds", "/etc/tocsin/tls/nats-ca.pem", "/etc/tocsin/web.yml")
    }
    for real in places.values():
        real.touch()
    file = tmp_path / "gateway.yaml"
    file.write_text(placed(block("/etc/tocsin/gateway.yaml"), places), encoding="utf-8")
    bus = configuration(Inputs(str(file), {})).config.bus
    servers = {server.removeprefix("tls://").partition(":")[0] for server in bus.servers}
    assert servers == set(re.findall(r"nats\d\.example\.com", block("/etc/nats/nats.conf")))
