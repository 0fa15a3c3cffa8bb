"""Arrivals: each observation once, in order, with what is wrong about a host in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gateway.arrivals import Arrivals
from pipeline.arrival import Arrival
from pipeline.bus.batch import Batch
from pipeline.clock import SECOND_NS
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from tests.fakes import FakeClock, observed

NOW_NS = 1_800_000_000 * SECOND_NS
CLOCK = FakeClock()


def batch(number: int, *seqs: int, start: str = "a", sent_ns: int = NOW_NS) -> Batch:
    """A batch of node n1."""
    judged = tuple(JudgedObservation(observed(CLOCK, seq=seq)) for seq in seqs)
    return Batch("n1", start, number, -1, sent_ns, judged)


def seqs(observations: Sequence[Observation | Arrival]) -> list[int]:
    """Their numbers."""
    return [o.seq for o in observations]


def test_a_batch_that_comes_again_gives_nothing() -> None:
    """The broker may deliver twice; so may an agent that got no answer."""
    arrivals = Arrivals()
    assert seqs([*arrivals.take("n1", batch(0, 1, 2), NOW_NS)]) == [1, 2]
    assert seqs([*arrivals.take("n1", batch(0, 1, 2), NOW_NS)]) == []
    assert seqs([*arrivals.take("n1", batch(1, 2, 3), NOW_NS)]) == [3]
    assert arrivals.hosts["n1"].repeated == 1


def test_batches_that_never_came_are_counted() -> None:
    """By the numbers; a new start begins at 0 and has missed nothing."""
    arrivals = Arrivals()
    for each in (batch(0, 1), batch(4, 9), batch(0, 1, start="b")):
        arrivals.take("n1", each, NOW_NS)
    assert arrivals.hosts["n1"].missed == 3


def test_a_batch_of_another_host_is_refused() -> None:
    """Who may publish on a subject speaks for that host only."""
    with pytest.raises(ValueError, match="a batch of 'n1' on the subject of 'n2'"):
        Arrivals().take("n2", batch(0, 1), NOW_NS)


def test_two_agents_of_one_name_are_noticed() -> None:
    """They send in turn; an agent that was restarted now and then does not."""
    arrivals = Arrivals()
    for number in range(3):
        arrivals.take("n1", batch(number, number), NOW_NS)
    for start in ("b", "c"):
        arrivals.take("n1", batch(0, 1, start=start), NOW_NS)
    assert not arrivals.hosts["n1"].doubled
    for number in range(4):
        for start in ("d", "e"):
            arrivals.take("n1", batch(number, number, start=start), NOW_NS)
    assert arrivals.hosts["n1"].doubled


@pytest.mark.parametrize("agents", [2, 3, 10, 64])
def test_many_agents_of_one_name_are_noticed_until_one_is_left(agents: int) -> None:
    """An image that was cloned with its name; ten minutes after all but one were renamed it is
    over.
    """
    arrivals = Arrivals()
    for number in range(5):
        for start in range(agents):
            arrivals.take("n1", batch(number, number, start=f"s{start}"), NOW_NS)
    assert arrivals.hosts["n1"].doubled
    after_ns = NOW_NS + 601 * SECOND_NS
    arrivals.take("n1", batch(5, 5, start="s0", sent_ns=after_ns), after_ns)
    assert not arrivals.hosts["n1"].doubled


def test_an_agent_that_crashes_again_and_again_is_one() -> None:
    """Each of its starts is a new one."""
    arrivals = Arrivals()
    for start in range(200):
        arrivals.take("n1", batch(0, 1, start=f"s{start}"), NOW_NS)
    assert not arrivals.hosts["n1"].doubled


@pytest.mark.parametrize("error_s", [-86_400, -5, 5, 86_400])
def test_a_wrong_clock_is_corrected(error_s: int) -> None:
    """By the least difference of a minute: the rest was on its way."""
    arrivals, wrong_ns = Arrivals(), error_s * SECOND_NS
    for number, late_ns in enumerate((300_000_000, 20_000_000, 900_000_000)):
        arrived_ns = NOW_NS + number * 5 * SECOND_NS
        sent_ns = arrived_ns - late_ns + wrong_ns
        arrivals.take("n1", batch(number, number, sent_ns=sent_ns), arrived_ns)
    assert arrivals.hosts["n1"].offset_ns == 20_000_000 - wrong_ns


def test_a_clock_that_is_right_is_left_alone() -> None:
    """Times stay those of the agent's own findings, whatever a message took."""
    arrivals = Arrivals()
    arrivals.take("n1", batch(0, 1, sent_ns=NOW_NS - SECOND_NS), NOW_NS)
    assert arrivals.hosts["n1"].offset_ns == 0


def test_a_clock_that_steps_is_followed_at_once() -> None:
    """The differences of before say nothing any more."""
    arrivals = Arrivals()
    arrivals.take("n1", batch(0, 1), NOW_NS)
    arrivals.take("n1", batch(1, 2, sent_ns=NOW_NS - 3600 * SECOND_NS), NOW_NS)
    assert arrivals.hosts["n1"].offset_ns == 3600 * SECOND_NS


@pytest.mark.parametrize("back_s", [3, 10, 30, 55, 61, 3600])
def test_a_clock_that_is_set_back_is_followed_at_once(back_s: int) -> None:
    """Its monotonic clock shows it: after a minute its readings were of seconds that are closed."""
    arrivals = Arrivals()
    for number in range(24):
        arrived_ns = NOW_NS + number * 5 * SECOND_NS
        wrong_ns = back_s * SECOND_NS if number >= 12 else 0
        read = replace(
            observed(CLOCK, seq=number),
            time_ns=arrived_ns - wrong_ns,
            mono_ns=number * 5 * SECOND_NS,
        )
        sent = replace(
            batch(number, sent_ns=arrived_ns - wrong_ns), judged=(JudgedObservation(read),)
        )
        arrivals.take("n1", sent, arrived_ns)
        assert arrivals.hosts["n1"].offset_ns == wrong_ns


def test_batches_that_waited_for_a_broker_are_no_clock() -> None:
    """Half a minute without a leader: all come at once, each less late than the one before."""
    arrivals = Arrivals()
    for number in range(20):
        sent_ns = NOW_NS + number * 5 * SECOND_NS
        arrived_ns = max(sent_ns, NOW_NS + 80 * SECOND_NS) if number >= 10 else sent_ns
        arrivals.take("n1", batch(number, number, sent_ns=sent_ns), arrived_ns)
        assert arrivals.hosts["n1"].offset_ns == 0


def test_a_host_that_is_gone_is_forgotten() -> None:
    """With its account; another start begins a new one."""
    arrivals = Arrivals()
    arrivals.take("n1", batch(0, 1), NOW_NS)
    assert arrivals.forget(NOW_NS) == []
    assert arrivals.forget(NOW_NS + 1) == ["n1"]
    assert arrivals.hosts == {}
    assert seqs([*arrivals.take("n1", replace(batch(5, 7)), NOW_NS)]) == [7]
