"""Mutations of recorded inputs: of bytes, of pieces, and of what breaks decoders."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

# Numbers beyond 64 bits and 4,300 digits, words of JSON and pickle, ends of lines, nesting,
# escapes, bytes that are no UTF-8, times that no clock has.
WORDS: tuple[bytes, ...] = (
    *(b"0", b"-1", b"2147483648", b"9223372036854775808", b"18446744073709551616", b"1e309"),
    *(b"9" * 400, b"9" * 4301, b"-" + b"9" * 30, b"NaN", b"Infinity", b"inf", b"null", b"true"),
    *(b"{", b"}", b"[", b"]", b"[" * 2000, b'{"a":' * 1200, b'"', b"\\", b"\\u0000", b"\\ud800"),
    *(
        b"\n",
        b"\r\n",
        b"\0",
        b"\x1b[31m",
        b"\xff\xfe",
        b"\xc3\x28",
        b"\xf0\x9f\x98\x80",
        b" " * 500,
    ),
    *(b"9999-12-31 23:59:59", b"0000-00-00 00:00:00", b"10000-01-01T00:00:00Z", b"1e9999"),
    *(b"\x80\x02", b"X\xff\xff\xff\xff", b"\x8a\xff", b"r\xff\xff\xff\x7f", b"q\x00", b"(" * 100),
    *(b"]" * 500, b"\x94" * 50, b"K\x01" * 200, b"../../..", b"/dev/nvidia0", b"a" * 5000),
)
MAX_BYTES = 1 << 14  # of an input; what is large is the business of tests/tenants


def mutated(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    """One input: a recording with one to four mutations."""
    data = corpus[int(source.random() * len(corpus))]
    for _ in range(1 + int(source.random() * 4)):
        change = _CHANGES[int(source.random() * len(_CHANGES))]
        data = change(source, data, corpus)[:MAX_BYTES]
    return data


def _at(source: random.Random, data: bytes) -> int:
    return int(source.random() * (len(data) + 1))


def _flip(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = _at(source, data)
    return data[:at] + bytes((int(source.random() * 256),)) + data[at + 1 :]


def _insert(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at, word = _at(source, data), WORDS[int(source.random() * len(WORDS))]
    return data[:at] + word + data[at:]


def _replace(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A run of digits, or else a byte, by a word."""
    at, word = _at(source, data), WORDS[int(source.random() * len(WORDS))]
    end = at
    while end < len(data) and data[end] in b"0123456789":
        end += 1
    return data[:at] + word + data[max(end, at + 1) :]


def _cut(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at, end = sorted((_at(source, data), _at(source, data)))
    return data[:at] + data[end:]


def _end(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: _at(source, data)]


def _repeat(source: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at, end = sorted((_at(source, data), _at(source, data)))
    return data[:at] + data[at:end] * (2 + int(source.random() * 8)) + data[end:]


def _cross(source: random.Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    other = corpus[int(source.random() * len(corpus))]
    return data[: _at(source, data)] + other[_at(source, other) :]


_CHANGES: tuple[Callable[[random.Random, bytes, Sequence[bytes]], bytes], ...] = (
    _flip,
    _flip,
    _insert,
    _replace,
    _replace,
    _cut,
    _end,
    _repeat,
    _cross,
)
