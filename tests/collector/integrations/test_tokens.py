"""The cap: whoever asks in whatever order, no token is given twice and none too many; and the
switches that come before it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.integrations.controller import parse_node
from collector.integrations.policy import Policy, off
from collector.integrations.record import Record
from collector.integrations.scheduler import CannotAskError
from collector.integrations.tokens import Tokens
from tests.sources import ROOT

NOON = 1_800_014_400.0  # 2027-01-15 12:00:00 UTC
HOUR = 3600.0


class Names:
    """What slurmctld does with names of reservations."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def tokens(self, prefix: str) -> dict[str, str]:
        return {name: node for name, node in self.held.items() if name.startswith(prefix)}

    def take(self, token: str, node: str) -> bool:
        return self.held.setdefault(token, node) == node

    def drop(self, token: str) -> None:
        self.held.pop(token, None)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.sampled_from([f"gpu{number}" for number in range(8)]), max_size=30),
    st.integers(1, 4),
)
def test_no_more_slots_than_the_cap_and_one_for_a_node(asking: list[str], most: int) -> None:
    """Any nodes, any order, again and again."""
    names = Names()
    for node in asking:
        Tokens(names, node).slot(most)
    assert len(names.held) == min(most, len(set(asking)))
    assert len(set(names.held.values())) == len(names.held)


class Stale(Names):
    """Others were quicker: what was listed no longer holds when a token is asked for."""

    def tokens(self, prefix: str) -> dict[str, str]:
        return {}


def test_a_list_that_is_stale_gives_no_slot_twice() -> None:
    """All nodes list at the same moment and see every slot free; what
    counts is who gets the name.
    """
    names = Stale()
    given_to = [Tokens(names, f"gpu{number}").slot(3) for number in range(10)]
    assert sorted(filter(None, given_to)) == ["tocsin_slot_1", "tocsin_slot_2", "tocsin_slot_3"]


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.floats(0, 6 * HOUR), max_size=30).map(sorted), st.integers(1, 3))
def test_no_more_allowances_than_the_hour_has_in_any_sixty_minutes(
    times: list[float], most: int
) -> None:
    """Not by the clock's hours alone: 12:59 and 13:01 are the same hour to whoever is on call."""
    names = Names()
    given_at = [
        at for number, at in enumerate(times) if Tokens(names, f"gpu{number}").hour(most, NOON + at)
    ]
    assert all(sum(begin <= at < begin + HOUR for at in given_at) <= most for begin in given_at)


def test_an_hour_later_there_is_room_again_and_old_allowances_are_cleared_away() -> None:
    """Two clock hours on; a node clears its own away, and others' after a day."""
    names = Names()
    assert Tokens(names, "gpu1").hour(1, NOON)
    assert not Tokens(names, "gpu2").hour(1, NOON + HOUR)
    assert Tokens(names, "gpu2").hour(1, NOON + 2 * HOUR)
    assert list(names.held.values()) == ["gpu1", "gpu2"]
    assert Tokens(names, "gpu2").hour(1, NOON + 4 * HOUR)
    assert list(names.held.values()) == ["gpu1", "gpu2"]
    assert Tokens(names, "gpu3").hour(1, NOON + 30 * HOUR)
    assert list(names.held.values()) == ["gpu3"]


def test_a_clock_that_is_wrong_gives_nobody_more() -> None:
    """Set back by some hours, it finds the allowances of before; ahead, it takes nobody's away."""
    names = Names()
    assert Tokens(names, "gpu1").hour(1, NOON)
    assert not Tokens(names, "gpu1").hour(1, NOON - 5 * HOUR)
    ahead = Names()
    assert Tokens(ahead, "gpu1").hour(1, NOON)
    assert Tokens(ahead, "gpu2").hour(1, NOON + 6 * HOUR)
    assert not Tokens(ahead, "gpu3").hour(1, NOON)


def test_only_the_nodes_own_slots_are_given_back() -> None:
    """Another's keeps it drained within the cap."""
    names = Names()
    for node in ("gpu1", "gpu2"):
        Tokens(names, node).slot(2)
    Tokens(names, "gpu1").drop_slots()
    assert list(names.held.values()) == ["gpu2"]


def test_an_off_switch_that_cannot_be_looked_at_holds(tmp_path: Path) -> None:
    """A shared file system that is away must not let the fleet loose."""
    file = tmp_path / "file"
    file.touch()
    assert off(str(tmp_path / "gates.off")) == ""
    assert off(str(file / "gates.off")).endswith("Not a directory")
    assert off("") != ""


def test_a_policy_that_nobody_told_allows_nothing() -> None:
    """Defaults are the safe side."""
    assert (Policy().drain, Policy().most_drained, bool(Policy().forbids("gpu1"))) == (
        False,
        0,
        True,
    )


def test_a_state_as_scontrol_prints_it() -> None:
    """The words, the reason, and who set it when."""
    reason = "tocsin:xid79 gpu3 fell off the bus"
    state = parse_node(
        f"NodeName=gpu02 Arch=x86_64 State=MIXED+DRAIN Version=22.05.8 Reason={reason} "
        "[root@2026-09-01T10:00:00]"
    )
    assert (set(state.words), state.reason, state.by) == (
        {"MIXED", "DRAIN"},
        reason,
        "root@2026-09-01T10:00:00",
    )
    assert (state.busy, state.drained) == (True, True)


def test_a_link_in_the_agents_folder_is_not_written_through(tmp_path: Path) -> None:
    """Root keeps the record where the agent's user may have put anything."""
    victim = tmp_path / "shadow"
    victim.write_text("root")
    (tmp_path / "gate.lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"), Record(tmp_path / "gate.json").held():
        pass
    assert victim.read_text() == "root"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("DOWN*+DRAIN", {"DOWN", "DRAIN"}),
        ("IDLE~", {"IDLE"}),
        ("MIXED+MAINTENANCE+RESERVED", {"MIXED", "MAINTENANCE", "RESERVED"}),
    ],
)
def test_marks_behind_a_state_are_no_part_of_it(text: str, words: set[str]) -> None:
    """Not responding, powered down and the like."""
    assert parse_node(f"NodeName=a State={text} Port=1").words == words


def test_an_answer_without_a_state_is_none() -> None:
    """Then nothing is done."""
    with pytest.raises(CannotAskError, match="no state"):
        parse_node("slurm_load_node: ok")


def test_only_a_proved_return_resumes() -> None:
    """The call that lets a node take jobs again stands in one place of the sources."""
    users = [
        path.name
        for path in (ROOT / "collector").rglob("*.py")
        if ".resume(self._node)" in path.read_text(encoding="utf-8")
    ]
    assert users == ["resume.py"]
