"""The judge that a configuration asks for: the same one in the agent and in a replay, as
both must find the same.
"""

from __future__ import annotations

from collections.abc import Collection

from collector.config.settings import Config
from detectors.incidents import Incidents
from detectors.node_horizon import NodeHorizon
from detectors.paging import in_service, judge_in_service
from pipeline.clock import Clock
from pipeline.exporters import PERIODS_S
from pipeline.guard import Guard
from pipeline.interfaces import Detector
from pipeline.judge import Judge
from pipeline.selfmetrics import SelfMetrics


def periods_of(config: Config) -> dict[str, float]:
    """How often each source is read, seconds; those of an import too, which replay meets."""
    names = type(config.sources).__struct_fields__
    return {name: float(getattr(config.sources, name).period) for name in names} | dict(PERIODS_S)


def judge_of(
    config: Config,
    metrics: SelfMetrics,
    clock: Clock,
    only: Collection[str] | None = None,
    *,
    shadow: bool = True,
    allowed: Collection[str] | None = None,
    calibrated: bool = False,
) -> Judge:
    """A judge that knows nothing yet, with all detectors or ``only`` some, as
    ``detectors.paging.in_service`` gives them; ``calibrated`` as a gateway's.
    """
    chosen = _detectors(config, only, shadow=shadow, allowed=allowed)
    return judge_in_service(metrics, clock, periods_of(config), chosen, calibrated=calibrated)


def node_horizon_of(
    config: Config,
    metrics: SelfMetrics,
    clock: Clock,
    only: Collection[str] | None = None,
    *,
    shadow: bool = True,
) -> NodeHorizon:
    """As ``judge_of``, of many nodes at once: it says what the judge of each would say."""
    return NodeHorizon(
        lambda: _detectors(config, only, shadow=shadow),
        Incidents,
        periods_of(config),
        guard=Guard(metrics, clock),
    )


def _detectors(
    config: Config,
    only: Collection[str] | None,
    *,
    shadow: bool,
    allowed: Collection[str] | None = None,
) -> list[Detector]:
    section = config.detectors
    return in_service(
        only,
        shadow=shadow,
        enabled=section.off_trial,
        disabled=section.on_trial,
        declared=section.drift.declared,
        allowed=allowed,
    )
