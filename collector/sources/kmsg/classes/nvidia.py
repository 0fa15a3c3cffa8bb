"""NVIDIA's drivers: NVSwitch, GPU initialisation, firmware, NVLink, peer memory, modules.

XIDs have a parser of their own (xid_lines.py). Printing code: NVIDIA/open-gpu-kernel-modules.
"""

from __future__ import annotations

from collections.abc import Mapping

from collector.sources.kmsg.classes.model import PCI, Facts, LineClass, line

# Codes that the driver prints without a severity, with theirs (nvswitch_lib: NVSWITCH_PRINT_SXID;
# names: ctrl_dev_nvswitch.h; fatal or not: NVIDIA's Fabric Manager user guide, appendix on SXids).
# The switch is lost or shuts down: 10003 unhandled interrupt, 10006 thermal shutdown, 10007 I/O,
# 10008 firmware initialisation, 26001 to 26008 its SOE controller, 28003 and 28005 optics too hot.
# It goes on: 10004 and 28001 too warm. 10005, 28002 and 28004 say that this is over.
SXID_SEVERITIES: Mapping[int, str] = {
    **dict.fromkeys((10003, 10006, 10007, 10008, *range(26001, 26009), 28003, 28005), "fatal"),
    **dict.fromkeys((10001, 10002, 10004, 28001), "nonfatal"),
}
_SWITCH = rf"nvidia-nvswitch(?P<switch>\d{{1,3}}): SXid \(PCI:{PCI}\): (?P<code>\d{{1,6}}), "
# A GPU, a function or a file before a colon, or words that are longer than a process' name can be.
_NVRM = r"NVRM: (?=(?:\[GPU ?\d{1,3}\] )?(?:[\w .:@-]{2,80}?: |[\w .:@-]{12}))"
_OPEN = "open-gpu-kernel-modules src/nvidia"


def _severity(facts: Facts) -> Facts:
    severity = SXID_SEVERITIES.get(int(facts["code"]))
    return facts | ({"severity": severity} if severity else {})


def _nvrm(expression: str, reason: str, *, source: str = "", severity: str = "fatal") -> LineClass:
    return line(
        "gpu_driver_error",
        source or _OPEN,
        "NVRM:",
        expression,
        reason=reason,
        severity=severity,
    )


CLASSES: tuple[LineClass, ...] = (
    line(
        "sxid",
        "src/common/nvswitch/kernel/inc/common_nvswitch.h",
        "",
        _SWITCH + r"(?P<severity>Fatal|Non-fatal)(?:, Link (?P<link>\d{1,3})\b)?",
        needle="SXid",
    ),
    line(
        "sxid",
        "src/common/nvswitch/kernel/soe/soe_nvswitch.c",
        "",
        _SWITCH + r"(?!Severity |Data |Link |Instance |.{0,60}\bdata\[)[^\n]{1,200}",
        needle="SXid",
        complete=_severity,
    ),
    _nvrm(
        rf"NVRM: GPU {PCI}: (?:RmInitAdapter|rm_init_adapter) failed!?,?"
        r"(?: \((?P<status>0x[0-9a-f]{1,8}(?::[0-9a-fx]{1,10}){0,3})\))?",
        "initialisation failed",
    ),
    _nvrm(
        rf"NVRM: GPU {PCI}: (?:Failed to initialize|GPU does not have the necessary|"
        r"Unable to initialize|Cannot initialize GSP)",
        "initialisation failed",
    ),
    _nvrm(
        _NVRM + r".{0,120}?(?:Cannot initialize GSP firmware RM|failed to initialize GSP)",
        "initialisation failed",
    ),
    _nvrm(
        _NVRM + r".{0,120}?GPU is probably locked",
        "locked",
        source=f"{_OPEN}/src/kernel/gpu/rc/kernel_rc_watchdog.c",
    ),
    _nvrm(
        _NVRM + r".{0,120}?(?:GSP .{0,60}?[Tt]imeout|[Tt]imeout .{0,60}?\bGSP\b|"
        r"_kgspRpcRecvPoll: .{0,80}?(?:timed? ?out|timeout))",
        "GSP timeout",
        source=f"{_OPEN}/src/kernel/gpu/gsp/kernel_gsp.c",
    ),
    _nvrm(_NVRM + r".{0,300}?\bNV_ERR_TIMEOUT\b.{0,200}?(?:[Rr]pc|RPC|[Gg]sp|GSP)", "GSP timeout"),
    _nvrm(_NVRM + r".{0,300}?\bNV_ERR_GPU_IS_LOST\b", "GPU lost"),
    _nvrm(_NVRM + r".{0,300}?\bNV_ERR_RESET_REQUIRED\b", "reset required"),
    _nvrm(
        _NVRM + r".{0,120}?(?:postRxDetLinkMask failed|Failed to update Rx Detect Link mask)",
        "NVLink discovery failed",
        source=f"{_OPEN}/src/kernel/gpu/nvlink/kernel_nvlink.c",
    ),
    _nvrm(
        _NVRM
        + r".{0,300}?(?:NV_ERR_[A-Z_]{1,60}.{0,200}?(?:mem_?[Mm]ulticast_?[Ff]abric|mem_fabric|"
        r"[Ii]mex)|(?:mem_?[Mm]ulticast_?[Ff]abric|[Ii]mex|IMEX).{0,200}?(?:NV_ERR_|fail|[Ee]rror))",
        "multicast or IMEX",
        source=f"{_OPEN}/src/kernel/mem_mgr/mem_multicast_fabric.c",
        severity="nonfatal",
    ),
    line(
        "gpu_driver_error",
        "kernel-open/nvidia-peermem/nvidia-peermem.c",
        "nvidia-peermem nvidia_peermem:",
        r"nvidia[-_]peermem[^\[]{0,80}?\bERROR (?:detected )?(?:invalid context|.{1,80})",
        reason="peer memory",
        severity="nonfatal",
    ),
    line(
        "module_loaded",
        "kernel-open/nvidia/nv.c",
        "NVRM:",
        r"NVRM: loading NVIDIA UNIX .{0,80}?Kernel Module .{0,40}? "
        r"(?P<version>\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\b",
        module="nvidia",
    ),
    line(
        "module_loaded",
        "kernel-open/nvidia-uvm/uvm.c",
        "nvidia-uvm:",
        r"nvidia-uvm: Loaded the UVM driver",
        module="nvidia_uvm",
    ),
    line(
        "module_unloaded",
        "kernel-open/nvidia-uvm/uvm.c",
        "nvidia-uvm:",
        r"nvidia-uvm: Unloaded the UVM driver",
        module="nvidia_uvm",
    ),
    line(
        "module_unloaded",
        "kernel-open/nvidia/nvlink_linux.c",
        "nvidia-nvlink:",
        r"nvidia-nvlink: Unregistered (?:the )?Nvlink Core",
        module="nvidia",
    ),
)
