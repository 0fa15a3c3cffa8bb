"""XID errors: which are faults of hardware, which are programs that failed, which
only follow from others.
"""

from detectors.xid.detector import Xid

__all__ = ["Xid"]
