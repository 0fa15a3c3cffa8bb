"""Attributes that several kinds of events carry; each means the same in all of them."""

from __future__ import annotations

Attribute = tuple[str, str]

PCI: Attribute = (
    "pci",
    (
        "PCI address in lower case, of a GPU domain:bus:device, else with the function "
        "where the line names it"
    ),
)
PID: Attribute = ("pid", "process id in the host's namespace")
PROCESS: Attribute = ("process", "name of the process (comm), as the kernel knows it")
SEVERITY: Attribute = ("severity", "word of the reporter: fatal, nonfatal, corrected, uncorrected")
JOB: Attribute = ("job", "the scheduler's id of the job")
DRIVER: Attribute = ("driver", "name of the driver")
INTERFACE: Attribute = ("interface", "name of the interface, RDMA device or slot")
CPU: Attribute = ("cpu", "CPU number")
FILESYSTEM: Attribute = ("filesystem", "type of file system, such as ext4 or nfs")
BLOCK_DEVICE: Attribute = ("block_device", "block device or controller")
SERVER: Attribute = ("server", "server or target, as the kernel names it")
COUNT: Attribute = ("count", "equal lines that this event covers; absent means 1")

# Where a line of the kernel log was read. After a crash of the agent the last seconds are read
# again: stream, seq and last_seq show which lines an event stands for, so that what counts
# counts each once (pipeline/xid/once.py).
LOG: tuple[Attribute, ...] = (
    ("origin", "where it was seen: kmsg, journal, file, syslog, pstore or nvml"),
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
    COUNT,
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

LINK: tuple[Attribute, ...] = (
    DRIVER,
    INTERFACE,
    ("port", "number of the port of an RDMA device"),
    ("state", "state of an RDMA link, where the line names it: down, init, armed, active"),
    PCI,
    *LOG,
)
