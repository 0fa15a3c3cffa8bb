"""Nodes all of whose GPUs silently became slower together: no GPU differs from its neighbours, and
the whole job waits.
"""

from detectors.slow_node.detector import PAGE, SlowNode

__all__ = ["PAGE", "SlowNode"]
