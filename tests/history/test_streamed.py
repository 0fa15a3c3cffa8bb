"""Streamed remote read: chunks are decoded as Prometheus wrote them; what is torn is an error."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from history.site import streamed
from history.site.crc32c import crc32c
from history.site.http import Http
from history.site.messages import message
from history.site.open import Asked
from history.site.series import STALE_BITS, OtherWayError, Series, SiteError, TooMuchError, clean
from history.site.xor_chunks import TornChunkError, decoded

Samples = Sequence[tuple[int, float]]


class Bits:
    """Writes bits, high ones first."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, value: int, count: int) -> None:
        self.text += format(value & (1 << count) - 1, f"0{count}b") if count else ""

    def bytes(self) -> bytes:
        whole = self.text + "0" * (-len(self.text) % 8)
        return int("1" + whole, 2).to_bytes(len(whole) // 8 + 1)[1:] if whole else b""


def varint(value: int) -> bytes:
    """As encoding/binary of Go."""
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*made, value))


def xor_chunk(samples: Samples) -> bytes:
    """A chunk as tsdb/chunkenc/xor.go writes it."""
    made, bits = len(samples).to_bytes(2), Bits()
    lead = trail = -1
    before = step = word = 0
    for number, (ms, value) in enumerate(samples):
        now = struct.unpack(">Q", struct.pack(">d", value))[0]
        if number == 0:
            for byte in (*varint(ms << 1 if ms >= 0 else -(ms << 1) - 1), *struct.pack(">Q", now)):
                bits.add(byte, 8)
        elif number == 1:
            step = ms - before
            for byte in varint(step):
                bits.add(byte, 8)
        else:
            change, step = ms - before - step, ms - before
            for prefix, length, size in ((0b10, 2, 14), (0b110, 3, 17), (0b1110, 4, 20)):
                if change == 0:
                    bits.add(0, 1)
                    break
                if -(1 << size - 1) + 1 <= change <= 1 << size - 1:
                    bits.add(prefix, length)
                    bits.add(change, size)
                    break
            else:
                bits.add(0b1111, 4)
                bits.add(change, 64)
        if number:
            differs = now ^ word
            if differs == 0:
                bits.add(0, 1)
            else:
                leads = min(64 - differs.bit_length(), 31)
                trails = (differs & -differs).bit_length() - 1
                if lead >= 0 and leads >= lead and trails >= trail:
                    bits.add(0b10, 2)
                else:
                    lead, trail = leads, trails
                    bits.add(0b11, 2)
                    bits.add(lead, 5)
                    bits.add(64 - lead - trail, 6)
                bits.add(differs >> trail, 64 - lead - trail)
        before, word = ms, now
    return made + bits.bytes()


def drawn(draw: random.Random, count: int) -> list[tuple[int, float]]:
    """Samples with every kind of step and value."""
    ms, value, made = draw.randrange(-(10**12), 2 * 10**12), draw.random(), []
    stale = struct.unpack(">d", STALE_BITS.to_bytes(8))[0]
    for _ in range(count):
        made.append((ms, value))
        ms += draw.choice((15_000, 15_001, 14_000, 90_000, 600_000, 10**10))
        value = draw.choice((value, value + 1, draw.random() * 1e9, 0.0, -1.0, float("nan"), stale))
    return made


def test_chunks_are_decoded_as_they_were_written() -> None:
    """Any times, any values to the bit, chunks of any length side by side."""
    draw = random.Random(5)
    for count in (1, 2, 3, 40):
        written = [drawn(draw, draw.choice((1, 2, 7, 120))) for _ in range(count)]
        for samples, (times, values) in zip(
            written, decoded([xor_chunk(one) for one in written]), strict=True
        ):
            assert times.tolist() == [ms for ms, _ in samples]
            wanted = np.array([value for _, value in samples]).view(np.uint64)
            assert values.view(np.uint64).tolist() == wanted.tolist()


@pytest.mark.slow
def test_a_torn_chunk_is_never_samples() -> None:
    """Cut anywhere, or with a count that its bytes cannot have."""
    whole = xor_chunk(drawn(random.Random(6), 30))
    for size in range(len(whole) - 1):
        with pytest.raises(TornChunkError):
            decoded([whole[:size]])
    with pytest.raises(TornChunkError, match="more samples"):
        decoded([b"\xff\xff" + whole[2:]])


@pytest.mark.slow
def test_any_bytes_are_samples_or_an_error() -> None:
    """No other exception, and no more memory than the bytes allow."""
    draw = random.Random(7)
    whole = xor_chunk(drawn(draw, 30))
    for _ in range(300):
        at = draw.randrange(len(whole))
        broken = whole[:at] + draw.randbytes(3) + whole[at + 3 :]
        try:
            ((times, values),) = decoded([broken])
        except TornChunkError:
            continue
        assert len(times) == len(values) == int.from_bytes(broken[:2])


