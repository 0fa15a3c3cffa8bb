"""Whether a repair may touch the node now: what is not ours any more is left to operators."""

from __future__ import annotations

from typing import NamedTuple

from collector.integrations.agent_client import Answer
from collector.integrations.drain import ours
from collector.integrations.scheduler import AWAY, MAINTAINED
from collector.integrations.tokens import Tokens
from collector.repair.case import Case
from collector.repair.site import Site


class Refusal(NamedTuple):
    """Why not. ``final`` where an operator decided otherwise: the case is theirs from now on."""

    text: str
    final: bool = False


def refusal(site: Site, case: Case, answer: Answer | None = None) -> Refusal | None:
    """None where the node is drained by us, nobody has changed that, and no job is left on it.

    Without an answer the agent is not asked: it may be stopped for the act already.
    CannotAskError where the scheduler does not answer.
    """
    switch = site.policy.forbids(site.node)
    if switch:
        return Refusal(switch)
    if Tokens(site.scheduler, site.node).all_off():
        return Refusal("disabled fleet-wide (tocsin_off)")
    if answer is not None and answer.out_of_service:
        return Refusal(f"out of service: {answer.out_of_service}")
    if answer is not None and any(
        p.id == case.incident and p.acknowledged for p in answer.problems
    ):
        return Refusal("an operator has acknowledged the incident", final=True)
    return _not_ours(site, case)


def _not_ours(site: Site, case: Case) -> Refusal | None:
    state, record = site.scheduler.node(site.node), site.record.read()
    if record is not None and not record.by and ours(state, record):
        return Refusal("the drain is not confirmed yet")
    if record is None or not ours(state, record):
        now = f"drained by someone else: {state.reason}" if state.drained else "no longer drained"
        return Refusal(f"an operator changed the node ({now})", final=True)
    away = state.words & (AWAY | MAINTAINED)
    if away and case.step == "drained":
        return Refusal(f"the node is {' and '.join(sorted(away)).lower()}")
    busy = state.busy or site.scheduler.has_jobs(site.node)
    return Refusal("jobs are still running") if busy else None
