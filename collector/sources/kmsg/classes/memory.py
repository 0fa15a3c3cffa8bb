"""Memory and processor of the host: machine checks, EDAC, firmware error records, memory failure,
heat; and who was killed when memory ran out.
"""

from __future__ import annotations

from collector.sources.kmsg.classes.model import COMM, NAME, Facts, LineClass, line

# Bits of MCi_STATUS (Intel SDM volume 3, 17.3.2.2; AMD APM volume 2, 9.3.2.1)
_UNCORRECTED, _CONTEXT_CORRUPT = 1 << 61, 1 << 57
_GPU_LIBRARY = (
    r"(?P<library>lib(?:cu|nv|nccl|torch_cuda|c10_cuda|ibverbs|mlx|rdmacm|uc[mpst]\b|fabric)[^ "
    r"\[]{0,120})"
)
_MCE = r"(?:mce: )?\[Hardware Error\]: "


def _bank(facts: Facts) -> Facts:
    """Severity by the status register: an exception is fatal where the context is corrupt."""
    status = int(str(facts["status"]), 16)
    if not status & _UNCORRECTED:
        return facts | {"severity": "corrected"}
    return facts | {"severity": "fatal" if status & _CONTEXT_CORRUPT else "uncorrected"}


CLASSES: tuple[LineClass, ...] = (
    line(
        "machine_check",
        "arch/x86/kernel/cpu/mce/core.c",
        "mce:",
        r"mce: \[Hardware Error\]: CPU (?P<cpu>\d{1,5}): Machine Check[^:]{0,20}: "
        r"[0-9a-f]{1,16} Bank (?P<bank>\d{1,3})(?:: (?P<status>[0-9a-f]{1,16}))?",
        complete=lambda facts: _bank(facts) if "status" in facts else facts,
    ),
    line(
        "machine_check",
        "arch/x86/kernel/cpu/mce/core.c",
        "mce:",
        r"mce: \[Hardware Error\]: Machine check events logged",
    ),
    line(
        "machine_check",
        "arch/x86/kernel/cpu/mce/core.c",
        "mce:",
        r"mce: (?P<severity>Uncorrected) hardware memory error",
    ),
    line(
        "machine_check",
        "drivers/edac/mce_amd.c",
        "[Hardware mce:",
        _MCE + r"(?P<severity>Corrected|Uncorrected|Deferred|System Fatal)[^.\n]{0,40} error[,.]",
    ),
    line(
        "machine_check",
        "arch/arm64/kernel/traps.c",
        "SError",
        r"SError Interrupt on CPU(?P<cpu>\d{1,5})",
        severity="fatal",
    ),
    line(
        "edac",
        "drivers/edac/edac_mc.c",
        "EDAC",
        r"EDAC (?:[^ ]{1,32} )?MC\d{1,3}: (?P<errors>\d{1,10}) (?P<severity>CE|UE) "
        r"(?:[^\[]{0,200}? )?on (?P<dimm>[^ ]{1,120})",
    ),
    line(
        "memory_failure",
        "mm/memory-failure.c",
        "Memory",
        r"Memory failure: (?P<address>0x[0-9a-f]{1,16}): recovery action for [^:]{1,80}: "
        r"(?P<outcome>Recovered|Failed|Ignored|Delayed)",
    ),
    line(
        "memory_failure",
        "mm/memory-failure.c",
        "Memory",
        r"Memory failure: (?P<address>0x[0-9a-f]{1,16}): (?P<outcome>Killing|Sending SIGBUS to) "
        rf"{COMM}:(?P<pid>\d{{1,10}}) (?:due to hardware memory corruption|because)",
    ),
    line(
        "memory_failure",
        "mm/memory-failure.c",
        "MCE Memory",
        r"(?:MCE|Memory failure:) (?P<address>0x[0-9a-f]{1,16}): [^\[]{0,60}?"
        r"(?P<outcome>unhandlable page|reserved kernel page|unsplit thp|already hardware poisoned)",
    ),
    line(
        "cpu_throttled",
        "arch/x86/kernel/cpu/mce/therm_throt.c",
        "",
        r"(?:mce: |CMCI storm detected: )?CPU ?(?P<cpu>\d{1,5}): (?P<component>Package|Core) "
        r"temperature (?:is )?above threshold",
        needle="temperature",
    ),
    line(
        "cpu_throttle_ended",
        "arch/x86/kernel/cpu/mce/therm_throt.c",
        "",
        r"(?:mce: )?CPU ?(?P<cpu>\d{1,5}): (?P<component>Package|Core) temperature/speed normal",
        needle="temperature",
    ),
    line(
        "oom_kill",
        "mm/oom_kill.c",
        "Memory Out",
        r"(?:Memory cgroup out of memory|Out of memory[^:]{0,80}): Kill(?:ed)? process "
        rf"(?P<pid>\d{{1,10}}) \({COMM}\),? (?:total-vm|UID|score)",
    ),
    line(
        "segfault",
        "arch/x86/mm/fault.c",
        "",
        rf"(?P<process>{NAME})\[(?P<pid>\d{{1,10}})\]: segfault at .{{0,120}}? in {_GPU_LIBRARY}\[",
        needle="]: segfault at ",
    ),
    line(
        "segfault",
        "arch/x86/kernel/traps.c",
        "traps:",
        rf"traps: (?P<process>{NAME})\[(?P<pid>\d{{1,10}})\] general protection .{{0,120}}? "
        rf"in {_GPU_LIBRARY}\[",
    ),
)