def test_the_checksum_is_castagnolis() -> None:
    """Of RFC 3720, B.4, and of any length."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0
    data = random.Random(8).randbytes(5_000)
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    assert crc32c(data) == register ^ 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """As storage/remote/chunked.go writes it."""
    return varint(len(payload)) + crc32c(payload).to_bytes(4) + payload


def response(*series: tuple[dict[str, str], Sequence[bytes]], kind: int = 1) -> bytes:
    """A message of series with their chunks."""
    made = message("ChunkedReadResponse")()
    for labels, chunks in series:
        one = made.chunked_series.add()
        for name, value in labels.items():
            one.labels.add(name=name, value=value)
        for data in chunks:
            one.chunks.add(type=kind, data=data)
    return bytes(made.SerializeToString())


class Streaming:
    """A site that answers with these bytes, as ``history.site.http.Http``."""

    url = "http://site"
    only: Mapping[str, str] = MappingProxyType({})

    def __init__(self, *bodies: bytes) -> None:
        self._bodies = list(bodies)

    @contextmanager
    def stream(self, *_: object) -> Iterator[Any]:
        answer: Any = io.BytesIO(self._bodies.pop(0))
        answer.kind = streamed.KIND
        yield answer


def read(body: bytes) -> list[Series]:
    """Series of a body."""
    site: Any = Streaming(body)
    return list(streamed.read(site, "metric", 0, 10**13))


def test_a_series_may_span_frames() -> None:
    """Its chunks are one series, and those that overlap give each time once."""
    first = [(1_000 + 15 * i, float(i)) for i in range(9)]
    second = [(1_000 + 15 * i, float(i)) for i in range(7, 20)]
    body = frame(response(({"a": "1"}, [xor_chunk(first)])))
    body += frame(response(({"a": "1"}, [xor_chunk(second)]), ({"a": "2"}, [xor_chunk(first)])))
    one, two = read(body)
    assert one.labels == {"a": "1"}
    assert one.values.tolist() == [float(i) for i in range(20)]
    assert (two.labels, two.values.tolist()) == ({"a": "2"}, [float(i) for i in range(9)])


def test_a_torn_stream_is_an_error() -> None:
    """Cut within a frame, a flipped bit, an error's words after the first frame, a huge size."""
    good = frame(response(({"a": "1"}, [xor_chunk([(1, 1.0)])])))
    flipped = good + frame(b"x" * 40)[:-1] + b"y"
    words = good + b"expanding series: context deadline exceeded\n"
    for body in (good + good[:-1], flipped, words, good + varint(1 << 40) + bytes(9)):
        with pytest.raises(SiteError, match=r"http://site/api/v1/read: a torn answer"):
            read(body)
    assert len(read(good)) == 1


def test_an_answer_without_end_is_asked_for_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its samples and labels take unpacked is bounded over all frames; where a minute has
    more than that, the error says of which metric.
    """
    monkeypatch.setattr(streamed, "MAX_ANSWER_BYTES", 16 * 25)
    small = frame(response(({"a": "1"}, [xor_chunk([(1, 1.0)])])))
    samples = frame(response(({"a": "1"}, [xor_chunk([(i, 1.0) for i in range(9)])]))) * 3
    names = frame(response(({"a": "1" * 99}, []))) * 9
    for large in (samples, names):
        site: Any = Streaming(large, small, small)
        found = list(Asked(site, streamed, "").read("metric", 0, 120_000))
        assert [one.values.tolist() for one in found] == [[1.0], []]
        site = Streaming(large)
        with pytest.raises(TooMuchError, match=r"http://site: metric: more than .* MiB"):
            list(Asked(site, streamed, "").read("metric", 0, 60_000))


def test_chunks_of_another_kind_are_asked_for_in_another_way() -> None:
    """XOR2, histograms."""
    with pytest.raises(OtherWayError):
        read(frame(response(({"a": "1"}, [xor_chunk([(1, 1.0)])]), kind=4)))


def test_a_site_that_cannot_be_read_as_a_stream_is_asked_for_samples_from_then_on() -> None:
    """Also where the first metric could be streamed."""
    asked = []

    class Way:
        def __init__(self, word: str) -> None:
            self.word = word

        def read(self, _http: object, name: str, begin_ms: int, _end_ms: int) -> Iterator[Series]:
            asked.append((self.word, name))
            if (self.word, name) == ("streamed", "b"):
                raise OtherWayError("chunks of type 4")
            yield clean({"by": self.word}, np.array([begin_ms]), np.array([1.0]), (0, 9))

    ways: Any = (Way("streamed"), Way("samples"))
    site = Asked(Http("http://127.0.0.1:1"), ways[0], "", ways[1])
    by = [one.labels["by"] for name in "abc" for one in site.read(name, 1, 9)]
    assert by == ["streamed", "samples", "samples"]
    assert asked == [("streamed", "a"), ("streamed", "b"), ("samples", "b"), ("samples", "c")]
