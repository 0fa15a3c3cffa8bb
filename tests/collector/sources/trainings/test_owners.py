"""The training of a pod by its owner chain, for every kind, and what tenants may not make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from collector.node.trainings import Training
from collector.sources.trainings.owners import Owners, controller
from tests.collector.sources.trainings.cluster import Cluster, Json, uid_of

JOBSET = {
    "replicatedJobs": [
        {"replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2}}},
        {"template": {"spec": {}}},
    ]
}
INDEXED = {
    "completions": 4,
    "parallelism": 4,
    "completionMode": "Indexed",
    "template": {"spec": {"subdomain": "train"}},
}


def job(cluster: Cluster) -> Json:
    """A Job whose pods find each other."""
    return cluster.pod("a", cluster.add("batch/v1", "Job", "llm", spec=INDEXED))


def single_job(cluster: Cluster) -> Json:
    """A Job of one pod."""
    return cluster.pod("a", cluster.add("batch/v1", "Job", "llm", spec={"parallelism": 1}))


def jobset(cluster: Cluster) -> Json:
    """Job > JobSet."""
    top = cluster.add("jobset.x-k8s.io/v1alpha2", "JobSet", "llm", spec=JOBSET)
    return cluster.pod("a", cluster.add("batch/v1", "Job", "llm-workers-0", top))


def train_job(cluster: Cluster) -> Json:
    """Job > JobSet > TrainJob."""
    spec = {"trainer": {"numNodes": 3}}
    top = cluster.add("trainer.kubeflow.org/v1alpha1", "TrainJob", "llm", spec=spec)
    middle = cluster.add("jobset.x-k8s.io/v1alpha2", "JobSet", "llm-x", top, spec=JOBSET)
    return cluster.pod("a", cluster.add("batch/v1", "Job", "llm-node-0", middle))


def pytorch_job(cluster: Cluster) -> Json:
    """A master and three workers."""
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    return cluster.pod("a", cluster.add("kubeflow.org/v1", "PyTorchJob", "llm", spec=spec))


def mpi_worker(cluster: Cluster) -> Json:
    """A worker; the launcher computes nothing."""
    spec = {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}}
    return cluster.pod("a", cluster.add("kubeflow.org/v2beta1", "MPIJob", "llm", spec=spec))


def mpi_launcher(cluster: Cluster) -> Json:
    """The launcher's Job > MPIJob."""
    top = cluster.add("kubeflow.org/v2beta1", "MPIJob", "llm")
    return cluster.pod("a", cluster.add("batch/v1", "Job", "llm-launcher", top))


def ray_job(cluster: Cluster) -> Json:
    """RayCluster > RayJob."""
    top = cluster.add("ray.io/v1", "RayJob", "llm")
    return cluster.pod("a", cluster.add("ray.io/v1", "RayCluster", "llm-raycluster", top))


def volcano(cluster: Cluster) -> Json:
    """Volcano's Job has the name of another kind."""
    spec = {"minAvailable": 3, "tasks": [{"replicas": 1}, {"replicas": 2}]}
    return cluster.pod("a", cluster.add("batch.volcano.sh/v1alpha1", "Job", "llm", spec=spec))


def leader_worker_set(cluster: Cluster) -> Json:
    """A worker: StatefulSet > leader pod > StatefulSet > LeaderWorkerSet; a group is a program."""
    spec = {"replicas": 5, "leaderWorkerTemplate": {"size": 4}}
    top = cluster.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "llm", spec=spec)
    leader = cluster.pod("llm-0", cluster.add("apps/v1", "StatefulSet", "llm", top))
    workers = cluster.add("apps/v1", "StatefulSet", "llm-0", leader)
    labels = {"leaderworkerset.sigs.k8s.io/group-index": "0"}
    return cluster.pod("llm-0-1", workers, labels=labels)


def pod_group(cluster: Cluster) -> Json:
    """Bare pods that are scheduled together."""
    return cluster.pod("a", annotations={"scheduling.k8s.io/group-name": "llm"})


