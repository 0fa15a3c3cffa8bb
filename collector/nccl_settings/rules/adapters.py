"""Which network NCCL may use: NCCL_IB_DISABLE, NCCL_NET, NCCL_IB_HCA, NCCL_SOCKET_IFNAME."""

from __future__ import annotations

from collections.abc import Iterable

from collector.facts.affinity import distance, within
from collector.facts.model import PciGpu, RdmaPort
from collector.nccl_settings.matching import name_list
from collector.nccl_settings.model import Checks, Rank, some

# Interfaces that lead to no other host, whatever their address.
HOST_LOCAL = ("lo", "docker", "virbr", "cni", "veth")


def disabled(rank: Rank) -> Checks:
    """RDMA is switched off while the node has a port that is up, and the job other nodes."""
    off = next(
        (
            name
            for name, is_off in (
                ("NCCL_IB_DISABLE", rank.number("NCCL_IB_DISABLE") not in (None, 0)),
                ("NCCL_NET", rank.settings.get("NCCL_NET", "").lower() == "socket"),
            )
            if is_off
        ),
        None,
    )
    if off is None or rank.hosts == 1 or (rank.node is not None and not rank.node.active):
        return
    ports = some(port.name for port in rank.node.active) if rank.node else ""
    has = f"the node has active RDMA ports ({ports})" if ports else "the node's ports are not known"
    yield (
        "slow" if ports else "check",
        f"{rank.shown(off)}: traffic between nodes goes over TCP sockets; {has}",
        f"unset {off}",
    )


def absent(rank: Rank) -> Checks:
    """An entry of NCCL_IB_HCA names no device of the node, or the list takes no active port."""
    node = rank.node
    if node is None or not node.ports or not rank.hcas.entries or not rank.uses_verbs:
        return
    shown = rank.shown("NCCL_IB_HCA")
    idle = rank.hcas.idle((port.device, port.number) for port in node.ports)
    if idle and not rank.hcas.excludes:
        yield "wrong", f"{shown}: no such port on {node.host}: {some(idle)}", _exact(node.active)
    elif not rank.taken and node.active:
        yield "wrong", f"{shown}: takes no active port of {node.host}", _exact(node.active)


def down(rank: Rank) -> Checks:
    """A port that the list takes is not active: NCCL skips it silently."""
    node = rank.node
    if node is None or not rank.hcas.entries or rank.hcas.excludes or not rank.uses_verbs:
        return
    names = [
        port.name
        for port in node.ports
        if not port.active and rank.hcas.takes(port.device, port.number)
    ]
    if names and rank.taken:
        yield (
            "slow",
            (
                f"{rank.shown('NCCL_IB_HCA')}: {some(names)} on {node.host} is not active and is "
                "skipped without a message"
            ),
            "repair the port; tocsin explain latest shows its incident",
        )


def prefix(rank: Rank) -> Checks:
    """An entry that is a complete name takes a second device whose name begins with it."""
    if rank.node is None or rank.hcas.exact or rank.hcas.excludes or not rank.uses_verbs:
        return
    names = {port.device for port in rank.node.active}
    wider = [
        f"{entry.name} also takes {some(others)}"
        for entry in rank.hcas.entries
        if entry.name in names
        and (others := sorted(n for n in names if n != entry.name and n.startswith(entry.name)))
        and not any(one.name in others for one in rank.hcas.entries)
    ]
    if wider:
        value = rank.settings["NCCL_IB_HCA"]
        yield (
            "check",
            f"{rank.shown('NCCL_IB_HCA')}: entries are prefixes: {some(wider)}",
            f"export NCCL_IB_HCA=={value}",
        )


def left_out(rank: Rank) -> Checks:
    """Active ports as fast as those in use are left out: the only ones behind the PCIe switch of a
    GPU of the job, or half of all.
    """
    node = rank.node
    if node is None or not rank.hcas.entries or not rank.taken or not rank.uses_verbs:
        return
    best = max(rank.taken, key=lambda port: port.gigabits)
    equals = [p for p in node.active if (p.gigabits, p.ethernet) == (best.gigabits, best.ethernet)]
    without = [port for port in equals if port not in rank.taken]
    near = [port for port in without if _missed(rank, port)]
    if near or 2 * len(without) >= len(equals) > 1:
        names = some(port.name for port in near or without)
        where = " next to a GPU of this job" if near else f", {len(without)} of {len(equals)}"
        yield (
            "slow" if near else "check",
            (
                f"{rank.shown('NCCL_IB_HCA')}: leaves out active ports of the same speed{where}: "
                f"{names}"
            ),
            _exact(equals),
        )


def mixed_rates(rank: Rank) -> Checks:
    """The list takes ports of different speed or link layer."""
    kinds = {(port.gigabits, port.ethernet) for port in rank.taken if port.gigabits}
    if rank.hcas.entries and rank.uses_verbs and len(kinds) > 1:
        best = max(kinds)
        fast = [p for p in rank.taken if (p.gigabits, p.ethernet) == best]
        listed = some(f"{p.name} {p.gigabits:g} Gb/s" for p in rank.taken)
        yield (
            "slow",
            f"{rank.shown('NCCL_IB_HCA')}: ports of different kind or speed: {listed}",
            _exact(fast),
        )


def interface(rank: Rank) -> Checks:
    """NCCL_SOCKET_IFNAME names no interface that leads to other nodes: NCCL needs one for set-up,
    also where data goes over RDMA.
    """
    text = rank.settings.get("NCCL_SOCKET_IFNAME", "")
    wanted = name_list(text, ports=False)
    known = {} if rank.node is None else {one.name: one.up for one in rank.node.interfaces}
    names = rank.process.interfaces or tuple(known)
    if not wanted.entries or not names:
        return
    shown = rank.shown("NCCL_SOCKET_IFNAME")
    taken = [name for name in names if wanted.takes(name)]
    there = some(name for name in names if not name.startswith(HOST_LOCAL))
    change = f"export NCCL_SOCKET_IFNAME=={there.partition(',')[0]}" if there else "unset it"
    if not taken:
        yield "wrong", f"{shown}: no such interface; there are {there or 'none'}", change
    elif not rank.process.foreign and all(known.get(name) is False for name in taken):
        yield "wrong", f"{shown}: {some(taken)} is down", change
    elif rank.hosts != 1 and all(name.startswith(HOST_LOCAL) for name in taken):
        yield "wrong", f"{shown}: {some(taken)} leads to no other node", change


def numa(rank: Rank) -> Checks:
    """The process may not run on the CPUs next to its GPU."""
    for gpu in rank.own_gpus:
        allowed = rank.process.cpus
        if allowed and gpu.cpus and not allowed & gpu.cpus:
            yield (
                "slow",
                (
                    f"GPU {gpu.index} is on NUMA node {gpu.numa}; the process may run on none of "
                    "its CPUs"
                ),
                "bind ranks to the CPUs of their GPUs (srun --gpu-bind=closest, or no binding)",
            )


def _missed(rank: Rank, port: RdmaPort) -> bool:
    """Whether a GPU has this port behind its switch, and none that is in use."""
    return any(
        _near(gpu, port) and not any(_near(gpu, one) for one in rank.taken) for gpu in rank.own_gpus
    )


def _near(gpu: PciGpu, port: RdmaPort) -> bool:
    return bool(gpu.path and port.path) and within(
        distance(gpu.path, port.path, (gpu.numa, port.numa)), "PXB"
    )


def _exact(ports: Iterable[RdmaPort]) -> str:
    names = ",".join(port.name for port in ports)
    return f"export NCCL_IB_HCA=={names}" if names else "unset NCCL_IB_HCA"
