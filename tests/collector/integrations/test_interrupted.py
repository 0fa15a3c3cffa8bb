"""Checks that die anywhere: whatever was interrupted where, the cap holds, and
people's decisions stand.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.integrations.agent_client import Answer, read
from collector.integrations.drain import Gate
from collector.integrations.record import Record
from collector.integrations.resume import BurnInCheck, Return
from collector.integrations.scheduler import OURS
from tests.collector.integrations.answers import LOST, document
from tests.collector.integrations.slurmctld import Killed, Slurmctld

NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
CAP = 2


class Fleet:
    """Four sick nodes, and what may happen to them."""

    def __init__(self, folder: Path) -> None:
        self.slurm, self.folder = Slurmctld(), folder
        self.now = 1_800_014_400.0

    def answer(self, *, repaired: bool = False) -> Answer:
        """Of an agent: the incident, or another boot without it."""
        allowed = {"most_drained": CAP, "most_per_hour": CAP}
        reported = (
            document(boot_id="second", slurm=allowed) if repaired else document(LOST, slurm=allowed)
        )
        return read(reported)

    def check(self, node: str, calls: int, *, before: bool) -> None:
        """A health check, which dies at that call."""
        with self._dying(calls, before=before):
            answer = self.answer()
            Gate(
                node,
                self.slurm,
                self._record(node),
                answer.policy,
                now=lambda: self.now,
                dry_run=False,
            ).check(answer)

    def give_back(self, node: str, calls: int, *, before: bool) -> None:
        """A return after a repair, which dies at that call."""
        with self._dying(calls, before=before):
            answer = self.answer(repaired=True)
            proof = BurnInCheck(("true",))
            Return(
                node, self.slurm, self._record(node), answer.policy, lambda: answer, proof=proof
            ).attempt()

    def people(self, node: str, *, drain: bool) -> None:
        """An administrator drains, or resumes."""
        self.slurm.clock += 1
        if drain:
            self.slurm.reasons[node] = f"ada@root {self.slurm.clock}"
        else:
            self.slurm.reasons.pop(node, None)

    def _record(self, node: str) -> Record:
        return Record(self.folder / f"{node}.json")

    @contextlib.contextmanager
    def _dying(self, calls: int, *, before: bool) -> Iterator[None]:
        self.slurm.calls, self.slurm.before = calls, before
        with contextlib.suppress(Killed):
            yield
        self.slurm.calls = 10**6


steps = st.lists(
    st.tuples(
        st.sampled_from(("check", "check", "check", "return", "drain", "resume", "hours")),
        st.sampled_from(NODES),
        st.integers(1, 14),
        st.booleans(),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(steps)
def test_the_cap_holds_wherever_checks_die(happens: list[tuple[str, str, int, bool]]) -> None:
    """Checks, returns, people and time in any order: never more nodes of ours than the cap, and
    nothing of people's is undone or renamed.
    """
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder))
        for what, node, calls, before in happens:
            theirs = {
                name: reason
                for name, reason in fleet.slurm.reasons.items()
                if reason.startswith("ada")
            }
            if what == "check":
                fleet.check(node, calls, before=before)
            elif what == "return":
                fleet.give_back(node, calls, before=before)
            elif what == "hours":
                fleet.now += 7200
            else:
                fleet.people(node, drain=what == "drain")
                theirs.pop(node, None)
            assert sum(reason.startswith(OURS) for reason in fleet.slurm.reasons.values()) <= CAP
            assert theirs.items() <= fleet.slurm.reasons.items()


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(NODES), st.integers(1, 14), st.booleans()), max_size=12))
def test_undisturbed_checks_fill_the_cap_whatever_died_before(
    died: list[tuple[str, int, bool]],
) -> None:
    """Nothing that a dead check left keeps the living ones from draining as
    many nodes as are allowed.
    """
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder))
        for node, calls, before in died:
            fleet.check(node, calls, before=before)
        fleet.now += 7200  # an allowance of the hour that a dead check took is not given back
        for node in NODES:
            fleet.check(node, 10**6, before=True)
        assert len(fleet.slurm.drained()) == CAP
