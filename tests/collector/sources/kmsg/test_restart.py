"""A restart of the agent, orderly or not, neither loses nor repeats an event."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.sources.kmsg import KernelLogSource
from pipeline.observation import Event, Observation
from pipeline.xid.counts import XidCounts
from tests.collector.sources.kmsg.logs import (
    BOOT,
    GPUS,
    XID_31,
    XID_79,
    Node,
    attributes_of,
    events,
)

LINES = [
    XID_79,
    XID_31,
    XID_31.replace("184513", "77"),
    "NVRM: Xid (PCI:0000:43:00): 94, pid=7, name=a, Contained",
    "usb 1-1: nothing of interest",
    "pcieport 0000:b7:01.0: AER: Corrected error message received from 0000:b8:00.0",
    "nvidia 0000:b8:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
]


class Disk:
    """Keeps the counts' document as text, as a disk would."""

    text = "{}"

    def save(self, document: dict[str, Any]) -> None:
        """Keep."""
        self.text = json.dumps(document)


class Agent:
    """One life of an agent: the source and the sink that counts, joined
    as the engine joins them.
    """

    def __init__(self, node: Node, disk: Disk) -> None:
        self.node = node
        self.source: KernelLogSource = node.source()
        self.counts = XidCounts(disk.save, json.loads(disk.text), BOOT)
        self.counts.register(GPUS.values())

    def tick(self) -> list[Event]:
        """One read, delivered."""
        found = events(self.source)
        self.counts.write(
            Observation("kmsg", "n1", BOOT, 0, self.node.clock.time_ns(), 0, 0, events=tuple(found))
        )
        return found

    def crash(self) -> None:
        """Die without a word: what was not kept is gone."""
        self.source._bookmark._waiting.clear()
        self.source._bookmark._latest = self.source._bookmark.saved
        self.source.close()


def stood_for(found: list[Event]) -> Counter[str]:
    """How many lines of each text the events stand for."""
    counted: Counter[str] = Counter()
    for event in found:
        counted[str(event.attributes["text"])] += int(event.attributes.get("count", 1))
    return counted


def test_orderly_restart_repeats_nothing(node: Node) -> None:
    """After an orderly end the place is exact, to the line and to half of an AER error."""
    node.ring.print(XID_79)
    node.ring.print(LINES[5])
    first = node.source()
    assert attributes_of(events(first), "xid", "code") == [(79,)]
    first.close()
    node.ring.print(LINES[6])
    assert [event.kind for event in events(node.source())] == ["pcie_error"]


def test_place_is_written_at_most_every_second(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten reads a second cost one write a second, and a silent log costs none."""
    written: list[int] = []
    save = node.state.save

    def watched(name: str, document: dict[str, Any]) -> bool:
        written.append(node.clock.monotonic_ns())
        return save(name, document)

    monkeypatch.setattr(node.state, "save", watched)
    source = node.source()
    for _ in range(200):
        node.ring.print(XID_31)
        events(source)
        node.clock.advance(0.1)
    busy = len(written)
    assert 10 <= busy <= 20
    assert min(b - a for a, b in itertools.pairwise(written)) >= 1_000_000_000
    for _ in range(100):
        events(source)
        node.clock.advance(1)
    written.clear()
    for _ in range(100):
        events(source)
        node.clock.advance(1)
    assert written == []


def test_event_read_twice_has_the_same_identity(node: Node) -> None:
    """After a crash the last seconds are read again: stream and number say
    that it is the same event.
    """
    node.ring.print(XID_79)
    agent = Agent(node, Disk())
    (first,) = agent.tick()
    agent.crash()
    (again,) = events(node.source())
    same = ("stream", "seq", "code", "pci", "origin", "text")
    assert [first.attributes[name] for name in same] == [again.attributes[name] for name in same]
    assert (first.device, first.time_ns, first.mono_ns) == (
        again.device,
        again.time_ns,
        again.mono_ns,
    )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("print"), st.integers(0, len(LINES) - 1)),
        st.tuples(st.just("tick"), st.integers(1, 20)),
        st.tuples(st.just("stop"), st.just(0)),
    ),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=60)
@given(steps)
def test_orderly_restarts_lose_and_repeat_nothing(plan: list[tuple[str, int]]) -> None:
    """Whenever the agent is stopped and started, each line is in exactly one event."""
    node = Node()
    with contextlib.closing(node):
        agent, found = Agent(node, Disk()), list[Event]()
        for step, number in plan:
            if step == "print":
                node.ring.print(LINES[number])
            elif step == "tick":
                node.clock.advance(number / 10)
                found += agent.tick()
            else:
                agent.source.close()
                agent = Agent(node, Disk())
        found += agent.tick() + agent.tick()
        printed = Counter(LINES[number] for step, number in plan if step == "print")
        for line in LINES[:4]:
            assert stood_for(found)[line] == printed[line]


@pytest.mark.slow
@settings(max_examples=100)
@given(steps, st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=6))
def test_killed_at_any_point_each_xid_counts_once(
    plan: list[tuple[str, int]], kills: list[tuple[int, bool]]
) -> None:
    """Killed between any two steps, or between reading and counting: no XID is
    lost, and none counts twice.
    """
    node, disk, when = Node(), Disk(), dict(kills)
    with contextlib.closing(node):
        agent, found = Agent(node, disk), list[Event]()
        for at, (step, number) in enumerate(plan):
            if at in when:
                if when[at]:
                    events(agent.source)  # read, and not delivered
                agent.crash()
                agent = Agent(node, disk)
            if step == "print":
                node.ring.print(LINES[number])
            elif step == "tick":
                node.clock.advance(number / 2)
                found += agent.tick()
        agent.crash()
        agent = Agent(node, disk)
        found += agent.tick()
        printed = Counter(LINES[number] for step, number in plan if step == "print")
        counts = {code: count for _, code, count, _ in agent.counts.series() if count}
        wanted = {
            79: printed[LINES[0]],
            31: printed[LINES[1]] + printed[LINES[2]],
            94: printed[LINES[3]],
        }
        assert counts == {code: count for code, count in wanted.items() if count}
        assert all(stood_for(found)[line] >= printed[line] for line in LINES[:4])
