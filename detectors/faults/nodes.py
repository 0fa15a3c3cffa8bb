"""Faults of nodes, of their configuration and use, and of the agent."""

from __future__ import annotations

from detectors.faults.model import Fault, Strength

OBSERVABILITY = Fault(
    "observability",
    ("frozen",),
    origin="agent",
    why="values that do not move say nothing: what happens to the device goes unseen",
)
DETECTOR_FAILED = Fault(
    "detector_failed",
    ("engine",),
    "ticket",
    ("CONTACT_SUPPORT",),
    origin="agent",
    certain=True,
    why="what the detector would have found is missed until it works again",
    score="observability",
)
LEMON = Fault(
    "lemon",
    ("incidents",),
    "ticket",
    ("RUN_FIELDDIAG",),
    why="many small faults of one node have a common cause that none of them shows",
)
DRIFT = Fault(
    "drift",
    ("drift",),
    origin="site",
    certain=True,
    why="jobs on nodes with different versions or settings run at different speed or fail",
)
WASTE = Fault("waste", ("waste",), origin="site", certain=True, why="no job uses this GPU")
STARVATION = Fault(
    "starvation",
    ("starvation",),
    "record",
    ("NONE",),
    origin="application",
    why="a job that waits holds its GPUs and does less with them",
    symptom=True,
)

DRIVER_HUNG = Fault(
    "driver_hung",
    ("availability",),
    "page",
    ("RESTART_BM",),
    certain=True,
    why="calls into the driver block every program of the node until it is restarted",
    strength=Strength.GPU,
    alert="GpuLost",
    score="xid",
)
CLASSES = (
    DRIVER_HUNG,
    OBSERVABILITY,
    DETECTOR_FAILED,
    LEMON,
    DRIFT,
    WASTE,
    STARVATION,
)
FAULTS = (
    DRIVER_HUNG,
    *(
        STARVATION.sub(wait, "record", "NONE", score=f"starvation-{wait}")
        for wait in ("memory", "data", "cpu", "power", "communication", "nothing")
    ),
    OBSERVABILITY.sub("frozen", "ticket", "CONTACT_SUPPORT"),
    OBSERVABILITY.sub(
        "unread",
        "ticket",
        "CONTACT_SUPPORT",
        why="what happens to GPUs that cannot be read goes unseen",
    ),
    DETECTOR_FAILED,
    LEMON,
    *(
        DRIFT.sub(f"{kind}_{fact}", "ticket", "CONTACT_SUPPORT", "NONE")
        for kind, facts in (
            (
                "gpu",
                (
                    "driver_version",
                    "vbios",
                    "inforom_image",
                    "ecc_mode_current",
                    "persistence_mode",
                    "mig_mode_current",
                    "power_limit",
                ),
            ),
            ("ib_port", ("firmware", "mtu", "gid")),
            ("node", ("kernel", "mlx5_driver", "bios_version")),
        )
        for fact in facts
    ),
    WASTE.sub(
        "memory",
        "ticket",
        "COMPONENT_RESET",
        why="memory that no process holds is missing to the next job until a reset",
    ),
    WASTE.sub("idle", "record", "NONE", why="a GPU that its job does not use is missing to others"),
)
