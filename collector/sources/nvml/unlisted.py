"""GPUs that NVIDIA's driver has and does not list: dead since before this agent first read them, so
that no inventory misses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from collector.node.inventory import pci_key
from collector.sources.nvml.passthrough import is_gpu
from pipeline.clock import SECOND_NS
from pipeline.frame import Device

DRIVER = "nvidia"
_NODE = re.compile(r"nvidia\d{1,4}")  # NVIDIA driver README, "device files": one per GPU
# A driver that loads lists its GPUs one after the other, each of which takes seconds.
LASTS_NS = 300 * SECOND_NS
MAX_GAP_NS = 150 * SECOND_NS  # between two looks; after a longer one the driver may be another
PARAMETERS = "driver/nvidia/params"
# NVreg_ExcludedGpus, by its present and its older name (NVIDIA driver, nv-reg.h).
_EXCLUDED = re.compile(r'^(?:ExcludedGpus|GpuBlacklist): "[^"]+"', re.MULTILINE)


class Unlisted:
    """Those that have been bound to the driver for five minutes and are neither listed by it nor
    known.

    In a container that has a part of the node's GPUs the others have no device file: then nothing
    is said. Nor where the driver's parameters leave GPUs out, or cannot be read.
    """

    def __init__(self, sysfs: Path, proc: Path, dev: Path = Path("/dev")) -> None:
        self._sysfs, self._proc, self._dev = sysfs, proc, dev
        self._since_ns: dict[str, int] = {}  # by PCI address
        self._looked_ns = 0

    @property
    def pending(self) -> bool:
        """Whether any is not listed for less than that: it may come up."""
        return any(self._looked_ns - since < LASTS_NS for since in self._since_ns.values())

    def look(self, gpus: Iterable[Device], mono_ns: int) -> tuple[str, ...]:
        """Their PCI addresses. ``gpus`` are all that are listed or known."""
        known = {pci_key(gpu.attributes.get("pci_bus_id", "")) for gpu in gpus}
        bound = self._bound() - known if "" not in known else set()
        found = set() if bound and self._leaves_out() else bound
        if mono_ns - self._looked_ns > MAX_GAP_NS:
            self._since_ns = {}
        self._looked_ns = mono_ns
        self._since_ns = {slot: self._since_ns.get(slot, mono_ns) for slot in found}
        return tuple(
            slot for slot, since in sorted(self._since_ns.items()) if mono_ns - since >= LASTS_NS
        )

    def _bound(self) -> set[str]:
        """Slots of the GPUs that the driver has; none where it has made fewer device files."""
        try:
            functions = list((self._sysfs / "bus/pci/devices").iterdir())
            files = sum(_NODE.fullmatch(path.name) is not None for path in self._dev.iterdir())
        except OSError:
            return set()
        bound = {pci_key(one.name) for one in functions if _is_bound(one)}
        return bound if len(bound) <= files else set()

    def _leaves_out(self) -> bool:
        try:
            text = (self._proc / PARAMETERS).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return True
        return _EXCLUDED.search(text) is not None


def _is_bound(function: Path) -> bool:
    """A virtual function of a GPU is none of its own."""
    try:
        driver = (function / "driver").readlink().name
    except OSError:
        return False
    return driver == DRIVER and is_gpu(function) and not (function / "physfn").is_symlink()
