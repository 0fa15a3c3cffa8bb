"""An NVLink domain whose GPUs report errors together is one fault: 77 healthy nodes must not be
named for one crashed job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device

WINDOW_NS, MAX_GPUS = 120 * 10**9, 8  # more GPUs than a node has, within two minutes
REMEMBERED = 1024  # complaints per domain; the largest domains have 576 GPUs


class Domains:
    """Remembers which GPUs of a domain had link errors recently.

    >>> gpus = [Device("n", "gpu", str(i), {"fabric_cluster": "d"}) for i in range(9)]
    >>> domains = Domains()
    >>> [domains.add(gpu, 0) is not None for gpu in gpus]
    [False, False, False, False, False, False, False, False, True]
    """

    def __init__(self) -> None:
        self._complaints: dict[str, deque[tuple[int, str]]] = {}

    def add(self, gpu: Device, now_ns: int) -> Device | None:
        """Take a complaint of a GPU; its domain, once more than ``MAX_GPUS`` of it
        complained within ``WINDOW_NS``.
        """
        name = gpu.attributes.get("fabric_cluster", "")
        if not name:
            return None
        complaints = self._complaints.setdefault(name, deque(maxlen=REMEMBERED))
        complaints.append((now_ns, gpu.id))
        together = {who for at, who in complaints if now_ns - at <= WINDOW_NS}
        return Device("", "nvlink_domain", name) if len(together) > MAX_GPUS else None

    def members(self, domain: Device, now_ns: int) -> Iterator[str]:
        """Ids of the GPUs that complained within the window."""
        return iter(
            dict.fromkeys(
                who for at, who in self._complaints.get(domain.id, ()) if now_ns - at <= WINDOW_NS
            )
        )

    def state(self) -> State:
        """All complaints."""
        return {
            "complaints": text_array(
                {name: list(complaints) for name, complaints in self._complaints.items()}
            )
        }

    def prepare(self, state: State) -> Commit:
        """ValueError or TypeError where it does not fit."""
        kept = {
            str(name): deque(((int(at), str(who)) for at, who in complaints), maxlen=REMEMBERED)
            for name, complaints in from_text_array(state["complaints"]).items()
        }

        def commit() -> None:
            self._complaints = kept

        return commit
