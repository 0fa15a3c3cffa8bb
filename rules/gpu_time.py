"""GPU time by cause, as recordings: the numbers of ``tocsin report`` at each instant.

Each GPU has one cause, the first that holds of those below. What a job does between two bursts of
work (start-up, a checkpoint, idleness) looks alike at one instant: here it is paused.
"""

from __future__ import annotations

from dashboards.queries import FAILURES, GPUS_BY_CAUSE, GPUS_BY_TEAM, GPUS_COUNTED
from rules.model import Group, Recording

# In the order of precedence, as in history/economics/evidence.py; paused stands for checkpoint,
# start_up and the idleness of a job.
CAUSES = ("down", "repair", "lost", "stalled", "paused", "idle", "used", "unknown")
WORKING = 0.05  # history/economics/activity.py: a driver's housekeeping stays below
WAITING = "(hang|nccl)(/.*)?"  # history/economics/gather.py: incidents that say that a job waits

GPU_CAUSE = "gpu:tocsin_gpu_cause:last"
GPUS_SEEN = "instance:tocsin_gpus:last"

_NODE = "cluster, node, instance"
_GPU = f"{_NODE}, gpu, uuid"
_EVERY = f"max by ({_GPU}) (tocsin_gpu_state{{state='ok'}} >= bool 0)"
_WORK = f"max by ({_GPU}) (avg_over_time(tocsin_gpu_utilization_ratio{{engine='gpu'}}[1m]))"
_JOB = f"max by ({_GPU}) (tocsin_device_job_info)"
_PAGES = "tocsin_incidents_total{severity='page'}"
_BROKEN = "tocsin_incident_active{severity='page', action!='NONE'"


def _gpus(series: str, label: str) -> str:
    """GPUs that a series is about: it has their UUID in a label."""
    named = f"label_replace({series}, 'uuid', '$1', '{label}', '(.+)')"
    return f"({_EVERY} and on ({_NODE}, uuid) {named})"


def _nodes(series: str) -> str:
    """All GPUs of the nodes that a series is about."""
    return f"({_EVERY} and on ({_NODE}) {series})"


def _cause(name: str, gpus: str) -> str:
    return f"label_replace({gpus}, 'cause', '{name}', '', '')"


_REPAIR = (
    _nodes("tocsin_maintenance{kind='node'}"),
    _gpus("tocsin_maintenance{kind='gpu'}", "device"),
)
_FAULTS = (
    _gpus(f"{_BROKEN}, class!~'{WAITING}', root_kind='gpu'}}", "root_device"),
    _nodes(f"{_BROKEN}, class!~'{WAITING}', root_kind!='gpu'}}"),
)
_STALLS = _nodes(f"{_BROKEN}, class=~'{WAITING}'}}")
_OR = f"\nor on ({_GPU}) "
_HOLDS = {
    "down": f"max by ({_GPU}) (tocsin_gpu_state{{state=~'lost|hung|absent|unreadable'}} == 1)",
    "repair": f"({_OR.join(_REPAIR)})",
    # A GPU that works on is not lost to an open fault.
    "lost": f"(({_OR.join(_FAULTS)})\nand on ({_GPU}) ({_WORK} <= {WORKING}))",
    "stalled": f"({_STALLS} and on ({_GPU}) {_JOB})",
    "paused": f"(({_WORK} <= {WORKING}) and on ({_GPU}) {_JOB})",
    "idle": f"({_WORK} <= {WORKING})",
    "used": f"({_WORK} > {WORKING})",
    "unknown": _EVERY,
}

# The first that there is: account, namespace, user. A namespace of ours is `exported_namespace`
# where the target has one of its own (the Prometheus operator's always do); several holders of one
# GPU are the first of them.
_POD = "tocsin_device_job_info{scheduler='kubernetes'}"
_JOINED = (
    f"label_join({_POD}, 'team', ';', 'exported_namespace', 'namespace')",
    "label_join(tocsin_device_job_info, 'team', ';', 'account', 'user')",
)
_TEAM = (
    f"topk by ({_GPU}) (1, max by ({_GPU}, team) (label_replace(\n"
    f"{f' or on ({_GPU}) '.join(_JOINED)},\n'team', '$1', 'team', ';*([^;]*).*')))"
)

RECORDINGS = (
    Recording(
        GPU_CAUSE,
        f"1 ^ (\n{_OR.join(_cause(name, _HOLDS[name]) for name in CAUSES)}\n)",
    ),
    # Of a node that does not answer as many GPUs as it had: they are down. One that the service
    # discovery no longer lists is forgotten.
    Recording(
        GPUS_SEEN,
        f"count by ({_NODE}) ({_EVERY})\n"
        f"or ({GPUS_SEEN} and on ({_NODE}) (up{{job=~'.*tocsin.*'}} == 0))",
    ),
    Recording(
        GPUS_BY_CAUSE,
        f"sum by (cluster, cause) (\n{GPU_CAUSE}\n"
        f"or {_cause('down', f'({GPUS_SEEN} unless on ({_NODE}) {GPU_CAUSE})')}\n)",
    ),
    Recording(GPUS_COUNTED, f"sum by (cluster) ({GPUS_SEEN})"),
    Recording(
        GPUS_BY_TEAM,
        f"count by (cluster, team, cause) ({GPU_CAUSE} * on ({_GPU}) group_left (team) {_TEAM})",
    ),
    # A series is born with the first incident of its class, which is no increase. 0 where there was
    # none: the mean over a day counts the hours without one.
    Recording(
        FAILURES,
        f"sum by (cluster) (\n({_PAGES} unless {_PAGES} offset 1h) or increase({_PAGES}[1h])\n)\n"
        f"or 0 * {GPUS_COUNTED}",
    ),
)

GROUPS = (Group("tocsin-gpu-time", RECORDINGS),)
