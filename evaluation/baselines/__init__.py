"""What others do, as plain detectors, scored beside ours. Nothing here runs in the agent."""

from __future__ import annotations

from collections.abc import Callable

from evaluation.baselines.dcgm_health import DcgmHealth
from evaluation.baselines.ewma import EwmaZ
from evaluation.baselines.exporter_rules import ExporterRules
from evaluation.baselines.gpud import Gpud
from evaluation.baselines.half_space_trees import HalfSpaceTrees
from evaluation.baselines.isolation_forest import IsolationForest
from evaluation.baselines.nvsentinel import NvSentinel
from pipeline.interfaces import Detector

BASELINES: dict[str, Callable[[], Detector]] = {
    DcgmHealth.name: DcgmHealth,
    Gpud.name: Gpud,
    NvSentinel.name: NvSentinel,
    ExporterRules.name: ExporterRules,
    EwmaZ.name: EwmaZ,
    HalfSpaceTrees.name: HalfSpaceTrees,
    IsolationForest.name: IsolationForest,
}
