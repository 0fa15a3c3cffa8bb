"""Makes the stream of the bus: ``tocsin gateway --create-stream``, once per cluster."""

from __future__ import annotations

import asyncio
import logging

from nats import errors
from nats.aio.client import Client
from nats.js import errors as js_errors
from nats.js.api import DiscardPolicy

from collector.bus.connection import BusError, connect, words
from collector.bus.credentials import CredentialsError
from collector.config.raw_setting import ConfigError
from collector.config.settings import Bus
from gateway.consumer import STREAM
from pipeline.arrival_cut import GATEWAY
from pipeline.bus import subjects

log = logging.getLogger("tocsin.gateway")

# docs/bus.md, "Server".
MAX_AGE_S, MAX_MESSAGE, WINDOW_S = 3600, 1 << 20, 120
WAIT_S = 300.0  # for the servers, which may start at the same time, and for a leader among them
RETRY_S = 2.0
EXISTS = 10058  # err_code of JetStream: the name is in use with another configuration


async def make(client: Client, cluster: str, replicas: int, max_bytes: int) -> bool:
    """Make it; whether it was made now. One that exists stays as it is; BusError where it is
    another cluster's.
    """
    stream, subject = client.jetstream(), subjects.frames(cluster, "*").replace("_2a", "*")
    try:
        await stream.add_stream(
            name=STREAM,
            subjects=[subject],
            num_replicas=replicas,
            max_age=MAX_AGE_S,
            max_bytes=max_bytes,
            max_msg_size=MAX_MESSAGE,
            duplicate_window=WINDOW_S,
            discard=DiscardPolicy.OLD,
            deny_delete=True,
            deny_purge=True,  # servers before 2.12 take an acknowledgement for such a request
        )
    except js_errors.APIError as error:
        if error.err_code != EXISTS:
            raise
        taken = (await stream.stream_info(STREAM)).config.subjects or []
        if not any(_takes(each, subject) for each in taken):
            raise BusError(
                f"a stream {STREAM} exists, and takes {', '.join(taken)}, not {subject}: each "
                "cluster needs a stream, and so a NATS account, of its own"
            ) from None
        return False
    return True


def _takes(pattern: str, subject: str) -> bool:
    """Whether a stream with that pattern takes all that the other one matches."""
    its, wanted = pattern.split("."), subject.split(".")
    if its[-1] == ">" and len(its) <= len(wanted):
        its = [*its[:-1], *wanted[len(its) - 1 :]]
    return len(its) == len(wanted) and all(a in ("*", b) for a, b in zip(its, wanted, strict=True))


def run(bus: Bus, replicas: int, max_bytes: int) -> int:
    """0 when the stream is there, 1 where the servers refuse it or nobody answers for minutes."""
    if not bus.servers:
        raise ConfigError("bus.servers: the stream is made on the bus, and none is set")
    try:
        made = asyncio.run(asyncio.wait_for(_made(bus, replicas, max_bytes), WAIT_S))
    except (BusError, CredentialsError, OSError, errors.Error, TimeoutError) as error:
        log.error("the stream is not made: %s", words(error))
        return 1
    log.info("stream %s of cluster %s: %s", STREAM, bus.cluster, "made" if made else "exists")
    return 0


async def _made(bus: Bus, replicas: int, max_bytes: int) -> bool:
    last = ""

    async def notice(error: BaseException) -> None:
        nonlocal last
        if words(error) != last:
            last = words(error)
            log.warning("%s", last)

    client = await connect(bus, GATEWAY, notice)
    try:
        while True:
            try:
                return await make(client, bus.cluster, replicas, max_bytes)
            except (js_errors.ServiceUnavailableError, errors.TimeoutError) as error:
                await notice(error)  # no leader yet, or fewer servers than replicas
            await asyncio.sleep(RETRY_S)
    finally:
        await client.close()
