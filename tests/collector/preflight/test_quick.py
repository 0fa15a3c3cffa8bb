"""Level quick: each check on a machine with one defect, and silence on healthy machines."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from collector.facts.model import Limits, NodeFacts
from collector.facts.node import node_facts
from collector.preflight.model import Machine, Mount, Outcome
from collector.preflight.quick import quick
from tests.collector.facts.tree import Tree
from tests.collector.preflight.machines import changed, idle


@cache
def healthy(profile: str = "hgx-h100") -> Machine:
    """One machine for all cases."""
    return idle(profile)


def with_facts(**facts: object) -> Machine:
    """The healthy machine with some facts of the kernel."""
    return replace(healthy(), facts=replace(NodeFacts("n1"), **facts))  # type: ignore[arg-type]


def roce(root: Path, edit: Callable[[Tree], object]) -> Machine:
    """A node of four RoCE ports."""
    tree = Tree(root, ethernet=True)
    edit(tree)
    return replace(healthy(), facts=node_facts("n1", tree.proc, tree.sysfs))


def without_address(tree: Tree) -> None:
    """A port whose interface lost its IP address."""
    for index in (2, 3):
        (tree.ports("mlx5_2") / f"gids/{index}").unlink()


def gpu(**values: float) -> Machine:
    """GPU 3 with other values."""
    return changed(healthy(), "gpus", 3, **values)


def port(**values: float | None) -> Machine:
    """Port 2 with other values."""
    return changed(healthy(), "ports", 2, **values)


def node(**values: float) -> Machine:
    """Other values of the host."""
    return replace(healthy(), node={**healthy().node, **values})


DEFECTS: tuple[tuple[str, str, Machine], ...] = (
    ("gpu_present", "page", gpu(state=1)),
    ("gpu_present", "page", gpu(state=2)),
    ("gpu_present", "unknown", gpu(state=4)),
    ("gpu_present", "page", node(gpus_expected=8, gpus_visible=7)),
    ("gpu_present", "unknown", replace(healthy(), gpus=())),
    ("recovery_action", "page", gpu(recovery_action=1)),
    ("recovery_action", "page", gpu(recovery_action=99)),
    ("gpu_memory", "page", gpu(row_remap_failed=1)),
    ("gpu_memory", "page", gpu(row_remap_pending=1)),
    ("gpu_memory", "page", gpu(sram_threshold_exceeded=1)),
    ("gpu_memory", "ticket", gpu(ecc_uncorrected_volatile=3)),
    ("gpu_memory", "ticket", gpu(ecc_mode_current=0, ecc_mode_pending=0)),
    ("gpu_memory", "ticket", gpu(inforom_valid=0)),
    ("gpu_memory", "ticket", gpu(memory_total_bytes=7e10)),
    ("gpu_pcie", "page", gpu(pcie_width_current=8)),
    ("gpu_clocks", "page", gpu(clock_event_reasons=0x80)),
    ("gpu_clocks", "ticket", gpu(clock_event_reasons=0x40, gpu_utilization_percent=0)),
    ("gpu_clocks", "ticket", gpu(sm_maximum_clock_megahertz=1410)),
    ("gpu_power_limit", "ticket", gpu(power_limit_enforced_milliwatts=500_000)),
    ("gpu_idle", "ticket", gpu(compute_processes=2)),
    ("gpu_idle", "page", replace(gpu(compute_processes=2), chosen=frozenset("3"))),
    ("gpu_idle", "ticket", gpu(memory_used_bytes=6e10)),
    ("gpu_mode", "ticket", gpu(mig_mode_pending=1)),
    ("gpu_mode", "ticket", gpu(persistence_mode=0)),
    ("gpu_mode", "page", gpu(compute_mode=2)),
    ("nvlink", "page", gpu(nvlinks_up=17, nvlinks_down=1)),
    ("nvlink_fabric", "page", gpu(fabric_state=2)),
    ("nvlink_fabric", "page", gpu(fabric_error_code=13)),
    ("nvlink_fabric", "page", gpu(fabric_health=2)),
    ("nvlink_fabric", "ticket", gpu(fabric_health=3)),
    ("nvlink_fabric", "page", gpu(fabric_clique=7)),
    (
        "nvlink_fabric",
        "page",
        replace(with_facts(nvswitch=True), node={"fabric_manager_running": 0.0}),
    ),
    ("imex", "page", with_facts(imex=False)),
    ("port", "page", port(state=1, expected=1)),
    ("port", "ticket", port(state=1, expected=None)),
    ("port", "unknown", port(state=None, expected=1)),
    ("port", "page", port(rate_bits_per_second=1e11)),
    ("port", "page", port(pcie_width_current=8)),
    ("clock", "ticket", node(clock_synchronised=0)),
    ("clock", "ticket", node(clock_offset_nanoseconds=-3e9)),
    ("memory", "page", node(memory_available_kibibytes=1e6)),
    ("limits", "ticket", replace(healthy(), shm_bytes=1 << 20)),
    ("mount", "page", replace(healthy(), mounts=(Mount("/home", "nfs4", answered=False),))),
    ("source", "unknown", replace(healthy(), failed={"nvml": "no driver"})),
)


def found(machine: Machine) -> list[Outcome]:
    """What did not pass."""
    return quick(machine)


@pytest.mark.parametrize(("check", "severity", "machine"), DEFECTS, ids=range(len(DEFECTS)))
def test_a_defect_is_found_in_its_part(check: str, severity: str, machine: Machine) -> None:
    """One finding, with the part, the fact and what to do; nothing else is accused."""
    outcomes = found(machine)
    assert [(one.check, one.severity) for one in outcomes] == [(check, severity)]
    part = {"gpus": "GPU 3", "ports": "mlx5_2/1"}
    moved = [kind for kind in part if getattr(machine, kind) != getattr(healthy(), kind)]
    if moved and outcomes[0].part != "node":
        assert outcomes[0].part.startswith(part[moved[0]])
    assert outcomes[0].why


@pytest.mark.parametrize("differs", [{"link_layer": "Ethernet"}, {"board_id": "MT_0000000891"}])
def test_a_port_for_storage_is_no_slow_port_of_the_fabric(differs: dict[str, str]) -> None:
    """Ports are compared with those of their board and link layer: one type of adapter serves the
    fabric and, at half the speed and half the lanes, storage.
    """
    machine = changed(
        healthy(), "ports", 2, rate_bits_per_second=2e11, pcie_width_current=8, pcie_width_maximum=8
    )
    storage = machine.ports[2]
    device = storage.device
    other = replace(device, attributes={**device.attributes, **differs})
    ports = (*machine.ports[:2], storage._replace(device=other), *machine.ports[3:])
    assert found(replace(machine, ports=ports)) == []


@pytest.mark.parametrize(
    ("edit", "severity", "words"),
    [
        (without_address, "page", "no routable RoCE v2 address"),
        (lambda tree: tree.write(tree.sysfs / "class/net/eth0/mtu", "1500"), "", ""),
    ],
)
def test_addresses_of_roce_ports_are_compared(
    tmp_path: Path, edit: Callable[[Tree], object], severity: str, words: str
) -> None:
    """One port without an address among those that have one; equal ports are no problem."""
    outcomes = [one for one in found(roce(tmp_path, edit)) if one.check == "roce"]
    assert [one.severity for one in outcomes] == ([severity] if severity else [])
    assert all(words in one.why for one in outcomes)


def test_locked_memory_counts_where_ports_are_used(tmp_path: Path) -> None:
    """As slurmd gives it to jobs."""
    limited = replace(roce(tmp_path, lambda tree: None), limits=Limits(known=True, memlock=65536))
    assert [one.check for one in found(limited)] == ["limits"]
    assert found(replace(healthy(), limits=Limits(known=True, memlock=65536))) == []


def test_slots_that_are_wired_narrow_do_not_refuse_every_job() -> None:
    """All GPUs alike at x8 of x16 are a ticket each; one among wide ones is a page."""
    machine = healthy()
    for index in range(len(machine.gpus)):
        machine = changed(machine, "gpus", index, pcie_width_current=8)
    assert {one.severity for one in found(machine)} == {"ticket"}


CALM: dict[str, tuple[float, ...]] = {
    "pcie_generation_current": (1, 2, 4, 5),
    "temperature_celsius": (22, 35, 48),
    "clock_event_reasons": (0, 1, 2, 4, 16),
    "ecc_corrected_volatile": (0, 1, 50),
    "ecc_uncorrected_aggregate": (0, 2),
    "remapped_rows_correctable": (0, 4),
    "remapped_rows_uncorrectable": (0, 1),
    "memory_used_bytes": (0, 6e8, 1.9e9),
    "performance_state": (0, 8),
    "gpu_utilization_percent": (0, 3),
    "power_milliwatts": (60_000, 120_000),
}


def varied(machine: Machine, rng: random.Random) -> Machine:
    """The same node at another start: other idle readings, other GPUs asked for, values that
    older hardware or drivers do not have, other jobs on other GPUs.
    """
    for index in range(len(machine.gpus)):
        calm = {name: rng.choice(values) for name, values in CALM.items()}
        machine = changed(machine, "gpus", index, **calm)
    lost = rng.sample(sorted(machine.gpus[0].values), 40)
    for index in range(len(machine.gpus)):
        machine = changed(machine, "gpus", index, **dict.fromkeys(lost))
    chosen = rng.sample(range(8), rng.randint(1, 8))
    for index in set(range(8)) - set(chosen):
        machine = changed(machine, "gpus", index, compute_processes=1, memory_used_bytes=7e10)
    return replace(machine, chosen=frozenset(map(str, chosen)))


@pytest.mark.slow
def test_a_thousand_healthy_starts_are_not_refused() -> None:
    """Four nodes of two generations, each at 250 different starts: no page at all."""
    rng, refused = random.Random(22), []
    for profile, seed in (("hgx-h100", 5), ("hgx-h100", 6), ("hgx-a100", 7), ("hgx-a100", 8)):
        machine = idle(profile, seed)
        for _ in range(250):
            outcomes = quick(varied(machine, rng))
            refused += [one for one in outcomes if one.severity == "page"]
    assert refused == []


def test_a_number_that_may_mean_another_gpu_refuses_no_job() -> None:
    """Slurm's list has MIG instances too, or the order of the device files: GPU 3 may be another
    job's.
    """
    busy = replace(gpu(compute_processes=2), chosen=frozenset("3"))
    rows = list(busy.gpus)
    moved = {**rows[3].device.attributes, "minor_number": "0"}
    rows[3] = rows[3]._replace(device=replace(rows[3].device, attributes=moved))
    for machine in (changed(busy, "gpus", 0, mig_mode_current=1), replace(busy, gpus=tuple(rows))):
        found = [one.severity for one in quick(machine) if one.check == "gpu_idle"]
        assert found == ["ticket"]


def test_an_instance_of_another_job_on_a_divided_gpu_is_no_finding() -> None:
    """The driver counts the processes of all instances for their GPU."""
    machine = replace(gpu(compute_processes=2, mig_mode_current=1), chosen=frozenset("3"))
    assert [one for one in quick(machine) if one.check == "gpu_idle"] == []
