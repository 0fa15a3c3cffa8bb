"""Each GPU-second of a node under exactly one cause: the sum is wall time times GPUs."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from history.economics.activity import WORKING_PERCENT, activity
from history.economics.evidence import CAUSES, CODE, JobSpan, NodeEvidence, Span


class Account(NamedTuple):
    """To whom and what GPU time goes; ``fault`` is empty but for lost and stalled."""

    cause: str
    fault: str
    team: str
    job: str
    model: str
    rack: str
    host: str


Ledger = Counter[Account]  # GPU-milliseconds


def ledger_of(node: NodeEvidence) -> Ledger:
    """All GPU time of a node, in whole milliseconds.

    >>> busy = np.array([[90.0], [0.0]], np.float32)
    >>> node = NodeEvidence("n1", ("GPU-1",), 0, 60_000, busy)
    >>> sorted((account.cause, ms) for account, ms in ledger_of(node).items())
    [('idle', 60000), ('used', 60000)]
    """
    layers = _Layers(node)
    for span in sorted(node.spans, key=lambda one: -CODE[one.cause]):
        layers.lay(span)
    return layers.counted()


class _Layers:
    """A row per interval in which nothing changes, a column per GPU."""

    def __init__(self, node: NodeEvidence) -> None:
        self._node, self._edges = node, _edges(node)
        rows = (self._edges[:-1] - node.begin_ms) // node.bucket_ms
        self._codes, self._working = activity(node)[rows], (node.busy > WORKING_PERCENT)[rows]
        self._fault, self._faults = np.zeros(self._codes.shape, np.int64), [""]

    def lay(self, span: Span) -> None:
        """Over what has a lower precedence. A GPU that works on is not lost to an open fault, nor
        to a drain that waits for its job.
        """
        region = self._region(span.begin_ms, span.end_ms, (span.gpu,))
        here = self._codes[region]
        takes = here > CODE[span.cause]
        if span.cause == "lost" or span.waits:
            takes &= ~self._working[region]
        if span.fault not in self._faults:
            self._faults.append(span.fault)
        number = self._faults.index(span.fault)
        self._codes[region] = np.where(takes, CODE[span.cause], here)
        self._fault[region] = np.where(takes, number, self._fault[region])

    def counted(self) -> Ledger:
        """Milliseconds by account."""
        node, widths = self._node, np.diff(self._edges)
        owner = np.zeros(self._codes.shape, np.int64)
        for number, job in enumerate(node.jobs, 1):
            owner[self._region(job.begin_ms, job.end_ms, job.gpus)] = number
        keys = (owner * len(self._faults) + self._fault) * len(CAUSES) + self._codes
        found: Ledger = Counter()
        for column in range(len(node.gpus)):
            sums = np.bincount(keys[:, column], weights=widths)  # whole numbers below 2^53
            for value in np.flatnonzero(sums).tolist():
                found[self._account(value, column)] += round(sums[value])
        return found

    def _account(self, key: int, column: int) -> Account:
        rest, code = divmod(key, len(CAUSES))
        number, fault = divmod(rest, len(self._faults))
        node = self._node
        owner = node.jobs[number - 1] if number else JobSpan("", 0, 0, ())
        model = node.models[column] if node.models else ""
        what = CAUSES[code], self._faults[fault]
        return Account(*what, owner.team, owner.job, model, node.rack, node.host)

    def _region(self, begin_ms: int, end_ms: int, gpus: tuple[int, ...]) -> tuple[slice, list[int]]:
        begin, end = np.searchsorted(self._edges[:-1], (begin_ms, end_ms))
        every = list(range(len(self._node.gpus)))
        return slice(int(begin), int(end)), every if -1 in gpus else list(gpus)


def _edges(node: NodeEvidence) -> NDArray[np.int64]:
    """Every instant at which anything may change."""
    buckets = node.begin_ms + node.bucket_ms * np.arange(len(node.busy) + 1, dtype=np.int64)
    lasting: tuple[Span | JobSpan, ...] = (*node.spans, *node.jobs)
    others = [at for one in lasting for at in (one.begin_ms, one.end_ms)]
    every = np.sort(np.concatenate((buckets, np.array(others, np.int64))))
    inside = (every >= node.begin_ms) & (every <= node.end_ms)
    inside[1:] &= np.diff(every) > 0
    return every[inside]


def by(ledger: Ledger, *names: str) -> dict[tuple[str, ...], dict[str, int]]:
    """GPU-milliseconds by cause, for each value of some fields of an account.

    >>> one = Account("used", "", "ml", "7", "H100", "r1", "n1")
    >>> by(Counter({one: 5, one._replace(cause="idle"): 3}), "team")
    {('ml',): {'used': 5, 'idle': 3}}
    """
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for account, ms in ledger.items():
        row = found.setdefault(tuple(getattr(account, name) for name in names), {})
        row[account.cause] = row.get(account.cause, 0) + ms
    return found
