"""Events: what changed and nothing else, for any number of clients, in bounded memory."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from gateway.api import feed as ring
from gateway.api.feed import EVENTS, Feed, Pulse
from gateway.api.operation import View
from pipeline.frame import Device
from tests.gateway.api.server import described
from tests.gateway.cluster import SimulatedCluster


class Followed:
    """A cluster, its feed, and a client that reads everything."""

    def __init__(self, nodes: int = 16) -> None:
        self.cluster = SimulatedCluster(nodes)
        self.feed = Feed(lambda: Pulse(1.7e9, nodes, 1, leads=True))
        self.place = 0
        self.step()
        self.news()

    def step(self) -> None:
        """A second later."""
        self.cluster.read()
        self.feed.add(self.feed.step(View("c1", self.cluster.model.snapshot())))

    def news(self) -> dict[str, Any]:
        """Events since the last time by name, each as documented; ticks are left out."""
        found = {}
        for number, event in self.feed.after(self.place):
            self.place = number
            name, data = decoded(event)
            if name != "tick":
                found[name] = data
        return found


def decoded(event: bytes) -> tuple[str, Any]:
    """Name and data of an event, which are as documented."""
    fields = dict(line.split(": ", 1) for line in event.decode().strip().split("\n"))
    data = json.loads(fields["data"])
    schema = {**EVENTS[fields["event"]], "components": described()["components"]}
    Draft202012Validator(schema).validate(data)
    return fields["event"], data


def test_a_quiet_cluster_has_only_ticks() -> None:
    """Every five seconds; the numbers of now are no news."""
    followed = Followed()
    followed.cluster.run("71", [1])
    followed.cluster.find(
        Device("node-0001", "rank", "71/1", {"job": "71"}), "hang/absent_rank", "Waits.", ago_s=50
    )
    followed.step()
    followed.news()
    before = followed.feed.end
    for _ in range(10):
        followed.step()
    assert followed.news() == {}
    assert followed.feed.end - before == 2


def test_levels_are_sent_by_their_place() -> None:
    """Of the GPU, the node, and of hosts that are silent."""
    followed = Followed()
    gpu = followed.cluster.gpu(3, 2)
    finding = followed.cluster.find(gpu, "gpu_lost", "Lost.")
    followed.step()
    news = followed.news()
    assert (news["levels"]["gpus"], news["levels"]["nodes"]) == ([[26, 0]], [[3, 0]])
    assert news["levels"]["silent"] is None
    assert [row["id"] for row in news["incidents"]["changed"]] == [finding.id]
    followed.cluster.end(finding)
    del followed.cluster.sent["node-0005"]
    followed.cluster.clock.advance(30)
    followed.step()
    news = followed.news()
    assert [3, 5] in news["levels"]["nodes"]
    assert news["levels"]["silent"] == [5]
    assert news["incidents"]["changed"][0]["state"] == "closed"


def test_jobs_come_and_go() -> None:
    """With their rows, and by their ids."""
    followed = Followed()
    followed.cluster.run("71", [1, 2])
    followed.step()
    assert followed.news()["jobs"]["changed"][0]["nodes"] == ["node-0001", "node-0002"]
    followed.cluster.holders.clear()
    followed.step()
    assert followed.news()["jobs"]["gone"] == ["71"]


def test_another_layout_asks_for_everything_again() -> None:
    """Places of devices are others then."""
    followed = Followed()
    followed.cluster.sent["node-x"] = followed.cluster.clock.time_ns()
    followed.step()
    assert set(followed.news()) == {"reset"}


def test_more_changes_than_fit_ask_for_everything_again(monkeypatch: Any) -> None:
    """Of devices and of rows."""
    followed = Followed()
    monkeypatch.setattr(ring, "MAX_LEVELS", 5)
    followed.cluster.find(followed.cluster.node(1), "gpu_lost", "All lost.")
    followed.step()
    assert "levels" in followed.news()
    for node in range(4, 12):
        followed.cluster.find(followed.cluster.gpu(node, 0), "gpu_lost", "Lost.")
    followed.step()
    assert set(followed.news()) == {"reset"}


def test_the_ring_is_bounded_and_who_is_too_late_begins_again(monkeypatch: Any) -> None:
    """A client that is away for an hour costs nothing."""
    monkeypatch.setattr(ring, "MAX_BYTES", 20_000)
    followed = Followed()
    for second in range(100):
        followed.cluster.read({followed.cluster.gpu(second % 16, 1): {"state": 1}})
        followed.feed.add(followed.feed.step(View("c1", followed.cluster.model.snapshot())))
    assert followed.feed._bytes <= 20_000
    assert set(followed.news()) == {"reset"}
    assert followed.feed.after(followed.feed.end) == []


def test_places_are_of_this_start_only() -> None:
    """Another gateway's number, or nonsense, begins again; none begins now."""
    feed, other = Followed().feed, Followed().feed
    last = other.hello(other.end).decode().partition("\n")[0].removeprefix("id: ")
    assert other.place(last) == other.end
    for unknown in (last, "x", "-", "-1", f"{feed._start}-{10**30}", f"{feed._start}-\u0661", "é"):
        assert feed.place(unknown) == -1
    assert feed.place("") == feed.end
