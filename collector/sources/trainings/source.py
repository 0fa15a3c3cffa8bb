"""The source of trainings: asks the API server for the pods of this node, follows their owners, and
stores how their containers ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from collector.node.pods_by_gpu import Pod
from collector.node.trainings import Training, Trainings
from collector.sources.nccl.sanitize import printable
from collector.sources.trainings.ends import End, ends_of
from collector.sources.trainings.kinds import Object
from collector.sources.trainings.owners import MAX_NAME, Owners
from pipeline.clock import Clock, instant
from pipeline.frame import Device
from pipeline.observation import Event, Reading, Unread

MAX_PODS = 2048  # a kubelet runs 110 by default
OVER = frozenset({"Succeeded", "Failed"})
AGAIN = 20  # reads after which what could not be read is asked for again


class ListError(OSError):
    """The API server's answer is no complete list: what was known goes on."""


class TrainingsSource:
    """``ask`` gives the object at a path of the API, and raises OSError where there is none.

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
    ) -> None:
        self._opaque = bool({"namespace", "pod", "job_name"}.intersection(hidden))
        self._ask, self._clock, self._trainings = ask, clock, trainings
        self._path = (
            f"/api/v1/pods?fieldSelector=spec.nodeName%3D{quote(node, safe='')}&resourceVersion=0"
        )
        self._node = Device(host, "node", host)
        self._owners = Owners(self._object, opaque=self._opaque)
        self._unread: list[Unread] = []
        self._seen: set[tuple[str, str, int]] = set()
        self._reads = 0

    def read(self) -> Reading:
        """Events of what ended since the last read. OSError where the API server is away."""
        self._reads += 1
        self._unread = []
        if self._reads % AGAIN == 0:
            self._owners.forget_unread()
        pods = self._pods()
        by_pod: dict[Pod, Training] = {}
        by_uid: dict[str, Training] = {}
        events: list[Event] = []
        seen: set[tuple[str, str, int]] = set()
        for pod in pods:
            training = self._owners.training(pod)
            if training is None:
                continue
            name, uid, over = _identity(pod)
            if not over:
                by_pod[name] = by_uid[uid] = training
            ends = list(ends_of(pod))
            events += [
                self._event(name, training, end) for end in ends if end.key not in self._seen
            ]
            seen.update(end.key for end in ends)
        self._seen = seen
        self._trainings.learn(by_pod, by_uid)
        return Reading(events=tuple(events), unread=tuple(self._unread))

    def _pods(self) -> Sequence[Object]:
        answer = self._ask(self._path)
        items, metadata = answer.get("items"), answer.get("metadata")
        cut = isinstance(metadata, Mapping) and bool(metadata.get("continue"))
        if not isinstance(items, list) or cut or len(items) > MAX_PODS:
            raise ListError("the API server gave no complete list of this node's pods")
        return [one for one in items if isinstance(one, Mapping)]

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
