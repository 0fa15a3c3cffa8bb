"""Lines of the simulated kernel log, in the forms the drivers print: nvidia (NVRM), mlx5_core,
pcieport (AER), the memory manager.

Forms: NVIDIA's XID catalogue and the open kernel modules' nvidia.ko (``NVRM: Xid (PCI:...)``),
Linux drivers/net/ethernet/mellanox/mlx5, drivers/pci/pcie/aer.c, mm/oom_kill.c.
"""

from __future__ import annotations

from dataclasses import dataclass

ERROR, WARNING, INFO = 3, 4, 6  # printk levels of facility 0 (kernel)

NOBODY = "pid='<unknown>', name=<unknown>"

# What follows pid and name, by code; codes that are not here end after the number, as drivers
# print when they know no more.
_XID_TEXTS = {
    8: "Ch 00000008",
    13: "Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM {sm}): Out Of Range Address",
    31: (
        "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_{sm} faulted @ "
        "0x7f2a_4c000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    ),
    43: "Ch 00000010",
    45: "Ch 00000010",
    48: (
        "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at "
        "partition {gpc}, subpartition {sm}."
    ),
    62: "0x{tpc:04x}{gpc:04x} 00000000 00000000 00000000",
    63: (
        "Row Remapper: New row (0x0000000000a1b{tpc:x}c{gpc:x}) marked for remapping, "
        "reset gpu to activate."
    ),
    64: (
        "Row Remapper: Failed to remap row (0x0000000000a1b{tpc:x}c{gpc:x}), all spare rows of "
        "the bank are in use."
    ),
    74: "NVLink: fatal error detected on link {link}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    92: "High single-bit ECC error rate detected.",
    94: "Contained: CE User Channel (0x9). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    109: "Ch 00000010, errorString CTX SWITCH TIMEOUT, Info 0x{tpc:x}c{gpc:03x}",
    119: (
        "Timeout after 6s of waiting for RPC response from GPU{gpu} GSP! Expected function 76 "
        "(GSP_RM_CONTROL) (0x20802a02 0x8)."
    ),
    120: "GSP task timeout @ pc:0x{tpc:x}fe{gpc:x}20, task: 1",
    145: (
        "RLW_SRC_TRACK Nonfatal XC0 i0 Link {link:02d} (0x004004c6 0x00000004 0x00000000 "
        "0x00000000 0x00000000 0x00000000)"
    ),
    149: (
        "NETIR_LINK_EVT Fatal XC0 i0 Link {link:02d} (0x004004c6 0x00000000 0x00000000 0x00000000 "
        "0x00000000 0x00000000)"
    ),
    154: "GPU recovery action changed from 0x0 (None) to {action}",
    171: "Uncorrectable DRAM error at physical address 0x0000000a1b{tpc:x}c{gpc:x}00",
    172: "Uncorrectable SRAM error in L2 slice {gpc}",
}
# Codes about a channel of a process name it; the others concern the GPU.
_OF_A_PROCESS = frozenset({8, 13, 31, 32, 43, 45, 68, 69, 94, 109, 119})

# NVML's recovery actions (nvml.h, nvmlDeviceGpuRecoveryAction_t) as XID 154 prints them.
RECOVERY_ACTIONS = {
    0: "0x0 (None)",
    1: "0x1 (GPU Reset Required)",
    2: "0x2 (Node Reboot Required)",
    3: "0x3 (Drain P2P)",
    4: "0x4 (Drain and Reset)",
    5: "0x5 (Recover IMEX Domain)",
}


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One record: printk level (facility kernel), text, and the device dictionary
    that follows in /dev/kmsg.
    """

    level: int
    text: str
    dictionary: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Xid:
    """An XID as the driver prints it.

    ``pci`` without function; ``pid`` 0 is unknown; ``instance`` is the MIG GPU instance or -1.
    """

    gpu: int
    pci: str
    code: int
    pid: int = 0
    name: str = "python3"
    instance: int = -1
    link: int = 0
    action: int = 1
    gpc: int = 2
    tpc: int = 4
    sm: int = 1

    def line(self) -> KernelLine:
        """The record.

        >>> Xid(0, "0000:1b:00", 79).line().text
        "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        >>> Xid(3, "0000:61:00", 13, pid=7, instance=5).line().text
        'NVRM: Xid (PCI:0000:61:00 GPU-I:05): 13, pid=7, name=python3, Graphics SM Warp Exception on (GPC 2, TPC 4, SM 1): Out Of Range Address'
        >>> Xid(0, "0000:1b:00", 999).line().text
        'NVRM: Xid (PCI:0000:1b:00): 999'
        """  # noqa: E501 - an example or a table
        where = f"PCI:{self.pci}" + (f" GPU-I:{self.instance:02d}" if self.instance >= 0 else "")
        head = f"NVRM: Xid ({where}): {self.code}"
        form = _XID_TEXTS.get(self.code)
        if form is None:
            return KernelLine(ERROR, head)
        who = (
            f"pid={self.pid}, name={self.name}"
            if self.pid and self.code in _OF_A_PROCESS
            else NOBODY
        )
        parts = {k: getattr(self, k) for k in ("gpu", "link", "gpc", "tpc", "sm")}
        return KernelLine(
            ERROR,
            (
                f"{head}, {who},"
                f" {form.format(action=RECOVERY_ACTIONS.get(self.action, hex(self.action)), **parts)}"  # noqa: E501 - no place to break
            ),
        )


def fallen_off_the_bus(pci: str) -> KernelLine:
    """The line without a code that the driver prints beside XID 79."""
    return KernelLine(ERROR, f"NVRM: GPU {pci}.0: GPU has fallen off the bus.")


def mlx5_link(pci: str, net: str, *, up: bool) -> KernelLine:
    """The adapter's port changed its state."""
    return KernelLine(
        INFO if up else WARNING,
        f"mlx5_core {pci} {net}: Link {'up' if up else 'down'}",
        _device(pci),
    )


def mlx5_health(pci: str) -> KernelLine:
    """The adapter's firmware stopped answering."""
    return KernelLine(
        ERROR,
        (
            f"mlx5_core {pci}: poll_health:825:(pid 0): device's health compromised "
            "- reached miss count"
        ),
        _device(pci),
    )


def aer_corrected(pci: str) -> tuple[KernelLine, ...]:
    """Two lines for one corrected PCIe error."""
    bridge = f"{pci[:5]}{max(int(pci[5:7], 16) - 1, 0):02x}:01.0"
    return (
        KernelLine(
            WARNING,
            f"pcieport {bridge}: AER: Corrected error message received from {pci}",
            _device(bridge),
        ),
        KernelLine(
            WARNING,
            f"nvidia {pci}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
            _device(pci),
        ),
    )


def oom_kill(pid: int, name: str) -> KernelLine:
    """The kernel killed a process for memory."""
    return KernelLine(
        ERROR,
        (
            f"Out of memory: Killed process {pid} ({name}) total-vm:1837294512kB, "
            "anon-rss:1790233344kB, file-rss:2048kB, shmem-rss:81920kB, UID:1000 "
            "pgtables:3547112kB oom_score_adj:0"
        ),
    )


def _device(pci: str) -> tuple[tuple[str, str], ...]:
    return (("SUBSYSTEM", "pci"), ("DEVICE", f"+pci:{pci}"))
