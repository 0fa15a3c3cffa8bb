"""Troubles of the host's memory and processors: EDAC, machine checks, records of the firmware,
pages that are taken out of use.

Wording: the printk calls of Linux 4.18 to 6.15 (drivers/edac, arch/x86/kernel/cpu/mce, ghes.c).
"""

from __future__ import annotations

from simulator.fleet.troubles.trouble import Spelling, Trouble, lines


def _apei(severity: str, section: str) -> Spelling:
    head = "{{{n}}}[Hardware Error]: "
    return (
        head + "Hardware error from APEI Generic Hardware Error Source: 4",
        head + f"event severity: {severity}",
        head + f" Error 0, type: {severity}",
        head + f"  section_type: {section}",
    )


BROKEN = (
    *lines(
        "EDAC MC{bank}: 1 UE memory read error on {dimm} (channel:1 slot:0 page:0x{hex})",
        "EDAC skx MC1: 2 UE memory scrubbing error on {dimm} (channel:0)",
        "mce: [Hardware Error]: CPU {cpu}: Machine Check Exception: 5 Bank {bank}: "
        "be00000000800400",
        "mce: [Hardware Error]: CPU {cpu}: Machine Check: 0 Bank {bank}: bc00000001010091",
        "mce: Uncorrected hardware memory error in user-access at {hex}000",
        "[Hardware Error]: Uncorrected, software restartable error.",
        "[Hardware Error]: Deferred error, no action required.",
        "[Hardware Error]: System Fatal error.",
        "SError Interrupt on CPU{cpu}, code 0x00000000be000011 -- SError",
        "Memory failure: 0x{hex}: recovery action for reserved kernel page: Failed",
    ),
    _apei("fatal", "PCIe error"),
    _apei("recoverable", "memory error"),
    _apei("fatal", "general processor error"),
)
RETIRED = lines(
    "Memory failure: 0x{hex}: recovery action for dirty LRU page: Recovered",
    "Memory failure: 0x{hex}: recovery action for free buddy page: Delayed",
    "Memory failure: 0x{hex}: Killing {comm}:{pid} due to hardware memory corruption",
    "Memory failure: 0x{hex}: Sending SIGBUS to {comm}:{pid} due to hardware memory corruption",
)
CORRECTED = lines(
    "EDAC MC{bank}: 1 CE memory read error on {dimm} (channel:1 slot:0 page:0x{hex})",
    "EDAC skx MC1: 1 CE memory scrubbing error on {dimm} (channel:0)",
    "EDAC MC{bank}: 1 CE on {dimm} (channel:1 slot:0)",
)
CORRECTED_CPU = lines(
    "mce: [Hardware Error]: CPU {cpu}: Machine Check: 0 Bank {bank}: 8c00004000010091",
    "[Hardware Error]: Corrected error, no action required.",
)
CORRECTED_FIRMWARE = (_apei("corrected", "memory error"),)
MANY = 100  # of a day (mcelog.conf)
DAY_S = 86_400.0
HARDWARE = (
    Trouble(BROKEN, "page", halts="dies", chain=(RETIRED[2][0],)),
    Trouble(RETIRED, "ticket"),
    Trouble(CORRECTED, "ticket", least=MANY, within_s=DAY_S / 4, repeats=False),
    Trouble(CORRECTED_CPU, "ticket", least=MANY, within_s=DAY_S / 4, repeats=False),
    Trouble(CORRECTED_FIRMWARE, "ticket", least=MANY, within_s=DAY_S / 4, repeats=False),
)
