"""Whether one finding explains another: by a causal edge of the table of faults, on a device that
is related as the edge says, and not after the fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from detectors.faults import fault_of
from detectors.faults.causes import Relation, edges_between
from detectors.incidents.evidence import Evidence, identity
from detectors.kit.findings import RANK
from pipeline.clock import SECOND_NS

# Parts of one piece of hardware, whose faults are one repair.
UNITS = ("gpu", "ib_port", "nvswitch")


def explains(cause: Evidence, effect: Evidence) -> bool:
    """Whether ``cause`` brought about ``effect``.

    What is only recorded explains nothing.
    """
    edges = edges_between(cause.finding.fault, effect.finding.fault)
    if not edges or RANK[cause.finding.severity] == RANK["record"]:
        return False
    late_ns = cause.later_ns(effect)
    return any(
        late_ns <= edge.late_s * SECOND_NS and _related(edge.where, cause, effect) for edge in edges
    )


def root_cause(evidence: Sequence[Evidence]) -> Evidence:
    """The weightiest that nothing else explains; the weightiest where all explain each other."""
    ranked = sorted(evidence, key=Evidence.weight, reverse=True)
    return next((one for one in ranked if not _is_effect(one, ranked)), ranked[0])


def _is_effect(one: Evidence, others: Iterable[Evidence]) -> bool:
    fault, kind = one.finding.fault, one.device.kind
    return any(
        explains(each, one) and not explains(one, each)
        for each in others
        if each.finding.fault != fault or each.device.kind != kind  # else one is as good as another
    )


def same_unit(one: Evidence, other: Evidence) -> bool:
    """Whether both are about one device and one repair: the hardware of a GPU or port, or a class
    of faults.
    """
    return identity(one.device) == identity(other.device) and (
        one.kind == other.kind or (one.device.kind in UNITS and _hardware(one) and _hardware(other))
    )


def linked(one: Evidence, other: Evidence) -> bool:
    """Whether they are about the two ends of one link."""
    ends = one.device.attributes.get("peer"), other.device.attributes.get("peer")
    return one.device.id == ends[1] or other.device.id == ends[0]


def one_gpu(one: Evidence, other: Evidence) -> bool:
    """Whether they are about a GPU and an NVLink that ends at it, two links of one GPU, or the two
    ends of a link between two GPUs.
    """
    ends, others = one.gpus(), other.gpus()
    if not ends or not others:
        return False
    if one.device.kind == other.device.kind == "nvlink":
        return ends[0] in others and others[0] in ends
    return one.device.kind != other.device.kind and bool({*ends}.intersection(others))


def _hardware(one: Evidence) -> bool:
    return one.kind == "xid" or (
        not one.symptom and fault_of(one.finding.fault).origin == "hardware"
    )


def _related(where: Relation, cause: Evidence, effect: Evidence) -> bool:
    match where:
        case "device":
            return identity(cause.device) == identity(effect.device)
        case "link":
            return linked(cause, effect)
        case "gpu":
            return one_gpu(cause, effect)
        case "port":
            ports = cause.device.kind == effect.device.kind == "ib_port"
            return ports and _same_host(cause, effect)
        case "part":
            parts = cause.device.kind == "gpu" and effect.device.kind == "node"
            return parts and cause.finding.severity == "page" and _same_host(cause, effect)
        case "job":
            jobs, others = cause.all_of("job"), effect.all_of("job")
            return bool(jobs & others) if jobs and others else _same_host(cause, effect)
        case "switch" if cause.device.kind == "rail":
            return cause.site("rail") == effect.site("rail") is not None
        case level:
            return (
                cause.device.kind == level and cause.site(level) == effect.site(level) is not None
            )


def _same_host(one: Evidence, other: Evidence) -> bool:
    return bool(one.device.host) and one.device.host == other.device.host
