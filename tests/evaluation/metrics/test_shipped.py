"""What agents report as they are shipped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from detectors.incidents import Incidents
from detectors.paging import PROVED
from evaluation.metrics.panel import Candidate, Panel, judge
from evaluation.metrics.shipped import Shipped
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.observation import Observation
from tests.detectors.hot import Hot
from tests.evaluation.metrics.test_panel import day

ON_TRIAL, PAGES = "power_cap", "throttle"


class Named(Hot):
    """The detector of hot GPUs under the name of another."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def update(self, observation: Observation) -> Iterable[Finding]:
        """As ever, in that name."""
        return [replace(finding, detector=self.name) for finding in super().update(observation)]


def alerted(name: str, *, restart: bool = False) -> list[tuple[str, str]]:
    """Device and severity of each alert of agents with this one detector."""
    ours = Candidate("ours", "fleet", Panel(lambda: [Named(name)], "fleet", Incidents))
    shipped = Candidate("as-shipped", "fleet", Shipped(ours, Incidents))
    judge(
        day(),
        [ours, shipped],
        {"nvml": 1.0},
        restart_at_ns=29 * SECOND_NS,
        restarts=[(25 * SECOND_NS, "whole")] if restart else [],
    )
    assert shipped.differences == []
    return [(alert.root.id, alert.severity) for alert in shipped.alerts]


def test_what_a_detector_in_shadow_mode_finds_is_recorded_and_does_not_page() -> None:
    """The same findings: pages of a detector that may page, records of one that may not."""
    assert {ON_TRIAL in PROVED, PAGES in PROVED} == {False, True}
    assert alerted(ON_TRIAL) == [("GPU-n1-0", "record"), ("GPU-n2-0", "record")]
    assert alerted(PAGES) == [("GPU-n1-0", "page"), ("GPU-n2-0", "page")]


def test_incidents_as_shipped_outlive_a_restart() -> None:
    """Restarted at 25 s while n1 is hot: nothing is reported twice."""
    assert alerted(PAGES, restart=True) == alerted(PAGES)
