"""A hint over HTTP to a port on loopback, with the token that the job chose."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - for any address; its user may not be able to read it later
from contextlib import closing
from http.client import HTTPConnection, HTTPException

TIMEOUT_S = 5.0


def post(port: int, token: str, text: str) -> None:
    """POST /checkpoint. OSError where nobody listens, the answer is not 2xx, or the token is none
    that a header can have.
    """
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with closing(HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)) as connection:
        try:
            connection.request("POST", "/checkpoint", text.encode(), headers)
            status = connection.getresponse().status
        except (OSError, HTTPException, ValueError) as error:
            raise ConnectionError(f"port {port}: {type(error).__name__}: {error}") from error
    if not 200 <= status < 300:
        raise ConnectionError(f"port {port} answered {status}")
