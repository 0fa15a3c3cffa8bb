"""What people tell an agent: every request is answered, and what was done is an
event that everybody sees.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.agent.operator_commands import OperatorCommands
from collector.node.out_of_service import OutOfService
from collector.node.state import State
from pipeline.catalog import agent
from pipeline.catalog.events import strange_attributes
from pipeline.clock import SECOND_NS
from pipeline.exposition import Exposition
from pipeline.finding import Incident
from pipeline.frame import Device, frame_of
from pipeline.guard import Guard
from pipeline.observation import Event, Observation
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import START_NS, FakeClock, gpu

PORT = Device("n1", "ib_port", "0xa088", {"device": "mlx5_5", "port": "1"})
NODE = Device("n1", "node", "n1")
OPEN = Incident(
    "5a2e173dd20e2d3d",
    gpu(3),
    "gpu_hung",
    "page",
    "RESTART_BM",
    START_NS,
    (),
    "Calls do not return.",
)


class House:
    """People before the sinks of an agent with eight GPUs, a port and one open incident; events
    go to the sinks at once.
    """

    def __init__(self, folder: Path) -> None:
        self.clock, self.metrics, self.folder = FakeClock(), SelfMetrics(), folder
        self.events: list[Event] = []
        self.closed = False
        self.exposition = Exposition(self.metrics, clock=self.clock)
        frames = [
            frame_of(
                "gpu",
                [(gpu(n), {}) for n in range(8)],
                self.clock.time_ns(),
                self.clock.monotonic_ns(),
            ),
            frame_of("ib_port", [(PORT, {})], self.clock.time_ns(), self.clock.monotonic_ns()),
        ]
        self.exposition.write(self.seen(*frames), (), (OPEN,))
        self.out = OutOfService("n1", State(folder), self.metrics)
        guard = Guard(self.metrics, self.clock)
        self.people = OperatorCommands(
            "n1", self.clock, self.exposition, self.out, self.publish, guard=guard, check=self.check
        )

    def seen(self, *frames: Any, events: Sequence[Event] = ()) -> Observation:
        """An observation, now."""
        at = (self.clock.time_ns(), self.clock.monotonic_ns(), 0)
        return Observation("operator", "n1", "boot", 0, *at, tuple(frames), tuple(events))

    def publish(self, events: Sequence[Event]) -> bool:
        """As the engine does."""
        if not self.closed:
            self.events += events
            self.out.write(self.seen(events=events))
        return not self.closed

    def check(self) -> dict[str, Any]:
        """What cannot be made."""
        raise KeyError("verdict")

    def maintenance(self, **request: object) -> dict[str, Any]:
        """A request about service."""
        return self.people.answer(
            {"command": "maintenance", "on": True, "reason": "new firmware", "user": "ada"}
            | request
        )


@pytest.fixture
def house(tmp_path: Path) -> House:
    """One of it."""
    return House(tmp_path)


def test_an_answer_that_cannot_be_made_is_an_answer_too(house: House) -> None:
    """A bug of ours behind one command must not leave the socket deaf; a refusal is none."""
    with pytest.raises(ValueError, match=r"cannot answer: KeyError\('verdict'\)"):
        house.people.answer({"command": "check"})
    with pytest.raises(ValueError, match="unknown command 'dance'"):
        house.people.answer({"command": "dance"})
    assert house.metrics.value(agent.STAGE_FAILURES, "web", "people", "KeyError") == 1
    assert house.metrics.value(agent.STAGE_FAILURES, "web", "people", "ValueError") is None


def test_a_step_of_a_repair_is_an_event_about_its_part(house: House) -> None:
    """Also where the part is gone; and what is no device of a node is refused."""
    step = {"command": "repair", "kind": "gpu", "device": "GPU-gone", "at": 1_800_000_000.5}
    house.people.answer(step | {"step": "returned", "act": "reset", "helped": True, "note": ""})
    (event,) = house.events
    assert (event.device.id, event.kind) == ("GPU-gone", "repair_step")
    assert strange_attributes(event.kind, event.attributes) == []
    assert event.attributes["at_ns"] == 1_800_000_000_500_000_000
    assert "note" not in event.attributes
    for wrong in ({"kind": "job"}, {"device": ""}, {"at": "now"}, {"at": float("inf")}):
        with pytest.raises(ValueError, match=r"kind, device|at:"):
            house.people.answer(step | wrong)


@pytest.mark.parametrize("name", [OPEN.id, OPEN.id[:4], "latest"])
def test_an_acknowledgement_is_an_event_about_the_root(house: House, name: str) -> None:
    """By the complete id, a prefix, or `latest`; who and what are in it."""
    done = house.people.answer({"command": "ack", "incident": name, "note": "on it", "user": "ada"})
    (event,) = house.events
    assert (event.device, event.kind) == (gpu(3), "incident_acknowledged")
    assert dict(event.attributes) == {"incident": OPEN.id, "note": "on it", "user": "ada"}
    assert done == {"incident": OPEN.id, "summary": OPEN.summary}


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("", NODE),
        ("n1", NODE),
        ("gpu5", gpu(5)),
        (gpu(5).id, gpu(5)),
        ("00000000:20:00.0", gpu(5)),
        ("0000:20:00.0", gpu(5)),
        ("0000:20:00", gpu(5)),
        ("0000:1b:00.0", gpu(0)),
        ("mlx5_5", PORT),
        ("mlx5_5/1", PORT),
        ("0xa088", PORT),
    ],
)
def test_a_device_goes_by_the_names_that_people_use(
    house: House, name: str, device: Device
) -> None:
    """Nothing at all is the whole node."""
    done = house.maintenance(device=name)
    assert [(e.kind, e.device) for e in house.events] == [("maintenance_started", device)]
    assert done == {"kind": device.kind, "device": device.id, "out_of_service": True}


def test_what_is_out_of_service_is_a_metric_until_it_is_back(house: House) -> None:
    """It appears with the one request and vanishes with the other."""
    house.maintenance(device="gpu5")
    assert house.metrics.value(agent.MAINTENANCE, "gpu", gpu(5).id) == 1
    house.maintenance(device="gpu5", on=False)
    assert house.metrics.value(agent.MAINTENANCE, "gpu", gpu(5).id) is None
    assert [e.kind for e in house.events] == ["maintenance_started", "maintenance_ended"]


def test_a_device_comes_back_when_its_time_is_up(house: House) -> None:
    """After two hours, not before; the event is the agent's own."""
    house.maintenance(device="gpu5", seconds=7200)
    house.clock.advance(7199)
    house.people.watch()
    assert house.out.all()
    house.clock.advance(1)
    house.people.watch()
    assert not house.out.all()
    assert (house.events[-1].kind, house.events[-1].attributes["user"]) == (
        "maintenance_ended",
        "tocsin",
    )


