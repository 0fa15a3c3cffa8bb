"""Memory of GPUs: errors that cannot be corrected, rows that run out,
correctable errors that come back.
"""

from detectors.ecc.detector import Ecc

__all__ = ["Ecc"]
