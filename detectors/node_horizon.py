"""Judges many nodes in one pass, each as its own agent would: horizon ``node``.

Nothing is compared beyond a node. So nodes may be at different times: only the order of one node's
observations matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from detectors.kit.labelled import labelled, unlabelled
from detectors.kit.snapshot import Snapshotable, State
from detectors.kit.stateful import from_text_array, text_array
from detectors.node_detectors import Asked, Separately, Together
from pipeline.failing import Failing
from pipeline.finding import Finding
from pipeline.frame import Frame, schema_of
from pipeline.guard import Guard
from pipeline.interfaces import Detector, Fusion
from pipeline.joined import Joiner, Shape, shape_of
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.plain import finding_from, plain
from pipeline.rates import Rates

DEFAULT_PERIOD_S = 1.0
FACTS = "facts"  # label in a state
# These keep jobs, events or links by names that nodes share, and are asked node by node.
SEPARATE = frozenset(
    {
        "drift",
        "hang",
        "host",
        "ib_adapter",
        "nccl",
        "nvlink_fabric",
        "xid",
    }
)


class NodeHorizon:
    """All detectors and the fusion over nodes of one cadence.

    ``make`` gives new detectors of one node, ``fuse`` their fusion; ``periods_s`` the period of
    each source, seconds, one where it is not named; ``period_of`` that of a host and source where
    nodes differ.

    With ``guard`` a detector that raises is left out for those nodes and that observation, which
    each of them reports as its agent would (pipeline/failing.py); it judges them one by one from
    then on, until none fails. Without, the exception ends the judging.
    """

    name = "node_horizon"
    version = 1

    def __init__(
        self,
        make: Callable[[], Sequence[Detector]],
        fuse: Callable[[], Fusion] | None,
        periods_s: Mapping[str, float],
        *,
        guard: Guard | None = None,
        period_of: Callable[[str, str], float] | None = None,
    ) -> None:
        self._make, self._fuse, self._periods = make, fuse, dict(periods_s)
        self._guard, self._period_of = guard, period_of or self._period
        self._order: dict[str, int] = {}  # of nodes, as they came
        self._read_ns: dict[tuple[str, str, str], tuple[str, int]] = {}
        self._joiner = Joiner()
        self._rates: dict[tuple[str, str, float], Rates] = {}
        self._detectors: list[Together | Separately] = [
            Separately(detector.name, number, make)
            if detector.name in SEPARATE
            else Together(detector)
            for number, detector in enumerate(make())
        ]
        self._fusions: dict[str, Fusion] = {}
        self._failing: dict[str, Failing] = {}

    def judge(self, batch: Sequence[Observation]) -> list[JudgedObservation]:
        """What each node's agent says, in the order of the batch.

        At most one observation of a node: ValueError where there are more.
        """
        judged: dict[str, JudgedObservation] = {}
        for group, period_s in self._groups(batch):
            judged |= self._group(group, period_s)
        return [judged[observation.host] for observation in batch]

    def _period(self, _host: str, source: str) -> float:
        return self._periods.get(source, DEFAULT_PERIOD_S)

    def _groups(self, batch: Sequence[Observation]) -> Iterator[tuple[list[Observation], float]]:
        """What can be joined: of one shape and cadence, and all in time or all late."""
        groups: dict[tuple[Shape, bool, float], list[Observation]] = {}
        for one in batch:
            period_s = self._period_of(one.host, one.source)
            key = shape_of(one), self._is_late(one), period_s
            groups.setdefault(key, []).append(one)
        for (_, _, period_s), group in groups.items():
            for one in group:
                self._order.setdefault(one.host, len(self._order))
            yield sorted(group, key=lambda one: self._order[one.host]), period_s

    def _is_late(self, one: Observation) -> bool:
        """Whether a frame comes twice, or after a later one of its source."""
        late = False
        for frame in one.frames:
            key = (one.host, one.source, frame.kind)
            boot, last_ns = self._read_ns.get(key, ("", -1))
            if boot == one.boot_id and frame.mono_ns <= last_ns:
                late = True
            else:
                self._read_ns[key] = one.boot_id, frame.mono_ns
        return late

    def _group(self, group: Sequence[Observation], period_s: float) -> dict[str, JudgedObservation]:
        whole = self._joiner.join(group)
        rated = tuple(self._rated(whole.source, period_s, f) for f in whole.frames)
        whole = replace(whole, frames=rated)
        parts = _parts(whole, group)
        found: dict[str, list[Finding]] = {one.host: [] for one in group}
        for detector in self._detectors:
            for asked in detector.asked(whole, parts):
                self._ask(detector, asked, found)
        return {part.host: self._fused(part, tuple(found[part.host])) for part in parts}

    def _ask(
        self, detector: Together | Separately, asked: Asked, found: dict[str, list[Finding]]
    ) -> None:
        if self._guard is None:
            for host, finding in detector.judge(asked):
                found[host].append(finding)
            return
        said, error = self._guard.call("detector", detector.name, lambda: detector.judge(asked))
        detector.failed(asked.parts, error)
        if error is not None:
            for part in asked.parts:
                failing = self._failing.setdefault(part.host, Failing())
                found[part.host] += failing.failed(detector.name, part, error)
            return
        for part in asked.parts:
            if part.host in self._failing:
                found[part.host] += self._failing[part.host].ended(detector.name, part)
        for host, finding in said or ():
            found[host].append(finding)

    def _rated(self, source: str, period_s: float, frame: Frame) -> Frame:
        key = (source, frame.kind, period_s)
        if key not in self._rates:
            self._rates[key] = Rates(frame.schema, period_s)
        return self._rates[key].add(frame)

    def _fused(self, part: Observation, findings: tuple[Finding, ...]) -> JudgedObservation:
        if self._fuse is None:
            return JudgedObservation(part, findings)
        if part.host not in self._fusions:
            self._fusions[part.host] = self._fuse()
        fusion = self._fusions[part.host]
        if self._guard is None:
            return JudgedObservation(part, findings, tuple(fusion.update(part, findings)))
        incidents, _ = self._guard.call(
            "detector", fusion.name, lambda: tuple(fusion.update(part, findings))
        )
        return JudgedObservation(part, findings, incidents or ())

    def state(self) -> State:
        """Everything remembered of all nodes; what has no memory that can be kept is left out."""
        facts = {
            "order": list(self._order),
            "read": [[*key, *read] for key, read in self._read_ns.items()],
            "failing": [
                [host, detector, source, plain(finding)]
                for host, failing in self._failing.items()
                for detector, source, finding in failing.all()
            ],
        }
        return {
            FACTS: text_array(facts),
            **labelled("detector", ((one.name, one.state()) for one in self._detectors)),
            **labelled(
                "rates",
                (
                    (f"{source}/{kind}/{period_s!r}", made.state())
                    for (source, kind, period_s), made in self._rates.items()
                ),
            ),
            **labelled(
                "fusion",
                (
                    (host, fusion.state())
                    for host, fusion in self._fusions.items()
                    if isinstance(fusion, Snapshotable)
                ),
            ),
        }

    def restore(self, state: State) -> None:
        """Go on from there; only for one that has judged nothing.

        KeyError, ValueError or TypeError where it does not fit: make another one then.
        """
        facts = from_text_array(state[FACTS])
        self._order = {str(host): number for number, host in enumerate(facts["order"])}
        self._read_ns = {
            (host, source, kind): (boot, int(mono_ns))
            for host, source, kind, boot, mono_ns in facts["read"]
        }
        for host, detector, source, values in facts["failing"]:
            known = self._failing.get(host, Failing()).all()
            self._failing[host] = Failing((*known, (detector, source, finding_from(values))))
        for label, own in unlabelled("rates", state).items():
            source, kind, period_s = label.split("/")
            made = self._rates[source, kind, float(period_s)] = Rates(
                schema_of(kind), float(period_s)
            )
            made.restore(own)
        for host, own in unlabelled("fusion", state).items():
            if self._fuse is not None:
                fusion = self._fusions[host] = self._fuse()
                if isinstance(fusion, Snapshotable):
                    fusion.restore(own)
        kept = unlabelled("detector", state)
        for one in self._detectors:
            one.restore(kept.get(one.name, {}))


def _parts(whole: Observation, group: Sequence[Observation]) -> list[Observation]:
    """The observation of each node again, with the increments of its frames."""
    starts = [0] * len(whole.frames)
    parts = []
    for one in group:
        frames = []
        for number, (frame, own) in enumerate(zip(whole.frames, one.frames, strict=True)):
            rows = slice(starts[number], starts[number] + len(own.devices))
            starts[number] = rows.stop
            made = frame.increments
            frames.append(replace(own, increments=None if made is None else made.of(rows)))
        parts.append(replace(one, frames=tuple(frames)))
    return parts
