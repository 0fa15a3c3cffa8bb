"""Which detectors may page. The others run in shadow mode: their findings are stored and shown, and
do not page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from detectors import DETECTORS
from detectors.drift import Drift
from detectors.incidents import Incidents
from detectors.kit.snapshot import Snapshotable, State
from detectors.power_limit import PowerLimit
from pipeline.clock import Clock
from pipeline.finding import Finding
from pipeline.interfaces import Current, Detector
from pipeline.judge import Judge
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics

# Detectors that read what the driver, a counter or a register reports, and the one of stalled jobs:
# on unseen seeds the lower 95 % bound of their recall is at least 0.9, with no page on healthy
# fleets (docs/scores.md). Detectors that learn a baseline passed the same test, but on a simulated
# fleet only: a site enables paging for them after it has replayed its own history.
PROVED = frozenset(
    {
        "availability",
        "ecc",
        "hang",
        "host",
        "ib_adapter",
        "ib_ber",
        "ib_flap",
        "ib_link",
        "nccl",
        "nvlink",
        "nvlink_fabric",
        "pcie",
        "power_limit",
        "throttle",
        "xid",
    }
)
ALL = "all"


def recorded(finding: Finding) -> Finding:
    """A finding of a detector in shadow mode: severity ``record``."""
    return replace(finding, severity="record")


class ShadowMode:
    """A detector whose findings have the severity ``record``, whatever it gives them."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    @property
    def detector(self) -> Detector:
        """The detector itself."""
        return self._detector

    @property
    def name(self) -> str:
        """The detector's own name."""
        return self._detector.name

    @property
    def version(self) -> int:
        """Of the detector's memory.

        AttributeError where it has none: then neither has this (detectors/kit/snapshot.py).
        """
        return self._memory.version

    def state(self) -> State:
        """The detector's."""
        return self._memory.state()

    def restore(self, state: State) -> None:
        """The detector's."""
        self._memory.restore(state)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """The detector's findings as records."""
        return [recorded(finding) for finding in self._detector.update(observation)]

    def current(self) -> list[Finding]:
        """The detector's open findings as records."""
        current = self._detector.current() if isinstance(self._detector, Current) else ()
        return [recorded(finding) for finding in current]

    @property
    def _memory(self) -> Snapshotable:
        if not isinstance(self._detector, Snapshotable):
            raise AttributeError(f"detector {self.name} has no memory")  # noqa: TRY004 - what isinstance of a protocol asks for
        return self._detector


def in_service(
    only: Collection[str] | None = None,
    *,
    shadow: bool = True,
    enabled: Collection[str] = (),
    disabled: Collection[str] = (),
    declared: Mapping[str, str] = MappingProxyType({}),
) -> list[Detector]:
    """Detectors as the agent runs them: all, or ``only`` those named.

    Without ``shadow`` none is in shadow mode. ``enabled`` and ``disabled`` are those for which the
    site enables or disables paging (``all``: every one); ``disabled`` overrides.

    ``declared``: the facts that the site declares of its devices (detectors/drift.py). KeyError
    for an unknown name.
    """
    for name in only or ():
        DETECTORS[name]
    makers: dict[str, Callable[[], Detector]] = {
        **DETECTORS,
        Drift.name: lambda: Drift(declared),
        PowerLimit.name: lambda: PowerLimit(declared),
    }
    chosen = {name: make for name, make in makers.items() if only is None or name in only}
    paging = set(DETECTORS) if not shadow or ALL in enabled else PROVED | set(enabled)
    if shadow:
        paging -= set(DETECTORS if ALL in disabled else disabled)
    return [make() if name in paging else ShadowMode(make()) for name, make in chosen.items()]


def judge_in_service(
    metrics: SelfMetrics,
    clock: Clock,
    periods_s: Mapping[str, float],
    detectors: Sequence[Detector] | None = None,
) -> Judge:
    """The judge of an agent, live or replayed: all detectors, those in shadow mode included, and
    incidents of their findings.

    ``periods_s``: the period of each source, seconds; one second where it is not named. A replay
    may run other ``detectors``.
    """
    chosen = in_service() if detectors is None else detectors
    return Judge(chosen, metrics, clock, periods_s=periods_s, fusion=Incidents())
