"""Checks of GPUs: presence, memory, link, power, what is left over of the job before."""

from __future__ import annotations

from collections.abc import Iterator

from collector.preflight.model import Machine, Outcome, Row, usual
from collector.sources.nvml.states import NAMES

# Recovery actions of NVML (nvmlDeviceGetFieldValues, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION).
RECOVERY = {
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain peer-to-peer traffic, then ask again",
    4: "drain the node and reset the GPU",
    5: "recover the IMEX domain",
}
RESET = "reset the GPU, or reboot the node"
IDLE = "end what runs there (nvidia-smi shows the processes), or reset the GPU"
SERVICE = "contact the vendor with tocsin explain and nvidia-bug-report.sh"
FLAGS = (
    ("row_remap_failed", "a row remap failed", "replace the GPU"),
    ("row_remap_pending", "a row remap is pending", RESET),
    ("retired_pages_pending", "a page is to be retired", RESET),
    (
        "sram_threshold_exceeded",
        "uncorrectable SRAM errors beyond the threshold",
        "run the field diagnostic",
    ),
    ("memory_unrepairable", "memory cannot be repaired", "replace the GPU"),
    ("reset_required", "the driver asks for a reset", RESET),
    ("drain_and_reset_required", "the driver asks for drain and reset", RESET),
)
# Bits of clock event reasons (nvml.h, nvmlClocksEventReason*) that no idle GPU has.
HOT, BRAKE, SLOWED = 0x20 | 0x40, 0x80, 0x08
MAX_IDLE_BYTES = 2 << 30  # contexts of MPS and of monitoring stay below


def present(machine: Machine) -> Iterator[Outcome]:
    """Every GPU that this node should have answers."""
    for row in machine.gpus:
        state = NAMES[int(row.values["state"])] if "state" in row.values else "unreadable"
        if state in ("lost", "hung", "absent"):
            yield Outcome("gpu_present", "page", row.name, f"is {state}", RESET)
        elif state == "unreadable":
            yield Outcome("gpu_present", "unknown", row.name, "cannot be read")
    expected, visible = machine.node.get("gpus_expected"), machine.node.get("gpus_visible")
    if expected and visible is not None and visible < expected and not _missing(machine):
        why = f"{visible:.0f} of {expected:.0f} GPUs are visible"
        yield Outcome("gpu_present", "page", "node", why, RESET)
    elif not machine.gpus and "nvml" not in machine.failed:
        why = "no GPU is visible, and none is known"
        yield Outcome("gpu_present", "unknown", "node", why)


def recovery(machine: Machine) -> Iterator[Outcome]:
    """The driver asks for no recovery action."""
    for row in machine.gpus:
        action = int(row.get("recovery_action") or 0)
        if action:
            todo = RECOVERY.get(action, "ask an expert: this driver's meaning is not known")
            yield Outcome(
                "recovery_action", "page", row.name, f"the driver asks for action {action}", todo
            )


def memory_health(machine: Machine) -> Iterator[Outcome]:
    """Row remaps, uncorrectable errors of this boot, SRAM threshold, ECC switched off."""
    for row in machine.gpus:
        for name, why, action in FLAGS:
            yield from _flag(row, name, why, action)
        if errors := int(row.get("ecc_uncorrected_volatile") or 0):
            why = f"{errors} uncorrectable memory errors since the driver was loaded"
            yield Outcome("gpu_memory", "ticket", row.name, why, RESET)
        if row.get("ecc_mode_current") == 0 and usual(machine.gpus, "ecc_mode_current").get(
            row.model
        ):
            yield Outcome("gpu_memory", "ticket", row.name, "ECC is off", "nvidia-smi -e 1, reboot")
        if row.get("inforom_valid") == 0:
            yield Outcome("gpu_memory", "ticket", row.name, "the InfoROM is corrupt", SERVICE)


def size(machine: Machine) -> Iterator[Outcome]:
    """As much memory as its peers."""
    peers = usual(machine.gpus, "memory_total_bytes")
    for row in machine.gpus:
        total = row.get("memory_total_bytes")
        if total is not None and total < 0.99 * peers[row.model]:
            why = f"has {total / 2**30:.1f} GiB, its peers {peers[row.model] / 2**30:.1f}"
            yield Outcome("gpu_memory", "ticket", row.name, why, SERVICE)


