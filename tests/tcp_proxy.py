"""A proxy for any TCP server that is slow, or cuts its clients off, on request."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from tests.wait import PATIENCE_S

CHUNK = 1 << 16


async def begun() -> None:
    """What asyncio has accepted is a task by now, and has begun: one that is cancelled before that
    leaves its socket open.
    """
    for _ in range(3):
        await asyncio.sleep(0)


class TcpProxy:
    """Forwards to 127.0.0.1:``upstream``; ``with`` starts it. Each piece of ``CHUNK`` bytes at most
    waits ``delay_s`` in either direction.
    """

    def __init__(self, upstream: int) -> None:
        self.delay_s = 0.0
        self.port = 0
        self._upstream = upstream
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    def __enter__(self) -> TcpProxy:
        self._thread.start()
        self.heal()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    @property
    def url(self) -> str:
        """Of a client of NATS."""
        return f"nats://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End all connections and take no others."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(PATIENCE_S)

    def heal(self) -> None:
        """Take connections again."""
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(PATIENCE_S)

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        await begun()
        # One that was being accepted is a task, and becomes another.
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not a coroutine: one that is cancelled before it begins would leave the socket open."""
        task = self._loop.create_task(self._forward(reader, writer))
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._upstream)
            try:
                await asyncio.gather(self._pass(reader, ours), self._pass(theirs, writer))
            finally:
                ours.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK):
                await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
