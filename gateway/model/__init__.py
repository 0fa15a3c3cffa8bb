"""What the gateway knows of its cluster, for readers: nodes, GPUs, ports, jobs and their health.

Nothing here has an influence on judging: it looks at joined frames that were judged.
"""

from __future__ import annotations

from gateway.model.cluster import Cluster, ClusterModel
from gateway.model.jobs import Job
from gateway.model.layout import Layout, Node

__all__ = ["Cluster", "ClusterModel", "Job", "Layout", "Node"]
