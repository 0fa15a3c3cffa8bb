"""What the server sends for the page: the page packed, its style and script as what they are."""

from __future__ import annotations

import contextlib
import gzip
import http.client
from collections.abc import Iterator, Mapping

import pytest

from tests.collector.web.served import Served
from tests.wait import PATIENCE_S


@pytest.fixture(scope="module")
def node() -> Iterator[Served]:
    """A node whose page is served."""
    served = Served()
    yield served
    served.close()


def get(node: Served, path: str, **headers: str) -> tuple[Mapping[str, str], bytes]:
    """Headers and body."""
    with contextlib.closing(
        http.client.HTTPConnection(node.address, timeout=PATIENCE_S)
    ) as connection:
        connection.request(
            "GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()}
        )
        answer = connection.getresponse()
        return dict(answer.headers), answer.read()


@pytest.mark.parametrize(
    ("path", "content_type"), [("/page.css", "text/css"), ("/page.js", "text/javascript")]
)
def test_style_and_script_say_what_they_are(node: Served, path: str, content_type: str) -> None:
    """A browser that is told not to guess takes them."""
    headers, body = get(node, path)
    assert headers["Content-Type"] == f"{content_type}; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert body


def test_the_page_is_packed_for_those_who_can_unpack(node: Served) -> None:
    """And the same for those who cannot; caches are told."""
    headers, packed = get(node, "/", Accept_Encoding="gzip")
    assert (headers["Content-Encoding"], headers["Vary"]) == ("gzip", "Accept-Encoding")
    _, plain = get(node, "/")
    assert gzip.decompress(packed) == plain
    assert len(packed) < len(plain) / 3


def test_the_policy_lets_nothing_else_in(node: Served) -> None:
    """No script or style within the page, none from elsewhere, and no markup
    made from text by a script.
    """
    policy = get(node, "/")[0]["Content-Security-Policy"]
    for rule in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "require-trusted-types-for",
    ):
        assert rule in policy
    assert "unsafe" not in policy
