"""A driver child that is tried beside the one that serves: it takes over
only after a whole sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from collector.sources.nvml import wire
from collector.sources.nvml.wire import Message
from collector.sources.nvml.worker import Worker


class Candidate:
    """A child that is tried beside the one that serves; ``due`` are the GPUs
    that are left out otherwise.
    """

    def __init__(self, worker: Worker, due: Sequence[int]) -> None:
        self.worker, self.due = worker, tuple(due)
        self.messages: list[Message] = []
        self._asked = False
        self._served: frozenset[int] = frozenset()

    def drive(self, served: AbstractSet[int]) -> bool:
        """Take what it has said so far; True once it has done a whole sweep.

        ``served`` are the GPUs that the serving child has read last. ChildLostError where it
        came to grief.
        """
        self.worker.collect(0.0, self.messages, until="ready")
        if self.worker.ready and not self._asked:
            self._asked, self._served = True, frozenset(served)
            self.worker.sweep(links=False, facts=False)
        if self._asked:
            self.worker.collect(0.0, self.messages)
        return self._asked and not self.worker.busy

    def gains(self, served: AbstractSet[int]) -> bool:
        """Whether it reads GPUs that are left out otherwise, or more than the serving child.

        What that child has lost since this sweep was asked for is no gain: this one read it
        while both could, and may lack another.
        """
        read = rows(self.messages)
        return bool(self.due) or (len(read) > len(served) and not read <= self._served)


def found(messages: Sequence[Message]) -> dict[int, str]:
    """UUID by index of the GPUs that a child has found."""
    return {m.gpu: str(m.document().get("id")) for m in messages if m.kind == wire.FOUND}


def rows(messages: Sequence[Message]) -> set[int]:
    """Indices of the GPUs of which there are values."""
    return {m.gpu for m in messages if m.kind == wire.VALUES}
