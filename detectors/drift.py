"""Settings and versions that differ from what was declared, or from nearly all devices of the same
model: driver, firmware, modes.

Nothing is broken yet, but drift explains why one node of many becomes slower or
fails differently later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockClock
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.instants import Times
from detectors.kit.page import Default, Needs, Page, gpu_columns
from detectors.kit.readings import reading
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, Component, Stateful, from_text_array, text_array
from pipeline.clock import Instant
from pipeline.finding import Finding, Severity
from pipeline.frame import Device, Frame, same_devices
from pipeline.joined import part_of
from pipeline.observation import Observation

BLOCK_S = 600.0
# it must have differed for so long: rollouts and repairs take hours
DECLARED_NS, MAJORITY_NS = 3600 * 10**9, 24 * 3600 * 10**9
# A later version than the majority's: the first nodes of a rollout run it days before others. And
# so long a rollout may pause, as nodes are drained when their jobs end.
ROLLOUT_NS = 7 * 24 * 3600 * 10**9
MIN_DEVICES, MAJORITY = 4, 0.8  # of one model
# more hosts than this differ in the same way: a rollout
ROLLOUT_HOSTS, ROLLOUT_SHARE = 3, 0.05

# What is compared, by kind: slow facts, and modes, which are gauges. A GID holds the subnet prefix
# in its first half (IBTA volume 1, 4.1.1).
FACTS: Mapping[str, tuple[str, ...]] = {
    "gpu": ("driver_version", "vbios", "inforom_image"),
    "ib_port": ("firmware", "mtu", "gid"),
    "node": ("kernel", "mlx5_driver", "bios_version"),
}
MIG = "mig_mode_current"
MODES: Mapping[str, tuple[str, ...]] = {"gpu": ("ecc_mode_current", "persistence_mode", MIG)}
# Modes that sites give whole nodes on purpose: devices are compared with those of their host.
WITHIN_HOST = frozenset({MIG})
POWER_LIMIT = "power_limit"  # the enforced one, in watts
MODEL: Mapping[str, tuple[str, ...]] = {
    "gpu": ("name", "board_part_number"),
    # A card of two uses: its Ethernet ports have another MTU, and no subnet.
    "ib_port": ("hca_type", "board_id", "link_layer"),
    "node": ("product",),
}
COMPARED = tuple(
    f"{kind}.{fact}" for kind in FACTS for fact in (*FACTS[kind], *MODES.get(kind, ()))
)
LIMITS = ("power_limit_enforced_milliwatts", "power_limit_requested_milliwatts")
# which is not compared with others' limits: sites cap nodes on purpose
DECLARABLE = (*COMPARED, f"gpu.{POWER_LIMIT}")
# facts whose values are versions
VERSIONS = frozenset(
    {"driver_version", "vbios", "firmware", "kernel", "mlx5_driver", "bios_version"}
)
# facts that all devices of a host share
OF_HOST = frozenset({"driver_version", "kernel", "mlx5_driver"})
DECLARED = "declared"


class _Odd(NamedTuple):
    """A value that differs, what it should be, who says so, whether many hosts have it, and whether
    it is a later version.
    """

    value: str
    want: str
    basis: str
    rollout: bool
    newer: bool

    @property
    def after_ns(self) -> int:
        """For how long it must have differed."""
        if self.basis == DECLARED:
            return DECLARED_NS
        return ROLLOUT_NS if self.newer and not self.rollout else MAJORITY_NS

    @property
    def moves(self) -> bool:
        """Whether it waits while others still come to what it should be."""
        return self.basis != DECLARED and not self.newer


class _Found(NamedTuple):
    """Of one fact: who differs, and who is as wanted."""

    odd: dict[Device, _Odd]
    same: set[Device]


class _Compared(NamedTuple):
    """What was compared last and what came of it: the same devices with the same gauges
    need not be compared again.
    """

    devices: tuple[Device, ...]
    gauges: dict[str, NDArray[np.float64]]
    facts: dict[str, _Found]


PAGE = Page(
    formula=(
        "fact of a device != declared value for 1 h, or != the value of 80 % of its model for 24 h "
        "in which no other device came to that value (7 d at most; 7 d where it is a later version)"
    ),
    sources=("IBTA, InfiniBand Architecture Specification volume 1, 4.1.1 (GID)",),
    shows=gpu_columns("ecc_mode_current", "persistence_mode", "mig_mode_current"),
    needs=Needs(
        60.0,
        (
            (
                "gpu.ecc_mode_current",
                "gpu.persistence_mode",
                "gpu.mig_mode_current",
                "gpu.power_limit_enforced_milliwatts",
            ),
        ),
    ),
    next_step=(
        "Bring the node to the fleet's version or setting at its next drain. What it should be can "
        "be declared: `detectors.drift.declared`."
    ),
    clears=(
        "At the next comparison, ten minutes later at most, that finds the value as it should be."
    ),
    scored_as=("drift",),
    limits=(
        Default(
            "compared", ", ".join(COMPARED), "what; the power limit only with what is declared"
        ),
    ),
)


class Drift(Stateful):
    """Compares versions and modes once in ten minutes; a ticket where one has differed for a day,
    from what is declared for an hour.

    Where many hosts differ alike it is a rollout, and an info finding, until it has stopped for a
    week. While others still come to what the majority has, those that are left wait, for a week at
    most: nodes are drained when their jobs end. A version that is later than the others' is the
    first of a rollout, and a ticket after a week. GPUs in MIG mode are compared with those of
    their own host alone, as sites divide whole nodes on purpose. ``declared`` (the setting
    `detectors.drift.declared`) maps ``kind.fact`` to the value that all devices should have, as in
    ``{"gpu.driver_version": "580.95.05"}``; its mistakes are a ValueError.

    >>> Drift({"gpu.colour": "green"})
    Traceback (most recent call last):
        ...
    ValueError: gpu.colour is not compared; there are gpu.driver_version, gpu.vbios, gpu.inforom_image, gpu.ecc_mode_current, \
