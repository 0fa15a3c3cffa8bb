"""aiohttp's server without its client, which is 3.0 MiB that the agent would keep."""

from __future__ import annotations

from pipeline.deferred_init import defer_init

defer_init("aiohttp")

from aiohttp import web  # noqa: E402 - after the line above

__all__ = ["web"]
