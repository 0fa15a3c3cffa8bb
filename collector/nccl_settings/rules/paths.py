"""Ways between GPUs, and between GPUs and adapters, that were switched off or cannot work."""

from __future__ import annotations

from collector.facts.affinity import ORDER, distance, within
from collector.nccl_settings.model import Checks, Rank, some

NEARER = {"LOC", "0"}  # values of NCCL_NET_GDR_LEVEL and NCCL_P2P_LEVEL: never


def peer_to_peer(rank: Rank) -> Checks:
    """NCCL_P2P_DISABLE, or NCCL_P2P_LEVEL=LOC."""
    off = _switched_off(rank, "NCCL_P2P_DISABLE")
    level = rank.settings.get("NCCL_P2P_LEVEL", "").upper() in NEARER
    if off or level:
        name = "NCCL_P2P_DISABLE" if off else "NCCL_P2P_LEVEL"
        nvlink = rank.node is not None and rank.node.nvswitch
        yield (
            "slow" if nvlink else "check",
            (
                f"{rank.shown(name)}: GPUs of a node exchange data through host memory"
                f"{', though it has NVSwitches' if nvlink else ', not over NVLink or PCIe'}"
            ),
            f"unset {name}",
        )


def shared_memory(rank: Rank) -> Checks:
    """NCCL_SHM_DISABLE."""
    if _switched_off(rank, "NCCL_SHM_DISABLE"):
        yield (
            "check",
            (
                f"{rank.shown('NCCL_SHM_DISABLE')}: ranks of a node that cannot use P2P talk over "
                "the network"
            ),
            "unset NCCL_SHM_DISABLE",
        )


def gpudirect(rank: Rank) -> Checks:
    """GPUDirect RDMA is switched off, or the node cannot do it."""
    node = rank.node
    if not rank.uses_verbs or (node is not None and not rank.taken):
        return
    level = rank.settings.get("NCCL_NET_GDR_LEVEL", "").upper()
    if level in NEARER:
        yield (
            "slow",
            (
                f"{rank.shown('NCCL_NET_GDR_LEVEL')}: GPUDirect RDMA is off, data goes through "
                "host memory"
            ),
            "unset NCCL_NET_GDR_LEVEL",
        )
    elif level in ORDER and (far := _farther(rank, level)):
        yield (
            "slow",
            f"{rank.shown('NCCL_NET_GDR_LEVEL')}: farther apart than that: {some(far)}",
            "unset NCCL_NET_GDR_LEVEL",
        )
    if rank.number("NCCL_DMABUF_ENABLE") == 0 and node is not None and node.peermem is False:
        yield (
            "slow",
            (
                f"{rank.shown('NCCL_DMABUF_ENABLE')}, and nvidia_peermem is not loaded: no "
                "GPUDirect RDMA"
            ),
            "unset NCCL_DMABUF_ENABLE, or modprobe nvidia_peermem",
        )
    elif node is not None and node.gpudirect is False:
        yield (
            "slow",
            (
                f"{node.host} has neither nvidia_peermem nor dma-buf (open kernel module, kernel "
                "5.12 or later): no GPUDirect RDMA"
            ),
            "modprobe nvidia_peermem",
        )


def nvls(rank: Rank) -> Checks:
    """NCCL_NVLS_ENABLE=0 on a node with NVSwitches."""
    if rank.number("NCCL_NVLS_ENABLE") == 0 and rank.node is not None and rank.node.nvswitch:
        yield (
            "slow",
            (
                f"{rank.shown('NCCL_NVLS_ENABLE')}: no reduction in the NVSwitches, on Hopper up "
                "to a quarter of the all-reduce bandwidth"
            ),
            "unset NCCL_NVLS_ENABLE (NCCL 2.27 and 2.28 may hang with it: use another version)",
        )


def multi_node_nvlink(rank: Rank) -> Checks:
    """NVLink between nodes without what it needs: the IMEX service, and cuMem."""
    wanted = rank.number("NCCL_MNNVL_ENABLE")
    if wanted != 0 and rank.node is not None and rank.node.imex is False:
        yield (
            "wrong" if wanted == 1 else "slow",
            f"the IMEX service does not run on {rank.node.host}: no NVLink between nodes",
            "systemctl start nvidia-imex",
        )
    if wanted == 1 and rank.number("NCCL_CUMEM_ENABLE") == 0:
        yield (
            "wrong",
            (
                f"{rank.shown('NCCL_MNNVL_ENABLE')} needs cuMem, and NCCL_CUMEM_ENABLE=0 switches "
                "it off"
            ),
            "unset NCCL_CUMEM_ENABLE",
        )


def access_control(rank: Rank) -> Checks:
    """ACS on PCIe bridges of a machine that is no guest."""
    node = rank.node
    if node is not None and node.acs and node.virtual is False and rank.own_gpus:
        yield (
            "slow",
            (
                f"PCIe access control services are on ({some(node.acs)}): peer traffic goes "
                "through the root complex, or hangs"
            ),
            "disable ACS in the firmware, or with setpci ECAP_ACS+6.w=0000 on these bridges",
        )


def _farther(rank: Rank, level: str) -> list[str]:
    """GPUs of the process whose nearest port in use is farther away than a level."""
    limit = next(one for one in ORDER if one == level)
    far = []
    for gpu in rank.own_gpus:
        known = [distance(gpu.path, p.path, (gpu.numa, p.numa)) for p in rank.taken]
        found = [one for one in known if one is not None]
        if found and not any(within(one, limit) for one in found):
            nearest = min(found, key=ORDER.index)
            far.append(f"GPU {gpu.index} and its nearest port ({nearest})")
    return far


def _switched_off(rank: Rank, name: str) -> bool:
    return rank.number(name) not in (None, 0)
