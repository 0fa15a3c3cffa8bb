"""What the kernel reports of a node: crashes, lock-ups, broken memory, storage that is gone,
devices that it gave up, and processes that it killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from detectors.host.rules import CRASHES, EVERY, RULES, UNKNOWN, Rule
from detectors.host.things import Thing, Things
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import RANK, FindingTracker, Verdict
from detectors.kit.jobs import JobTracker
from detectors.kit.page import Default, Page, Shown
from detectors.kit.stateful import Stateful
from pipeline.catalog import EVENTS
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Finding, Severity
from pipeline.frame import Device
from pipeline.observation import Event, Observation

# What happened so long before the agent started may be over; the boot before is looked at once.
OLD_S = 3600.0
CRASHED = "host/crashed"
MAX_WORD = 64  # characters of a name that a log line gives

PAGE = Page(
    formula="events of the kernel log by table: kind, severity, number in a window, no recovery",
    sources=("Linux, the sources named in collector/sources/kmsg/classes",),
    shows=(Shown("node", "memory_available_kibibytes"),),
    next_step="Read the kernel log around the time of the event: `dmesg -T`.",
    clears=(
        "With the event that reports the recovery, with the next boot of the node, or after the "
        "time without a further event that the table gives."
    ),
    unscored="its scenarios are tests of each row (tests/detectors/host).",
    limits=tuple(
        Default(
            f"{rule.fault}, {rule.kind}",
            f"{rule.least} in {rule.within_s / 60:g} min" if rule.least > 1 else "1",
            f"{rule.severity}: {rule.words}",
        )
        for rule in RULES
    ),
)


class Host(Stateful):
    """Judges the events of the kernel log by the table in detectors/host/rules.py.

    Storage that is gone, and a process that was killed for want of memory, are graver where a job
    runs on the node. What a boot ended with is reported once after the next one.

    >>> Host().name
    'host'
    """

    name = "host"
    version = 2

    def __init__(self) -> None:
        self._elapsed, self._standing = Elapsed(), FindingTracker(self.name)
        self._things, self._jobs = Things(), JobTracker()

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What the kernel reported, and what is over."""
        at = self._elapsed.at(observation)
        self._jobs.take(observation.events)
        findings = [*self._booted(observation.host, observation.boot_id, at)]
        for frame in observation.frames:
            findings += self._standing.swapped(frame, at)
        for event in observation.events:
            findings += self._event(event, at)
        findings += self._later(at)
        findings += self._standing.due(at)
        return findings

    def _event(self, event: Event, at: Instant) -> Iterator[Finding]:
        yield from self._recovered(event, at)
        if (at.time_ns - event.time_ns) > OLD_S * SECOND_NS:
            return
        if event.attributes.get("previous_boot"):
            yield from self._crashed(event, at)
            return
        if event.kind not in EVENTS:
            event = replace(
                event,
                device=Device(event.device.host, "node", event.device.host),
                attributes={**event.attributes, UNKNOWN.thing: event.kind},
            )
            yield from self._holds(self._counted(event, EVERY.index(UNKNOWN), at), at)
            return
        done: set[str] = set()
        for number, rule in enumerate(RULES):
            if rule.kind == event.kind and rule.fault not in done and _fits(rule, event):
                thing = self._counted(event, number, at)
                if thing.within(rule.within_s, at.mono_ns) >= rule.least:
                    done.add(rule.fault)
                    thing.words = _words(rule, event)
                    if not rule.confirm_s:
                        yield from self._holds(thing, at)

    def _counted(self, event: Event, number: int, at: Instant) -> Thing:
        rule = EVERY[number]
        facts = event.attributes
        name = str(facts.get(rule.thing, ""))[:MAX_WORD]
        errors = max(1, int(facts.get(rule.counted, 1) or 1)) if rule.counted else 1
        repeated = max(1, int(facts.get("count", 1) or 1))
        thing = Thing(
            event.device, rule.fault, name, at.mono_ns, at.mono_ns, event.time_ns, number,
            _words(rule, event), str(facts.get("text", "")),
        )  # fmt: skip
        return self._things.add(thing, errors * repeated)

    def _holds(self, thing: Thing, at: Instant) -> Iterator[Finding]:
        rule, device = EVERY[thing.rule], thing.device
        job = self._jobs.of(device.host, device.id) or self._jobs.on(device.host)
        severity: Severity = rule.severity
        if rule.on_node and device.kind == "node":
            severity = rule.on_node
        if rule.with_job and self._jobs.busy(device.host):
            severity = max(rule.with_job, rule.severity, key=RANK.__getitem__)
        where = f"Node {device.host}" if device.kind == "node" else f"On {device.host}"
        under = f" Job {job} runs there." if job else ""
        verdict = Verdict(
            rule.fault, severity, rule.action, f"{where}: {thing.words}.{under}", (thing.text,)
        )
        yield from self._standing.holds(device, verdict, at, thing.onset_ns)

    def _recovered(self, event: Event, at: Instant) -> Iterator[Finding]:
        for thing in self._things.all():
            rule = EVERY[thing.rule]
            if (
                event.kind in rule.clears
                and thing.device.host == event.device.host
                and (thing.device == event.device or rule.thing)
                and (not rule.thing or _same(rule, thing, event))
            ):
                yield from self._over(thing, at, "the kernel reports that it has recovered")

    def _later(self, at: Instant) -> Iterator[Finding]:
        """What has not recovered in time, and what is over."""
        for thing in self._things.all():
            rule = EVERY[thing.rule]
            quiet_s = rule.quiet_s or (rule.within_s if rule.least > 1 else 0.0)
            if quiet_s and at.mono_ns - thing.last_ns > quiet_s * SECOND_NS:
                yield from self._over(thing, at, "no further report for long")
            elif rule.confirm_s and at.mono_ns - thing.first_ns >= rule.confirm_s * SECOND_NS:
                yield from self._holds(thing, at)

    def _over(self, thing: Thing, at: Instant, why: str) -> Iterator[Finding]:
        self._things.forget(thing)
        if not self._things.left(thing.device, thing.fault):
            yield from self._standing.ends(thing.device, thing.fault, at, why)

    def _crashed(self, event: Event, at: Instant) -> Iterator[Finding]:
        """The boot before ended with this."""
        severity = str(event.attributes.get("severity", "fatal"))
        if event.kind not in CRASHES or severity != "fatal":
            return
        node = Device(event.device.host, "node", event.device.host)
        words = f"Node {node.id} was restarted after a crash: {CRASHES[event.kind]}."
        text = str(event.attributes.get("text", ""))
        verdict = Verdict(CRASHED, "ticket", "RUN_FIELDDIAG", words, (text,))
        yield from self._standing.holds(node, verdict, at, event.time_ns)

    def _booted(self, host: str, boot_id: str, at: Instant) -> Iterator[Finding]:
        if self._things.boots.setdefault(host, boot_id) == boot_id:
            return
        self._things.boots[host] = boot_id
        for thing in self._things.all():
            if thing.device.host == host:
                self._things.forget(thing)
        for finding in self._standing.all():
            if finding.device.host == host:
                yield from self._standing.ends(
                    finding.device, finding.fault, at, "its node was rebooted"
                )


def _fits(rule: Rule, event: Event) -> bool:
    return all(str(event.attributes.get(name)) in words for name, words in rule.where.items())


def _words(rule: Rule, event: Event) -> str:
    """The words of a rule with the attributes of an event; what it does not give is "unknown"."""
    facts = {name: str(value)[:MAX_WORD] for name, value in event.attributes.items()}
    return rule.words.format_map(_Facts(facts))


def _same(rule: Rule, thing: Thing, event: Event) -> bool:
    """Whether what recovered is this thing; one that the kernel does not name is any of them."""
    named = str(event.attributes.get(rule.thing, ""))[:MAX_WORD]
    return not named or thing.name in (named, "")


class _Facts(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "unknown"
