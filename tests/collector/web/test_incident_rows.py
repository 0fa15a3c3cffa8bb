"""Incidents as the API and the page show them: the most urgent first, true now, complete."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config.links import Links, template_fault
from pipeline.frame import Device
from tests.collector.web.scene import Scene
from tests.fakes import gpu


def rows(scene: Scene) -> list[Any]:
    """Those of the open incidents."""
    return list(scene.status()["incidents"])


def test_the_most_urgent_incident_comes_first() -> None:
    """Severity, then certainty, then GPUs and then jobs affected, then age."""
    scene = Scene().play()
    scene.hold(gpu(1), scheduler="slurm", job="71")
    scene.play()
    node = Device("n1", "node", "n1")
    names = {}
    for name, device, fault, severity in (
        ("ticket", gpu(0), "gpu_lost", "ticket"),
        ("guess", gpu(0), "straggler", "page"),
        ("old", gpu(0), "gpu_lost", "page"),
        ("with a job", gpu(1), "gpu_lost", "page"),
        ("all GPUs", node, "driver_hung", "page"),
        ("new", gpu(0), "gpu_lost", "page"),
    ):
        scene.play()
        names[scene.blame(scene.say(device, "Gone.", fault=fault, severity=severity)).id] = name
    order = [names[row["id"]] for row in rows(scene)]
    assert order == ["all GPUs", "with a job", "old", "new", "guess", "ticket"]


def test_an_incident_names_device_node_rack_and_serial() -> None:
    """As far as they are known; of a link the GPU."""
    scene = Scene().play()
    rack = gpu(1, rack="R12", serial="42")
    scene.gpus[1] = (rack, scene.gpus[1][1])
    scene.play().blame(scene.say(rack, "Gone."))
    (row,) = rows(scene)
    assert (row["name"], row["host"], row["rack"], row["serial"]) == ("GPU 1", "n1", "R12", "42")
    assert scene.status()["verdict"]["text"] == "GPU 1 on n1 (rack R12, serial 42): Gone."


def test_jobs_are_affected_by_what_they_use() -> None:
    """By a GPU those that hold it, by a port all of the node, by a stall its own job."""
    scene = Scene()
    scene.jobs = []
    scene.hold(gpu(0), scheduler="slurm", job="71", user="ada")
    scene.hold(gpu(1), scheduler="kubernetes", namespace="ml", pod="train-0")
    scene.play()
    scene.blame(scene.say(gpu(1), "Gone."))
    scene.blame(scene.say(scene.ports[0][0], "Down.", fault="ib/link_down"))
    scene.blame(scene.say(Device("", "job", "71.0"), "Stalled.", fault="hang/in_flight"))
    affects = {row["kind"]: (row["gpus_affected"], row["jobs_affected"]) for row in rows(scene)}
    assert affects == {
        "gpu": ([gpu(1).id], ["pod ml/train-0"]),
        "ib_port": ([], ["job 71 (ada)", "pod ml/train-0"]),
        "job": ([gpu(0).id], ["job 71 (ada)"]),
    }


def test_trainings_whose_names_begin_alike_up_to_a_dot_are_two() -> None:
    """Only the id of a Slurm job has steps behind a dot; names of trainings may have dots."""
    scene = Scene()
    scene.jobs = []
    for number, job in enumerate(("ml/llama-3.1-8b.1a2b3c4d", "ml/llama-3.3-70b.5e6f7a8b")):
        scene.hold(gpu(number), scheduler="kubernetes", namespace="ml", pod=f"p{number}", job=job)
    scene.play()
    stalled = Device("", "job", "ml/llama-3.1-8b.1a2b3c4d")
    scene.blame(scene.say(stalled, "Stalled.", fault="hang/in_flight"))
    (row,) = rows(scene)
    assert row["gpus_affected"] == [gpu(0).id]
    assert row["jobs_affected"] == ["job ml/llama-3.1-8b.1a2b3c4d"]


def test_a_job_that_its_fault_has_ended_was_affected() -> None:
    """Nothing holds the GPU any more when somebody looks."""
    scene = Scene().play()
    scene.blame(scene.say(gpu(1), "Gone."), jobs=("71.0",))
    (row,) = rows(scene)
    assert (row["gpus_affected"], row["jobs_affected"]) == ([gpu(1).id], ["job 71.0"])


def test_evidence_is_that_of_now_and_says_when_it_was_last_true() -> None:
    """The words and numbers that the detector sees, and their time."""
    scene = Scene().play()
    finding = scene.say(gpu(1), "Stalled for 60 s.", evidence=("60 s",))
    scene.blame(finding)
    scene.clock.advance(240)
    scene.sees(finding, summary="Stalled for 300 s.", evidence=("300 s",))
    scene.clock.advance(5)
    (row,) = rows(scene)
    assert (row["cause"], row["last_true"]) == (
        "Stalled for 300 s.",
        "2027-01-15T08:04:01+00:00",
    )
    (member,) = row["standing"]
    assert (member["summary"], member["evidence"]) == ("Stalled for 300 s.", ["300 s"])
    assert row["true_now"]


def test_what_is_no_longer_true_is_past() -> None:
    """A finding that ended says so in its incident; where all have, the incident does too."""
    scene = Scene().play()
    first = scene.say(gpu(1), "Gone.")
    scene.clock.advance(1)
    second = scene.say(gpu(1), "Hung.", fault="gpu_hung")
    scene.blame(first, second)
    scene.clock.advance(60)
    scene.is_over(first, "it is read again")
    (row,) = rows(scene)
    assert [one["summary"] for one in row["standing"]] == ["Hung."]
    assert [(one["evidence"], one["ended"]) for one in row["over"]] == [
        (["it is read again"], "2027-01-15T08:01:02+00:00")
    ]
    assert row["true_now"]
    scene.is_over(second)
    (row,) = rows(scene)
    assert not row["true_now"]
    assert scene.status()["verdict"]["text"].endswith("Gone. No longer true now.")


def test_a_device_that_is_not_read_is_not_called_true_now() -> None:
    """Its finding is open: when it was last seen is said, and that nobody looks."""
    scene = Scene().play()
    scene.blame(scene.say(gpu(1), "Gone."))
    assert rows(scene)[0]["standing"][0]["read"]
    scene.clock.advance(60)
    assert not rows(scene)[0]["standing"][0]["read"]
    assert "its device is not being read" in scene.page()


def test_closed_incidents_of_the_last_day_say_how_they_ended() -> None:
    """When, and why; not those of the day before."""
    scene = Scene().play()
    scene.end(scene.blame(scene.say(gpu(0), "Gone.")), "Its last finding ended: gpu_lost on GPU 0.")
    scene.clock.advance(60)
    (row,) = scene.status()["closed"]
    assert (row["name"], row["cause"], row["cleared"], row["ended"]) == (
        "GPU 0",
        "Gone.",
        "2027-01-15T08:00:01+00:00",
        "Its last finding ended: gpu_lost on GPU 0.",
    )
    assert list(scene.pages.closed()) == [row]
    scene.clock.advance(86_400)
    assert scene.status()["closed"] == []


def test_one_incident_has_everything_that_is_known_of_it() -> None:
    """Its evidence, and how its detectors judge; open or closed, by the begin of its id."""
    scene = Scene().play()
    finding = scene.say(gpu(0), "XID 79.")
    incident = scene.blame(finding)
    found = scene.pages.incident(incident.id[:8])
    assert found is not None
    assert [one["id"] for one in found["standing"]] == [finding.id]
    assert [(one["detector"], bool(one["rule"])) for one in found["rules"]] == [("xid", True)]
    scene.is_over(finding)
    scene.end(incident)
    closed = scene.pages.incident(incident.id)
    assert closed is not None
    assert (closed["ended"], [one["id"] for one in closed["over"]]) == (
        "It is read again.",
        [finding.id],
    )
    assert scene.pages.incident("0000") is None


def test_links_are_those_that_the_site_configured() -> None:
    """With what identifies the incident in their places; without configuration there are none."""
    scene = Scene().play()
    scene.blame(scene.say(gpu(1), "Gone.", fault="gpu_lost"))
    assert rows(scene)[0]["links"] == {}
    scene.pages.links = Links(
        "https://wiki.example.org/runbook#{alert}",
        "https://grafana.example.org/d/gpu?var-host={host}&var-gpu={gpu}&var-uuid={uuid}",
    )
    assert rows(scene)[0]["links"] == {
        "runbook": "https://wiki.example.org/runbook#tocsingpulost",
        "dashboard": "https://grafana.example.org/d/gpu?var-host=n1&var-gpu=1&var-uuid=GPU-00000001",
    }


def test_what_a_job_is_called_cannot_leave_its_place_in_a_link() -> None:
    """It is percent-encoded."""
    scene = Scene().play()
    scene.blame(scene.say(Device("", "job", 'x"&var-host=evil#{host}'), "Stalled."))
    scene.pages.links = Links(dashboard="https://g.example.org/?job={device}")
    link = rows(scene)[0]["links"]["dashboard"]
    assert link == "https://g.example.org/?job=x%22%26var-host%3Devil%23%7Bhost%7D"


@pytest.mark.parametrize(
    "template",
    [
        "javascript:alert(1)",
        "/d/gpu",
        "https://x/{0}",
        "https://x/{gpu!r}",
        "https://x/{",
        "https://x/{a.b}",
    ],
)
def test_a_template_that_would_not_work_is_refused(template: str) -> None:
    """Other schemes, unknown places, formats, loose braces."""
    assert template_fault(template)
