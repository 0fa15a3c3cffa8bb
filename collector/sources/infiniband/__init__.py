"""InfiniBand and RoCE ports: sysfs every second through kept-open descriptors, perfquery now and
then for what sysfs lacks.
"""

from __future__ import annotations

from collector.sources.infiniband.source import InfinibandSource

__all__ = ["InfinibandSource"]
