"""The child: ``main([module, memory, ...])`` answers calls of the methods of the reader that the
module's function ``reader`` makes, one at a time, until its input ends.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence

from collector.foreign_text import printable
from collector.sources.tenants.bounded import BoundsError, pack, unpack
from collector.sources.tenants.calls import signature
from collector.sources.tenants.frames import (
    ASK,
    DONE,
    FAILED,
    MARK,
    MAX_ANSWER,
    MAX_REQUEST,
    READY,
    framed,
    read_message,
)
from collector.sources.tenants.limits import allow_cpu, confine, cpu_s
from pipeline.allocator import give_back
from pipeline.child import end_with_parent

MAX_TEXT = 300  # characters of an error or a subject
LARGE_BYTES = 1 << 20  # after an answer of so many bytes freed memory goes back to the kernel

Request = tuple[str, float, tuple[bytes, ...]]  # method, CPU seconds, arguments
Answer = tuple[float, bytes]  # CPU seconds, value
Failure = tuple[str, str]  # reason, message


def main(arguments: Sequence[str]) -> None:
    """Serve until standard input ends."""
    end_with_parent()
    module, memory, *rest = arguments
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing else may write between messages
    make: Callable[..., object] = importlib.import_module(module).reader
    confine(int(memory))
    reader = make(lambda subject, tenant: _write(out, MARK, _marked(subject, tenant)), *rest)
    _write(out, READY, b"")
    while (message := read_message(sys.stdin.buffer.read, MAX_REQUEST)) is not None:
        kind, body = _answer(reader, message.body) if message.kind == ASK else (FAILED, b"")
        _write(out, kind, body)
        if len(body) > LARGE_BYTES:
            give_back()


def _answer(reader: object, body: bytes) -> tuple[int, bytes]:
    """A message for one request. What is not caught here ends the child, which is one look too."""
    began_s = cpu_s()
    try:
        name, allowed_s, given = unpack(body, Request)
        allow_cpu(allowed_s)
        method = getattr(type(reader), name)
        form = signature(method)
        args, kwargs = form.unpacked(given)
        value = pack(method(reader, *args, **kwargs), form.returned)
        if len(value) > MAX_ANSWER - 64:
            raise BoundsError(f"an answer of {len(value)} bytes")
        return DONE, pack((cpu_s() - began_s, value), Answer)
    except MemoryError:
        reason, text = "memory", "its memory limit"
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        reason, text = "failed", f"{type(error).__name__}: {error}"
    return FAILED, pack((reason, printable(text, MAX_TEXT)), Failure)


def _marked(subject: str, tenant: str) -> bytes:
    return pack((printable(subject, MAX_TEXT), tenant[:64]), tuple[str, str])


def _write(out: int, kind: int, body: bytes) -> None:
    data = memoryview(framed(kind, body))
    while data:
        data = data[os.write(out, data) :]
