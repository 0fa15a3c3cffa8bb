"""From the rows of a counters file to the families and labels of a page, in either
naming generation or both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.dcgm import names
from pipeline.dcgm.counters import Compat, Counter, Counters
from pipeline.exposition.text import Family

# Units as HELP texts spell them, by the end of a 4.9 name.
_UNITS = (
    ("_HERTZ", "in Hz"),
    ("_JOULES_TOTAL", "in J"),
    ("_SECONDS_TOTAL", "in s"),
    ("_BYTES", "in bytes"),
    ("_RATIO", "as a ratio"),
)
_UNIT = re.compile(r" ?\((?:in|as) [^)]*\)")
THROUGHPUT = 1648
_THROUGHPUT_HELP = "NVLink throughput over all lanes (in bytes per second)."


@dataclass(frozen=True, slots=True)
class Shown:
    """One family: its header, the DCGM id whose value it has, and whether it
    speaks the 4.9 generation.
    """

    family: Family
    id: int
    new: bool = False


@dataclass(frozen=True, slots=True)
class LabelField:
    """A ``label`` row: the label's name on old and on new families, and the
    DCGM id whose value it has.
    """

    name: str
    new_name: str
    id: int


def families(counters: Counters, compat: Compat) -> list[Shown]:
    """The families of a page in page order: by field id in the 4.8 generation, by name in
    the others, each name once.
    """
    found: dict[str, Shown] = {}
    for row in counters.rows:
        if row.type != "label":
            for shown in _generations(row, compat):
                found.setdefault(shown.family.name, shown)
    order = (
        (lambda s: (s.id, s.family.name))
        if compat == "dcgm-4.8"
        else (lambda s: (0, s.family.name))
    )
    return sorted(found.values(), key=order)


def label_fields(counters: Counters, compat: Compat) -> list[LabelField]:
    """The ``label`` rows.

    In the 4.9 generation a label whose field was renamed has the new name.
    """
    found = []
    for row in counters.rows:
        if row.type == "label":
            known = names.rows().get(row.id)
            new = (
                known.new_name if known and known.new_name and row.name == known.name else row.name
            )
            found.append(
                LabelField(
                    row.name if compat != "dcgm-4.9" else new,
                    new if compat != "dcgm-4.8" else row.name,
                    row.id,
                )
            )
    return found


def _generations(row: Counter, compat: Compat) -> Iterator[Shown]:
    """A row as the wanted generation names it.

    Only a legacy name is renamed: another one is shown as it was written.
    """
    written = Shown(Family(row.name, row.type, row.help), row.id)
    old, new = _pair(row)
    if new is None:
        if old is not None and compat == "both" and not row.one_generation:
            yield old
        yield Shown(written.family, written.id, new=old is not None and compat != "dcgm-4.8")
        return
    if compat != "dcgm-4.9":
        yield written
    if compat != "dcgm-4.8":
        yield new


def _pair(row: Counter) -> tuple[Shown | None, Shown | None]:
    """The other generation of a row: (the legacy one, None) for a 4.9 name, (None, the
    4.9 one) for a legacy name.
    """
    known = names.rows().get(row.id)
    if known is None:
        return None, None
    if row.name == known.name and known.successor:
        name, number = names.rows()[known.successor].name, known.successor
        kind = "gauge" if number == THROUGHPUT else row.type
        return None, Shown(Family(name, kind, _help(row.help, name)), number, new=True)
    if row.name == known.name and known.new_name:
        return None, Shown(Family(known.new_name, row.type, row.help), row.id, new=True)
    before = (
        known
        if row.name == known.new_name
        else next((d for d in names.rows().values() if d.successor == row.id), None)
    )
    if before is None or row.name not in (known.name, known.new_name):
        return None, None
    text = row.help if before is known else _UNIT.sub("", row.help)  # another id has another unit
    return Shown(Family(before.name, row.type, text), before.id), None


def _help(text: str, name: str) -> str:
    """The HELP of a family whose unit has changed: the same words, the new unit.

    >>> _help("SM clock frequency (in MHz).", "DCGM_FI_DEV_SM_CLOCK_HERTZ")
    'SM clock frequency (in Hz).'
    """
    if name == "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND":
        return _THROUGHPUT_HELP
    unit = next((unit for end, unit in _UNITS if name.endswith(end)), "")
    return _UNIT.sub(f" ({unit})", text) if unit else text
