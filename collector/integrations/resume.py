"""Return to service: what we drained is resumed after evidence of a repair and a burn-in check;
everything else is for people.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from collector.integrations.agent_client import Answer
from collector.integrations.drain import ours
from collector.integrations.policy import Policy
from collector.integrations.record import Drained, Record
from collector.integrations.repair import evidence
from collector.integrations.scheduler import INVALID, Scheduler
from collector.integrations.tokens import Tokens
from pipeline import child


class GivenBack(NamedTuple):
    """What was done, in one line, and whether the node takes jobs again because of it."""

    text: str
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class BurnInCheck:
    """The burn-in check, as the configuration that root reads has it: the agent, which may run
    as another user, cannot name one.
    """

    argv: tuple[str, ...] = ()
    deadline_s: float = 3600.0


class Return:
    """One node before its controller.

    ``ask`` gives the agent's present answer; it is asked before and after the load.
    """

    def __init__(
        self,
        node: str,
        controller: Scheduler,
        record: Record,
        policy: Policy,
        ask: Callable[[], Answer],
        *,
        proof: BurnInCheck,
        dry_run: bool = False,
    ) -> None:
        self._node, self._controller, self._record, self._policy = node, controller, record, policy
        self._proof, self._ask, self._dry_run = proof, ask, dry_run

    def attempt(self) -> GivenBack:
        """Resume the node if everything is proved.

        CannotAskError where the controller could not be asked.
        """
        record = self._record.read()
        if record is None or record.over or not record.by:
            return GivenBack("this node was not drained by Tocsin")
        answer = self._ask()
        missing = (
            self._interrupted(record, answer) if record.trying else self._missing(record, answer)
        )
        if missing:
            return GivenBack(f"not resumed ({missing}): {record.reason}")
        if self._dry_run:
            return GivenBack(
                f"dry run: would run the burn-in check and resume {self._node}: {record.reason}"
            )
        proof = evidence(record, answer)
        missing = self._fails(record, proof) or self._missing(
            record, self._ask()
        )  # people may have come meanwhile
        if missing:
            return GivenBack(f"not resumed ({missing}): {record.reason}")
        self._controller.resume(self._node)
        Tokens(self._controller, self._node).drop_slots()
        self._record.forget()
        return GivenBack(
            f"resumed {self._node}: {proof}, and the burn-in check passed: {record.reason}",
            resumed=True,
        )

    def _fails(self, record: Drained, proof: str) -> str:
        """How the node failed under load, empty where it did not.

        The attempt is written down before it begins: a load that takes the node or this
        process with it has failed.
        """
        self._record.write(replace(record, failed=proof, trying=True))
        failed = self._load()
        answer = self._ask()
        now = evidence(record, answer)
        if not failed and answer.state != "ok":
            failed = f"the agent reports {answer.state} after the burn-in check: {answer.reason}"
        if not failed and now != proof:
            failed = (
                f"the burn-in check changed the node: {now or 'no evidence of a repair any more'}"
            )
        self._record.write(replace(record, failed=(now or proof) if failed else record.failed))
        return f"{failed}; resume it manually" if failed else ""

    def _interrupted(self, record: Drained, answer: Answer) -> str:
        """The last burn-in check never ended: what it made of the node, such as
        another boot, proves no repair.
        """
        if answer.state == "unknown":
            return f"the agent reports unknown: {answer.reason}"
        since = evidence(record, answer) or record.failed
        if not self._dry_run:
            self._record.write(replace(record, failed=since, trying=False))
        return f"the burn-in check was interrupted; {since}; resume it manually"

    def _missing(self, record: Drained, answer: Answer) -> str:
        """Why the node cannot be resumed now, empty if it can."""
        if answer.state != "ok":
            return f"the agent reports {answer.state}: {answer.reason}"
        if answer.out_of_service:
            return f"out of service: {answer.out_of_service}"
        proof = evidence(record, answer)
        if not proof:
            return f"no evidence of a repair that matches {record.action}: resume it manually"
        if proof == record.failed:
            return "the burn-in check failed after this repair: resume it manually"
        if not self._proof.argv:
            where = f"{self._policy.where}.proof"
            return f"no burn-in check is configured ({where}): resume it manually"
        if self._policy.forbids(self._node):
            return self._policy.forbids(self._node)
        if not self._policy.drain:
            return f"{self._policy.where}.drain is off"
        if Tokens(self._controller, self._node).all_off():
            return "disabled fleet-wide by reservation tocsin_off"
        state = self._controller.node(self._node)
        if not ours(state, record):
            return f"changed by an operator: {state.reason or 'no reason given'}"
        if state.words & INVALID:
            return f"its registration is invalid: {state.reason}"
        busy = state.busy or self._controller.has_jobs(self._node)
        return "jobs are still running" if busy else ""

    def _load(self) -> str:
        """How the burn-in check failed, empty where it passed."""
        shown = shlex.join(self._proof.argv)
        try:
            done = child.run(self._proof.argv, timeout_s=self._proof.deadline_s, max_bytes=16 << 20)
        except OSError as error:
            return f"{shown}: {error.strerror}"
        if done.timed_out:
            return f"{shown} took longer than {self._proof.deadline_s:g} s"
        return f"{shown} exited with {done.returncode}" if done.returncode or done.truncated else ""
