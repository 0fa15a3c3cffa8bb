"""Which settings are looked at, and of which the value may be shown.

An environment holds secrets and paths of users, so nothing but these names is ever read. Names:
NCCL documentation, "Environment Variables" (docs/userguide/source/env.rst of NVIDIA/nccl 2.30).
"""

from __future__ import annotations

SHOWN = frozenset(
    (
        *("NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC", "NCCL_IB_FIFO_TC"),
        *("NCCL_IB_SL", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "NCCL_IB_QPS_PER_CONNECTION"),
        *("NCCL_IB_ADAPTIVE_ROUTING", "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_MERGE_NICS"),
        *("NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_ADDR_FAMILY"),
        *("NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "NCCL_NET", "NCCL_CROSS_NIC"),
        *("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_NET_GDR_C2C", "NCCL_DMABUF_ENABLE"),
        *("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_PXN_DISABLE"),
        *("NCCL_NVLS_ENABLE", "NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_COLLNET_ENABLE"),
        *("NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE"),
        *("NCCL_NTHREADS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_NCHANNELS_PER_NET_PEER"),
        *("NCCL_DEBUG", "NCCL_LAUNCH_MODE", "NCCL_IGNORE_CPU_AFFINITY", "CUDA_LAUNCH_BLOCKING"),
    )
)
# Files and plug-ins of the user: that they are set counts, their values are never shown.
HIDDEN = frozenset(("NCCL_TOPO_FILE", "NCCL_NET_PLUGIN", "NCCL_CONF_FILE"))
KEPT = SHOWN | HIDDEN
# May rightly differ among the ranks of a job: addresses of a host, and what is written where.
OF_A_RANK = HIDDEN | {"NCCL_DEBUG", "NCCL_IB_GID_INDEX"}
