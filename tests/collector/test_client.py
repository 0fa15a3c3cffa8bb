"""What our commands say of themselves when they ask a server, and whom they believe."""

from __future__ import annotations

import contextlib
import re
import select
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from collector.client import NOBODY, Access, connection, get, split
from tests.certificates import Authority
from tests.wait import PATIENCE_S


class Listener(BaseHTTPRequestHandler):
    """Answers with the headers that it was sent; /elsewhere sends on to another page, /drip
    sends a byte now and then.
    """

    def do_GET(self) -> None:
        if self.path == "/drip":
            self._drip()
            return
        body = str(self.headers).encode()
        self.send_response(302 if self.path == "/elsewhere" else 200)
        self.send_header("Location", "/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _drip(self) -> None:
        """As long as somebody listens."""
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while not select.select([self.connection], [], [], 0.02)[0]:
                self.wfile.write(b".")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Of a server in the clear."""
    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def ask(url: str, who: Access) -> str:
    """The answer."""
    return get(url, who, timeout_s=PATIENCE_S, max_bytes=1 << 16).decode()


def test_a_password_is_never_sent_in_the_clear(url: str, tmp_path: Path) -> None:
    """`tocsin diff` asks two servers: what is for one over TLS is nothing for the other without."""
    (tmp_path / "password").write_text("prom:tick\n")
    assert "Authorization" not in ask(url, Access(login_file=str(tmp_path / "password")))


def test_a_redirection_is_not_followed(url: str) -> None:
    """It would be the word of whoever is at the other address."""
    with pytest.raises(ConnectionError, match="/elsewhere: HTTP 302"):
        ask(f"{url}/elsewhere", Access())


@pytest.mark.slow
def test_an_answer_that_never_ends_is_cut_off(url: str) -> None:
    """Each byte comes in time, the answer does not; the part that came is none."""
    with pytest.raises(ConnectionError, match=r"/drip: no complete answer within 0\.2 s"):
        get(f"{url}/drip", timeout_s=0.2, max_bytes=1 << 16)


def test_nobody_there_is_said_with_the_address() -> None:
    """A port that nothing can listen on."""
    with pytest.raises(ConnectionError, match=r"^http://127\.0\.0\.1:1/: .*refused"):
        ask("http://127.0.0.1:1/", Access())


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("http://[fd00::7]/metrics", "fd00::7", 80),
        ("https://[fd00::c]/metrics", "fd00::c", 443),
        ("http://[fd00::7]:9400/metrics", "fd00::7", 9400),
        ("https://gpu07/metrics", "gpu07", 443),
    ],
)
def test_an_ipv6_address_needs_no_port(address: str, host: str, port: int) -> None:
    """Its last group is no port: a server at the usual port of its scheme is asked."""
    opened = connection(split(address), NOBODY, 1.0)
    assert (opened.host, opened.port) == (host, port)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://gpu07:94OO", "Port could not be cast"),
        ("http:///metrics", "names no host"),
        ("http://[::1", "Invalid IPv6"),
        ("http://gpu 07:9400", "names no host"),
    ],
)
def test_an_address_that_is_none_is_said(address: str, said: str) -> None:
    """And no other is asked instead."""
    with pytest.raises(ValueError, match=f"^{re.escape(address)}: {said}"):
        ask(address, Access())


@pytest.mark.parametrize(
    ("who", "said"),
    [
        (Access(ca="none.crt"), "--ca none.crt: No such file"),
        (Access(cert="none.crt", key="none.key"), "--cert none.crt --key none.key: No such file"),
        (Access(key="none.key"), "--key: needs --cert"),
        (Access(login_file="none"), "--password-file none: No such file"),
        (
            Access(login_file="wordless"),
            "--password-file wordless: expected user:password in its first line",
        ),
        (Access(cert="locked.crt", key="locked.key"), "--cert locked.crt --key locked.key: "),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_a_file_that_is_no_good_is_named(
    who: Access, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is sent; for a key that is locked nobody is asked at a terminal,
    which a health check has not.
    """
    monkeypatch.chdir(tmp_path)
    Authority().server(passphrase=b"secret").write(tmp_path, "locked")
    (tmp_path / "wordless").write_text("prom\n:\n")
    with pytest.raises(ValueError, match=f"^{said}"):
        ask("https://127.0.0.1:1/", who)
