"""A proxy that misbehaves on request, in front of a real HTTP server: what networks and
overloaded object stores do.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

from tests.tcp_proxy import begun
from tests.wait import PATIENCE_S

SLOW_DOWN = (
    503,
    "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
)
INTERNAL = (
    500,
    "<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>",
)
SKEWED = (
    403,
    (
        "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between request and "
        "current time is too large.</Message></Error>"
    ),
)
DENIED = (403, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one request.

    ``answer``: the server never sees it and this (status, body) comes back. ``reset``: it is cut
    before the server sees it. ``lost``: the server does it, the answer never arrives. ``half``: the
    server does it, half of its answer arrives. ``half_request``: half of the request's body reaches
    the server, then both sides are cut. ``stall``: nobody ever answers.
    """

    how: Literal["answer", "reset", "lost", "half", "half_request", "stall"]
    status: int = 0
    body: str = ""


def answer(what: tuple[int, str]) -> Fault:
    """A fault that answers in the server's place."""
    return Fault("answer", *what)


@dataclass(slots=True)
class FaultsProxy:
    """Forwards to 127.0.0.1:``upstream``.

    ``faults`` are used up in turn by requests of ``methods`` (None: none); ``always``
    then holds for the rest.
    """

    upstream: int
    methods: tuple[str, ...] = ("PUT",)
    faults: deque[Fault | None] = field(default_factory=deque)
    always: Fault | None = None
    delay_s: float = 0.0  # of every request that is forwarded: a slow store
    seen: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, fault
    heads: list[str] = field(default_factory=list)  # of the same requests, in small letters
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where clients go."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FaultsProxy:
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started.set,), daemon=True)
        self._thread.start()
        assert started.wait(PATIENCE_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        assert self._thread is not None
        self._thread.join(PATIENCE_S)

    def _serve(self, started: Callable[[], None]) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        started()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(begun())
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection can be used again."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        body = await reader.readexactly(_length(head))
        fault = self._next(method)
        self.seen.append((method, path, fault.how if fault else ""))
        self.heads.append(head.decode().lower())
        if fault is None:
            writer.write(await self._forward(head, body))
            await writer.drain()
            return False
        acts: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "answer": lambda: self._answer(writer, fault),
            "reset": lambda: self._reset(writer),
            "lost": lambda: self._lost(writer, head, body),
            "half": lambda: self._half(writer, head, body),
            "half_request": lambda: self._half_request(writer, head, body),
            "stall": lambda: asyncio.sleep(3600),
        }
        await acts[fault.how]()
        return False

    def _next(self, method: str) -> Fault | None:
        if method not in self.methods:
            return None
        return self.faults.popleft() if self.faults else self.always

    async def _forward(self, head: bytes, body: bytes) -> bytes:
        await asyncio.sleep(self.delay_s)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        lines = [
            line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")
        ]
        lines.insert(1, b"Connection: close")
        writer.write(b"\r\n".join(lines) + body)
        await writer.drain()
        answered = await reader.read(-1)
        writer.close()
        return answered

    async def _answer(self, writer: asyncio.StreamWriter, fault: Fault) -> None:
        body = fault.body.encode()
        head = (
            f"HTTP/1.1 {fault.status} X\r\n"
            f"Content-Length: {len(body)}\r\n"
            'ETag: "1"\r\n'
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()

    async def _reset(self, writer: asyncio.StreamWriter) -> None:
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def _lost(self, writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
        await self._forward(head, body)
        await self._reset(writer)

    async def _half(self, writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
        answered = await self._forward(head, body)
        writer.write(answered[: answered.index(b"\r\n\r\n") // 2])
        await writer.drain()

    async def _half_request(self, writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
        _, upstream = await asyncio.open_connection("127.0.0.1", self.upstream)
        upstream.write(head + body[: len(body) // 2])
        await upstream.drain()
        upstream.close()
        await self._reset(writer)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
