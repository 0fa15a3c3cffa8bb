"""From one line to what it says happened: pure, and linear in the length of the line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from collector.node.inventory import pci_key
from collector.sources.kmsg.chosen_names import chosen
from collector.sources.kmsg.classes import INDEX, NUMBERS, PCI, WORDS, LineClass
from collector.sources.kmsg.parsed_line import ParsedLine
from collector.sources.kmsg.xid_lines import parse_xid
from pipeline.observation import Value

_UUID = re.compile(
    rf"NVRM: GPU at PCI:{PCI}: (?P<uuid>GPU-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})\b"
)


def parse_text(text: str) -> ParsedLine | None:
    """What one line says by itself; None where it says nothing of interest.

    >>> parse_text("mlx5_core 0000:5e:00.0 ibp94s0: Link down").facts
    {'driver': 'mlx5_core', 'interface': 'ibp94s0'}
    """
    if form := chosen(text):
        return _first(form.rows, text)
    first = text.partition(" ")[0]
    if first == "NVRM:" and (xid := parse_xid(text)):
        return xid
    if parsed := _first(INDEX.by_word.get(first, ()), text):
        return parsed
    for needle, rows in INDEX.anywhere:
        if needle in text and (parsed := _first(rows, text)):
            return parsed
    return None


known_text = lru_cache(maxsize=512)(parse_text)  # a flood is one line many times


def parse_uuid(text: str) -> tuple[str, str] | None:
    """PCI address and UUID from the line that the driver prints before the first XID of a GPU."""
    match = _UUID.match(text) if text.startswith("NVRM: GPU at ") else None
    return (pci_key(match["pci"]), match["uuid"]) if match and not chosen(text) else None


def _first(rows: Iterable[LineClass], text: str) -> ParsedLine | None:
    return next((parsed for row in rows if (parsed := _parsed(row, text))), None)


def _parsed(row: LineClass, text: str) -> ParsedLine | None:
    match = row.expression.match(text)
    if match is None:
        return None
    facts: dict[str, Value] = dict(row.constants)
    for name, value in match.groupdict().items():
        if value:
            facts[name] = int(value) if name in NUMBERS else WORDS.get(value, value)
    if row.complete is not None:
        facts = row.complete(facts)
    return ParsedLine(row.kind, str(facts.pop("pci", "")).lower(), facts)
