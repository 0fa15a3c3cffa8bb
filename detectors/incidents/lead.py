"""Which finding about the root leads the words of its incident: fault, action, summary and reason
are those of one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from detectors.faults import fault_of
from detectors.incidents.evidence import Evidence
from detectors.incidents.explain import same_unit
from pipeline.finding import Action

# How far a step goes: each makes those below it superfluous, or does not help without them. Whom to
# ask, or which cable to check, is no more than a reset: how strong the evidence is decides there.
REACH: Mapping[Action, int] = {
    "UNKNOWN": 0,
    "NONE": 0,
    "RESTART_APP": 1,
    "CONTACT_SUPPORT": 2,
    "COMPONENT_RESET": 2,
    "RESTART_VM": 2,
    "RESTART_BM": 3,
    "REPLACE_VM": 3,
    "RUN_DCGMEUD": 4,
    "RUN_FIELDDIAG": 5,
}


def leading(root: Evidence, evidence: Iterable[Evidence]) -> Evidence:
    """Of the findings about the device of ``root`` that are as serious and the same repair, the one
    with the action that goes furthest; ``root`` where none goes further than its own.

    What is inferred leads before nothing that a device, driver or counter states.
    """
    others = (one for one in evidence if _counts(one, root))
    return max((root, *others), key=lambda one: REACH[one.finding.action])


def _counts(one: Evidence, root: Evidence) -> bool:
    return (
        one.finding.severity == root.finding.severity
        and fault_of(one.finding.fault).certain
        and same_unit(one, root)
    )
