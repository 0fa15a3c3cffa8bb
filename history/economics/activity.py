"""How a job's GPUs spent their time, from how busy they were: start-up, pauses of all, idleness."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from history.economics.evidence import CODE, NodeEvidence

WORKING_PERCENT = 5.0  # of a bucket's mean; a driver's housekeeping stays below
# Longer pauses are no checkpoints: 2.3 TB of 384 processes took 40 s, rank 0 alone some minutes.
MAX_CHECKPOINT_MS = 30 * 60_000
MAX_START_UP_MS = 2 * 3_600_000  # loading a model and data; what takes longer leaves GPUs idle

Codes = NDArray[np.uint8]


def activity(node: NodeEvidence) -> Codes:
    """The cause of each bucket and GPU as far as work shows: start_up, checkpoint, idle, used, or
    unknown where it was not read.
    """
    working = node.busy > WORKING_PERCENT
    codes = np.where(working, CODE["used"], CODE["idle"]).astype(np.uint8)
    for job in node.jobs:
        rows = slice(*(_bucket(node, at) for at in (job.begin_ms, job.end_ms)))
        columns = list(job.gpus)
        part = codes[rows, columns]
        if part.size:
            codes[rows, columns] = _of_job(part, node.busy[rows, columns], node.bucket_ms)
    codes[node.busy < 0] = CODE["down"]  # it is there and does not answer
    codes[np.isnan(node.busy)] = CODE["unknown"]
    return codes


def _of_job(codes: Codes, busy: NDArray[np.float32], bucket_ms: int) -> Codes:
    most = np.nan_to_num(busy).max(axis=1)
    some = most > WORKING_PERCENT
    # A bucket at the edge of a pause is part of it where it has less than half of the usual work:
    # on average that is neither too much nor too little.
    half = float(np.median(most[some])) / 2 if some.any() else 0.0
    first = int(np.argmax(some)) if some.any() else len(some)
    for begin, end in _runs(~some):
        low = begin - int(begin > 0 and most[begin - 1] < half)
        high = end + int(end < len(some) and most[min(end, len(some) - 1)] < half)
        if begin == 0:
            codes[: min(high, MAX_START_UP_MS // bucket_ms)] = CODE["start_up"]
        elif begin > first and end < len(some) and (high - low) * bucket_ms <= MAX_CHECKPOINT_MS:
            codes[low:high] = CODE["checkpoint"]
    return codes


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and one past last of each run of true.

    >>> _runs(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _bucket(node: NodeEvidence, at_ms: int) -> int:
    """The bucket in which most of what begins or ends then lies."""
    return min(max(round((at_ms - node.begin_ms) / node.bucket_ms), 0), len(node.busy))
