"""Which devices run other software than before: what was usual of them need not be so any more."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from pipeline.frame import Device

# What sets clocks, power and fans of a GPU and counts its errors.
VERSIONS = ("driver_version", "vbios")


class Software:
    """The versions of each row's device; needs the columns of ``fills``, so that a change is seen
    across a restart of the agent too, as a new driver mostly comes with a boot.

    Columns: ``software`` is a checksum of model and versions, 0 where none are known;
    ``software_before`` that of the versions before, 0 where they never changed.

    >>> from pipeline.frame import Device
    >>> columns = Columns(**Software.fills())
    >>> software = Software(columns)
    >>> found = []
    >>> for version in ("580.1", "580.1", "", "595.2", "595.2"):
    ...     columns.place((Device("n1", "gpu", "G", {"driver_version": version}),))
    ...     found += software.changed().tolist()
    >>> found
    [False, False, False, True, False]
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._devices: tuple[Device, ...] | None = None
        self._now = np.zeros(0, np.int64)  # of all rows

    @staticmethod
    def fills() -> dict[str, float | int]:
        """The columns it needs."""
        return {"software": 0, "software_before": 0}

    def changed(self) -> NDArray[np.bool_]:
        """Rows whose device has other versions than when it was last asked, (row,). One whose
        versions cannot be read keeps those it had.
        """
        devices = self._columns.all_devices
        if devices is not self._devices:
            self._devices = devices
            self._now = np.fromiter(map(_checksum, devices), np.int64, len(devices))
        now, before = self._columns.here(self._now), self._columns["software"]
        changed: NDArray[np.bool_] = (now != before) & (now != 0) & (before != 0)
        self._columns["software"] = np.where(now == 0, before, now)
        self._columns["software_before"] = np.where(
            changed, before, self._columns["software_before"]
        )
        return changed

    def alike(self, row: int) -> NDArray[np.bool_]:
        """Rows of its model whose versions changed from and to the same, itself among them."""
        columns, found = self._columns, np.ones(len(self._columns), np.bool_)
        for name in self.fills():
            found &= columns[name] == columns[name][row]
        return found


def _checksum(device: Device) -> int:
    found = [device.attributes.get(name, "") for name in VERSIONS]
    text = "\0".join((device.attributes.get("name", ""), *found))
    return crc32(text.encode("utf-8", "surrogatepass")) if any(found) else 0
