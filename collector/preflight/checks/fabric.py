"""Checks of NVLink, RDMA ports and the ways from GPUs to adapters."""

from __future__ import annotations

from collections.abc import Iterator

from collector.facts.affinity import distance, within
from collector.preflight.model import Machine, Outcome, Row, Severity, usual

ACTIVE = 4
NOT_STARTED, IN_PROGRESS = 1, 2  # nvmlGpuFabricState_t
UNHEALTHY, LIMITED = 2, 3  # health summary of nvmlGpuFabricInfoV_t
FULL_MTU = 4200  # of a net device whose RoCE MTU is 4096 (docs of the mlx5 driver)


def nvlink(machine: Machine) -> Iterator[Outcome]:
    """As many NVLinks up as the peers have."""
    peers = usual(machine.gpus, "nvlinks_up")
    for row in machine.gpus:
        up, down = row.get("nvlinks_up"), row.get("nvlinks_down") or 0
        if up is None or not (up or peers[row.model]):
            continue
        if up < peers[row.model] or (down and len(machine.gpus) == 1):
            why = f"{up:.0f} NVLinks are up, {max(down, peers[row.model] - up):.0f} are down"
            yield Outcome("nvlink", "page", row.name, why, "reset all GPUs; then reseat")


def registered(machine: Machine) -> Iterator[Outcome]:
    """Registered with the NVLink fabric, healthy, all in one clique."""
    todo = "restart nvidia-fabricmanager, then reset the GPU"
    for row in machine.gpus:
        state, health = row.get("fabric_state"), row.get("fabric_health")
        if state in (NOT_STARTED, IN_PROGRESS):
            yield Outcome("nvlink_fabric", "page", row.name, "is not registered", todo)
        elif row.get("fabric_error_code"):
            why = f"registration failed with error {row.values['fabric_error_code']:.0f}"
            yield Outcome("nvlink_fabric", "page", row.name, why, todo)
        elif health == UNHEALTHY:
            yield Outcome("nvlink_fabric", "page", row.name, "NVLink is unhealthy", todo)
        elif health == LIMITED:
            why = "NVLink has limited capacity"
            yield Outcome("nvlink_fabric", "ticket", row.name, why, "check switch trays and links")
    if (
        len(
            cliques := {
                row.values["fabric_clique"] for row in machine.gpus if "fabric_clique" in row.values
            }
        )
        > 1
    ):
        yield Outcome("nvlink_fabric", "page", "node", f"GPUs are in {len(cliques)} cliques", todo)
    if machine.facts.nvswitch and machine.node.get("fabric_manager_running") == 0:
        yield Outcome("nvlink_fabric", "page", "node", "Fabric Manager does not run", todo)
    if machine.facts.imex is False:
        yield Outcome("imex", "page", "node", "IMEX does not run", "systemctl start nvidia-imex")


def ports(machine: Machine) -> Iterator[Outcome]:
    """Ports are up, as fast as their peers, with the full width of their PCIe link."""
    rates = usual((row for row in machine.ports if _is_up(row)), "rate_bits_per_second")
    widths = usual(machine.ports, "pcie_width_current")
    for row in machine.ports:
        if not _is_up(row):
            if row.get("state") is None:  # a pod or virtual machine has it, or it was not read
                if row.get("expected"):
                    yield Outcome("port", "unknown", row.name, "cannot be read")
            elif row.get("expected"):
                yield Outcome("port", "page", row.name, "is down", "check cable and switch port")
            elif row.model in rates:
                yield Outcome(
                    "port", "ticket", row.name, "is down, its peers are up", "check the cable"
                )
            continue
        rate = row.get("rate_bits_per_second")
        if rate is not None and rate < rates[row.model]:
            why = f"{rate / 1e9:g} Gb/s, its peers {rates[row.model] / 1e9:g}"
            yield Outcome("port", "page", row.name, why, "clean or replace the cable")
        width, best = row.get("pcie_width_current"), row.get("pcie_width_maximum")
        if width and best and width < best:
            why = f"PCIe x{width:.0f} of x{best:.0f}"
            alike = width >= widths[row.model] and len(machine.ports) > 1
            yield Outcome(
                "port", "ticket" if alike else "page", row.name, why, "reseat the adapter"
            )


def ethernet(machine: Machine) -> Iterator[Outcome]:
    """RoCE: a routable RoCE v2 address on each port, one MTU on all."""
    roce = [port for port in machine.facts.active if port.ethernet]
    fastest = max((port.gigabits for port in roce), default=0.0)
    data = [port for port in roce if port.gigabits == fastest and any(p.gids for p in roce)]
    for port in data:
        if not any(gid.routable for gid in port.gids):
            why = "has no routable RoCE v2 address"
            severity: Severity = (
                "page" if any(g.routable for p in data for g in p.gids) else "ticket"
            )
            yield Outcome("roce", severity, port.name, why, "give its interface an IP address")
    mtus = {port.mtu for port in data if port.mtu}
    for port in data:
        if port.mtu and port.mtu < max(mtus):
            why = f"MTU {port.mtu}, its peers {max(mtus)}"
            yield Outcome(
                "roce", "ticket", port.name, why, f"ip link set {port.interface} mtu {max(mtus)}"
            )


def gpudirect(machine: Machine) -> Iterator[Outcome]:
    """Adapters reach GPU memory, over a short way."""
    facts = machine.facts
    if facts.active and facts.gpus and facts.gpudirect is False:
        why = "neither nvidia_peermem nor dma-buf"
        yield Outcome("gpudirect", "ticket", "node", why, "modprobe nvidia_peermem")
    if facts.acs and facts.virtual is False and len(facts.gpus) > 1:
        why = f"PCIe access control services are on ({', '.join(facts.acs[:4])})"
        yield Outcome("gpudirect", "ticket", "node", why, "disable ACS in the firmware")
    near = {
        gpu.index: any(
            within(distance(gpu.path, port.path, (gpu.numa, port.numa)), "PXB")
            for port in facts.ports
        )
        for gpu in facts.gpus
    }
    if any(near.values()):  # a board on which each GPU has an adapter behind its switch
        for index in sorted(index for index, has in near.items() if not has):
            why = "no adapter behind its PCIe switch, as the other GPUs have"
            yield Outcome("affinity", "ticket", f"GPU {index}", why, "compare nvidia-smi topo -m")


def _is_up(row: Row) -> bool:
    return row.get("state") == ACTIVE
