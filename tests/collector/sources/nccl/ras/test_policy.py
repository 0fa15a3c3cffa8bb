"""The polling policy: every reason not to ask is honoured, and one node asks for a job."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.nccl.ras.policy import (
    FIRST_SAFE,
    OTHERS_FIRST_S,
    REFUSALS,
    ROUTINE_S,
    SPACING_S,
    YOUNG_JOB_S,
    YOUNG_PROCESS_S,
    JobSituation,
    own_host,
    poller,
    refusal,
    slot_of,
)
from tests.sources import ROOT

NOW = 10_000.0
FIT = JobSituation(
    starts_s=(100.0, 100.0), versions=((2, 30, 7), (2, 30, 7)), listeners=2, suspected_s=NOW - 1
)


def test_a_suspected_job_of_a_safe_version_is_asked() -> None:
    """There is no reason against it."""
    assert refusal("auto", FIT, NOW) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"disabled": True}, "disabled"),
        ({"listeners": 0}, "no_socket"),
        ({"versions": ()}, "version_unknown"),
        ({"versions": ((2, 30, 7), ())}, "version_unknown"),
        ({"versions": ((2, 30, 7), (2, 28, 9))}, "version_unsafe"),
        ({"versions": ((2, 29, 1),)}, "version_unsafe"),
        ({"starts_s": (NOW - YOUNG_JOB_S + 1,)}, "young"),
        ({"starts_s": (100.0, NOW - YOUNG_PROCESS_S + 1)}, "young"),
        ({"suspected_s": None}, "quiet"),
        ({"asked_s": NOW - SPACING_S + 1}, "spacing"),
        ({"first_to_ask": False}, "not_poller"),
        ({"first_to_ask": None}, "not_poller"),
    ],
)
def test_each_reason_alone_is_enough(change: dict[str, Any], reason: str) -> None:
    """A job that would be asked is not, for one reason."""
    assert refusal("auto", replace(FIT, **change), NOW) == reason


@pytest.mark.slow
@given(st.tuples(st.integers(2, 2), st.integers(0, 40), st.integers(0, 20)))
def test_no_version_before_the_first_safe_one_is_ever_asked(version: tuple[int, int, int]) -> None:
    """Whatever is suspected."""
    asked = refusal("on", replace(FIT, versions=(version,)), NOW) is None
    assert asked == (version >= FIRST_SAFE)


def test_off_is_off() -> None:
    """Configuration comes first."""
    assert refusal("off", FIT, NOW) == "off"


def test_on_asks_every_minute_without_suspicion() -> None:
    """So that a member that is missed later has been seen."""
    calm = replace(FIT, suspected_s=None)
    assert refusal("on", calm, NOW) is None
    assert refusal("on", replace(calm, asked_s=NOW - ROUTINE_S + 1), NOW) == "quiet"
    assert refusal("on", replace(calm, asked_s=NOW - ROUTINE_S), NOW) is None


def test_a_second_look_follows_after_the_spacing() -> None:
    """Two reports make a verdict."""
    assert refusal("auto", replace(FIT, asked_s=NOW - SPACING_S), NOW) is None


def test_a_stall_that_lasts_is_looked_at_once_a_minute() -> None:
    """After the first looks there is nothing new to learn quickly."""
    looked = replace(FIT, asked_times=3, asked_s=NOW - ROUTINE_S + 1)
    assert refusal("auto", looked, NOW) == "spacing"
    assert refusal("auto", looked, NOW + 1) is None


@pytest.mark.parametrize("first", [None, False])
def test_a_node_that_another_one_asks_for_looks_once(first: bool | None) -> None:
    """Late, in its slot, and not again: the other may be the dead one."""
    unsure = replace(FIT, first_to_ask=first, suspected_s=NOW)
    assert refusal("auto", unsure, NOW + OTHERS_FIRST_S * 1.5 - 1, slot=0.5) == "not_poller"
    assert refusal("auto", unsure, NOW + OTHERS_FIRST_S * 1.5, slot=0.5) is None
    assert refusal("auto", replace(unsure, asked_times=1), NOW + 1000, slot=0.5) == "not_poller"


def test_slots_are_spread_over_the_nodes() -> None:
    """A thousand nodes do not ask in the same second."""
    slots = sorted(slot_of(f"n{n}", "71") for n in range(1000))
    assert slots[0] >= 0
    assert slots[-1] < 1
    assert max(b - a for a, b in itertools.pairwise(slots)) < 0.02


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 99)), min_size=1),
    st.randoms(),
)
def test_all_nodes_agree_who_asks(members: list[tuple[str, int]], rng: Any) -> None:
    """In whatever order they have seen the members."""
    shuffled = list(members)
    rng.shuffle(shuffled)
    assert poller(members) == poller(shuffled) != ""


def test_a_node_knows_itself_by_its_pids() -> None:
    """Two nodes with the same pids cannot be distinguished, and nothing is guessed."""
    assert own_host([("a", 1), ("a", 2), ("b", 1), ("b", 9)], [1, 2]) == "a"
    assert own_host([("a", 1), ("b", 1)], [1]) == ""
    assert own_host([], [1]) == ""


def test_containers_of_equal_pids_are_distinguished_by_address() -> None:
    """Every pod numbers its processes alike."""
    members = [("10.0.0.1", 50), ("10.0.0.1", 51), ("10.0.0.2", 50), ("10.0.0.2", 51)]
    assert own_host(members, [50, 51]) == ""
    assert own_host(members, [50, 51], {"127.0.0.1", "10.0.0.2", "fe80::1"}) == "10.0.0.2"


def test_every_reason_is_explained() -> None:
    """Each reason that a dashboard shows is in the guide."""
    guide = (ROOT / "docs" / "nccl.md").read_text(encoding="utf-8")
    assert [reason for reason in REFUSALS if f"`{reason}`" not in guide] == []
