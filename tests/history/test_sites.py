"""The same history from real servers, in every way that they offer."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collector.client import Access
from history.site import export, queries, remote_read, streamed
from history.site.http import TRIES, Http
from history.site.open import Asked, site_of
from history.site.series import Series, SiteError, TooMuchError
from tests.history.recorded import Recorded, prometheus, victoria
from tests.history.site import BEGIN_MS, HOUR_MS, node, scrapes
from tests.parts import VERSIONS

SPAN = (BEGIN_MS, BEGIN_MS + 2 * HOUR_MS)
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    """Two nodes with a minute's gap, a reading that is no number, and a label with every
    character that needs care.
    """
    site = Recorded()
    times = [ms for ms in scrapes(*SPAN) if not 600_000 <= ms - BEGIN_MS < 660_000]
    node(site, "n1", times)
    node(site, "n2", scrapes(*SPAN, offset_ms=7_003), exported_pod='a"b\\c\nd')
    site.add("with_nan", {"host": "n1"}, [(BEGIN_MS, 1.0), (BEGIN_MS + 15_000, float("nan"))])
    return site


def plain(found: Iterator[Series]) -> dict[tuple[tuple[str, str], ...], list[tuple[int, float]]]:
    """Samples by labels."""
    return {
        tuple(sorted(one.labels.items())): list(
            zip(one.times_ms.tolist(), one.values.tolist(), strict=True)
        )
        for one in found
        if len(one.times_ms)
    }


@pytest.mark.integration
@pytest.mark.parametrize("version", VERSIONS)
def test_prometheus_gives_every_sample_at_its_time_by_remote_read_and_by_queries(
    recorded: Recorded, version: str, tmp_path: Path
) -> None:
    """And nothing in the gap."""
    with prometheus(recorded, tmp_path, VERSIONS[version]) as url:
        http = Http(url)
        site = site_of(http, SPAN[1])
        assert "by remote read, streamed" in site.how
        assert set(recorded.names(*SPAN)) <= set(site.names(*SPAN))
        for name in recorded.names(*SPAN):
            for span in (SPAN, (BEGIN_MS + 15_000, BEGIN_MS + 700_000)):
                wanted = plain(recorded.read(name, *span))
                for way in (streamed, remote_read):
                    assert plain(way.read(http, name, *span)) == wanted
                assert plain(queries.read(http, name, *span)) == wanted


@pytest.mark.integration
def test_victoria_metrics_gives_every_sample_at_its_time_by_export_and_by_queries(
    recorded: Recorded, tmp_path: Path
) -> None:
    """And nothing in the gap. Its own limits of precision are those of decimal digits."""
    with victoria(recorded, tmp_path) as url:
        http = Http(url)
        site = site_of(http, SPAN[1])
        assert "by export" in site.how
        assert set(recorded.names(*SPAN)) <= set(site.names(*SPAN))
        for name in recorded.names(*SPAN):
            for span in (SPAN, (BEGIN_MS + 15_000, BEGIN_MS + 700_000)):
                wanted = plain(recorded.read(name, *span))
                assert plain(export.read(http, name, *span)) == wanted
                assert plain(queries.read(http, name, *span)) == wanted


@pytest.mark.integration
def test_a_question_that_is_too_much_for_the_site_is_asked_in_halves(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus' own limit of samples, made small."""
    server = Path("/usr/bin/prometheus")
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nexec {server} --storage.remote.read-sample-limit=500 "$@"\n')
    limited.chmod(0o755)

    def part(program: str, package: str) -> str:
        found = VERSIONS["oldest"](program, package)
        return str(limited) if program == "prometheus" else found

    with prometheus(recorded, tmp_path, part) as url:
        site = Asked(Http(url), remote_read, "by samples, which are limited")
        wanted = plain(recorded.read(TEMPERATURE, *SPAN))
        found: dict[Any, list[tuple[int, float]]] = {}
        for one in site.read(TEMPERATURE, *SPAN):
            key = tuple(sorted(one.labels.items()))
            pairs = list(zip(one.times_ms.tolist(), one.values.tolist(), strict=True))
            found.setdefault(key, []).extend(pairs)
        assert found == wanted


@contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[Any]]]:
    """A server that gives these answers one after the other, the last for ever; its URL and what
    it was asked. One that has a Content-Length of its own ends where its body does.
    """
    left, asked = list(answers), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_GET(self) -> None:
            asked.append((self.path, dict(self.headers)))
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


JSON = {"Content-Type": "application/json"}


@pytest.mark.slow
def test_a_busy_site_is_asked_again_when_it_says() -> None:
    """429 with Retry-After, then 503, then the answer."""
    waits: list[float] = []
    busy = (429, {"Retry-After": "7"}, b"later")
    with answering(busy, (503, {}, b""), (200, JSON, b"{}")) as (url, asked):
        assert Http(url, sleep=waits.append).get("/x").body == b"{}"
    assert len(asked) == 3
    assert waits == [7.0, 2.0]


@pytest.mark.slow
def test_a_site_that_stays_away_is_given_up_with_its_address() -> None:
    """After a few tries."""
    waits: list[float] = []
    with answering((503, {}, b"overloaded")) as (url, asked), pytest.raises(SiteError) as error:
        Http(url, sleep=waits.append).get("/x")
    assert len(asked) == TRIES
    assert len(waits) == TRIES - 1
    assert url in str(error.value)
    assert "overloaded" in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("way", [streamed, remote_read, export])
def test_a_question_on_which_a_proxy_gives_up_twice_is_asked_in_halves(way: Any) -> None:
    """Nginx waits a minute for the site, and a day of a thousand nodes takes longer."""
    late = (504, {"Content-Type": "text/html"}, b"<h1>504 Gateway Time-out</h1>")
    with answering(late) as (url, asked):
        site = Asked(Http(url, sleep=lambda _: None), way, "")
        with pytest.raises(TooMuchError, match="504 Gateway Time-out"):
            list(site.read("m", BEGIN_MS, BEGIN_MS + 120_000))
        assert len(asked) == 2 * 2


LINE = b'{"metric":{"__name__":"m","i":"%d"},"values":[1],"timestamps":[%d]}\n'


@pytest.mark.slow
def test_an_answer_that_breaks_off_is_asked_for_again_never_taken_as_whole() -> None:
    """Also where it breaks off at the end of a line; one that stays so is an error."""
    lines = [LINE % (i, BEGIN_MS) for i in range(10)]
    whole = (200, JSON, b"".join(lines))
    half = (200, {**JSON, "Content-Length": str(len(whole[2]))}, b"".join(lines[:4]))
    with answering(half, whole) as (url, asked):
        assert len(list(export.read(Http(url, sleep=lambda _: None), "m", *SPAN))) == 10
        assert len(asked) == 2
    for broken in (half, (200, half[1], b"")):
        with answering(broken) as (url, _), pytest.raises(SiteError, match="IncompleteRead"):
            list(export.read(Http(url, sleep=lambda _: None), "m", *SPAN))


@pytest.mark.slow
def test_a_stream_that_breaks_off_between_two_frames_is_an_error() -> None:
    """It announced more."""
    headers = {"Content-Type": streamed.KIND, "Content-Length": "100"}
    with answering((200, headers, b"")) as (url, _), pytest.raises(SiteError, match="Incomplete"):
        list(streamed.read(Http(url), "m", *SPAN))


@pytest.mark.slow
@pytest.mark.parametrize("status", [422, 500])
@pytest.mark.parametrize("way", [streamed, remote_read, export])
@pytest.mark.parametrize(
    "words",
    [
        "the query exceeded the maximum number of chunks (limit: 2000000 chunks)",
        "the query exceeded the aggregated chunks size limit (limit: 100 bytes)",
        "exceeded sample limit (5000)",
        "the number of matching timeseries exceeds 300000; either narrow down the search",
        "cannot select more than -search.maxSamplesPerQuery=1000 samples; possible solutions: ...",
        "the query exceeded the maximum allowed estimated amount of memory (limit: 9 bytes)",
        "the query hit the max number of chunks limit (limit: 2000000 chunks)",
        "exceeded chunks limit: rpc error: code = Code(422) desc = limit 9 violated (got 10)",
        "query timed out in expression evaluation",
    ],
)
def test_a_question_that_is_refused_as_too_much_is_asked_in_halves(
    way: Any, words: str, status: int
) -> None:
    """Of each site by its own words, whatever the status; the same is not asked again."""
    refused = (status, {"Content-Type": "text/plain"}, words.encode())
    with answering(refused) as (url, asked):
        with pytest.raises(TooMuchError, match=re.escape(words)):
            list(Asked(Http(url), way, "").read("m", BEGIN_MS, BEGIN_MS + 120_000))
        assert len(asked) == 2


