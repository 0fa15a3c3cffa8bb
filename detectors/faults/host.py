"""Faults that the kernel reports of a node: itself, its memory and processors, its storage, and
devices that it gave up.
"""

from __future__ import annotations

from detectors.faults.model import OF_NODE, Fault, Strength

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
CLASSES = (HOST, HOST_HARDWARE, STORAGE, NVSWITCH, GPU_DRIVER, ADAPTER)
FAULTS = (
    HOST.sub("panic", "page", "RESTART_BM"),
    HOST.sub("crashed", "page", "RUN_FIELDDIAG", why="what crashed a node once may do so again"),
    HOST.sub(
        "unknown_event",
        "ticket",
        "CONTACT_SUPPORT",
        why="nobody here can say what an event of an unknown kind means",
    ),
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
        "own_limit",
        "record",
        "RESTART_APP",
        origin="application",
        why="the job started more processes than its own limit allows",
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
