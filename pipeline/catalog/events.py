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
            _SEVERITY,
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
        "hca_health",
        "The driver of an RDMA device reports that the device is not healthy.",
        (
            ("interface", "name of the interface"),
            _PCI,
            ("reason", "health, fatal, temperature, power or cable"),
            *_LOG,
        ),
    ),
    EventKind(
        "link_up",
        "A network, RDMA or PCIe link came up.",
        (
            ("driver", "name of the driver"),
            ("interface", "name of the interface or slot"),
            _PCI,
            *_LOG,
        ),
    ),
    EventKind(
        "link_down",
        "A network, RDMA or PCIe link went down.",
        (
            ("driver", "name of the driver"),
            ("interface", "name of the interface or slot"),
            _PCI,
            *_LOG,
        ),
    ),
    EventKind(
        "pcie_error",
        "PCIe advanced error reporting named a device.",
        (
            _SEVERITY,
            ("layer", "physical, data link or transaction"),
            ("role", "receiver, transmitter, requester, ..."),
            _PCI,
            *_LOG,
        ),
    ),
    EventKind(
        "oom_kill",
        "The kernel killed a process because memory ran out.",
        (
            _PID,
            _PROCESS,
            ("cgroup", "memory cgroup that ran out; absent when it was the whole machine"),
            *_LOG,
        ),
    ),
    EventKind(
        "machine_check",
        "The CPU reported a machine check.",
        (("cpu", "CPU number"), ("bank", "bank number"), *_LOG),
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
        "hung_task",
        "A task was stuck in the kernel.",
        (_PID, _PROCESS, ("seconds", "how long"), *_LOG),
    ),
    EventKind(
        "soft_lockup",
        "A CPU did not schedule.",
        (("cpu", "CPU number"), ("seconds", "how long"), _PID, _PROCESS, *_LOG),
    ),
    EventKind(
        "filesystem_error",
        "A local file system reported an error.",
        (("filesystem", "type of file system"), ("block_device", "block device it lies on"), *_LOG),
    ),
    EventKind(
        "network_filesystem_error",
        "A network file system lost its server or evicted this client.",
        (
            ("filesystem", "nfs or lustre"),
            ("server", "server or target, as the kernel names it"),
            *_LOG,
        ),
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
