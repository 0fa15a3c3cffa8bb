"""What detectors remember, as bytes: so that one that was restarted judges
like one that never stopped.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Protocol, runtime_checkable
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device
from pipeline.plain import devices_to_json

FORMAT = 1
HEADER = "header"
DEVICES = "devices"
LEVEL = 1  # of zlib
State = Mapping[str, NDArray[Any]]


class SnapshotError(ValueError):
    """A snapshot is damaged, of another format or version, or does not fit: the detector stays
    as it was, which is cold.
    """


class Named(Protocol):
    """A detector, or what joins their findings."""

    @property
    def name(self) -> str:
        """Its name, under which its memory is kept."""
        ...


@runtime_checkable
class Snapshotable(Protocol):
    """A detector whose memory can be kept.

    ``version`` is raised whenever the meaning of its state changes.

    ``state`` gives arrays without Python objects; ``restore`` takes them and raises ValueError or
    KeyError, unchanged, where they do not fit. After ``restore(state())`` a fresh detector answers
    every further observation as the old one would.
    """

    version: int

    def state(self) -> State:
        """Everything it remembers."""
        ...

    def restore(self, state: State) -> None:
        """Remember this instead."""
        ...


@dataclass(frozen=True, slots=True)
class Memory:
    """What detectors remember at one instant: copies, so that they may
    go on while it is written.
    """

    versions: Mapping[str, int]
    arrays: State

    @classmethod
    def of(cls, detectors: Iterable[Named]) -> Memory:
        """Of all that have one."""
        arrays: dict[str, NDArray[Any]] = {}
        versions: dict[str, int] = {}
        for detector in detectors:
            if isinstance(detector, Snapshotable):
                versions[detector.name] = detector.version
                arrays |= {
                    f"{detector.name}/{name}": array if _is_text(array) else np.array(array)
                    for name, array in detector.state().items()
                }
        return cls(versions, arrays)

    def to_bytes(self, **facts: str) -> bytes:
        """With facts to check when it is read again (boot id, driver epoch, time). An array that
        several detectors share is written once.
        """
        first: dict[int, str] = {}
        of = {name: first.setdefault(id(array), name) for name, array in self.arrays.items()}
        same = {name: other for name, other in of.items() if other != name}
        about = {"format": FORMAT, "versions": self.versions, "facts": facts, "same": same}
        arrays = {name: array for name, array in self.arrays.items() if name not in same}
        arrays[HEADER] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        buffer = io.BytesIO()
        # As numpy's savez_compressed, which has no level and takes the dear one.
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        return buffer.getvalue()


def dump(detectors: Iterable[Named], **facts: str) -> bytes:
    """Memory of all detectors that have one, with facts, as bytes."""
    return Memory.of(detectors).to_bytes(**facts)


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot that was read: its facts, and what each detector remembered."""

    facts: Mapping[str, str]
    memory: Memory

    def knows(self, detector: Named) -> bool:
        """Whether it has this version of a detector's memory."""
        version = self.memory.versions.get(detector.name)
        return isinstance(detector, Snapshotable) and version == detector.version

    def into(self, detectors: Sequence[Named]) -> tuple[str, ...]:
        """Give detectors their memory back; the names of those that stay cold, because they keep
        none or another version of it.
        """
        return tuple(d.name for d in detectors if not (self.knows(d) and self._taken(d)))

    def _taken(self, detector: Named) -> bool:
        prefix = f"{detector.name}/"
        state = {
            name.removeprefix(prefix): array
            for name, array in self.memory.arrays.items()
            if name.startswith(prefix)
        }
        return isinstance(detector, Snapshotable) and _taken(detector, state)


def read(data: bytes) -> Kept:
    """A snapshot's content. SnapshotError where it cannot be read."""
    header, arrays = _read(data)
    return Kept(header["facts"], Memory(header["versions"], arrays))


def facts_in(data: bytes) -> Mapping[str, str]:
    """The facts that were kept with a snapshot. SnapshotError where it cannot be read."""
    return read(data).facts


def load(data: bytes, detectors: Sequence[Named]) -> tuple[str, ...]:
    """As ``Kept.into``. SnapshotError where it cannot be read; then no detector was changed."""
    return read(data).into(detectors)


def _taken(detector: Snapshotable, state: State) -> bool:
    try:
        detector.restore(state)
    except (ValueError, KeyError, IndexError, TypeError):
        return False
    return True


def _read(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(HEADER).tobytes())
        known = (
            header["format"] == FORMAT
            and isinstance(header["versions"], dict)
            and isinstance(header["facts"], dict)
        )
        if known:
            arrays |= {name: arrays[of] for name, of in header.get("same", {}).items()}
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OSError,
        EOFError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise SnapshotError(f"snapshot cannot be read: {error}") from error
    if not known:
        raise SnapshotError(
            f"snapshot is of format {header['format']}, this program keeps format {FORMAT}"
        )
    return header, arrays


def _is_text(array: NDArray[Any]) -> bool:
    """Bytes that nobody can change, and so need no copy."""
    return isinstance(array.base, bytes)


def device_state(devices: Iterable[Device]) -> dict[str, NDArray[Any]]:
    """Devices as arrays, for the rows of a detector's other arrays; with their attributes, as the
    next frame may not hold them all.

    >>> devices_from(device_state([Device("n1", "gpu", "GPU-1", {"rack": "r1"})]))
    (Device(host='n1', kind='gpu', id='GPU-1', attributes=mappingproxy({'rack': 'r1'})),)
    """
    return {DEVICES: np.frombuffer(devices_to_json(devices), np.uint8)}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Listed:
    """Devices, and their ``device_state``. Detectors that hold the very same devices share one: a
    fleet has hundreds of thousands, and dozens of detectors.
    """

    devices: tuple[Device, ...]
    state: State

    @classmethod
    def of(cls, devices: tuple[Device, ...]) -> Listed:
        """What others have of these objects, or a new one."""
        key = (len(devices), *map(id, (*devices[:1], *devices[-1:])))
        listed = _LISTED.get(key)
        if listed is None or not all(map(is_, listed.devices, devices)):
            listed = cls(devices, device_state(devices))
            _LISTED[key] = listed
        return listed

    @classmethod
    def read(cls, state: State) -> Listed:
        """Of a state. KeyError, TypeError or ValueError as ``devices_from``."""
        array = state.get(DEVICES)
        listed = None if array is None else _READ.get(id(array))
        if listed is None or listed.state[DEVICES] is not array:
            devices = devices_from(state)
            listed = cls(devices, device_state(devices) if array is None else {DEVICES: array})
            _READ[id(listed.state[DEVICES])] = listed
        return listed


# While a detector holds them; by the first and last of the devices, and by the array read.
_LISTED: WeakValueDictionary[tuple[int, ...], Listed] = WeakValueDictionary()
_READ: WeakValueDictionary[int, Listed] = WeakValueDictionary()


def devices_from(state: State) -> tuple[Device, ...]:
    """The devices that ``device_state`` kept, in order.

    KeyError, TypeError or ValueError where they are incomplete.
    """
    if DEVICES in state:
        return tuple(Device(*row) for row in json.loads(state[DEVICES].astype(np.uint8).tobytes()))
    # Versions before 0.7 had an array per field.
    columns = [state[f"device_{name}"].tolist() for name in ("host", "kind", "id")]
    attributes = json.loads(state["device_attributes"].astype(np.uint8).tobytes())
    return tuple(Device(*row) for row in zip(*columns, attributes, strict=True))
