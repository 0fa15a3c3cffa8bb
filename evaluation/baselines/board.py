"""What every baseline needs: findings that are open until their condition ends, and sums over a
sliding window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import nan

import numpy as np
from numpy.typing import NDArray

from pipeline.clock import SECOND_NS
from pipeline.finding import SEVERITIES, Finding, Severity
from pipeline.frame import Device, Frame


class Board:
    """Open findings of one detector, one per rule and device."""

    def __init__(self, detector: str) -> None:
        self._detector = detector
        self._open: dict[str, dict[Device, Finding]] = {}
        self._rows: dict[str, tuple[tuple[Device, ...], dict[Device, int]]] = {}

    def judge(
        self,
        frame: Frame,
        rule: str,
        bad: NDArray[np.bool_],
        severity: Severity,
        *,
        fault: str,
        known: NDArray[np.bool_] | None = None,
        value: NDArray[np.float64] | None = None,
        expected: float = nan,
        sticky: bool = False,
    ) -> Iterator[Finding]:
        """Onsets where a rule begins to be ``bad``, clearances where it ends; all masks (device,),
        ``value`` and ``expected`` are evidence.

        Where it is not ``known`` nothing changes. What is ``sticky`` never clears.
        """
        active = self._open.setdefault(rule, {})
        if active and not sticky:
            yield from self._clear(frame, active, bad, known)
        if bad.any():
            for row in np.flatnonzero(bad).tolist():
                number = nan if value is None else float(value[row])
                yield from self.open(
                    frame.devices[row],
                    frame.time_ns,
                    rule,
                    severity,
                    fault=fault,
                    value=number,
                    expected=expected,
                )

    def open(
        self,
        device: Device,
        time_ns: int,
        rule: str,
        severity: Severity,
        *,
        fault: str,
        value: float = nan,
        expected: float = nan,
    ) -> Iterator[Finding]:
        """An onset unless it is open; an update where it is more severe than before."""
        active = self._open.setdefault(rule, {})
        before = active.get(device)
        if before is None:
            made = Finding(
                self._detector,
                device,
                fault,
                "onset",
                severity,
                time_ns,
                time_ns,
                rule,
                value=value,
                expected=expected,
            )
        elif SEVERITIES.index(severity) > SEVERITIES.index(before.severity):
            made = replace(before, phase="ongoing", severity=severity, time_ns=time_ns, value=value)
        else:
            return
        active[device] = made
        yield made

    def clear(self, device: Device, time_ns: int, rule: str) -> Iterator[Finding]:
        """The end of a finding, if it is open."""
        active = self._open.get(rule, {}).pop(device, None)
        if active is not None:
            yield replace(active, phase="cleared", time_ns=time_ns, device=device)

    def clear_after_reset(self, frame: Frame, rules: str) -> Iterator[Finding]:
        """Clear open findings of the rules that begin so, for devices that were reset or rebooted
        since the onset.
        """
        for rule in [
            rule for rule, active in self._open.items() if active and rule.startswith(rules)
        ]:
            active = self._open[rule]
            now = {
                device: device.attributes.get("epoch", "")
                for device in frame.devices
                if device in active
            }
            for device, epoch in now.items():
                if epoch != active[device].device.attributes.get("epoch", epoch):
                    yield replace(
                        active.pop(device), phase="cleared", time_ns=frame.time_ns, device=device
                    )

    def devices(self, rule: str) -> tuple[Device, ...]:
        """Devices with an open finding of a rule."""
        return tuple(self._open.get(rule, ()))

    def _clear(
        self,
        frame: Frame,
        active: dict[Device, Finding],
        bad: NDArray[np.bool_],
        known: NDArray[np.bool_] | None,
    ) -> Iterator[Finding]:
        devices, rows = self._rows.get(frame.kind, ((), {}))
        if devices is not frame.devices:
            rows = {device: row for row, device in enumerate(frame.devices)}
            self._rows[frame.kind] = (frame.devices, rows)
        for device in [*active]:
            row = rows.get(device)
            if row is not None and not bad[row] and (known is None or known[row]):
                yield replace(
                    active.pop(device),
                    phase="cleared",
                    time_ns=frame.time_ns,
                    device=frame.devices[row],
                )


class Aligned:
    """Arrays per device that follow the devices of a frame: those that stay keep their rows'
    values, new ones begin at zero.
    """

    def __init__(self) -> None:
        self._devices: tuple[Device, ...] = ()
        self._move: NDArray[np.intp] | None = None

    def follow(self, frame: Frame) -> NDArray[np.intp] | None:
        """Where each device of the frame was before, (device,), -1 = new;
        None where nothing moved.
        """
        if frame.devices is self._devices or frame.devices == self._devices:
            self._devices = frame.devices
            return None
        before = {device: row for row, device in enumerate(self._devices)}
        self._devices = frame.devices
        return np.array([before.get(device, -1) for device in frame.devices], np.intp)


def moved(array: NDArray[np.float64], move: NDArray[np.intp]) -> NDArray[np.float64]:
    """An array (device,) in the new order, zero for new devices.

    >>> moved(np.array([1.0, 2.0]), np.array([1, -1, 0])).tolist()
    [2.0, 0.0, 1.0]
    """
    return np.where(move >= 0, np.append(array, 0.0)[move], 0.0)


class Window:
    """Sum over the last ``seconds`` of what was added, per device, on the monotonic clock.

    NaN adds nothing.
    """

    def __init__(self, seconds: float) -> None:
        self._span_ns = round(seconds * SECOND_NS)
        self._parts: deque[tuple[int, NDArray[np.float64]]] = deque()
        self._aligned = Aligned()

    def add(self, frame: Frame, amount: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum with this frame's amount, (device,)."""
        move = self._aligned.follow(frame)
        if move is not None:
            self._parts = deque((at, moved(part, move)) for at, part in self._parts)
        while self._parts and self._parts[0][0] <= frame.mono_ns - self._span_ns:
            self._parts.popleft()
        amount = np.nan_to_num(amount)
        if amount.any():  # windows of error counters are empty nearly always
            self._parts.append((frame.mono_ns, amount))
        return sum((part for _, part in self._parts), np.zeros(len(frame.devices)))


def gauge(frame: Frame, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A gauge and where it is observed, both (device,)."""
    values = frame.gauge(name)
    return values, np.isfinite(values)


def total(frame: Frame, names: Iterable[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Sum of raw counters and where all of them are observed, both (device,)."""
    counters = [frame.counter(name) for name in names]
    values = np.sum(
        [np.where(observed, value, 0).astype(np.float64) for value, observed in counters], axis=0
    )
    return values, np.logical_and.reduce([observed for _, observed in counters])


def increase(frame: Frame, names: Iterable[str]) -> NDArray[np.float64]:
    """Sum of the increments of several counters, (device,); one that is
    not observed adds nothing.
    """
    return sum(
        (np.nan_to_num(frame.increase(name)) for name in names), np.zeros(len(frame.devices))
    )
