"""Links that go down and come up again, repeatedly: each time a job may fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.infiniband.ports import ABSENT, SWITCH_PORTS, Links, Twins, is_active, port_name
from detectors.kit.block_clock import Seconds, StepClock
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.instants import Times, ago, instant_of
from detectors.kit.maintenance import Maintenance
from detectors.kit.page import Needs, Page, port_columns
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, Stateful, from_text_array, text_array
from pipeline.clock import Instant
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

AWAY_S = 25.0  # down for this long and up again is an event by itself: gpud's definition of a flap
CALM_S = 90.0  # up for this long ends an event: the 64-bit counters are up to a minute old
MANY, MANY_S = 3, 6 * 3600.0  # events that are a page, and within what time
SLOW, SLOW_S = 5, 7 * 86400.0  # and a ticket
REBOOT_S = 600.0  # before and after the boot of a node or switch its links may go down
TOGETHER_S = 120.0  # ports of one switch that go within this time went with the switch
CLEAN_S = {"page": 6 * 3600.0, "ticket": 86400.0}
FAULT = "ib_flap"


PAGE = Page(
    formula=(
        "3 losses of the link within 6 h are a page, 5 within 7 days a ticket; one loss moves "
        "link_downed at both ends, on Ethernet the carrier, or lasts 25 s"
    ),
    sources=("gpud, InfiniBand flap check, github.com/leptonai/gpud",),
    shows=port_columns("link_downed", "state"),
    needs=Needs(
        60.0, (("ib_port.link_downed", "ib_port.link_downed_extended"), ("ib_port.state",))
    ),
    next_step=(
        "Reseat or replace cable and transceiver; drain the node if a job failed because of it."
    ),
    clears=(
        "After six hours without another loss (a ticket: after a day); then the count starts again."
    ),
    scored_as=("ib-flap",),
)


class IbFlap(Stateful):
    """Counts the times a link was lost, by ``link_downed`` at both ends, by the carrier of an
    Ethernet port or by its state; three in six hours are a page.

    Boots, switches that reboot, adapters that go and maintenance do not count. Where both ends are
    seen, both counters must have moved, and the node's end reports the link. It ends after six
    clean hours, and starts to count again.

    >>> IbFlap().name
    'ib_flap'
    """

    name = "ib_flap"
    version = 3

    def __init__(self) -> None:
        self._columns = Columns(
            **Twins.fills("link_downed"),
            up=False,
            open=False,  # an event goes on
            counted=False,  # and was counted
            away_s=0.0,
            calm_s=0.0,
            downed_ns=0,  # when link_downed rose last, or the carrier changed
            events=Ring(SLOW, 0),  # when the last events were, the newest first; 0 is none
        )
        self._clock, self._elapsed, self._standing = (
            StepClock(),
            Elapsed(),
            FindingTracker(self.name),
        )
        self._twins, self._links = Twins(self._columns, "link_downed"), Links()
        self._maintenance, self._boots = Maintenance(), _Boots()

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Links that flap, and those that no longer do."""
        self._maintenance.take(observation.events)
        findings: list[Finding] = []
        at = self._elapsed.times(observation)
        for frame in observation.frames:
            if frame.kind == "node":
                self._rebooted(frame, at)
            elif frame.kind == "ib_port":
                findings += self._standing.swapped(frame, at)
                seconds = self._clock.passed(frame, observation.boot_id)
                if seconds is not None:
                    findings += self._frame(frame, seconds, at)
        return findings

    def _frame(self, frame: Frame, passed: Seconds, at: Times) -> Iterator[Finding]:
        columns = self._columns
        columns.show(frame)
        seconds = columns.each(passed)
        self._links.look(columns.devices)
        state = columns.wide(frame.gauge("state"))
        seen, active = np.isfinite(state), is_active(state)
        off = seen & ~active & (state != ABSENT)  # an adapter that goes takes no link down
        lost = off & columns["up"]
        rose = self._twins.increase(frame) > 0
        rose |= self._carrier_changed(frame) & (columns["open"] | lost)
        columns["downed_ns"] = np.where(rose, columns.each(at.mono_ns), columns["downed_ns"])
        columns["open"] |= rose | lost
        columns["away_s"] = np.where(
            columns["open"] & off, columns["away_s"] + seconds, columns["away_s"]
        )
        columns["calm_s"] = np.where(
            seen, np.where(active & ~rose, columns["calm_s"] + seconds, 0.0), columns["calm_s"]
        )
        columns["up"] = np.where(seen, active, columns["up"])
        yield from self._count(active, at)
        over = columns["open"] & (columns["calm_s"] >= CALM_S)
        columns.reset(over, "open", "counted", "away_s")
        yield from self._end(at)
        yield from self._standing.due(at)

    def _carrier_changed(self, frame: Frame) -> NDArray[np.bool_]:
        """Where an Ethernet port's net device lost or regained its carrier: link_downed is missing
        there or, with mlx5, at 0. Settings of the net device change the carrier for a moment too:
        it counts with a state that was seen down.
        """
        if not any_true(frame.counter("net_carrier_changes")[1]):
            return np.zeros(len(self._columns), np.bool_)
        changed: NDArray[np.bool_] = self._columns.wide(frame.increase("net_carrier_changes")) > 0
        return changed

    def _count(self, active: NDArray[np.bool_], at: Times) -> Iterator[Finding]:
        columns, links = self._columns, self._links
        recent = (columns["downed_ns"] > 0) & (
            columns.each(at.mono_ns) - columns["downed_ns"] <= TOGETHER_S * 1e9
        )
        by_counter = recent & links.across(recent, unseen=True)
        event = (
            columns["open"]
            & ~columns["counted"]
            & (by_counter | (active & (columns["away_s"] >= AWAY_S)))
        )
        if not any_true(event):
            return
        columns["counted"] |= event
        for row in rows_where(event):
            if self._maintenance.covers(columns.devices[row]) or self._boots.recent(
                self._hosts(row), instant_of(at, columns.devices[row])
            ):
                event[row] = False
        columns["events"][1:, event] = columns["events"][:-1, event]
        np.copyto(columns["events"][0], columns.each(at.mono_ns), where=event)
        self._drop_switches(at)
        for row in rows_where(event & links.reports & (columns["events"][0] > 0)):
            yield from self._report(row, at)

    def _report(self, row: int, at: Times) -> Iterator[Finding]:
        age_s = (self._now_ns(row, at) - self._columns["events"][:, row]) / 1e9
        ages_s = np.where(self._columns["events"][:, row] > 0, age_s, np.inf)
        port = self._columns.devices[row]
        page = ages_s[MANY - 1] <= MANY_S
        if page or ages_s[SLOW - 1] <= SLOW_S:
            events, within = (MANY, MANY_S) if page else (SLOW, SLOW_S)
            last = ", ".join(f"{age / 60:.0f}" for age in ages_s[np.isfinite(ages_s)])
            verdict = Verdict(
                FAULT,
                "page" if page else "ticket",
                "CONTACT_SUPPORT",
                f"The link of {port_name(port)} flaps: clean or replace cable or transceiver.",
                (
                    (
                        f"{int((ages_s <= within).sum())} times down within {within / 3600:.0f} "
                        f"hours; minutes ago: {last}"
                    ),
                    self._other_end(row),
                ),
                float((ages_s <= within).sum()),
                float(events - 1),
                "events",
            )
            yield from self._standing.holds(
                port, verdict, at, ago(at, port, float(ages_s[events - 1]))
            )

    def _now_ns(self, row: int, at: Times) -> int:
        return instant_of(at, self._columns.devices[row]).mono_ns

    def _other_end(self, row: int) -> str:
        other = int(self._links.other[row])
        if other < 0:
            return "the other end of the link is not monitored"
        return f"the other end, {port_name(self._columns.devices[other])}, lost it too"

    def _end(self, at: Times) -> Iterator[Finding]:
        columns = self._columns
        for finding in self._standing.all():
            row = columns.row(finding.device)
            if (
                row is not None
                and (self._now_ns(row, at) - columns["events"][0, row]) / 1e9
                > CLEAN_S[finding.severity]
            ):
                columns["events"][:, row] = 0
                yield from self._standing.ends(finding.device, finding.fault, at)

    def _drop_switches(self, at: Times) -> None:
        """Events that came together on many ports of a switch are the switch's."""
        events, links = self._columns["events"], self._links
        now_ns = self._columns.each(at.mono_ns)
        fresh = (events[0] > 0) & (now_ns - events[0] <= TOGETHER_S * 1e9)
        switch = fresh & (links.of_leaf(fresh & links.reports) >= SWITCH_PORTS)
        if any_true(switch):
            events[:-1, switch] = events[1:, switch]
            events[-1, switch] = 0

    def _rebooted(self, frame: Frame, at: Times) -> None:
        """Forget what the links of nodes that have just booted did around it."""
        hosts = self._boots.take(frame, at)
        if not hosts:
            return
        events = self._columns["events"]
        if self._columns.joined:  # other nodes may have been in sight
            self._links.look(self._columns.devices)
        for row in range(len(self._columns)):
            if hosts & self._hosts(row):
                now_ns = self._now_ns(row, at)
                kept = [t for t in events[:, row].tolist() if t and now_ns - t > 2 * REBOOT_S * 1e9]
                events[:, row] = kept + [0] * (SLOW - len(kept))

    def _hosts(self, row: int) -> set[str]:
        """The hosts at both ends of a link."""
        other = int(self._links.other[row]) if row < len(self._links.other) else -1
        rows = (row, other) if other >= 0 else (row,)
        return {self._columns.devices[r].host for r in rows}


