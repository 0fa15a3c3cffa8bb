"""The source of trainings: asks the API server for the pods of this node, follows their owners, and
stores how their containers ended.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from collector.foreign_text import printable
from collector.node.pods_by_gpu import Pod, PodsByGpu
from collector.node.trainings import Training, Trainings
from collector.sources.tenants.cuts import Cuts
from collector.sources.trainings.ends import End, ends_of
from collector.sources.trainings.kinds import Object
from collector.sources.trainings.listed import OVER, NodePods
from collector.sources.trainings.owners import MAX_NAME, Owners
from pipeline.clock import Clock, instant
from pipeline.frame import Device
from pipeline.observation import Event, Reading, Unread

MAX_SEEN = 16_384  # ends that are remembered of pods which are left out of a list
AGAIN = 20  # reads after which what could not be read is asked for again


class TrainingsSource:
    """``ask`` gives the object at a path of the API, and raises OSError where there is none.
    ``bridges`` as in ``Owners``. ``listed`` is ``ask`` for lists of pods, which need not keep what
    is not looked at; ``pods`` says which namespaces matter where there are too many.

    What the last complete list had stays known while the API server is away: a job ends only when a
    complete list lacks its pods.
    """

    name = "trainings"

    def __init__(
        self,
        ask: Callable[[str], Mapping[str, Any]],
        node: str,
        host: str,
        clock: Clock,
        trainings: Trainings,
        *,
        hidden: Collection[str] = (),
        bridges: Collection[str] = (),
        listed: Callable[[str], Mapping[str, Any]] | None = None,
        pods: PodsByGpu | None = None,
        cuts: Cuts | None = None,
    ) -> None:
        self._opaque = bool({"namespace", "pod", "job_name"}.intersection(hidden))
        self._ask, self._clock, self._trainings = ask, clock, trainings
        self._pods, self._holders, self._cuts = NodePods(listed or ask, node), pods, cuts
        self._namespaces: frozenset[str] = frozenset()  # of the last list
        self._node = Device(host, "node", host)
        self._owners = Owners(self._object, opaque=self._opaque, bridges=bridges)
        self._unread: list[Unread] = []
        self._seen: set[tuple[str, str, int]] = set()
        self._reads = 0

    def read(self) -> Reading:
        """Events of what ended since the last read. OSError where the API server is away."""
        self._reads += 1
        self._unread = []
        if self._reads % AGAIN == 0:
            self._owners.forget_unread()
        events, seen = self._live()
        try:
            events += self._over(seen)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            self._unread.append(Unread("ended pods", field=str(error)[:200]))
            seen |= self._seen
        self._seen = seen
        return Reading(events=tuple(events), unread=tuple(self._unread))

    def _live(self) -> tuple[list[Event], set[tuple[str, str, int]]]:
        """Learns which training each pod is of; what ended in these pods, and what is known of
        that.
        """
        by_pod: dict[Pod, Training] = {}
        by_uid: dict[str, Training] = {}
        events: list[Event] = []
        seen: set[tuple[str, str, int]] = set()
        pods = self._pods.live(self._wanted())
        self._report(self._pods.cut, "pods")
        for pod in pods:
            training = self._owners.training(pod)
            if training is None:
                continue
            name, uid, over = _identity(pod)
            if not over:
                by_pod[name] = by_uid[uid] = training
            events += self._ended(name, training, list(ends_of(pod)), seen)
        self._trainings.learn(by_pod, by_uid)
        self._namespaces = frozenset(pod.namespace for pod in by_pod)
        return events, seen

    def _over(self, seen: set[tuple[str, str, int]]) -> list[Event]:
        """What ended in pods that are over: of the owners of those nothing is asked of which all is
        known.
        """
        events: list[Event] = []
        pods = self._pods.over(self._wanted())
        self._report(self._pods.cut, "ended pods")
        if self._pods.cut and len(self._seen) < MAX_SEEN:
            seen |= self._seen  # of what is left out now
        for pod in pods:
            ends = list(ends_of(pod))
            if all(end.key in self._seen for end in ends):
                seen.update(end.key for end in ends)
            elif (training := self._owners.training(pod)) is not None:
                events += self._ended(_identity(pod)[0], training, ends, seen)
        return events

    def _ended(
        self, name: Pod, training: Training, ends: list[End], seen: set[tuple[str, str, int]]
    ) -> list[Event]:
        seen.update(end.key for end in ends)
        return [self._event(name, training, end) for end in ends if end.key not in self._seen]

    def _wanted(self) -> list[str]:
        """The namespaces that are asked for one by one: those with pods that hold GPUs first, then
        those of known trainings.
        """
        holders = self._holders.namespaces if self._holders else ()
        return [*sorted(holders), *sorted(self._namespaces)]

    def _report(self, cut: Mapping[str, int], limit: str) -> None:
        tenants = {} if self._opaque else {("", f"namespace:{n}"): c for n, c in cut.items()}
        if self._opaque and cut:
            tenants = {("", ""): sum(cut.values())}
        if self._cuts is not None:
            self._cuts.put(self.name, limit, Counter(tenants))

    def _object(self, path: str) -> Object | None:
        """An owner; one that may not be read ends the chain below it, and is counted."""
        try:
            return self._ask(path)
        except OSError as error:
            kind = path.rstrip("/").split("/")[-2]
            self._unread.append(Unread("owner", field=f"{kind}: {error}"[:200]))
            return None

    def _event(self, pod: Pod, training: Training, end: End) -> Event:
        now = instant(self._clock)
        names = {} if self._opaque else {"pod": f"{pod.namespace}/{pod.name}"}
        facts = {"job": training.id, **names, **end.facts}
        if end.time_ns:
            return Event(end.time_ns, 0, self._node, "pod_ended", facts)
        return Event(*now, self._node, "pod_ended", facts)


def _identity(pod: Object) -> tuple[Pod, str, bool]:
    """Names, UID, and whether it is over."""
    metadata, status = pod.get("metadata"), pod.get("status")
    facts = metadata if isinstance(metadata, Mapping) else {}
    namespace, name, uid = (
        printable(str(facts.get(key, "")), MAX_NAME) for key in ("namespace", "name", "uid")
    )
    phase = status.get("phase") if isinstance(status, Mapping) else ""
    return Pod(namespace, name), uid, phase in OVER
