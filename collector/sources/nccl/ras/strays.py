"""Answers that came from another job of the same user on the same port: kept for that job."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from collector.sources.nccl.ras.client import Address
from collector.sources.nccl.ras.policy import is_of
from pipeline.nccl.report import Report

MAX_KEPT = 64  # jobs of one read: as many as a node shows

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


class Strays:
    """Of one read of the source: an answer is of its moment."""

    def __init__(self) -> None:
        self._time_ns = 0
        self._kept: dict[tuple[Key, frozenset[int]], Report] = {}

    def begin(self, time_ns: int) -> None:
        """A read at this time: what was kept of an earlier one is dropped."""
        if time_ns != self._time_ns:
            self._time_ns, self._kept = time_ns, {}

    def keep(self, server: Server, pids: Collection[int], report: Report) -> None:
        """An answer with these pids, which is not of the job that asked."""
        if len(self._kept) < MAX_KEPT:
            self._kept[server.key, frozenset(pids)] = report

    def take(
        self,
        servers: Iterable[Server],
        own: Collection[int],
        rivals: Iterable[Collection[int]],
    ) -> Report | None:
        """The answer that one of its servers gave and that is of the job with ``own`` pids."""
        keys, others = {server.key for server in servers}, tuple(rivals)
        return next(
            (
                report
                for (key, pids), report in self._kept.items()
                if key in keys and is_of(pids, own, others)
            ),
            None,
        )
