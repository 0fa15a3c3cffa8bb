"""Copies of a remote store's files that a window needs, in the same layout below a local folder."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from pipeline.store.files.layout import folder, may_hold
from pipeline.store.files.slice import Window
from pipeline.store.remote.manifest import ROOT, live_objects
from pipeline.store.remote.objects import Objects, RefusedError

log = logging.getLogger("tocsin.store")

AT_ONCE = 8  # requests; more only queue at the store


def fetch(
    store: Objects,
    root: Path,
    tables: Iterable[str],
    window: Window | None,
    hosts: Sequence[str] = (),
) -> int:
    """Copy what is not there yet; number of files.

    No window means all days, no host all hosts. RefusedError where the store refuses.
    """
    keys = [
        key
        for table in tables
        for key in _keys(store, table, window, hosts)
        if not _local(root, key).exists()
    ]

    def copy(key: str) -> bool:
        try:
            data = store.get(key)
        except RefusedError as error:
            if error.cause != "no_bucket":
                raise
            # rules of a bucket may remove what a manifest names
            log.warning("left out: %s: the store no longer has it", key)
            return False
        _local(root, key).parent.mkdir(parents=True, exist_ok=True)
        _local(root, key).write_bytes(data)
        return True

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(copy, keys))


def _local(root: Path, key: str) -> Path:
    """Where a copy lies: a cluster's compacted files among the nodes' own."""
    return root / key.removeprefix(f"{ROOT}/")


def _keys(store: Objects, table: str, window: Window | None, hosts: Sequence[str]) -> Iterator[str]:
    """Names of a table's files that may hold rows of the window: its hours, and
    compacted files of its days.
    """
    hours = None if window is None else window.hours(table)
    days = (
        [f"{table}/"]
        if hours is None
        else sorted({f"{PurePosixPath(folder(table, h)).parent}/" for h in hours})
    )
    wanted = None if hours is None else {folder(table, h) for h in hours}
    for day in days:
        for key, _ in live_objects(store, day):
            where = str(PurePosixPath(key).parent).removeprefix(f"{ROOT}/")
            of_hour = "/hour=" not in where or wanted is None or where in wanted
            if of_hour and may_hold(PurePosixPath(key).name, hosts):
                yield key
