"""Which reading answers which question to NVML, and as which type (nvmlValueType_t
where it is a field value).

Questions are spelt as in the catalogue's ``read``. Types follow nvml.h and what drivers answer:
most counts are unsigned long long, power, temperatures and flags unsigned int, T.Limit margins
signed int.
"""

from __future__ import annotations

from collections.abc import Mapping

from simulator.nvml_state import DOUBLE, INT, ULONGLONG, UNSIGNED
from simulator.profile import Profile

Answer = tuple[str, int]  # name of the reading, value type

# Effective megabytes per second of a link, as `nvidia-smi nvlink --status` prints them (in
# GB/s: 25, 26.562, 53.125).
LINK_SPEED = {3: 25000, 4: 26562, 5: 53125}

_ALL = 4294967295  # UINT_MAX as scope: all links (nvml.h)


def _rows(kind: int, **readings: str) -> dict[str, Answer]:
    """``reading="question | question"`` as rows."""
    return {
        question.strip(): (name, kind)
        for name, questions in readings.items()
        for question in questions.split("|")
    }


_UNSIGNED = _rows(
    UNSIGNED,
    temperature="nvmlDeviceGetTemperature(0)",
    memory_temperature="field 82",
    power_mw="nvmlDeviceGetPowerUsage() | field 185",
    power_instant_mw="field 186",
    limit_mw="nvmlDeviceGetEnforcedPowerLimit() | field 190",
    sm_clock="nvmlDeviceGetClockInfo(0) | nvmlDeviceGetClockInfo(1)",
    memory_clock="nvmlDeviceGetClockInfo(2)",
    video_clock="nvmlDeviceGetClockInfo(3)",
    gpu_utilization="nvmlDeviceGetUtilizationRates().gpu",
    memory_utilization="nvmlDeviceGetUtilizationRates().memory",
    processes=(
        "nvmlDeviceGetComputeRunningProcesses_v3().length | "
        "nvmlDeviceGetComputeRunningProcesses_v2().length"
    ),
    pid=(
        "nvmlDeviceGetComputeRunningProcesses_v3()[0].pid | "
        "nvmlDeviceGetComputeRunningProcesses_v2()[0].pid"
    ),
    remapped_correctable="field 142 | nvmlDeviceGetRemappedRows()[0]",
    remapped_uncorrectable="field 143 | nvmlDeviceGetRemappedRows()[1]",
    remap_pending="field 144 | nvmlDeviceGetRemappedRows()[2]",
    remap_failed="field 145 | nvmlDeviceGetRemappedRows()[3]",
    banks_max="nvmlDeviceGetRowRemapperHistogram().max",
    banks_high="nvmlDeviceGetRowRemapperHistogram().high",
    banks_partial="nvmlDeviceGetRowRemapperHistogram().partial",
    banks_low="nvmlDeviceGetRowRemapperHistogram().low",
    banks_none="nvmlDeviceGetRowRemapperHistogram().none",
    sram_threshold="nvmlDeviceGetSramEccErrorStatus().bThresholdExceeded",
    recovery_action="field 230",
    fabric_state="nvmlDeviceGetGpuFabricInfoV().state",
    fabric_status="nvmlDeviceGetGpuFabricInfoV().status",
    fabric_mask="nvmlDeviceGetGpuFabricInfoV().healthMask",
    fabric_health="nvmlDeviceGetGpuFabricInfoV().healthSummary",
    pcie_generation="nvmlDeviceGetCurrPcieLinkGeneration()",
    pcie_width="nvmlDeviceGetCurrPcieLinkWidth()",
    pcie_replays="field 94 | nvmlDeviceGetPcieReplayCounter() | field 173",
    pcie_sent_rate_kb="nvmlDeviceGetPcieThroughput(0)",
    pcie_received_rate_kb="nvmlDeviceGetPcieThroughput(1)",
    zero="field 95 | field 169 | " + " | ".join(f"field {n}" for n in range(174, 184)),
)

