"""Who held which GPU, as schedulers and agents said it: devices of the kind ``device_job``."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import orjson
import polars as pl

from pipeline.catalog import device_job
from pipeline.frame import Attributes
from pipeline.store.query.store import Store, Window


def allocations_of(
    store: Store, window: Window, hosts: Collection[str] = ()
) -> Iterator[tuple[int, str, Attributes]]:
    """Time in unix ns, host and facts of each allocation that was stored in a window, in no order;
    of all hosts unless some are named. One that goes on is stored again with each file.
    """
    rows = store.table("devices", window).filter(pl.col("kind") == device_job.KIND)
    if hosts:
        rows = rows.filter(pl.col("host").is_in(list(hosts)))
    for time, host, text in store.collect(rows.select("time", "host", "attributes")).rows():
        yield round(time.timestamp() * 1e6) * 1000, host, orjson.loads(text)
