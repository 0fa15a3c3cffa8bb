"""The act itself: prepared, looked at once more, written down, done; and what an earlier run left
between intent and outcome.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from collector.integrations.agent_client import Answer
from collector.integrations.record import Drained, key
from collector.integrations.repair import evidence
from collector.repair.case import Case, Intent
from collector.repair.hands import Hands
from collector.repair.notes import Notes
from collector.repair.permission import Refusal, refusal
from collector.repair.site import Site


class Done(NamedTuple):
    """How it went: ``case`` as it is now, and one of what follows."""

    case: Case
    text: str
    ended: bool = False  # the act was done
    failed: bool = False  # it was done, and refused by the machine
    unknown: bool = False  # nobody can say
    refused: Refusal | None = None


class Acting:
    """Resets and reboots of one node."""

    def __init__(self, site: Site, notes: Notes, hands: Hands) -> None:
        self._site, self._notes, self._hands = site, notes, hands

    def begin(self, case: Case, intent: Intent) -> Done:
        """The bundle first: a reset clears volatile counters. What is stopped is written down
        before.
        """
        case = replace(case, bundle=self._hands.bundle(case) or case.bundle)
        if intent.rung == "reset":
            on = self._hands.persistence(case.device)
            intent = replace(intent, services=self._site.switches.services, persistence=on)
        case = self._notes.keep(replace(case, intent=intent))
        failed = self._hands.stop(intent.services)
        if not failed and intent.persistence:
            failed = self._hands.set_persistence(case.device, on=False)
        refused = refusal(self._site, case)
        held = self.held(case) if intent.rung == "reset" else ""
        if failed or refused is not None or held:
            self.undo(case)
            case = self._notes.keep(replace(case, intent=None))
            return Done(case, f"not {intent.rung}: {failed or f'held by {held}'}", refused=refused)
        return self._act(case, intent)

    def _act(self, case: Case, intent: Intent) -> Done:
        acting = replace(intent, acting=True, at=self._site.now(), uptime=self._site.uptime())
        case = replace(case, intent=acting, attempts=intent.attempt, rung=intent.rung)
        try:
            self._notes.keep(case)
        except OSError:  # the disk is full: nothing is done, and nothing stays stopped for it
            self.undo(case)
            raise
        if intent.rung == "reboot":
            failed = self._hands.reboot()
            if not failed:
                return Done(case, "rebooting")  # the next start compares boot ids
        else:
            failed = self._hands.reset(case.device)
        self.undo(case)
        case = replace(case, intent=None)
        if failed:
            return Done(case, f"{intent.rung} failed: {failed}", failed=True)
        return Done(case, f"{intent.rung} done (attempt {intent.attempt})", ended=True)

    def recover(self, case: Case, intent: Intent, answer: Answer) -> Done:
        """An earlier run ended between intent and outcome. No act is ever repeated here."""
        if not intent.acting:
            self.undo(case)
            case = self._notes.keep(replace(case, intent=None))
            return Done(case, f"the {intent.rung} was interrupted before it began")
        proof = _happened(case, intent, answer)
        if proof:
            return Done(replace(case, intent=None), f"{intent.rung} done: {proof}", ended=True)
        if self._site.elapsed(intent, answer.boot_id) < self._site.switches.settle_s:
            return Done(case, f"waiting for evidence of the {intent.rung}")
        why = f"the {intent.rung} was interrupted and its outcome is unknown"
        return Done(replace(case, intent=None), why, unknown=True)

    def undo(self, case: Case) -> None:
        """Whatever happened: what was stopped runs again."""
        undo(case, self._hands)

    def held(self, case: Case, services: tuple[str, ...] = ()) -> str:
        """Who holds the part, apart from services that would be stopped; empty: nobody."""
        return ", ".join(self._hands.blockers(case.device, services))


def undo(case: Case, hands: Hands) -> None:
    """Start what was stopped for an act, however far that came."""
    if case.intent is not None:
        if case.intent.persistence:
            hands.set_persistence(case.device, on=True)
        hands.start(case.intent.services)


def _happened(case: Case, intent: Intent, answer: Answer) -> str:
    """Evidence that the part has another life than before the act; empty without any.

    Other parts were there before, whichever these are: an act of ours replaces nothing.
    """
    others = {key(kind, part): epoch for (kind, part), epoch in answer.parts.items()}
    parts = others | {key(case.kind, case.device): intent.epoch}
    before = Drained(
        node="",
        incident=case.incident,
        action="COMPONENT_RESET" if intent.rung == "reset" else "RESTART_BM",
        kind=case.kind,
        device=case.device,
        slot="",
        reason="",
        by="",
        boot_id=intent.boot_id,
        time=intent.at,
        parts=parts,
    )
    return evidence(before, answer)
