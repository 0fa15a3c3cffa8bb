"""From a pod up its owners to the object that somebody created.

What an owner's spec says counts where the API server has it under that name with that very UID:
names are used again. Of one that is gone, or may not be read, its UID, its kind and what its
controller gave the pod are left. Labels are the tenant's own words; they join pods in its namespace
only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote

from collector.foreign_text import printable
from collector.node.trainings import Training
from collector.sources.trainings.kinds import KINDS, Kind, Object, always

MAX_HOPS = 8  # a LeaderWorkerSet's worker is five objects away
MAX_KNOWN = 4096  # owners that are remembered
MAX_NAME = 253  # RFC 1123 subdomain, as all names of Kubernetes
UID_LETTERS = 8
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
# One program for all of these pods, where no owner says so.
GROUPS = (
    ("annotations", "scheduling.k8s.io/group-name"),
    ("labels", "scheduling.x-k8s.io/pod-group"),
    ("labels", "scheduling.sigs.k8s.io/pod-group"),
)
# Of JobSet's controller on the pods of its Jobs (jobset.sigs.k8s.io, "JobSet labels"), whose only
# version this is.
SET_NAME, SET_UID = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/jobset-uid"
SET_VERSION = "v1alpha2"
# Of the pods of an indexed Job (kubernetes.io, "Well-Known Labels, Annotations and Taints").
INDEX = "batch.kubernetes.io/job-completion-index"
SLURM_JOB = "scheduler.slinky.slurm.net/slurm-jobid"  # of slurm-bridge: the same job under Slurm
BRIDGE = "slurm-bridge"
# All labels and annotations that are looked at.
LABELS = (GROUP_INDEX, *(key for _, key in GROUPS), SET_NAME, SET_UID, INDEX, SLURM_JOB)
# An object by its path; None where there is none, or it may not be read.
Get = Callable[[str], Object | None]


class Owner(NamedTuple):
    """One object of a chain."""

    group: str
    kind: str
    name: str
    uid: str
    version: str = ""


class Found(NamedTuple):
    """What is kept of an object: its own owner, how many pods it has (0: unknown), and whether they
    are one program. Its templates, with the environments of users, are not.
    """

    owner: Owner | None = None
    pods: int = 0
    gang: bool = False


UNREAD = Found()


class Owners:
    """Follows chains; remembers objects by all that a reference says of them and its namespace: an
    answer about one is none about another that only bears the same UID.

    ``opaque``: names are nobody's to see, so jobs are called by UIDs. ``bridges``: the namespaces
    where only slurm-bridge says which job of Slurm a pod is.
    """

    def __init__(
        self, get: Get, *, opaque: bool = False, bridges: Collection[str] = frozenset()
    ) -> None:
        self._get, self._opaque, self._bridges = get, opaque, frozenset(bridges)
        self._known: OrderedDict[tuple[str, Owner], Found] = OrderedDict()

    def training(self, pod: Object) -> Training | None:
        """The training that a pod belongs to; None for a server, and for a pod of nobody."""
        found = self._training(pod)
        if found is None or not self._opaque or found.kind == BRIDGE:
            return found
        ident = found.uid or blake2b(found.id.encode("utf-8", "replace"), digest_size=6).hexdigest()
        return replace(found, id=f"training.{ident}", namespace="", name="")

    def _training(self, pod: Object) -> Training | None:
        metadata = _mapping(pod.get("metadata"))
        namespace = _text(metadata, "namespace")
        slurm = self._slurm_job(namespace, metadata)
        chain = self._chain(namespace, metadata)
        group = next(filter(None, (_label(metadata, *place) for place in GROUPS)), "")
        if slurm:
            return Training(slurm, namespace, slurm, BRIDGE)
        if not chain:
            return _of_group(namespace, group) if group else None
        top, found = chain[-1]
        kind = KINDS.get((top.group, top.kind))
        if kind is not None and kind.serves:
            return None
        if not _together(top, found, pod) and not group and found.pods != 1:
            return _alone(namespace, top, metadata)  # its pods may have nothing in common
        part = _label(metadata, "labels", GROUP_INDEX) if top.kind == "LeaderWorkerSet" else ""
        name = f"{top.name}-{part}" if part.isdecimal() else top.name
        ident = _id(namespace, name, top.uid)
        # a UID that nobody confirmed is not to be one of another namespace
        uid = "" if found is UNREAD else top.uid
        return Training(ident, namespace, name, top.kind, uid, found.pods)

    def _slurm_job(self, namespace: str, metadata: Object) -> str:
        """The job of Slurm that a pod is, empty where it is none."""
        if namespace not in self._bridges:
            return ""
        job = _label(metadata, "annotations", SLURM_JOB) or _label(metadata, "labels", SLURM_JOB)
        return job if job.isascii() and job.isdecimal() else ""

    def _chain(self, namespace: str, metadata: Object) -> list[tuple[Owner, Found]]:
        """Owners from the pod up, the last one that can be read or is named; above the first, of
        kinds that are known.
        """
        chain: list[tuple[Owner, Found]] = []
        seen: set[str] = set()
        owner = controller(metadata)
        while owner is not None and owner.uid not in seen and len(chain) < MAX_HOPS:
            seen.add(owner.uid)
            found = self._found(namespace, owner)
            if chain and (owner.group, owner.kind) not in KINDS:
                break  # what made the training, such as a Trial, a Workflow or an AppWrapper
            chain.append((owner, found))
            owner = _set_of(owner, metadata) if found is UNREAD else found.owner
        return chain

    def _found(self, namespace: str, owner: Owner) -> Found:
        key = namespace, owner
        if key not in self._known:
            self._known[key] = self._asked(namespace, owner)
        self._known.move_to_end(key)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return self._known[key]

    def _asked(self, namespace: str, owner: Owner) -> Found:
        """Of a kind that is not known nothing is asked: its pods are jobs of their own."""
        kind = KINDS.get((owner.group, owner.kind))
        answer = self._get(path(namespace, owner, kind)) if kind and kind.owned else None
        metadata = _mapping(answer.get("metadata")) if answer else {}
        if kind is None or answer is None or _text(metadata, "uid") != owner.uid:
            return UNREAD
        spec = _mapping(answer.get("spec"))
        return Found(controller(metadata), kind.pods(spec), kind.gang(spec))

    def forget_unread(self) -> None:
        """Ask again for what could not be read."""
        for key in [key for key, found in self._known.items() if found is UNREAD]:
            del self._known[key]


def controller(metadata: Object) -> Owner | None:
    """The owner that controls an object, None without one."""
    rows = metadata.get("ownerReferences")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, Mapping) and row.get("controller") is True:
            group, _, version = _text(row, "apiVersion").rpartition("/")
            found = Owner(group, _text(row, "kind"), _text(row, "name"), _text(row, "uid"), version)
            return found if all((found.kind, found.name, found.uid, version)) else None
    return None


def _set_of(owner: Owner, metadata: Object) -> Owner | None:
    """The JobSet of a pod whose Job cannot be read, by the pod's own labels; None without."""
    name, uid = (_label(metadata, "labels", key) for key in (SET_NAME, SET_UID))
    if (owner.group, owner.kind) != ("batch", "Job") or not (name and uid):
        return None
    return Owner("jobset.x-k8s.io", "JobSet", name, uid, SET_VERSION)


