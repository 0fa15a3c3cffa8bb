"""Answers that came from another job of the same user on the same port: kept for that job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from collector.sources.nccl.ras.address import Address
from pipeline.nccl.report import Report

MAX_KEPT = 128  # jobs of one read: as many as a node shows

Key = tuple[str, int, int, int]


class Server(NamedTuple):
    """Where processes of one user answer: only they can share a port (SO_REUSEPORT, socket(7)).

    ``network`` is the inode of the network namespace, 0 where it is not known.
    """

    address: Address
    network: int
    user: int

    @property
    def key(self) -> Key:
        """The same for all jobs that share it."""
        return self.address.host, self.address.port, self.network, self.user


class Answer(NamedTuple):
    """A report, the pids in it, and the process that gave it, 0 where that cannot be known."""

    report: Report
    pids: frozenset[int]
    by: int


class Strays:
    """Of one read of the source: an answer is of its moment."""

    def __init__(self) -> None:
        self._time_ns = 0
        self._kept: dict[tuple[Key, int, frozenset[int]], Answer] = {}

    def begin(self, time_ns: int) -> None:
        """A read at this time: what was kept of an earlier one is dropped."""
        if time_ns != self._time_ns:
            self._time_ns, self._kept = time_ns, {}

    def keep(self, server: Server, answer: Answer) -> None:
        """One that is not of the job that asked."""
        if len(self._kept) < MAX_KEPT:
            self._kept[server.key, answer.by, answer.pids] = answer

    def take(self, servers: Iterable[Server], fits: Callable[[Answer], bool]) -> Answer | None:
        """The answer that one of a job's servers gave and that ``fits`` it."""
        keys = {server.key for server in servers}
        return next((a for (key, *_), a in self._kept.items() if key in keys and fits(a)), None)
