"""Prometheus' remote read as a stream of compressed chunks: a third of the bytes of whole samples,
and no more of the answer in memory than a frame.

storage/remote/{read_handler,chunked,codec}.go of Prometheus 3.14. An error after the first frame is
text inside an answer that began well: a frame with a wrong checksum, or half of one, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import DecodeError

from history.site import remote_read
from history.site.crc32c import crc32c
from history.site.http import Http, Stream
from history.site.messages import message
from history.site.series import OtherWayError, Series, SiteError, TooMuchError, clean
from history.site.xor_chunks import HEAD_BYTES, TornChunkError, decoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Message = Any  # of a class that is made at run time (messages.py)
    Decoded = tuple[dict[str, str], NDArray[np.int64], NDArray[np.float64]]

KIND = "application/x-streamed-protobuf"
STREAMED = 1  # ReadRequest.ResponseType STREAMED_XOR_CHUNKS
XOR = 1  # Chunk.Encoding; histograms, and XOR2 of 3.14's line, are asked for as samples
CHECKSUM_BYTES, SIZE_BYTES = 4, 5
MAX_FRAME_BYTES = 32 << 20  # Prometheus sends 1 MiB unless a site asks for more
AT_ONCE_BYTES = 4 << 20  # of chunks that are decoded together
# Of an answer, unpacked: Prometheus sets no limit to one that is streamed. 32 million samples.
MAX_ANSWER_BYTES, SAMPLE_BYTES = 512 << 20, 16


def read(http: Http, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
    """Series of a metric, a span's samples. SiteError; OtherWayError where this site, or this
    metric, has to be asked for samples, TooMuchError where it answers more than is kept at once.
    """
    body = remote_read.request(http, name, begin_ms, end_ms, STREAMED)
    with http.stream(remote_read.PATH, body, remote_read.HEADERS) as answer:
        if answer.kind != KIND:
            raise OtherWayError(f"{http.url}{remote_read.PATH}: answers with {answer.kind}")
        try:
            for one in _series(_bounded(frames(answer), f"{http.url}: {name}")):
                yield clean(*one, (begin_ms, end_ms))
        except (TornChunkError, DecodeError) as error:
            raise SiteError(f"{http.url}{remote_read.PATH}: a torn answer: {error}") from None


def is_offered(http: Http, now_ms: int) -> bool:
    """Whether the site answers so: asked for nothing that exists."""
    try:
        return not list(read(http, "tocsin_import_asks", now_ms - 1000, now_ms))
    except SiteError:
        return False


def frames(answer: Stream) -> Iterator[bytes]:
    """Payloads of an answer's frames: each has its size, its checksum and itself.
    TornChunkError.
    """
    while head := answer.read(1):
        size, shift = head[0] & 0x7F, 7
        while head[0] & 0x80:
            head = answer.read(1)
            if not head or shift >= 7 * SIZE_BYTES:
                raise TornChunkError("a frame without its size")
            size |= (head[0] & 0x7F) << shift
            shift += 7
        if size > MAX_FRAME_BYTES:
            raise TornChunkError(f"a frame of {size >> 20} MiB")
        whole = answer.read(CHECKSUM_BYTES + size)
        payload = whole[CHECKSUM_BYTES:]
        if len(payload) < size:
            raise TornChunkError("half a frame")
        if crc32c(payload) != int.from_bytes(whole[:CHECKSUM_BYTES]):
            raise TornChunkError("a frame with a wrong checksum")
        yield payload


def _bounded(payloads: Iterator[bytes], about: str) -> Iterator[Message]:
    """What frames hold, as long as it is not too much together. TooMuchError."""
    kind, size = message("ChunkedReadResponse"), 0
    for payload in payloads:
        held = kind.FromString(payload)
        counts = (
            int.from_bytes(chunk.data[:HEAD_BYTES])
            for one in held.chunked_series
            for chunk in one.chunks
        )
        size += len(payload) + SAMPLE_BYTES * sum(counts)
        if size > MAX_ANSWER_BYTES:
            raise TooMuchError(f"{about}: more than {MAX_ANSWER_BYTES >> 20} MiB in one answer")
        yield held


def _series(answers: Iterator[Message]) -> Iterator[Decoded]:
    """A series may span frames, and does not come again when the next has begun."""
    whole: list[tuple[dict[str, str], list[bytes]]] = []
    size = 0
    for held in answers:
        for one in held.chunked_series:
            labels = {label.name: label.value for label in one.labels}
            if not whole or whole[-1][0] != labels:
                if size > AT_ONCE_BYTES:
                    yield from _decoded(whole)
                    whole, size = [], 0
                whole.append((labels, []))
            for chunk in one.chunks:
                whole[-1][1].append(_data(chunk))
                size += len(chunk.data)
    yield from _decoded(whole)


def _data(chunk: Any) -> bytes:
    if chunk.type != XOR:
        raise OtherWayError(f"chunks of type {chunk.type}")
    data: bytes = chunk.data
    return data


def _decoded(whole: list[tuple[dict[str, str], list[bytes]]]) -> Iterator[Decoded]:
    parts = iter(decoded([data for _, chunks in whole for data in chunks]))
    for labels, chunks in whole:
        own = [next(parts) for _ in chunks]
        if own:
            times, values = (np.concatenate(arrays) for arrays in zip(*own, strict=True))
            yield labels, times, values
