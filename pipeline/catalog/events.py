"""Events: everything that can happen, with the attributes it carries.

An attribute that was not to be had is left out, never empty and never 0. The name of an attribute
means the same in every event.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.catalog import nccl, nccl_events
from pipeline.catalog.fields import EventKind

Attribute = tuple[str, str]

_PCI: Attribute = (
    "pci",
    (
        "PCI address in lower case, of a GPU domain:bus:device, else with the function "
        "where the line names it"
    ),
)
_PID: Attribute = ("pid", "process id in the host's namespace")
_PROCESS: Attribute = ("process", "name of the process (comm), as the kernel knows it")
_SEVERITY: Attribute = ("severity", "word of the reporter: fatal, nonfatal, corrected, uncorrected")
_JOB: Attribute = ("job", "the scheduler's id of the job")
_SCHEDULER: Attribute = (
    "scheduler",
    "who gave the GPUs to the job: slurm; absent where the job's own processes tell of it",
)
_USER: Attribute = ("user", "name of the user who did it")
_DRIVER: Attribute = ("driver", "name of the driver")
_INTERFACE: Attribute = ("interface", "name of the interface, RDMA device or slot")
_CPU: Attribute = ("cpu", "CPU number")
_FILESYSTEM: Attribute = ("filesystem", "type of file system, such as ext4 or nfs")
_BLOCK_DEVICE: Attribute = ("block_device", "block device or controller")
_SERVER: Attribute = ("server", "server or target, as the kernel names it")
_COUNT: Attribute = ("count", "equal lines that this event covers; absent means 1")

# Where a line of the kernel log was read. After a crash of the agent the last seconds are read
# again: stream, seq and last_seq tell which lines an event stands for, so that whoever counts
# counts each once (pipeline/xid/once.py).
_LOG: tuple[Attribute, ...] = (
    ("origin", "where it was seen: kmsg, journal, file, pstore or nvml"),
    ("stream", "the log that contains it: the boot id, or the identity of a log file"),
    (
        "seq",
        (
            "number of its first line in that log; in a journal microseconds since boot, in a file "
            "without numbers the offset"
        ),
    ),
    ("last_seq", "number of the last line, where the event covers more than one"),
    ("last_time_ns", "unix time of the last line, where the event covers more than one"),
    _COUNT,
    (
        "before_start",
        "true if it happened before the agent first read the log of this boot: check its time",
    ),
    (
        "previous_boot",
        "true if it was read from the log that the previous boot left; its time is of that boot",
    ),
    ("text", "the line as the kernel printed it, at most 1024 characters"),
)

_LINK: tuple[Attribute, ...] = (
    _DRIVER,
    _INTERFACE,
    ("port", "number of the port of an RDMA device"),
    ("state", "state of an RDMA link, where the line names it: down, init, armed, active"),
    _PCI,
    *_LOG,
)

EVENTS = (
    EventKind(
        "xid",
        (
            "The NVIDIA driver reported an XID error. A line that says a GPU has fallen off the "
            "bus without naming a code is XID 79."
        ),
        (
            ("code", "XID number"),
            ("inferred", "true: the line named no code; code 79 follows from its words"),
            (
                "sub_code",
                (
                    "sub-code of an NVLink 5 XID (144 to 150): bits 20 to 25 of its "
                    "interrupt information"
                ),
            ),
            ("unit", "NVLink 5 unit that reported it, such as NETIR_LINK_EVT"),
            _SEVERITY,
            ("registers", "register values in the order printed, hexadecimal, separated by blanks"),
            ("gpu_instance", "MIG GPU instance id"),
            ("compute_instance", "MIG compute instance id"),
            _PCI,
            _PID,
            _PROCESS,
            ("link", "NVLink number"),
            ("gpc", "graphics processing cluster"),
            ("tpc", "texture processing cluster"),
            ("sm", "streaming multiprocessor"),
            (
                "recovery_from",
                (
                    "recovery action before (XID 154): 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 "
                    "drain and reset, 5 IMEX"
                ),
            ),
            ("recovery_to", "recovery action now (XID 154)"),
            ("caused_by", "code of the XID that the driver names as the cause (XID 45)"),
            *_LOG,
        ),
    ),
    EventKind(
        "sxid",
        "The NVSwitch driver reported an SXID error.",
        (
            ("code", "SXID number"),
            _SEVERITY,  # of codes that the driver prints without one, from our table
            ("switch", "number of the NVSwitch"),
            ("link", "link of the switch"),
            _PCI,
            *_LOG,
        ),
    ),
    EventKind(
        "module_loaded",
        "A GPU or RDMA driver was loaded, or took on a device.",
        (
            ("module", "name of the module"),
            ("version", "its version, or that of the device's firmware"),
            _PCI,
            *_LOG,
        ),
    ),
    EventKind(
        "module_unloaded",
        "A GPU or RDMA driver was unloaded.",
        (("module", "name of the module"), *_LOG),
    ),
    EventKind(
        "gpu_driver_error",
        "The NVIDIA driver reported an error that has no XID.",
        (
            (
                "reason",
                (
                    "initialisation failed, locked, GSP timeout, GPU lost, reset required, NVLink "
                    "discovery failed, multicast or IMEX, or peer memory"
                ),
            ),
            ("status", "status code that the driver prints"),
            _SEVERITY,
            _PCI,
            *_LOG,
        ),
    ),
    EventKind(
        "hca_health",
        "The driver of an RDMA device reports that the device is not healthy.",
        (
            _INTERFACE,
            _PCI,
            ("reason", "health, fatal, temperature, power or cable"),
            *_LOG,
        ),
    ),
    EventKind(
        "adapter_error",
        "The driver of a network or RDMA adapter reported an error.",
        (
            _DRIVER,
            _INTERFACE,
            (
                "reason",
                (
                    "command timeout, command failed, transmit timeout, admin queue closed, no "
                    "completion, no interrupt, device not ready, or the words of the driver"
                ),
            ),
            ("queue", "number of the transmit queue"),
            _SEVERITY,
            _PCI,
            *_LOG,
        ),
    ),
    EventKind(
        "adapter_recovered",
        "The driver of an adapter reports that the adapter works again.",
        (_DRIVER, _INTERFACE, _PCI, *_LOG),
    ),
    EventKind("link_up", "A network, RDMA or PCIe link came up.", _LINK),
    EventKind("link_down", "A network, RDMA or PCIe link went down, or is not active.", _LINK),
    EventKind(
        "pcie_error",
        "PCIe advanced error reporting named a device.",
        (
            _SEVERITY,
            ("layer", "physical, data link or transaction"),
            ("role", "receiver, transmitter, requester, ..."),
            ("reporter", "PCI address of the port that reported it"),
            _PCI,
            *_LOG,
        ),
    ),
    EventKind(
        "pcie_containment",
        "A PCIe port cut off what is below it (downstream port containment).",
        (
            _SEVERITY,
            ("reason", "what the port detected"),
            ("reporter", "PCI address of the device that reported the error"),
            _PCI,
            *_LOG,
        ),
    ),
    EventKind(
        "pcie_recovery_failed",
        "The kernel could not recover a device after a PCIe error.",
        (_SEVERITY, _PCI, *_LOG),
    ),
    EventKind("pcie_recovered", "The kernel recovered a device after a PCIe error.", (_PCI, *_LOG)),
    EventKind(
        "device_inaccessible",
        "A PCI device does not answer: its power state cannot be changed.",
        (_DRIVER, ("reason", "the power state it is left in"), _SEVERITY, _PCI, *_LOG),
    ),
    EventKind(
        "oom_kill",
        "The kernel killed a process because memory ran out.",
        (
            _PID,
            _PROCESS,
            ("cgroup", "memory cgroup that ran out; absent when it was the whole machine"),
            ("task_cgroup", "memory cgroup of the process"),
            _JOB,
            *_LOG,
        ),
    ),
    EventKind(
        "machine_check",
        "The CPU reported a machine check.",
        (
            _CPU,
            ("bank", "bank number"),
            ("status", "status register, hexadecimal"),
            _SEVERITY,
            *_LOG,
        ),
    ),
    EventKind(
        "edac",
        "The memory controller reported an ECC error of host memory.",
        (
            _SEVERITY,
            ("errors", "errors reported by one line"),
            ("dimm", "the memory module, as labelled"),
            *_LOG,
        ),
    ),
    EventKind(
        "hardware_error",
        "The firmware reported a hardware error (APEI).",
        (
            ("severity", "word of the reporter: fatal, uncorrected, corrected or info"),
            ("component", "memory, pcie, cpu, or the section type that the firmware names"),
            *_LOG,
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
            _PID,
            _PROCESS,
            *_LOG,
        ),
    ),
    EventKind(
        "cpu_throttled",
        "A CPU is too hot and runs slower.",
        (_CPU, ("component", "package or core"), *_LOG),
    ),
    EventKind(
        "cpu_throttle_ended",
        "A CPU is no longer too hot.",
        (_CPU, ("component", "package or core"), *_LOG),
    ),
    EventKind(
        "kernel_panic",
        "The kernel stopped the machine.",
        (("reason", "why, in the kernel's words"), *_LOG),
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
            _PID,
            _PROCESS,
            *_LOG,
        ),
    ),
    EventKind(
        "hung_task",
        "A task was stuck in the kernel.",
        (_PID, _PROCESS, ("seconds", "how long"), *_LOG),
    ),
    EventKind(
        "soft_lockup",
        "A CPU did not schedule.",
        (_CPU, ("seconds", "how long"), _PID, _PROCESS, *_LOG),
    ),
    EventKind("hard_lockup", "A CPU no longer took interrupts.", (_CPU, *_LOG)),
    EventKind(
        "rcu_stall",
        "CPUs or tasks held up the kernel's read-copy update.",
        (("reason", "which, in the kernel's words"), *_LOG),
    ),
    EventKind(
        "workqueue_stall",
        "A work queue of the kernel made no progress.",
        (("seconds", "how long"), *_LOG),
    ),
    EventKind(
        "resource_exhausted",
        "A table or limit of the kernel is full.",
        (
            (
                "resource",
                "open files, connection tracking, neighbour table, TCP memory or processes",
            ),
            ("limit", "its size, where the line names it"),
            ("cgroup", "control group whose limit it is"),
            *_LOG,
        ),
    ),
    EventKind(
        "storage_error",
        "A disk, its controller or an array of disks reported an error.",
        (
            ("component", "nvme, md, scsi, ata, or block: the block layer"),
            _BLOCK_DEVICE,
            ("array", "software RAID array"),
            (
                "reason",
                (
                    "timeout, reset, reset failed, controller down, disabled, lost, disk failure, "
                    "array failed, buffer I/O error, beyond end of device, medium error, ...; "
                    "absent for an I/O error"
                ),
            ),
            _SEVERITY,
            *_LOG,
        ),
    ),
    EventKind(
        "storage_recovered",
        "A disk, its controller or an array of disks works again after an error.",
        (
            ("component", "nvme or md"),
            _BLOCK_DEVICE,
            ("array", "software RAID array"),
            *_LOG,
        ),
    ),
    EventKind(
        "filesystem_error",
        "A local file system reported an error.",
        (_FILESYSTEM, _BLOCK_DEVICE, *_LOG),
    ),
    EventKind(
        "filesystem_read_only",
        "A local file system became read-only or was shut down after an error.",
        (_FILESYSTEM, _BLOCK_DEVICE, *_LOG),
    ),
    EventKind(
        "filesystem_recovered",
        "A local file system is writable again after an error.",
        (_FILESYSTEM, _BLOCK_DEVICE, *_LOG),
    ),
    EventKind(
        "network_filesystem_error",
        "A network file system lost its server or evicted this client.",
        (
            _FILESYSTEM,
            _SERVER,
            ("reason", "not responding, connection lost, network error, state lost or error"),
            *_LOG,
        ),
    ),
    EventKind(
        "network_filesystem_recovered",
        "The server of a network file system answers again.",
        (_FILESYSTEM, _SERVER, *_LOG),
    ),
    EventKind(
        "segfault",
        "A process crashed in a GPU or communication library.",
        (_PID, _PROCESS, ("library", "file name of the library"), *_LOG),
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
            *_LOG,
        ),
    ),
    EventKind(
        "kernel_log_suppressed",
        "The kernel held back lines because there were too many.",
        (("records", "how many"), ("by", "whose lines"), *_LOG),
    ),
    EventKind(
        "clock_step",
        "The wall clock was stepped.",
        (("seconds", "size of the step, positive is forward"),),
    ),
    EventKind(
        "gpu_process_started",
        "A process began to use a GPU.",
        (
            _PID,
            _PROCESS,
            ("gpu_instance", "MIG GPU instance id"),
            ("compute_instance", "MIG compute instance id"),
        ),
    ),
    EventKind(
        "gpu_process_ended",
        "A process no longer uses a GPU.",
        (
            _PID,
            _PROCESS,
            ("gpu_instance", "MIG GPU instance id"),
            ("compute_instance", "MIG compute instance id"),
        ),
    ),
    EventKind(
        "job_started",
        "A job took GPUs of this host. A job on many hosts starts once on each.",
        (
            _JOB,
            ("gpus", "UUIDs of the GPUs it holds on this host, separated by blanks"),
            ("hosts", "number of hosts of the job"),
            ("name", "name its owner gave it"),
            _SCHEDULER,
        ),
    ),
    EventKind(
        "job_ended",
        "A job gave back its GPUs of this host.",
        (
            _JOB,
            ("outcome", "completed, failed or cancelled, as reported by the scheduler"),
            _SCHEDULER,
        ),
    ),
    EventKind(
        "maintenance_started",
        (
            "A device, or all of a host, was taken out of service by an operator or the scheduler: "
            "until the end nothing on it is a fault."
        ),
        (("reason", "reason given"), ("seconds", "planned duration"), _USER),
    ),
    EventKind("maintenance_ended", "The device is in service again.", (_USER,)),
    EventKind(
        "incident_acknowledged",
        "An incident was acknowledged.",
        (("incident", "id of the incident"), ("note", "note of the acknowledgement"), _USER),
    ),
    EventKind(
        "device_appeared",
        "A device answers that did not before.",
        (_PCI, ("reason", "what is known of the cause")),
    ),
    EventKind(
        "device_gone", "A device no longer answers.", (_PCI, ("reason", "what the driver said"))
    ),
    EventKind(
        "driver_hang",
        "A call into the driver did not return in time.",
        (("call", "name of the call"), ("seconds", "how long it was waited for"), _PID),
    ),
    EventKind(
        "config_reloaded",
        "The configuration was read again.",
        (
            ("outcome", "taken or kept: the new one was taken, or refused and the old one kept"),
            ("reason", "why it was refused"),
        ),
    ),
    EventKind(
        "injected",
        "A fault was injected into a simulated node.",
        (
            ("fault", "name of the fault"),
            ("parameters", "as given"),
            ("seconds", "how long it lasts"),
        ),
    ),
    *nccl_events.EVENTS,
    *nccl.EVENTS,
)

_NAMES = {kind.name: frozenset(name for name, _ in kind.attributes) for kind in EVENTS}


def strange_attributes(kind: str, attributes: Iterable[str]) -> list[str]:
    """Names that an event of this kind may not carry, in order; KeyError for a kind the
    catalogue does not have.

    >>> strange_attributes("clock_step", ["seconds", "colour"])
    ['colour']
    """
    return [name for name in attributes if name not in _NAMES[kind]]