@pytest.mark.parametrize(
    ("make", "kind", "name", "pods"),
    [
        (job, "Job", "llm", 4),
        (single_job, "Job", "llm", 1),
        (jobset, "JobSet", "llm", 5),
        (train_job, "TrainJob", "llm", 3),
        (pytorch_job, "PyTorchJob", "llm", 4),
        (mpi_worker, "MPIJob", "llm", 2),
        (mpi_launcher, "MPIJob", "llm", 0),
        (ray_job, "RayJob", "llm", 0),
        (volcano, "Job", "llm", 3),
        (leader_worker_set, "LeaderWorkerSet", "llm-0", 4),
        (pod_group, "PodGroup", "llm", 0),
    ],
)
def test_the_training_is_the_object_that_somebody_made(
    make: Callable[[Cluster], Json], kind: str, name: str, pods: int
) -> None:
    """With its name, its kind, and how many pods compute."""
    cluster = Cluster()
    found = training(cluster, make(cluster))
    assert found is not None
    assert (found.kind, found.name, found.pods) == (kind, name, pods)
    assert found.id.startswith(f"ml/{name}.")


def training(cluster: Cluster, pod: Json) -> Training | None:
    """By a reader that has seen nothing before."""

    def get(path: str) -> Json | None:
        try:
            return cluster.get(path)
        except OSError:
            return None

    return Owners(get).training(pod)


def test_servers_and_queues_of_work_are_no_training() -> None:
    """A Deployment's pods serve; a Job of many pods that do not know each other is as many jobs."""
    cluster = Cluster()
    deployment = cluster.add("apps/v1", "Deployment", "serve")
    server = cluster.pod("s", cluster.add("apps/v1", "ReplicaSet", "serve-7d9", deployment))
    assert training(cluster, server) is None
    assert training(cluster, cluster.pod("nobody")) is None
    queue = cluster.add("batch/v1", "Job", "eval", spec={"completions": 90, "parallelism": 8})
    first, second = (training(cluster, cluster.pod(name, queue)) for name in ("e-1", "e-2"))
    assert first is not None
    assert second is not None
    assert (first.id != second.id, first.pods) == (True, 1)


def test_what_made_a_training_does_not_divide_it() -> None:
    """Operators of kinds that nobody knows here own trainings (a Trial of Katib, an AppWrapper),
    and servers.
    """
    cluster = Cluster()
    trial = cluster.add("kubeflow.org/v1beta1", "Trial", "search-7")
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    llm = cluster.add("kubeflow.org/v1", "PyTorchJob", "llm", trial, spec=spec)
    owners = Owners(cluster.get)
    found = [owners.training(cluster.pod(name, llm)) for name in ("llm-master-0", "llm-worker-0")]
    assert found[0] == found[1]
    assert found[0] is not None
    assert (found[0].name, found[0].kind, found[0].pods) == ("llm", "PyTorchJob", 4)
    notebook = cluster.add("kubeflow.org/v1", "Notebook", "ada")
    server = cluster.pod("ada-0", cluster.add("apps/v1", "StatefulSet", "ada", notebook))
    assert owners.training(server) is None


def test_gangs_of_a_job_are_one() -> None:
    """Where a pod group says that a Job's pods are scheduled together."""
    cluster = Cluster()
    queue = cluster.add("batch/v1", "Job", "llm", spec={"completions": 4, "parallelism": 4})
    labels = {"scheduling.x-k8s.io/pod-group": "llm"}
    found = {training(cluster, cluster.pod(name, queue, labels=labels)) for name in ("a", "b")}
    assert [one.pods for one in found if one] == [4]


def test_a_name_that_is_used_again_is_another_training() -> None:
    """The UID tells them apart; a reference to one that is gone does not reach its successor."""
    cluster = Cluster()
    old = cluster.add("kubeflow.org/v1", "PyTorchJob", "llm", generation="1")
    before = training(cluster, cluster.pod("a", old))
    new = cluster.add("kubeflow.org/v1", "PyTorchJob", "llm", generation="2", spec={"x": 1})
    after, orphan = (training(cluster, cluster.pod(n, o)) for n, o in (("b", new), ("c", old)))
    assert before is not None
    assert after is not None
    assert orphan is not None
    assert before.id != after.id
    assert (orphan.id, orphan.pods) == (before.id, 0)  # its owner is gone, and not its successor


def lost(cluster: Cluster, *pods: Json) -> list[Training]:
    """The trainings of pods, each by a reader that starts when every owner is gone."""
    cluster.objects.clear()
    return [found for pod in pods if (found := training(cluster, pod))]


