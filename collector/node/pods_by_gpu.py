"""Which pod a GPU is allocated to, by the kubelet's answer: shared between the source of jobs,
which asks, and those that know a pod by its control group only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

# The end of a generated name: five letters and digits (k8s.io/apimachinery, util/rand), before them
# the hash of a ReplicaSet, and the numbers of a pod in a StatefulSet, indexed Job or JobSet.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED = re.compile(rf"(?:-[{_LETTERS}]{{6,10}})?-[{_LETTERS}]{{5}}$")
_NUMBERS = re.compile(r"(?:-\d{1,9})+$")


class Pod(NamedTuple):
    """A pod by the names that the kubelet has."""

    namespace: str
    name: str

    @property
    def workload(self) -> str:
        """The name without what its controllers added.

        >>> Pod("ml", "train-worker-3-x7k2p").workload, Pod("ml", "serve-7d9c6b8f5d-zq4xk").workload
        ('train-worker', 'serve')
        """
        return _NUMBERS.sub("", _GENERATED.sub("", self.name))


class PodsByGpu:
    """The pods by UUID of their GPUs; a GPU that several pods share is nobody's.

    >>> pods, mine = PodsByGpu(), Pod("ml", "train-0")
    >>> pods.learn([("GPU-a", mine), ("GPU-b", mine), ("GPU-c", mine), ("GPU-c", Pod("ml", "x"))])
    >>> pods.of(["GPU-a", "GPU-b"]), pods.of(["GPU-b", "GPU-c"]), pods.of([])
    (Pod(namespace='ml', name='train-0'), None, None)
    """

    def __init__(self) -> None:
        self._pods: Mapping[str, Pod | None] = MappingProxyType({})
        self.namespaces: frozenset[str] = frozenset()  # of all pods that have GPUs

    def learn(self, allocations: Iterable[tuple[str, Pod]]) -> None:
        """The current allocations, in place of those before."""
        found: dict[str, Pod | None] = {}
        rows = list(allocations)
        self.namespaces = frozenset(pod.namespace for _, pod in rows)
        for uuid, pod in rows:
            found[uuid] = pod if found.get(uuid, pod) == pod else None
        self._pods = found

    def of(self, uuids: Iterable[str]) -> Pod | None:
        """The one pod that has all of these, None where there is none."""
        pods = {self._pods.get(uuid) for uuid in uuids}
        return pods.pop() if len(pods) == 1 else None
