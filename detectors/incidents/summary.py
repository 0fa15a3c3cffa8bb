"""An incident in a line: the root cause, what it affects, and what is newest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from detectors.incidents.again import Occurrences
from detectors.incidents.evidence import Evidence, reported
from pipeline.frame import Device

EXPLAINS = " It explains "  # what follows is how much evidence there is, and the newest
MAX_NAMED = 8  # devices by name; a node has as many GPUs


def summary(root: Device, blamed: Evidence, live: Sequence[Evidence], happened: Occurrences) -> str:
    """The strongest evidence, the other devices that are broken, how often it happened, and the
    newest fault of the root.
    """
    words = blamed.finding.summary
    if root != blamed.device:
        words = f"{' '.join(dict.fromkeys((root.kind, root.id)))}: {words}"
    words += affected(root, live) + happened.words()
    devices = {one.device for one in live}
    kinds = ", ".join(dict.fromkeys(one.kind for one in live))
    if len(devices) > 1:
        words = f"{words}{EXPLAINS}{len(live)} findings on {len(devices)} devices ({kinds})."
    elif len(live) > 1:
        words = f"{words}{EXPLAINS}{len(live)} findings ({kinds})."
    others = [
        one
        for one in live
        if one.device == root and one.finding.fault != blamed.finding.fault and reported(one)
    ]
    return f"{words} Newest: {others[-1].finding.summary}" if others else words


def cause_of(summary: str) -> str:
    """The summary of an incident without how much evidence there is.

    >>> cause_of("It left. Affected: GPU 4. It explains 3 findings on 2 devices (xid).")
    'It left. Affected: GPU 4.'
    """
    return summary.partition(EXPLAINS)[0]


def affected(root: Device, live: Iterable[Evidence]) -> str:
    """The devices that are broken with the root, by name; empty where it is the only one."""
    devices = broken(root, live)
    if not devices:
        return ""
    names = [name_of(device, root) for device in devices[:MAX_NAMED]]
    more = f" and {len(devices) - MAX_NAMED} more" if len(devices) > MAX_NAMED else ""
    return f" Affected: {', '.join(names)}{more}."


def broken(root: Device, live: Iterable[Evidence]) -> list[Device]:
    """Devices other than the root, and than the other end of its link, that are broken
    themselves.
    """
    link = {root.id, root.attributes.get("peer", root.id)}
    found = dict.fromkeys(one.device for one in live if reported(one) and not one.symptom)
    return [
        device
        for device in found
        if (device.host, device.kind, device.id) != (root.host, root.kind, root.id)
        and not link & {device.id, device.attributes.get("peer", device.id)}
    ]


def name_of(device: Device, root: Device) -> str:
    """A device as people call it; its host only where that is not the root's."""
    index, link = device.attributes.get("index"), device.attributes.get("link")
    port = "/".join(
        device.attributes[name] for name in ("device", "port") if name in device.attributes
    )
    if device.kind == "gpu" and index is not None:
        name = f"GPU {index}"
    elif device.kind == "nvlink" and index is not None and link is not None:
        name = f"NVLink {link} of GPU {index}"
    elif device.kind == "ib_port" and port:
        name = f"port {port}"
    else:
        name = f"{device.kind} {device.id}"
    return name if device.host in ("", root.host, device.id) else f"{name} of {device.host}"
