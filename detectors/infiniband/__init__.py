"""InfiniBand and RoCE ports: links that are down, slow, flap or make bit errors, and
counters that are saturated.
"""

from __future__ import annotations

from detectors.infiniband.adapter import IbAdapter
from detectors.infiniband.ber import IbBer
from detectors.infiniband.congestion import IbCongestion
from detectors.infiniband.errors import IbErrors
from detectors.infiniband.flap import IbFlap
from detectors.infiniband.link import IbLink
from detectors.infiniband.rail import IbRail
from detectors.infiniband.saturation import IbSaturation

__all__ = [
    "IbAdapter",
    "IbBer",
    "IbCongestion",
    "IbErrors",
    "IbFlap",
    "IbLink",
    "IbRail",
    "IbSaturation",
]
