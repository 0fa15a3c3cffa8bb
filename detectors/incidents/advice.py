"""What to do about an incident and why, in words: one step, with the reason that belongs to the class of fault."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.finding import Action, Severity

# The steps by NVSentinel's recommendedAction (health_event.proto), in the words of those who take them.
STEPS: Mapping[Action, str] = {
    "NONE": "Observe",
    "COMPONENT_RESET": "Drain the device and reset it",
    "CONTACT_SUPPORT": "Have it looked at",
    "RUN_FIELDDIAG": "Drain the node, run the field diagnostic, and have the part replaced (RMA) if it fails",
    "RESTART_VM": "Restart the virtual machine",
    "RESTART_BM": "Drain the node and power-cycle it",
    "REPLACE_VM": "Replace the virtual machine",
    "RUN_DCGMEUD": "Drain the node and run DCGM's diagnostics",
    "RESTART_APP": "Restart the application",
    "UNKNOWN": "Look at the evidence",
}
CABLE = "Check the cable and both its connectors"

# Why, by fault or its class: what the fault means for the device. The more exact word wins.
REASONS: Mapping[str, str] = {
    "gpu_lost": "a GPU that left the PCI bus comes back only with the power of its node",
    "gpu_hung": "calls into the driver that do not return block whoever makes them until the GPU starts anew",
    "gpu_absent": "the driver no longer lists a GPU that was there",
    "gpu_unreadable": "the driver lists the GPU and answers nothing about it",
    "xid": "the driver reported an error of the GPU and what NVIDIA's catalogue proposes for it",
    "xid/application": "the error is one that programs cause; the hardware is suspect only when it repeats on one GPU",
    "sxid": "the NVSwitch driver reported an error that stops traffic",
    "ecc": "memory errors are wrong bits under a running job, or announce them",
    "ecc/remap_pending": "the bad row is replaced by a spare one only at the next reset",
    "ecc/remap_failed": "the spare rows are used up: the next error of the row hits the job",
    "ib": "a port that is down or slow holds up every rank of the job behind it",
    "ib_flap": "a link that goes down again and again interrupts collectives each time",
    "ib_ber": "the error rate of a link grows before the link fails",
    "nvlink": "a link between GPUs that is down or errs slows or stops the whole node's collectives",
    "pcie": "a narrow or erring PCIe path slows every transfer of its device",
    "thermal": "heat that is not carried away ends in throttling, and shortens the life of the part",
    "throttle": "the hardware protects itself by slowing down, and all ranks wait for the slowest",
    "power_limit": "a GPU with less power than its peers is the slowest of its job",
    "power": "less power at equal work points to a regulator that fails",
    "straggler": "every rank of the job waits for its slowest GPU",
    "hang": "the job computes nothing while it waits, and holds all of its GPUs",
    "congestion": "waiting for credits without errors is load, no fault of a device",
    "counter_saturated": "a counter that stands at its end counts nothing more until it is reset",
    "frozen": "values that do not move say nothing: what happens to the device goes unseen",
    "detector_failed": "what the detector would have found is missed until it works again",
    "lemon": "many small faults of one node have a common cause that none of them shows",
}


def reason(fault: str, action: Action, severity: Severity) -> str:
    """One sentence: the step, and why.

    >>> reason("gpu_lost", "RESTART_BM", "page")
    'Drain the node and power-cycle it: a GPU that left the PCI bus comes back only with the power of its node.'
    >>> reason("ib/link_down", "CONTACT_SUPPORT", "page")
    'Check the cable and both its connectors: a port that is down or slow holds up every rank of the job behind it.'
    """
    kind = fault.partition("/")[0]
    step = CABLE if action == "CONTACT_SUPPORT" and kind in ("ib", "ib_flap", "ib_ber") else STEPS[action]
    why = REASONS.get(fault) or REASONS.get(kind, "")
    when = "" if severity == "page" or action == "NONE" else " when its jobs have ended" if step.startswith("Drain") else ""
    return f"{step}{when}{': ' if why else ''}{why}."
