"""The node in one word, and each device's worth: what schedulers hear of the same readings and
incidents that the page shows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.integrations.health import devices, identities, silent
from collector.integrations.verdict import MAX_TEXT, verdict
from collector.node.out_of_service import Out
from pipeline.exposition import Exposition
from pipeline.finding import Finding, Incident, Severity
from pipeline.frame import Device, frame_of
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import START_NS, FakeClock, gpu

PORTS = [
    Device("n1", "ib_port", f"0xa08{number}", {"device": f"mlx5_{number}", "port": "1"})
    for number in range(2)
]
NODE = Device("n1", "node", "n1")
WELL: dict[str, float | int | None] = {
    "state": 0,
    "memory_total_bytes": 80 << 30,
    "memory_free_bytes": 20 << 30,
    "temperature_celsius": 60,
    "temperature_slowdown_celsius": 87,
}


def opened(device: Device, severity: Severity = "page", action: Any = "RESTART_BM") -> Incident:
    """An open incident."""
    return Incident(
        "5a2e173dd20e2d3d",
        device,
        "gpu_lost",
        severity,
        action,
        START_NS,
        (),
        "It no longer answers.",
    )


def out(device: Device) -> Out:
    """A device that people took out."""
    return Out(device.host, device.kind, device.id, START_NS, 0, "new firmware", "ada")


class House:
    """A node with two GPUs and two ports, read once."""

    def __init__(self, **second: float) -> None:
        self.clock = FakeClock()
        self.exposition = Exposition(
            SelfMetrics(), clock=self.clock, periods={"nvml": 1.0, "infiniband": 1.0}
        )
        at = (self.clock.time_ns(), self.clock.monotonic_ns())
        links = [
            (Device("n1", "nvlink", f"{gpu(1).id}/{number}", {}), {"state": float(number > 0)})
            for number in range(4)
        ]
        gpus = [(gpu(0, epoch="580#0"), WELL), (gpu(1, epoch="580#2"), WELL | second)]
        ports = [
            (PORTS[0], {"state": 4, "rate_bits_per_second": 4e11}),
            (PORTS[1], {"state": 4, "rate_bits_per_second": 2e11}),
        ]
        self.read("nvml", frame_of("gpu", gpus, *at), frame_of("nvlink", links, *at))
        self.read("infiniband", frame_of("ib_port", ports, *at))

    def read(self, source: str, *frames: Any) -> None:
        """A reading, now."""
        at = (self.clock.time_ns(), self.clock.monotonic_ns(), 0)
        self.exposition.write(Observation(source, "n1", "boot", 0, *at, frames, ()), (), ())

    def verdict(
        self, *incidents: Incident, away: tuple[Out, ...] = (), dead: str = "", unready: str = ""
    ) -> dict[str, Any]:
        """What the gate is told."""
        snapshot, now_ns = self.exposition.snapshot(), self.clock.time_ns()
        return verdict("n1", snapshot, incidents, away, dead=dead, unready=unready, now_ns=now_ns)

    def device(
        self, number: int, *findings: Finding, health: str = "ok", away: tuple[Out, ...] = ()
    ) -> dict[str, Any]:
        """A row of /api/v1/health: GPUs 0 and 1, ports 2 and 3."""
        all_of_them = [gpu(0), gpu(1), *PORTS]
        return devices(self.exposition.snapshot(), findings, {all_of_them[number]: health}, away)[
            number
        ]


def test_a_node_of_which_all_is_read_and_nothing_stands_is_ok() -> None:
    """The only way to be ok."""
    assert (House().verdict()["verdict"], House().verdict()["severity"]) == ("ok", None)


def test_an_incident_is_a_problem_with_the_name_that_people_use() -> None:
    """The gravest gives the reason."""
    said = House().verdict(opened(gpu(1)))
    assert (said["verdict"], said["severity"], said["reason"]) == (
        "problem",
        "page",
        "GPU 1: It no longer answers.",
    )
    assert said["incidents"][0]["name"] == "GPU 1"


def test_records_are_no_problem() -> None:
    """Detectors in shadow mode report records."""
    assert House().verdict(opened(gpu(1), "record"))["verdict"] == "ok"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ({"dead": "the engine stands"}, "the engine stands"),
        ({"unready": "no reading yet from nvml"}, "no reading yet from nvml"),
    ],
)
def test_an_agent_that_does_not_judge_or_has_not_read_is_unknown(
    seconds: dict[str, str], said: str
) -> None:
    """Silence of a blind agent is no health."""
    assert (House().verdict(**seconds)["verdict"], House().verdict(**seconds)["reason"]) == (  # type: ignore[arg-type]
        "unknown",
        said,
    )


def test_an_agent_that_stands_is_unknown_even_with_an_open_incident() -> None:
    """What it knew may be over."""
    assert House().verdict(opened(gpu(1)), dead="the engine stands")["verdict"] == "unknown"


def test_readings_that_are_stale_make_it_unknown() -> None:
    """The driver child is gone: neither healthy nor ill."""
    house = House()
    house.clock.advance(30)
    assert house.verdict()["reason"] == "no fresh readings of gpu and ib_port"


def test_an_incident_about_what_is_no_longer_read_is_unknown() -> None:
    """No data is never a fault verdict."""
    house = House()
    house.clock.advance(30)
    assert house.verdict(opened(gpu(1)))["verdict"] == "unknown"


def test_ports_that_are_silent_do_not_hide_a_gpu_that_is_lost() -> None:
    """What is read counts."""
    house = House()
    house.clock.advance(30)
    house.read(
        "nvml", frame_of("gpu", [(gpu(1), WELL)], house.clock.time_ns(), house.clock.monotonic_ns())
    )
    assert house.verdict(opened(gpu(1)))["verdict"] == "problem"


def test_a_node_without_any_reading_is_unknown() -> None:
    """No driver at all is a state."""
    nothing = Exposition(SelfMetrics(), clock=FakeClock()).snapshot()
    assert (
        verdict("n1", nothing, (), (), dead="", unready="", now_ns=START_NS)["reason"]
        == "no GPU or port has been read yet"
    )


def test_other_nodes_and_jobs_are_no_matter_of_this_node() -> None:
    """A stalled job is not a reason to drain one of its nodes."""
    elsewhere = opened(Device("n2", "gpu", "GPU-9"))
    assert House().verdict(elsewhere, opened(Device("n1", "job", "4711")))["verdict"] == "ok"


def test_a_device_in_maintenance_is_no_problem() -> None:
    """Whoever took it out knows."""
    assert House().verdict(opened(gpu(1)), away=(out(gpu(1)),))["verdict"] == "ok"


def test_a_link_of_a_gpu_in_maintenance_is_no_problem() -> None:
    """A GPU that is swapped takes its links down: the node is not to be drained for them."""
    link = opened(Device("n1", "nvlink", f"{gpu(1).id}/0"))
    assert House().verdict(link, away=(out(gpu(1)),))["verdict"] == "ok"
    assert House().verdict(link, away=(out(gpu(0)),))["verdict"] == "problem"


def test_what_is_open_is_told_even_where_it_is_not_shown() -> None:
    """A device out of service has an incident that goes on: whoever follows incidents
    must not take it for over.
    """
    said = House().verdict(opened(gpu(1)), away=(out(gpu(1)),))
    assert (said["incidents"], said["open"]) == ([], ["5a2e173dd20e2d3d"])


def test_a_node_in_maintenance_says_why() -> None:
    """The fact stays the fact; gates look at this first."""
    said = House().verdict(opened(gpu(1)), away=(out(NODE),))
    assert (said["verdict"], said["out_of_service"]) == ("problem", "new firmware")


def test_hostile_text_is_one_bounded_line() -> None:
    """A summary may quote a kernel log."""
    hostile = "a\nb\udcff\x1b]0;c\x07\x9b" + "x" * 10_000
    said = House().verdict(replace(opened(gpu(1)), summary=hostile))
    assert said["incidents"][0]["summary"] == "a b??]0;c??" + "x" * 289


def test_headroom_of_a_gpu() -> None:
    """Memory, degrees to the slow-down temperature, and the share of NVLinks that are up."""
    assert House().device(1)["headroom"] == {
        "memory_free_bytes": float(20 << 30),
        "memory_free_ratio": 0.25,
        "thermal_margin_celsius": 27.0,
        "link_quality": 0.75,
    }


def test_the_drivers_own_margin_comes_first() -> None:
    """T.Limit knows what a subtraction does not."""
    assert (
        House(temperature_margin_celsius=3.0).device(1)["headroom"]["thermal_margin_celsius"] == 3.0
    )


def test_headroom_of_a_port() -> None:
    """Its rate beside the best of its node."""
    assert [House().device(number)["headroom"]["link_quality"] for number in (2, 3)] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("health", "second", "worth"),
    [
        ("ok", {}, 75),
        ("predicted_failure", {}, 45),
        ("degraded", {}, 30),
        ("failed", {}, 0),
        ("ok", {"temperature_celsius": 82.0}, 56),
        ("ok", {"temperature_celsius": 95.0}, 38),
        ("ok", {"state": 1.0}, 0),
    ],
)
def test_score_of_a_gpu_with_three_of_four_links(
    health: str, second: dict[str, float], worth: int
) -> None:
    """Health, then heat, then links; a GPU that does not answer is worth nothing."""
    assert House(**second).device(1, health=health)["score"] == worth


def test_reasons_are_the_findings_that_stand() -> None:
    """Records and what is over are none."""
    said = Finding(
        "thermal", gpu(1), "thermal/resistance", "onset", "ticket", START_NS, START_NS, "Warm."
    )
    others = replace(said, severity="record"), replace(said, phase="cleared")
    assert House(state=1.0).device(1, said, *others)["reasons"] == ["state lost", "Warm."]


@pytest.mark.parametrize("away", [out(gpu(1)), out(NODE)], ids=["the GPU", "the node"])
def test_what_is_out_of_service_takes_no_job(away: Out) -> None:
    """By itself or with its node."""
    row = House().device(1, away=(away,))
    assert (row["score"], row["out_of_service"]) == (0, True)


def test_a_device_that_is_not_read_has_no_score() -> None:
    """Null is unknown, which is neither 0 nor 100."""
    house = House()
    house.clock.advance(30)
    row = house.device(1)
    assert (row["score"], row["fresh"], set(row["headroom"].values())) == (None, False, {None})


def test_parts_are_those_that_answer_with_their_life() -> None:
    """A lost GPU is not among them."""
    assert [part["id"] for part in identities(House(state=1.0).exposition.snapshot())] == [
        gpu(0).id,
        *(p.id for p in PORTS),
    ]
    assert {"kind": "gpu", "id": gpu(1).id, "epoch": "580#2"} in list(
        identities(House().exposition.snapshot())
    )


def test_a_device_that_is_known_and_does_not_answer_is_silent() -> None:
    """A lost GPU, and each that is not read any more."""
    house = House(state=1.0)
    assert list(silent(house.exposition.snapshot())) == [{"kind": "gpu", "id": gpu(1).id}]
    house.clock.advance(30)
    assert len(list(silent(house.exposition.snapshot()))) == 4


def test_a_virtual_function_is_no_part() -> None:
    """It is active and nobody expects it: operators make them, and none is a new adapter."""
    house, active = House(), {"state": 4.0}
    ports = [(PORTS[0], active | {"expected": 1.0}), (PORTS[1], active | {"expected": 0.0})]
    at = (house.clock.time_ns(), house.clock.monotonic_ns())
    house.read("infiniband", frame_of("ib_port", ports, *at))
    parts = [one["id"] for one in identities(house.exposition.snapshot())]
    assert parts == [gpu(0).id, gpu(1).id, PORTS[0].id]


def test_the_reason_names_each_broken_device() -> None:
    """The gravest in words, however many there are and however long its words; the others by
    name and fault.
    """
    long = replace(opened(gpu(0)), summary="It explains many findings. " * 30)
    reason = House().verdict(long, *(opened(gpu(n)) for n in range(1, 4)))["reason"]
    assert all(f"GPU {n} ({opened(gpu(n)).fault})" in reason for n in range(1, 4))
    assert reason.startswith("GPU 0: It explains")
    assert len(reason) <= MAX_TEXT
