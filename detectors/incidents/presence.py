"""Which devices are still read, and where: an incident about one that is gone must end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from detectors.incidents.evidence import Key, identity
from detectors.incidents.graph import CONTAINERS
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.observation import Observation

# A device of which nothing was read for so long is gone: removed, renamed or powered off. A reboot
# takes minutes.
GONE_NS = 4 * 3600 * SECOND_NS
MOVED_NS = 600 * SECOND_NS  # one that is read at another node meanwhile
# Sources are read once a minute at the slowest.
FRESH_NS = 300 * SECOND_NS
CHECK_NS = 60 * SECOND_NS


class _Roster(NamedTuple):
    """Devices that frames of one kind of one source listed last, and when."""

    devices: tuple[Device, ...]
    read_ns: int


class _Names(NamedTuple):
    """The devices of a roster and their hosts, to be looked up in."""

    devices: tuple[Device, ...]
    keys: frozenset[Key]
    hosts: frozenset[str]


class Presence:
    """Follows what frames list.

    Where no source lists devices of a kind (mounts, adapters), the node of the device decides; a
    job, rack or switch is never gone.

    >>> presence, gpu = Presence(), Device("n1", "gpu", "GPU-1")
    >>> presence.gone(gpu, now_ns=0)
    ''
    """

    def __init__(self) -> None:
        self._rosters: dict[tuple[str, str, str], _Roster] = {}
        self._named: dict[tuple[str, str, str], _Names] = {}
        self._hosts: dict[str, int] = {}
        self._missing: dict[Key, int] = {}  # since when
        self._checked: int | None = None  # the minute

    def take(self, observation: Observation, now_ns: int) -> None:
        """Follow an observation; ``now_ns`` is on the clock of durations."""
        self._hosts[observation.host] = now_ns
        for frame in observation.frames:
            key = (observation.host, observation.source, frame.kind)
            self._rosters[key] = _Roster(frame.devices, now_ns)

    def due(self, now_ns: int) -> bool:
        """Whether a minute has begun since it was asked last: by minutes of the clock, so that it
        does not matter how often it is asked while nothing is open.
        """
        minute, before = now_ns // CHECK_NS, self._checked
        self._checked = minute
        return minute != before

    @staticmethod
    def due_ns(now_ns: int) -> int:
        """When the next minute begins."""
        return (now_ns // CHECK_NS + 1) * CHECK_NS

    def gone(self, device: Device, now_ns: int) -> str:
        """Why a device is taken for gone, in words; empty while it is read, or may be back."""
        if self.present(device, now_ns):
            self._missing.pop(identity(device), None)
            return ""
        away_ns = now_ns - self._missing.setdefault(identity(device), now_ns)
        elsewhere = self._elsewhere(device, now_ns) if away_ns >= MOVED_NS else ""
        if elsewhere:
            return f"It is read at {elsewhere} now"
        return f"Not read for {GONE_NS // 3600 // SECOND_NS} hours" if away_ns >= GONE_NS else ""

    def only(self, devices: Iterable[Device]) -> None:
        """Nothing is open about others any more."""
        names = {identity(device) for device in devices}
        self._missing = {name: since for name, since in self._missing.items() if name in names}

    def present(self, device: Device, now_ns: int) -> bool:
        """Whether it is read now; True where nothing says."""
        if not self._rosters or not device.host:
            return True
        if device.kind in CONTAINERS and device.kind != "node":
            return True
        fresh = self._fresh(now_ns)
        listed = [key for key in fresh if device.host in self._names(key).hosts]
        if any(kind == device.kind for _, _, kind in listed):
            return any(identity(device) in self._names(key).keys for key in listed)
        return bool(listed) or now_ns - self._hosts.get(device.host, -FRESH_NS) < FRESH_NS

    def _elsewhere(self, device: Device, now_ns: int) -> str:
        """Another node at which it is read, empty where there is none. Only GPUs have names that
        no other node has.
        """
        rosters = [
            self._names(key) for key in self._fresh(now_ns) if key[2] == device.kind == "gpu"
        ]
        return next(
            (
                host
                for names in rosters
                for host in sorted(names.hosts - {device.host})
                if identity(replace(device, host=host)) in names.keys
            ),
            "",
        )

    def _fresh(self, now_ns: int) -> list[tuple[str, str, str]]:
        return [key for key, one in self._rosters.items() if now_ns - one.read_ns <= FRESH_NS]

    def _names(self, key: tuple[str, str, str]) -> _Names:
        devices = self._rosters[key].devices
        known = self._named.get(key)
        if known is None or known.devices is not devices:
            keys = frozenset(identity(device) for device in devices)
            known = _Names(devices, keys, frozenset(device.host for device in devices))
            self._named[key] = known
        return known

    def state(self) -> State:
        """What is missing; what is read comes with the next frames."""
        return {"missing": text_array([[*key, since] for key, since in self._missing.items()])}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        kept = from_text_array(state["missing"])
        missing = {tuple(map(str, key)): int(since) for *key, since in kept}

        def commit() -> None:
            self._missing = missing

        return commit
