"""Which class of the scenario suite a fault belongs to."""

from __future__ import annotations

from detectors.faults import fault_of

# A detector of anything unusual names no class: about the right device it matches every fault.
ANY = "outlier"


def class_of(fault: str) -> str:
    """Class of a finding's ``fault``; that of an unknown fault is its first part.

    >>> [class_of(fault) for fault in ("gpu_lost", "ecc/remap_failed", "ib_ber", "flying_saucer")]
    ['xid', 'ecc', 'ib-ber', 'flying-saucer']
    """
    return fault_of(fault.partition(":")[0]).scored_as
