"""Faults of nodes, of their configuration and use, and of the agent."""

from __future__ import annotations

from detectors.faults.model import OF_NODE, Fault, Strength

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
HOST = Fault(
    "host",
    ("host",),
    certain=True,
    why="the kernel of the node does not work as it should, and jobs depend on it",
    strength=Strength.GPU,
    alert="Host",
)
HOST_HARDWARE = Fault(
    "host_hardware",
    ("host",),
    certain=True,
    why="wrong bits in the host's memory or processors end in wrong results or a crash",
    inspect="Replace the memory module or processor",
    strength=Strength.MEMORY,
    alert="Host",
)
STORAGE = Fault(
    "storage",
    ("host",),
    origin="site",
    certain=True,
    why="a job that cannot read or write its files stands still, and its checkpoint is lost",
    inspect="Check the storage and the way to it",
    strength=Strength.LINK,
    alert="Storage",
)
NVSWITCH = Fault(
    "nvswitch",
    ("host",),
    certain=True,
    why="all GPUs of the node reach each other through its NVSwitches",
    strength=Strength.GPU,
    alert="GpuXid",
)
GPU_DRIVER = Fault(
    "gpu_driver",
    ("host",),
    certain=True,
    why="the driver has given the GPU up until the node is restarted",
    strength=Strength.GPU,
    shared=OF_NODE,
    alert="GpuLost",
)
ADAPTER = Fault(
    "adapter",
    ("host",),
    certain=True,
    why="every collective over the adapter waits for it",
    inspect="Check the adapter and its firmware",
    strength=Strength.LINK,
    alert="Fabric",
)
KERNEL_FAULTS = (
    HOST.sub("panic", "page", "RESTART_BM"),
    HOST.sub("crashed", "ticket", "RUN_FIELDDIAG", why="what crashed a node once may do so again"),
    HOST.sub("oops", "ticket", "RESTART_BM"),
    HOST.sub("lockup", "page", "RESTART_BM"),
    HOST.sub("rcu_stall", "ticket", "RESTART_BM"),
    HOST.sub(
        "hung_task",
        "ticket",
        "RESTART_BM",
        why="a process that waits in the kernel cannot even be killed",
        strength=Strength.STATISTIC,
    ),
    HOST.sub(
        "exhausted",
        "ticket",
        "CONTACT_SUPPORT",
        origin="site",
        why="a limit of the kernel is reached, and programs fail in odd ways",
        inspect="Raise the limit, or find who exhausts it",
        strength=Strength.STATISTIC,
    ),
    HOST.sub(
        "cpu_hot",
        "ticket",
        "CONTACT_SUPPORT",
        why="a job waits for its slowest host",
        inspect="Check the cooling of the processors",
        strength=Strength.SLOWDOWN,
    ),
    HOST.sub(
        "oom",
        "ticket",
        "RESTART_APP",
        origin="application",
        why="the job asked for more memory than there is",
        strength=Strength.STATISTIC,
    ),
    HOST_HARDWARE.sub("uncorrected", "page", "CONTACT_SUPPORT"),
    HOST_HARDWARE.sub("corrected", "ticket", "CONTACT_SUPPORT", prediction=True),
    HOST_HARDWARE.sub("page_retired", "ticket", "CONTACT_SUPPORT"),
    STORAGE.sub("server", "page", "CONTACT_SUPPORT"),
    STORAGE.sub("read_only", "page", "CONTACT_SUPPORT"),
    STORAGE.sub("filesystem", "ticket", "CONTACT_SUPPORT"),
    STORAGE.sub("disk", "page", "CONTACT_SUPPORT"),
    NVSWITCH.sub("fatal", "page", "RESTART_BM"),
    NVSWITCH.sub("nonfatal", "ticket", "CONTACT_SUPPORT"),
    GPU_DRIVER.sub("fatal", "page", "RESTART_BM"),
    ADAPTER.sub("fatal", "page", "RESTART_BM"),
    ADAPTER.sub("errors", "ticket", "CONTACT_SUPPORT"),
)

CLASSES = (
    HOST,
    HOST_HARDWARE,
    STORAGE,
    NVSWITCH,
    GPU_DRIVER,
    ADAPTER,
    DRIVER_HUNG,
    OBSERVABILITY,
    DETECTOR_FAILED,
    LEMON,
    DRIFT,
    WASTE,
)
FAULTS = (
    *KERNEL_FAULTS,
    DRIVER_HUNG,
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
                    "power_limit",
                ),
            ),
            ("ib_port", ("firmware", "mtu", "gid")),
            ("node", ("kernel", "mlx5_driver")),
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
