"""Upkeep of a node's store: compaction, roll-ups, retention.

Runs at low priority in a short-lived child, or by ``tocsin compact``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa

from pipeline.clock import SystemClock
from pipeline.store.files.layout import STRANGERS, dates_of, day_us
from pipeline.store.files.lock import lock
from pipeline.store.files.quarantine import last_s
from pipeline.store.files.schema import ROLLUPS, TABLES
from pipeline.store.keep.compact import Done, compact
from pipeline.store.keep.generations import Pass
from pipeline.store.keep.policy import Policy, Upkeep
from pipeline.store.keep.retain import budget, retain, sizes
from pipeline.store.keep.scrub import RUN_BYTES, scrub
from pipeline.store.keep.strangers import strangers
from pipeline.store.remote.outbox import still_pending

NICE = 19  # reading hardware and jobs come first


MAX_NAMES = 20  # of strangers that are named in a report


def upkeep(
    over: Pass, policy: Policy, *, confirmed: bool = False, most_bytes: int = RUN_BYTES
) -> Upkeep:
    """One run over the store; ``confirmed``: all that is too old may go at once; ``most_bytes``:
    of sealed files that are read again.

    DirectoryTakenError where another is at it, OSError where the disk refuses.
    """
    with lock(over.root, "compact"):
        try:
            # first, so that measurements have their roll-ups before they are given up
            done: Done | None = compact(over)
        except OSError:  # a full disk, perhaps: make room and try again
            done = None
        removed = retain(over, policy, still_pending(over.root), confirmed=confirmed)
        done = done or compact(over)
        read_again = scrub(over.root, most_bytes, over.now_us / 1e6)
        tables = [table for table in (*TABLES, *ROLLUPS) if dates_of(over.root, table)]
        found = [*strangers(over.root), *done.waiting.items()]
        return Upkeep(
            written=done.written,
            replaced=done.replaced,
            quarantined=tuple(done.quarantined),
            removed=removed.sizes,
            sizes=sizes(over.root),
            oldest_s={
                table: (day_us(dates_of(over.root, table)[0]) or 0) / 1e6 for table in tables
            },
            budget=budget(over.root, policy),
            held_back=removed.held_back,
            skipped={reason: sum(why == reason for _, why in found) for reason in STRANGERS},
            skipped_names=tuple(f"{path}: {STRANGERS[why]}" for path, why in found[:MAX_NAMES]),
            damaged_s=max(read_again.found_s, last_s(over.root)),
            damaged=len(read_again.damaged),
            fresh=tuple(read_again.fresh),
        )


def main(arguments: list[str]) -> None:
    """Entry of the child: root and policy as JSON. It prints its report as one line."""
    root, policy = arguments
    os.nice(NICE)
    modest()
    now_us = SystemClock().time_ns() // 1000
    sys.stdout.write(upkeep(Pass(Path(root), now_us), Policy.from_json(policy)).to_json() + "\n")


def modest() -> None:
    """One thread each for computing and reading. pyarrow's own allocator stays: the system's kept 1
    GiB of holes after a day of GPUs.
    """
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
