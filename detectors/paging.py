"""Which detectors may wake people in the agent. The others are on trial: what they say is kept and shown, and nobody is paged by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from detectors import DETECTORS
from detectors.drift import Drift
from detectors.incidents import Incidents
from detectors.power_limit import PowerLimit
from detectors.snapshot import Snapshotable, State
from pipeline.finding import Finding
from pipeline.interfaces import Clock, Detector
from pipeline.judge import Judge
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics

# Those that judge by table what the driver, a counter or a register states, and the detector of hangs, once the faults they are for were found on
# unseen seeds, with a lower 95 % bound of at least 0.9, and nobody was paged in health (docs/scores.md). What learns what is usual has
# passed the same test, but on a simulated fleet alone: a site takes it off trial after it has seen its own history replayed.
PROVED = frozenset(
    {
        "availability",
        "ecc",
        "hang",
        "ib_adapter",
        "ib_link",
        "nvlink",
        "pcie",
        "power_limit",
        "throttle",
        "xid",
    }
)
ALL = "all"

# Detectors that take the observations of many nodes in turn, and join what these tell of one job. The others keep one node's devices.
JOINING = frozenset({"nccl"})


def recorded(finding: Finding) -> Finding:
    """What a detector on trial found: kept, and nobody is told."""
    return replace(finding, severity="record")


class OnTrial:
    """A detector whose findings are records, whatever severity it gives them."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    @property
    def name(self) -> str:
        """The detector's own name."""
        return self._detector.name

    @property
    def version(self) -> int:
        """Of the detector's memory. AttributeError where it has none: then neither has this (detectors/snapshot.py)."""
        return self._memory.version

    def state(self) -> State:
        """The detector's."""
        return self._memory.state()

    def restore(self, state: State) -> None:
        """The detector's."""
        self._memory.restore(state)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What the detector says, as records."""
        return [recorded(finding) for finding in self._detector.update(observation)]

    @property
    def _memory(self) -> Snapshotable:
        if not isinstance(self._detector, Snapshotable):
            raise AttributeError(f"detector {self.name} remembers nothing")  # noqa: TRY004 - what isinstance of a protocol asks for
        return self._detector


def in_service(
    only: Collection[str] | None = None,
    *,
    on_trial: bool = True,
    off_trial: Collection[str] = (),
    put_on_trial: Collection[str] = (),
    declared: Mapping[str, str] = MappingProxyType({}),
) -> list[Detector]:
    """Detectors as the agent asks them: all, or ``only`` those named. Without ``on_trial`` everybody says what it means.

    ``off_trial``: those that the site takes off trial itself, ``put_on_trial`` those that it wants records of, which counts more (``all``: every one).

    ``declared``: what the site says that its devices have (detectors/drift.py). KeyError for a detector that there is none of.
    """
    for name in only or ():
        DETECTORS[name]
    makers: dict[str, Callable[[], Detector]] = {
        **DETECTORS,
        Drift.name: lambda: Drift(declared),
        PowerLimit.name: lambda: PowerLimit(declared),
    }
    asked = {name: make for name, make in makers.items() if only is None or name in only}
    free = set(DETECTORS) if not on_trial or ALL in off_trial else PROVED | set(off_trial)
    if on_trial:
        free -= set(DETECTORS if ALL in put_on_trial else put_on_trial)
    return [make() if name in free else OnTrial(make()) for name, make in asked.items()]


def judge_in_service(
    own: SelfMetrics, clock: Clock, periods_s: Mapping[str, float], detectors: Sequence[Detector] | None = None
) -> Judge:
    """The judge of an agent, live or replayed: all detectors with the severities they may have, and incidents of what they find.

    ``periods_s``: how often each source is read, seconds; sources that are not named are read once a second. Whoever replays may ask
    other ``detectors``.
    """
    asked = in_service() if detectors is None else detectors
    return Judge(asked, own, clock, periods_s=periods_s, fusion=Incidents())
