"""What counts as evidence of a repair, by proposed action: what fits the fault and nothing less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.integrations.agent_client import Answer
from collector.integrations.record import Drained, key
from collector.integrations.repair import evidence

GPUS = {("gpu", f"GPU-{number}"): "580#1" for number in range(4)}
BEFORE = Drained(
    node="gpu01",
    incident="5a2e",
    action="COMPONENT_RESET",
    kind="gpu",
    device="GPU-3",
    slot="tocsin_slot_1",
    reason="tocsin:ecc GPU 3",
    by="root@2026-11-20T13:26:47",
    boot_id="first",
    time=0.0,
    parts={key(kind, part): epoch for (kind, part), epoch in GPUS.items()},
)
NOW = Answer("gpu01", "ok", "no problems found", boot_id="first", parts=GPUS)
RESET = NOW._replace(parts=GPUS | {("gpu", "GPU-3"): "580#2"})
REBOOTED = NOW._replace(boot_id="second")
WITHOUT = {part: epoch for part, epoch in GPUS.items() if part != ("gpu", "GPU-3")}
LOST = "gpu GPU-3"
REPLACED = NOW._replace(parts=WITHOUT | {("gpu", "GPU-9"): "580#0"})


@pytest.mark.parametrize(
    ("action", "enough"),
    [
        ("COMPONENT_RESET", {"reset", "rebooted", "replaced"}),
        ("RUN_FIELDDIAG", {"reset", "rebooted", "replaced"}),
        ("RESTART_BM", {"rebooted"}),
        ("CONTACT_SUPPORT", {"replaced"}),
        ("REPLACE_VM", {"replaced"}),
        ("UNKNOWN", set()),
    ],
)
def test_what_suffices_for_which_action(action: str, enough: set[str]) -> None:
    """A part that has to go is not well because the node was rebooted."""
    seen = {"reset": RESET, "rebooted": REBOOTED, "replaced": REPLACED}
    drained = replace(BEFORE, action=action)
    assert {name for name, answer in seen.items() if evidence(drained, answer)} == enough


@pytest.mark.parametrize(
    "answer",
    [
        NOW,
        NOW._replace(parts=WITHOUT),
        NOW._replace(parts=WITHOUT | {("ib_port", "0xa1"): ""}),
        NOW._replace(parts={("gpu", "GPU-9"): "580#0"}),
        NOW._replace(parts=GPUS | {("gpu", "GPU-3"): "580#0"}),
        NOW._replace(parts=GPUS | {("gpu", "GPU-3"): "590"}),
        NOW._replace(parts=GPUS | {("gpu", "GPU-2"): "580#2"}),
        NOW._replace(boot_id=""),
    ],
    ids=[
        "nothing happened",
        "the part is gone",
        "another kind of part came",
        "others are missing too",
        "only the agent was restarted",
        "an epoch that is none",
        "another GPU was reset",
        "no boot id",
    ],
)
def test_what_is_no_evidence(answer: Answer) -> None:
    """A fault that is not seen any more is not a repair."""
    assert evidence(BEFORE, answer) == ""


def test_another_gpu_that_answers_again_is_no_new_part() -> None:
    """Two were lost when the node was drained, and one came back: the other is still broken."""
    drained = replace(
        BEFORE,
        action="CONTACT_SUPPORT",
        parts={part: e for part, e in BEFORE.parts.items() if part not in ("gpu GPU-2", LOST)},
        silent=("gpu GPU-2", LOST),
    )
    assert evidence(drained, NOW._replace(parts=WITHOUT)) == ""
    assert evidence(drained, REPLACED) == "the part was replaced (GPU-3 by GPU-9)"
    one_less = {part: e for part, e in REPLACED.parts.items() if part != ("gpu", "GPU-0")}
    assert evidence(drained, NOW._replace(parts=one_less)) == ""


def test_a_lost_gpu_that_answers_again_is_not_another_part() -> None:
    """It did not answer when the node was drained; the same part being back says nothing."""
    drained = replace(
        BEFORE,
        action="CONTACT_SUPPORT",
        parts={part: e for part, e in BEFORE.parts.items() if part != "gpu GPU-3"},
    )
    assert evidence(drained, NOW) == ""
    assert evidence(drained, REPLACED) == "the part was replaced (GPU-3 by GPU-9)"
