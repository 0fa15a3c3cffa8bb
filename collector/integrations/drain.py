"""Draining a node for an incident: at most once, in words of our own, within the cap, and never
against what people decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from collector.integrations.agent_client import Answer, Problem
from collector.integrations.policy import Policy
from collector.integrations.record import Drained, Record, key
from collector.integrations.scheduler import AWAY, MAINTAINED, OURS, NodeState, Scheduler
from collector.integrations.tokens import Tokens

# Actions (pipeline/finding.py) that need the node free of jobs. An application
# is restarted by its owner.
NEEDS_NODE = frozenset(
    (
        "COMPONENT_RESET",
        "CONTACT_SUPPORT",
        "RUN_FIELDDIAG",
        "RESTART_VM",
        "RESTART_BM",
        "REPLACE_VM",
        "RUN_DCGMEUD",
    )
)
MAX_REASON = 200
SHORT_ID = 8  # characters of an id, as the command line shows it
# Kept is printable ASCII without quotes, equals sign, backslash and bar, which
# Slurm's tools read as theirs.
_UNSAFE = re.compile(r"[^ !#-&(-<>-\[\]^-{}~]")


class Gate:
    """One node before its controller.

    ``now`` gives unix seconds. With ``dry_run`` nothing is changed anywhere.
    """

    def __init__(
        self,
        node: str,
        controller: Scheduler,
        record: Record,
        policy: Policy,
        *,
        now: Callable[[], float],
        dry_run: bool,
    ) -> None:
        self._node, self._controller, self._record, self._policy = node, controller, record, policy
        self._now, self._dry_run = now, dry_run
        self._tokens = Tokens(controller, node)

    def check(self, answer: Answer) -> str:
        """Drain the node where the answer is a reason to; what was done, in one line.

        CannotAskError where the controller did not answer: the next check
        takes up what this one began.
        """
        left = self.reconcile(answer)
        if left is not None:
            return left
        causes = causes_of(answer, self._policy)
        if not causes:
            return _calm(answer)
        worst, reason = causes[0], reason_of(*causes, simulated=bool(answer.simulated))
        forbidden = self._policy.forbids(self._node) or self._unfit(
            self._controller.node(self._node), worst
        )
        if forbidden:
            return f"not drained ({forbidden}): {reason}"
        if self._dry_run:
            return f"dry run: would drain {self._node}{self._no_room()}: {reason}"
        return self._drain(answer, worst, reason)

    def reconcile(self, answer: Answer) -> str | None:
        """What became of an earlier drain of ours, in one line; None where there is none, or it is
        over and done with. The answer must not be unknown. CannotAskError.
        """
        record = self._record.read()
        return None if record is None else self._reconcile(record, answer)

    def _drain(self, answer: Answer, worst: Problem, reason: str) -> str:
        """What is about to be done is written down first: whatever interrupts this, the next check
        finds out how far it came.
        """
        meant = Drained(
            node=self._node,
            incident=worst.id,
            incidents=[cause.id for cause in causes_of(answer, self._policy)],
            action=worst.action,
            kind=worst.kind,
            device=worst.device,
            slot="",
            reason=reason,
            by="",
            boot_id=answer.boot_id,
            time=self._now(),
            parts={key(kind, part): epoch for (kind, part), epoch in answer.parts.items()},
            silent=[key(*part) for part in sorted(answer.silent)],
        )
        self._record.write(meant)
        slot, allowance, full = self._claim()
        if full:
            self._record.forget()
            return f"not drained ({full}): {reason}"
        meant = replace(meant, allowance=allowance)
        self._record.write(meant)  # a drain that is refused gives its allowance back
        state = self._controller.node(self._node)  # people may have come first
        if state.drained:
            self._tokens.drop(slot)
            self._tokens.drop(allowance)
            self._record.forget()
            return f"not drained (already drained by someone else: {state.reason}): {reason}"
        self._controller.drain(self._node, reason)
        self._record.write(replace(meant, slot=slot, by=self._controller.node(self._node).by))
        return f"drained {self._node}: {reason}"

    def _claim(self) -> tuple[str, str, str]:
        """A slot and an allowance of this hour, or why there is none."""
        if self._tokens.all_off():
            return "", "", "disabled fleet-wide by reservation tocsin_off"
        drained = self._controller.drained()
        if len(drained) >= self._policy.most_drained:
            full = (
                f"limit reached: Tocsin has drained {len(drained)} nodes, "
                f"{self._policy.most_drained} are allowed"
            )
            return "", "", full
        slot = self._tokens.slot(self._policy.most_drained)
        if not slot:
            return "", "", f"limit reached: all {self._policy.most_drained} slots are in use"
        allowance = self._tokens.hour(self._policy.most_per_hour, self._now())
        if not allowance:
            self._tokens.drop(slot)
            return "", "", f"limit reached: {self._policy.most_per_hour} nodes per hour"
        return slot, allowance, ""

    def _reconcile(self, record: Drained, answer: Answer) -> str | None:
        """What became of our drain; None where it is over and done with, and
        this node is as any other.
        """
        state = self._controller.node(self._node)
        if ours(state, record):
            if (
                not record.by and not self._dry_run
            ):  # an earlier check was interrupted right after it had drained
                record = replace(
                    record, by=state.by, slot=self._tokens.slot(self._policy.most_drained)
                )
                self._record.write(record)
            return f"drained by Tocsin: {self._refreshed(record, answer)}"
        if self._dry_run:
            return f"dry run: no longer drained by Tocsin: {record.reason}"
        self._tokens.drop_slots()
        if record.confirmed and record.about & answer.open:
            if not record.over:
                self._record.write(replace(record, over=True))
            return f"left to operators, who resumed or changed it: {record.reason}"
        if record.allowance and not record.confirmed:  # nothing was drained with it
            self._tokens.drop(record.allowance)
        self._record.forget()
        return None

    def _refreshed(self, record: Drained, answer: Answer) -> str:
        """The reason, which names each part that is broken by now: who repairs the first must not
        take the node for whole.
        """
        causes = causes_of(answer, self._policy)
        reason = reason_of(*causes, simulated=bool(answer.simulated)) if causes else record.reason
        if self._dry_run:
            return record.reason
        record = self._extended(record, causes, answer)
        if reason == record.reason or self._policy.forbids(self._node):
            return record.reason
        self._record.write(replace(record, reason=reason, was=record.reason, by=""))
        self._controller.drain(self._node, reason)
        by = self._controller.node(self._node).by
        self._record.write(replace(record, reason=reason, was="", by=by))
        return reason

    def _extended(self, record: Drained, causes: list[Problem], answer: Answer) -> Drained:
        """With the incidents that the drain is for by now: an operator who resumes the node decides
        about all of them.
        """
        left = [one for one in record.incidents if one in answer.open]
        new = [one.id for one in causes if one.id not in left]
        if new or len(left) < len(record.incidents):
            record = replace(record, incidents=[*left, *new])
            self._record.write(record)
        return record

    def _unfit(self, state: NodeState, worst: Problem) -> str:
        """Why the node as the controller sees it must not be drained, empty where it may."""
        if not self._policy.drain and not self._dry_run:
            return f"{self._policy.where}.drain is off"
        if state.drained:
            return f"already drained: {state.reason}"
        away = state.words & (AWAY | MAINTAINED)
        if away:
            return f"it is {' and '.join(sorted(away)).lower()}"
        if state.refused:
            return state.refused
        if state.busy and worst.severity != "page":
            return "jobs are running, and a ticket can wait"
        return ""

    def _no_room(self) -> str:
        drained = len(self._controller.drained())
        return (
            f" if the limit allowed it ({drained} of {self._policy.most_drained})"
            if drained >= self._policy.most_drained
            else ""
        )


def causes_of(answer: Answer, policy: Policy) -> list[Problem]:
    """The incidents to drain for, the gravest first: grave enough, nobody has acknowledged them,
    and their remedy needs the node.
    """
    if answer.state != "problem" or answer.out_of_service:
        return []
    candidates = [
        p
        for p in answer.problems
        if policy.grave(p.severity) and p.action in NEEDS_NODE and not p.acknowledged
    ]
    return sorted(candidates, key=lambda p: (p.severity != "page", p.id))


def reason_of(first: Problem, *others: Problem, simulated: bool = False) -> str:
    """The drain's reason: whose it is, what is wrong, and with which parts; the incident as
    `tocsin explain` takes it.

    >>> lost = Problem(
    ...     "5a2e17",
    ...     "page",
    ...     "RESTART_BM",
    ...     "gpu_lost",
    ...     "gpu",
    ...     "GPU-8a",
    ...     "GPU 3",
    ...     "Gone.",
    ...     False,
    ...     "16",
    ... )
    >>> reason_of(lost)
    'tocsin:gpu_lost GPU 3 (GPU-8a, serial 16, incident 5a2e17): Gone.'
    >>> reason_of(lost, lost._replace(fault="ecc/sram", name="GPU 4"))
    'tocsin:gpu_lost GPU 3, ecc/sram GPU 4 (incident 5a2e17): Gone.'
    """
    names = ", ".join(f"{problem.fault} {problem.name}" for problem in (first, *others))
    part = [] if others else [first.device, *([f"serial {first.serial}"] if first.serial else [])]
    what = f"{names} ({', '.join([*part, f'incident {first.id[:SHORT_ID]}'])}): "
    mark = " [simulated]" if simulated else ""  # however long the rest is
    words = f"{OURS}{_UNSAFE.sub('?', what + first.summary)}"
    return words[: MAX_REASON - len(mark)].rstrip() + mark


def ours(state: NodeState, record: Drained) -> bool:
    """Whether the node is drained by us and nobody has touched that since: same words,
    same author, same second. A reason that Slurm itself has put in place of ours, because a GPU is
    missing at the node's registration, is no operator's.
    """
    as_left = state.reason in (record.reason, record.was or record.reason) and (
        record.by in ("", state.by)
    )
    replaced = state.replaced and bool(record.by) and _author(state.by) != _author(record.by)
    return state.drained and not record.over and (as_left or replaced)


def _author(by: str) -> str:
    return by.partition("@")[0]


def _calm(answer: Answer) -> str:
    if answer.out_of_service:
        return f"out of service: {answer.out_of_service}"
    if answer.state == "problem":
        return f"nothing to drain for: {answer.reason}"
    return f"{answer.state}: {answer.reason}"
