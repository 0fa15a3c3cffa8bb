"""When an incident ends, and why, in words."""

from __future__ import annotations

from detectors.faults import fault_class, fault_of
from detectors.incidents.book import WINDOW_NS, OpenIncident
from detectors.incidents.summary import name_of
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding

# A job that goes on is over its stall: its detector has waited until that was certain. What a
# device had may come back, and is the same incident within the window.
STALL = "hang"


def quiet_before_end(incident: OpenIncident) -> int:
    """How long nothing may be true before it ends, ns: a stall ends with its last finding."""
    reported = incident.reported
    if reported is None or fault_class(reported.fault) != STALL:
        return WINDOW_NS
    return 0 if all(fault_of(name).symptom for name in incident.names) else WINDOW_NS


def last_end(before: Finding, ended: Finding) -> str:
    """Which finding ended, and why where its detector says.

    >>> from pipeline.frame import Device
    >>> gpu = Device("n1", "gpu", "G", {"index": "3"})
    >>> was = Finding("hang", gpu, "hang/crawl", "onset", "page", 0, 0, "Slow.", evidence=("a",))
    >>> last_end(
    ...     was,
    ...     Finding(
    ...         "hang",
    ...         gpu,
    ...         "hang/crawl",
    ...         "cleared",
    ...         "page",
    ...         0,
    ...         9,
    ...         "Slow.",
    ...         evidence=("a", "the job is over"),
    ...     ),
    ... )
    'hang/crawl on GPU 3 of n1: the job is over'
    >>> last_end(was, was)
    'hang/crawl on GPU 3 of n1'
    """
    known = len(before.evidence)
    added = ended.evidence[known:] if ended.evidence[:known] == before.evidence else ()
    device = name_of(ended.device, ended.device)
    where = f"{device} of {ended.device.host}" if ended.device.host not in device else device
    return f"{ended.fault} on {where}{f': {added[-1]}' if added else ''}"


def ended(incident: OpenIncident, quiet_ns: int) -> str:
    """Why it is over."""
    if not incident.last_end:
        return "Nothing of it was true any more."
    minutes = quiet_ns // (60 * SECOND_NS)
    since = f", and nothing of it was true for {minutes} minutes" if minutes else ""
    return f"Its last finding ended{since}: {incident.last_end}."
