"""Ticks: seconds close when all have sent, or when it is too late to wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.arrivals import Host
from gateway.ticks import Tick, Ticks
from pipeline.arrival_cut import BEGIN, END
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.observation import Event, Observation
from pipeline.roster import Roster

BEGIN_S = 1_800_000_000


def host(name: str, arrived_s: float, through_s: float | None = None, offset_s: float = 0) -> Host:
    """A host whose last batch arrived then, and reaches as far."""
    through_s = arrived_s if through_s is None else through_s
    times = [round((BEGIN_S + s) * SECOND_NS) for s in (arrived_s, through_s)]
    return Host(name, arrived_ns=times[0], through_ns=times[1], offset_ns=round(offset_s * 1e9))


def seen(name: str, *seconds: float, source: str = "nvml") -> list[Observation]:
    """Observations of a host at these seconds."""
    return [
        Observation(source, name, "b", n, round((BEGIN_S + s) * SECOND_NS), 0, 0)
        for n, s in enumerate(seconds)
    ]


def closed(ticks: Ticks, hosts: Sequence[Host], now_s: float) -> list[Tick]:
    """What closes at that second."""
    now_ns = round((BEGIN_S + now_s) * SECOND_NS)
    return [*ticks.closed({h.name: h for h in hosts}, now_ns)]


def names(tick: Tick) -> list[list[str]]:
    """Hosts of each group."""
    return [[o.host for o in group] for group in tick.groups]


def test_a_second_closes_when_all_have_sent_past_it() -> None:
    """Not before; then at once, with all of them joined."""
    ticks, a, b = Ticks(), host("a", 5), host("b", 0.5)
    ticks.add(a, seen("a", 0, 1))
    ticks.add(b, seen("b", 0))
    assert closed(ticks, [a, b], 5) == []
    b = host("b", 5)
    ticks.add(b, seen("b", 1))
    found = closed(ticks, [a, b], 5)
    assert [(t.second - BEGIN_S, names(t), t.late) for t in found] == [
        (0, [["a", "b"]], ()),
        (1, [["a", "b"]], ()),
    ]


def test_a_host_that_does_not_send_is_waited_for_no_longer_than_its_patience() -> None:
    """A period and three seconds; it is named as late, and what it sends then is not judged."""
    ticks, a, b = Ticks(), host("a", 9), host("b", 1, 0)
    ticks.add(a, seen("a", 0))
    assert closed(ticks, [a, b], 8.9) == []
    (tick,) = closed(ticks, [a, b], 9)
    assert (names(tick), tick.late) == ([["a"]], ("b",))
    ticks.add(b, seen("b", 0.5))
    assert ticks.too_late == 1


def test_a_host_that_is_gone_is_not_waited_for() -> None:
    """Two periods and three seconds after its last batch."""
    ticks, a, b = Ticks(), host("a", 14), host("b", 0.5)
    ticks.add(a, seen("a", 12))
    assert [t.late for t in closed(ticks, [a, b], 14)] == [()]


def test_a_clock_that_is_ahead_does_not_move_the_others() -> None:
    """A host that says it is tomorrow has sent until now, and its readings are of now."""
    ticks, a, b = Ticks(), host("a", 5, 86_400), host("b", 5, 2.5)
    ticks.add(a, seen("a", 86_400))
    ticks.add(b, seen("b", 1, 2))
    assert [t.second - BEGIN_S for t in closed(ticks, [a, b], 5)] == [1]


def test_a_clock_that_was_set_back_does_not_take_the_fleet_along() -> None:
    """What a host read six hours ahead, and sent once its clock was right, is judged as of now."""
    ticks, a, b = Ticks(), host("a", 7), host("b", 7)
    ticks.add(a, seen("a", 5))
    ticks.add(b, seen("b", 6 * 3600 + 5, 6))
    roster, groups = (
        Roster(),
        [group for tick in closed(ticks, [a, b], 17) for group in tick.groups],
    )
    times = [(o.time_ns, o.mono_ns) for o in map(roster.join, groups)]
    assert len(times) == 3
    assert max(max(each) for each in times) < (BEGIN_S + 8) * SECOND_NS


def test_a_corrected_clock_is_the_time_of_all_that_is_judged() -> None:
    """A host an hour behind is joined with the others."""
    ticks, a, b = Ticks(), host("a", 5), host("b", 5, offset_s=3600)
    ticks.add(a, seen("a", 1))
    ticks.add(b, seen("b", 1 - 3600))
    (tick,) = closed(ticks, [a, b], 6)
    assert names(tick) == [["a", "b"]]
    assert {o.time_ns for o in tick.groups[0]} == {(BEGIN_S + 1) * SECOND_NS}


def test_sources_that_are_read_at_the_same_time_keep_their_own_times() -> None:
    """Their turns within a second differ; a clock that is set back does not bring back a second."""
    ticks, a = Ticks(), host("a", 15)
    for second in (1.5, 1.2, 2.4, 1.9):
        ticks.add(a, seen("a", second))
        a.gap = False
    # It began, and what was read at 1.9 is judged in second 2, at that second's begin.
    assert [e.kind for e in ticks.cut.events(0)] == [BEGIN, END, BEGIN]
    found = closed(ticks, [a], 15)
    assert [(t.second - BEGIN_S, len(t.groups)) for t in found] == [(1, 2), (2, 2)]


def test_two_readings_of_a_host_in_a_second_are_two_joins() -> None:
    """In its order; a host that reads once is in the first."""
    ticks, a, b = Ticks(), host("a", 5), host("b", 5)
    ticks.add(a, seen("a", 1, 1.5))
    ticks.add(b, seen("b", 1.2))
    (tick,) = closed(ticks, [a, b], 5)
    assert names(tick) == [["a", "b"], ["a"]]


def test_hosts_that_come_one_after_the_other_join_together() -> None:
    """At the next multiple, from which on the cut has them; one that has something to tell is heard
    at once, and goes on.
    """
    ticks, early, late, failed = Ticks(join_s=10), host("a", 30), host("b", 30), host("c", 30)
    ticks.add(early, seen("a", 1, 9, 10))
    ticks.add(late, seen("b", 9, 11))
    reported = seen("c", 2, 3, 4)
    event = Event(reported[1].time_ns, 0, Device("c", "gpu", "GPU-0"), "xid", {"code": 79})
    ticks.add(failed, [reported[0], replace(reported[1], events=(event,)), reported[2]])
    begins = {e.device.host: e.time_ns for e in ticks.cut.events(0) if e.kind == BEGIN}
    assert {h: (ns - BEGIN_S * SECOND_NS) / 1e9 for h, ns in begins.items()} == {
        "a": 10, "b": 11, "c": 3,
    }  # fmt: skip
    assert [(t.second - BEGIN_S, names(t)) for t in closed(ticks, [early, late, failed], 30)] == [
        (3, [["c"]]), (4, [["c"]]), (10, [["a"]]), (11, [["b"]]),
    ]  # fmt: skip
    assert ticks.too_late == 0


def test_what_happened_is_judged_however_late_it_is_told() -> None:
    """In the second that is open; readings before and after it, as late, are not."""
    ticks, a, b = Ticks(), host("a", 30), host("b", 30)
    ticks.add(a, seen("a", 10))
    assert len(closed(ticks, [a, b], 30)) == 1
    late = seen("b", 1, 2, 3)
    event = Event(late[1].time_ns, 0, Device("b", "gpu", "GPU-0"), "xid", {"code": 79})
    late[1] = replace(late[1], events=(event,))
    ticks.add(b, late)
    assert ticks.too_late == 2
    ((observation,),) = closed(ticks, [a, b], 50)[0].groups
    assert (observation.seq, observation.events) == (1, (event,))
    begin, end = [e for e in ticks.cut.events(BEGIN_S + 50) if e.device.host == "b"]
    assert (begin.time_ns, end.time_ns) == ((BEGIN_S + 11) * SECOND_NS,) * 2


@given(st.lists(st.lists(st.sampled_from(["nvml", "kmsg", "ib"]), max_size=4), max_size=5))
def test_each_source_is_joined_in_its_hosts_order_and_nothing_is_lost(
    sources: list[list[str]],
) -> None:
    """Whatever sources hosts read in a second, and in which order: as many joins per source as
    the host has that read it most often.
    """
    ticks, hosts = Ticks(), [host(f"n{n}", 5) for n in range(len(sources))]
    for each, of in zip(hosts, sources, strict=True):
        read = [o for s in of for o in seen(each.name, 1, source=s)]
        ticks.add(each, [replace(o, seq=n) for n, o in enumerate(read)])
    groups = [group for tick in closed(ticks, hosts, 5) for group in tick.groups]
    for each, of in zip(hosts, sources, strict=True):
        mine = [(o.source, o.seq) for group in groups for o in group if o.host == each.name]
        assert mine == sorted((source, n) for n, source in enumerate(of))
    assert all(len({o.host for o in group}) == len(group) for group in groups)
    assert all(len({o.source for o in group}) == 1 for group in groups)
