"""How often each node's sources were read, as its readings show: sites mix cadences, and a replay
must not need the configuration of each agent.
"""

from __future__ import annotations

from collections.abc import Mapping

from collector.replaying.stored import Hours
from pipeline.exporters import PERIODS_S

DEFAULT_PERIOD_S = 1.0
# An agent that is busy reads late, and one reading in two may be lost: within these factors of a
# period readings are of that period.
ALIKE = (0.5, 2.0)


class Cadences:
    """The period of each source of each node, seconds.

    That of ``configured`` where readings are as far apart as it says, so that an agent's own
    settings give what the agent found; else what is usual between readings, in whole seconds from
    one on. It stays until readings are no longer as far apart as that.

    >>> cadences = Cadences({"nvml": 1.0})
    >>> for seconds in (1.2, 14.98, 16.0, 60.0):
    ...     cadences.take({("n1", "nvml"): seconds})
    ...     print(cadences.of("n1", "nvml"))
    1.0
    15.0
    15.0
    60.0
    >>> cadences.of("n2", "nvml")
    1.0
    """

    def __init__(self, configured: Mapping[str, float]) -> None:
        self._configured = dict(configured)
        self._found: dict[tuple[str, str], float] = {}

    def follow(self, hours: Hours) -> None:
        """What some hours show, before they are judged."""
        self.take(hours.periods)

    def take(self, usual: Mapping[tuple[str, str], float]) -> None:
        """Seconds between two readings, as most are, by node and source."""
        for (host, source), seconds in usual.items():
            # Imported scrapes have one period for all, wide enough for any interval of a site.
            if source not in PERIODS_S and not _alike(seconds, self.of(host, source)):
                configured = self._configured.get(source, DEFAULT_PERIOD_S)
                self._found[host, source] = (
                    configured if _alike(seconds, configured) else _rounded(seconds)
                )

    def of(self, host: str, source: str) -> float:
        """The period of a source of a node."""
        found = self._found.get((host, source))
        return self._configured.get(source, DEFAULT_PERIOD_S) if found is None else found

    def of_node(self, host: str) -> dict[str, float]:
        """The periods of all sources of a node, as far as they are known."""
        own = {source: s for (name, source), s in self._found.items() if name == host}
        return self._configured | own


def _alike(seconds: float, period_s: float) -> bool:
    return ALIKE[0] * period_s <= seconds <= ALIKE[1] * period_s


def _rounded(seconds: float) -> float:
    return float(round(seconds)) if seconds >= 1 else max(0.1, round(seconds, 1))
