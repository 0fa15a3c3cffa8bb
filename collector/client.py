"""Asks for pages of agents and exporters as a careful client: who answers is checked, who asks is said to nobody else.

Named tuples and late imports: a health check that asks a socket needs none of this, and starts in half the time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl

MOST_PASSWORD_BYTES = 4096


class Access(NamedTuple):
    """Files of a client, "" where there is none. ``login_file`` has ``user:password`` in its one line."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    login_file: str = ""


NOBODY = Access()


def options(parser: argparse.ArgumentParser) -> None:
    """What a web configuration may ask of a client. A password is in a file: a command line is everybody's to read."""
    group = parser.add_argument_group("https", "For https:// alone; over http:// nothing of it is sent.")
    group.add_argument("--ca", default="", metavar="FILE", help="authority of the server's certificate (default: the system's)")
    group.add_argument("--cert", default="", metavar="FILE", help="client certificate to show")
    group.add_argument("--key", default="", metavar="FILE", help="its key (default: in the file of --cert)")
    group.add_argument("--password-file", default="", metavar="FILE", help="a file with user:password in one line")


def access(args: argparse.Namespace) -> Access:
    """What the options say."""
    return Access(args.ca, args.cert, args.key, args.password_file)


def get(url: str, who: Access = NOBODY, *, timeout_s: float, most_bytes: int) -> bytes:
    """The page at an http(s) URL, cut off at ``most_bytes``. OSError or ValueError, with the URL or file that is to blame.

    No proxy of the environment is asked and no redirection followed: the answer would be somebody else's.
    """
    from http.client import HTTPException  # noqa: PLC0415 - see above
    from urllib import error, request  # noqa: PLC0415

    secure = url.startswith("https://")
    asking = request.Request(url)  # noqa: S310 - the opener below speaks HTTP alone
    opener = request.OpenerDirector()
    speaker = request.HTTPSHandler(context=_context(who)) if secure else request.HTTPHandler()
    for handler in (speaker, request.HTTPErrorProcessor(), request.HTTPDefaultErrorHandler()):
        opener.add_handler(handler)
    if who.login_file and secure:
        asking.add_header("Authorization", _basic(who.login_file))
    try:
        with opener.open(asking, timeout=timeout_s) as answer:
            page: bytes = answer.read(most_bytes)
    except error.HTTPError as refusal:
        raise ConnectionError(f"{url}: HTTP {refusal.code}") from refusal
    except error.URLError as failure:
        raise ConnectionError(f"{url}: {failure.reason}") from failure
    except (OSError, HTTPException) as failure:
        raise ConnectionError(f"{url}: {failure or type(failure).__name__}") from failure
    return page


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
            context.load_cert_chain(who.cert, who.key or None, password="")  # an encrypted key is refused: nobody is asked
    except OSError as error:
        raise ValueError(f"--cert {who.cert}{f' --key {who.key}' if who.key else ''}: {error.strerror or error}") from error
    return context


def _basic(file: str) -> str:
    from base64 import b64encode  # noqa: PLC0415

    try:
        with Path(file).open("rb") as opened:
            line = opened.read(MOST_PASSWORD_BYTES).partition(b"\n")[0].rstrip(b"\r")
    except OSError as error:
        raise ValueError(f"--password-file {file}: {error.strerror or error}") from error
    if b":" not in line:
        raise ValueError(f"--password-file {file}: expected user:password in its first line")
    return f"Basic {b64encode(line).decode()}"
