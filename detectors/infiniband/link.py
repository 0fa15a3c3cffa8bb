"""Ports that are down, gone, or linked at less than they could do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.infiniband import upstream
from detectors.infiniband.ports import (
    ABSENT,
    MIN_TRAFFIC,
    SWITCH_PORTS,
    WORD_BITS,
    Links,
    gigabits,
    is_active,
    kind_of,
    port_name,
)
from detectors.kit.block_clock import Seconds, StepClock
from detectors.kit.by_node import ByNode
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.groups import Groups, host_of, share_by_group
from detectors.kit.instants import Instants, Times, ago, instant_of
from detectors.kit.jobs import JobTracker, in_job
from detectors.kit.literature import IBTA
from detectors.kit.maintenance import Maintenance
from detectors.kit.page import Needs, Page, port_columns
from detectors.kit.readings import reading
from detectors.kit.stateful import Stateful
from detectors.kit.stats import grouped_median
from pipeline.clock import Instant
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

DOWN_S = 240.0  # time to check: the four minutes of gpud's check
# while a job runs on its node, which may fail without it: a retraining link is back by then, and
# with the slowest reading it is reported within a minute
JOB_S = 40.0
# what it is cabled to is not rebooting, its driver not updated: a server with eight GPUs
# boots within ten minutes
GONE_S = 600.0
# an adapter that is reset is back by then; with the ten seconds before, it is
# found within F28's minute
ABSENT_S = 40.0
SLOW_S = 30.0  # a link that retrains may show a lower rate for a moment
ACCEPT_NS = 7 * 86400 * 10**9  # a week at the lower rate: it has been decided to live with it
CLEAR_S = 60.0
MIN_PEERS = 4
# more than this share of a node's ports, and so many, went with their driver
RELOAD, MIN_PORTS = 0.5, 2
DOWN, GONE, SLOW, OFF = "ib/link_down", "ib/adapter_gone", "ib/slow_link", "ib/port_disabled"
INSTEAD = {DOWN: "off_s", OFF: "down_s"}  # what ends them when it lasts, beside health
DISABLED = 3  # PortPhysicalState, IBTA volume 1, 14.2.5.6
UNCONFIGURED = (2, 3)  # PortState init and armed: what is next is the subnet manager's to do


PAGE = Page(
    formula=(
        "state, width and rate against what the port and most of its role do; down for 240 s, or "
        "40 s under a job (a page after 600), gone for 40 s (most of a node: 600), slow for 30 s; "
        "8 ports and half of a leaf switch down for 900 s, or for 60 s while no port of 80 % of "
        "their nodes with jobs carries 1 % of its rate"
    ),
    sources=(f"{IBTA}: PortInfo", "gpud, InfiniBand check, github.com/leptonai/gpud"),
    shows=port_columns("state", "rate_bits_per_second", "width_lanes"),
    needs=Needs(30.0, (("ib_port.state",),)),
    next_step=(
        "Check the cable at both ends; where a leaf switch is named, the switch; of a port that is "
        "init or armed, the subnet manager."
    ),
    clears=(
        "After a minute at full width and rate, or in which the port is not expected to be up; a "
        "port that is down also when it turns out to be disabled, and the other way round. A "
        "switch or rail: when fewer than eight of its ports are not back for a minute. A page "
        "about a slow link ends after a week at the rate, which is normal then."
    ),
    scored_as=("ib",),
)


class IbLink(Stateful):
    """Judges state, width and rate of ports that should be active: declared so, or, where nothing
    is declared, active once.

    Down for four minutes, or for forty seconds while a job runs on its node: a ticket, for what is
    at the other end may reboot; for ten, or its adapter gone for forty seconds: a page. Most
    adapters of a node gone together are a driver that is reloaded or updated, and have ten minutes.
    Slower than the port itself was, and than most ports of its role are: a page; slower than its
    role ever since it was first seen: a ticket where the role is known (a ``rail``), else recorded,
    for it may be meant so. Where most ports of a leaf switch are down together, the switch is the
    root cause: after the time of a reboot, or after a minute in which the jobs behind it sent
    nothing. Where no leaf switch is known it is the rail. An InfiniBand port that was disabled is
    info. What is accepted: what a link has done for a week, after which it is slower than its role
    at most.

    >>> IbLink().name
    'ib_link'
    """

    name = "ib_link"
    version = 6

    def __init__(self) -> None:
        self._columns = Columns(
            state=np.nan,  # the last one read
            active=False,  # was active once
            best_rate=0.0,
            best_width=0.0,
            rate=np.nan,
            width=np.nan,
            down_s=0.0,
            off_s=0.0,
            absent_s=0.0,
            together=False,  # absent, and went with most ports of its node
            slow_s=0.0,
            slow_ns=0,  # since when
            fine_s=0.0,
            quiet_s=0.0,  # carried no traffic
        )
        self._clock, self._elapsed, self._standing = (
            StepClock(),
            Elapsed(),
            FindingTracker(self.name),
        )
        self._maintenance, self._jobs = ByNode(Maintenance), ByNode(JobTracker)
        self._links = Links()
        self._roles, self._hosts = Groups(_role), Groups(host_of)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Ports that have been bad for long enough, and those that are well again."""
        for maintenance, events in self._maintenance.each(observation):
            maintenance.take(events)
        for jobs, events in self._jobs.each(observation):
            jobs.take(events)
        findings: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "ib_port":
                passed = self._clock.passed(frame, observation.boot_id)
                if passed is not None:
                    findings += self._frame(frame, passed, self._elapsed.times(observation))
        return findings

    def _frame(self, frame: Frame, passed: Seconds, at: Times) -> Iterator[Finding]:
        columns = self._columns
        columns.show(frame)
        seconds, now_ns = columns.each(passed), columns.each(at.mono_ns)
        yield from self._standing.swapped(frame, at)
        self._links.look(columns.devices)
        booted = np.full(len(columns), seconds == 0)  # the first frame of a boot: links retrain
        if (unread := columns.unread()) is not None:
            booted &= ~unread
        if any_true(booted):
            columns.reset(booted, "down_s", "off_s", "absent_s", "together")
        state, declared = columns.wide(frame.gauge("state")), columns.wide(frame.gauge("expected"))
        columns["state"] = np.where(np.isfinite(state), state, columns["state"])
        expected = np.where(np.isfinite(declared), declared == 1, columns["active"])
        active = is_active(state)
        # A switch's port is down when its node is off: it is judged while
        # the node's own end is read.
        seen = np.isfinite(state)
        seen &= ~self._links.of_switch | self._links.across(seen, unseen=False)
        rate, width = (
            columns.wide(reading(frame, name)) for name in ("rate_bits_per_second", "width_lanes")
        )
        for name, value in (("rate", rate), ("width", width)):
            columns[name] = np.where(active & np.isfinite(value), value, columns[name])
        usual, slow = self._slow(active, rate, width)
        down = seen & expected & ~active & (state != ABSENT)
        off = down & self._disabled(columns.wide(frame.gauge("physical_state")))
        absent = seen & expected & (state == ABSENT)
        for name, bad in (
            ("down_s", down & ~off),
            ("off_s", off),
            ("absent_s", absent),
            ("slow_s", slow),
        ):
            columns[name] = np.where(
                seen, np.where(bad, columns[name] + seconds, 0.0), columns[name]
            )
        columns["slow_ns"] = np.where(columns["slow_s"] <= seconds, now_ns, columns["slow_ns"])
        reload = self._most_of_node(absent, seen & expected) if any_true(absent) else absent
        columns["together"] = np.where(
            seen, absent & (columns["together"] | reload), columns["together"]
        )
        fine = active & ~slow
        well = fine | ~(expected | active)
        columns["fine_s"] = np.where(
            seen, np.where(well, columns["fine_s"] + seconds, 0.0), columns["fine_s"]
        )
        self._quiet(frame, seconds)
        yield from self._report(usual, np.isfinite(state), at)
        yield from self._end(at)
        self._learn(active, fine)

    def _quiet(self, frame: Frame, seconds: NDArray[np.float64]) -> None:
        """For how long each port has carried next to nothing."""
        if frame.increments is None:
            return
        columns = self._columns
        sent = frame.increments.rate(frame.schema.counter_row["transmit_words"]) * WORD_BITS
        bits = columns.wide(sent)
        quiet = bits < MIN_TRAFFIC * columns["best_rate"]
        columns["quiet_s"] = np.where(
            np.isfinite(bits),
            np.where(quiet, columns["quiet_s"] + seconds, 0.0),
            columns["quiet_s"],
        )

    def _disabled(self, physical_state: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Ports that were switched off.

        Of Ethernet ports that is not known: drivers call each that has no carrier disabled.
        """
        off: NDArray[np.bool_] = physical_state == DISABLED
        for row in rows_where(off):
            off[row] = self._columns.devices[row].attributes.get("link_layer") == "InfiniBand"
        return off

    def _most_of_node(
        self, absent: NDArray[np.bool_], asked: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """On whose node most ports are absent: a driver that is reloaded takes them all, and
        brings them back one by one.
        """
        host = self._hosts.of(self._columns.devices)
        nodes = share_by_group(absent, asked, host, len(self._hosts.names))
        most: NDArray[np.bool_] = (nodes.share > RELOAD) & (nodes.votes >= MIN_PORTS)
        return most[host]

    def _slow(
        self, active: NDArray[np.bool_], rate: NDArray[np.float64], width: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """What rate each port should have, and which have less, or fewer lanes."""
        columns, devices = self._columns, self._columns.devices
        role = self._roles.of(devices)
        usual = {"rate": columns["best_rate"].copy(), "width": columns["best_width"].copy()}
        for name, now in (("rate", rate), ("width", width)):
            median, count = grouped_median(
                np.where(active, now, np.nan), role, len(self._roles.names)
            )
            known = (
                (role >= 0) & (count[role] > MIN_PEERS)
                if len(count)
                else np.zeros(len(role), np.bool_)
            )
            usual[name] = np.where(known, median[role], usual[name]) if len(count) else usual[name]
        # fewer lanes that are faster each carry as much: 2X HDR or NDR in place of 4X EDR or HDR
        fewer = (width < usual["width"]) & ~(rate >= usual["rate"])
        return usual["rate"], active & ((rate < usual["rate"]) | fewer)

    def _report(
        self, usual: NDArray[np.float64], read: NDArray[np.bool_], at: Times
    ) -> Iterator[Finding]:
        columns = self._columns
        down, off, slow = (
            columns["down_s"] >= self._patience_s(),
            columns["off_s"] >= DOWN_S,
            columns["slow_s"] >= SLOW_S,
        )
        gone = columns["absent_s"] >= np.where(columns["together"], GONE_S, ABSENT_S)
        bad = (down | off | gone | slow) & read
        if not any_true(bad):
            return
        bad &= self._links.reports | ~self._links.across(
            bad, unseen=False
        )  # one end reports a link that is bad at both
        hosts = self._hosts.of(columns.devices)
        whole = upstream.whole(self._links, columns["down_s"], hosts)
        yield from self._upstream(whole & read & self._links.reports, at)
        bad &= ~whole
        for row in rows_where(bad):
            port = columns.devices[row]
            if self._maintenance.of(port.host).covers(port):
                continue
            if gone[row]:
                yield from self._standing.holds(port, _gone(port, columns["absent_s"][row]), at)
            elif down[row]:
                since_ns = ago(at, port, float(columns["down_s"][row]))
                used = self._used(port)
                # Under a job it is reported each time: what stopped the job is no flicker.
                stops = "job" in used.attributes and self._standing.get(used, DOWN) is None
                configured = columns["state"][row] not in UNCONFIGURED
                verdict = _down(used, columns["down_s"][row], configured=configured)
                yield from self._standing.holds(used, verdict, at, since_ns, recurred=stops)
            elif off[row]:
                yield from self._standing.holds(port, _off(port, columns["off_s"][row]), at)
            else:
                yield from self._standing.holds(port, self._too_slow(row, float(usual[row])), at)

    def _upstream(self, whole: NDArray[np.bool_], at: Times) -> Iterator[Finding]:
        """The switches and rails whose ports are down together."""
        if not any_true(whole):
            return
        devices, quiet = self._columns.devices, self._quiet_hosts()
        for one in upstream.lost(self._links, whole, self._columns["down_s"]):
            ports = [devices[row] for row in one.rows]
            ports = [port for port in ports if not self._maintenance.of(port.host).covers(port)]
            busy = {port.host for port in ports if self._jobs.of(port.host).busy(port.host)}
            jobs = upstream.Stopped(len(busy), len(busy & quiet))
            verdict = upstream.verdict(one, len(ports), jobs)
            if ports and verdict is not None:
                first, since_ns = ports[0], ago(at, ports[0], one.down_s)
                yield from self._standing.of(first.host).holds(
                    one.place, verdict, instant_of(at, first), since_ns
                )

    def _quiet_hosts(self) -> set[str]:
        """Nodes of which no port that is up has carried traffic for a minute."""
        columns = self._columns
        moves = (columns["down_s"] == 0) & (columns["quiet_s"] < upstream.STOPPED_S)
        moving = {columns.devices[row].host for row in rows_where(moves)}
        return {port.host for port in columns.devices} - moving

    def _patience_s(self) -> NDArray[np.float64]:
        """How long each port may be down before it is reported, (row,)."""
        columns = self._columns
        patience = np.full(len(columns), DOWN_S)
        for row in rows_where((columns["down_s"] >= JOB_S) & (columns["down_s"] < DOWN_S)):
            host = columns.devices[row].host
            if self._jobs.of(host).widest(host):
                patience[row] = JOB_S
        return patience

    def _used(self, port: Device) -> Device:
        """The port as one of the job that used it when it went down, if one did."""
        known = self._standing.get(port, DOWN)
        before = known.device.attributes.get("job", "") if known else ""
        job = before or self._jobs.of(port.host).widest(port.host)
        return in_job(port, job) if job else port

    def _too_slow(self, row: int, usual: float) -> Verdict:
        columns = self._columns
        port, rate, best = (
            columns.devices[row],
            float(columns["rate"][row]),
            float(columns["best_rate"][row]),
        )
        fewer = columns["width"][row] < columns["best_width"][row]
        lost = rate < best or (fewer and not rate >= best)
        was = f"it was linked at {gigabits(best)} before" if lost else "it was no faster before"
        return Verdict(
            SLOW,
            "page" if lost else "ticket" if port.attributes.get("rail") else "record",
            "CONTACT_SUPPORT",
            (
                f"{port_name(port)} is linked at {gigabits(rate)} instead of "
                f"{gigabits(max(usual, best))}: check cable and transceivers."
            ),
            (
                (
                    f"{columns['width'][row]:.0f} lanes, {gigabits(rate)} for "
                    f"{columns['slow_s'][row]:.0f} s"
                ),
                was,
            ),
            rate,
            max(usual, best),
            "bits per second",
        )

    def _end(self, at: Times) -> Iterator[Finding]:
        for host, standing in self._standing.each():
            for finding in standing.all():
                then = at.only(host) if isinstance(at, Instants) else at
                row = self._columns.row(finding.device)
                if row is None:
                    if not self._is_lost(finding.device, host):
                        yield from standing.ends(finding.device, finding.fault, then)
                else:
                    yield from self._end_of_port(finding, row, standing, then)

    def _is_lost(self, place: Device, host: str) -> bool:
        """Whether as many ports of a switch or rail as make it out are not back for a minute."""
        columns, links = self._columns, self._links
        back = columns["fine_s"] >= CLEAR_S
        away = links.reports & ~back & columns["active"]
        parts = sum(
            links.leaves[links.leaf[row]] == place
            and (not host or columns.devices[row].host == host)
            for row in rows_where(away & (links.leaf >= 0))
        )
        return bool(parts >= SWITCH_PORTS)

    def _end_of_port(
        self, finding: Finding, row: int, standing: FindingTracker, at: Instant
    ) -> Iterator[Finding]:
        columns = self._columns
        other = INSTEAD.get(finding.fault, "fine_s")
        if max(columns["fine_s"][row], columns[other][row]) >= CLEAR_S:
            yield from standing.ends(finding.device, finding.fault, at)
        elif (
            finding.fault == SLOW
            and finding.severity == "page"
            and at.mono_ns - columns["slow_ns"][row] >= ACCEPT_NS
        ):
            for name in ("rate", "width"):
                columns[f"best_{name}"][row] = columns[name][row]
            yield from standing.ends(
                finding.device, SLOW, at, "accepted as its new normal after a week"
            )

    def _learn(self, active: NDArray[np.bool_], fine: NDArray[np.bool_]) -> None:
        """Ports are expected to do again what they did.

        When most ports of a role have changed, so has what is best.
        """
        columns = self._columns
        columns["active"] |= active
        for name in ("rate", "width"):
            columns[f"best_{name}"] = np.where(
                fine & np.isfinite(columns[name]), columns[name], columns[f"best_{name}"]
            )


def _role(port: Device) -> str:
    """Ports that should be linked alike; empty where nothing is known."""
    return kind_of(port) if port.attributes.get("hca_type") else ""


def _gone(port: Device, seconds: float) -> Verdict:
    return Verdict(
        GONE,
        "page",
        "RESTART_BM",
        (
            f"The adapter of {port_name(port)} is missing: it fell off the PCI bus or "
            "its driver gave it up."
        ),
        (
            (
                f"absent for {seconds:.0f} s; PCI address "
                f"{port.attributes.get('pci_bus_id', 'unknown')}"
            ),
        ),
    )


def _down(port: Device, seconds: float, *, configured: bool) -> Verdict:
    job = port.attributes.get("job", "")
    under = f" under job {job}" if job else ""
    summary = f"{port_name(port)} is down{under}: check cable, transceivers and the switch port."
    if not configured:
        summary = (
            f"{port_name(port)} is not active{under} although its link is up: check that the "
            "subnet manager runs and does not isolate the port."
        )
    return Verdict(
        DOWN,
        "page" if seconds >= GONE_S else "ticket",
        "CONTACT_SUPPORT",
        summary,
        (f"not active for {seconds:.0f} s while its node is up",),
    )


def _off(port: Device, seconds: float) -> Verdict:
    return Verdict(
        OFF,
        "record",
        "NONE",
        (f"{port_name(port)} is disabled: switched off on purpose, or not switched on again."),
        (f"physical state disabled for {seconds:.0f} s while its node is up",),
    )
