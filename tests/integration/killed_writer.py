"""A process that writes a store until it is killed: forks a writer per line of input, kills it at a
random instant, tells what it had said.

Input: ``root first_seq acknowledgements microseconds``: the writer is killed that long after it
acknowledged so many observations. Output: one line with the numbers that it acknowledged. Forking
from here, where everything is imported, makes many trials cheap.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.selfmetrics import SelfMetrics
from pipeline.store.keep import writer as keeper
from pipeline.store.keep.compact import compact
from pipeline.store.keep.seal import seal
from pipeline.store.keep.writer import StoreWriter
from tests.pipeline.store.days import at, later, seen

SEGMENT_BYTES = 16_000  # so that a segment is closed, sealed and compacted every few observations


def write(root: Path, first_seq: int, said: int) -> None:
    """Write, seal and compact forever; each observation is acknowledged
    when the store has taken it.
    """
    # in the forked writer only: importing this file changes nothing
    keeper.SEGMENT_BYTES = SEGMENT_BYTES
    clock = at(1 + first_seq / 1e6)

    def seal_and_compact(paths: Sequence[Path]) -> None:
        for path in paths:
            seal(path, root, "c1")
        if first_seq // 100_000 % 2:  # in every second life
            compact(later(root))

    kept = StoreWriter(root, "n1", clock, SelfMetrics(), seal=seal_and_compact, fsync_s=0.0)
    for observation, findings in seen(clock, 100_000, first_seq, ("node",), first_seq):
        kept.write(observation, findings)
        os.write(said, b"%d " % observation.seq)
        if observation.seq % 30 == 0 and kept._thread is not None:
            kept._thread.join()  # let sealing catch up, so that kills fall into all stages


def trial(root: Path, first_seq: int, acknowledgements: int, microseconds: int) -> bytes:
    """One life of a writer; what it acknowledged."""
    heard, said = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(heard)
        try:
            write(root, first_seq, said)
        finally:
            os._exit(1)
    os.close(said)
    reported = b""
    while reported.count(b" ") < acknowledgements and (more := os.read(heard, 65536)):
        reported += more
    select.select([], [], [], microseconds / 1e6)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while more := os.read(heard, 65536):
        reported += more
    os.close(heard)
    return reported if os.WIFSIGNALED(status) else b"failed"


def main() -> None:
    """Serve trials until the input ends."""
    for line in sys.stdin:
        root, *numbers = line.split()
        sys.stdout.write(trial(Path(root), *map(int, numbers)).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
