"""Judges many nodes in one pass, each as its own agent would: horizon ``node``.

Nothing is compared beyond a node. So nodes may be at different times: only the order of one node's
observations matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from detectors.kit.labelled import labelled, unlabelled
from detectors.kit.snapshot import State
from detectors.kit.stateful import from_text_array, text_array
from detectors.node_batch import Batch, News, Parts
from detectors.node_detectors import Asked, Crews, Separately, Together
from detectors.node_fusions import NodeFusions
from detectors.node_sleepers import Recent
from pipeline.failing import Failing
from pipeline.finding import Finding, Incident
from pipeline.frame import Frame, schema_of
from pipeline.guard import Guard
from pipeline.interfaces import Detector, Fusion
from pipeline.joined import Joiner, Shape, shape_of
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.plain import finding_from, plain
from pipeline.rates import Rates
from pipeline.round import Round

DEFAULT_PERIOD_S = 1.0
FACTS = "facts"  # label in a state
# These keep jobs, events or links by names that nodes share, and are asked node by node. Of a node
# to which nothing happens they rest.
SEPARATE = frozenset(
    {
        "host",
        "ib_adapter",
        "nccl",
        "xid",
    }
)


class _Key(NamedTuple):
    """What observations that are joined have in common."""

    shape: Shape
    late: bool
    period_s: float


class Said(NamedTuple):
    """Of one observation."""

    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]


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
    version = 2

    def __init__(
        self,
        make: Callable[[], Sequence[Detector]],
        fuse: Callable[[], Fusion] | None,
        periods_s: Mapping[str, float],
        *,
        guard: Guard | None = None,
        period_of: Callable[[str, str], float] | None = None,
    ) -> None:
        self._periods = dict(periods_s)
        self._guard, self._period_of = guard, period_of or self._period
        self._order: dict[str, int] = {}  # of nodes, as they came
        self._read_ns: dict[tuple[str, str, str], tuple[str, int]] = {}
        self._joiner = Joiner()
        self._rates: dict[tuple[str, str, float], Rates] = {}
        self._news, self._recent = News(), Recent()
        made = make()
        own = {one.name: number for number, one in enumerate(made) if one.name in SEPARATE}
        crews = Crews(make, own)
        self._detectors: list[Together | Separately] = [
            Separately(one, crews, self._recent) if one.name in own else Together(one)
            for one in made
        ]
        self._fusions = None if fuse is None else NodeFusions(fuse, guard)
        self._failing: dict[str, Failing] = {}

    def know(self, names: Iterable[str]) -> None:
        """These nodes come, in this order, after those that are known and before all others."""
        for name in names:
            self._order.setdefault(name, len(self._order))
        for detector in self._detectors:
            detector.know(self._order)

    def judge(self, batch: Sequence[Observation]) -> list[JudgedObservation]:
        """What each node's agent says, in the order of the batch, with the observations as they
        came.

        At most one observation of a node: ValueError where there are more.
        """
        judged: dict[str, JudgedObservation] = {}
        for group, key in self._groups(batch, [self._is_late(one) for one in batch]):
            judged |= self._group(group, key)
        return [judged[observation.host] for observation in batch]

    def judge_round(self, one: Round) -> Mapping[str, Said]:
        """As ``judge``, of what is joined already: the nodes of which something is said.

        What cannot be judged at once (nodes of several paces, some of whose frames come late, in
        another order than before) is judged as ``judge`` does.
        """
        periods = {self._period_of(name, one.source) for name in one.names}
        late = self._late(one)
        fresh = count(len(self._order))
        numbers = [self._order[name] if name in self._order else next(fresh) for name in one.names]
        if len(periods) == 1 and len(set(late)) == 1 and numbers == sorted(numbers):
            self._order |= dict(zip(one.names, numbers, strict=True))  # else as groups are judged
            whole = self._joiner.join_round(one)
            found, incidents = self._judged(whole, one, periods.pop(), late=late[0])
        else:
            found, incidents = {}, {}
            for group, key in self._groups(one, late):
                whole = self._joiner.join(group)
                some = self._judged(whole, group, key.period_s, late=key.late)
                found |= some[0]
                incidents |= some[1]
        return {
            host: Said(tuple(found.get(host, ())), incidents.get(host, ()))
            for host in {**found, **incidents}
        }

    def _late(self, one: Round) -> list[bool]:
        """As ``_is_late``, of each."""
        late = [False] * len(one)
        for rows in one.frames:
            monos = rows.mono_ns.tolist()
            for place, (name, boot, mono_ns) in enumerate(
                zip(one.names, one.boots, monos, strict=True)
            ):
                late[place] |= self._is_after(name, one.source, rows.schema.kind, boot, mono_ns)
        return late

    def _period(self, _host: str, source: str) -> float:
        return self._periods.get(source, DEFAULT_PERIOD_S)

    def _groups(
        self, batch: Sequence[Observation], lates: Sequence[bool]
    ) -> Iterator[tuple[list[Observation], _Key]]:
        """What can be joined: of one shape and cadence, and all in time or all late."""
        groups: dict[_Key, list[Observation]] = {}
        for one, late in zip(batch, lates, strict=True):
            period_s = self._period_of(one.host, one.source)
            groups.setdefault(_Key(shape_of(one), late, period_s), []).append(one)
        for key, group in groups.items():
            for one in group:
                self._order.setdefault(one.host, len(self._order))
            yield sorted(group, key=lambda one: self._order[one.host]), key

    def _is_late(self, one: Observation) -> bool:
        """Whether a frame comes twice, or after a later one of its source."""
        after = [
            self._is_after(one.host, one.source, frame.kind, one.boot_id, frame.mono_ns)
            for frame in one.frames
        ]
        return any(after)

    def _is_after(self, host: str, source: str, kind: str, boot_id: str, mono_ns: int) -> bool:
        key = (host, source, kind)
        boot, last_ns = self._read_ns.get(key, ("", -1))
        if boot == boot_id and mono_ns <= last_ns:
            return True
        self._read_ns[key] = boot_id, mono_ns
        return False

    def _group(self, group: Sequence[Observation], key: _Key) -> dict[str, JudgedObservation]:
        whole = self._joiner.join(group)
        found, incidents = self._judged(whole, group, key.period_s, late=key.late)
        return {
            one.host: JudgedObservation(
                one, tuple(found.get(one.host, ())), incidents.get(one.host, ())
            )
            for one in group
        }

    def _judged(
        self, whole: Observation, group: Sequence[Observation], period_s: float, *, late: bool
    ) -> tuple[dict[str, list[Finding]], dict[str, tuple[Incident, ...]]]:
        """Findings and incidents by node."""
        rated = tuple(self._rated(whole.source, period_s, frame) for frame in whole.frames)
        whole = replace(whole, frames=rated)
        batch, found = self.find(whole, Parts(whole, group), late=late)
        return found, {} if self._fusions is None else self._fusions.update(batch, found)

    def find(
        self, whole: Observation, parts: Parts, *, late: bool = False
    ) -> tuple[Batch, dict[str, list[Finding]]]:
        """Findings by node about a joined observation whose frames have their increments.

        ``late``: its frames come twice, or after later ones.
        """
        batch = Batch(whole, parts, self._news.of(whole, parts) | late)
        found: dict[str, list[Finding]] = {}
        for detector in self._detectors:
            asked = []
            for one in detector.asked(batch):
                self._ask(detector, one, found)
                asked.append(one)
            if self._failing:
                self._rested(detector.name, batch, asked, found)
        self._recent.add(batch)
        return batch, found

    def _rested(
        self,
        detector: str,
        batch: Batch,
        asked: Sequence[Asked],
        found: dict[str, list[Finding]],
    ) -> None:
        """One that is not asked, as it rests, does not fail any more."""
        hosts = {part.host for one in asked for part in one.parts}
        for host, failing in self._failing.items():
            if host in batch.names and host not in hosts:
                found.setdefault(host, []).extend(failing.ended(detector, batch.parts.of(host)))

    def _ask(
        self, detector: Together | Separately, asked: Asked, found: dict[str, list[Finding]]
    ) -> None:
        if self._guard is None:
            findings, error = detector.judge(asked), None
        else:
            said, error = self._guard.call("detector", detector.name, lambda: detector.judge(asked))
            findings = said or []
            detector.failed(asked.parts, error)
        if error is not None:
            for part in asked.parts:
                failing = self._failing.setdefault(part.host, Failing())
                new = failing.failed(detector.name, part, error)
                found.setdefault(part.host, []).extend(new)
        elif self._failing:
            for part in asked.parts:
                if part.host in self._failing:
                    ended = self._failing[part.host].ended(detector.name, part)
                    found.setdefault(part.host, []).extend(ended)
        for host, finding in findings:
            found.setdefault(host, []).append(finding)

    def _rated(self, source: str, period_s: float, frame: Frame) -> Frame:
        key = (source, frame.kind, period_s)
        if key not in self._rates:
            self._rates[key] = Rates(frame.schema, period_s)
        return self._rates[key].add(frame)

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
            **labelled("fusion", [] if self._fusions is None else [("", self._fusions.state())]),
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
        if self._fusions is not None:
            self._fusions.restore(unlabelled("fusion", state).get("", {}))
        kept = unlabelled("detector", state)
        for one in self._detectors:
            one.restore(kept.get(one.name, {}))
