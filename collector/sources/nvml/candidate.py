"""A driver child that is tried beside the one that serves: it takes over
only after a whole sweep.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    def drive(self) -> bool:
        """Take what it has said so far; True once it has done a whole sweep.

        ChildLostError where it came to grief.
        """
        self.worker.collect(0.0, self.messages, until="ready")
        if self.worker.ready and not self._asked:
            self._asked = True
            self.worker.sweep(links=False, facts=False)
        if self._asked:
            self.worker.collect(0.0, self.messages)
        return self._asked and not self.worker.busy


def found(messages: Sequence[Message]) -> dict[int, str]:
    """UUID by index of the GPUs that a child has found."""
    return {m.gpu: str(m.document().get("id")) for m in messages if m.kind == wire.FOUND}


def rows(messages: Sequence[Message]) -> set[int]:
    """Indices of the GPUs of which there are values."""
    return {m.gpu for m in messages if m.kind == wire.VALUES}
