"""Inspector lines as the plugin writes them (json.cc of plugins/profiler/inspector)."""

from __future__ import annotations


def line(
    seq: int,
    *,
    rank: int = 0,
    us: str = "120.5",
    coll: str = "AllReduce",
    pid: int = 77,
    head: str = "0xc7075c59e2491f69",
) -> bytes:
    """One completed collective of a rank of a communicator of 8."""
    return (
        f'{{"header":{{"id":"{head}","comm_name":"world","rank":{rank},"n_ranks":8,"nnodes":1}},'
        '"metadata":{"inspector_output_format_version":"v4.0","git_rev":"abc","rec_mechanism":"nccl_profiler_interface",'
        f'"dump_timestamp_us":1795151188000000,"hostname":"n1","pid":{pid}}},'
        f'"coll_perf":{{"coll":"{coll}","coll_sn":{seq},"coll_msg_size_bytes":4194304,"coll_exec_time_us":{us},'
        '"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.0,"coll_busbw_gbs":1.75}}'
    ).encode()


P2P = (
    b'{"header":{"id":"0x1","rank":1,"n_ranks":8,"nnodes":1},"metadata":{"hostname":"n1","pid":77,"dump_timestamp_us":1},'
    b'"p2p_perf":{"p2p":"Send","p2p_sn":1,"p2p_peer":3,"p2p_msg_size_bytes":8,"p2p_exec_time_us":5.0}}'
)
