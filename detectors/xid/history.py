"""What came before: bursts of each GPU over a week, so that a recurring code is
distinguished from a single one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import astuple, dataclass

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.clock import SECOND_NS
from pipeline.frame import Device

DAY_NS, WEEK_NS = 86400 * SECOND_NS, 7 * 86400 * SECOND_NS
# of two bursts of one code; XID 13 comes from programs that are started again at once
GAP_NS, GAP_13_NS = 180 * SECOND_NS, 15 * SECOND_NS
MAX_BURSTS = 64  # remembered per GPU


@dataclass(slots=True)
class Past:
    """One burst of one code: when it began and was last seen (detector's clock), where on the
    chip, in which job and epoch.

    ``epoch`` is the boot and, after a slash, the epoch of the driver; ``size`` how many GPUs the
    job held, 0 where none is known; ``program`` whose it was and its name.
    """

    code: int
    first_ns: int
    last_ns: int
    place: str = ""
    job: str = ""
    epoch: str = ""
    size: int = 0
    program: str = ""


class History:
    """Bursts per GPU, the newest last; bounded.

    >>> history, gpu = History(), Device("n1", "gpu", "a")
    >>> [history.add(gpu, Past(31, t * SECOND_NS, t * SECOND_NS)) for t in (0, 100, 1000)]
    [True, False, True]
    >>> [past.first_ns // SECOND_NS for past in history.of(gpu, 1000 * SECOND_NS, DAY_NS)]
    [0, 1000]
    """

    def __init__(self) -> None:
        self._bursts: dict[Device, deque[Past]] = {}

    def add(self, device: Device, past: Past) -> bool:
        """Take one occurrence; True where it begins a burst of its own."""
        bursts = self._bursts.setdefault(device, deque(maxlen=MAX_BURSTS))
        gap = GAP_13_NS if past.code == 13 else GAP_NS
        for known in reversed(bursts):
            # events may come late
            apart = max(past.first_ns - known.last_ns, known.first_ns - past.last_ns)
            if known.code == past.code and known.place == past.place and apart < gap:
                known.first_ns, known.last_ns = (
                    min(known.first_ns, past.first_ns),
                    max(known.last_ns, past.last_ns),
                )
                return False
        bursts.append(past)
        return True

    def of(self, device: Device, now_ns: int, window_ns: int) -> list[Past]:
        """Bursts of a GPU in the window before now."""
        return [
            past for past in self._bursts.get(device, ()) if now_ns - past.first_ns <= window_ns
        ]

    def devices(self) -> Iterator[Device]:
        """All GPUs that ever had one."""
        return iter(self._bursts)

    def forget(self, now_ns: int) -> None:
        """Drop GPUs that were silent for a week."""
        self._bursts = {
            d: bursts
            for d, bursts in self._bursts.items()
            if now_ns - bursts[-1].last_ns <= WEEK_NS
        }

    def state(self) -> State:
        """Everything."""
        return {
            "bursts": text_array(
                [
                    [d.host, d.kind, d.id, [astuple(p) for p in past]]
                    for d, past in self._bursts.items()
                ]
            )
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        bursts = {
            Device(host, kind, name): deque((Past(*past) for past in pasts), maxlen=MAX_BURSTS)
            for host, kind, name, pasts in from_text_array(state["bursts"])
        }

        def commit() -> None:
            self._bursts = bursts

        return commit
