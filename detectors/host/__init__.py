"""What the kernel reports of the node itself."""

from detectors.host.detector import Host

__all__ = ["Host"]
