"""Prometheus' remote read: raw samples at their true times, stale markers included.

storage/remote/read_handler.go of Prometheus 3.14: POST, a snappy block of a ReadRequest; the
answer is one of a ReadResponse. Officially not a stable interface, so what it says is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import cramjam
from google.protobuf.message import DecodeError

from history.site.http import MAX_BYTES, Answer, Http
from history.site.messages import message
from history.site.samples import arrays
from history.site.series import Series, SiteError, TooMuchError, clean

if TYPE_CHECKING:
    from history.site.samples import Arrays

PATH = "/api/v1/read"
HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Read-Version": "0.1.0",
}
OK = 200
PROTOBUF = "application/x-protobuf"
EQUAL, SAMPLES = 0, 0  # LabelMatcher.Type, ReadRequest.ResponseType


def read(http: Http, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
    """Series of a metric, a span's samples. SiteError, TooMuchError."""
    answer = http.post(PATH, request(http, name, begin_ms, end_ms, SAMPLES), HEADERS)
    for result in _decoded(answer, http.url).results:
        for one in result.timeseries:
            times, values = _arrays(one.samples, http.url)
            labels = {label.name: label.value for label in one.labels}
            yield clean(labels, times, values, (begin_ms, end_ms))


def request(http: Http, name: str, begin_ms: int, end_ms: int, form: int) -> bytes:
    """A question for a metric, to be answered in a form (ReadRequest.ResponseType)."""
    made = message("ReadRequest")(accepted_response_types=[form])
    query = made.queries.add(start_timestamp_ms=begin_ms, end_timestamp_ms=end_ms - 1)
    for label, value in {"__name__": name, **http.only}.items():
        query.matchers.add(type=EQUAL, name=label, value=value)
    return bytes(cramjam.snappy.compress_raw(made.SerializeToString()))


def is_offered(http: Http, now_ms: int) -> bool:
    """Whether the site answers remote read: asked for nothing that exists."""
    try:
        return not list(read(http, "tocsin_import_asks", now_ms - 1000, now_ms))
    except SiteError:
        return False


def _arrays(samples: Sequence[bytes], url: str) -> Arrays:
    try:
        return arrays(samples)
    except DecodeError as error:
        raise SiteError(f"{url}{PATH}: a torn answer: {error}") from None


def _decoded(answer: Answer, url: str) -> Any:
    if answer.is_too_much:
        raise TooMuchError(f"{url}: {answer.words}")
    if answer.status != OK or answer.kind != PROTOBUF:
        raise SiteError(f"{url}{PATH}: HTTP {answer.status}, {answer.kind}: {answer.words}")
    try:
        size = cramjam.snappy.decompress_raw_len(answer.body)
        if size > 4 * MAX_BYTES:
            raise SiteError(f"{url}{PATH}: an answer of {size >> 20} MiB unpacked")
        return message("ReadResponse").FromString(bytes(cramjam.snappy.decompress_raw(answer.body)))
    except (cramjam.DecompressionError, DecodeError) as error:
        raise SiteError(f"{url}{PATH}: a torn answer: {error}") from None
