"""Which detectors may page. The others run in shadow mode: their findings are stored and shown, and
do not page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from detectors import DETECTORS
from detectors.drift import Drift
from detectors.incidents import Incidents
from detectors.kit.resting import Resting
from detectors.kit.snapshot import Snapshotable, State
from detectors.power_limit import PowerLimit
from detectors.trust.calibrated import Calibrated
from pipeline.clock import Clock
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.interfaces import Current, Detector
from pipeline.judge import Judge
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics

# Those that read what the driver, the kernel, a counter or a job's own library reports, and the one
# of stalled jobs. The others where agents alone find their faults on unseen seeds (lower 95 % bound
# at least 0.9), with no page on healthy fleets (docs/scores.md, What may alert), and few false
# tickets in worlds of another author.
PROVED = frozenset(
    {
        "availability",
        "ecc",
        "frozen",
        "hang",
        "host",
        "ib_adapter",
        "ib_ber",
        "ib_errors",
        "ib_flap",
        "ib_link",
        "ib_rail",
        "ib_saturation",
        "nccl",
        "nvlink",
        "nvlink_fabric",
        "pcie",
        "power",
        "power_limit",
        "straggler",
        "thermal_resistance",
        "throttle",
        "xid",
    }
)
ALL = "all"
# Events that change whether a detector is in shadow mode.
CHANGES = {"shadow_mode_left": False, "shadow_mode_entered": True}


def recorded(finding: Finding) -> Finding:
    """A finding of a detector in shadow mode: severity ``record``."""
    return replace(finding, severity="record")


class ShadowMode:
    """A detector whose findings have the severity ``record``, whatever it gives them, while it is
    in shadow mode.

    It leaves and enters it by the events ``shadow_mode_left`` and ``shadow_mode_entered``, which an
    agent publishes when the labels of its incidents say so (detectors/trust). Where ``is_fixed``
    the site has decided, and it stays.
    """

    def __init__(self, detector: Detector, *, active: bool = True, is_fixed: bool = False) -> None:
        self._detector = detector
        self._active, self._is_fixed = active, is_fixed

    @property
    def active(self) -> bool:
        """Whether its findings are recorded only."""
        return self._active

    def put(self, *, active: bool) -> ShadowMode:
        """The same detector, in shadow mode or not."""
        return ShadowMode(self._detector, active=active, is_fixed=self._is_fixed)

    def follow(self, observation: Observation) -> None:
        """Leave or enter shadow mode where an event of this detector says so. In joined nodes it
        is of one agent, and not of the detector that judges them all.
        """
        if self._is_fixed or observation.nodes is not None:
            return
        for event in observation.events:
            if event.kind in CHANGES and event.attributes.get("detector") == self.name:
                self._active = CHANGES[event.kind]

    def shown(self, finding: Finding) -> Finding:
        """A finding as it is reported."""
        return recorded(finding) if self._active else finding

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
        """The detector's findings, in shadow mode as records."""
        self.follow(observation)
        return [self.shown(finding) for finding in self._detector.update(observation)]

    def rests_ns(self) -> int:
        """How long the detector does (detectors/kit/resting.py)."""
        return self._detector.rests_ns() if isinstance(self._detector, Resting) else 0

    def stirs(self, frame: Frame) -> NDArray[np.bool_] | None:
        """Readings that wake the detector."""
        return self._detector.stirs(frame) if isinstance(self._detector, Resting) else None

    def current(self) -> list[Finding]:
        """The detector's open findings, in shadow mode as records."""
        current = self._detector.current() if isinstance(self._detector, Current) else ()
        return [self.shown(finding) for finding in current]

    @property
    def _memory(self) -> Snapshotable:
        if not isinstance(self._detector, Snapshotable):
            raise AttributeError(f"detector {self.name} has no memory")  # noqa: TRY004 - what isinstance of a protocol asks for
        return self._detector


def paging(*, enabled: Collection[str] = (), disabled: Collection[str] = ()) -> frozenset[str]:
    """Detectors that may page where no label has changed it: those that are proved and those for
    which a site enables paging, without those for which it disables paging (``all``: every one).
    """
    allowed = frozenset(DETECTORS) if ALL in enabled else PROVED | frozenset(enabled)
    return allowed - frozenset(DETECTORS if ALL in disabled else disabled)


def in_service(
    only: Collection[str] | None = None,
    *,
    shadow: bool = True,
    enabled: Collection[str] = (),
    disabled: Collection[str] = (),
    declared: Mapping[str, str] = MappingProxyType({}),
    allowed: Collection[str] | None = None,
) -> list[Detector]:
    """Detectors as the agent runs them: all, or ``only`` those named.

    Without ``shadow`` none is in shadow mode. ``enabled`` and ``disabled`` are those for which the
    site enables or disables paging (``all``: every one); ``disabled`` overrides, and no label
    changes it. ``allowed``: those that may page by the labels of before.

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
    if not shadow:
        return [make() for make in chosen.values()]
    may_page = paging(enabled=enabled, disabled=disabled) if allowed is None else allowed
    fixed = frozenset(DETECTORS if ALL in disabled else disabled)
    return [
        ShadowMode(make(), active=name in fixed or name not in may_page, is_fixed=name in fixed)
        for name, make in chosen.items()
    ]


def judge_in_service(
    metrics: SelfMetrics,
    clock: Clock,
    periods_s: Mapping[str, float],
    detectors: Sequence[Detector] | None = None,
    *,
    calibrated: bool = False,
) -> Judge:
    """The judge of an agent, live or replayed: all detectors, those in shadow mode included, and
    incidents of their findings.

    ``periods_s``: the period of each source, seconds; one second where it is not named. A replay
    may run other ``detectors``. ``calibrated``: that of a gateway, which follows a learnt model.
    """
    chosen = in_service() if detectors is None else detectors
    fusion = Calibrated(Incidents()) if calibrated else Incidents()
    return Judge(chosen, metrics, clock, periods_s=periods_s, fusion=fusion)
