"""What each event of the kernel log means for its node: a table, the gravest rule of an event
first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.finding import Action, Severity

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
BAD = ("fatal", "uncorrected")
# mcelog.conf(5): mem-ce-error-threshold = 100 / 24h, of a socket's memory.
CORRECTED_PER_DAY = 100
# What the kernel has for all; a job's own limit is no want of the node.
RESOURCES = ("open files", "connection tracking", "neighbour table", "TCP memory", "processes")
OWN_PROCESSES = "processes of a job"
# "Minion Link DLREQ interrupt" of a link that comes up at a boot or reset: NVIDIA's Fabric Manager
# user guide, appendix on SXids, has it among the errors that can be ignored. Old switches call it
# fatal.
LINK_REQUEST = 22013
# The port that cut a device off: the line of its recovery names that port alone.
REPORTER = "reporter"


@dataclass(frozen=True, slots=True)
class Rule:
    """An event of a kind, whose attributes are as in ``where``, is a fault.

    ``least`` events within ``within_s``; each counts as many as its attribute ``counted`` says.
    ``confirm_s``: so long nothing of ``clears``, the kinds of event that end it, may follow; with
    none of them it ends with the boot, or after ``quiet_s`` without another event (0: never).
    ``thing``: the attribute that names what is broken; what ends must have the same.
    ``with_job`` is the severity where a job runs on the node, ``on_node`` that of an event of no
    device that is read. ``of_a_job``: it is the affair of the job that the event names, whatever
    else runs there. ``by_reset``: a reset of the GPU ends it too, of any where none is named.
    """

    kind: str
    fault: str
    severity: Severity
    action: Action
    words: str
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    least: int = 1
    within_s: float = HOUR_S
    counted: str = ""
    confirm_s: float = 0.0
    clears: tuple[str, ...] = ()
    quiet_s: float = 0.0
    thing: str = ""
    with_job: Severity | None = None
    on_node: Severity | None = None
    of_a_job: bool = False
    by_reset: bool = False


def _host(kind: str, fault: str, severity: Severity, words: str, least: int, **more: float) -> Rule:
    within_s, quiet_s = more.get("within_s", 10 * MINUTE_S), more.get("quiet_s", HOUR_S)
    return Rule(
        kind, fault, severity, "RESTART_BM", words,
        least=least, within_s=within_s, quiet_s=quiet_s,
    )  # fmt: skip


KERNEL = (
    Rule("kernel_panic", "host/panic", "page", "RESTART_BM", "the kernel panicked: {reason}"),
    Rule(
        "kernel_oops",
        "host/oops",
        "ticket",
        "RESTART_BM",
        "the kernel hit an error of its own ({reason}) and runs on in an unknown state",
    ),
    Rule("hard_lockup", "host/lockup", "page", "RESTART_BM", "CPU {cpu} takes no interrupts"),
    # A CPU that stays stuck is reported every 22 s or so (kernel/watchdog.c); a virtual machine
    # that was paused, or a console that is slow, gives one report.
    _host("soft_lockup", "host/lockup", "page", "CPU {cpu} is stuck in the kernel", 5),
    _host("soft_lockup", "host/lockup", "ticket", "CPU {cpu} was stuck in the kernel", 2),
    _host("rcu_stall", "host/rcu_stall", "ticket", "CPUs hold up the kernel ({reason})", 3),
    _host(
        "workqueue_stall", "host/rcu_stall", "ticket", "a work queue of the kernel stands still", 3
    ),
    _host("hung_task", "host/hung_task", "ticket", "process {process} waits in the kernel", 3),
    Rule(
        "resource_exhausted",
        "host/exhausted",
        "ticket",
        "CONTACT_SUPPORT",
        "the kernel has run out of {resource}",
        where={"resource": RESOURCES},
        quiet_s=HOUR_S,
    ),
    Rule(
        "resource_exhausted",
        "host/own_limit",
        "record",
        "RESTART_APP",
        "job {job} has reached the limit of {resource} that was set for it",
        where={"resource": (OWN_PROCESSES,)},
        quiet_s=HOUR_S,
        of_a_job=True,
    ),
    Rule(
        "cpu_throttled",
        "host/cpu_hot",
        "ticket",
        "CONTACT_SUPPORT",
        "CPUs are too hot and run slower",
        confirm_s=10 * MINUTE_S,
        clears=("cpu_throttle_ended",),
        quiet_s=HOUR_S,
    ),
    Rule(
        "oom_kill",
        "host/oom",
        "record",
        "RESTART_APP",
        "memory ran out and process {process} was killed",
        with_job="ticket",
        quiet_s=HOUR_S,
    ),
)
HARDWARE = (
    *(
        Rule(
            kind,
            "host_hardware/uncorrected",
            "page",
            "CONTACT_SUPPORT",
            words,
            where={"severity": BAD},
            quiet_s=DAY_S,
        )
        for kind, words in (
            ("machine_check", "a processor reports an uncorrected error (bank {bank})"),
            ("edac", "memory module {dimm} has an uncorrected error"),
            ("hardware_error", "the firmware reports an uncorrected error ({component})"),
        )
    ),
    *(
        Rule(
            kind,
            "host_hardware/corrected",
            "ticket",
            "CONTACT_SUPPORT",
            words,
            where={"severity": ("corrected",)},
            least=CORRECTED_PER_DAY,
            within_s=DAY_S,
            counted="errors" if kind == "edac" else "",
            quiet_s=DAY_S,
        )
        for kind, words in (
            ("machine_check", "a processor corrects many errors (bank {bank})"),
            ("edac", "memory module {dimm} has many corrected errors"),
            ("hardware_error", "the firmware reports many corrected errors ({component})"),
        )
    ),
    Rule(
        "memory_failure",
        "host_hardware/uncorrected",
        "page",
        "CONTACT_SUPPORT",
        "a broken page of memory could not be taken out of use",
        where={"outcome": ("failed",)},
        quiet_s=DAY_S,
    ),
    Rule(
        "memory_failure",
        "host_hardware/page_retired",
        "ticket",
        "CONTACT_SUPPORT",
        "a broken page of memory was taken out of use",
        where={"outcome": ("recovered", "delayed", "killed", "signalled")},
        quiet_s=DAY_S,
    ),
)
STORAGE = (
    Rule(
        "network_filesystem_error",
        "storage/server",
        "ticket",
        "CONTACT_SUPPORT",
        "{filesystem} server {server} does not respond",
        confirm_s=MINUTE_S,
        clears=("network_filesystem_recovered",),
        quiet_s=6 * HOUR_S,
        thing="server",
        with_job="page",
    ),
    Rule(
        "filesystem_read_only",
        "storage/read_only",
        "ticket",
        "CONTACT_SUPPORT",
        "the {filesystem} file system on {block_device} became read-only",
        clears=("filesystem_recovered",),
        thing="block_device",
        with_job="page",
    ),
    Rule(
        "filesystem_error",
        "storage/filesystem",
        "ticket",
        "CONTACT_SUPPORT",
        "the {filesystem} file system on {block_device} has errors",
        clears=("filesystem_recovered",),
        quiet_s=DAY_S,
        thing="block_device",
    ),
    Rule(
        "storage_error",
        "storage/disk",
        "ticket",
        "CONTACT_SUPPORT",
        "{block_device}: {reason}",
        where={"severity": ("fatal",)},
        clears=("storage_recovered",),
        quiet_s=DAY_S,
        thing="block_device",
        with_job="page",
    ),
    Rule(
        "storage_error",
        "storage/disk",
        "ticket",
        "CONTACT_SUPPORT",
        "{block_device}: {reason}, repeatedly",
        least=3,
        clears=("storage_recovered",),
        quiet_s=DAY_S,
        thing="block_device",
    ),
)
DEVICES = (
    Rule(
        "sxid",
        "nvswitch/fatal",
        "page",
        "RESTART_BM",
        "NVSwitch {switch} reports a fatal error, SXID {code}",
        where={"severity": ("fatal",)},
        thing="switch",
    ),
    Rule(
        "sxid",
        "nvswitch/nonfatal",
        "ticket",
        "CONTACT_SUPPORT",
        "NVSwitch {switch} reports SXID {code} repeatedly",
        least=10,
        quiet_s=DAY_S,
    ),
    Rule(
        "gpu_driver_error",
        "gpu_driver/fatal",
        "page",
        "RESTART_BM",
        "the driver reports a failure: {reason}",
        where={"severity": ("fatal",)},
        by_reset=True,
    ),
    Rule(
        "gpu_unavailable",
        "gpu_driver/fatal",
        "page",
        "RESTART_BM",
        "the driver announces that it cannot use the GPU",
        clears=("device_appeared",),
    ),
    Rule(
        "memory_retirement_failed",
        "ecc/remap_failed",
        "page",
        "RUN_FIELDDIAG",
        "the driver could not take a broken part of the GPU's memory out of use",
        quiet_s=DAY_S,
    ),
    Rule(
        "pcie_containment",
        "pcie/contained",
        "page",
        "RESTART_BM",
        "PCI device {pci} was cut off by its port after an error",
        clears=("pcie_recovered",),
        thing=REPORTER,
        on_node="ticket",
    ),
    Rule(
        "pcie_recovery_failed",
        "pcie/contained",
        "page",
        "RESTART_BM",
        "the kernel could not recover PCI device {pci} after an error",
        clears=("pcie_recovered",),
        on_node="ticket",
    ),
    Rule(
        "device_inaccessible",
        "pcie/contained",
        "page",
        "RESTART_BM",
        "PCI device {pci} does not answer on the bus",
        clears=("pcie_recovered",),
        on_node="ticket",
    ),
    Rule(
        "adapter_error",
        "adapter/fatal",
        "page",
        "RESTART_BM",
        "the driver of adapter {interface} reports a fatal error: {reason}",
        where={"severity": ("fatal",)},
        clears=("adapter_recovered",),
        on_node="ticket",
    ),
    Rule(
        "adapter_error",
        "adapter/errors",
        "ticket",
        "CONTACT_SUPPORT",
        "the driver of adapter {interface} reports again and again: {reason}",
        least=3,
        within_s=10 * MINUTE_S,
        clears=("adapter_recovered",),
        quiet_s=6 * HOUR_S,
    ),
)
RULES: tuple[Rule, ...] = (*KERNEL, *HARDWARE, *STORAGE, *DEVICES)
# An event of a newer agent, or of a plug-in: somebody must look, as nobody here can judge it.
UNKNOWN = Rule(
    "",
    "host/unknown_event",
    "ticket",
    "CONTACT_SUPPORT",
    "an event was reported of a kind that this version does not know: {kind}",
    thing="kind",
    quiet_s=24 * HOUR_S,
)
EVERY: tuple[Rule, ...] = (*RULES, UNKNOWN)
# What ends a boot that nobody asked for, by the kind of its last event.
CRASHES: Mapping[str, str] = {
    "kernel_panic": "the kernel panicked",
    "hard_lockup": "a CPU was locked up",
    "machine_check": "a processor reported a fatal error",
    "hardware_error": "the firmware reported a fatal error",
}
