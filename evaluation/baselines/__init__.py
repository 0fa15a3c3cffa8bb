"""What others do, as plain detectors, scored beside ours. Nothing here runs in the agent."""

from __future__ import annotations

from collections.abc import Callable

from detectors.baselines.dcgm_health import DcgmHealth
from detectors.baselines.ewma import EwmaZ
from detectors.baselines.exporter_rules import ExporterRules
from detectors.baselines.gpud import Gpud
from detectors.baselines.half_space_trees import HalfSpaceTrees
from detectors.baselines.isolation_forest import IsolationForest
from detectors.baselines.nvsentinel import NvSentinel
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