def test_what_is_out_of_service_survives_a_restart(house: House) -> None:
    """With its reason and the time that is left."""
    house.maintenance(device="gpu5", seconds=7200)
    house.clock.advance(600)
    again = House(house.folder)
    again.clock.advance(600)
    (out,) = again.out.all()
    assert (out.device, out.reason, out.user, out.until_ns) == (
        gpu(5),
        "new firmware",
        "ada",
        START_NS + 7200 * SECOND_NS,
    )
    assert again.metrics.value(agent.MAINTENANCE, "gpu", gpu(5).id) == 1


def test_maintenance_of_a_part_that_was_swapped_ends_by_its_identity(house: House) -> None:
    """The node knows the new part alone; the old one would stay in maintenance for good."""
    house.maintenance(device="gpu5")
    new = Device("n1", "gpu", "GPU-new", dict(gpu(5).attributes))
    frame = frame_of("gpu", [(new, {})], house.clock.time_ns(), house.clock.monotonic_ns())
    house.exposition.write(house.seen(frame), (), ())
    house.maintenance(device=gpu(5).id, on=False)
    assert not house.out.all()


def test_detectors_that_forgot_are_told_again(house: House) -> None:
    """For what is left of its time."""
    house.maintenance(device="gpu5", seconds=7200)
    house.clock.advance(600)
    house.people.remind()
    assert house.events[-1].kind == "maintenance_started"
    assert house.events[-1].attributes["seconds"] == 6600
    assert len(house.out.all()) == 1


def test_a_node_that_was_installed_again_is_in_service_at_the_gateway(tmp_path: Path) -> None:
    """Said once by an agent that has no record; one that has does not end its maintenance."""
    house = House(tmp_path / "new")
    house.people.remind()
    assert house.events == []
    house.people.remind(gateway=True)
    assert [(e.kind, e.device.kind) for e in house.events] == [("maintenance_ended", "node")]
    house.maintenance()
    again = House(tmp_path / "new")
    again.people.remind(gateway=True)
    assert [e.kind for e in again.events] == ["maintenance_started"]


def test_what_came_due_while_the_agent_was_down_is_over(house: House) -> None:
    """Said again with less than no time left, it would be out forever."""
    house.maintenance(device="gpu5", seconds=7200)
    again = House(house.folder)
    again.clock.advance(7201)
    again.people.remind()
    assert again.out.all() == ()
    assert [event.kind for event in again.events] == ["maintenance_ended"]


