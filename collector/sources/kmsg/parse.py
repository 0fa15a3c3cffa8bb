"""From lines to happenings: pure, and linear in the length of the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from collector.node.inventory import pci_key
from collector.sources.kmsg.parsed_line import ParsedLine
from collector.sources.kmsg.patterns import NUMBERS, PATTERNS, PCI, WORDS, Pattern
from collector.sources.kmsg.records import Record
from collector.sources.kmsg.xid_lines import fallen_off_the_bus, parse_xid
from pipeline.observation import Value

_AER = re.compile(
    r"[^ ]{1,64} (?:[^ ]{1,16}): AER: (?:Multiple )?(?P<severity>[A-Z][a-z]{1,20}(?: "
    rf"\([^)]{{1,20}}\))?) error (?:message )?received from {PCI}"
)
_OOM = re.compile(
    (
        r"oom-kill:constraint=[^,]{1,40},.{0,400}?oom_memcg=(?P<cgroup>[^,]{1,400}),.{0,600},"
        r"pid=(?P<pid>\d{1,10}),"
    ),
    re.DOTALL,
)
_LOST = re.compile(rf"NVRM: The NVIDIA GPU {PCI}\s*(?:\(PCI ID: [0-9a-f:]{{9}}\))?")
_LOST_END = re.compile(r"NVRM: (?:(?:system )?has )?fallen off the bus and is not responding")
_UUID = re.compile(
    rf"NVRM: GPU at PCI:{PCI}: (?P<uuid>GPU-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})\b"
)


def parse_text(text: str) -> ParsedLine | None:
    """What one line says by itself; None where it says nothing of interest.

    >>> parse_text("mlx5_core 0000:5e:00.0 ibp94s0: Link down").facts
    {'driver': 'mlx5_core', 'interface': 'ibp94s0'}
    """
    if text.startswith("NVRM: ") and (xid := parse_xid(text)):
        return xid
    for pattern in PATTERNS:
        if pattern.needle in text and (match := pattern.expression.match(text)):
            return _parsed(pattern, match)
    return None


_known_text = lru_cache(maxsize=512)(parse_text)  # a flood is one line many times


def parse_uuid(text: str) -> tuple[str, str] | None:
    """PCI address and UUID from the line that the driver prints before the first XID of a GPU."""
    match = _UUID.match(text) if text.startswith("NVRM: GPU at ") else None
    return (pci_key(match["pci"]), match["uuid"]) if match else None


def _parsed(pattern: Pattern, match: re.Match[str]) -> ParsedLine:
    facts: dict[str, Value] = dict(pattern.constants)
    for name, text in match.groupdict().items():
        if text and name != "pci":
            facts[name] = int(text) if name in NUMBERS else WORDS.get(text, text)
    return ParsedLine(pattern.kind, (match.groupdict().get("pci") or "").lower(), facts)


class Joiner:
    """Joins lines that belong together; everything else passes.

    * AER: the port says that a device sent an error, then the device's line says which. The first
      alone becomes an event when a second read passed without the device's line.
    * Out of memory: the line before the kill names the memory cgroup.
    * Fallen off the bus, as printed at probe time: the address in one line, the words in
      the next or next but one.

    What is held between lines is plain data, so that it can be kept with the
    position in the log: ``held``.
    """

    MOST = 16  # lines held at once; the oldest makes room

    def __init__(self, held: Mapping[str, list[object]] | None = None) -> None:
        sizes = {"aer": 4, "oom": 1, "lost": 1}
        self.held: dict[str, list[object]] = {
            key: list(value)
            for key, value in (held or {}).items()
            if len(value) == sizes.get(key.partition(" ")[0])
        }

    def feed(self, record: Record) -> ParsedLine | None:
        """What this record completes; None where nothing happened, or not yet."""
        text = record.text
        if (parsed := _known_text(text) if len(text) <= 512 else parse_text(text)) is not None:
            return self._complete(parsed)
        if ": AER: " in text and (match := _AER.match(text)):
            self._hold(
                f"aer {match['pci'].lower()}",
                [record.seq, record.usec, WORDS.get(match["severity"], match["severity"]), 0],
            )
        elif text.startswith("oom-kill:") and (match := _OOM.match(text)):
            self._hold(f"oom {match['pid']}", [match["cgroup"]])
        elif text.startswith("NVRM: "):
            return self._fallen(text)
        return None

    def overdue(self) -> list[tuple[Record, ParsedLine]]:
        """Called at the end of a read that reached the end of the log: AER errors
        whose second line never came.
        """
        late = []
        for key, value in list(self.held.items()):
            if key.startswith("aer "):
                seq, usec, severity, reads = value
                if reads:
                    del self.held[key]
                    pci = key.removeprefix("aer ")
                    record = Record(
                        f"AER: {severity} error received from {pci}", _int(seq), _int(usec)
                    )
                    late.append(
                        (record, ParsedLine("pcie_error", pci, {"severity": str(severity)}))
                    )
                else:
                    self.held[key] = [seq, usec, severity, 1]
        return late

    def _hold(self, key: str, value: list[object]) -> None:
        self.held.pop(key, None)
        self.held[key] = value
        if len(self.held) > self.MOST:
            del self.held[next(iter(self.held))]

    def _complete(self, parsed: ParsedLine) -> ParsedLine:
        if parsed.kind == "pcie_error":
            self.held.pop(f"aer {parsed.pci}", None)
        elif parsed.kind == "oom_kill" and (
            cgroup := self.held.pop(f"oom {parsed.facts['pid']}", None)
        ):
            return ParsedLine(parsed.kind, parsed.pci, {**parsed.facts, "cgroup": str(cgroup[0])})
        return parsed

    def _fallen(self, text: str) -> ParsedLine | None:
        if match := _LOST.match(text):
            self._hold("lost", [match["pci"]])
        elif "lost" in self.held and _LOST_END.match(text):
            return fallen_off_the_bus(str(self.held.pop("lost")[0]))
        return None


def _int(value: object) -> int:
    return value if isinstance(value, int) else -1