def _together(owner: Owner, found: Found, pod: Object) -> bool:
    """Whether all pods of an owner are one program. Where it cannot be read that is so of kinds
    which never are anything else, and of a Job whose pods are numbered and find each other.
    """
    if found is not UNREAD:
        return found.gang
    kind = KINDS.get((owner.group, owner.kind))
    if kind is None or kind.gang is always:
        return kind is not None
    metadata = _mapping(pod.get("metadata"))
    numbered = any(_label(metadata, where, INDEX) for where in ("annotations", "labels"))
    named = bool(_text(_mapping(pod.get("spec")), "subdomain"))
    return (owner.group, owner.kind) == ("batch", "Job") and numbered and named


def path(namespace: str, owner: Owner, kind: Kind) -> str:
    """Of an object in the API.

    >>> path("ml", Owner("batch", "Job", "a", "u", "v1"), KINDS["batch", "Job"])
    '/apis/batch/v1/namespaces/ml/jobs/a'
    """
    version = quote(owner.version, safe="")  # it is the tenant's word
    root = f"/apis/{owner.group}/{version}" if owner.group else f"/api/{version}"
    return (
        f"{root}/namespaces/{quote(namespace, safe='')}/{kind.plural}/{quote(owner.name, safe='')}"
    )


def _of_group(namespace: str, group: str) -> Training:
    """Pods without an owner that are scheduled together."""
    digest = blake2b(f"{namespace}/{group}".encode("utf-8", "replace"), digest_size=4).hexdigest()
    return Training(_id(namespace, group, digest), namespace, group, "PodGroup")


def _alone(namespace: str, top: Owner, metadata: Object) -> Training:
    """A pod that is a job by itself."""
    name, uid = _text(metadata, "name"), _text(metadata, "uid")
    return Training(_id(namespace, name, uid), namespace, name, top.kind, uid, 1)


def _id(namespace: str, name: str, uid: str) -> str:
    return f"{namespace}/{name}.{uid[:UID_LETTERS]}"


def _label(metadata: Object, where: str, key: str) -> str:
    return _text(_mapping(metadata.get(where)), key)


def _text(node: Object, key: str) -> str:
    value = node.get(key)
    return printable(value, MAX_NAME).strip() if isinstance(value, str) else ""


def _mapping(node: Any) -> Object:
    return node if isinstance(node, Mapping) else {}
