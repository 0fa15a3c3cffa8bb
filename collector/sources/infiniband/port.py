"""One port that is there: its files kept open, and what one read of them gives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from collector.sources.infiniband import text
from collector.sources.infiniband.open_files import File, KeptFiles, Pread, UnusableError
from collector.sources.infiniband.sysfs_port import counter_places
from collector.sources.infiniband.tree import ETHERNET, INFINIBAND, SysfsPort
from pipeline.catalog.ib_port import ACTIVE
from pipeline.frame import Device, schema_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A 32-bit data or packet counter sticks here within seconds on a fast link; where the file is 64
# bits wide, a value that is exactly this one is a coincidence of 1 in 2**32. It is of no use until
# the driver makes the device again.
STUCK_32 = 2**32 - 1
_MAYBE_32 = frozenset({"receive_words", "transmit_words", "receive_packets", "transmit_packets"})


def counter(raw: bytes) -> int:
    """A counter file's value, strictly; UnusableError says that the firmware
    has no performance agent.
    """
    if raw.startswith(b"N/A"):
        raise UnusableError("no_pma")
    return text.count(raw)


def maybe_32(raw: bytes) -> int:
    """The same for counters that some devices keep in 32 bits only."""
    value = counter(raw)
    if value == STUCK_32:
        raise UnusableError("saturated", for_good=True)
    return value


class Port:
    """A port's open files.

    ``device`` carries its slow facts and may be replaced when they change, as may
    ``pcie``, gauges of its adapter.

    ``state`` is the IBTA code of the last read, NaN where it gave none; ``was_active`` is
    for the reader to remember.
    """

    def __init__(
        self, place: SysfsPort, device: Device, net_root: Path, now_ns: int, pread: Pread = os.pread
    ) -> None:
        self.place = place
        self.device = device
        self.pcie: Mapping[str, float] = {}
        self.was_active = False
        folders = (_open_folder(place.path / name) for name in ("counters", "hw_counters", "."))
        self._watched = [fd for fd in folders if fd >= 0]
        self._stamps = self._look(self._watched)
        self.state = float("nan")
        gauges: list[File[object]] = [
            File("state", place.path / "state", text.code),
            File("physical_state", place.path / "phys_state", text.code),
            File("rate", place.path / "rate", text.rate),
            File(
                "hw_counters_lifespan_milliseconds",
                place.path / "hw_counters" / "lifespan",
                text.count,
            ),
        ]
        self._gauges: KeptFiles[object] = KeptFiles(gauges, now_ns, pread)
        self._counters: KeptFiles[int] = KeptFiles(
            self._counter_files(net_root), now_ns, pread, int
        )
        self._arrange()

    @property
    def infiniband(self) -> bool:
        """Whether the port has a performance agent to ask: RoCE ports have none, nor has EFA, whose
        link layer the kernel calls unknown.
        """
        return self.device.attributes.get("link_layer", INFINIBAND) == INFINIBAND

    @property
    def read_from_sysfs(self) -> tuple[str, ...]:
        """Counters that are read now; another tuple object when that changes."""
        return self._counters.names

    @property
    def unread(self) -> dict[str, str]:
        """Field to reason, for files that exist and cannot be read."""
        found = {**self._gauges.unread, **self._counters.unread}
        if "rate" in found:
            found["rate_bits_per_second"] = found["width_lanes"] = found.pop("rate")
        return found

    @property
    def whole(self) -> bool:
        """Whether every file that exists is being read."""
        return not (self._gauges.unread or self._counters.unread)

    def changed(self) -> bool:
        """Whether the first of the port's folders was removed or had files replaced: one
        cheap look for every read.

        The kernel's own answer to a device made again is ENODEV; this is for trees
        that are saved or simulated.
        """
        return self._look(self._watched[:1]) != self._stamps[:1]

    def changed_anywhere(self) -> bool:
        """The same for all its folders."""
        return self._look(self._watched) != self._stamps

    def read(
        self, now_ns: int, column: int, gauges: NDArray[np.float64], counters: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Write the port's values into its column; which counters were observed, (counter,)."""
        rows = _gauge_rows()
        self.state = float("nan")
        values = self._gauges.read(now_ns)
        for name, value in zip(self._gauges.names, values, strict=True):
            if isinstance(value, text.Rate):
                if (
                    self.state == ACTIVE
                ):  # of a port that is down the kernel prints a rate that means nothing
                    (
                        gauges[rows["rate_bits_per_second"], column],
                        gauges[rows["width_lanes"], column],
                    ) = value
            elif isinstance(value, float | int):
                gauges[rows[name], column] = value
                if name == "state":
                    self.state = float(value)
        for name, value in self.pcie.items():
            gauges[rows[name], column] = value
        return self._read_counters(now_ns, column, counters)

    def close(self) -> None:
        """Let go of all descriptors."""
        self._gauges.close()
        self._counters.close()
        for fd in self._watched:
            os.close(fd)
        self._watched = []

    def _read_counters(
        self, now_ns: int, column: int, counters: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        values = self._counters.read(now_ns)
        if STUCK_32 in values:
            values = self._counters.read_each(now_ns)
        try:
            block = np.array(values, np.uint64)
        except OverflowError:  # below 0 or above 64 bits
            block = np.array(self._counters.read_each(now_ns), np.uint64)
        if self._counters.names is not self._rows_of:
            self._arrange()
        counters[self._rows, column] = block
        return self._observed

    def _arrange(self) -> None:
        schema = schema_of("ib_port")
        self._rows_of = self._counters.names
        self._rows = np.array([schema.counter_row[name] for name in self._rows_of], np.intp)
        self._observed = np.zeros(len(schema.counters), np.bool_)
        self._observed[self._rows] = True

    def _counter_files(self, net_root: Path) -> list[File[int]]:
        places = counter_places()
        files = [
            File(name, self.place.path / file, maybe_32 if name in _MAYBE_32 else counter)
            for name, file in places.port.items()
        ]
        net = self.device.attributes.get("net_device")
        if net and self.device.attributes.get("link_layer") == ETHERNET:
            files += [
                File(name, net_root / net / file, counter) for name, file in places.net.items()
            ]
        return files

    @staticmethod
    def _look(folders: list[int]) -> list[tuple[int, int]]:
        """Link count and time of change of folders: one that was removed has no link."""
        return [(found.st_nlink, found.st_mtime_ns) for found in map(os.fstat, folders)]


def _open_folder(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1


@cache
def _gauge_rows() -> dict[str, int]:
    return dict(schema_of("ib_port").gauge_row)
