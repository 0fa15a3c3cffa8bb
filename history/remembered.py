"""What an hour must know of those before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from collector.node.inventory import pci_key
from pipeline.frame import Device

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HOUR_MS = 3_600_000
# A GPU that its exporter does not list is missed this long: then the node was rebuilt without it.
MISSED_MS = 24 * HOUR_MS
# The kernel works out the boot's time from two clocks: it moves by what those are corrected.
SAME_BOOT_MS = 60_000


@dataclass(slots=True)
class Gpu:
    """A GPU of a host: its facts, when it was seen last (unix time, ms), the code of its last XID
    (NaN: not known), the jobs that hold it, and when it was seen first (0: not known).
    """

    attributes: dict[str, str]
    seen_ms: int
    xid: float = float("nan")
    jobs: list[str] = field(default_factory=list)
    first_ms: int = 0

    @property
    def slot(self) -> str:
        """Its PCI address; empty where none is known."""
        return pci_key(self.attributes.get("pci_bus_id", ""))

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """From JSON values; KeyError or TypeError where they are none of ours."""
        own = dict(document)
        before = own.pop("job", "")  # of earlier versions, which knew one
        own.setdefault("jobs", [before] if before else [])
        return cls(**{**own, "xid": float("nan") if own["xid"] is None else own["xid"]})


@dataclass(slots=True)
class Host:
    """A host: its GPUs, ports (facts by id) and boot (unix time, ms; 0 = not known), and until when
    (unix time, ms; 0 = never) machines shared its name.
    """

    gpus: dict[str, Gpu] = field(default_factory=dict)
    ports: dict[str, dict[str, str]] = field(default_factory=dict)
    boot_ms: int = 0
    shared_ms: int = 0

    def see(self, gpu: str, attributes: Mapping[str, str], first_ms: int, last_ms: int) -> None:
        """A GPU is there from ``first_ms`` to ``last_ms``, with these facts."""
        known = self.gpus.setdefault(gpu, Gpu(dict(attributes), last_ms, first_ms=first_ms))
        known.attributes.update(attributes)
        known.first_ms = min(known.first_ms, first_ms)
        known.seen_ms = max(known.seen_ms, last_ms)

    def replaced(self) -> dict[str, int]:
        """GPUs in whose slot another one was put, which no node had before, and when that was seen
        (unix time, ms). One that only moved there has replaced none.
        """
        newest: dict[str, int] = {}
        every = self.gpus.values()
        if not every or max(g.first_ms for g in every) <= min(g.seen_ms for g in every):
            return {}  # nearly always
        for one in every:
            if one.slot:
                newest[one.slot] = max(one.first_ms, newest.get(one.slot, 0))
        return {
            gpu: newest[one.slot]
            for gpu, one in self.gpus.items()
            if one.slot and newest[one.slot] > one.seen_ms
        }

    def gone(self, now_ms: int) -> dict[str, int]:
        """GPUs that were replaced, or missed for a day, and since when they are no longer awaited
        (unix time, ms).
        """
        missed = {gpu: one.seen_ms + MISSED_MS for gpu, one in self.gpus.items()}
        return {gpu: ms for gpu, ms in missed.items() if ms < now_ms} | self.replaced()

    def forget(self, now_ms: int) -> None:
        """GPUs that are no longer awaited."""
        for gpu in self.gone(now_ms):
            del self.gpus[gpu]

    def share(self, until_ms: int) -> None:
        """Exporters without a device in common were scraped side by side, 0 = they were not."""
        self.shared_ms = max(self.shared_ms, until_ms)

    def is_shared(self, times_ms: NDArray[np.int64]) -> bool:
        """Whether GPUs of another machine may be remembered at these scrapes, rising."""
        return len(times_ms) > 0 and int(times_ms[0]) - self.shared_ms <= MISSED_MS

    def booted(self, boot_ms: int) -> int:
        """The boot that a reading of its time means."""
        if abs(boot_ms - self.boot_ms) > SAME_BOOT_MS:
            self.boot_ms = boot_ms
        return self.boot_ms

    def gpu_devices(self, name: str) -> tuple[Device, ...]:
        """Its GPUs, by index."""
        ordered = sorted(self.gpus.items(), key=lambda one: (_number(one[1].attributes), one[0]))
        return tuple(Device(name, "gpu", gpu, one.attributes) for gpu, one in ordered)

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """From JSON values; KeyError or TypeError where they are none of ours."""
        gpus = {name: Gpu.of(one) for name, one in document["gpus"].items()}
        shared_ms = document.get("shared_ms", 0)  # earlier versions have none
        return cls(gpus, document["ports"], document["boot_ms"], shared_ms)


def _number(attributes: Mapping[str, str]) -> int:
    index = attributes.get("index", "")
    return int(index) if index.isdigit() else 1 << 30
