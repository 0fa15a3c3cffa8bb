"""GPUs that are unlike all others of their model in some combination of quantities, none of
which is wrong by itself.
"""

from __future__ import annotations

from detectors.outlier.detector import Outlier

__all__ = ["Outlier"]
