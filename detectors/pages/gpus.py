"""Pages of the detectors that look at GPUs one by one: availability, memory, XIDs, heat, power, PCIe, NVLink."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from detectors.availability import NO_DRIVER, RULES, Rule
from detectors.drift import COMPARED
from detectors.outlier.detector import QUANTITIES, Quantity
from detectors.pages.page import Default, Page, Shown
from detectors.throttle import REASONS, Reason

NVML = "NVIDIA, nvml.h (NVML API reference)"
XIDS = "NVIDIA, XID Errors, docs.nvidia.com/deploy/xid-errors"
MEMORY = "NVIDIA, GPU Memory Error Management, docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt"
PAGE_1954 = "E. S. Page, Continuous inspection schemes, Biometrika 41 (1954)"
SILICON = "P. Sinha et al., Not All GPUs Are Created Equal, SC'22"


def _gpu(*columns: str) -> tuple[Shown, ...]:
    return tuple(Shown("gpu", column) for column in columns)


def _state(name: str, rule: Rule) -> Default:
    return Default(name, f"{rule.after_s:g} s", f"{rule.severity}: {rule.summary}")


def _throttling(reason: Reason) -> Default:
    value = f"{100 * reason.limit:g} % of the time in {reason.blocks} of 3 minutes"
    page = f"a page above {100 * reason.page:g} %" if isfinite(reason.page) else "a ticket at most, smoothed"
    return Default(reason.name, value, f"{page}; {'under load' if reason.needs_load else 'idle GPUs too'}")


def _quantity(quantity: Quantity) -> Default:
    value = f"{100 * quantity.unit:g} %" if quantity.log else f"{quantity.unit:g}"
    return Default(quantity.words, value, f"a difference that matters{'' if quantity.log else ', in its own unit'}")


PAGES: Mapping[str, Page] = {
    "availability": Page(
        "state in {lost, hung, absent, unreadable} for longer than the state's own limit",
        (f"{NVML}: NVML_ERROR_GPU_IS_LOST",),
        _gpu("state", "power_milliwatts"),
        "Look for XID 79, 119 or 154 of the same GPU; drain the node, restart it, and if the GPU stays away reseat or replace it.",
        "At the first reading of another state: well, or another of these, which is told by itself.",
        ("xid",),
        limits=tuple(_state(*rule) for rule in (*RULES.items(), ("unreadable, all of a node", NO_DRIVER))),
    ),
    "frozen": Page(
        "energy counter of every GPU unchanged for n polls; or no reading for a run of misses with share^n < 1e-7",
        (f"{NVML}: nvmlDeviceGetTotalEnergyConsumption",),
        _gpu("energy_millijoules", "power_milliwatts"),
        "Restart whatever reads the GPUs on this node; believe nothing else that is said of it meanwhile.",
        "After three polls in a row that moved or were read, or when the node is taken into maintenance.",
        ("observability",),
    ),
    "xid": Page(
        "severity = table(code, sub-code, registers), raised by burst, repetition (GPU, code) and XID 154",
        (XIDS, "NVIDIA NVSentinel, github.com/NVIDIA/NVSentinel"),
        _gpu("recovery_action", "sm_clock_megahertz"),
        "Do what the finding's action says; it is the driver's own where XID 154 named one.",
        "Ten minutes after a reset, driver load or boot since which the code stayed away (three hours where it came too "
        "often before), or after a day without it; what a GPU alone repeats after that day only, programs that failed and "
        "records after an hour. Never while the driver asks for recovery or the GPU does not answer. A node that was put "
        "right too often: when a week had fewer remedies.",
        ("xid",),
    ),
    "ecc": Page(
        "facts: flag = 1 or increment > 0; trend: S <- max(0, S + ln(p1/p0)) per hour with errors, "
        "S <- max(0, S + ln((1-p1)/(1-p0))) without, told at S > h",
        (MEMORY, XIDS, PAGE_1954),
        _gpu("ecc_corrected_aggregate", "ecc_uncorrected_volatile", "row_remap_pending", "row_remap_banks_none"),
        "A pending remap wants a reset; a failed remap, or no spare row left, wants the GPU replaced (RMA).",
        "Facts: after ten readings in a row without. Uncorrectable errors: at the next reset, driver load or boot, or after a day "
        "without another. Correctable ones: after a week of observed hours without any.",
        ("ecc",),
    ),
    "thermal_resistance": Page(
        "T = T0 + R P by exponentially weighted least squares; residual r = T - T0 - R P, less the median of the neighbours; r > 3 K",
        ("JEDEC, JESD51: thermal resistance",),
        _gpu("temperature_celsius", "power_milliwatts"),
        "Check fan, cold plate and paste of this GPU at the next service; compare with its neighbours under load.",
        "After five quarters of an hour in a row below half of the limit; after a week at the new level, which is normal then.",
        ("thermal",),
    ),
    "thermal_imminent": Page(
        "Tinf = T + tau dT/dt; t* = tau ln((Tinf - T) / (Tinf - limit)) < 120 s",
        (f"{NVML}: NVML_TEMPERATURE_THRESHOLD_SLOWDOWN", "first-order thermal RC model"),
        _gpu("temperature_margin_celsius", "temperature_celsius", "power_milliwatts"),
        "Take load away now, or lower the power limit; then look at fans and coolant.",
        "After two minutes in which the temperature was not bound for the limit.",
        ("thermal",),
    ),
    "thermal_rack": Page(
        "median over the rack of u = T - R P, less the median of all racks: du/dt > 0.3 K/min for 2 min, or u - u_usual > 5 K for 5 min",
        ("JEDEC, JESD51: thermal resistance; the limits are this project's own",),
        _gpu("temperature_celsius", "power_milliwatts"),
        "Call facilities about air or coolant of this rack before its GPUs throttle.",
        "After ten minutes in a row below half of both limits; after two days at the new level, which is normal then.",
        ("thermal",),
    ),
    "throttle": Page(
        "duty = d(violation ns) / dt per minute and reason; told at duty > 1 %, paged at duty > 10 %, in 2 of 3 minutes",
        (f"{NVML}: nvmlClocksEventReasons, NVML_PERF_POLICY_*",),
        _gpu("throttled_hw_thermal_nanoseconds", "throttled_hw_power_brake_nanoseconds", "sm_clock_megahertz"),
        "Heat: cooling of what is named. Power brake: the power supply of the node or rack.",
        "After five judged minutes in a row at half of the limit or below, on all GPUs of what is named; a GPU that idles "
        "for a day, or for five minutes in a new life (reset, driver load, boot), counts as below.",
        ("throttle",),
        limits=tuple(_throttling(reason) for reason in REASONS),
    ),
    "power": Page(
        "ln P = c + a ln f + b tensor + g dram (weighted least squares over the model); residual below peers and own past by 10 %",
        (SILICON, "P. H. Hochschild et al., Cores that don't count, HotOS'21"),
        _gpu("power_milliwatts", "energy_millijoules", "sm_clock_megahertz"),
        "Run the vendor's diagnosis on this GPU, with results checked: it may compute less, or wrongly.",
        "After five blocks in a row within half of the limit; after a day of work at the new level, which is normal then.",
        ("power",),
    ),
    "power_cap": Page(
        "logit(duty of the software power cap) - median of the peers > 1.5, and clock 2 % below theirs, at the default limit",
        (f"{NVML}: nvmlClocksEventReasonSwPowerCap", SILICON),
        _gpu("power_milliwatts", "sm_clock_megahertz", "power_limit_enforced_milliwatts"),
        "Compare efficiency with its node mates under one load; replace it if the job is held up by it.",
        "After five judged minutes in a row without.",
        ("throttle",),
    ),
    "power_limit": Page(
        "enforced limit < expected limit - 1 W, for 3 minutes",
        (f"{NVML}: nvmlDeviceGetEnforcedPowerLimit, NVML_FI_DEV_POWER_CURRENT_LIMIT",),
        _gpu("power_limit_enforced_milliwatts", "power_limit_default_milliwatts"),
        "Set the limit right (nvidia-smi -pl), or look at the board controller and the power supplies that lowered it.",
        "After five readings in a row, a minute apart, at what is expected; a node when no GPU of it is below. A policy, "
        "when no GPU of the node is held below its default, or what is declared, any more.",
        ("power-limit",),
    ),
    "pcie": Page(
        "width or generation under load below min(GPU, slot), of an adapter below min(slot, what it or the median of its node had); replays: Bernoulli CUSUM, S <- max(0, S + step), S > 15",
        ("PCI-SIG, PCI Express Base Specification: bit error rate 1e-12", PAGE_1954),
        (*_gpu("pcie_width_current", "pcie_generation_current", "pcie_replays"), Shown("ib_port", "pcie_width_current")),
        "Drain, reset, and if it comes back reseat the GPU or its riser; then replace.",
        "Lanes and generation: after five minutes at the full value, the generation under load or at rest since a new life; of an "
        "adapter also after a week at less, unless the others have more. "
        "Replays: after 120 such minutes within what is allowed. Fatal errors: at the next reset, driver load or boot, or "
        "after a day without another.",
        ("pcie",),
    ),
    "nvlink": Page(
        "a link down for 3 readings and 30 s; none of a node up 5 minutes after a boot or driver load; replays or recoveries in more than "
        "15 of 30 minutes; CRC errors > 100/s; BER > 1e-12",
        ("NVIDIA DCGM, dcgm_structs.h: DCGM_LIMIT_MAX_NVLINK_CRC_ERROR", "NVIDIA Resiliency Extension, NVLink health check"),
        (*_gpu("nvlinks_down", "nvlink_replay_errors", "nvlink_crc_flit_errors"), Shown("nvlink", "state")),
        "Reset the GPUs of the node together; a link that stays down wants the baseboard or GPU replaced.",
        "A link that was down: at the first reading with all expected links up. None up: with the first that is. The others: after "
        "five minutes in a row without a replay, and with CRC and bit errors within their limits.",
        ("nvlink",),
    ),
    "outlier": Page(
        "d2 = (x - m)' S^-1 (x - m), S = (1 - g) C + g mu I; 5 of 6 minutes beyond the empirical 1e-5 tail",
        ("O. Ledoit, M. Wolf, A well-conditioned estimator for large-dimensional covariance matrices, JMVA 88 (2004)",),
        _gpu("power_milliwatts", "temperature_celsius", "sm_clock_megahertz"),
        "Read which quantities are odd; it is a hint, for whoever looks at this GPU for another reason.",
        "After five judged minutes in a row within the limit.",
        unscored="it names no class of fault and only records; whoever loses a tenth of its clock (F16) is the straggler detector's.",
        limits=tuple(_quantity(quantity) for quantity in QUANTITIES),
    ),
    "drift": Page(
        "fact of a device != declared value for 1 h, or != the value of 80 % of its model for 24 h",
        ("IBTA, InfiniBand Architecture Specification volume 1, 4.1.1 (GID)",),
        _gpu("ecc_mode_current", "persistence_mode"),
        "Bring the node to the fleet's version or setting at its next drain. What it should be can be declared: `detectors.drift.declared`.",
        "At the next comparison, ten minutes later at most, that finds the value as it should be.",
        unscored=(
            "no scenario has a node with another version or setting. What is declared is a fact, and a majority is counted: "
            "there is no threshold to trade."
        ),
        limits=(Default("compared", ", ".join(COMPARED), "what; the power limit only with what is declared"),),
    ),
    "waste": Page(
        "memory in use > 1 GiB without a process for 10 min; utilisation <= 1 % for 2 h in a job",
        (f"{NVML}: nvmlDeviceGetMemoryInfo, nvmlDeviceGetComputeRunningProcesses",),
        _gpu("memory_used_bytes", "compute_processes", "gpu_utilization_percent"),
        "Orphaned memory: reset the GPU between jobs. Idle: ask the owner of the job.",
        "After a minute in which the memory has a process or is free, or in which the GPU works or nobody holds it.",
        unscored="no scenario is about GPUs that nobody uses, as nothing is broken there.",
    ),
}
