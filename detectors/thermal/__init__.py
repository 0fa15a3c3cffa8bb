"""Heat: thermal resistance that grows, cooling of a rack that fails,
throttling that is about to begin.
"""

from __future__ import annotations

from detectors.thermal.imminent import ThermalImminent
from detectors.thermal.rack import ThermalRack
from detectors.thermal.resistance import ThermalResistance

__all__ = ["ThermalImminent", "ThermalRack", "ThermalResistance"]