_LONG = _rows(
    ULONGLONG,
    energy_mj="field 83 | nvmlDeviceGetTotalEnergyConsumption()",
    reasons=(
        "nvmlDeviceGetCurrentClocksEventReasons() | nvmlDeviceGetCurrentClocksThrottleReasons()"
    ),
    power_cap_ns="field 74",
    thermal_ns="field 75",
    sw_thermal_ns="field 269",
    hw_thermal_ns="field 270",
    brake_ns="field 271",
    memory_used="nvmlDeviceGetMemoryInfo(33554472).used | nvmlDeviceGetMemoryInfo().used",
    memory_free="nvmlDeviceGetMemoryInfo(33554472).free | nvmlDeviceGetMemoryInfo().free",
    bar1_used="nvmlDeviceGetBAR1MemoryInfo().bar1Used",
    bar1_free="nvmlDeviceGetBAR1MemoryInfo().bar1Free",
    ecc_corrected_volatile="field 3 | nvmlDeviceGetTotalEccErrors(0, 0)",
    ecc_uncorrected_volatile="field 4 | nvmlDeviceGetTotalEccErrors(1, 0)",
    ecc_corrected_aggregate="field 5 | nvmlDeviceGetTotalEccErrors(0, 1)",
    ecc_uncorrected_aggregate="field 6 | nvmlDeviceGetTotalEccErrors(1, 1)",
    dram_corrected_volatile="field 11 | nvmlDeviceGetMemoryErrorCounter(0, 0, 2)",
    dram_uncorrected_volatile="field 12 | nvmlDeviceGetMemoryErrorCounter(1, 0, 2)",
    dram_corrected_aggregate="field 22 | nvmlDeviceGetMemoryErrorCounter(0, 1, 2)",
    dram_uncorrected_aggregate="field 23 | nvmlDeviceGetMemoryErrorCounter(1, 1, 2)",
    sram_corrected_volatile=(
        "nvmlDeviceGetMemoryErrorCounter(0, 0, 7) | nvmlDeviceGetSramEccErrorStatus().volatileCor"
    ),
    sram_uncorrected_volatile=(
        "nvmlDeviceGetMemoryErrorCounter(1, 0, 7) | "
        "nvmlDeviceGetSramEccErrorStatus().volatileUncParity"
    ),
    sram_corrected_aggregate=(
        "nvmlDeviceGetMemoryErrorCounter(0, 1, 7) | nvmlDeviceGetSramEccErrorStatus().aggregateCor"
    ),
    sram_uncorrected_aggregate=(
        "nvmlDeviceGetMemoryErrorCounter(1, 1, 7) | "
        "nvmlDeviceGetSramEccErrorStatus().aggregateUncParity | "
        "nvmlDeviceGetSramEccErrorStatus().aggregateUncBucketL2"
    ),
    pcie_sent="field 197",
    pcie_received="field 198",
    zero=" | ".join(f"field {n}" for n in range(76, 82))
    + "".join(
        f" | nvmlDeviceGetSramEccErrorStatus().{member}"
        for member in (
            "aggregateUncSecDed",
            "volatileUncSecDed",
            "aggregateUncBucketSm",
            "aggregateUncBucketPcie",
            "aggregateUncBucketMcu",
            "aggregateUncBucketOther",
        )
    ),
)

_PERCENT = _rows(
    DOUBLE,
    graphics_active="gpm 1",
    sm_active="gpm 2",
    sm_occupancy="gpm 3",
    integer_active="gpm 4",
    tensor_active="gpm 5 | gpm 7",
    dram_active="gpm 10",
    fp64_active="gpm 11",
    fp32_active="gpm 12",
    fp16_active="gpm 13",
    pcie_sent_rate_mib="gpm 20",
    pcie_received_rate_mib="gpm 21",
    nvlink_rate_mib="gpm 60 | gpm 61",
    c2c_rate_mib="gpm 100 | gpm 101 | gpm 102 | gpm 103",
    nothing="gpm 6 | gpm 8 | gpm 9 | "
    + " | ".join(f"gpm {n}" for n in (*range(30, 38), *range(40, 48), 50, 51)),
)

