"""How a site's figures are drawn: scales on logarithms, noise with a long memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# The mean of 60 s, 10 min and 1 h of a GPU's power keeps 0.83, 0.67 and 0.53 of the deviation of
# one second (computed from the AcmeTrace samples): five processes of equal variance give that.
TIME_CONSTANTS_S = np.array([3.0, 30.0, 300.0, 3_000.0, 30_000.0])


def between(source: np.random.Generator, low: float, high: float) -> float:
    """Log-uniform: a scale between two positive figures."""
    return float(np.exp(source.uniform(np.log(low), np.log(high))))


def spread(source: np.random.Generator, deviation: float, size: int) -> Values:
    """Log-normal factors about 1, one for each part."""
    return np.exp(source.normal(0.0, deviation, size))


@dataclass
class LongMemory:
    """Noise of unit variance, (n,), that is as correlated as a GPU's power is."""

    source: np.random.Generator
    size: int
    _states: Values = field(init=False)

    def __post_init__(self) -> None:
        self._states = self.source.normal(size=(len(TIME_CONSTANTS_S), self.size))

    def next(self, seconds: float) -> Values:
        """The values so many seconds later."""
        kept = np.exp(-seconds / TIME_CONSTANTS_S)[:, None]
        fresh = self.source.normal(size=self._states.shape)
        self._states = kept * self._states + np.sqrt(1.0 - kept**2) * fresh
        values: Values = self._states.sum(axis=0) / np.sqrt(len(TIME_CONSTANTS_S))
        return values
