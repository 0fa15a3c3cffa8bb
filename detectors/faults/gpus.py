"""Faults of GPUs: availability, XIDs, memory, temperature, power."""

from __future__ import annotations

from dataclasses import replace

from detectors.faults.model import OF_NODE, Fault, Strength
from pipeline.finding import Action

GPU_LOST = Fault(
    "gpu_lost",
    ("availability",),
    "page",
    ("RESTART_BM",),
    certain=True,
    why="a GPU that left the PCI bus comes back only with the power of its node",
    strength=Strength.GPU,
    shared=OF_NODE,
    alert="GpuLost",
    score="xid",
)
GPU_STATES = (
    GPU_LOST,
    replace(GPU_LOST, name="gpu_absent", why="the driver no longer lists a GPU that was there"),
    replace(
        GPU_LOST,
        name="gpu_hung",
        why=(
            "calls into the driver that do not return block what makes them "
            "until the GPU starts again"
        ),
    ),
    replace(
        GPU_LOST,
        name="gpu_unreadable",
        severity="ticket",
        actions=("CONTACT_SUPPORT",),
        why="the driver lists the GPU and answers nothing about it",
        strength=Strength.STATISTIC,
        score="observability",
    ),
)

XID = Fault(
    "xid",
    ("xid",),
    certain=True,
    why="the driver reported an error of the GPU and what NVIDIA's catalogue proposes for it",
    strength=Strength.GPU,
    shared=OF_NODE,
    alert="GpuXid",
)
# What the catalogue of XIDs can propose (detectors/xid/meaning.py).
CATALOGUE: tuple[Action, ...] = (
    "NONE",
    "COMPONENT_RESET",
    "CONTACT_SUPPORT",
    "RUN_FIELDDIAG",
    "RESTART_VM",
    "RESTART_BM",
    "RUN_DCGMEUD",
    "RESTART_APP",
    "UNKNOWN",
)
RECOVERY: tuple[Action, ...] = ("NONE", "COMPONENT_RESET", "CONTACT_SUPPORT", "RESTART_BM")
# What is advised where a code comes back (detectors/xid/repetition.py).
REPEATED: tuple[Action, ...] = ("RUN_DCGMEUD", "RUN_FIELDDIAG", "CONTACT_SUPPORT")
XIDS = (
    XID.sub(
        "application",
        "page",
        *CATALOGUE,
        origin="application",
        shared=frozenset({"job"}),
        why=(
            "the error is one that programs cause; the hardware is suspect only when it repeats on "
            "one GPU"
        ),
    ),
    XID.sub("repeated", "page", *REPEATED, certain=False, exonerates=True),
    XID.sub("gpu", "page", *CATALOGUE),
    XID.sub("memory", "page", *CATALOGUE),
    XID.sub("nvlink", "page", *CATALOGUE, shared=OF_NODE | {"nvlink_domain"}),
    XID.sub(
        "nvlink_domain",
        "page",
        "CONTACT_SUPPORT",
        certain=False,
    ),
    XID.sub("recovery_action", "page", *RECOVERY),
    XID.sub("node_suspect", "ticket", "RUN_FIELDDIAG", certain=False),
)

ECC = Fault(
    "ecc",
    ("ecc",),
    certain=True,
    why="memory errors are wrong bits under a running job, or announce them",
    strength=Strength.MEMORY,
    alert="GpuMemory",
)
MEMORY = (
    ECC.sub("uncorrectable", "page", "NONE", "RESTART_APP", "COMPONENT_RESET"),
    ECC.sub(
        "remap_pending",
        "page",
        "COMPONENT_RESET",
        "CONTACT_SUPPORT",
        why="the bad row is replaced by a spare one only at the next reset",
    ),
    ECC.sub(
        "remap_failed",
        "page",
        "RUN_FIELDDIAG",
        detectors=("ecc", "host"),
        why="the spare rows are used up: the next error of the row hits the job",
    ),
    ECC.sub("sram", "page", "RUN_FIELDDIAG"),
    ECC.sub("unrepairable", "page", "RUN_FIELDDIAG"),
    ECC.sub("spare_rows_gone", "ticket", "CONTACT_SUPPORT", prediction=True),
    ECC.sub("spare_rows_low", "ticket", "NONE", prediction=True),
    ECC.sub("remaps_jumped", "page", "RUN_FIELDDIAG"),
    ECC.sub("remaps_repeat", "ticket", "RUN_DCGMEUD"),
    ECC.sub("pages_retired", "ticket", "RUN_FIELDDIAG", "RUN_DCGMEUD"),
    ECC.sub("correctable_trend", "ticket", "RUN_DCGMEUD", certain=False, prediction=True),
)

THERMAL = Fault(
    "thermal",
    why=("heat that is not carried away ends in throttling, and shortens the life of the part"),
    strength=Strength.SLOWDOWN,
    shared=OF_NODE | {"rack"},
    alert="GpuHeat",
)
THROTTLE = Fault(
    "throttle",
    ("throttle",),
    certain=True,
    why="the hardware protects itself by slowing down, and all ranks wait for the slowest",
    strength=Strength.SLOWDOWN,
    shared=OF_NODE | {"rack"},
    alert="GpuHeat",
)
HEAT = (
    THERMAL.sub("hw_slowdown", "page", "CONTACT_SUPPORT", detectors=("throttle",), certain=True),
    THERMAL.sub(
        "resistance",
        "ticket",
        "CONTACT_SUPPORT",
        detectors=("thermal_resistance",),
        prediction=True,
    ),
    THERMAL.sub("imminent", "ticket", "NONE", detectors=("thermal_imminent",), prediction=True),
    THERMAL.sub("cooling", "page", "CONTACT_SUPPORT", detectors=("thermal_rack",)),
    THROTTLE.sub("hw_power_brake", "page", "CONTACT_SUPPORT"),
    THROTTLE.sub("sw_thermal", "ticket", "CONTACT_SUPPORT"),
    THROTTLE.sub("power_cap", "ticket", "RUN_FIELDDIAG", detectors=("power_cap",), certain=False),
)

POWER = Fault(
    "power",
    ("power",),
    "ticket",
    ("RUN_FIELDDIAG",),
    why="less power at equal work points to a regulator that fails",
    strength=Strength.TREND,
    alert="GpuPower",
)
POWER_LIMIT = Fault(
    "power_limit",
    ("power_limit",),
    certain=True,
    why="a GPU with less power than its peers is the slowest of its job",
    strength=Strength.SLOWDOWN,
    shared=OF_NODE,
    alert="GpuPower",
)
POWER_FAULTS = (
    POWER,
    POWER_LIMIT.sub("low", "ticket", "CONTACT_SUPPORT"),
    POWER_LIMIT.sub("policy", "record", "NONE", origin="site"),
)

CLASSES = (*GPU_STATES, XID, ECC, THERMAL, THROTTLE, POWER, POWER_LIMIT)
FAULTS = (*GPU_STATES, *XIDS, *MEMORY, *HEAT, *POWER_FAULTS)
