"""What to do about an incident and why, in words: one step, with the reason that
belongs to the class of fault.
"""

from __future__ import annotations

from collections.abc import Mapping

from detectors.faults import fault_of
from pipeline.finding import Action, Severity

# The steps by NVSentinel's recommendedAction (health_event.proto), in the
# words of those who take them.
STEPS: Mapping[Action, str] = {
    "NONE": "Observe",
    "COMPONENT_RESET": "Drain the device and reset it",
    "CONTACT_SUPPORT": "Have it looked at",
    "RUN_FIELDDIAG": (
        "Drain the node, run the field diagnostic, and have the part replaced (RMA) if it fails"
    ),
    "RESTART_VM": "Restart the virtual machine",
    "RESTART_BM": "Drain the node and power-cycle it",
    "REPLACE_VM": "Replace the virtual machine",
    "RUN_DCGMEUD": "Drain the node and run DCGM's diagnostics",
    "RESTART_APP": "Restart the application",
    "UNKNOWN": "Look at the evidence",
}


def reason(fault: str, action: Action, severity: Severity) -> str:
    """One sentence: the step, and why.

    >>> reason("gpu_lost", "RESTART_BM", "page")
    'Drain the node and power-cycle it: a GPU that left the PCI bus comes back only with the power of its node.'
    >>> reason("ib/slow_link", "CONTACT_SUPPORT", "page")
    'Check the cable and both its connectors: a port that is down or slow holds up every rank of the job behind it.'
    """  # noqa: E501 - an example or a table
    row = fault_of(fault)
    step = row.inspect if row.inspect and action == "CONTACT_SUPPORT" else STEPS[action]
    when = (
        ""
        if severity == "page" or action == "NONE"
        else " when its jobs have ended"
        if step.startswith("Drain")
        else ""
    )
    return f"{step}{when}{': ' if row.why else ''}{row.why}."
