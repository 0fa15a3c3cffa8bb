"""What a process was started with that matters here: an environment holds secrets, so only these
names are ever looked at.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from collector.foreign_text import printable
from collector.sources.nccl.discovery.setting_names import KEPT as SETTINGS

MAX_BYTES = 1 << 20
MAX_VALUE = 512

# The scheduler's or launcher's, NCCL's (its documentation, "Environment Variables"),
# PyTorch's (ProcessGroupNCCL.hpp).
KEPT = frozenset(
    (
        *(
            "SLURM_JOB_ID",
            "SLURM_STEP_ID",
            "SLURM_PROCID",
            "SLURM_JOB_NAME",
            "TORCHELASTIC_RUN_ID",
            "MASTER_ADDR",
            "MASTER_PORT",
        ),
        *("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "OMPI_COMM_WORLD_SIZE"),
        *(
            "RANK",
            "LOCAL_RANK",
            "WORLD_SIZE",
            "OMPI_COMM_WORLD_RANK",
            "PMIX_RANK",
            "PMI_RANK",
            "PMI_SIZE",
            "CUDA_VISIBLE_DEVICES",
        ),
        *("NCCL_RAS_ENABLE", "NCCL_RAS_ADDR", "NCCL_RAS_TIMEOUT_FACTOR", "NCCL_DEBUG_FILE"),
        *("NCCL_INSPECTOR_ENABLE", "NCCL_INSPECTOR_DUMP_DIR"),
        *(
            "TORCH_FR_DUMP_TEMP_FILE",
            "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
            "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
        ),
        *("TORCH_WORKER_SERVER_SOCKET", "XDG_CACHE_HOME", "HOME"),
        *SETTINGS,
    )
)
_NOTHING = frozenset({"", "none", "None"})  # torchrun's run id where nobody gave one is "none"
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_SLURM = re.compile(r"/job_(\d{1,12})(?:/step_([\w.+]{1,32}))?(?:/|$)", re.MULTILINE)


def environment_of(raw: bytes, kept: Collection[str] = KEPT) -> dict[str, str]:
    r"""The names of a /proc/PID/environ that are known, or that ``kept`` holds.

    >>> environment_of(b"RANK=3\0AWS_SECRET_ACCESS_KEY=x\0NCCL_RAS_ADDR=localhost:28028")
    {'RANK': '3', 'NCCL_RAS_ADDR': 'localhost:28028'}
    """
    pairs = (item.partition(b"=") for item in raw[:MAX_BYTES].split(b"\0"))
    found = (
        (name.decode(errors="replace"), value.decode(errors="replace")) for name, _, value in pairs
    )
    return {name: printable(value, MAX_VALUE) for name, value in found if name in kept}


def job_of(environment: Mapping[str, str], cgroup: str) -> str:
    """What the processes of one job have in common: Slurm's step, the pod, torchrun's run, or the
    address of rank 0; empty where nothing is.

    >>> (
    ...     job_of({"SLURM_JOB_ID": "71", "SLURM_STEP_ID": "0"}, ""),
    ...     job_of({}, "0::/system.slice/slurmstepd.scope/job_71/step_0/user"),
    ... )
    ('71.0', '71.0')
    """
    if environment.get("SLURM_JOB_ID", "") not in _NOTHING:
        return _joined(environment["SLURM_JOB_ID"], ".", environment.get("SLURM_STEP_ID", ""))
    if match := _SLURM.search(cgroup):
        return _joined(match[1], ".", match[2] or "")
    if match := _POD.search(cgroup):
        return "pod" + match[1].replace("_", "-")
    if (run := environment.get("TORCHELASTIC_RUN_ID", "")) not in _NOTHING:
        return f"torchrun:{run}"
    if (address := environment.get("MASTER_ADDR", "")) not in _NOTHING:
        return _joined(address, ":", environment.get("MASTER_PORT", ""))
    return ""


def rank_of(environment: Mapping[str, str]) -> int:
    """The rank in the job as its launcher gave it, -1 where it did not."""
    return number_of(
        environment, "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"
    )


def number_of(environment: Mapping[str, str], *names: str) -> int:
    """The first of these that is a number, -1 where none is."""
    for name in names:
        text = environment.get(name, "")
        if text.isascii() and text.isdecimal() and len(text) < 9:
            return int(text)
    return -1


def _joined(first: str, by: str, second: str) -> str:
    return f"{first}{by}{second}" if second else first
