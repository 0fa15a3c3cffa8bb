"""Cordons and node conditions of Kubernetes, and exporters of Slurm, as times out of service."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.cli.main import main
from history.economics.gather import Accounting, gather
from history.economics.site_nodes import outages, site_log
from history.site import http
from history.site_log import SiteLog
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, frame_of
from pipeline.store.query.store import Store
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS, scrapes
from tests.pipeline.store.stored import StoreMaker

END_MS = BEGIN_MS + 4 * HOUR_MS
CONDITION = "kube_node_status_condition"


def add(
    made: Recorded, name: str, begin: float, end: float, every_ms: int = 60_000, **labels: str
) -> None:
    """A series that is 1 from one hour to another, a sample a minute."""
    times = scrapes(BEGIN_MS + round(begin * HOUR_MS), BEGIN_MS + round(end * HOUR_MS), every_ms)
    made.add(name, labels, [(ms, 1.0) for ms in times])


def site() -> Recorded:
    """Four hours: n1 is cordoned for one, n2 not ready from the third on, n3 has a condition."""
    made = Recorded()
    add(made, "kube_node_spec_unschedulable", 1, 2, node="n1", instance="ksm:8080")
    add(made, CONDITION, 3, 4, node="n2", condition="Ready", status="unknown")
    add(made, CONDITION, 0, 4, node="n3", condition="DiskPressure", status="true")
    add(made, CONDITION, 0, 4, node="n3", condition="Ready", status="true")
    add(made, "slurm_node_status", 1, 2, node="n4", status="down")
    return made


def test_a_cordon_is_repair_and_a_node_that_is_not_ready_is_down() -> None:
    """A condition alone takes no node out of service, and what lasts to the end is open."""
    found = {one.node: one for one in outages(site_log(site(), BEGIN_MS, END_MS), END_MS)}
    assert sorted(found) == ["n1", "n2", "n4"]
    assert (found["n1"].is_down, found["n2"].is_down, found["n4"].is_down) == (False, True, True)
    assert found["n1"].begin_s == BEGIN_MS / 1000 + 3600
    assert found["n1"].end_s == pytest.approx(BEGIN_MS / 1000 + 7200, abs=60)
    assert found["n2"].end_s is None


def test_maintenance_that_slurm_shows_is_no_drain() -> None:
    """A drain waits for the jobs of its node."""
    log = SiteLog()
    for node, cause in (("n1", "maint"), ("n2", "drained"), ("n3", "down")):
        log.spans.append([node, "slurm", cause, BEGIN_MS, BEGIN_MS + HOUR_MS])
    assert [one.is_drained for one in outages(log, END_MS)] == [False, True, False]


@pytest.mark.parametrize(
    ("cause", "is_down"),
    [
        ("down*", True),
        ("DOWN+DRAIN", True),
        ("IDLE+NOT_RESPONDING", True),
        ("powered_down", True),
        ("noresp", True),
        ("failing", True),
        ("drained", False),
        ("GPU 3 failed dcgm diag", False),
        ("NVLink down", False),
    ],
)
def test_the_reason_of_a_drain_is_no_state(cause: str, is_down: bool) -> None:
    """A node whose reason names a failure is drained, and works on until its jobs have ended."""
    log = SiteLog()
    log.spans.append(["n1", "slurm", cause, BEGIN_MS, BEGIN_MS + HOUR_MS])
    (one,) = outages(log, END_MS)
    assert (one.is_down, one.is_drained) == (is_down, not is_down)


@pytest.mark.parametrize("every_ms", [15_000, 60_000, 300_000])
def test_a_span_ends_half_a_scrape_after_its_last(every_ms: int) -> None:
    """Of the interval at which the site scrapes, also after an import was resumed."""
    made = Recorded()
    add(made, "kube_node_spec_unschedulable", 1, 2, every_ms, node="n1", instance="ksm:8080")
    log = SiteLog.of(site_log(made, BEGIN_MS, END_MS).document())
    (one,) = outages(log, END_MS)
    assert one.end_s == pytest.approx((log.spans[0][4] + every_ms / 2) / 1000)


@pytest.mark.slow
def test_its_hours_are_in_the_report(tmp_path: Path) -> None:
    """Of nodes whose GPUs an agent read all the time: an hour of repair, an hour down."""
    maker = StoreMaker(tmp_path)
    for ms in range(BEGIN_MS, END_MS, 60_000):
        for host in ("n1.example.org", "n2"):
            gpu = Device(host, "gpu", f"GPU-{host}", {"index": "0"})
            at = ms * SECOND_NS // 1000
            values = {"gpu_utilization_percent": 0, "state": 1}
            maker.add(host, at, source="nvml", frames=(frame_of("gpu", [(gpu, values)], at, at),))
    maker.close()
    accounting = Accounting(nodes=outages(site_log(site(), BEGIN_MS, END_MS), END_MS))
    since, until = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (BEGIN_MS, END_MS))
    spans = {
        one.host: one.spans for one in gather(Store(str(tmp_path)), since, until, accounting).nodes
    }
    ((repair,), (down,)) = spans["n1.example.org"], spans["n2"]
    assert (repair.cause, repair.part, down.cause) == ("repair", "node", "down")
    assert (repair.end_ms - repair.begin_ms) / HOUR_MS == pytest.approx(1, abs=0.02)


@pytest.mark.slow
def test_a_prometheus_that_is_away_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a store without GPUs is still the error that it is."""
    monkeypatch.setattr(http, "TRIES", 1)
    argv = ["report", "--storage.path", str(tmp_path), "--prometheus", "http://127.0.0.1:9"]
    assert main(argv) == 1
    assert "Without node states of Prometheus: " in capsys.readouterr().err
