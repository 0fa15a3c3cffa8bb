"""What the kernel reports of a node: crashes, lock-ups, broken memory, storage that is gone,
devices that it gave up, and processes that it killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from detectors.host.crashes import CRASH_OLD_S, CRASHED, PANIC, Crashes, crashed, is_crash
from detectors.host.rules import EVERY, LINK_REQUEST, REPORTER, RULES, UNKNOWN, Rule
from detectors.host.things import Thing, Things
from detectors.kit.boots import Boots
from detectors.kit.columns import rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import AGAIN_NS, RANK, FindingTracker, Verdict
from detectors.kit.jobs import JobTracker
from detectors.kit.page import Default, Needs, Page, Shown
from detectors.kit.resets import ResetTracker
from detectors.kit.resting import FOREVER_NS
from detectors.kit.stateful import Stateful
from pipeline.catalog import EVENTS
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Finding, Severity
from pipeline.frame import Device, Frame
from pipeline.job_names import base
from pipeline.observation import Event, Observation

# What happened so long before the agent started may be over.
OLD_S = 3600.0
MAX_WORD = 64  # characters of a name that a log line gives
MAX_NAMED = 4  # things of one fault, the newest

PAGE = Page(
    formula="events of the kernel log by table: kind, severity, number in a window, no recovery",
    sources=("Linux, the sources named in collector/sources/kmsg/classes",),
    shows=(Shown("node", "memory_available_kibibytes"),),
    needs=Needs(60.0, sources=("kmsg",)),
    next_step="Read the kernel log around the time of the event: `dmesg -T`.",
    clears=(
        "With the event that reports the recovery, with the next boot of the node, or after the "
        "time without a further event that the table gives; what the driver reports of a GPU also "
        "with a reset or driver load. A crash ends after a week."
    ),
    scored_as=("host", "host-hardware", "storage", "nvswitch", "gpu-driver", "pcie", "adapter"),
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
    runs on the node. What a boot ended with is reported once after the next one; a second crash
    within a day is a page.

    >>> Host().name
    'host'
    """

    name = "host"
    version = 7

    def __init__(self) -> None:
        self._elapsed, self._standing = Elapsed(), FindingTracker(self.name)
        self._things, self._jobs, self._boots = Things(), JobTracker(), Boots()
        self._crashes, self._lives = Crashes(), ResetTracker()

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What the kernel reported, and what is over."""
        at = self._elapsed.at(observation)
        self._jobs.take(observation.events)
        findings: list[Finding] = []
        for host, since_ns in self._boots.new(observation).items():
            findings += self._booted(host, since_ns, at)
        for frame in observation.frames:
            findings += self._standing.swapped(frame, at)
            findings += self._reset(frame, observation.boot_id, at)
        for event in observation.events:
            findings += self._event(event, at)
        findings += self._later(at)
        findings += self._standing.due(at)
        return findings

    def rests_ns(self) -> int:
        """As long as the kernel has reported nothing that is remembered."""
        return FOREVER_NS if self._things.is_empty() and self._standing.is_empty() else 0

    def stirs(self, _frame: Frame) -> None:
        """It reads events."""

    def _event(self, event: Event, at: Instant) -> Iterator[Finding]:
        yield from self._recovered(event, at)
        age_ns = at.time_ns - event.time_ns
        if event.attributes.get("previous_boot"):
            if age_ns <= CRASH_OLD_S * SECOND_NS:
                yield from self._crashed(event, at)
            return
        if age_ns > OLD_S * SECOND_NS:
            return
        if event.kind == PANIC:
            self._crashes.live(event.device.host, event.time_ns)
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
            if rule.kind == event.kind and rule.fault not in done and self._fits(rule, event):
                thing = self._counted(event, number, at)
                if thing.within(rule.within_s, at.mono_ns) >= rule.least:
                    done.add(rule.fault)
                    thing.words = _words(rule, event)
                    if not rule.confirm_s:
                        yield from self._holds(thing, at)

    def _fits(self, rule: Rule, event: Event) -> bool:
        facts = event.attributes
        if rule.kind == "oom_kill" and facts.get("cgroup") and not self._has_gpus(event):
            return False  # the limit of a group that uses no GPU: its own affair
        if facts.get("code") == LINK_REQUEST and facts.get("severity") == "nonfatal":
            return False
        return all(str(facts.get(name)) in words for name, words in rule.where.items())

    def _has_gpus(self, event: Event) -> bool:
        """Whether the job that an event names has GPUs of the node."""
        job, host = str(event.attributes.get("job", "")), event.device.host
        return bool(job) and job in {base(name) for name in self._jobs.of_host(host)}

    def _counted(self, event: Event, number: int, at: Instant) -> Thing:
        rule = EVERY[number]
        facts = event.attributes
        name = _name(rule, event)
        errors = max(1, int(facts.get(rule.counted, 1) or 1)) if rule.counted else 1
        repeated = max(1, int(facts.get("count", 1) or 1))
        if rule.by_reset and not self._of_a_gpu():
            self._lives = ResetTracker()  # a reset before this ended nothing of it
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
        under = f" Job {job} runs there." if job and not rule.of_a_job else ""
        # Another server, or the same one once more, is no flicker of what was reported before.
        news, thing.reported = not thing.reported, True
        all_of_it = dict.fromkeys(each.words for each in self._things.reported(device, thing.fault))
        words = "; ".join(list(all_of_it)[-MAX_NAMED:])
        verdict = Verdict(
            rule.fault, severity, rule.action, f"{where}: {words}.{under}", (thing.text,)
        )
        again_ns = self._again_ns(thing, rule, at, news=news)
        yield from self._standing.holds(
            device, verdict, at, thing.onset_ns, recurred=news, again_ns=again_ns
        )

    def _again_ns(self, thing: Thing, rule: Rule, at: Instant, *, news: bool) -> int:
        """When what is open happened again, unix ns: another thing failed since, or the same one
        after it was quiet. Reports that are counted, or repeated until a recovery, are one event.
        """
        known = self._standing.get(thing.device, thing.fault)
        if known is None:
            return 0
        if news:
            last_ns = max(known.onset_ns, known.again_ns)
            return thing.onset_ns if thing.onset_ns - last_ns >= AGAIN_NS else 0
        once = rule.least == 1 and not rule.confirm_s
        return at.time_ns if once and thing.quiet_ns >= AGAIN_NS else 0

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
        for finding in self._standing.all():
            age_ns = at.time_ns - finding.time_ns
            if finding.fault == CRASHED and age_ns > CRASH_OLD_S * SECOND_NS:
                yield from self._standing.ends(
                    finding.device, CRASHED, at, "the node has not crashed again for a week"
                )

    def _over(self, thing: Thing, at: Instant, why: str) -> Iterator[Finding]:
        self._things.forget(thing)
        if not self._things.left(thing.device, thing.fault):
            yield from self._standing.ends(thing.device, thing.fault, at, why)

    def _crashed(self, event: Event, at: Instant) -> Iterator[Finding]:
        """The boot before ended with this."""
        if not is_crash(event):
            return
        node = Device(event.device.host, "node", event.device.host)
        if times := self._crashes.found(node.host, event.time_ns):
            verdict = crashed(event, node.id, times)
            at_ns = event.time_ns
            yield from self._standing.holds(node, verdict, at, at_ns, again_ns=at_ns)

    def _of_a_gpu(self) -> bool:
        """Whether anything is known that a reset would end."""
        return any(EVERY[thing.rule].by_reset for thing in self._things.all())

    def _reset(self, frame: Frame, boot_id: str, at: Instant) -> Iterator[Finding]:
        """A reset GPU, or one whose driver was loaded again, is not as the driver reported before;
        most of its lines name no GPU, and come again if it was another one.
        """
        if frame.kind != "gpu" or not self._of_a_gpu():
            return
        for row in rows_where(self._lives.new(frame, boot_id)):
            gpu = frame.devices[row]
            for thing in self._things.all():
                whose = thing.device in (gpu, Device(gpu.host, "node", gpu.host))
                if whose and EVERY[thing.rule].by_reset:
                    yield from self._over(thing, at, "a GPU was reset or its driver loaded again")

    def _booted(self, host: str, since_ns: int, at: Instant) -> Iterator[Finding]:
        """What was reported before the boot is over; what comes after it may be there already."""
        kept = set()
        for thing in self._things.all():
            if thing.device.host == host:
                if at.time_ns - (at.mono_ns - thing.last_ns) < since_ns:
                    self._things.forget(thing)
                else:
                    kept.add((thing.device, thing.fault))
        for finding in self._standing.all():
            key = finding.device, finding.fault
            if finding.device.host == host and key not in kept and finding.time_ns < since_ns:
                yield from self._standing.ends(*key, at, "its node was rebooted")


def _words(rule: Rule, event: Event) -> str:
    """The words of a rule with the attributes of an event; what it does not give is "unknown"."""
    facts = {name: str(value)[:MAX_WORD] for name, value in event.attributes.items()}
    return rule.words.format_map(_Facts(facts))


def _same(rule: Rule, thing: Thing, event: Event) -> bool:
    """Whether what recovered is this thing, or may be it: an error of the same file system that
    named no server. A recovery that names nothing may be of any other.
    """
    return bool(named := _named(rule, event)) and thing.name in (named, _family(rule, event))


def _name(rule: Rule, event: Event) -> str:
    """What the event names of what is broken, else its file system where servers are named."""
    return _named(rule, event) or _family(rule, event)


def _named(rule: Rule, event: Event) -> str:
    """A disk of an array is the array's, which recovers; a port that names nothing else is itself
    meant.
    """
    facts = event.attributes
    own = facts.get("pci", "") if rule.thing == REPORTER else ""
    named = facts.get(rule.thing, own)
    return str(facts.get("array", named) if rule.thing == "block_device" else named)[:MAX_WORD]


def _family(rule: Rule, event: Event) -> str:
    named = event.attributes.get("filesystem", "") if rule.thing == "server" else ""
    return str(named)[:MAX_WORD]


class _Facts(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "unknown"
