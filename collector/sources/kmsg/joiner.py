"""Lines of the kernel log that belong together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from collector.sources.kmsg.chosen_names import chosen
from collector.sources.kmsg.classes import WORDS
from collector.sources.kmsg.classes.model import BLOCK_DEVICE, NAME, PCI
from collector.sources.kmsg.parse import known_text, parse_text
from collector.sources.kmsg.parsed_line import ParsedLine
from collector.sources.kmsg.records import Record
from collector.sources.kmsg.victim import about_victim, memory_of, task_of
from collector.sources.kmsg.xid_lines import fallen_off_the_bus
from pipeline.observation import Value

_AER = re.compile(
    r"(?:[^ ]{1,64} (?P<reporter>[^ ]{1,16}): )?AER: (?:Multiple )?(?P<severity>[A-Z][a-z]{1,20}"
    rf"(?: \([^)]{{1,20}}\))?) error (?:message )?received(?: from|:) (?:id=)?{PCI}"
)
_LOST = re.compile(rf"NVRM: The (?:NVIDIA )?GPU {PCI}\s*(?:\(PCI ID: [0-9a-f:]{{9}}\))?")
_LOST_END = re.compile(
    r"(?:NVRM: )?(?:\(PCI ID: [0-9a-f:]{9}\) )?(?:installed in this )?(?:(?:system )?has )?"
    r"fallen off the bus and is not responding"
)
_APEI = re.compile(
    r"(?P<number>\{\d{1,10}\})?\[Hardware Error\]: +(?:event severity: (?P<severity>[a-z-]{1,20})|"
    rf"section_type: (?P<section>[^\n]{{1,80}})|device_id: {PCI})"
)
_SECTIONS = {"memory error": "memory", "PCIe error": "pcie", "general processor error": "cpu"}
_APEI_SEVERITIES = {"recoverable": "uncorrected", "info": "info"}
_BEYOND = re.compile(rf"(?:{NAME}: )?attempt to access beyond end of device$", re.DOTALL)
_BEYOND_DEVICE = re.compile(rf"{BLOCK_DEVICE}: rw=")
# Said at each start too: events only after an error of the same part.
AFTER_AN_ERROR = {"storage_recovered", "filesystem_recovered"}
ERRORS = {"storage_error", "filesystem_error", "filesystem_read_only"}
_SIZES = {
    "aer": 6,
    "apei": 5,
    "section": 5,
    "oom": 2,
    "memcg": 2,
    "lost": 1,
    "beyond": 0,
    "error": 0,
}


class Joiner:
    """Joins lines that belong together; everything else passes.

    * AER: the port says that a device sent an error, then the device's line says which. The first
      alone becomes an event when a second read passed without the device's line.
    * Error records of the firmware (APEI): severity in one line, what it is about in a later one,
      and of PCIe the device in one after that.
    * Out of memory: the lines before the kill name the memory cgroups.
    * Fallen off the bus, as printed at probe time: the address in one line, the words in
      the next or next but one.
    * Beyond the end of a device: older kernels name the device in the next line.
    * A recovery whose line every start has too counts only after an error.

    What is held between lines is plain data, so that it can be kept with the
    position in the log: ``held``.
    """

    MAX_LINES = 32  # lines held at once; the oldest makes room

    def __init__(self, held: Mapping[str, list[object]] | None = None) -> None:
        self.held: dict[str, list[object]] = {
            key: list(value)
            for key, value in (held or {}).items()
            if len(value) == _SIZES.get(key.partition(" ")[0])
        }
        self._first_lines: tuple[tuple[str, Callable[[Record], ParsedLine | None]], ...] = (
            ("AER: ", self._aer),
            ("[Hardware Error]: ", self._apei),
            ("oom-kill:constraint=", self._oom),
            (" killed as a result of limit of ", self._memcg),
            ("beyond end of device", self._beyond),
            ("NVRM: ", self._fallen),
        )

    def feed(self, record: Record) -> ParsedLine | None:
        """What this record completes; None where nothing happened, or not yet."""
        text = record.text
        if (parsed := known_text(text) if len(text) <= 512 else parse_text(text)) is not None:
            return self._complete(parsed)
        if chosen(text):
            self._beyond(record)
            return None
        if ": rw=" in text and "beyond" in self.held and (match := _BEYOND_DEVICE.match(text)):
            del self.held["beyond"]
            facts = {"component": "block", "reason": "beyond end of device"}
            return ParsedLine("storage_error", "", {**facts, "block_device": match[1]})
        for needle, hold in self._first_lines:
            if needle in text:
                return hold(record)
        return None

    def overdue(self, *, final: bool = False) -> list[tuple[Record, ParsedLine]]:
        """Called at the end of a read that reached the end of the log: errors whose second line
        never came. ``final``: nothing more will come.
        """
        late = []
        for key, value in list(self.held.items()):
            if not key.startswith(("aer ", "apei ", "section ")):
                continue
            seq, usec, time_ns, severity, reads, *more = value
            if reads or final:
                del self.held[key]
                parsed = _alone(key, str(severity), more)
                record = Record(_words(parsed, key), _int(seq), _int(usec))
                late.append((record._replace(time_ns=max(0, _int(time_ns))), parsed))
            else:
                self.held[key] = [seq, usec, time_ns, severity, 1, *more]
        return late

    def _hold(self, key: str, value: list[object]) -> None:
        self.held.pop(key, None)
        self.held[key] = value
        if len(self.held) > self.MAX_LINES:
            del self.held[next(iter(self.held))]

    def _complete(self, parsed: ParsedLine) -> ParsedLine | None:
        if parsed.kind == "xid":
            return parsed
        part = f"error {parsed.facts.get('array', parsed.facts.get('block_device', ''))}"
        if parsed.kind == "pcie_error":
            self.held.pop(f"aer {parsed.pci}", None)
        elif parsed.kind == "oom_kill":
            return self._victim(parsed)
        elif parsed.kind in ERRORS:
            self._hold(part, [])
        elif parsed.kind in AFTER_AN_ERROR and self.held.pop(part, None) is None:
            return None
        return parsed

    def _victim(self, parsed: ParsedLine) -> ParsedLine:
        groups = self.held.pop(f"oom {parsed.facts['pid']}", None) or self.held.pop("memcg", None)
        if not groups:
            return parsed
        limit, task = (str(group) for group in groups)
        return ParsedLine(parsed.kind, parsed.pci, {**parsed.facts, **about_victim(limit, task)})

    def _aer(self, record: Record) -> None:
        if match := _AER.match(record.text):
            severity = WORDS.get(match["severity"], match["severity"])
            value: list[object] = [*_place(record), severity, 0, match["reporter"] or ""]
            self._hold(f"aer {match['pci'].lower()}", value)

    def _apei(self, record: Record) -> ParsedLine | None:
        match = _APEI.match(record.text)
        if match is None:
            return None
        number = match["number"] or ""
        if match["severity"] is not None:
            severity = _APEI_SEVERITIES.get(match["severity"], match["severity"])
            self._hold(f"apei {number}", [*_place(record), severity, 0])
            return None
        if match["pci"] is not None:
            return self._apei_device(number, match["pci"].lower())
        first = self.held.pop(f"apei {number}", None)
        if first is None:
            return None  # a further section of a record that was an event
        component = _SECTIONS.get(match["section"].strip(), match["section"].strip())
        if component == "pcie":
            self._hold(f"section {number}", first)
            return None
        facts = {"severity": str(first[3]), "component": component}
        return ParsedLine("hardware_error", "", facts)

    def _apei_device(self, number: str, pci: str) -> ParsedLine | None:
        """The same as AER reports where the kernel and not the firmware handles it."""
        first = self.held.pop(f"section {number}", None)
        if first is None:
            return None
        severity = "nonfatal" if first[3] == "uncorrected" else str(first[3])
        return ParsedLine("pcie_error", pci, {"severity": severity})

    def _oom(self, record: Record) -> None:
        if found := memory_of(record.text):
            self._hold(f"oom {found[0]}", list(found[1:]))

    def _memcg(self, record: Record) -> None:
        if found := task_of(record.text):
            self._hold("memcg", list(found))

    def _beyond(self, record: Record) -> None:
        if _BEYOND.match(record.text):
            self._hold("beyond", [])

    def _fallen(self, record: Record) -> ParsedLine | None:
        if match := _LOST.match(record.text):
            self._hold("lost", [match["pci"]])
        elif "lost" in self.held and _LOST_END.match(record.text):
            return fallen_off_the_bus(str(self.held.pop("lost")[0]))
        return None


def _alone(key: str, severity: str, more: list[object]) -> ParsedLine:
    """The event of a first line without its second."""
    kind, _, name = key.partition(" ")
    facts: dict[str, Value] = {"severity": severity}
    if kind == "section":
        facts["component"] = "pcie"
    if kind != "aer":
        return ParsedLine("hardware_error", "", facts)
    if more and more[0]:
        facts["reporter"] = str(more[0])
    return ParsedLine("pcie_error", name, facts)


def _words(parsed: ParsedLine, key: str) -> str:
    """A text for the event, in place of the line, which is not held."""
    name, severity = key.partition(" ")[2], parsed.facts["severity"]
    if parsed.kind == "pcie_error":
        return f"AER: {severity} error received from {name}"
    return f"{name}[Hardware Error]: event severity: {severity}"


def _place(record: Record) -> tuple[int, int, int]:
    return record.seq, record.usec, record.time_ns


def _int(value: object) -> int:
    return value if isinstance(value, int) else -1
