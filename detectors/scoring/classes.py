"""Which class of fault a finding's own word for it belongs to: detectors say what they saw, the suite counts by class."""

from __future__ import annotations

from collections.abc import Mapping

# Class of the scenario suite -> words that detectors use for it beside the class itself. What stands nowhere is its own class.
WORDS: Mapping[str, tuple[str, ...]] = {
    "xid": ("gpu_lost", "gpu_absent", "gpu_hung", "sxid"),
    "ecc": ("remap", "sram"),
    "observability": ("counter_saturated", "frozen", "gpu_unreadable", "detector_failed"),
}

# A detector of anything unusual names no class: what it says of the right device fits every fault.
ANY = "outlier"

_CLASS = {word: name for name, words in WORDS.items() for word in words}


def class_of(fault: str) -> str:
    """Class of a finding's ``fault``: of the word itself, else of its first part.

    >>> class_of("gpu_lost"), class_of("ecc"), class_of("ecc/remap_failed"), class_of("ib_ber"), class_of("flying_saucer")
    ('xid', 'ecc', 'ecc', 'ib-ber', 'flying-saucer')
    """
    if fault in _CLASS:
        return _CLASS[fault]
    head = fault.partition("/")[0].partition(":")[0]
    return _CLASS.get(head, head.replace("_", "-"))
