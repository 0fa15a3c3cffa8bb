"""The words of a drain, what it costs where it is refused, and whose it is afterwards."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.integrations.agent_client import Problem, read
from collector.integrations.controller import Controller
from collector.integrations.drain import MAX_REASON, Gate, reason_of
from collector.integrations.record import Record
from collector.integrations.scheduler import CannotAskError
from tests.collector.integrations.answers import LOST, document
from tests.collector.integrations.slurmctld import Slurmctld

NOON = 1_800_014_400.0  # 2027-01-15 12:00:00 UTC

LONG = Problem(
    "1",
    "page",
    "RESTART_BM",
    "gpu_lost",
    "gpu",
    "GPU-8a",
    "GPU 3",
    "It explains many findings. " * 20,
    acknowledged=False,
)


def test_a_rehearsal_is_called_one_however_much_there_is_to_say() -> None:
    """Words are cut, and never the last ones."""
    reason = reason_of(LONG, simulated=True)
    assert reason.startswith("tocsin:gpu_lost GPU 3 (GPU-8a, incident 1): It explains")
    assert reason.endswith(" [simulated]")
    assert len(reason) <= MAX_REASON


A, B = LOST | {"id": "first"}, LOST | {"id": "second", "device": "GPU-05", "name": "GPU 5"}


class Refuses(Slurmctld):
    """A controller that takes no drain."""

    def drain(self, node: str, reason: str) -> None:
        raise CannotAskError(f"not {node}")


class Taken(Slurmctld):
    """A controller at which an operator drains the node while it is about to be drained."""

    def take(self, token: str, node: str) -> bool:
        self.reasons[node] = "new firmware@root 1"
        return super().take(token, node)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """What one node keeps."""
    return Record(tmp_path / "gate.json")


def check(controller: Slurmctld, record: Record, *problems: dict[str, Any], now: float = 0) -> str:
    """One health check of that node, with incidents that are open."""
    answer = read(document(*problems))
    gate = Gate("gpu01", controller, record, answer.policy, now=lambda: now, dry_run=False)
    return gate.check(answer)


def test_a_drain_that_is_refused_again_and_again_uses_one_allowance(record: Record) -> None:
    """The other nodes of the fleet have theirs, also in the hours after."""
    controller = Refuses()
    for number in range(40):
        with pytest.raises(CannotAskError, match="not gpu01"):
            check(controller, record, A, now=NOON + 300 * number)
        assert sum("hour" in token for token in controller.held) == 1
    check(controller, record)
    assert controller.held == {}


def test_a_drain_that_an_operator_came_before_uses_no_allowance(record: Record) -> None:
    """No node of the fleet waits an hour for a drain that was none."""
    controller = Taken()
    assert check(controller, record, A, now=NOON).startswith("not drained (already drained by")
    assert controller.held == {}
    assert record.read() is None


def test_an_allowance_of_a_drain_that_was_done_is_used(record: Record) -> None:
    """People resumed the node at once: it was drained in this hour all the same."""
    controller = Slurmctld()
    assert check(controller, record, A, now=NOON).startswith("drained")
    controller.reasons.clear()
    check(controller, record, now=NOON)
    assert [token for token in controller.held if "hour" in token]
    assert record.read() is None


def test_what_people_resumed_is_left_alone_for_each_of_its_incidents(record: Record) -> None:
    """The second one joined later; only a third, when both are closed, is news."""
    controller = Slurmctld()
    check(controller, record, A)
    check(controller, record, A, B)
    controller.reasons.clear()
    for problems in ((A, B), (B,), (B, A | {"id": "third"})):
        assert check(controller, record, *problems).startswith("left to operators")
    assert check(controller, record, A | {"id": "third"}).startswith("drained")


def test_a_record_of_an_earlier_release_is_understood(record: Record) -> None:
    """It has the one incident that the node was drained for."""
    controller = Slurmctld()
    check(controller, record, A)
    old = json.loads(record.file.read_text())
    del old["incidents"], old["allowance"]
    record.file.write_text(json.dumps(old))
    assert check(controller, record, A).startswith("drained by Tocsin")
    controller.reasons.clear()
    assert check(controller, record, A).startswith("left to operators")


def test_people_who_resume_while_the_reason_changes_have_decided(record: Record) -> None:
    """The check was killed between its note and the controller's answer."""
    controller = Slurmctld()
    check(controller, record, A)
    known = record.read()
    assert known is not None
    record.write(replace(known, reason="tocsin:both", was=known.reason, by=""))
    controller.reasons.clear()
    assert check(controller, record, A).startswith("left to operators")


SCONTROL = """\
#!/bin/sh
case "$*" in
*config) echo "SlurmUser               = slurm(64030)";;
*) echo "NodeName=gpu01 State=IDLE+DRAIN+{word} Port=1 Reason=gres/gpu count [{by}@2026-11-20T13:26:47]";;
esac
"""  # noqa: E501 - as scontrol prints it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "by", "replaced"),
    [("INVALID_REG", "slurm", True), ("INVALID_REG", "root", False), ("MAINT", "slurm", False)],
)
def test_a_reason_that_slurm_itself_has_set_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, by: str, replaced: bool
) -> None:
    """By its user, and only of a node whose registration is invalid."""
    script = tmp_path / "scontrol"
    script.write_text(SCONTROL.format(word=word, by=by))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    state = Controller().node("gpu01")
    assert (state.replaced, state.drained) == (replaced, True)


@pytest.mark.slow
def test_a_suspended_job_is_seen_in_the_list_of_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the environment of who asks has squeue leave out."""
    script = tmp_path / "squeue"
    script.write_text(
        '#!/bin/sh\n[ -z "$SQUEUE_STATES" ] || exit 0\n'
        'case "$*" in *--nodelist=gpu01*SUSPENDED*) echo 7;; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    assert Controller().has_jobs("gpu01")
    assert not Controller().has_jobs("gpu02")
