"""One page for all who ask at the same moment, and a limit on how many may."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.exposition import Format


class TooManyScrapes(Exception):  # noqa: N818 - it is an answer (503), not a fault of ours
    """More scrapes at once than are served."""


class ScrapeCoalescer:
    """Renders and compresses pages, once per format for scrapes that wait together."""

    def __init__(self, render: Callable[[Format], bytes], most: int) -> None:
        self._render = render
        self._most = most
        self._scrapes = 0
        self._waiting: dict[tuple[Format, bool], asyncio.Task[bytes]] = {}

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Room for one scrape until its answer is sent; TooManyScrapes where there is none."""
        if self._scrapes >= self._most:
            raise TooManyScrapes
        self._scrapes += 1
        try:
            yield
        finally:
            self._scrapes -= 1

    async def page(self, form: Format, *, gzip: bool) -> bytes:
        """The page as it is now.

        Requests before it is made get the same one; a failure to make it reaches them all.
        """
        key = (form, gzip)
        task = self._waiting.get(key)
        if task is None:
            task = self._waiting[key] = asyncio.get_running_loop().create_task(
                self._make(form, gzip=gzip)
            )
            task.add_done_callback(lambda _: self._waiting.pop(key, None))
        return await asyncio.shield(task)

    async def _make(self, form: Format, *, gzip: bool) -> bytes:
        await asyncio.sleep(0)  # requests that arrived together come in before the page is made
        page = self._render(form)
        return compress(page) if gzip else page


def with_zlib(page: bytes) -> bytes:
    """A gzip member at level 1, from the standard library."""
    squeeze = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return squeeze.compress(page) + squeeze.flush()


def _compressor() -> Callable[[bytes], bytes]:
    """Isal takes a fifth of zlib's CPU for 10 % more bytes; zlib where isal has
    no build for the machine.
    """
    try:
        from isal import igzip  # noqa: PLC0415 - it may be missing
    except ImportError:
        return with_zlib
    return lambda page: bytes(igzip.compress(page, 1))


compress = _compressor()
