"""Makes the stream of docs/bus.md for one cluster, on one server, as soon as that answers:
stream.py URL CLUSTER. For docker-compose and `make demo-fleet`; one that is there stays as it is.
"""

from __future__ import annotations

import asyncio
import sys

from nats import errors
from nats.aio.client import Client
from nats.js.api import DiscardPolicy

from pipeline.bus import subjects

NAME = "tocsin"
# docs/bus.md, "Server"; the hour of a few nodes fits into much less.
MAX_AGE_S, MAX_BYTES, MAX_MESSAGE, WINDOW_S = 3600, 1 << 30, 256 << 10, 120
ATTEMPTS = 60  # of two seconds each


async def make(client: Client, cluster: str) -> None:
    """Make it, or leave it as it is."""
    await client.jetstream().add_stream(
        name=NAME,
        subjects=[subjects.frames(cluster, "*").replace("_2a", "*")],
        max_age=MAX_AGE_S,
        max_bytes=MAX_BYTES,
        max_msg_size=MAX_MESSAGE,
        duplicate_window=WINDOW_S,
        discard=DiscardPolicy.OLD,
        deny_delete=True,
    )


async def main(url: str, cluster: str) -> None:
    """Wait for the server, which may start later."""
    client = Client()

    async def notice(error: Exception) -> None:
        sys.stderr.write(f"{url}: {error or type(error).__name__}\n")

    await client.connect([url], error_cb=notice, max_reconnect_attempts=ATTEMPTS)
    await make(client, cluster)
    await client.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except (errors.Error, OSError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
