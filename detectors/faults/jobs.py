"""Faults of jobs: stalls, and GPUs or rails that slow a job down."""

from __future__ import annotations

from dataclasses import replace

from detectors.faults.model import OF_SWITCH, Fault, Origin

HANG = Fault(
    "hang",
    why="the job computes nothing while it waits, and holds all of its GPUs",
    symptom=True,
    alert="JobStalled",
)
STRAGGLER = Fault(
    "straggler",
    ("straggler", "ib_rail"),
    "page",
    ("RUN_DCGMEUD", "CONTACT_SUPPORT"),
    why="every rank of the job waits for its slowest GPU",
    symptom=True,
    shared=OF_SWITCH,
    alert="Straggler",
)
OUTLIER = Fault(
    "outlier",
    ("outlier",),
    "record",
    ("RUN_DCGMEUD",),
    why="a GPU unlike all others of its model may have a fault that no other detector knows",
    symptom=True,
)
_GPUS = replace(HANG, detectors=("hang",))
# By cause of a verdict from NCCL's reports (detectors/nccl/verdict.py).
_CAUSES: dict[str, Origin] = {
    "hardware_fault": "hardware",
    "order_mismatch": "application",
    "host_hang": "application",
    "straggler": "unknown",
    "launch_order_deadlock": "application",
    "init_hang": "unknown",
    "storage": "site",
    "global_host_phase": "application",
    "slow_uniform": "unknown",
    "unknown": "unknown",
}

CLASSES = (HANG, STRAGGLER, OUTLIER)
FAULTS = (
    _GPUS.sub("hardware", "page", "COMPONENT_RESET"),
    _GPUS.sub("link", "page", "CONTACT_SUPPORT"),
    # Telemetry does not tell a program that hangs from a GPU that does: the on-call is paged.
    _GPUS.sub("rank_stuck", "page", "RESTART_APP", origin="unknown"),
    _GPUS.sub("rank_busy", "page", "RESTART_APP", origin="unknown"),
    _GPUS.sub("crawl", "ticket", "RESTART_APP", origin="unknown"),
    _GPUS.sub("undecided", "page", "RESTART_APP", origin="unknown"),
    _GPUS.sub("waits", "ticket", "NONE", origin="unknown"),
    _GPUS.sub("host_stall", "page", "CONTACT_SUPPORT", origin="site"),
    HANG.sub(
        "process_lost",
        "page",
        "RESTART_APP",
        "NONE",
        detectors=("hang", "nccl"),
        origin="application",
    ),
    HANG.sub(
        "in_flight", "page", "RESTART_APP", "NONE", detectors=("hang", "nccl"), origin="unknown"
    ),
    *(
        HANG.sub(
            cause,
            "page",
            "RUN_FIELDDIAG" if origin == "hardware" else "RESTART_APP",
            "NONE",
            detectors=("nccl",),
            origin=origin,
        )
        for cause, origin in _CAUSES.items()
    ),
    STRAGGLER,
    STRAGGLER.sub(
        "node",
        "page",
        "RUN_DCGMEUD",
        detectors=("slow_node",),
        shared=frozenset({"rack", "job"}),
        why="every rank of the job waits for the ranks of its slowest node",
    ),
    STRAGGLER.sub("slow_straggler", "ticket", "NONE", detectors=("nccl",)),
    STRAGGLER.sub("slow_network", "ticket", "NONE", detectors=("nccl",)),
    OUTLIER,
)
