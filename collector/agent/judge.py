"""The judge that a configuration asks for: the same one in the agent and in a replay, as
both must find the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

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
    periods_s: Mapping[str, float] | None = None,
) -> Judge:
    """A judge that knows nothing yet, with all detectors or ``only`` some, as
    ``detectors.paging.in_service`` gives them; ``calibrated`` as a gateway's. ``periods_s`` of
    sources, where they are others than the configuration's.
    """
    chosen = _detectors(config, only, shadow=shadow, allowed=allowed)
    periods = periods_of(config) if periods_s is None else periods_s
    return judge_in_service(metrics, clock, periods, chosen, calibrated=calibrated)


def node_horizon_of(
    config: Config,
    metrics: SelfMetrics,
    clock: Clock,
    only: Collection[str] | None = None,
    *,
    shadow: bool = True,
    period_of: Callable[[str, str], float] | None = None,
) -> NodeHorizon:
    """As ``judge_of``, of many nodes at once: it says what the judge of each would say.

    ``period_of`` a host and a source, where the nodes are read at several cadences.
    """
    return NodeHorizon(
        lambda: _detectors(config, only, shadow=shadow),
        Incidents,
        periods_of(config),
        guard=Guard(metrics, clock),
        period_of=period_of,
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