GPU: Mapping[str, Answer] = {
    **_UNSIGNED,
    **_LONG,
    **_PERCENT,
    "nvmlDeviceGetMarginTemperature()": ("margin", INT),
}

# Not answered for a GPU that is split into instances (NVIDIA MIG User Guide: utilisation
# is per instance, by GPM).
NOT_UNDER_MIG = (
    "nvmlDeviceGetUtilizationRates()",
    "nvmlDeviceGetEncoderUtilization()",
    "nvmlDeviceGetDecoderUtilization()",
    "nvmlDeviceGetJpgUtilization()",
    "nvmlDeviceGetOfaUtilization()",
    "nvmlDeviceGetRemappedRows()",
)

# What a MIG instance answers that changes.
INSTANCE: Mapping[str, Answer] = {
    **{
        f"nvmlDeviceGetMemoryInfo({v}).{part}": (f"memory_{part}", ULONGLONG)
        for v in ("33554472", "")
        for part in ("total", "used", "free")
    },
    "nvmlDeviceGetMemoryInfo(33554472).reserved": ("memory_reserved", ULONGLONG),
    **{
        f"nvmlDeviceGetBAR1MemoryInfo().bar1{part.title()}": (f"bar1_{part}", ULONGLONG)
        for part in ("total", "used", "free")
    },
    **{
        question: row
        for question, row in _PERCENT.items()
        if question in {f"gpm {n}" for n in range(1, 14)}
    },
}

_LINK_COMMON = {
    "nvmlDeviceGetNvLinkState(link)": ("up", UNSIGNED),
    "field 165 scope link": ("up", UNSIGNED),
    "field 138 scope link": ("sent_kib", ULONGLONG),
    "field 139 scope link": ("received_kib", ULONGLONG),
    "field 140 scope link": ("raw_sent_kib", ULONGLONG),
    "field 141 scope link": ("raw_received_kib", ULONGLONG),
    "field 161 scope link": ("replays", ULONGLONG),
    "field 162 scope link": ("recoveries", ULONGLONG),
    "field 163 scope link": ("crc", ULONGLONG),
}
# Up to NVLink 4 (nvmlNvLinkErrorCounter_t: replay, recovery, CRC of flits
# and of data, ECC of data).
_LINK_4 = {
    f"nvmlDeviceGetNvLinkErrorCounter(link, {counter})": (name, ULONGLONG)
    for counter, name in enumerate(("replays", "recoveries", "crc", "zero", "zero"))
}
_LINK_5 = {
    "field 201 scope link": ("sent_packets", ULONGLONG),
    "field 202 scope link": ("sent_bytes", ULONGLONG),
    "field 203 scope link": ("received_packets", ULONGLONG),
    "field 204 scope link": ("received_bytes", ULONGLONG),
    **{
        f"field {number} scope link": ("zero", ULONGLONG)
        for number in (206, 207, 208, 209, 210, 211, 212, 214)
    },
    "field 213 scope link": ("recoveries", ULONGLONG),
    "field 215 scope link": ("recoveries", ULONGLONG),
    "field 205 scope link": ("zero", ULONGLONG),
    **{f"field {n} scope link": ("ber_word", ULONGLONG) for n in (216, 217, 218, 291, 292, 293)},
    **{f"field {n} scope link": ("crc", ULONGLONG) for n in (289, 290)},
    "field 294 scope link": ("sent_packets", ULONGLONG),
    "field 295 scope link": ("replays", ULONGLONG),
    "field 219 scope link": ("crc", ULONGLONG),
    "field 220 scope link": ("ber_word", ULONGLONG),
    "field 221 scope link": ("crc", ULONGLONG),
    "field 222 scope link": ("ber_word", ULONGLONG),
    **{f"field {235 + k} scope link": (f"fec_{k}", ULONGLONG) for k in range(16)},
}


def of_link(version: int) -> Mapping[str, Answer]:
    """Questions about one link, ``link`` standing for its number."""
    return {**_LINK_COMMON, **(_LINK_5 if version >= 5 else _LINK_4)}