gpu.persistence_mode, gpu.mig_mode_current, ib_port.firmware, ib_port.mtu, ib_port.gid, node.kernel, node.mlx5_driver, node.bios_version, gpu.power_limit
    """  # noqa: E501 - an example or a table

    name = "drift"
    version = 2

    def __init__(self, declared: Mapping[str, str] = MappingProxyType({})) -> None:
        if wrong := [*mistakes(declared)]:
            raise ValueError("; ".join(wrong))
        self._declared = {
            key: _text(key.partition(".")[2], value) for key, value in declared.items()
        }
        self._clocks = {kind: BlockClock(BLOCK_S) for kind in FACTS}
        self._seen = {kind: _Seen() for kind in FACTS}
        self._unchanged = {kind: _Unchanged() for kind in FACTS}
        self._kept: dict[tuple[str, str], _Compared] = {}  # by kind, and node where joined
        self._since, self._elapsed, self._standing = _Since(), Elapsed(), FindingTracker(self.name)

    def components(self) -> Mapping[str, Component]:
        """With the clock of each kind of device."""
        clocks = {f"clock_{kind}": clock for kind, clock in self._clocks.items()}
        return {**super().components(), **clocks}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What differs for long enough, and what no longer does."""
        findings: list[Finding] = []
        frames = [frame for frame in observation.frames if frame.kind in FACTS]
        if not frames:
            return findings
        at = self._elapsed.times(observation)
        for frame in frames:
            self._seen[frame.kind].see(frame)
            clock = self._clocks[frame.kind]
            # Several sources may read devices of one kind, each at its own times.
            turned = clock.turned_at(at)
            if frame.nodes is not None and np.any(turned):
                unchanged = self._unchanged[frame.kind].nodes(frame, self._gauges(frame))
                for _, then in clock.each(np.where(unchanged, turned, 0), at):
                    findings += self._standing.due(then)
                turned = np.where(unchanged, 0, turned)
            for _, then in clock.each(turned, at, singly=True):
                findings += [*self._of_frame(frame, then), *self._standing.due(then)]
        return findings

    def _of_frame(self, frame: Frame, at: Times) -> Iterator[Finding]:
        """What is to be said of the devices of a frame; of joined nodes, of the one in sight."""
        if isinstance(at, Instant):
            yield from self._compare(frame, "", at)
            return
        (host,) = at.nodes
        yield from self._compare(part_of(frame, host), host, at.only(host))
        facts = self._kept[frame.kind, host].facts
        self._unchanged[frame.kind].compared(host, differs=any(one.odd for one in facts.values()))

    def _compare(self, frame: Frame, host: str, at: Instant) -> Iterator[Finding]:
        gauges, key = self._gauges(frame), (frame.kind, host)
        kept = self._kept.get(key)
        before = kept.facts if kept is not None else {}
        still = _still(kept, frame, gauges) if kept is not None else {}
        if kept is None or len(still) < len(before):
            kept = self._kept[key] = _Compared(
                frame.devices, gauges, self._differences(frame, gauges, still)
            )
            for fact, found in kept.facts.items():
                came = _came(before[fact], found) if fact in before else set()
                back = self._since.deviating(frame.kind, fact) & found.same
                for device in sorted(back, key=lambda one: (one.host, one.id)):
                    self._since.drop(device, frame.kind, fact)
                    yield from self._standing.ends(device, _fault(frame.kind, fact), at)
                for device, odd in found.odd.items():
                    if odd.moves and odd.want in came:
                        self._since.moved(device, frame.kind, fact, at.mono_ns)
        for fact, found in kept.facts.items():
            for device, odd in found.odd.items():
                since_ns, moved_ns = self._since.first(device, frame.kind, fact, at.mono_ns)
                differs_ns, stands_ns = at.mono_ns - since_ns, at.mono_ns - moved_ns
                if stands_ns >= odd.after_ns or differs_ns >= ROLLOUT_NS:
                    verdict = _verdict(frame.kind, fact, odd, stopped=stands_ns >= ROLLOUT_NS)
                    yield from self._standing.holds(device, verdict, at, at.time_ns - differs_ns)

    def _gauges(self, frame: Frame) -> dict[str, NDArray[np.float64]]:
        """Modes, and power limits in whole watts; below what is declared only where it was asked
        for; the rest is `power_limit`'s.
        """
        seen = self._seen[frame.kind].of(frame)
        gauges = {mode: seen[mode] for mode in MODES.get(frame.kind, ())}
        if frame.kind == "gpu":
            enforced, asked = (np.rint(seen[limit] / 1000) for limit in LIMITS)
            declared = float(self._declared.get(f"gpu.{POWER_LIMIT}", "nan"))
            gauges[POWER_LIMIT] = np.where(asked > enforced, np.fmax(enforced, declared), enforced)
        return gauges

    def _differences(
        self,
        frame: Frame,
        gauges: Mapping[str, NDArray[np.float64]],
        still: Mapping[str, _Found],
    ) -> dict[str, _Found]:
        """Who differs in what, and who does not, by fact; what ``still`` holds is known."""
        most = max(ROLLOUT_HOSTS, ROLLOUT_SHARE * len({device.host for device in frame.devices}))
        facts = {}
        for fact in (*FACTS[frame.kind], *gauges):
            if fact in still:
                facts[fact] = still[fact]
                continue
            values = _values(frame, gauges, fact)
            wanted = self._wanted(frame, fact, values)
            odd: dict[Device, tuple[str, str, str]] = {}
            same = set()
            for device, value, (want, basis) in zip(frame.devices, values, wanted, strict=True):
                whose = device if fact not in OF_HOST else Device(device.host, "node", device.host)
                if value and want and value != want:
                    odd[whose] = (value, want, basis)
                elif value:
                    same.add(whose)
            hosts = Counter(
                value for value, _ in {(value, device.host) for device, (value, *_) in odd.items()}
            )
            found = {
                whose: _Odd(
                    *one,
                    rollout=one[2] != DECLARED and hosts[one[0]] > most,
                    newer=fact in VERSIONS and _version(fact, one[0]) > _version(fact, one[1]),
                )
                for whose, one in odd.items()
            }
            facts[fact] = _Found(found, same - set(odd))
        return facts

    def _wanted(self, frame: Frame, fact: str, values: list[str]) -> list[tuple[str, str]]:
        """What each device should have, and who says so; empty where nobody does."""
        declared = self._declared.get(f"{frame.kind}.{fact}")
        if declared is not None:
            return [(declared, DECLARED)] * len(values)
        if fact == POWER_LIMIT:
            return [("", "")] * len(values)
        models = [
            (
                device.host if fact in WITHIN_HOST else "",
                *(device.attributes.get(name, "") for name in MODEL[frame.kind]),
            )
            for device in frame.devices
        ]
        counts: dict[tuple[str, ...], Counter[str]] = {}
        for model, value in zip(models, values, strict=True):
            if value:
                counts.setdefault(model, Counter())[value] += 1
        wanted = {}
        for model, count in counts.items():
            value, most = count.most_common(1)[0]
            all_of_it = count.total()
            clear = all_of_it >= MIN_DEVICES and most >= MAJORITY * all_of_it
            wanted[model] = (value, f"{most} of {all_of_it}") if clear else ("", "")
        return [wanted.get(model, ("", "")) for model in models]


