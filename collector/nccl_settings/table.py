"""All rules of the triage: one row each, and how they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from collector.nccl_settings.model import Checks, Problem, Rank, merged
from collector.nccl_settings.rules import adapters, paths, process, roce

ENV = "NCCL documentation, Environment Variables: "
TROUBLE = "NCCL documentation, Troubleshooting: "


class Rule(NamedTuple):
    """``check`` yields level, why and the line to change, for one rank."""

    name: str
    check: Callable[[Rank], Checks]
    reference: str


class JobRule(NamedTuple):
    """The same over all ranks of a job."""

    name: str
    check: Callable[[Sequence[Rank]], Checks]
    reference: str


RULES = (
    Rule("ib_disabled", adapters.disabled, ENV + "NCCL_IB_DISABLE"),
    Rule("hca_absent", adapters.absent, ENV + "NCCL_IB_HCA"),
    Rule("hca_down", adapters.down, ENV + "NCCL_IB_HCA"),
    Rule("hca_prefix", adapters.prefix, ENV + "NCCL_IB_HCA"),
    Rule("hca_left_out", adapters.left_out, ENV + "NCCL_IB_HCA"),
    Rule("hca_mixed_rates", adapters.mixed_rates, ENV + "NCCL_IB_HCA"),
    Rule("socket_interface", adapters.interface, ENV + "NCCL_SOCKET_IFNAME"),
    Rule("numa_affinity", adapters.numa, "nvidia-smi topo -m, CPU Affinity"),
    Rule("gid_index", roce.gid_index, ENV + "NCCL_IB_GID_INDEX; NVIDIA/nccl#426, #769"),
    Rule("traffic_class", roce.traffic_class, ENV + "NCCL_IB_TC"),
    Rule("ib_timeout", roce.patience, ENV + "NCCL_IB_TIMEOUT"),
    Rule("p2p_disabled", paths.peer_to_peer, ENV + "NCCL_P2P_DISABLE"),
    Rule("shm_disabled", paths.shared_memory, ENV + "NCCL_SHM_DISABLE"),
    Rule("gpudirect", paths.gpudirect, TROUBLE + "GPU-to-NIC communication"),
    Rule("nvls_disabled", paths.nvls, ENV + "NCCL_NVLS_ENABLE"),
    Rule("mnnvl", paths.multi_node_nvlink, ENV + "NCCL_MNNVL_ENABLE"),
    Rule("acs", paths.access_control, TROUBLE + "PCI Access Control Services"),
    Rule("memlock", process.memlock, TROUBLE + "Memory issues"),
    Rule("shm_size", process.shared_memory, TROUBLE + "Shared memory"),
    Rule("open_files", process.open_files, "getrlimit(2), RLIMIT_NOFILE"),
    Rule("stack_size", process.stack, TROUBLE + "Stack size"),
    Rule("left_over", process.left_over, ENV + "Debugging"),
)
JOB_RULES = (
    JobRule("mixed_versions", process.versions, TROUBLE + "NCCL version mismatch"),
    JobRule("unlike_settings", process.unlike, ENV + "the same on all ranks"),
)


def problems(ranks: Sequence[Rank]) -> list[Problem]:
    """What is wrong with the settings of one job, the gravest first; each once for all ranks that
    share it.
    """
    return merged(_found(ranks))


def _found(ranks: Sequence[Rank]) -> Iterator[Problem]:
    for rule in RULES:
        for rank in ranks:
            for level, why, change in rule.check(rank):
                yield Problem(rule.name, level, why, change, rule.reference, (rank.name,))
    for over_all in JOB_RULES:
        for level, why, change in over_all.check(ranks):
            yield Problem(over_all.name, level, why, change, over_all.reference)
