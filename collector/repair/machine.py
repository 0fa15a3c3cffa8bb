"""The machine: one step for each part that is under repair, at each call.

suspected -> drained -> reset -> checked -> burning_in -> returned, or rma; `stopped` is for people.
What is about to be done is written down first. An act whose outcome is unknown is never repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from collector.integrations.agent_client import Answer, Problem
from collector.integrations.drain import Gate, causes_of
from collector.integrations.record import key
from collector.integrations.repair import evidence
from collector.integrations.resume import Return
from collector.repair.acting import Acting, Done
from collector.repair.case import Case, Intent, Step
from collector.repair.hands import Hands
from collector.repair.ladder import rung_of
from collector.repair.notes import Notes
from collector.repair.permission import Refusal, refusal
from collector.repair.site import Site


class Machine:
    """One node."""

    def __init__(self, site: Site, notes: Notes, hands: Hands) -> None:
        self._site, self._notes, self._hands = site, notes, hands
        self._acting = Acting(site, notes, hands)
        self._boot_id = ""

    def advance(self) -> list[str]:
        """One step of each case; what was done, a line each.

        CannotAskError where the scheduler does not answer, DamagedError for a file that is none of
        ours, OSError where nothing can be written: nothing is done then.
        """
        self._notes.read()
        if not self._site.dry_run:  # first, also while a switch is off: a run died meanwhile
            for case in self._notes.open():
                self._acting.undo(case)
        answer = self._site.ask()
        self._boot_id = answer.boot_id
        theirs = self._reconciled(answer)
        for problem in causes_of(answer, self._site.policy):
            known = key(problem.kind, problem.device) in self._notes.book.cases
            if not known and problem.id not in theirs:
                self._moved(_suspected(problem), "suspected")
        return [f"{case.name}: {self._step(case, answer)}" for case in self._notes.open()]

    def _reconciled(self, answer: Answer) -> frozenset[str]:
        """The incidents that operators decided about when they took the node over; what we held of
        it is given back then, whichever steps its repairs are in.
        """
        if answer.state != "unknown" and not self._site.dry_run:
            self._gate().reconcile(answer)
        record = self._site.record.read()
        return record.about if record is not None and record.over else frozenset()

    def _gate(self) -> Gate:
        site = self._site
        return Gate(
            site.node, site.scheduler, site.record, site.policy, now=site.now, dry_run=site.dry_run
        )

    def _step(self, case: Case, answer: Answer) -> str:
        forbidden = self._site.policy.forbids(self._site.node)
        if forbidden:
            return forbidden
        if answer.state == "unknown":
            return f"{case.step}: the agent reports unknown: {answer.reason}"
        if case.intent is not None:
            if self._site.dry_run:
                return f"dry run: would look at what became of the {case.intent.rung}"
            return self._after(self._acting.recover(case, case.intent, answer))
        if case.step not in ("suspected", "stopped") and self._given_back(case, answer):
            return self._returned(case, answer, "outside of this command")
        steps: dict[Step, Callable[[Case, Answer], str]] = {
            "suspected": self._drain,
            "drained": self._act,
            "reset": self._judge,
            "checked": self._burn_in,
            "burning_in": self._burn_in,
            "rma": self._await_part,
            "stopped": self._await_operator,
        }
        return steps[case.step](case, answer)

    def _drain(self, case: Case, answer: Answer) -> str:
        """With the caps, canaries and words of every other drain of ours."""
        if case.incident not in answer.open:
            self._notes.over(case)
            return "the incident ended before anything was done"
        site = self._site
        text = self._gate().check(answer)
        if site.record.read() is None or site.dry_run:
            return text
        no = refusal(site, case, answer)
        if no is None or not no.final:
            self._moved(case, "drained")
        return text

    def _act(self, case: Case, answer: Answer) -> str:
        """Reset, reboot or replace, as far as it is allowed and nothing is in the way."""
        no = refusal(self._site, case, answer)
        if no is not None:
            return self._refused(case, no)
        by_hand = self._by_hand(case, answer)
        if by_hand:
            return self._mended(case, by_hand)
        switches = self._site.switches
        rung = rung_of(
            case,
            self._notes.book.past,
            now=self._site.now(),
            again_within_s=switches.again_within_s,
            max_attempts=switches.max_attempts,
        )
        if rung == "reset" and (case.kind, case.device) not in answer.parts:
            rung = "reboot"  # what does not answer cannot be reset by its driver
        if rung == "replace":
            return self._rma(case)
        if not getattr(switches, rung):
            return f"would {rung} (gates.repair.{rung} is off)"
        held = self._acting.held(case, switches.services) if rung == "reset" else ""
        if held:
            return f"not reset: held by {held}"
        if self._site.dry_run:
            return f"dry run: would {rung}"
        epoch = answer.parts.get((case.kind, case.device), "")
        times = self._site.now(), self._site.uptime()
        intent = Intent(rung, case.attempts + 1, answer.boot_id, epoch, *times)
        return self._after(self._acting.begin(case, intent))

    def _given_back(self, case: Case, answer: Answer) -> bool:
        """Whether the node is not ours any more, and the incident is over."""
        record = self._site.record.read()
        return case.incident not in answer.open and (record is None or record.over)

    def _gone(self, case: Case, answer: Answer) -> bool:
        """Whether nothing is reported of the part any more."""
        left = any((p.kind, p.device) == (case.kind, case.device) for p in answer.problems)
        return not left and case.incident not in answer.open

    def _by_hand(self, case: Case, answer: Answer) -> str:
        """Evidence that another operator repaired the part since the drain; empty without any, also
        where the fault merely shows no more: that is no repair.
        """
        record = self._site.record.read()
        return evidence(record, answer) if record and self._gone(case, answer) else ""

    def _mended(self, case: Case, by_hand: str) -> str:
        """An act more would help nobody, and the last one of ours, if any, did not help."""
        if self._site.dry_run:
            return f"dry run: {by_hand}, not by this command: would run the check"
        self._moved(replace(case, rung="", note=f"{by_hand}, not by this command"), "reset")
        return f"{by_hand}, not by this command: to be checked"

    def _after(self, done: Done) -> str:
        """What follows from how an act went."""
        if done.refused is not None:
            return self._refused(done.case, done.refused)
        if done.unknown:
            return self._stop(done.case, done.text)
        if done.failed:
            return self._failed(done.case, done.text)
        if done.ended:
            self._moved(done.case, "reset")
        return done.text

    def _judge(self, case: Case, answer: Answer) -> str:
        """Whether it helped: the agent no longer reports a fault of the part, the site's check
        passes.
        """
        no = refusal(self._site, case, answer)
        if no is not None:
            return self._refused(case, no)
        if not case.boot_id and not self._site.dry_run:  # of an earlier release: no time is known
            case = self._moved(case, "reset")
        if not self._gone(case, answer):
            if self._site.elapsed(case, answer.boot_id) < self._site.switches.settle_s:
                return f"{case.rung} done; the fault is still reported: waiting"
            return self._failed(case, f"{case.rung} did not help")
        if self._site.dry_run:
            return "dry run: would run the check"
        failed = self._hands.check()
        if failed:
            return self._failed(case, f"the check failed after the {case.rung}: {failed}")
        self._moved(case, "checked")
        return "checked"

    def _burn_in(self, case: Case, answer: Answer) -> str:
        """The node returns when all its parts are repaired, and as any node that we drained."""
        site = self._site
        if site.record.read() is None:
            return self._returned(case, answer, "outside of this command")
        no = refusal(site, case, answer)
        if no is not None:
            return self._refused(case, no)
        others = [c.name for c in self._notes.open() if c.step not in ("checked", "burning_in")]
        if others:
            return f"checked; waits for {', '.join(others)}"
        if not site.switches.return_to_service:
            return "repaired and checked (gates.repair.return_to_service is off)"
        if site.dry_run:
            return "dry run: would run the burn-in check and resume the node"
        if case.step != "burning_in":
            case = self._moved(case, "burning_in")
        given = Return(
            site.node, site.scheduler, site.record, site.policy, site.ask, proof=site.proof
        ).attempt()
        if given.resumed:
            for one in self._notes.open():
                self._returned(one, answer, "after the burn-in check")
            return given.text
        record = site.record.read()
        return self._stop(case, given.text) if record and record.failed else given.text

    def _returned(self, case: Case, answer: Answer, how: str) -> str:
        """The case is over; the act helped if the fault is gone, and was not found useless."""
        helped = case.incident not in answer.open
        if case.step in ("drained", "rma", "stopped"):
            case = replace(case, rung="")
        self._notes.over(replace(case, step="returned", note=how), helped=helped)
        return f"returned {how}"

    def _rma(self, case: Case) -> str:
        if self._site.dry_run:
            return "dry run: would open a ticket to replace the part"
        case = replace(case, bundle=case.bundle or self._hands.bundle(case))
        self._moved(case, "rma", ticket=True)
        return "to be replaced: ticket written"

    def _await_part(self, case: Case, answer: Answer) -> str:
        """A part that is gone from the node, and another in its place."""
        record = self._site.record.read()
        if record is None:
            return self._returned(case, answer, "by an operator")
        about = replace(record, action="REPLACE_VM", kind=case.kind, device=case.device)
        proof = evidence(about, answer)
        if proof and not self._site.dry_run:
            self._moved(replace(case, rung="replace"), "reset")
        return proof or "waits for a replacement"

    def _await_operator(self, case: Case, answer: Answer) -> str:
        """Nothing is done any more; the case ends with its incident, when the node is not ours."""
        if self._given_back(case, answer):
            return self._returned(case, answer, "by an operator")
        return f"stopped: {case.note}"

    def _failed(self, case: Case, why: str) -> str:
        """Known for the next time; the case goes on with a stronger act."""
        self._notes.outcome(case, helped=False)
        self._moved(replace(case, note=why), "drained")
        return why

    def _stop(self, case: Case, why: str) -> str:
        self._moved(replace(case, note=why), "stopped", ticket=True)
        return f"stopped: {why}"

    def _refused(self, case: Case, no: Refusal) -> str:
        return self._stop(case, no.text) if no.final and not self._site.dry_run else no.text

    def _moved(self, case: Case, step: Step, *, ticket: bool = False) -> Case:
        now, uptime = self._site.now(), self._site.uptime()
        case = replace(case, step=step, since=now, boot_id=self._boot_id, uptime=uptime)
        return self._notes.step(case, ticket=ticket)


def _suspected(problem: Problem) -> Case:
    return Case(
        incident=problem.id,
        fault=problem.fault,
        kind=problem.kind,
        device=problem.device,
        name=problem.name,
        serial=problem.serial,
        action=problem.action,
        step="suspected",
        since=0.0,
    )
