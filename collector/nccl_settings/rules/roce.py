"""RDMA over Ethernet: GID index and traffic class; and how long any adapter waits for a reply."""

from __future__ import annotations

from collector.facts.model import RdmaPort
from collector.nccl_settings.model import Checks, Rank, some

CHOOSES_GID = (2, 21)  # from here on NCCL finds the index itself (release notes of 2.21)
# Local ACK timeout of the InfiniBand specification (9.7.6.1.3): 4.096 us x 2^t, here without the
# factor of up to 4 that an adapter may add.
TIMEOUT_UNIT_S, DEFAULT_TIMEOUT, DEFAULT_RETRIES = 4.096e-6, 20, 7
MIN_PATIENCE_S = 10.0  # a port that is trained again is away for some seconds
MAX_EXPONENT = 31


def gid_index(rank: Rank) -> Checks:
    """NCCL_IB_GID_INDEX is no RoCE v2 address on a port in use."""
    index = rank.number("NCCL_IB_GID_INDEX")
    ports = [port for port in rank.taken if port.ethernet and port.gids]
    if index is None or index < 0 or not ports or rank.process.foreign or not rank.uses_verbs:
        return  # a pod has a GID table of its own, which cannot be read from here
    bad = [f"{port.name} has {_described(port, index)}" for port in ports if not _good(port, index)]
    if bad:
        yield (
            "wrong",
            f"{rank.shown('NCCL_IB_GID_INDEX')} is no routable RoCE v2 address: {some(bad)}",
            _better(rank, ports),
        )


def traffic_class(rank: Rank) -> Checks:
    """RoCE between nodes without a traffic class: a lossless class of the fabric is not used."""
    forced = any(port.traffic_class for port in rank.taken)
    if not rank.on_roce or not rank.uses_verbs or forced:
        return
    if rank.number("NCCL_IB_TC") in (None, 0):
        yield (
            "check",
            (
                "NCCL_IB_TC is at its default 0 on RoCE: best effort, so drops and pauses under "
                "load if the fabric has a lossless class"
            ),
            "export NCCL_IB_TC=106, if the lossless class is DSCP 26 (the class is DSCP x 4)",
        )


def patience(rank: Rank) -> Checks:
    """How long requests are repeated before the job dies, or that they are for ever."""
    exponent = rank.number("NCCL_IB_TIMEOUT")
    retries = rank.number("NCCL_IB_RETRY_CNT")
    if (exponent is None and retries is None) or not rank.uses_verbs:
        return
    if rank.node is not None and not rank.taken:
        return
    names = [n for n in ("NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT") if n in rank.settings]
    shown = ", ".join(rank.shown(name) for name in names)
    change = "unset NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT (defaults 20 and 7; 22 for flapping links)"
    if exponent == 0:
        yield "wrong", f"{shown}: 0 waits for ever, so a lost packet hangs the job", change
        return
    t = min(DEFAULT_TIMEOUT if exponent is None else exponent, MAX_EXPONENT)
    seconds = TIMEOUT_UNIT_S * 2**t * (DEFAULT_RETRIES if retries is None else retries)
    if seconds < MIN_PATIENCE_S:
        yield (
            "check",
            f"{shown}: requests give up after {seconds:.2g} s, so a short link flap kills the job",
            change,
        )


def _good(port: RdmaPort, index: int) -> bool:
    return any(gid.index == index and gid.routable for gid in port.gids)


def _described(port: RdmaPort, index: int) -> str:
    gid = next((gid for gid in port.gids if gid.index == index), None)
    if gid is None:
        return "no such index"
    return (
        f"{gid.type or 'an unknown type'}{' (link-local)' if gid.value.startswith('fe80:') else ''}"
    )


def _better(rank: Rank, ports: list[RdmaPort]) -> str:
    if not rank.version or rank.version >= CHOOSES_GID:
        return "unset NCCL_IB_GID_INDEX (NCCL 2.21 and later choose it)"
    common = set.intersection(*({g.index for g in port.gids if g.routable} for port in ports))
    return (
        f"export NCCL_IB_GID_INDEX={min(common)}"
        if common
        else "give all ports of the job a RoCE v2 address at one index"
    )
