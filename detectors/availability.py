"""GPUs that are lost, hung or gone: what the inventory says should be there and does not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.literature import NVML
from detectors.kit.page import Default, Needs, Page, gpu_columns
from detectors.kit.slots import Slots
from detectors.kit.snapshot import State
from detectors.kit.stateful import from_text_array, text_array
from pipeline.documents import exact, exact_finding
from pipeline.finding import Action, Finding, Severity
from pipeline.frame import Device, Frame
from pipeline.gpu_state import GPU_STATES, NO_FAULT, GpuState
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

STATES = dict(GPU_STATES)
UNREADABLE = GpuState.UNREADABLE.label
FINE = frozenset(state.label for state in NO_FAULT)


@dataclass(frozen=True, slots=True)
class Rule:
    """How a state is judged: how long it must last, and what it then means."""

    after_s: float
    severity: Severity
    action: Action
    summary: str


# Lost is what the driver reports (NVML_ERROR_GPU_IS_LOST): a fact, reported at once. A hang is our
# own deadline, so a slow driver gets ten seconds. A GPU that is missing from the driver's list
# may be coming up after a reload.
RULES = {
    "lost": Rule(
        0.0,
        "page",
        "RESTART_BM",
        "The driver has lost the GPU: it no longer answers on the PCI bus.",
    ),
    "hung": Rule(10.0, "page", "RESTART_BM", "Calls to the driver about this GPU do not return."),
    "absent": Rule(
        60.0,
        "page",
        "RESTART_BM",
        "The GPU was in this node and is no longer listed by the driver.",
    ),
    "unreadable": Rule(
        60.0,
        "ticket",
        "CONTACT_SUPPORT",
        "The driver lists the GPU but every query about it fails.",
    ),
}
# Where no GPU of the node can be read there is no driver: it is probably
# being replaced, which takes minutes.
NO_DRIVER = Rule(
    900.0, "ticket", "CONTACT_SUPPORT", "No GPU of this node can be read: its driver is not loaded."
)
# Where no GPU of a node answers it is the driver that hangs: the source has tried them all.
DRIVER_HUNG = Rule(
    3.0,
    "page",
    "RESTART_BM",
    "The driver hangs: calls about every GPU of this node do not return.",
)
FAULT_OF_DRIVER = "driver_hung"
MIN_GPUS = 2  # of one GPU nobody can say whether it or its driver hangs


@dataclass(frozen=True, slots=True)
class _BadState:
    """The bad state of a GPU, its begin by both clocks, its boot, and its finding."""

    state: str
    boot_id: str
    mono_ns: int
    time_ns: int
    finding: Finding | None = None


class _ReadAt(NamedTuple):
    """When a frame was read, by both clocks, and in which boot."""

    time_ns: int
    mono_ns: int
    boot_id: str


def _state(name: str, rule: Rule) -> Default:
    return Default(name, f"{rule.after_s:g} s", f"{rule.severity}: {rule.summary}")


PAGE = Page(
    formula="state in {lost, hung, absent, unreadable} for longer than the state's own limit",
    sources=(f"{NVML}: NVML_ERROR_GPU_IS_LOST",),
    shows=gpu_columns("state", "power_milliwatts"),
    needs=Needs(60.0, (("gpu.state",),)),
    next_step=(
        "Check for XID 79, 119 or 154 of the same GPU; drain the node, restart it, and if the GPU "
        "stays away reseat or replace it."
    ),
    clears=(
        "At the first reading of another state: healthy, or another of these, which is a finding "
        "of its own. A lost GPU that then hangs or gives no answer in the same boot is still lost."
    ),
    scored_as=("xid",),
    limits=tuple(
        _state(*rule)
        for rule in (
            *RULES.items(),
            ("unreadable, all of a node", NO_DRIVER),
            ("hung, all of a node", DRIVER_HUNG),
        )
    ),
)


class Availability:
    """Judges the ``state`` of every GPU by table.

    Durations are measured on the monotonic clock of the frames, and restart with it: after a
    reboot a GPU may be coming up. A frame without a reading of the state changes nothing. What
    is open about a GPU ends when another one is in its slot.
    """

    name = "availability"
    version = 2

    def __init__(self) -> None:
        self._bad: dict[Device, _BadState] = {}
        self._devices: tuple[Device, ...] | None = None
        self._row: dict[Device, int] = {}  # of those devices
        self._slots = Slots()
        self._now: Callable[[Device], _ReadAt] = lambda _: _ReadAt(0, 0, "")
        self._seen_ns: dict[Device, int] = {}  # when a bad state was last read, unix ns

    def current(self) -> list[Finding]:
        """Open findings, at the time of the last reading that shows them."""
        current = []
        for device, bad in list(self._bad.items()):
            finding, seen_ns = bad.finding, self._seen_ns.get(device, 0)
            if finding is not None and seen_ns > finding.time_ns:
                lasts_s = (seen_ns - bad.time_ns) / 1e9
                finding = replace(
                    finding, time_ns=seen_ns, evidence=(_lasts(bad.state, lasts_s, device),)
                )
            if finding is not None:
                current.append(finding)
        return current

    def state(self) -> State:
        """For a snapshot (detectors/kit/snapshot.py)."""
        rows = [
            [
                exact(device),
                s.state,
                s.boot_id,
                s.mono_ns,
                s.time_ns,
                s.finding and exact(s.finding),
            ]
            for device, s in self._bad.items()
        ]
        return {"stands": text_array(rows)}

    def restore(self, state: State) -> None:
        """From a snapshot."""
        self._bad = {
            Device(**device): _BadState(
                str(name),
                str(boot_id),
                int(mono_ns),
                int(time_ns),
                exact_finding(finding) if finding else None,
            )
            for device, name, boot_id, mono_ns, time_ns, finding in from_text_array(state["stands"])
        }

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Onsets and ends of bad states."""
        findings: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "gpu":
                self._now = _reads(frame, observation.boot_id)
                findings += self._frame(frame)
        return findings

    def _frame(self, frame: Frame) -> Iterator[Finding]:
        """Most GPUs are well in most frames: only those are asked about that are not,
        or that were not before.
        """
        codes = frame.gauge("state")
        bad = set(np.flatnonzero(np.isfinite(codes) & (codes != GpuState.OK)).tolist())
        yield from self._replaced(frame)
        yield from self._drivers(frame, codes)
        rows = sorted(bad | self._standing_rows(frame, codes))
        silent = codes == GpuState.UNREADABLE
        read = (
            {frame.devices[row].host for row in np.flatnonzero(codes == GpuState.OK)}
            if any_true(silent)
            else set()
        )
        for row in rows:
            device, state = frame.devices[row], STATES.get(int(codes[row]), UNREADABLE)
            yield from self._device(device, state, device.host in read)

    def _drivers(self, frame: Frame, codes: NDArray[np.float64]) -> Iterator[Finding]:
        """Nodes all of whose GPUs hang."""
        hung = Counter(frame.devices[row].host for row in np.flatnonzero(codes == GpuState.HUNG))
        standing = [device for device in self._bad if device.kind == "node"]
        if not hung and not standing:
            return
        known = Counter(frame.devices[row].host for row in np.flatnonzero(np.isfinite(codes)))
        for node in standing:
            if known[node.id] and hung[node.id] < known[node.id]:
                yield from self._ends(node)
        for host, count in hung.items():
            if count == known[host] >= MIN_GPUS:
                node = Device(host, "node", host)
                yield from self._stays(node, FAULT_OF_DRIVER, DRIVER_HUNG)

    def _replaced(self, frame: Frame) -> Iterator[Finding]:
        """Those whose slot another GPU has now."""
        for device in [
            device
            for device in self._bad
            if device.kind == "gpu" and self._slots.instead(device, frame) is not None
        ]:
            yield from self._ends(device)

    def _standing_rows(self, frame: Frame, codes: NDArray[np.float64]) -> set[int]:
        """Rows with a reading of the GPUs in a bad state."""
        if not self._bad:
            return set()
        if frame.devices is not self._devices:
            self._devices, self._row = (
                frame.devices,
                {device: row for row, device in enumerate(frame.devices)},
            )
        rows = {self._row[device] for device in self._bad if device in self._row}
        return {row for row in rows if np.isfinite(codes[row])}

    def _ends(self, device: Device) -> Iterator[Finding]:
        finding = self._bad.pop(device).finding
        self._seen_ns.pop(device, None)
        if finding is not None:
            yield replace(
                finding, phase="cleared", time_ns=self._now(device).time_ns, device=device
            )

    def _device(self, device: Device, state: str, read: bool) -> Iterator[Finding]:
        """``read``: whether any GPU of its node is."""
        bad = self._bad.get(device)
        if bad is not None and self._still_lost(bad, state, device):
            state = bad.state
        if bad is not None and (
            bad.state != state or (bad.finding is None and bad.boot_id != self._now(device).boot_id)
        ):
            yield from self._ends(device)
            bad = None
        if state in FINE:
            return
        rule = RULES[state] if read or state != UNREADABLE else NO_DRIVER
        yield from self._stays(device, state, rule)

    def _still_lost(self, bad: _BadState, state: str, device: Device) -> bool:
        """Whether a GPU that the driver has lost merely answers late, or not at all: a machine that
        is overloaded gives both by turns, and neither means that it is back.
        """
        late = state in ("hung", UNREADABLE)
        return bad.state == "lost" and late and bad.boot_id == self._now(device).boot_id

    def _stays(self, device: Device, state: str, rule: Rule) -> Iterator[Finding]:
        """A bad state goes on, or begins."""
        now = self._now(device)
        bad = self._bad.setdefault(device, _BadState(state, now.boot_id, now.mono_ns, now.time_ns))
        self._seen_ns[device] = now.time_ns
        if bad.finding is None and now.mono_ns - bad.mono_ns >= rule.after_s * 1e9:
            finding = self._finding(now, device, bad, rule)
            self._bad[device] = replace(bad, finding=finding)
            yield finding

    def _finding(self, now: _ReadAt, device: Device, bad: _BadState, rule: Rule) -> Finding:
        return Finding(
            detector=self.name,
            device=device,
            fault=bad.state if device.kind == "node" else f"gpu_{bad.state}",
            phase="onset",
            severity=rule.severity,
            onset_ns=min(bad.time_ns, now.time_ns),  # the wall clock may have been set back since
            time_ns=now.time_ns,
            summary=rule.summary,
            action=rule.action,
            evidence=(_lasts(bad.state, (now.mono_ns - bad.mono_ns) / 1e9, device),),
        )


def _reads(frame: Frame, boot_id: str) -> Callable[[Device], _ReadAt]:
    """When a frame was read at the node of a device."""
    nodes, one = frame.nodes, _ReadAt(frame.time_ns, frame.mono_ns, boot_id)
    if nodes is None:
        return lambda _: one

    def read(device: Device) -> _ReadAt:
        node = nodes.names.index(device.host)
        return _ReadAt(int(nodes.time_ns[node]), int(nodes.mono_ns[node]), nodes.boots[node])

    return read


def _lasts(state: str, seconds: float, device: Device) -> str:
    where = " ".join(
        f"{k} {device.attributes[k]}"
        for k in ("index", "pci_bus_id", "serial")
        if device.attributes.get(k)
    )
    return f"state {state} for {seconds:.0f} s; {where}".rstrip("; ")