INDEX = "batch.kubernetes.io/job-completion-index"


def indexed(cluster: Cluster, name: str, owner: Json, subdomain: str) -> Json:
    """A pod as the controller of an indexed Job makes it."""
    pod = cluster.pod(name, owner, annotations={INDEX: name[-1]}, labels={INDEX: name[-1]})
    if subdomain:
        pod["spec"]["subdomain"] = subdomain
    return pod


@pytest.mark.parametrize(("subdomain", "jobs"), [("train", 1), ("", 2)])
def test_pods_of_a_job_that_is_gone_are_one_where_they_find_each_other(
    subdomain: str, jobs: int
) -> None:
    """By what its controller gave them; those of a queue of work stay jobs of their own."""
    cluster = Cluster()
    owner = cluster.add("batch/v1", "Job", "llm", spec=INDEXED)
    found = lost(cluster, *(indexed(cluster, name, owner, subdomain) for name in ("a-0", "a-1")))
    assert (len({one.id for one in found}), len(found)) == (jobs, 2)


def test_pods_of_a_jobset_that_is_gone_with_its_jobs_are_one() -> None:
    """Each names the set by its labels; the id is that of a reader which had found the set."""
    cluster = Cluster()
    top = cluster.add("jobset.x-k8s.io/v1alpha2", "JobSet", "llm", spec=JOBSET)
    jobs = [cluster.add("batch/v1", "Job", f"llm-workers-{n}", top) for n in range(2)]
    name, uid = (top["metadata"][key] for key in ("name", "uid"))
    labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/jobset-uid": uid}
    pods = [cluster.pod(f"p{n}", job, labels=labels) for n, job in enumerate(jobs)]
    before = training(cluster, pods[0])
    assert before is not None
    assert [one.id for one in lost(cluster, *pods)] == [before.id] * 2


def test_a_uid_that_nobody_confirmed_reaches_no_other_namespace() -> None:
    """Another tenant's pod that names the owner of a training, where names are hidden."""
    cluster = Cluster()
    owner = cluster.add("kubeflow.org/v1", "PyTorchJob", "llm")
    theirs = cluster.pod("a", owner)
    mine = cluster.pod("b", owner)
    mine["metadata"]["namespace"] = "other"

    def get(path: str) -> Json | None:
        return cluster.objects.get(path)

    found = [Owners(get, opaque=True).training(pod) for pod in (theirs, mine)]
    assert len({one.id for one in found if one}) == 2


def bridged(pod: Json, where: str) -> Json:
    """With what slurm-bridge writes into its labels or annotations."""
    pod["metadata"].setdefault(where, {})["scheduler.slinky.slurm.net/slurm-jobid"] = "4711"
    return pod


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_job_of_slurm_in_a_pod_is_that_job_where_only_slurm_bridge_names_it(where: str) -> None:
    """In a namespace that the operator lists, one job under two names is counted once, under
    Slurm's.
    """
    cluster = Cluster()
    owners = Owners(cluster.objects.get, bridges=["ml"])
    found = owners.training(bridged(cluster.pod("a"), where))
    assert found is not None
    assert found.id == "4711"


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize("bridges", [(), ("slurm",), ("ML", "m", "")])
@pytest.mark.parametrize("make", [pytorch_job, pod_group])
def test_a_pod_elsewhere_joins_no_job_of_slurm_by_its_own_word(
    where: str, bridges: tuple[str, ...], make: Callable[[Cluster], Json]
) -> None:
    """Its training is what it would be without that label."""
    cluster = Cluster()
    pod = make(cluster)
    owners = Owners(cluster.objects.get, bridges=bridges)
    before = owners.training(pod)
    assert before is not None
    assert owners.training(bridged(pod, where)) == before
    assert owners.training(bridged(cluster.pod("b"), where)) is None


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("first", ["ml", "eve"])
@pytest.mark.parametrize(
    "forged",
    [
        {"apiVersion": "kubeflow.org/v9", "name": "zz"},
        {"name": "zz"},
        {"apiVersion": "batch/v1", "kind": "Job"},
        {},
    ],
    ids=["version", "name", "kind", "same"],
)
def test_a_reference_to_the_owner_of_another_namespace_changes_and_joins_nothing(
    forged: Json, first: str, *, opaque: bool
) -> None:
    """Whichever pod is listed first: what the API server said about a name in one namespace is no
    answer about another.
    """
    cluster = Cluster()
    honest = pytorch_job(cluster)
    expected = Owners(cluster.objects.get, opaque=opaque).training(honest)
    reference = {**honest["metadata"]["ownerReferences"][0], **forged}
    hostile = {
        "metadata": {
            "namespace": "eve",
            "name": "b",
            "uid": "ffffffff-pod",
            "ownerReferences": [reference],
        }
    }
    owners = Owners(cluster.objects.get, opaque=opaque)
    pods = {"ml": honest, "eve": hostile}
    found = {name: owners.training(pods[name]) for name in sorted(pods, key=lambda n: n != first)}
    assert found["ml"] == expected
    assert found["eve"] is not None
    assert expected is not None
    assert found["eve"].id != expected.id
    assert found["eve"].uid != expected.uid


