"""XID 144 to 150: unit, error status and sub-code of NVLink 5. The rules are in the notes
of pipeline/xid/xid.csv.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from pipeline.xid.table import xid_entry

CODES = range(144, 151)
# reset: the GPU needs one; eval154: the recovery action beside it decides; leads48: an ECC code
# follows here or at the peer.
Outcome = Literal["reset", "eval154", "leads48", "record"]
OUTCOMES: tuple[Outcome, ...] = ("reset", "eval154", "leads48", "record")  # the most serious first
NOISE = 0x80000000  # of any unit: for the record
# their rules name sub-codes, in decimal
BY_SUB_CODE = frozenset({"NETIR_LINK_EVT", "NETIR_LINK_DOWN"})

# Sub-codes of NETIR_LINK_EVT by where the root lies (NVIDIA XID catalogue, NVLink 5 decode).
ROOTS: Mapping[str, frozenset[int]] = {
    "the link or its cable": frozenset({2, 4, 10, 42, 43}),
    "software or its user": frozenset({15, 17, 22, 38}),
    "software or the link": frozenset({16, 18}),
    "the peer device": frozenset({21, 32, 33, 34, 35, 36, 37}),
    "the host": frozenset({40}),
}


def outcome_of(
    code: int, unit: str, severity: str, status: int | None, sub_code: int | None
) -> Outcome | None:
    """What the catalogue says of an event; where it has no rule a fatal one needs a reset and
    another is for the record.

    ``severity`` as in the event: fatal or nonfatal. None where the line
    could not be decoded at all.

    >>> (
    ...     outcome_of(145, "RLW_SRC_TRACK", "nonfatal", 0x4, 4),
    ...     outcome_of(149, "NETIR_LINK_EVT", "fatal", 0, 4),
    ... )
    ('eval154', 'reset')
    >>> (
    ...     outcome_of(149, "NETIR_LINK_EVT", "fatal", 0, 40),
    ...     outcome_of(144, "SAW_MVB", "fatal", 0x80000000, 0),
    ... )
    ('record', 'record')
    """
    if not unit:
        return None
    if status == NOISE:
        return "record"
    value = sub_code if unit in BY_SUB_CODE else status
    for outcome, values in rules_of(xid_entry(code).notes).get(unit, {}).items():
        if "*" in values or value in values:
            return outcome
    return "reset" if severity == "fatal" else "record"


def root_of(unit: str, sub_code: int | None) -> str:
    """Where the root of a link event lies, empty where that is not known.

    >>> root_of("NETIR_LINK_EVT", 33)
    'the peer device'
    """
    if unit != "NETIR_LINK_EVT":
        return ""
    return next((where for where, codes in ROOTS.items() if sub_code in codes), "")


@cache
def rules_of(notes: str) -> Mapping[str, Mapping[Outcome, frozenset[int | str]]]:
    """Rules by unit: ``UNIT,UNIT: reset=0x2,0x10; record=*`` joined by `` / ``; words
    in brackets are comments.

    ValueError names what is no rule.
    """
    rules: dict[str, dict[Outcome, frozenset[int | str]]] = {}
    for part in re.sub(r"\([^)]*\)", "", notes).split(" / "):
        units, _, outcomes = part.partition(": ")
        found = dict(_clause(clause.strip()) for clause in outcomes.split(";"))
        for unit in units.split(","):
            rules[unit.strip()] = {
                outcome: found[outcome] for outcome in OUTCOMES if outcome in found
            }
    return rules


def _clause(text: str) -> tuple[Outcome, frozenset[int | str]]:
    name, _, values = text.partition("=")
    outcome = next((o for o in OUTCOMES if o == name), None)
    if outcome is None:
        raise ValueError(
            f"{text!r} is no rule such as reset=0x2,0x10 with one of {', '.join(OUTCOMES)}"
        )
    try:
        return outcome, frozenset(
            v if v == "*" else int(v, 0) for v in (v.strip() for v in values.split(","))
        )
    except ValueError as error:
        raise ValueError(f"{text!r} is no rule: {error}") from error
