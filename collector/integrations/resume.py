"""Return to service: what we drained is resumed after evidence of a repair and a check under load; everything else is for people."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from collector.gates.asking import Answer
from collector.gates.controller import Controller
from collector.gates.drain import ours
from collector.gates.policy import Policy
from collector.gates.record import Drained, Record
from collector.gates.repair import evidence
from collector.gates.tokens import Tokens
from pipeline import child


class GivenBack(NamedTuple):
    """What was done, in one line, and whether the node takes jobs again because of it."""

    text: str
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """The check under load, as the configuration that root reads has it: the agent, which may run as another user, cannot name one."""

    argv: tuple[str, ...] = ()
    deadline_s: float = 3600.0


class Return:
    """One node before its controller. ``ask`` gives the agent's present answer; it is asked before and after the load."""

    def __init__(
        self,
        node: str,
        controller: Controller,
        record: Record,
        policy: Policy,
        ask: Callable[[], Answer],
        *,
        proof: Proof,
        dry_run: bool = False,
    ) -> None:
        self._node, self._controller, self._record, self._policy = node, controller, record, policy
        self._proof, self._ask, self._dry_run = proof, ask, dry_run

    def attempt(self) -> GivenBack:
        """Resume the node if everything is proved. CannotAskError where the controller could not be asked."""
        record = self._record.read()
        if record is None or record.over or not record.by:
            return GivenBack("nothing here was drained by us")
        answer = self._ask()
        missing = self._interrupted(record, answer) if record.trying else self._missing(record, answer)
        if missing:
            return GivenBack(f"not resumed ({missing}): {record.reason}")
        if self._dry_run:
            return GivenBack(f"dry run: would check {self._node} under load and resume it: {record.reason}")
        proof = evidence(record, answer)
        missing = self._fails(record, proof) or self._missing(record, self._ask())  # people may have come meanwhile
        if missing:
            return GivenBack(f"not resumed ({missing}): {record.reason}")
        self._controller.resume(self._node)
        Tokens(self._controller, self._node).drop_slots()
        self._record.forget()
        return GivenBack(f"resumed {self._node}: {proof}, and the check under load passed: {record.reason}", resumed=True)

    def _fails(self, record: Drained, proof: str) -> str:
        """How the node failed under load, empty where it did not.

        The attempt is written down before it begins: a load that takes the node or this process with it has failed.
        """
        self._record.write(replace(record, failed=proof, trying=True))
        failed = self._load()
        answer = self._ask()
        now = evidence(record, answer)
        if not failed and answer.state != "ok":
            failed = f"the agent says {answer.state} after the check under load: {answer.reason}"
        if not failed and now != proof:
            failed = f"the check under load changed the node: {now or 'nothing proves a repair any more'}"
        self._record.write(replace(record, failed=(now or proof) if failed else record.failed))
        return f"{failed}; from here on a person resumes" if failed else ""

    def _interrupted(self, record: Drained, answer: Answer) -> str:
        """The last check under load never ended: what it made of the node, such as another boot, proves no repair."""
        if answer.state == "unknown":
            return f"the agent says unknown: {answer.reason}"
        since = evidence(record, answer) or record.failed
        if not self._dry_run:
            self._record.write(replace(record, failed=since, trying=False))
        return f"the check under load was cut short; {since}; from here on a person resumes"

    def _missing(self, record: Drained, answer: Answer) -> str:
        """What speaks against a return now, empty where nothing does."""
        if answer.state != "ok":
            return f"the agent says {answer.state}: {answer.reason}"
        if answer.out_of_service:
            return f"out of service: {answer.out_of_service}"
        proof = evidence(record, answer)
        if not proof:
            return f"no evidence of a repair that fits {record.action}: a person resumes"
        if proof == record.failed:
            return "the check under load failed after this repair: a person resumes"
        if not self._proof.argv:
            return "no check under load is configured (gates.slurm.proof): a person resumes"
        if self._policy.forbids(self._node):
            return self._policy.forbids(self._node)
        if not self._policy.drain:
            return "gates.slurm.drain is off"
        if Tokens(self._controller, self._node).all_off():
            return "the fleet's switch is off: reservation tocsin_off"
        state = self._controller.node(self._node)
        if not ours(state, record):
            return f"people have taken it over: {state.reason or 'no reason given'}"
        return "jobs still run on it" if state.busy else ""

    def _load(self) -> str:
        """How the check under load failed, empty where it passed."""
        shown = shlex.join(self._proof.argv)
        try:
            done = child.run(self._proof.argv, timeout_s=self._proof.deadline_s, most_bytes=16 << 20)
        except OSError as error:
            return f"{shown}: {error.strerror}"
        if done.timed_out:
            return f"{shown} took longer than {self._proof.deadline_s:g} s"
        return f"{shown} ended with {done.returncode}" if done.returncode or done.truncated else ""