def sums_of_links(version: int) -> Mapping[str, Answer]:
    """Questions of a GPU that are answered by the sum over its links."""
    sums = {
        f"field 138 scope {_ALL}": ("sent_kib", ULONGLONG),
        f"field 139 scope {_ALL}": ("received_kib", ULONGLONG),
        f"field 140 scope {_ALL}": ("raw_sent_kib", ULONGLONG),
        f"field 141 scope {_ALL}": ("raw_received_kib", ULONGLONG),
        "field 160": ("zero", ULONGLONG),
    }
    if version >= 5:
        return sums | {
            question.replace("link", str(_ALL)): row for question, row in _LINK_5.items()
        }
    return sums | {
        "field 38": ("crc", ULONGLONG),
        "field 45": ("zero", ULONGLONG),
        "field 52": ("replays", ULONGLONG),
        "field 59": ("recoveries", ULONGLONG),
    }


def fixed(profile: Profile, gpu: int, serial: int) -> dict[str, str | int | float]:
    """What a GPU answers that never changes; ``serial`` is any number that
    distinguishes this node from others.
    """
    model, mib = profile.gpu, 1 << 20
    shutdown, slowdown = (
        model.max_operating_c - margin
        for margin in (model.shutdown_margin_c, model.slowdown_margin_c)
    )
    milliwatts = {"min": int(model.power_min_w * 1000), "max": int(model.power_limit_w * 1000)}
    clocks = {
        0: model.clock_max_mhz,
        1: model.clock_max_mhz,
        2: model.memory_clock_mhz,
        3: model.video_clock_max_mhz,
    }
    answers: dict[str, str | int | float] = {
        "nvmlDeviceGetIndex()": gpu,
        "nvmlDeviceGetMinorNumber()": gpu,
        "nvmlDeviceGetPersistenceMode()": 1,
        "nvmlDeviceGetComputeMode()": 0,
        "nvmlDeviceGetPerformanceState()": 0,
        "nvmlDeviceGetInforomConfigurationChecksum()": 0x5A3C71 + gpu,
        "nvmlDeviceValidateInforom()": 0,
        "nvmlDeviceGetSupportedEventTypes()": 0x8
        | 0x1
        | 0x2
        | 0x8000,  # XID, single and double bit ECC, recovery action
        "nvmlDeviceGetSupportedClocksEventReasons()": 0x1FF,
        "nvmlDeviceGetSupportedClocksThrottleReasons()": 0x1FF,
        "nvmlDeviceGetMigMode()[0]": int(gpu in profile.mig),
        "nvmlDeviceGetMigMode()[1]": int(gpu in profile.mig),
        "nvmlDeviceGetMaxMigDeviceCount()": 7,
        "nvmlGpmQueryDeviceSupport().isSupportedDevice": int(model.gpm),
        "nvmlDeviceGetMemoryInfo(33554472).total": model.memory_mib * mib,
        "nvmlDeviceGetMemoryInfo().total": model.memory_mib * mib,
        "nvmlDeviceGetMemoryInfo(33554472).reserved": model.reserved_mib * mib,
        "nvmlDeviceGetBAR1MemoryInfo().bar1Total": model.bar1_mib * mib,
        "nvmlDeviceGetGraphicsRunningProcesses_v3().length": 0,
        "nvmlDeviceGetGraphicsRunningProcesses_v2().length": 0,
        "nvmlDeviceGetMaxPcieLinkGeneration()": model.pcie_generation,
        "nvmlDeviceGetMaxPcieLinkWidth()": model.pcie_width,
        "nvmlDeviceGetPowerManagementLimit()": milliwatts["max"],
        "nvmlDeviceGetPowerManagementDefaultLimit()": milliwatts["max"],
        "nvmlDeviceGetPowerManagementLimitConstraints()[0]": milliwatts["min"],
        "nvmlDeviceGetPowerManagementLimitConstraints()[1]": milliwatts["max"],
        "nvmlDeviceGetTemperatureThreshold(0)": shutdown,
        "nvmlDeviceGetTemperatureThreshold(1)": slowdown,
        "nvmlDeviceGetTemperatureThreshold(2)": model.memory_max_c,
        "nvmlDeviceGetTemperatureThreshold(3)": model.max_operating_c,
        "nvmlDeviceGetRepairStatus()[0]": 0,
        "nvmlDeviceGetRepairStatus()[1]": 0,
        "nvmlDeviceGetUnrepairableMemoryFlag_v1()": 0,
        "nvmlDeviceGetEccMode()[0]": 1,
        "nvmlDeviceGetEccMode()[1]": 1,
        "nvmlDeviceGetGpuFabricInfoV().cliqueId": 0,
        "nvmlDeviceGetPlatformInfo().ibGuid": f"a088c20300{serial % 2**24:06x}",
        "nvmlDeviceGetPlatformInfo().chassisSerialNumber": f"18{serial % 10**11:011d}",
        "nvmlDeviceGetPlatformInfo().slotNumber": 10,
        "nvmlDeviceGetPlatformInfo().trayIndex": 5,
        "nvmlDeviceGetPlatformInfo().hostId": 1,
        "nvmlDeviceGetPlatformInfo().peerType": 1,
        "nvmlDeviceGetPlatformInfo().moduleId": gpu + 1,
        "nvmlDeviceGetNumaNodeId()": 2 + 8 * gpu,
    }
    for engine in ("Encoder", "Decoder", "Jpg", "Ofa"):
        answers |= {
            f"nvmlDeviceGet{engine}Utilization()[0]": 0,
            f"nvmlDeviceGet{engine}Utilization()[1]": 167000,
        }
    for clock, megahertz in clocks.items():
        answers[f"nvmlDeviceGetMaxClockInfo({clock})"] = megahertz
        answers[f"nvmlDeviceGetApplicationsClock({clock})"] = megahertz
    return answers | dict(profile.answers)


