"""What jobs alike have in common: user and name, as attributes of ``job_started``.

The user is the kernel's or the kubelet's word: a job teaches jobs of its own user or namespace
only (detectors/hang/kin.py). The name is its owner's, and says nothing of other jobs. Texts come
here printable, as the source that read them made them.
"""

from __future__ import annotations

from collections.abc import Collection

from collector.node.pods_by_gpu import Pod
from collector.node.trainings import Training

MAX_LETTERS = 128  # of a name: detectors/hang/kin.py keeps as many


def of_user(user: int, name: str, hidden: Collection[str] = ()) -> dict[str, str]:
    """Of a job of a user of the machine; nothing where either is not known or hidden.

    >>> of_user(1000, "train"), of_user(1000, ""), of_user(1000, "train", ["job_name"])
    ({'user': '1000', 'name': 'train'}, {}, {})
    """
    name = name[:MAX_LETTERS].strip()
    if user < 0 or not name or {"user", "job_name"}.intersection(hidden):
        return {}
    return {"user": str(user), "name": name}


def of_pod(pod: Pod | None) -> dict[str, str]:
    """Of a pod: its namespace, and what its name has in common with others of its workload.

    >>> of_pod(Pod("ml", "train-worker-3"))
    {'user': 'namespace:ml', 'name': 'train-worker'}
    """
    if pod is None or not pod.namespace or not pod.workload:
        return {}
    return {
        "user": f"namespace:{pod.namespace}"[:MAX_LETTERS],
        "name": pod.workload[:MAX_LETTERS],
    }


def of_training(training: Training, hidden: Collection[str] = ()) -> dict[str, str]:
    """Of a training, whichever of its pods is seen: its namespace, and its name as of one of them.

    >>> llm = Training("ml/llm-7.1a2b3c4d", "ml", "llm-7", "PyTorchJob")
    >>> of_training(llm), of_training(llm, ["namespace"])
    ({'user': 'namespace:ml', 'name': 'llm'}, {})
    """
    if {"namespace", "job_name"}.intersection(hidden):
        return {}
    return of_pod(Pod(training.namespace, training.name))
