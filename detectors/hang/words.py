"""What a finding of a stalled job says: device, fact, evidence."""

from __future__ import annotations

from collections.abc import Sequence

from detectors.hang.activity import BUSY, FREE, IDLE, LOST, MOVING, SPINS
from detectors.hang.suspects import Blame, Member
from detectors.kit.findings import Verdict
from pipeline.frame import Device

NAMES = {
    BUSY: "work",
    MOVING: "move data over PCIe",
    SPINS: "wait in a kernel",
    IDLE: "are idle",
    FREE: "have no process",
    LOST: "are lost",
}

MAX_NAMED = 3  # culprits in a sentence


def stalled(
    found: Blame, job: str, who: Sequence[Member], silent_s: float, limits_s: tuple[float, float]
) -> Verdict:
    """A job that pauses for ``silent_s`` seconds; ``limits_s``: after which a pause of it is
    reported and after which it pages.
    """
    hosts = len({member.gpu.host for member in who})
    counts = {words: sum(m.does == code for m in who) for code, words in NAMES.items()}
    now = ", ".join(f"{n} {words}" for words, n in counts.items() if n)
    last = min(who, key=lambda m: m.worked_s_ago)
    return Verdict(
        found.fault,
        found.severity,
        found.action,
        _summary(found, job, who),
        (
            f"of {len(who)} GPUs of job {job} seen on {hosts} node{'s' * (hosts > 1)} {now}",
            (
                f"this has lasted {silent_s:.0f} s; reported after {limits_s[0]:.0f} s, a page "
                f"after {limits_s[1]:.0f} s, by what is known of this job's pauses"
            ),
            (
                f"the last to work was GPU {last.gpu.attributes.get('index', last.gpu.id)} of "
                f"{last.gpu.host}, {last.worked_s_ago:.0f} s ago"
            ),
            f"confidence {found.confidence:.1f}, from telemetry alone",
        ),
        silent_s,
        0.0,
        "seconds",
    )


def crawls(found: Blame, job: str, who: Sequence[Member], speed: float, since_s: float) -> Verdict:
    """A job at this share of its usual speed, for so many seconds."""
    return Verdict(
        found.fault,
        found.severity,
        found.action,
        _summary(found, job, who),
        (
            f"{speed:.0%} of its usual speed for {since_s:.0f} s, by activity of its GPUs",
            f"confidence {found.confidence:.1f}, from telemetry alone",
        ),
        speed,
        1.0,
        "ratio",
    )


def _summary(found: Blame, job: str, who: Sequence[Member]) -> str:
    first = found.culprits[0]
    if found.fault == "hang/crawl":
        return f"Job {job} crawls. {found.words}."
    if first.kind == "job":
        return f"Job {job} is stalled. {found.words}."
    if found.fault in ("hang/waits", "hang/host_stall", "hang/undecided"):
        return f"Job {job} is stalled on node {first.host}. {found.words}."
    waiting = sum(member.does == SPINS and member.gpu not in found.culprits for member in who)
    named = ", ".join(_named(device) for device in found.culprits[:MAX_NAMED])
    more = f" and {n} more" if (n := len(found.culprits) - MAX_NAMED) > 0 else ""
    return (
        f"Job {job} is stalled: {waiting} of its {len(who)} GPUs wait for {named}{more}, which "
        f"{found.words}."
    )


def _named(device: Device) -> str:
    if device.kind == "node":
        return f"node {device.id}"
    return f"GPU {device.attributes.get('index', device.id)} of {device.host}"
