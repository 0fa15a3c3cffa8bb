"""Bursts that are not over yet: by host, and apart for the boot before,
whose lines are found late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from typing import Any

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from detectors.xid.burst import GAP_NS, Burst, Seen, Suspicion
from detectors.xid.meaning import Meaning
from pipeline.frame import Device


@dataclass(slots=True)
class NodeBurst:
    """One burst of a node: when it was last seen (detector's clock), and the codes of each GPU."""

    last_ns: int
    before: bool = False  # it is of the boot before
    gpus: dict[Device, Burst] = field(default_factory=dict)

    def others(self, gpu: Device) -> set[int]:
        """Codes of the other GPUs."""
        return {code for device, burst in self.gpus.items() if device != gpu for code in burst.seen}


class OpenBursts:
    """At most two per host."""

    def __init__(self) -> None:
        self._bursts: dict[tuple[str, bool], NodeBurst] = {}

    def at(self, host: str, now_ns: int, *, before: bool) -> NodeBurst:
        """The open burst of a host, a new one where there is none.

        Bursts that are over must have been taken.
        """
        return self._bursts.setdefault((host, before), NodeBurst(now_ns, before))

    def all(self) -> list[NodeBurst]:
        """All that are open."""
        return list(self._bursts.values())

    def over(self, now_ns: int) -> Iterator[NodeBurst]:
        """Take those that were silent for long enough."""
        for key, burst in list(self._bursts.items()):
            if now_ns - burst.last_ns >= GAP_NS:
                del self._bursts[key]
                yield burst

    def state(self) -> State:
        """All of it."""
        return {
            "open": text_array(
                [
                    [
                        host,
                        before,
                        b.last_ns,
                        [_document(gpu, burst) for gpu, burst in b.gpus.items()],
                    ]
                    for (host, before), b in self._bursts.items()
                ]
            )
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        bursts = {
            (str(host), bool(before)): NodeBurst(
                int(last), bool(before), dict(_restored(document) for document in gpus)
            )
            for host, before, last, gpus in from_text_array(state["open"])
        }

        def commit() -> None:
            self._bursts = bursts

        return commit


def _document(gpu: Device, burst: Burst) -> list[Any]:
    seen = [
        [s.code, s.count, s.first_ns, s.at_ns, astuple(s.meaning), s.text]
        for s in burst.seen.values()
    ]
    back = astuple(burst.suspicion) if burst.suspicion else ()
    rest = [
        burst.dropped,
        burst.fault,
        burst.reported,
        burst.suspect,
        back,
        burst.job,
        burst.last_ns,
    ]
    return [[gpu.host, gpu.kind, gpu.id, dict(gpu.attributes)], seen, rest]


def _restored(document: list[Any]) -> tuple[Device, Burst]:
    gpu, seen, (dropped, fault, reported, suspect, back, job, last_ns) = document
    codes = {s[0]: Seen(s[0], s[1], s[2], s[3], Meaning(*s[4]), s[5]) for s in seen}
    suspicion = Suspicion(*back) if back else None
    return Device(*gpu), Burst(
        codes,
        int(dropped),
        str(fault),
        str(reported),
        bool(suspect),
        suspicion,
        str(job),
        int(last_ns),
    )