def test_who_is_out_for_longer_has_been_out_since_the_beginning(house: House) -> None:
    """Schedulers renew what they declared: the status page tells since when,
    and the time begins again.
    """
    house.maintenance(device="gpu5", seconds=900)
    house.clock.advance(300)
    house.maintenance(device="gpu5", seconds=900)
    (out,) = house.out.all()
    assert (out.since_ns, out.until_ns) == (START_NS, START_NS + 1200 * SECOND_NS)


def test_the_status_says_who_is_out(house: House) -> None:
    """In unix seconds, null where nobody said until when."""
    house.maintenance(device="gpu5")
    (row,) = house.people.answer({"command": "status"})["out_of_service"]
    assert (row["device"], row["since"], row["until"], row["user"]) == (
        gpu(5).id,
        START_NS / 1e9,
        None,
        "ada",
    )


def test_events_keep_to_the_catalogue(house: House) -> None:
    """Every attribute that people's words become has its row."""
    house.maintenance(device="gpu5", seconds=60)
    house.maintenance(device="gpu5", on=False)
    house.people.answer({"command": "ack", "incident": OPEN.id, "note": "on it", "user": "ada"})
    assert [strange_attributes(e.kind, e.attributes) for e in house.events] == [[], [], []]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "unknown command None; known: ack, label, maintenance, status"),
        ({"command": ["ack"]}, "unknown command"),
        (
            {"command": "ack", "incident": "ffff", "note": "x"},
            f"no open incident 'ffff'; the newest: {OPEN.id[:8]} (gpu_hung, gpu {gpu(3).id})",
        ),
        ({"command": "ack", "incident": "5a", "note": "x"}, "too short"),
        ({"command": "ack", "incident": OPEN.id}, "note: required"),
        ({"command": "ack", "incident": OPEN.id, "note": " "}, "note: required"),
        ({"command": "ack", "incident": 5, "note": "x"}, "incident: expected text"),
        (
            {"command": "ack", "incident": OPEN.id, "note": "x" * 1001},
            "note: expected text of at most 1000",
        ),
        ({"command": "maintenance", "on": "yes"}, "on: expected true or false, got 'yes'"),
        ({"command": "maintenance", "on": True}, "reason: required"),
        (
            {"command": "maintenance", "on": True, "reason": "x", "seconds": -1},
            "seconds: expected at most a year, got -1",
        ),
        (
            {"command": "maintenance", "on": True, "reason": "x", "seconds": float("nan")},
            "seconds: expected",
        ),
        (
            {"command": "maintenance", "on": True, "reason": "x", "seconds": True},
            "seconds: expected",
        ),
        (
            {"command": "maintenance", "on": True, "reason": "x", "device": "gpu9"},
            "nothing matches 'gpu9'; known: gpu0, gpu1",
        ),
        ({"command": "maintenance", "on": False, "device": "gpu5"}, "is not out of service"),
    ],
)
def test_what_makes_no_sense_is_refused_with_words(
    house: House, request_: dict[str, object], words: str
) -> None:
    """They name the field, and what there is; nothing is done."""
    with pytest.raises(ValueError, match=re.escape(words)):
        house.people.answer(request_)
    assert house.events == []


def test_while_nobody_judges_people_are_asked_to_try_again(house: House) -> None:
    """During a reload, and while the agent stops."""
    house.closed = True
    with pytest.raises(ValueError, match="try again"):
        house.maintenance()


def test_maintenance_that_others_declare_is_followed_too(house: House) -> None:
    """A scheduler's drain comes as the same event from another source."""
    house.out.write(
        house.seen(
            events=[Event(START_NS, 0, NODE, "maintenance_started", {"reason": "drained by Slurm"})]
        )
    )
    assert [(out.kind, out.reason) for out in house.out.all()] == [("node", "drained by Slurm")]


@pytest.mark.parametrize("key", ["note", "user", "reason", "device", "incident"])
@pytest.mark.parametrize("command", ["ack", "maintenance"])
def test_a_text_that_is_not_utf_8_is_refused(house: House, command: str, key: str) -> None:
    """The store and the bus could not write it; the same request without it is answered."""
    good = {"command": command, "incident": "latest", "note": "n", "user": "ada", "on": True}
    good |= {"device": "gpu3", "reason": "r"}
    if key in ({"note", "incident"} if command == "ack" else {"reason", "device"}) | {"user"}:
        with pytest.raises(ValueError, match=f"{key}: expected text in UTF-8"):
            house.people.answer(good | {key: "Lüfter\udcff"})
        assert house.events == []
    house.people.answer(good)
    assert len(house.events) == 1