@pytest.mark.slow
def test_a_token_that_is_refused_is_not_tried_again_and_not_printed(tmp_path: Path) -> None:
    """401 is the answer."""
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with answering((401, {}, b"who? s3cret")) as (url, asked), pytest.raises(SiteError) as error:
        Http(url, token_file=str(token)).get("/x")
    assert len(asked) == 1
    assert asked[0][1]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(error.value)


def test_a_secret_goes_over_https_or_stays_on_the_machine(tmp_path: Path) -> None:
    """A token, and a password."""
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with pytest.raises(SiteError, match="https"):
        Http("http://prometheus.example:9090", token_file=str(token))
    with pytest.raises(SiteError, match="https"):
        Http("http://prometheus.example:9090", Access(login_file=str(token)))
    Http("https://prometheus.example", token_file=str(token))


@pytest.mark.parametrize("content", [b"", b"\n", b"a\x00b", b"\xff"])
def test_a_token_file_without_a_token_is_named(content: bytes, tmp_path: Path) -> None:
    """Empty, or binary."""
    token = tmp_path / "token"
    token.write_bytes(content)
    with pytest.raises(SiteError, match="token"):
        Http("https://prometheus.example", token_file=str(token))


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        (200, {"Content-Type": "text/html"}, b"<html>log in</html>"),
        (404, {"Content-Type": "text/plain"}, b"no such page"),
        (200, JSON, b"[]"),
        (200, JSON, b'{"status":"success","data":{"version":"9"}}'),
    ],
    ids=["a login page", "nothing", "other JSON", "says it is, and answers nothing else"],
)
def test_what_is_no_prometheus_is_said_to_be_none(
    answer: tuple[int, dict[str, str], bytes],
) -> None:
    """One line with the address."""
    with answering(answer) as (url, _), pytest.raises(SiteError) as error:
        site_of(Http(url, sleep=lambda _: None), BEGIN_MS).names(*SPAN)
    assert url in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xff\xff\xff\x7f", b"\x05\x10hello", b"garbage" * 100],
    ids=["empty", "says it is 32 GiB", "no message", "garbage"],
)
def test_a_torn_answer_of_remote_read_is_an_error_never_an_end(body: bytes) -> None:
    """Whatever the bytes are."""

    class Post(Http):
        def post(self, path: str, _body: bytes, _headers: Any) -> Any:
            return self.get(path)

    with (
        answering((200, {"Content-Type": "application/x-protobuf"}, body)) as (url, _),
        pytest.raises(SiteError),
    ):
        list(remote_read.read(Post(url), TEMPERATURE, *SPAN))


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [b"null", b"[]", b'{"metric":{},"values":[1],"timestamps":[]}', b'{"metric":{}', b"<html>"],
)
def test_a_line_of_an_export_that_is_no_series_is_an_error(line: bytes) -> None:
    """And the line is shown."""
    with answering((200, JSON, line)) as (url, _), pytest.raises(SiteError, match="no series"):
        list(export.read(Http(url), TEMPERATURE, *SPAN))


@pytest.mark.slow
def test_markers_in_an_export_are_no_samples() -> None:
    """null, and the bare word NaN that older versions write."""
    line = (
        b'{"metric":{"__name__":"m","pod":"a,NaN,b"},"values":[1,null,NaN,"Infinity"],'
        b'"timestamps":[%d,%d,%d,%d]}'
    )
    times = tuple(BEGIN_MS + i for i in range(4))
    with answering((200, JSON, line % times)) as (url, _):
        (one,) = export.read(Http(url), "m", *SPAN)
    assert one.times_ms.tolist() == [times[0], times[3]]
    assert one.values.tolist() == [1.0, np.inf]
    assert len(one.labels["pod"]) == len("a,NaN,b")