class _Boots:
    """When the nodes were booted, by their ``boot_time_seconds``."""

    def __init__(self) -> None:
        self._booted: dict[str, float] = {}  # host -> unix seconds

    def take(self, frame: Frame, at: Times) -> set[str]:
        """Hosts that were booted since they were seen last."""
        restarted = set()
        for device, boot_s in zip(
            frame.devices, frame.gauge("boot_time_seconds").tolist(), strict=True
        ):
            if boot_s == boot_s:  # noqa: PLR0124 - NaN: not read
                known = self._booted.get(device.host)
                if (
                    known is not None
                    and boot_s > known + 1
                    and instant_of(at, device).time_ns / 1e9 - boot_s < 2 * REBOOT_S
                ):
                    restarted.add(device.host)
                self._booted[device.host] = boot_s
        return restarted

    def recent(self, hosts: set[str], at: Instant) -> bool:
        """Whether one of these was booted within the last minutes."""
        return any(at.time_ns / 1e9 - self._booted.get(host, -np.inf) <= REBOOT_S for host in hosts)

    def state(self) -> State:
        """When each host was booted."""
        return {"booted": text_array(self._booted)}

    def prepare(self, state: State) -> Commit:
        """ValueError, TypeError or AttributeError where it is not that."""
        booted = {
            str(host): float(at) for host, at in dict(from_text_array(state["booted"])).items()
        }

        def commit() -> None:
            self._booted = booted

        return commit
