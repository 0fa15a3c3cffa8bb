"""Asks for pages of agents and exporters as a careful client: who answers is checked, who
asks is said to nobody else.

Named tuples and late imports: a health check that asks a socket needs none of this, and
starts in half the time.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPConnection
    from urllib.parse import SplitResult

OK = 200
MAX_PASSWORD_BYTES = 4096


class Access(NamedTuple):
    """Files of a client, "" where there is none.

    ``login_file`` has ``user:password`` in its one line.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    login_file: str = ""


NOBODY = Access()


def options(parser: argparse.ArgumentParser) -> None:
    """What a web configuration may ask of a client.

    A password is in a file: a command line is everybody's to read.
    """
    group = parser.add_argument_group("https", "Only for https:// URLs.")
    group.add_argument(
        "--ca",
        default="",
        metavar="FILE",
        help="CA of the server's certificate (default: the system's)",
    )
    group.add_argument("--cert", default="", metavar="FILE", help="client certificate")
    group.add_argument(
        "--key", default="", metavar="FILE", help="its key (default: in the file of --cert)"
    )
    group.add_argument(
        "--password-file", default="", metavar="FILE", help="a file with user:password in one line"
    )


def access(args: argparse.Namespace) -> Access:
    """What the options say."""
    return Access(args.ca, args.cert, args.key, args.password_file)


def get(url: str, who: Access = NOBODY, *, timeout_s: float, max_bytes: int) -> bytes:
    """The page at an http(s) URL, cut off at ``max_bytes``.

    OSError or ValueError, with the URL or file that is to blame.

    No proxy of the environment is asked and no redirection followed: the answer would be somebody
    else's. ``timeout_s`` is for the connection, and again for the whole answer: not for each byte
    of it.
    """
    from http.client import HTTPException  # noqa: PLC0415 - see above

    parts = split(url)
    headers = (
        {"Authorization": login(who.login_file)}
        if who.login_file and parts.scheme == "https"
        else {}
    )
    opened = connection(parts, who, timeout_s)
    try:
        opened.connect()
        with _cut_after(timeout_s, opened.sock):
            opened.request(
                "GET",
                f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}",
                headers=headers,
            )
            answer = opened.getresponse()
            page = answer.read(max_bytes)
    except (OSError, HTTPException) as error:
        raise ConnectionError(f"{url}: {str(error) or type(error).__name__}") from error
    finally:
        opened.close()
    if answer.status != OK:
        raise ConnectionError(f"{url}: HTTP {answer.status}")
    return page


def split(url: str) -> SplitResult:
    """The parts of a URL; ValueError where it names no host."""
    from urllib.parse import urlsplit  # noqa: PLC0415

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        named = bool(host) and parts.port != 0 and host.isprintable() and " " not in host
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from error
    if not named:
        raise ValueError(f"{url}: names no host")
    return parts


def connection(parts: SplitResult, who: Access, timeout_s: float) -> HTTPConnection:
    """A connection to the host of a URL, not yet opened; ValueError for what a client lacks."""
    from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPSConnection  # noqa: PLC0415

    # A port is always given: without one http.client takes the last group of an IPv6 address.
    if parts.scheme == "https":
        return HTTPSConnection(
            str(parts.hostname),
            parts.port or HTTPS_PORT,
            timeout=timeout_s,
            context=_context(who),
        )
    return HTTPConnection(str(parts.hostname), parts.port or HTTP_PORT, timeout=timeout_s)


@contextlib.contextmanager
def _cut_after(seconds: float, connected: socket.socket) -> Iterator[None]:
    """Ends the connection when the time is up, and what is done with it by TimeoutError: who sends
    a byte a second never times out by himself.
    """
    late = threading.Event()

    def cut() -> None:
        late.set()
        with contextlib.suppress(OSError):  # it ended by itself
            socket.socket.shutdown(
                connected, socket.SHUT_RDWR
            )  # not SSLSocket's own, which pulls TLS from under the reader

    timer = threading.Timer(seconds, cut)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if late.is_set():
            raise TimeoutError(f"no complete answer within {seconds:g} s")


def _context(who: Access) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415

    if who.key and not who.cert:
        raise ValueError("--key: needs --cert")
    try:
        context = ssl.create_default_context(cafile=who.ca or None)
    except OSError as error:
        raise ValueError(f"--ca {who.ca}: {error.strerror or error}") from error
    try:
        if who.cert:
            context.load_cert_chain(
                who.cert, who.key or None, password=""
            )  # an encrypted key is refused: nobody is asked
    except OSError as error:
        raise ValueError(
            f"--cert {who.cert}{f' --key {who.key}' if who.key else ''}: {error.strerror or error}"
        ) from error
    return context


def login(file: str) -> str:
    """The header Authorization for a file with ``user:password``; ValueError."""
    from base64 import b64encode  # noqa: PLC0415

    try:
        with Path(file).open("rb") as opened:
            line = opened.read(MAX_PASSWORD_BYTES).partition(b"\n")[0].rstrip(b"\r")
    except OSError as error:
        raise ValueError(f"--password-file {file}: {error.strerror or error}") from error
    if b":" not in line:
        raise ValueError(f"--password-file {file}: expected user:password in its first line")
    return f"Basic {b64encode(line).decode()}"
