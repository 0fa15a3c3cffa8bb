"""The connection to NATS: made, kept, and described in one line where it fails."""

from __future__ import annotations

import random
import re
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from nats import errors
from nats.aio.client import Client
from nats.js import errors as js_errors

from collector.bus.credentials import CredentialsFile
from collector.config.settings import Bus
from pipeline.bus import subjects

MIN_VERSION = (2, 11)  # docs/bus.md, "Server"
CONNECT_TIMEOUT_S = 2
# A frozen server is noticed after 15 s in place of the client's four minutes.
PING_S, PINGS = 5, 2
# nats-py waits this long between attempts at one server, for all clients alike: drawn per process,
# so that a broker that is back is not met by all agents in one second.
RECONNECT_S = (1.0, 4.0)


ACK_S = 2.0  # the server's round trip on a busy machine is below half a second: docs/bus.md
TOO_LARGE = 10054  # err_code of JetStream: above the stream's max_msg_size


class BusError(Exception):
    """Why nothing can be sent, in one line."""


class TooLargeError(BusError):
    """More bytes than the server or the stream takes in one message."""


async def connect(
    settings: Bus, host: str, notice: Callable[[BaseException], Awaitable[None]]
) -> Client:
    """A connection that is made again whenever it breaks; waits until there is one. Where the
    server ends it with an error, such as credentials that expired, it stays closed (``ended``).

    ``notice`` gets each attempt's failure, and later what the server refuses. BusError where the
    server is too old, CredentialsError or OSError for files that cannot be read.
    """
    options: dict[str, Any] = {}
    if settings.credentials_file:
        credentials = CredentialsFile(Path(settings.credentials_file))
        options["user_jwt_cb"] = credentials.jwt
        options["signature_cb"] = credentials.sign
    client = Client()
    await client.connect(
        servers=list(settings.servers),
        name=f"tocsin agent {host}",
        tls=tls(settings),
        inbox_prefix=subjects.inbox(host),
        error_cb=notice,
        connect_timeout=CONNECT_TIMEOUT_S,
        max_reconnect_attempts=-1,
        reconnect_time_wait=random.SystemRandom().uniform(*RECONNECT_S),  # type: ignore[arg-type]
        ping_interval=PING_S,
        max_outstanding_pings=PINGS,
        **options,
    )
    version = tuple(map(int, re.findall(r"\d+", str(client.connected_server_version))[:2]))
    if version < MIN_VERSION:
        await client.close()
        found, least = (".".join(map(str, each)) for each in (version, MIN_VERSION))
        raise BusError(f"the server is NATS {found}; {least} or newer is needed")
    return client


def ended(client: Client) -> str:
    """Why the connection is closed and will not be made again; empty while it may be."""
    return words(client.last_error or errors.ConnectionClosedError()) if client.is_closed else ""


async def publish(client: Client, subject: str, payload: bytes, message_id: str) -> None:
    """Send one message; returns when a stream has stored it, once per id within two minutes.

    BusError where it has not, or where nobody said so in time.
    """
    try:
        await client.jetstream().publish(
            subject, payload, timeout=ACK_S, headers={"Nats-Msg-Id": message_id}
        )
    except (errors.Error, OSError) as error:
        large = isinstance(error, errors.MaxPayloadError) or (
            isinstance(error, js_errors.APIError) and error.err_code == TOO_LARGE
        )
        raise (TooLargeError if large else BusError)(words(error)) from error


def tls(settings: Bus) -> ssl.SSLContext | None:
    """Certificates for servers ``tls://``; None where nothing asks for TLS. OSError or
    ssl.SSLError for files that are not what they should be.
    """
    if not (settings.ca_file or settings.cert_file) and not any(
        server.startswith("tls://") for server in settings.servers
    ):
        return None
    context = ssl.create_default_context(cafile=settings.ca_file or None)
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context


def words(error: BaseException) -> str:
    """An error of the client in one line that says what to look at."""
    known: dict[type[BaseException], str] = {
        js_errors.NoStreamResponseError: "no stream takes the subject (or it has no leader)",
        errors.TimeoutError: "no acknowledgement in time",
        errors.AuthorizationError: "the server refuses the credentials",
        errors.StaleConnectionError: "the server stopped to answer",
        errors.ConnectionReconnectingError: "no connection",
        ConnectionRefusedError: "connection refused",
    }
    for kind, said in known.items():
        if isinstance(error, kind):
            return said
    if isinstance(error, js_errors.APIError) and error.description:
        return error.description
    text = " ".join(str(error).split()) or type(error).__name__
    return text.removeprefix("nats: ")[:200]
