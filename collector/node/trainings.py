"""Which training each pod of this node belongs to: learned from the API server by one source, used
by those that know a pod by its name or its control group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from collector.node.pods_by_gpu import Pod

POD = "pod"  # how the control group of a pod is called, before its UID


@dataclass(frozen=True, slots=True)
class Training:
    """A job of Kubernetes.

    ``id`` is namespace, name and the first letters of the owner's UID: names are used again, UIDs
    are not. ``kind`` is that of the object at the top of the owner chain. ``pods`` is how many pods
    it has in all, 0 where that is unknown. ``gang``: its pods are one program, so one that waits
    holds up the others.
    """

    id: str
    namespace: str
    name: str
    kind: str
    uid: str = ""
    pods: int = 0
    gang: bool = True


class Trainings:
    """By pod, and by UID of a pod. Any thread may ask: what is learned takes the place of what was
    known before at once.
    """

    def __init__(self) -> None:
        self._by_pod: Mapping[Pod, Training] = MappingProxyType({})
        self._by_uid: Mapping[str, Training] = MappingProxyType({})
        self.learned = False  # whether the API server has answered since the agent began

    def learn(self, by_pod: Mapping[Pod, Training], by_uid: Mapping[str, Training]) -> None:
        """All that runs now."""
        self._by_pod, self._by_uid = dict(by_pod), dict(by_uid)
        self.learned = True

    def of(self, pod: Pod) -> Training | None:
        """The training of a pod by its name."""
        return self._by_pod.get(pod)

    def named(self, id_: str) -> Training | None:
        """The training of an id."""
        return next((one for one in self._by_uid.values() if one.id == id_), None)

    def of_group(self, group: str) -> Training | None:
        """The training of a control group such as ``pod`` and a UID."""
        return self._by_uid.get(group.removeprefix(POD)) if group.startswith(POD) else None