def fixed_fields(profile: Profile) -> dict[str, tuple[int, int]]:
    """Field values that never change, each with its type."""
    model, milliwatts = profile.gpu, int(profile.gpu.power_limit_w * 1000)
    speed = LINK_SPEED[profile.nvlink.version]
    c2c = profile.nvlink.c2c_links
    unsigned = {
        1: 1,
        2: 1,
        187: int(model.power_min_w * 1000),
        188: milliwatts,
        189: milliwatts,
        192: milliwatts,
    }
    unsigned |= {
        226: 0,
        227: 0,
        301: 0,
        302: 0,
        170: c2c,
        171: int(c2c > 0),
        172: 44712,
        231: 0,
        232: 0,
        233: 0,
        234: 0,
    }
    signed = {193: model.shutdown_margin_c, 194: model.slowdown_margin_c, 195: 0, 196: 0}
    speeds = {
        "field 296" + (f" scope {link}" if link else ""): (speed * 15 // 16, UNSIGNED)
        for link in range(profile.nvlink.links)
    } | {
        "field 164" + (f" scope {link}" if link else ""): (speed, UNSIGNED)
        for link in range(profile.nvlink.links)
    }
    return (
        {f"field {n}": (v, UNSIGNED) for n, v in unsigned.items()}
        | {f"field {n}": (v, INT) for n, v in signed.items()}
        | speeds
    )


def fixed_of_link(profile: Profile, link: int) -> dict[str, str | int]:
    """What one link answers that never changes."""
    version = profile.nvlink.version
    answers: dict[str, str | int] = {
        f"nvmlDeviceGetNvLinkVersion({link})": {3: 4, 4: 6, 5: 7}[
            version
        ],  # NVML_NVLINK_VERSION_3_0, _4_0, _5_0
        f"nvmlDeviceGetNvLinkRemoteDeviceType({link})": 2,  # NVML_NVLINK_DEVICE_TYPE_SWITCH
    }
    if version < 5:  # the switches of NVLink 5 are no PCI devices of the node
        answers[f"nvmlDeviceGetNvLinkRemotePciInfo({link}).busId"] = (
            f"00000000:{0x05 + link % 4:02X}:00.0"
        )
    return answers
