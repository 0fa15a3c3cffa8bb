"""The PCIe links of GPUs and adapters."""

from detectors.pcie.detector import Pcie

__all__ = ["Pcie"]
