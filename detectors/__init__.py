"""The registry of detectors: one file each, with its page. Imports pipeline only."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from types import ModuleType

from detectors.availability import Availability
from detectors.drift import Drift
from detectors.ecc import Ecc
from detectors.fec_tail import FecTail
from detectors.frozen import Frozen
from detectors.hang import Hang
from detectors.host import Host
from detectors.infiniband import (
    IbAdapter,
    IbBer,
    IbCongestion,
    IbErrors,
    IbFlap,
    IbLink,
    IbRail,
    IbSaturation,
)
from detectors.kit.page import Page
from detectors.nccl.detector import Nccl
from detectors.nvlink import NvLink
from detectors.nvlink_fabric import NvLinkFabric
from detectors.outlier import Outlier
from detectors.pcie import Pcie
from detectors.power import Power
from detectors.power_cap import PowerCap
from detectors.power_limit import PowerLimit
from detectors.slow_node import SlowNode
from detectors.starvation import Starvation
from detectors.straggler import Straggler
from detectors.thermal import ThermalImminent, ThermalRack, ThermalResistance
from detectors.throttle import Throttle
from detectors.waste import Waste
from detectors.xid import Xid
from pipeline.interfaces import Detector

DETECTORS: dict[str, Callable[[], Detector]] = {
    Availability.name: Availability,
    Frozen.name: Frozen,
    Hang.name: Hang,
    Nccl.name: Nccl,
    Host.name: Host,
    Straggler.name: Straggler,
    SlowNode.name: SlowNode,
    Outlier.name: Outlier,
    FecTail.name: FecTail,
    NvLink.name: NvLink,
    NvLinkFabric.name: NvLinkFabric,
    Power.name: Power,
    PowerCap.name: PowerCap,
    ThermalResistance.name: ThermalResistance,
    ThermalImminent.name: ThermalImminent,
    ThermalRack.name: ThermalRack,
    IbAdapter.name: IbAdapter,
    IbBer.name: IbBer,
    IbCongestion.name: IbCongestion,
    IbErrors.name: IbErrors,
    IbFlap.name: IbFlap,
    IbLink.name: IbLink,
    IbRail.name: IbRail,
    IbSaturation.name: IbSaturation,
    Throttle.name: Throttle,
    PowerLimit.name: PowerLimit,
    Pcie.name: Pcie,
    Drift.name: Drift,
    Waste.name: Waste,
    Starvation.name: Starvation,
    Ecc.name: Ecc,
    Xid.name: Xid,
}


def all_detectors() -> list[Detector]:
    """A fresh instance of each detector, in the order they are asked."""
    return [make() for make in DETECTORS.values()]


def module_of(name: str) -> ModuleType:
    """The module that defines a detector; KeyError for an unknown name."""
    return sys.modules[DETECTORS[name].__module__]


PAGES: Mapping[str, Page] = {name: module_of(name).PAGE for name in DETECTORS}


def prose_of(name: str) -> list[str]:
    """What a detector judges, by paragraph: its module's docstring, then its own without the
    example. KeyError for an unknown name.
    """
    own = (inspect.getdoc(DETECTORS[name]) or "").partition(">>>")[0]
    paragraphs = [*(module_of(name).__doc__ or "").split("\n\n"), *own.split("\n\n")]
    return [paragraph.strip() for paragraph in paragraphs if paragraph.strip()]
