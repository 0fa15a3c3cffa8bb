"""The burn-in check is a trial of the node, not of its patience: one for each repair, and
whatever it breaks is no repair.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.integrations.agent_client import Answer, read
from collector.integrations.drain import Gate
from collector.integrations.record import Record
from collector.integrations.resume import BurnInCheck, GivenBack, Return
from tests.collector.integrations.answers import ALL, LOST, OTHERS, document
from tests.collector.integrations.slurmctld import Killed, Slurmctld

SECOND = "9d200000-second"
GPU_3 = {"kind": "gpu", "id": "GPU-03"}


class Drained:
    """A node that was drained for GPU 3, the answers of its agent in turn, and
    how often it was loaded.
    """

    def __init__(self, folder: Path, **problem: Any) -> None:
        self.slurm, self.record, self.loads = (
            Slurmctld(),
            Record(folder / "gate.json"),
            folder / "loads",
        )
        self.answers: list[Answer | Killed] = []
        answer = read(document(LOST | problem, parts=ALL))
        Gate("gpu01", self.slurm, self.record, answer.policy, now=lambda: 0.0, dry_run=False).check(
            answer
        )

    def back(self, *answers: Answer | Killed, ends: int = 0) -> GivenBack:
        """One run of the timer, in which the agent says these, the last of them from then on; a
        Killed is the end of the process.
        """
        said = iter(answers)
        last = answers[0]

        def ask() -> Answer:
            nonlocal last
            last = next(said, last)
            if isinstance(last, Killed):
                raise last
            return last

        proof = BurnInCheck(("sh", "-c", f"echo once >>{self.loads}; exit {ends}"))
        policy = read(document()).policy
        return Return("gpu01", self.slurm, self.record, policy, ask, proof=proof).attempt()

    @property
    def loaded(self) -> int:
        """Burn-in checks that were begun."""
        return len(self.loads.read_text().split()) if self.loads.exists() else 0


def well(boot_id: str = SECOND, *, epoch: str = "580.95#0") -> Answer:
    """All is well, in that boot, and GPU 3 in that life of its."""
    return read(document(boot_id=boot_id, parts=[*OTHERS, GPU_3 | {"epoch": epoch}]))


@pytest.fixture
def node(tmp_path: Path) -> Drained:
    """One that a reboot repairs."""
    return Drained(tmp_path)


@pytest.fixture
def reset(tmp_path: Path) -> Drained:
    """One that a reset of the GPU repairs."""
    return Drained(tmp_path, action="COMPONENT_RESET")


@contextlib.contextmanager
def dying() -> Iterator[None]:
    """Whoever runs in it is killed."""
    with pytest.raises(Killed):
        yield


@pytest.mark.slow
def test_a_load_that_reboots_the_node_is_not_its_own_proof(node: Drained) -> None:
    """The boot that the check itself caused proves nothing: the timer loads that node once, and not
    every quarter of an hour.
    """
    with dying():
        node.back(well(), Killed())
    said = [node.back(well("a7c40000-third")).text for _ in range(2)]
    assert "(the burn-in check was interrupted; the node was rebooted" in said[0]
    assert "(the burn-in check failed after this repair: resume it manually)" in said[1]
    assert (node.loaded, [*node.slurm.reasons]) == (1, ["gpu01"])


@pytest.mark.slow
def test_a_load_that_was_killed_has_failed(node: Drained) -> None:
    """By its unit's deadline or by a person: nobody knows how it would have ended."""
    with dying():
        node.back(well(), Killed())
    for _ in range(2):
        assert not node.back(well()).resumed
    assert node.loaded == 1


@pytest.mark.slow
def test_an_agent_that_is_starting_settles_nothing(node: Drained) -> None:
    """After the crash the node's boot is not known at once; it must not pass
    for a repair once it is.
    """
    with dying():
        node.back(well(), Killed())
    node.back(read(document(verdict="unknown", reason="still starting", boot_id="")))
    for _ in range(2):
        assert not node.back(well("a7c40000-third")).resumed
    assert node.loaded == 1


@pytest.mark.slow
def test_a_repair_after_a_load_that_broke_the_node_counts(node: Drained) -> None:
    """Once it is known what the load did, another boot is a person's work."""
    with dying():
        node.back(well(), Killed())
    node.back(well("a7c40000-third"))
    assert node.back(well("c0de0000-fourth")).resumed


@pytest.mark.slow
def test_a_reset_under_load_is_a_failure(reset: Drained) -> None:
    """The GPU came back by itself, and would fail again under the next job."""
    said = reset.back(
        well("8c1f0000-first", epoch="580.95#1"), well("8c1f0000-first", epoch="580.95#2")
    )
    assert (
        "the burn-in check changed the node: the GPU was reset (epoch 580.95#0 is now 580.95#2)"
        in said.text
    )
    assert not reset.back(well("8c1f0000-first", epoch="580.95#2")).resumed
    assert reset.loaded == 1


@pytest.mark.slow
def test_a_second_reset_is_other_evidence(reset: Drained) -> None:
    """After a failed check the GPU was reset once more: that is a repair of its own."""
    first, second = (well("8c1f0000-first", epoch=f"580.95#{life}") for life in (1, 2))
    assert not reset.back(first, ends=1).resumed
    assert not reset.back(first).resumed
    assert reset.back(second).resumed


@pytest.mark.slow
@pytest.mark.parametrize("state", ["problem", "unknown"])
def test_a_node_that_is_not_well_after_the_load_is_not_loaded_again(
    node: Drained, state: str
) -> None:
    """Whether the fault came back or the agent lost sight of the node."""
    after = read(document(boot_id=SECOND, verdict=state, reason="GPU 3 is gone"))
    assert (
        f"(the agent reports {state} after the burn-in check: GPU 3 is gone"
        in node.back(well(), after).text
    )
    assert not node.back(well()).resumed
    assert node.loaded == 1


@pytest.mark.slow
def test_what_people_switched_off_during_a_load_that_passed_is_no_failure(node: Drained) -> None:
    """The switch holds the node; once it is taken away, the repair is still one."""
    at_work = read(document(boot_id=SECOND, out_of_service="burning in"))
    assert "(out of service: burning in)" in node.back(well(), at_work).text
    assert node.back(well()).resumed


@pytest.mark.slow
def test_a_node_with_a_suspended_job_is_not_loaded(node: Drained) -> None:
    """Its burn-in check would run beside a job that goes on at any moment."""
    node.slurm.suspended.add("gpu01")
    assert "(jobs are still running)" in node.back(well()).text
    assert node.loaded == 0
    node.slurm.suspended.clear()
    assert node.back(well()).resumed


@pytest.mark.slow
def test_a_node_whose_registration_is_invalid_is_not_resumed(node: Drained) -> None:
    """The agent finds all well; to Slurm a GPU is missing."""
    node.slurm.invalid.add("gpu01")
    node.slurm.reasons["gpu01"] = "gres/gpu count reported lower@slurm 99"
    assert "(its registration is invalid: gres/gpu count" in node.back(well()).text
    assert node.loaded == 0
