"""Faults of links: PCIe, NVLink, InfiniBand and RoCE ports and their adapters."""

from __future__ import annotations

from detectors.faults.model import OF_NODE, OF_SWITCH, Fault, Strength

CABLE = "Check the cable and both its connectors"

PCIE = Fault(
    "pcie",
    ("pcie",),
    certain=True,
    why="a narrow or erring PCIe path slows every transfer of its device",
    strength=Strength.LINK,
    shared=OF_NODE,
    alert="GpuLink",
)
NVLINK = Fault(
    "nvlink",
    ("nvlink",),
    certain=True,
    why="a link between GPUs that is down or errs slows or stops the whole node's collectives",
    strength=Strength.LINK,
    shared=OF_NODE,
    alert="GpuLink",
)
NVLINK_FABRIC = Fault(
    "nvlink_fabric",
    ("nvlink_fabric",),
    certain=True,
    why="GPUs that are not part of the NVLink fabric cannot reach each other, and CUDA jobs fail",
    inspect="Restart Fabric Manager, and check its log and the NVSwitches",
    strength=Strength.GPU,
    alert="NvlinkFabric",
)
IB = Fault(
    "ib",
    ("ib_link",),
    certain=True,
    why="a port that is down or slow holds up every rank of the job behind it",
    inspect=CABLE,
    strength=Strength.LINK,
    shared=OF_NODE | OF_SWITCH,
    alert="Fabric",
)
IB_BER = Fault(
    "ib_ber",
    ("ib_ber",),
    "page",
    ("CONTACT_SUPPORT",),
    why="the error rate of a link grows before the link fails",
    inspect=CABLE,
    strength=Strength.TREND,
    prediction=True,
    alert="Fabric",
    score="ib-ber",
)
IB_FLAP = Fault(
    "ib_flap",
    ("ib_flap",),
    "page",
    ("CONTACT_SUPPORT",),
    certain=True,
    why="a link that goes down again and again interrupts collectives each time",
    inspect=CABLE,
    strength=Strength.LINK,
    alert="Fabric",
    score="ib-flap",
)
CONGESTION = Fault(
    "congestion",
    ("ib_congestion",),
    "record",
    ("NONE",),
    origin="site",
    why="waiting for credits without errors is load, no fault of a device",
    symptom=True,
    alert="Fabric",
)
COUNTER_SATURATED = Fault(
    "counter_saturated",
    ("ib_saturation",),
    "ticket",
    ("NONE",),
    origin="agent",
    certain=True,
    why="a counter that stands at its end counts nothing more until it is reset",
    alert="Fabric",
    score="observability",
)

CLASSES = (PCIE, NVLINK, NVLINK_FABRIC, IB, IB_BER, IB_FLAP, CONGESTION, COUNTER_SATURATED)
FAULTS = (
    PCIE.sub("width", "page", "CONTACT_SUPPORT"),
    PCIE.sub("generation", "page", "CONTACT_SUPPORT"),
    PCIE.sub("replays", "ticket", "CONTACT_SUPPORT", certain=False),
    PCIE.sub("fatal", "page", "RESTART_BM"),
    PCIE.sub("contained", "page", "RESTART_BM", detectors=("host",)),
    NVLINK.sub("link_down", "page", "COMPONENT_RESET", "RUN_DCGMEUD"),
    NVLINK.sub("none_up", "ticket", "NONE", origin="site"),
    NVLINK.sub("replays", "ticket", "RUN_DCGMEUD"),
    NVLINK.sub("crc", "ticket", "RUN_DCGMEUD"),
    NVLINK.sub("bit_errors", "ticket", "RUN_DCGMEUD"),
    NVLINK.sub(
        "fec_tail",
        "ticket",
        "CONTACT_SUPPORT",
        detectors=("fec_tail",),
        certain=False,
        prediction=True,
    ),
    NVLINK_FABRIC.sub("manager", "page", "CONTACT_SUPPORT"),
    NVLINK_FABRIC.sub(
        "stopped",
        "page",
        "CONTACT_SUPPORT",
        why="without Fabric Manager nothing handles errors of the NVLink fabric",
        inspect="Restart Fabric Manager, and see in its log why it stopped",
    ),
    NVLINK_FABRIC.sub("registration", "page", "COMPONENT_RESET"),
    NVLINK_FABRIC.sub("unhealthy", "page", "COMPONENT_RESET"),
    NVLINK_FABRIC.sub(
        "limited",
        "ticket",
        "CONTACT_SUPPORT",
        why="with fewer routes the collectives of all GPUs of the fabric are slower",
        inspect="Check the NVLinks of the GPU and the NVSwitches",
        strength=Strength.LINK,
    ),
    NVLINK_FABRIC.sub(
        "configuration",
        "ticket",
        "CONTACT_SUPPORT",
        origin="site",
        why="Fabric Manager does not connect a GPU that it does not expect",
        inspect="Check the partitions of Fabric Manager, the slot and the firmware of the GPU",
        strength=Strength.LINK,
    ),
    IB.sub(
        "link_down",
        "page",
        "CONTACT_SUPPORT",
        inspect=f"{CABLE}, or the subnet manager where the link is up",
    ),
    IB.sub("slow_link", "page", "CONTACT_SUPPORT"),
    IB.sub("switch_down", "page", "CONTACT_SUPPORT", inspect="Check the switch and its power"),
    IB.sub("port_disabled", "record", "NONE", origin="site"),
    IB.sub("adapter_gone", "page", "RESTART_BM", shared=OF_NODE),
    *(
        IB.sub(f"adapter_{reason}", "page", "RESTART_BM", detectors=("ib_adapter",), shared=OF_NODE)
        for reason in ("health", "fatal")
    ),
    *(
        IB.sub(
            f"adapter_{reason}",
            "ticket",
            "CONTACT_SUPPORT",
            detectors=("ib_adapter",),
            shared=OF_NODE,
            inspect=inspect,
        )
        for reason, inspect in (
            ("temperature", "Check the cooling of the adapter"),
            ("power", "Check the slot of the adapter and its power"),
            ("cable", CABLE),
            ("unknown", "Check the adapter and the kernel log"),
        )
    ),
    IB.sub("errors", "ticket", "CONTACT_SUPPORT", "NONE", detectors=("ib_errors",)),
    IB.sub(
        "fec_tail",
        "ticket",
        "CONTACT_SUPPORT",
        detectors=("fec_tail",),
        certain=False,
        prediction=True,
    ),
    IB_BER,
    IB_FLAP,
    CONGESTION,
    COUNTER_SATURATED,
)
