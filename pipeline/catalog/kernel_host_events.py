"""Events of the kernel log about the host: memory, processors, tasks, storage, the log itself."""

from __future__ import annotations

from pipeline.catalog.event_attributes import (
    BLOCK_DEVICE,
    CPU,
    FILESYSTEM,
    INTERFACE,
    JOB,
    LOG,
    PCI,
    PID,
    PROCESS,
    SERVER,
    SEVERITY,
)
from pipeline.catalog.fields import EventKind

EVENTS = (
    EventKind(
        "oom_kill",
        "The kernel killed a process because memory ran out.",
        (
            PID,
            PROCESS,
            ("cgroup", "memory cgroup that ran out; absent when it was the whole machine"),
            ("task_cgroup", "memory cgroup of the process"),
            JOB,
            *LOG,
        ),
    ),
    EventKind(
        "machine_check",
        "The CPU reported a machine check.",
        (
            CPU,
            ("bank", "bank number"),
            ("status", "status register, hexadecimal"),
            SEVERITY,
            *LOG,
        ),
    ),
    EventKind(
        "edac",
        "The memory controller reported an ECC error of host memory.",
        (
            SEVERITY,
            ("errors", "errors reported by one line"),
            ("dimm", "the memory module, as labelled"),
            *LOG,
        ),
    ),
    EventKind(
        "hardware_error",
        "The firmware reported a hardware error (APEI).",
        (
            ("severity", "word of the reporter: fatal, uncorrected, corrected or info"),
            ("component", "memory, pcie, cpu, or the section type that the firmware names"),
            *LOG,
        ),
    ),
    EventKind(
        "memory_failure",
        "The kernel took a broken page of host memory out of use, or tried to.",
        (
            ("address", "page frame number, hexadecimal"),
            (
                "outcome",
                "recovered, failed, ignored, delayed; killed or signalled: what the process got",
            ),
            PID,
            PROCESS,
            *LOG,
        ),
    ),
    EventKind(
        "cpu_throttled",
        "A CPU is too hot and runs slower.",
        (CPU, ("component", "package or core"), *LOG),
    ),
    EventKind(
        "cpu_throttle_ended",
        "A CPU is no longer too hot.",
        (CPU, ("component", "package or core"), *LOG),
    ),
    EventKind(
        "kernel_panic",
        "The kernel stopped the machine.",
        (("reason", "why, in the kernel's words"), *LOG),
    ),
    EventKind(
        "kernel_oops",
        "The kernel met an error of its own and may have lost a task.",
        (
            (
                "reason",
                (
                    "page fault, NULL pointer, oops, general protection, assertion, bad page, "
                    "scheduling while atomic, or memory access"
                ),
            ),
            PID,
            PROCESS,
            *LOG,
        ),
    ),
    EventKind(
        "hung_task",
        "A task was stuck in the kernel.",
        (PID, PROCESS, ("seconds", "how long"), *LOG),
    ),
    EventKind(
        "soft_lockup",
        "A CPU did not schedule.",
        (CPU, ("seconds", "how long"), PID, PROCESS, *LOG),
    ),
    EventKind("hard_lockup", "A CPU no longer took interrupts.", (CPU, *LOG)),
    EventKind(
        "rcu_stall",
        "CPUs or tasks held up the kernel's read-copy update.",
        (("reason", "which, in the kernel's words"), *LOG),
    ),
    EventKind(
        "workqueue_stall",
        "A work queue of the kernel made no progress.",
        (("seconds", "how long"), *LOG),
    ),
    EventKind(
        "resource_exhausted",
        "A table or limit of the kernel is full.",
        (
            (
                "resource",
                (
                    "open files, connection tracking, neighbour table, TCP memory, processes, or "
                    "processes of a job: the limit of a job, a pod or a user's session"
                ),
            ),
            ("limit", "its size, where the line names it"),
            ("cgroup", "control group whose limit it is"),
            JOB,
            *LOG,
        ),
    ),
    EventKind(
        "storage_error",
        "A disk, its controller or an array of disks reported an error.",
        (
            ("component", "nvme, md, scsi, ata, or block: the block layer"),
            BLOCK_DEVICE,
            ("array", "software RAID array"),
            (
                "reason",
                (
                    "timeout, reset, reset failed, controller down, disabled, lost, disk failure, "
                    "array failed, buffer I/O error, beyond end of device, medium error, ...; "
                    "absent for an I/O error"
                ),
            ),
            SEVERITY,
            *LOG,
        ),
    ),
    EventKind(
        "storage_recovered",
        "A disk, its controller or an array of disks works again after an error.",
        (
            ("component", "nvme or md"),
            BLOCK_DEVICE,
            ("array", "software RAID array"),
            *LOG,
        ),
    ),
    EventKind(
        "filesystem_error",
        "A local file system reported an error.",
        (FILESYSTEM, BLOCK_DEVICE, *LOG),
    ),
    EventKind(
        "filesystem_read_only",
        "A local file system became read-only or was shut down after an error.",
        (FILESYSTEM, BLOCK_DEVICE, *LOG),
    ),
    EventKind(
        "filesystem_recovered",
        "A local file system is writable again after an error.",
        (FILESYSTEM, BLOCK_DEVICE, *LOG),
    ),
    EventKind(
        "network_filesystem_error",
        "A network file system lost its server or evicted this client.",
        (
            FILESYSTEM,
            SERVER,
            ("reason", "not responding, connection lost, network error, state lost or error"),
            *LOG,
        ),
    ),
    EventKind(
        "network_filesystem_recovered",
        "The server of a network file system answers again.",
        (FILESYSTEM, SERVER, *LOG),
    ),
    EventKind(
        "segfault",
        "A process crashed in a GPU or communication library.",
        (PID, PROCESS, ("library", "file name of the library"), *LOG),
    ),
    EventKind(
        "kernel_log_lost",
        "Records of the kernel log were lost before they were read.",
        (
            (
                "reason",
                (
                    "overrun: the kernel overwrote them; oversize: longer than the buffer; "
                    "down: while no agent ran"
                ),
            ),
            ("records", "how many"),
            *LOG,
        ),
    ),
    EventKind(
        "kernel_log_untrusted",
        (
            "A line about hardware in a file of the syslog daemon, to which programs can write, or "
            "about a bonded interface, which may be one of a network namespace of a job: stored "
            "and shown, and judged by no detector."
        ),
        (
            ("claims", "the kind of event that it would be"),
            ("code", "XID number"),
            INTERFACE,
            PCI,
            *LOG,
        ),
    ),
    EventKind(
        "kernel_log_suppressed",
        "The kernel held back lines because there were too many.",
        (("records", "how many"), ("by", "whose lines"), *LOG),
    ),
)
