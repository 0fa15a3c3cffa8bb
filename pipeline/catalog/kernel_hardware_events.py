"""Events of the kernel log about GPUs, adapters and PCIe."""

from __future__ import annotations

from pipeline.catalog.event_attributes import (
    DRIVER,
    INTERFACE,
    LINK,
    LOG,
    PCI,
    PID,
    PROCESS,
    SEVERITY,
)
from pipeline.catalog.fields import EventKind

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
            SEVERITY,
            ("registers", "register values in the order printed, hexadecimal, separated by blanks"),
            ("gpu_instance", "MIG GPU instance id"),
            ("compute_instance", "MIG compute instance id"),
            PCI,
            PID,
            PROCESS,
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
            *LOG,
        ),
    ),
    EventKind(
        "sxid",
        "The NVSwitch driver reported an SXID error.",
        (
            ("code", "SXID number"),
            SEVERITY,  # of codes that the driver prints without one, from our table
            ("switch", "number of the NVSwitch"),
            ("link", "link of the switch"),
            PCI,
            *LOG,
        ),
    ),
    EventKind(
        "module_loaded",
        "A GPU or RDMA driver was loaded, or took on a device.",
        (
            ("module", "name of the module"),
            ("version", "its version, or that of the device's firmware"),
            PCI,
            *LOG,
        ),
    ),
    EventKind(
        "module_unloaded",
        "A GPU or RDMA driver was unloaded.",
        (("module", "name of the module"), *LOG),
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
            SEVERITY,
            PCI,
            *LOG,
        ),
    ),
    EventKind(
        "hca_health",
        "The driver of an RDMA device reports that the device is not healthy.",
        (
            INTERFACE,
            PCI,
            ("reason", "health, fatal, temperature, power or cable"),
            *LOG,
        ),
    ),
    EventKind(
        "adapter_error",
        "The driver of a network or RDMA adapter reported an error.",
        (
            DRIVER,
            INTERFACE,
            (
                "reason",
                (
                    "command timeout, command failed, transmit timeout, admin queue closed, no "
                    "completion, no interrupt, device not ready, or the words of the driver"
                ),
            ),
            ("queue", "number of the transmit queue"),
            SEVERITY,
            PCI,
            *LOG,
        ),
    ),
    EventKind(
        "adapter_recovered",
        "The driver of an adapter reports that the adapter works again.",
        (DRIVER, INTERFACE, PCI, *LOG),
    ),
    EventKind("link_up", "A network, RDMA or PCIe link came up.", LINK),
    EventKind("link_down", "A network, RDMA or PCIe link went down, or is not active.", LINK),
    EventKind(
        "pcie_error",
        "PCIe advanced error reporting named a device.",
        (
            SEVERITY,
            ("layer", "physical, data link or transaction"),
            ("role", "receiver, transmitter, requester, ..."),
            ("reporter", "PCI address of the port that reported it"),
            PCI,
            *LOG,
        ),
    ),
    EventKind(
        "pcie_containment",
        "A PCIe port cut off what is below it (downstream port containment).",
        (
            SEVERITY,
            ("reason", "what the port detected"),
            ("reporter", "PCI address of the port, where the line names the device below it"),
            PCI,
            *LOG,
        ),
    ),
    EventKind(
        "pcie_recovery_failed",
        "The kernel could not recover a device after a PCIe error.",
        (SEVERITY, PCI, *LOG),
    ),
    EventKind("pcie_recovered", "The kernel recovered a device after a PCIe error.", (PCI, *LOG)),
    EventKind(
        "device_inaccessible",
        "A PCI device does not answer: its power state cannot be changed.",
        (DRIVER, ("reason", "the power state it is left in"), SEVERITY, PCI, *LOG),
    ),
)