def pcie(machine: Machine) -> Iterator[Outcome]:
    """The width of the PCIe link: the speed drops at idle, the width does not."""
    peers = usual(machine.gpus, "pcie_width_current")
    for row in machine.gpus:
        width, best = row.get("pcie_width_current"), row.get("pcie_width_maximum")
        if width is None or not best or width >= best:
            continue
        alike = width >= peers[row.model]  # so the slots are wired, or all are broken
        why = f"PCIe x{width:.0f} of x{best:.0f}"
        yield Outcome(
            "gpu_pcie",
            "ticket" if alike and len(machine.gpus) > 1 else "page",
            row.name,
            why,
            "reseat the GPU or its riser; power-cycle the node",
        )


def clocks(machine: Machine) -> Iterator[Outcome]:
    """No brake or heat at idle; power limit and clocks as those of the peers."""
    for row in machine.gpus:
        reasons = int(row.get("clock_event_reasons") or 0)
        idle = not (row.get("gpu_utilization_percent") or 0)
        if reasons & BRAKE:
            yield Outcome("gpu_clocks", "page", row.name, "power brake", "check power supplies")
        elif idle and reasons & (HOT | SLOWED):
            yield Outcome("gpu_clocks", "ticket", row.name, "slowed at idle", "check the cooling")
        limit, default = (
            row.get(f"power_limit_{which}_milliwatts") for which in ("enforced", "default")
        )
        if limit is not None and default is not None and limit < 0.99 * default:
            why = f"power limit {limit / 1000:.0f} W, default {default / 1000:.0f} W"
            yield Outcome(
                "gpu_power_limit", "ticket", row.name, why, "nvidia-smi -pl, or ask who set it"
            )
    yield from _unlike_peers(machine, "sm_application_clock_megahertz", "application clock", "MHz")
    yield from _unlike_peers(machine, "sm_maximum_clock_megahertz", "highest clock", "MHz")


def left_over(machine: Machine) -> Iterator[Outcome]:
    """No process and little memory in use on the GPUs of the job; where it is not known which these
    are, GPUs in use are one ticket. One that is divided is there to be shared.
    """
    used = [row for row in machine.of_job() if _in_use(row) and not row.is_divided]
    if not machine.job_is_known and used:
        names = ", ".join(row.device.attributes.get("index", "?") for row in used)
        yield Outcome("gpu_idle", "ticket", "node", f"GPUs {names} are in use", IDLE)
        return
    for row in used:
        yield Outcome("gpu_idle", "page", row.name, _in_use(row), IDLE)


def _in_use(row: Row) -> str:
    processes, used = row.get("compute_processes"), row.get("memory_used_bytes")
    if processes:
        return f"{processes:.0f} process{'es' if processes > 1 else ''} of another job on it"
    if processes == 0 and used is not None and used > MAX_IDLE_BYTES:
        return f"{used / 2**30:.1f} GiB are in use without a process"
    return ""


def mode(machine: Machine) -> Iterator[Outcome]:
    """Settings that take effect with the next reset, persistence, compute mode."""
    for row in machine.gpus:
        for name, words in (("mig_mode", "MIG"), ("ecc_mode", "ECC")):
            now, then = row.get(f"{name}_current"), row.get(f"{name}_pending")
            if now is not None and then is not None and now != then:
                yield Outcome(
                    "gpu_mode", "ticket", row.name, f"{words} changes with a reset", RESET
                )
        if row.get("persistence_mode") == 0:
            yield Outcome(
                "gpu_mode",
                "ticket",
                row.name,
                "persistence mode is off",
                "systemctl enable --now nvidia-persistenced",
            )
        if row.get("compute_mode") == 2:  # prohibited
            yield Outcome("gpu_mode", "page", row.name, "compute is prohibited", "nvidia-smi -c 0")


def _missing(machine: Machine) -> bool:
    return any(row.values.get("state", 0) for row in machine.gpus)


def _flag(row: Row, name: str, why: str, action: str) -> Iterator[Outcome]:
    if row.get(name):
        yield Outcome("gpu_memory", "page", row.name, why, action)


def _unlike_peers(machine: Machine, name: str, words: str, unit: str) -> Iterator[Outcome]:
    peers = usual(machine.gpus, name)
    for row in machine.gpus:
        value = row.get(name)
        if value is not None and value < peers[row.model]:
            why = f"{words} {value:.0f} {unit}, its peers {peers[row.model]:.0f} {unit}"
            yield Outcome("gpu_clocks", "ticket", row.name, why, "nvidia-smi -rac")
