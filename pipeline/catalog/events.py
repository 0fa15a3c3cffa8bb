"""Events: everything that can happen, with the attributes it carries."""

from __future__ import annotations

from pipeline.catalog.fields import EventKind

EVENTS = (
    EventKind(
        "xid",
        "The NVIDIA driver reported an XID error.",
        (
            ("code", "XID number"),
            ("origin", "where it was seen: kmsg or nvml"),
            ("text", "the line as the kernel printed it"),
        ),
    ),
    EventKind("clock_step", "The wall clock was stepped.", (("seconds", "size of the step, positive is forward"),)),
)
