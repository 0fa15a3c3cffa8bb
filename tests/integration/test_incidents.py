"""Incidents as people meet them: a simulated node, a fault, the page, the commands, a crash."""

from __future__ import annotations

import json
import signal
import sys
from datetime import datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from detectors.availability import RULES
from pipeline.child import run
from pipeline.short_ids import short
from pipeline.store.query.store import Store
from simulator.simulate import inject
from tests.agents import PROGRAM, AgentProcess
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

SIMULATED = ("--simulate", "hgx-h100")


def command(storage: Path, *arguments: str) -> tuple[int | None, str]:
    """Exit code and output of a command about the agent there."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {PROGRAM}"
    done = run(
        [sys.executable, "-c", start, *arguments, "--storage.path", str(storage)],
        timeout_s=PATIENCE_S,
    )
    return done.returncode, (done.stdout + done.stderr).decode()


def incidents(agent: AgentProcess) -> list[dict[str, Any]]:
    """What the API says is open."""
    status, body = agent.get("/api/v1/incidents")
    assert status == 200
    found: list[dict[str, Any]] = json.loads(body)["incidents"]
    return found


def lose_a_gpu(agent: AgentProcess) -> dict[str, Any]:
    """GPU 3 falls off the bus; the incident, once the kernel's word and the driver's are in it.

    The kernel names its place on the bus: an agent that has never read the GPU, on a machine too
    busy for it, cannot know whose that is, and blames the node.
    """
    until(
        lambda: any(
            'gpu="3"' in labels and 'pci_bus_id="0' in labels
            for labels in agent.values("tocsin_gpu_info")
        ),
        what="the GPU to be known",
    )
    inject(agent.storage / "simulated", "gpu_lost@gpu3")
    until(
        lambda: [len(one["findings"]) for one in incidents(agent)] == [2],
        what="the incident",
    )
    return incidents(agent)[0]


@pytest.mark.slow
def test_a_lost_gpu_is_an_incident_everywhere_and_somebody_takes_it_on(tmp_path: Path) -> None:
    """In the metrics, on the page, in the log and in the store, with the GPU to blame, why to
    do what, and who does it.
    """
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        incident = lose_a_gpu(agent)
        (series,) = agent.values("tocsin_incident_active")
        for label in (
            'root_kind="gpu"',
            f'root_device="{incident["device"]}"',
            'severity="page"',
            'scope="node"',
        ):
            assert label in series
        code, said = command(agent.storage, "ack", incident["id"][:6], "--note", "RMA 4711")
        assert (code, said) == (
            0,
            f"incident {short(incident['id'])} is acknowledged: {incident['summary']}\n",
        )
        assert incidents(agent)[0]["note"] == "RMA 4711"
        code, said = command(agent.storage, "label", "latest", "real", "--cause", "RMA 4711")
        assert code == 0
        assert said.startswith(f"incident {short(incident['id'])} of ")
        assert 'verdict="real"' in str(agent.values("tocsin_detector_labelled_incidents"))
        assert len(agent.values("tocsin_incident_acknowledged")) == 1
        health = agent.values("tocsin_device_health")
        assert [
            labels
            for labels in health
            if 'health="failed"' in labels and incident["device"] in labels
        ]
        page = unescape(agent.get("/")[1])
        assert incident["reason"] in page
        assert "RMA 4711" in page
        reported = [line for line in agent.log.splitlines() if "logger=tocsin.incident" in line]
        assert incident["device"] in reported[0]
        assert "RMA 4711" in reported[-1]
        assert agent.stop() == 0
    code, said = command(tmp_path / "s", "precision")
    assert code == 0
    assert said.splitlines()[1].split()[1:5] == ["pages", "1", "0", "0"]
    rows = (
        Store(tmp_path / "s")
        .sql("SELECT id, acknowledged_by, note FROM incidents ORDER BY seq")
        .rows()
    )
    assert {row[0] for row in rows} == {incident["id"]}
    assert rows[-1][2] == "RMA 4711"


@pytest.mark.slow
def test_gpus_that_are_given_to_virtual_machines_are_no_incident(tmp_path: Path) -> None:
    """They are not expected, the page says that all is well, and nobody is told anything for longer
    than a GPU may be absent.
    """
    with AgentProcess(tmp_path / "s", *SIMULATED, "--simulate.speed", "20").ready() as agent:
        inject(agent.storage / "simulated", "passthrough")
        until(
            lambda: (
                sum(
                    v
                    for k, v in agent.values("tocsin_gpu_state").items()
                    if 'state="passthrough"' in k
                )
                == 8
            ),
            what="them",
        )
        began = node_time(agent)
        until(
            lambda: node_time(agent) > began + 2 * RULES["absent"].after_s,
            what="what would be told to be told",
        )
        assert agent.values("tocsin_gpu_expected") == {"": 0.0}
        assert incidents(agent) == []
        # On a busy machine a reading of the ports may be late, and then one of them is unknown.
        agent.until(
            lambda: (
                json.loads(agent.get("/api/v1/status")[1])["verdict"]["text"]
                == "Healthy. No GPUs and 8 ports monitored, no open findings."
            ),
            what="the page to say that all is well",
        )


def node_time(agent: AgentProcess) -> float:
    """Unix time of the node."""
    return datetime.fromisoformat(json.loads(agent.get("/api/v1/status")[1])["time"]).timestamp()


@pytest.mark.slow
def test_a_killed_agent_knows_its_incidents(tmp_path: Path) -> None:
    """After kill -9 the incident has the same id and the same root, and nobody is
    told of it a second time.
    """
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        before = lose_a_gpu(agent)
        agent.stop(signal.SIGKILL)
    with AgentProcess(tmp_path / "s", *SIMULATED) as agent:
        agent.until(
            lambda: "detectors restored" in agent.log,
            what="the memory to be restored",
        )
        until(
            lambda: [i["id"] for i in incidents(agent)] == [before["id"]],
            what="the incident",
        )
        agent.ready()
        assert agent.values("tocsin_incidents_total") == {}
        assert not [
            line
            for line in agent.log.splitlines()
            if "tocsin.incident" in line and '\\"cleared\\":null' in line
        ]


@pytest.mark.slow
def test_a_node_out_of_service_pages_nobody(tmp_path: Path) -> None:
    """What happens meanwhile is told when it is back and still wrong;
    everybody can see that it is out.
    """
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        assert command(agent.storage, "maintenance", "on", "--reason", "new firmware")[0] == 0
        assert "This node is out of service: new firmware" in agent.get("/")[1]
        inject(agent.storage / "simulated", "gpu_lost@gpu3")
        until(lambda: agent.values("tocsin_finding_active"), what="the finding")
        assert incidents(agent) == []
        assert command(agent.storage, "maintenance", "off") == (0, "node n1 is back in service\n")
        assert [i["severity"] for i in incidents(agent)] == ["page"]
        assert agent.values("tocsin_maintenance") == {}


@pytest.mark.slow
def test_a_node_stays_out_of_service_though_the_detectors_forgot(tmp_path: Path) -> None:
    """Their memory is gone, what people said is not."""
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        assert command(agent.storage, "maintenance", "on", "--reason", "new firmware")[0] == 0
        assert agent.stop() == 0
    (tmp_path / "s" / "state" / "detectors.npz").unlink()
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        assert "new firmware" in command(agent.storage, "maintenance")[1]
        inject(agent.storage / "simulated", "gpu_lost@gpu3")
        until(lambda: agent.values("tocsin_finding_active"), what="the finding")
        assert incidents(agent) == []


@pytest.mark.slow
def test_a_reload_forgets_nothing(tmp_path: Path) -> None:
    """Another configuration has another engine, and its judge goes on with the incident."""
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        before = lose_a_gpu(agent)
        agent.process.send_signal(signal.SIGHUP)
        agent.until(lambda: "configuration reloaded" in agent.log, what="the reload")
        code, _ = command(agent.storage, "ack", before["id"], "--note", "still there")
        assert code == 0
        assert [(i["id"], i["note"]) for i in incidents(agent)] == [(before["id"], "still there")]
