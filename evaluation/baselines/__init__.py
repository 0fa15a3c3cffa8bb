"""What others do, as plain detectors, scored beside ours. Nothing here runs in the agent."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from evaluation.baselines.dcgm_health import DcgmHealth
from evaluation.baselines.ewma import EwmaZ
from evaluation.baselines.exporter_rules import ExporterRules
from evaluation.baselines.features import NotInstalledError
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
# Of the extra `baselines`: what is imported, and the package that has it.
LIBRARIES = {
    HalfSpaceTrees.name: ("river", "river"),
    IsolationForest.name: ("sklearn", "scikit-learn"),
}


def require(name: str) -> None:
    """NotInstalledError where a baseline lacks its library, which takes seconds to import and is
    only looked for.
    """
    module, package = LIBRARIES.get(name, ("", ""))
    if module and find_spec(module) is None:
        raise NotInstalledError(name, package)
