"""What a job waits for while its GPUs do less than they did: data, host processors, memory, other
ranks, power or cooling, or nothing.
"""

from detectors.starvation.detector import PAGE, Starvation

__all__ = ["PAGE", "Starvation"]
