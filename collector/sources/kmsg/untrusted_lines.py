"""Lines of a syslog daemon's file: ``logger -t kernel`` writes them too, and a record that holds a
newline is split into lines. So what they say of hardware is a claim, until another source says it.
"""

from __future__ import annotations

from pipeline.observation import Event, Value

SYSLOG = "syslog"  # the mode, and the origin of its events
KIND = "kernel_log_untrusted"
# Kinds that accuse no hardware: believed as the file has them.
SOFTWARE = frozenset(
    {
        "oom_kill",
        "hung_task",
        "kernel_log_lost",
        "kernel_log_suppressed",
        "network_filesystem_error",
        "network_filesystem_recovered",
        "resource_exhausted",
        "segfault",
    }
)
_KEPT = ("origin", "stream", "seq", "last_seq", "last_time_ns", "count", "pci", "text")
_MARKS = ("before_start",)


def doubted(event: Event) -> Event:
    """An event of such a file: about hardware it is one of kind ``kernel_log_untrusted``, which no
    detector judges; NVML and the counters report the same fault by themselves.
    """
    if event.kind in SOFTWARE or event.kind == KIND:
        return event
    facts: dict[str, Value] = {"claims": event.kind}
    if isinstance(code := event.attributes.get("code"), int):
        facts["code"] = code
    kept = (name for name in (*_KEPT, *_MARKS) if name in event.attributes)
    facts |= {name: event.attributes[name] for name in kept}
    return Event(event.time_ns, event.mono_ns, event.device, KIND, facts)
