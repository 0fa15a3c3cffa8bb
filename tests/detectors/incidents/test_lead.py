"""Which of two findings about one device leads the words of their incident."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import pytest

from detectors.faults import FAULTS, Fault
from detectors.incidents.advice import reason
from detectors.incidents.lead import REACH
from pipeline.finding import Action, Incident
from tests import golden
from tests.detectors.incidents.pairs import on_each_level
from tests.detectors.incidents.story import Story


class Case(NamedTuple):
    """A fault with one of its actions, on what it is found on."""

    fault: Fault
    action: Action
    level: str

    @property
    def name(self) -> str:
        """As the golden file has it."""
        return f"{self.fault.name} {self.action}"


def cases(level: str) -> list[Case]:
    """Every action of every fault of such a device that is reported."""
    return [
        Case(row, action, level)
        for row in FAULTS.values()
        if row.severity != "record" and any(kind.level == level for kind in on_each_level(row))
        for action in row.actions
    ]


def happen(first: Case, second: Case) -> list[Incident]:
    """The incidents of two faults of one device, a second apart."""
    updates = Story()
    for case in (first, second):
        (kind,) = (one for one in on_each_level(case.fault) if one.level == case.level)
        severity = case.fault.severity
        updates.finds(kind.on("n1", 0), case.fault.name, severity, case.name, action=case.action)
        updates.wait(1)
    return list(updates.fusion.open())


@cache
def pairs(level: str) -> list[tuple[Case, Case, list[Incident]]]:
    """All ordered pairs, with their incidents."""
    return [
        (first, second, happen(first, second))
        for first, second in product(cases(level), repeat=2)
        if first.name != second.name
    ]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["gpu", "port", "node", "nvlink"])
def test_fault_action_reason_and_summary_are_of_one_finding(level: str) -> None:
    """That of the one with the action that goes furthest, of those that are certain, as serious and
    the same repair; whichever came first.
    """
    for first, second, incidents in pairs(level):
        for one in incidents:
            (lead, *more) = [c for c in (first, second) if c.fault.name == one.fault]
            actions = {lead.action, *(c.action for c in more)}
            assert one.action in actions, (first.name, second.name)
            assert one.reason == reason(one.fault, one.action, one.severity)
            assert one.summary.startswith(f"{one.fault} it is.")
        if len(incidents) == 1 and first.fault.severity == second.fault.severity:
            (one,) = incidents
            rows = (first.fault, second.fault)
            if all(row.origin == "hardware" and not row.symptom for row in rows):
                certain = [c for c in (first, second) if c.fault.certain]
                furthest = max((REACH[c.action] for c in certain), default=0)
                assert REACH[one.action] >= furthest, (first.name, second.name)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["gpu", "port", "node", "nvlink"])
def test_which_finding_leads_follows_from_the_table(level: str) -> None:
    """As the golden file has it, whose difference is the review of a change: ``1`` the first of the
    pair, ``2`` the second, ``:`` they are two incidents.
    """
    names = [case.name for case in cases(level)]
    signs = {
        (first.name, second.name): ":" if len(found) > 1 else _sign(first, second, found[0])
        for first, second, found in pairs(level)
    }
    lines = [
        f"{first:42}" + "".join(signs.get((first, second), " ") for second in names)
        for first in names
    ]
    golden.check(f"leads/{level}.txt", "\n".join([f"second: {', '.join(names)}", *lines]) + "\n")


def _sign(first: Case, second: Case, incident: Incident) -> str:
    lead = (incident.fault, incident.action)
    return "1" if lead == (first.fault.name, first.action) else "2"


def test_sram_errors_beyond_the_threshold_ask_for_the_field_diagnostic() -> None:
    """The XID of the same error asks for a reset, which does not bring the GPU below it."""
    updates = Story()
    device = on_each_level(FAULTS["ecc/sram"])[0].on("n1", 0)
    updates.finds(device, "xid/memory", action="COMPONENT_RESET")
    updates.wait(1)
    updates.finds(device, "ecc/uncorrectable", action="COMPONENT_RESET")
    updates.wait(1)
    assert [one.action for one in updates.fusion.open()] == ["COMPONENT_RESET"]
    sram = updates.finds(device, "ecc/sram", action="RUN_FIELDDIAG")
    (one,) = updates.fusion.open()
    assert updates.updates[-1] == one  # reported again, as the action is another one
    assert (one.fault, one.action) == ("ecc/sram", "RUN_FIELDDIAG")
    assert one.summary.startswith("ecc/sram it is.")
    assert "Newest: ecc/uncorrectable it is." in one.summary
    assert one.reason.startswith("Drain the node, run the field diagnostic")
    updates.clears(sram)
    updates.wait(1200)
    assert [one.action for one in updates.fusion.open()] == ["COMPONENT_RESET"]
