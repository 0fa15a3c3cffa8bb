"""Nodes whose GPUs are reset or rebooted for an XID again and again: the
repairs do not fix the cause.
"""

from __future__ import annotations

from collections import deque

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from detectors.xid.history import WEEK_NS

# remedies of a node within a week: NVSentinel's rule for a node that is not to be trusted any more
MANY = 5
# GPUs of a node that restart within ten minutes were repaired by one reboot
APART_NS = 600 * 10**9


class Remedies:
    """When the GPUs of each host began a new epoch while an XID of theirs that pages was open.

    >>> remedies, day = Remedies(), 86400 * 10**9
    >>> for n in range(5):
    ...     remedies.took("n1", n * day)
    ...     remedies.took("n1", n * day + 60)  # the other GPUs, with the same reboot
    >>> [remedies.recent("n1", n * day) for n in (4, 8, 99)]
    [5, 4, 0]
    """

    def __init__(self) -> None:
        self._at: dict[str, deque[int]] = {}

    def took(self, host: str, now_ns: int) -> None:
        """Take one."""
        at = self._at.setdefault(host, deque(maxlen=MANY * 2))
        if not at or now_ns - at[-1] > APART_NS:
            at.append(now_ns)

    def recent(self, host: str, now_ns: int) -> int:
        """How many within a week."""
        return sum(now_ns - at <= WEEK_NS for at in self._at.get(host, ()))

    def state(self) -> State:
        """Everything."""
        return {"at": text_array({host: list(at) for host, at in self._at.items()})}

    def prepare(self, state: State) -> Commit:
        """ValueError, TypeError or AttributeError where it does not fit."""
        kept = {
            str(host): deque((int(t) for t in at), maxlen=MANY * 2)
            for host, at in from_text_array(state["at"]).items()
        }

        def commit() -> None:
            self._at = kept

        return commit
