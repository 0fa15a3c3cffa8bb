"""The lines of the host that matter, one row each. Group names are the attributes of the event.

Every expression is anchored at the start of the text and has no nested repetition: time is linear
in the line's length. The words are those of the kernel's printk calls (mm/oom_kill.c,
drivers/pci/pcie/aer.c, drivers/edac, arch/x86/kernel/cpu/mce, kernel/hung_task.c,
kernel/watchdog.c, fs/ext4, fs/xfs, fs/btrfs, net/sunrpc, drivers/net/ethernet/mellanox/mlx5), of
Lustre and of NVIDIA's drivers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pipeline.observation import Value

PCI = r"(?P<pci>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
# a command name is 15 bytes; it may hold brackets and colons, so it is bounded, not excluded
_COMM = r"(?P<process>.{0,64})"
_GPU_LIBRARY = (
    r"(?P<library>lib(?:cu|nv|nccl|torch_cuda|c10_cuda|ibverbs|mlx|rdmacm|uc[mpst]\b|fabric)[^ "
    r"\[]{0,120})"
)


class Pattern(NamedTuple):
    """One kind of line: ``needle`` stands in every such line and spares
    most lines the expression.
    """

    kind: str
    needle: str
    expression: re.Pattern[str]
    constants: tuple[tuple[str, Value], ...] = ()


def _row(kind: str, needle: str, expression: str, **constants: Value) -> Pattern:
    return Pattern(kind, needle, re.compile(expression, re.DOTALL), tuple(constants.items()))


_MLX5 = rf"mlx5_core {PCI}(?: (?P<interface>[^ :]{{1,32}}))?: "

PATTERNS: tuple[Pattern, ...] = (
    _row(
        "sxid",
        "SXid",
        rf"nvidia-nvswitch(?P<switch>\d{{1,3}}): SXid \(PCI:{PCI}\): (?P<code>\d{{1,6}}), "
        r"(?P<severity>Fatal|Non-fatal)(?:, Link (?P<link>\d{1,3})\b)?",
    ),
    _row("link_up", "Link up", _MLX5 + r"Link up\b", driver="mlx5_core"),
    _row("link_down", "Link down", _MLX5 + r"Link down\b", driver="mlx5_core"),
    _row(
        "link_down",
        "pciehp: Slot",
        (
            rf"pcieport {PCI}: pciehp: Slot\((?P<interface>[^)]{{1,32}})\): (?:Link "
            r"Down|Card not present)"
        ),
        driver="pciehp",
    ),
    _row(
        "link_up",
        "pciehp: Slot",
        rf"pcieport {PCI}: pciehp: Slot\((?P<interface>[^)]{{1,32}})\): Link Up",
        driver="pciehp",
    ),
    _row(
        "hca_health",
        "mlx5_core",
        _MLX5 + r"poll_health:.{0,40}?health compromised",
        reason="health",
    ),
    _row(
        "hca_health", "mlx5_core", _MLX5 + r".{0,60}?Fatal error \d{1,4} detected", reason="fatal"
    ),
    _row(
        "hca_health",
        "mlx5_core",
        _MLX5 + r".{0,60}?(?:High temperature|temperature .{0,40}warning)",
        reason="temperature",
    ),
    _row("hca_health", "mlx5_core", _MLX5 + r".{0,60}?insufficient power", reason="power"),
    _row("hca_health", "mlx5_core", _MLX5 + r"Port module event\[error\]", reason="cable"),
    _row(
        "pcie_error",
        "PCIe Bus Error: severity=",
        (
            rf"[^ ]{{1,64}} {PCI}: (?:AER: )?PCIe Bus Error: severity=(?P<severity>[^,]{{1,40}}), "
            r"type=(?P<layer>[^,]{1,40}), (?:id=[0-9a-f]{1,8})?\(?(?P<role>[^)]{0,40})"
        ),
    ),
    _row(
        "oom_kill",
        "Killed process ",
        (
            r"(?:Memory cgroup out of memory|Out of memory[^:]{0,80}): Killed process "
            rf"(?P<pid>\d{{1,10}}) \({_COMM}\),? (?:total-vm|UID)"
        ),
    ),
    _row(
        "machine_check",
        "[Hardware Error]: ",
        (
            r"mce: \[Hardware Error\]: CPU (?P<cpu>\d{1,5}): Machine Check[^:]{0,20}: "
            r"[0-9a-f]{1,16} Bank (?P<bank>\d{1,3})"
        ),
    ),
    _row(
        "machine_check",
        "[Hardware Error]: ",
        r"mce: \[Hardware Error\]: Machine check events logged",
    ),
    _row(
        "edac",
        "EDAC ",
        (
            r"EDAC (?:[^ ]{1,32} )?MC\d{1,3}: (?P<errors>\d{1,10}) (?P<severity>CE|UE) .{0,200}? "
            r"on (?P<dimm>[^ ]{1,120})"
        ),
    ),
    _row(
        "hung_task",
        "blocked ",
        (
            rf"INFO: task {_COMM}:(?P<pid>\d{{1,10}}) blocked (?:in I/O wait )?for more than "
            r"(?P<seconds>\d{1,10}) seconds"
        ),
    ),
    _row(
        "soft_lockup",
        "soft lockup",
        (
            r"(?:watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d{1,5}) stuck for "
            rf"(?P<seconds>\d{{1,8}})s! \[{_COMM}:(?P<pid>\d{{1,10}})\]"
        ),
    ),
    _row(
        "filesystem_error",
        "EXT4-fs",
        r"EXT4-fs (?:error|warning) \(device (?P<block_device>[^)]{1,64})\)",
        filesystem="ext4",
    ),
    _row(
        "filesystem_error",
        "EXT4-fs",
        (
            r"EXT4-fs \((?P<block_device>[^)]{1,64})\): (?:Remounting filesystem "
            r"read-only|.{0,60}I/O error)"
        ),
        filesystem="ext4",
    ),
    _row(
        "filesystem_error",
        "XFS (",
        (
            r"XFS \((?P<block_device>[^)]{1,64})\): .{0,120}?(?:[Cc]orruption|I/O "
            r"error|[Ss]hut(?:ting)? ?down)"
        ),
        filesystem="xfs",
    ),
    _row(
        "filesystem_error",
        "BTRFS ",
        r"BTRFS (?:error|critical) \(device (?P<block_device>[^ )]{1,64})[^)]{0,40}\)",
        filesystem="btrfs",
    ),
    _row(
        "filesystem_error",
        "I/O error, dev ",
        (
            r"(?:blk_update_request: |critical medium error|print_req_error: )?(?:critical )?I/O "
            r"error, dev (?P<block_device>[^, ]{1,64}),"
        ),
        filesystem="block",
    ),
    _row(
        "network_filesystem_error",
        "nfs: server",
        r"nfs: server (?P<server>[^ ]{1,255}) (?:not responding|is not responding|timed out)",
        filesystem="nfs",
    ),
    _row(
        "network_filesystem_error",
        "LustreError: ",
        r"LustreError: (?:\d{1,10}-[0-9a-f]{1,4}: (?P<server>[^ :]{1,120}))?",
        filesystem="lustre",
    ),
    _row(
        "network_filesystem_error",
        "Lustre: ",
        r"Lustre: [^ ]{1,160}: Connection to (?P<server>[^ ]{1,120}) .{0,80}was lost",
        filesystem="lustre",
    ),
    _row(
        "segfault",
        "]: segfault at ",
        rf"{_COMM}\[(?P<pid>\d{{1,10}})\]: segfault at .{{0,120}}? in {_GPU_LIBRARY}\[",
    ),
    _row(
        "segfault",
        "general protection",
        (
            rf"traps: {_COMM}\[(?P<pid>\d{{1,10}})\] general protection .{{0,120}}? "
            rf"in {_GPU_LIBRARY}\["
        ),
    ),
    _row(
        "module_loaded",
        "NVRM: loading NVIDIA",
        (
            r"NVRM: loading NVIDIA UNIX .{0,80}?Kernel Module .{0,40}? "
            r"(?P<version>\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\b"
        ),
        module="nvidia",
    ),
    _row(
        "module_loaded", "nvidia-uvm: ", r"nvidia-uvm: Loaded the UVM driver", module="nvidia_uvm"
    ),
    # Of each adapter as its driver takes it on (mlx5/core/main.c).
    _row(
        "module_loaded",
        "firmware version: ",
        rf"mlx5_core {PCI}: firmware version: (?P<version>\d{{1,3}}\.\d{{1,4}}\.\d{{1,5}})",
        module="mlx5_core",
    ),
    _row(
        "module_unloaded",
        "nvidia-uvm: ",
        r"nvidia-uvm: Unloaded the UVM driver",
        module="nvidia_uvm",
    ),
    _row(
        "module_unloaded",
        "nvidia-nvlink: ",
        r"nvidia-nvlink: Unregistered (?:the )?Nvlink Core",
        module="nvidia",
    ),
    _row(
        "kernel_log_suppressed",
        " suppressed",
        (
            r"(?:printk: )?(?P<by>[^:]{1,64}): (?P<records>\d{1,10}) (?:output lines suppressed "
            r"due to ratelimiting|callbacks suppressed)"
        ),
    ),
)

NUMBERS = frozenset(
    ["bank", "code", "cpu", "errors", "link", "pid", "records", "seconds", "switch"]
)  # attributes of PATTERNS that are numbers

WORDS: dict[str, str] = {  # the kernel's spellings of one thing, in ours
    "CE": "corrected",
    "Corrected": "corrected",
    "Correctable": "corrected",
    "UE": "uncorrected",
    "Fatal": "fatal",
    "Non-fatal": "nonfatal",
    "Nonfatal": "nonfatal",
    "Uncorrected (Fatal)": "fatal",
    "Uncorrectable (Fatal)": "fatal",
    "Uncorrected (Non-Fatal)": "nonfatal",
    "Uncorrectable (Non-Fatal)": "nonfatal",
    "Physical Layer": "physical",
    "Data Link Layer": "data link",
    "Transaction Layer": "transaction",
    "Inaccessible": "inaccessible",
    "Receiver ID": "receiver",
    "Transmitter ID": "transmitter",
    "Requester ID": "requester",
    "Completer ID": "completer",
    "Unregistered Agent ID": "unregistered",
}
