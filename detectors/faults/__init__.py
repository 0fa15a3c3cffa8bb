"""The table of faults: one row for each fault that a detector can emit, and one for each class."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from detectors.faults import gpus, host, jobs, links, nodes
from detectors.faults.model import Fault, Level, Origin, Strength

__all__ = ["CLASSES", "FAULTS", "Fault", "Level", "Origin", "Strength", "fault_class", "fault_of"]

_TABLES = (gpus, links, jobs, host, nodes)
CLASSES: Mapping[str, Fault] = {row.name: row for table in _TABLES for row in table.CLASSES}
FAULTS: Mapping[str, Fault] = {row.name: row for table in _TABLES for row in table.FAULTS}


@lru_cache(maxsize=1024)
def fault_class(fault: str) -> str:
    """The class of a fault: what precedes the slash.

    >>> fault_class("ib/link_down")
    'ib'
    """
    return fault.partition("/")[0]


def fault_of(name: str) -> Fault:
    """The row of a fault; of its class where the fault is unknown; an empty row where both are.

    >>> fault_of("ecc/remap_failed").alert, fault_of("ecc/new").alert, fault_of("new").alert
    ('GpuMemory', 'GpuMemory', 'Other')
    """
    return FAULTS.get(name) or CLASSES.get(fault_class(name)) or Fault(name)
