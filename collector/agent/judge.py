"""The judge that a configuration asks for: the same one in the agent and in a replay, as
both must find the same.
"""

from __future__ import annotations

from collections.abc import Collection

from collector.config.settings import Config
from detectors.paging import in_service, judge_in_service
from pipeline.clock import Clock
from pipeline.judge import Judge
from pipeline.selfmetrics import SelfMetrics


def periods_of(config: Config) -> dict[str, float]:
    """How often each source is read, seconds."""
    names = type(config.sources).__struct_fields__
    return {name: float(getattr(config.sources, name).period) for name in names}


def judge_of(
    config: Config,
    metrics: SelfMetrics,
    clock: Clock,
    only: Collection[str] | None = None,
    *,
    shadow: bool = True,
) -> Judge:
    """A judge that knows nothing yet, with all detectors or ``only`` some, as
    ``detectors.paging.in_service`` gives them.
    """
    section = config.detectors
    asked = in_service(
        only,
        shadow=shadow,
        enabled=section.off_trial,
        disabled=section.on_trial,
        declared=section.drift.declared,
    )
    return judge_in_service(metrics, clock, periods_of(config), asked)
