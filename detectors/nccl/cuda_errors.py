"""What the text of a failed CUDA call says of the GPU.

Most errors are the program's (CUDA Runtime API, cudaError_t): out of memory, an illegal address, an
invalid device ordinal, a driver that is too old. A few are the GPU's. A launch that failed without
a reason is the GPU's only where the driver reported an error of that GPU as well.
"""

from __future__ import annotations

import re
from typing import Literal

Fault = Literal["hardware", "undecided", "software"]

# cudaErrorECCUncorrectable (214), cudaErrorNvlinkUncorrectable (220), a GPU that is gone.
_HARDWARE = re.compile(
    r"uncorrectable (?:ECC|NVLink) error|(?:device|GPU)(?: is| was)? lost|fallen off the bus",
    re.IGNORECASE,
)
# cudaErrorLaunchFailure (719), cudaErrorHardwareStackError (714), cudaErrorUnknown (999),
# cudaErrorContained (721): an XID decides.
_UNDECIDED = re.compile(
    r"unspecified launch failure|hardware stack error|unknown error|hardware error",
    re.IGNORECASE,
)


def fault_of(text: str) -> Fault:
    """Whose fault a failed CUDA call is, by its error text.

    >>> [fault_of(e) for e in ("out of memory", "uncorrectable ECC error encountered")]
    ['software', 'hardware']
    >>> fault_of("unspecified launch failure")
    'undecided'
    """
    if _HARDWARE.search(text):
        return "hardware"
    return "undecided" if _UNDECIDED.search(text) else "software"