def test_a_chain_in_a_circle_ends() -> None:
    """Objects that own each other."""
    cluster = Cluster()
    one = cluster.add("batch/v1", "Job", "a")
    two = cluster.add("jobset.x-k8s.io/v1alpha2", "JobSet", "b", one)
    cluster.add("batch/v1", "Job", "a", two)
    assert training(cluster, cluster.pod("p", one)) is not None


def test_owners_are_asked_once() -> None:
    """A thousand pods of a job cost two requests; what could not be read is asked for again."""
    cluster, asked = Cluster(), list[str]()
    top = cluster.add("jobset.x-k8s.io/v1alpha2", "JobSet", "llm", spec=JOBSET)
    owner = cluster.add("batch/v1", "Job", "llm-0", top)

    def get(path: str) -> Json | None:
        asked.append(path)
        return None if "jobsets" in path and len(asked) < 3 else cluster.get(path)

    owners = Owners(get)
    pods = [cluster.pod(f"p{n}", owner) for n in range(100)]
    assert {owners.training(pod) for pod in pods[:50]}
    assert len(asked) == 2
    owners.forget_unread()
    kinds = {found.kind for pod in pods if (found := owners.training(pod))}
    assert (kinds, len(asked)) == ({"JobSet"}, 3)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"ownerReferences": 7},
        {"ownerReferences": [None, "x", {}, {"controller": True}]},
        {"ownerReferences": [{"controller": True, "kind": "Job", "name": "a", "uid": 1}]},
        {"labels": [], "annotations": "x", "namespace": None, "uid": {}},
    ],
)
def test_metadata_of_any_form_is_no_training(metadata: Any) -> None:
    """Nothing raises."""
    assert Owners(lambda path: {}).training({"metadata": metadata}) is None


def test_a_path_holds_no_more_than_a_name() -> None:
    """A version or name with a slash reaches no other object."""
    asked: list[str] = []

    def ask(path: str) -> None:
        asked.append(path)

    reference = {
        "apiVersion": "batch/v1/../../api/v1/secrets?x=",
        "kind": "Job",
        "name": "../../secrets/token",
        "uid": "u",
        "controller": True,
    }
    owners = Owners(ask)
    owners.training(
        {"metadata": {"namespace": "ml", "name": "p", "uid": "q", "ownerReferences": [reference]}}
    )
    reference["apiVersion"] = "batch/v1"
    owners = Owners(ask)
    owners.training(
        {"metadata": {"namespace": "ml", "name": "p", "uid": "q", "ownerReferences": [reference]}}
    )
    assert asked == ["/apis/batch/v1/namespaces/ml/jobs/..%2F..%2Fsecrets%2Ftoken"]
    assert controller({"ownerReferences": [reference]}) is not None


def test_ids_tell_nothing_where_names_are_hidden() -> None:
    """Only UIDs are left."""
    cluster = Cluster()
    pod = pytorch_job(cluster)
    found = Owners(cluster.get, opaque=True).training(pod)
    assert found == Training(
        f"training.{uid_of('PyTorchJob', 'llm', '')}",
        "",
        "",
        "PyTorchJob",
        uid_of("PyTorchJob", "llm", ""),
        4,
    )
