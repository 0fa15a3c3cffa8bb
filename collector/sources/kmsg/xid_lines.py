"""The XID line in every form the NVIDIA driver prints it.

Forms: NVIDIA's XID documentation (docs.nvidia.com/deploy/xid-errors) and the open kernel
modules' printf formats.
"""

from __future__ import annotations

import re

from collector.node.inventory import pci_key
from collector.sources.kmsg.classes import PCI
from collector.sources.kmsg.parsed_line import ParsedLine
from pipeline.observation import Value

FALLEN_OFF_THE_BUS = 79
RECOVERY_ACTION = 154
NVLINK5 = range(144, 151)  # codes whose text carries unit, severity and interrupt information

_XID = re.compile(
    (
        rf"NVRM: Xid \((?:PCI:)?{PCI}(?: GPU-I:(?P<gi>\d{{1,3}}))?(?: "
        r"GPU-CI:(?P<ci>\d{1,3}))?\): (?P<code>\d{1,5})(?:,\s*(?P<rest>.*))?$"
    ),
    re.DOTALL,
)
_PROCESS = re.compile(
    r"pid='?(?:(?P<pid>\d{1,10})|<unknown>)'?(?:, name=(?P<process>[^\n]{0,64}?))?(?:, |$)"
)
_SM = re.compile(r"\(GPC (\d{1,3}), TPC (\d{1,3})(?:, SM (\d{1,3}))?\)")
_NVLINK4 = re.compile(r"\blink (\d{1,3}) ?\((0x[0-9a-fA-F]{1,8}(?:, ?0x[0-9a-fA-F]{1,8}){0,15})\)")
_NVLINK5 = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_/]{1,40})\s{1,8}(?P<severity>Fatal|Nonfatal)\s{1,8}XC ?\d\s{1,8}i "
    r"?\d{1,3}\s{1,8}"
    r"Link\s{1,8}(?P<link>-?\d{1,3})\s{1,8}(?P<bracket>[(\[])(?P<words>0x[0-9a-fA-F]{1,8}(?:[ "
    r",]{1,3}0x[0-9a-fA-F]{1,8}){0,15})[)\]]"
)
_RECOVERY = re.compile(
    r"\bchanged from 0x([0-9a-fA-F]{1,4}) \([^)]{0,60}\) to 0x([0-9a-fA-F]{1,4})\b"
)
_CAUSE = re.compile(r"\bcaused by previous Xid (\d{1,5})\b")
_BARE = re.compile(rf"NVRM: GPU (?:at )?(?:PCI:)?{PCI}: GPU has fallen off the bus")
_LONG = re.compile(
    (
        rf"NVRM: The (?:NVIDIA )?GPU {PCI}\s(?:.{{0,80}}?\s)?(?:has\s)?(?:NVRM:\s)?"
        r"fallen off the bus and is not responding"
    ),
    re.DOTALL,
)


def parse_xid(text: str) -> ParsedLine | None:
    """The XID of one line; None where it holds none.

    Text before ``NVRM:`` makes it somebody else's line.
    """
    if not text.startswith("NVRM: "):
        return None
    if match := _XID.match(text):
        return _coded(match)
    if match := _BARE.match(text) or _LONG.match(text):
        return fallen_off_the_bus(match["pci"])
    return None


def fallen_off_the_bus(pci: str) -> ParsedLine:
    """What a line says that names no code but says that the GPU has fallen off the bus: XID 79."""
    return ParsedLine("xid", pci_key(pci), {"code": FALLEN_OFF_THE_BUS, "inferred": True})


def _coded(match: re.Match[str]) -> ParsedLine:
    code, rest = int(match["code"]), match["rest"] or ""
    facts: dict[str, Value] = {"code": code}
    for name, group in (("gpu_instance", "gi"), ("compute_instance", "ci")):
        if match[group] is not None:
            facts[name] = int(match[group])
    if process := _PROCESS.match(rest):
        facts |= _process(process)
        rest = rest[process.end() :]
    return ParsedLine("xid", pci_key(match["pci"]), facts | _details(code, rest))


def _process(match: re.Match[str]) -> dict[str, Value]:
    facts: dict[str, Value] = {}
    if match["pid"]:
        facts["pid"] = int(match["pid"])
    if match["process"] and match["process"] != "<unknown>":
        facts["process"] = match["process"]
    return facts


def _details(code: int, rest: str) -> dict[str, Value]:
    """What the words after the process say, by code."""
    if code in NVLINK5:
        match = _NVLINK5.match(rest)
        return _nvlink5(match) if match else {}
    if code == RECOVERY_ACTION and (match := _RECOVERY.search(rest)):
        return {"recovery_from": int(match[1], 16), "recovery_to": int(match[2], 16)}
    if code == 74 and (match := _NVLINK4.search(rest)):
        return {"link": int(match[1]), "registers": match[2].replace(",", "").lower()}
    if code == 45 and (match := _CAUSE.search(rest)):
        return {"caused_by": int(match[1])}
    if match := _SM.search(rest):
        places = zip(("gpc", "tpc", "sm"), match.groups(), strict=True)
        return {name: int(number) for name, number in places if number is not None}
    return {}


def _nvlink5(match: re.Match[str]) -> dict[str, Value]:
    """Unit, severity, link and registers.

    The first register in round brackets is the interrupt information.

    Drivers before R575 print one register in square brackets instead: it is
    kept, but gives no sub-code.
    """
    words = match["words"].replace(",", " ").split()
    facts: dict[str, Value] = {
        "unit": match["unit"],
        "severity": match["severity"].lower(),
        "registers": " ".join(words).lower(),
    }
    if int(match["link"]) >= 0:
        facts["link"] = int(match["link"])
    if match["bracket"] == "(":
        facts["sub_code"] = int(words[0], 16) >> 20 & 0x3F
    return facts
