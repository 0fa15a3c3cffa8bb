"""Judges many nodes in one pass, each as its own agent would: horizon ``node``.

Nothing is compared beyond a node. So nodes may be at different times: only the order of one node's
observations matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
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
from pipeline.frame import schema_of
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
        """As ``judge_rounds``, of one."""
        return self.judge_rounds([one])[0]

    def judge_rounds(self, some: Iterable[Round]) -> list[Mapping[str, Said]]:
        """As ``judge``, of what is joined already: the nodes of which something is said in each.

        Rounds that come one after the other are judged detector by detector, each in their order:
        a detector's code and state stay near. No detector knows of another, so that all say what
        they would round by round. What cannot be judged at once (nodes of several paces, some of
        whose frames come late, in another order than before) is judged as ``judge`` does.
        """
        said: list[Mapping[str, Said]] = []
        waiting: list[Batch] = []
        for one in some:
            periods = {self._period_of(name, one.source) for name in one.names}
            late = self._late(one)
            fresh = count(len(self._order))
            order = [self._order[n] if n in self._order else next(fresh) for n in one.names]
            if len(periods) == 1 and len(set(late)) == 1 and order == sorted(order):
                self._order |= dict(zip(one.names, order, strict=True))  # else as groups are judged
                whole = self._rated(self._joiner.join_round(one), periods.pop())
                waiting.append(self._batch(whole, Parts(whole, one), late=late[0]))
            else:
                said += self._said(waiting)
                waiting = []
                said.append(self._apart(one, late))
        return said + self._said(waiting)

    def _said(self, batches: Sequence[Batch]) -> list[Mapping[str, Said]]:
        every = self._found(batches)
        return [_said(*self._fused(*one)) for one in zip(batches, every, strict=True)]

    def _apart(self, one: Round, late: Sequence[bool]) -> Mapping[str, Said]:
        """Of a round whose nodes are judged in groups."""
        found: dict[str, list[Finding]] = {}
        incidents: dict[str, tuple[Incident, ...]] = {}
        for group, key in self._groups(one, late):
            some = self._judged(self._joiner.join(group), group, key)
            found |= some[0]
            incidents |= some[1]
        return _said(found, incidents)

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
        found, incidents = self._judged(self._joiner.join(group), group, key)
        return {
            one.host: JudgedObservation(
                one, tuple(found.get(one.host, ())), incidents.get(one.host, ())
            )
            for one in group
        }

    def _judged(
        self, whole: Observation, group: Sequence[Observation], key: _Key
    ) -> tuple[dict[str, list[Finding]], dict[str, tuple[Incident, ...]]]:
        """Findings and incidents by node."""
        whole = self._rated(whole, key.period_s)
        batch = self._batch(whole, Parts(whole, group), late=key.late)
        return self._fused(batch, self._found([batch])[0])

    def _fused(
        self, batch: Batch, found: dict[str, list[Finding]]
    ) -> tuple[dict[str, list[Finding]], dict[str, tuple[Incident, ...]]]:
        return found, {} if self._fusions is None else self._fusions.update(batch, found)

    def find(
        self, some: Iterable[tuple[Observation, Parts]]
    ) -> list[tuple[Batch, dict[str, list[Finding]]]]:
        """Findings by node about joined observations whose frames have their increments, and come
        in time, one after the other.
        """
        batches = [self._batch(whole, parts, late=False) for whole, parts in some]
        return list(zip(batches, self._found(batches), strict=True))

    def _batch(self, whole: Observation, parts: Parts, *, late: bool) -> Batch:
        return Batch(whole, parts, self._news.of(whole, parts) | late)

    def _found(self, batches: Sequence[Batch]) -> list[dict[str, list[Finding]]]:
        """Findings by node about each, in the order of detectors."""
        found: list[list[list[tuple[str, Finding]]]] = [
            [[] for _ in self._detectors] for _ in batches
        ]
        separate: list[tuple[int, Separately]] = []
        for number, detector in enumerate(self._detectors):
            if isinstance(detector, Separately):
                separate.append((number, detector))
                continue
            for batch, of_batch in zip(batches, found, strict=True):
                of_batch[number] = self._of_detector(detector, batch)
        for batch, of_batch in zip(
            batches, found, strict=True
        ):  # what is recent is theirs together
            for number, one in separate:
                of_batch[number] = self._of_detector(one, batch)
            self._recent.add(batch)
        return [_by_node(of_batch) for of_batch in found]

    def _of_detector(
        self, detector: Together | Separately, batch: Batch
    ) -> list[tuple[str, Finding]]:
        found: list[tuple[str, Finding]] = []
        asked = []
        for one in detector.asked(batch):
            found += self._ask(detector, one)
            asked.append(one)
        if self._failing:
            found += self._rested(detector.name, batch, asked)
        return found

    def _rested(
        self, detector: str, batch: Batch, asked: Sequence[Asked]
    ) -> Iterator[tuple[str, Finding]]:
        """One that is not asked, as it rests, does not fail any more."""
        hosts = {part.host for one in asked for part in one.parts}
        for host, failing in self._failing.items():
            if host in batch.names and host not in hosts:
                for ended in failing.ended(detector, batch.parts.of(host)):
                    yield host, ended

    def _ask(self, detector: Together | Separately, asked: Asked) -> Iterable[tuple[str, Finding]]:
        if self._guard is None:
            findings, error = detector.judge(asked), None
        else:
            said, error = self._guard.call("detector", detector.name, lambda: detector.judge(asked))
            findings = said or []
            detector.failed(asked.parts, error)
        if error is None and not self._failing:
            return findings
        return [*self._failures(detector.name, asked, error), *findings]

    def _failures(
        self, detector: str, asked: Asked, error: Exception | None
    ) -> Iterator[tuple[str, Finding]]:
        """Those that begin, or end."""
        for part in asked.parts:
            if error is not None:
                failing = self._failing.setdefault(part.host, Failing())
                said = failing.failed(detector, part, error)
            else:
                said = self._failing.get(part.host, Failing()).ended(detector, part)
            for finding in said:
                yield part.host, finding

    def _rated(self, whole: Observation, period_s: float) -> Observation:
        """With the increments of its frames."""
        frames = []
        for frame in whole.frames:
            key = (whole.source, frame.kind, period_s)
            if key not in self._rates:
                self._rates[key] = Rates(frame.schema, period_s)
            frames.append(self._rates[key].add(frame))
        return replace(whole, frames=tuple(frames))

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


def _by_node(found: Iterable[Iterable[tuple[str, Finding]]]) -> dict[str, list[Finding]]:
    by_node: dict[str, list[Finding]] = {}
    for host, finding in chain.from_iterable(found):
        by_node.setdefault(host, []).append(finding)
    return by_node


def _said(
    found: Mapping[str, Sequence[Finding]], incidents: Mapping[str, tuple[Incident, ...]]
) -> Mapping[str, Said]:
    return {
        host: Said(tuple(found.get(host, ())), incidents.get(host, ()))
        for host in {**found, **incidents}
    }
