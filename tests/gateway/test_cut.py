"""The arrival cut: from the agents' stores a replay can take what the gateway judged, no more."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.arrivals import Host
from gateway.ticks import Ticks
from pipeline.arrival_cut import ArrivalCut
from pipeline.clock import SECOND_NS
from pipeline.observation import Observation

BEGIN_S = 1_800_000_000
Fates = st.lists(st.sampled_from(["sent", "lost", "late"]), min_size=1, max_size=11)


@settings(max_examples=30)
@given(st.lists(Fates, min_size=1, max_size=2), st.sampled_from([0, 86_400, -5]))
def test_what_was_judged_can_be_told_from_what_was_not(fates: list[list[str]], wrong: int) -> None:
    """Observations that never came or came late are left out, once more has come."""
    ticks, cut, judged, stored = Ticks(), ArrivalCut(), set(), []
    hosts = {f"n{n}": Host(f"n{n}", offset_ns=wrong * SECOND_NS) for n in range(len(fates))}
    for second in range(12):
        at_ns = (BEGIN_S + second) * SECOND_NS
        for host, of in zip(hosts.values(), fates, strict=True):
            fate = of[second] if second < len(of) else "sent"
            read = Observation("nvml", host.name, "b", second, at_ns - host.offset_ns, 0, 0)
            stored.append(read)
            if fate == "lost":
                host.gap = True
                continue
            host.arrived_ns = host.through_ns = at_ns + SECOND_NS
            before = ticks.too_late
            if fate == "late":
                host.gap = True
                old_ns = at_ns - 60 * SECOND_NS
                stored[-1] = Observation(
                    "nvml", host.name, "b", second, old_ns - host.offset_ns, 0, 0
                )
            ticks.add(host, [stored[-1]])
            host.gap = False
            if ticks.too_late == before:
                judged.add((host.name, second))
        for tick in ticks.closed(hosts, at_ns + 2 * SECOND_NS):
            for event in ticks.cut.events(tick.second):
                cut.add(event)
    for event in ticks.cut.events(BEGIN_S + 3600):
        cut.add(event)
    times = {(o.host, o.seq): cut.time_ns(o) for o in stored}
    assert {name for name, time_ns in times.items() if time_ns is not None} == judged


def test_the_state_of_each_host_is_repeated() -> None:
    """A replay of a part of the day begins in the middle."""
    ticks, host = (
        Ticks(),
        Host("n1", arrived_ns=BEGIN_S * SECOND_NS, through_ns=BEGIN_S * SECOND_NS),
    )
    first = Observation("nvml", "n1", "b", 7, BEGIN_S * SECOND_NS, 0, 0)
    ticks.add(host, [first])
    assert len(ticks.cut.events(BEGIN_S)) == 2
    assert ticks.cut.events(BEGIN_S + 1) == ()
    late = ArrivalCut(ticks.cut.events(BEGIN_S + 600))
    assert late.time_ns(first) is None
    after = Observation("nvml", "n1", "b", 8, BEGIN_S * SECOND_NS, 0, 0)
    assert late.time_ns(after) == BEGIN_S * SECOND_NS