def mistakes(declared: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with declared values: facts that are not compared, and values
    that no device can have.
    """
    modes = {f"{kind}.{mode}" for kind, names in MODES.items() for mode in names}
    for key, value in declared.items():
        if key not in DECLARABLE:
            yield f"{key} is not compared; there are {', '.join(DECLARABLE)}"
        elif not value:
            yield f"{key} is empty: leave it out, and devices are compared with each other"
        elif key in modes and value not in ("0", "1"):
            yield f"{key}: {value!r} is neither 0 (off) nor 1 (on)"
        elif key == f"gpu.{POWER_LIMIT}" and not value.isdecimal():
            yield f"{key}: {value!r} is not a whole number of watts"


def _values(frame: Frame, gauges: Mapping[str, NDArray[np.float64]], fact: str) -> list[str]:
    """A fact of each device as text, empty where it is not known."""
    if fact in gauges:
        return ["" if np.isnan(x) else f"{x:.0f}" for x in gauges[fact].tolist()]
    return [_text(fact, device.attributes.get(fact, "")) for device in frame.devices]


def _text(fact: str, value: str) -> str:
    return ":".join(value.split(":")[:4]) if fact == "gid" else value


def _version(fact: str, text: str) -> list[int]:
    """Its numbers, in their order; those of a VBIOS are hexadecimal (96.00.A5.00.01).

    >>> _version("kernel", "5.15.0-122-generic") < _version("kernel", "6.8.0-40-generic")
    True
    >>> _version("vbios", "96.00.5E.00.03") < _version("vbios", "96.00.A5.00.01")
    True
    """
    if fact == "vbios":
        return [int(number, 16) for number in re.findall(r"[0-9A-Fa-f]{1,15}", text)]
    return [int(number) for number in re.findall(r"[0-9]{1,18}", text)]


def _still(
    kept: _Compared, frame: Frame, gauges: Mapping[str, NDArray[np.float64]]
) -> dict[str, _Found]:
    """What is as it was when it was compared last."""
    if not same_devices(kept.devices, frame.devices):
        return {}
    changed = {
        name
        for name, now in gauges.items()
        if not np.array_equal(kept.gauges[name], now, equal_nan=True)
    }
    return {fact: found for fact, found in kept.facts.items() if fact not in changed}


def _fault(kind: str, fact: str) -> str:
    return f"drift/{kind}_{fact}"


def _came(before: _Found, now: _Found) -> set[str]:
    """Values that devices came to have which differed from them before."""
    return {odd.want for device, odd in before.odd.items() if device in now.same}


def _verdict(kind: str, fact: str, odd: _Odd, *, stopped: bool) -> Verdict:
    """``stopped``: no other device has come to the wanted value for a week."""
    value, want, basis, rollout, _ = odd
    severity: Severity = "record" if rollout and not stopped else "ticket"
    words = "subnet prefix" if fact == "gid" else fact.replace("_", " ")
    whose = "its host" if fact in WITHIN_HOST else "its model"
    against = "as was declared" if basis == DECLARED else f"as {basis} devices of {whose} have"
    more = ""
    if rollout:
        more = " Many hosts have it: a rollout"
        more += " that has stopped for a week." if stopped else "."
    unit = " W" if fact == POWER_LIMIT else ""
    return Verdict(
        _fault(kind, fact),
        severity,
        "NONE" if severity == "record" else "CONTACT_SUPPORT",
        f"Its {words} is {value}{unit} instead of {want}{unit}, {against}.{more}",
        (f"{kind} {words}: {value}{unit}, wanted {want}{unit}",),
    )


class _Seen:
    """Gauges of each device when its node was read last: in frames that keep rows of nodes which
    they do not read, a node that is read once a minute is in few of those that end a block.
    """

    def __init__(self) -> None:
        self._devices: tuple[Device, ...] = ()
        self._kept: NDArray[np.float64] | None = None

    def see(self, frame: Frame) -> None:
        """A frame of any kind and source; kept is what was read in it."""
        if frame.passed_s is None or not MODES.get(frame.kind):
            return
        now = _gauges_of(frame)
        if self._kept is not None and self._devices is not frame.devices:
            rows = {device: row for row, device in enumerate(self._devices)}
            at = np.array([rows.get(device, len(rows)) for device in frame.devices], np.intp)
            self._kept = np.pad(self._kept, ((0, 0), (0, 1)), constant_values=np.nan)[:, at]
        unread = np.isnan(frame.passed_s)
        self._kept = now if self._kept is None else np.where(unread, self._kept, now)
        self._devices = frame.devices

    def of(self, frame: Frame) -> Mapping[str, NDArray[np.float64]]:
        """By name, (device,)."""
        if not MODES.get(frame.kind):
            return {}
        kept = self._kept
        if kept is None or frame.devices is not self._devices:  # every row of it is read
            kept = _gauges_of(frame)
        return dict(zip((*MODES[frame.kind], *LIMITS), kept, strict=True))


def _gauges_of(frame: Frame) -> NDArray[np.float64]:
    return np.stack([reading(frame, name) for name in (*MODES[frame.kind], *LIMITS)])


class _Unchanged:
    """Which of joined nodes show the gauges with which they were compared last, and differed in
    nothing: they need not be compared again.
    """

    def __init__(self) -> None:
        self._devices: tuple[Device, ...] = ()
        self._names: tuple[str, ...] = ()
        self._now = self._last = np.zeros((0, 0))  # (gauge, device)
        self._node_of, self._calm = np.zeros(0, np.intp), np.zeros(0, np.bool_)

    def nodes(self, frame: Frame, gauges: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
        """Of a joined frame, (node,)."""
        nodes = frame.nodes
        assert nodes is not None  # noqa: S101 - asked for where nodes are joined
        self._now = np.stack((*gauges.values(), np.zeros(len(frame.devices))))
        if frame.devices is not self._devices or nodes.names is not self._names:
            self._devices, self._names, self._node_of = frame.devices, nodes.names, nodes.node_of
            self._last, self._calm = self._now.copy(), np.zeros(len(nodes.names), np.bool_)
        same = (self._now == self._last) | (np.isnan(self._now) & np.isnan(self._last))
        differing = self._node_of[~same.all(axis=0)]
        equal = np.bincount(differing, minlength=len(self._calm)) == 0
        return np.asarray(self._calm & equal)

    def compared(self, host: str, *, differs: bool) -> None:
        """A node was, with the gauges of the frame that was asked about."""
        place = self._names.index(host)
        rows = self._node_of == place
        self._last[:, rows] = self._now[:, rows]
        self._calm[place] = not differs


class _Since:
    """Since when who differs in what, and when another device last came to the wanted value:
    elapsed ns by kind and fact, and device, of those that differ.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[Device, tuple[int, int]]] = {}

    def first(self, device: Device, kind: str, fact: str, now_ns: int) -> tuple[int, int]:
        return self._of.setdefault(f"{kind}_{fact}", {}).setdefault(device, (now_ns, now_ns))

    def moved(self, device: Device, kind: str, fact: str, now_ns: int) -> None:
        of = self._of.get(f"{kind}_{fact}", {})
        if device in of:
            of[device] = of[device][0], now_ns

    def drop(self, device: Device, kind: str, fact: str) -> None:
        del self._of[f"{kind}_{fact}"][device]

    def deviating(self, kind: str, fact: str) -> set[Device]:
        return set(self._of.get(f"{kind}_{fact}", ()))

    def state(self) -> State:
        rows = {
            fact: [[d.host, d.kind, d.id, *at] for d, at in of.items()]
            for fact, of in self._of.items()
        }
        return {"of": text_array(rows)}

    def prepare(self, state: State) -> Commit:
        rows = dict(from_text_array(state["of"]))
        # A state of an older version has no times at which others came.
        of = {
            str(fact): {
                Device(host, kind, name): (int(at), int(moved[0] if moved else at))
                for host, kind, name, at, *moved in each
            }
            for fact, each in rows.items()
        }

        def commit() -> None:
            self._of = of

        return commit
