"""GPUs and MIG instances: kinds, slow facts, and how their fields are asked for.

The fields stand in gpu_*.py, by subject.

``read`` of a field is one or more ways to ask NVML, tried in turn until one is
supported, joined by `` | ``:

* ``field 83``: nvmlDeviceGetFieldValues with that field id, scope 0 (``field 138 scope 4294967295``
  for another scope; ``scope link`` is the link number of an nvlink device);
* ``nvmlDeviceGetUtilizationRates().gpu``: the getter of that name, its arguments after the handle
  as integers joined by ``", "`` (``link`` = link number), then the member of the struct (``.gpu``),
  the element of the tuple (``[0]``), or ``.length`` of a list;
* ``gpm 2``: NVML GPM metric with that id, between this sweep and the last;
* ``source``: worked out by the NVML source itself.

A way may end in `` as CODEC``: how the answer is turned into the value
(collector/sources/nvml/codecs.py). It is no part of the question. A getter that fills a struct is
asked as if it returned it: ``nvmlDeviceGetSramEccErrorStatus().bThresholdExceeded``.

Field ids, scopes and enumerations: nvml.h of driver 580, those from 251 on of driver 615. DCGM ids,
names and units: dcgm_fields.h of DCGM 4.7.
"""

from __future__ import annotations

from pipeline.catalog import (
    gpu_activity,
    gpu_links,
    gpu_memory_errors,
    gpu_newer,
    gpu_pcie,
    gpu_power,
    gpu_power_smoothing,
    gpu_throttle,
    gpu_use,
)
from pipeline.catalog.fields import Dcgm, Fact, Field, Kind
from pipeline.catalog.nvlink import PORT_TOTALS

__all__ = ["FACTS", "FIELDS", "KINDS"]

KINDS = (
    Kind("gpu", (("gpu", "index"), ("uuid", "@id")), "A GPU, identified by its UUID."),
    Kind(
        "gpu_instance",
        (
            ("gpu", "index"),
            ("uuid", "gpu_uuid"),
            ("gpu_instance", "gpu_instance"),
            ("profile", "profile"),
        ),
        "A MIG GPU instance, identified by the MIG UUID of its first compute instance.",
    ),
)

FIELDS: tuple[Field, ...] = (
    *gpu_use.USE,
    *gpu_use.memory("gpu", 1040),
    *gpu_use.CLOCKS,
    *gpu_power.ELECTRIC,
    *gpu_power.THERMAL,
    *gpu_power.MODES,
    *gpu_power_smoothing.FIELDS,
    *gpu_newer.FIELDS,
    *gpu_throttle.FIELDS,
    *gpu_memory_errors.FIELDS,
    *gpu_pcie.FIELDS,
    *gpu_links.FIELDS,
    *gpu_activity.FIELDS,
    *PORT_TOTALS,
    *gpu_use.memory("gpu_instance", 2001),
    *gpu_activity.units("gpu_instance", 2020),
)

_DEV = "DCGM_FI_DEV_"


def _fact(
    name: str, text: str, read: str, dcgm: tuple[int, str, str] | None = None, *, info: bool = True
) -> Fact:
    rows = (Dcgm(dcgm[0], dcgm[1], dcgm[2], whole=False),) if dcgm else ()
    return Fact(name, "gpu", text, read, info, rows)


_PLATFORM = "nvmlDeviceGetPlatformInfo()"
FACTS: tuple[Fact, ...] = (
    _fact(
        "index",
        "Position of the GPU in PCI order, as NVML and DCGM count.",
        "nvmlDeviceGetIndex()",
        (52, _DEV + "NVML_INDEX", ""),
        info=False,
    ),
    _fact(
        "uuid",
        "UUID of the GPU: its identity.",
        "nvmlDeviceGetUUID()",
        (54, _DEV + "UUID", _DEV + "GPU_UUID"),
        info=False,
    ),
    _fact("name", "Product name.", "nvmlDeviceGetName()", (50, _DEV + "NAME", _DEV + "GPU_NAME")),
    _fact(
        "pci_bus_id",
        "PCI address with eight-digit domain.",
        "nvmlDeviceGetPciInfo_v3().busId",
        (57, _DEV + "PCI_BUSID", _DEV + "PCI_BUS_ID"),
    ),
    _fact(
        "serial",
        "Serial number of the board.",
        "nvmlDeviceGetSerial()",
        (53, _DEV + "SERIAL", _DEV + "BOARD_SERIAL"),
    ),
    _fact(
        "brand",
        "Product line.",
        "nvmlDeviceGetBrand() as brand",
        (51, _DEV + "BRAND", _DEV + "GPU_BRAND"),
    ),
    _fact("board_part_number", "Part number of the board.", "nvmlDeviceGetBoardPartNumber()"),
    _fact(
        "vbios",
        "Version of the VBIOS.",
        "nvmlDeviceGetVbiosVersion()",
        (85, _DEV + "VBIOS_VERSION", ""),
    ),
    _fact(
        "inforom_image",
        "Version of the InfoROM image.",
        "nvmlDeviceGetInforomImageVersion()",
        (82, _DEV + "INFOROM_IMAGE_VER", _DEV + "INFOROM_IMAGE_VERSION"),
    ),
    # nvmlInforomObject_t: OEM 0, ECC 1, power 2.
    _fact(
        "inforom_oem",
        "Version of the InfoROM's OEM object.",
        "nvmlDeviceGetInforomVersion(0)",
        (56, _DEV + "OEM_INFOROM_VER", _DEV + "INFOROM_OEM_VERSION"),
        info=False,
    ),
    _fact(
        "inforom_ecc",
        "Version of the InfoROM's ECC object.",
        "nvmlDeviceGetInforomVersion(1)",
        (80, _DEV + "ECC_INFOROM_VER", _DEV + "INFOROM_ECC_VERSION"),
        info=False,
    ),
    _fact(
        "inforom_power",
        "Version of the InfoROM's power object.",
        "nvmlDeviceGetInforomVersion(2)",
        (81, _DEV + "POWER_INFOROM_VER", _DEV + "INFOROM_POWER_VERSION"),
        info=False,
    ),
    _fact(
        "inforom_checksum",
        "Checksum of the InfoROM's configuration.",
        "nvmlDeviceGetInforomConfigurationChecksum()",
        (83, _DEV + "INFOROM_CONFIG_CHECK", _DEV + "INFOROM_CHECKSUM"),
        info=False,
    ),
    _fact(
        "driver_version",
        "Version of the NVIDIA driver.",
        "nvmlSystemGetDriverVersion()",
        (1, "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"),
    ),
    _fact(
        "nvml_version",
        "Version of the NVML library.",
        "nvmlSystemGetNVMLVersion()",
        (2, "DCGM_FI_NVML_VERSION", "DCGM_FI_SYSTEM_NVML_VERSION"),
        info=False,
    ),
    _fact(
        "cuda_version",
        "CUDA version the driver supports, 12040 is 12.4.",
        "nvmlSystemGetCudaDriverVersion_v2()",
        (5, "DCGM_FI_CUDA_DRIVER_VERSION", ""),
    ),
    _fact(
        "minor_number",
        "Number N of /dev/nvidiaN.",
        "nvmlDeviceGetMinorNumber()",
        (55, _DEV + "MINOR_NUMBER", _DEV + "GPU_MINOR_NUMBER"),
    ),
    _fact("numa_node", "NUMA node of the GPU's memory.", "nvmlDeviceGetNumaNodeId()"),
    _fact(
        "architecture", "Architecture of the chip.", "nvmlDeviceGetArchitecture() as architecture"
    ),
    # DCGM packs it into one number (its field 63): the dialect derives it.
    _fact(
        "compute_capability",
        "CUDA compute capability.",
        "nvmlDeviceGetCudaComputeCapability() as version",
    ),
    _fact(
        "fabric_cluster",
        "UUID of the NVLink fabric.",
        "nvmlDeviceGetGpuFabricInfoV().clusterUuid as uuid",
        (172, _DEV + "FABRIC_CLUSTER_UUID", ""),
        info=False,
    ),
    _fact(
        "platform_guid",
        "InfiniBand GUID the platform gave the GPU.",
        f"{_PLATFORM}.ibGuid as hex",
        (571, _DEV + "PLATFORM_INFINIBAND_GUID", ""),
        info=False,
    ),
    _fact(
        "chassis_serial",
        "Serial number of the chassis.",
        f"{_PLATFORM}.chassisSerialNumber as text",
        (572, _DEV + "PLATFORM_CHASSIS_SERIAL_NUMBER", ""),
    ),
    _fact(
        "chassis_slot",
        "Slot in the chassis.",
        f"{_PLATFORM}.slotNumber as byte",
        (573, _DEV + "PLATFORM_CHASSIS_SLOT_NUMBER", ""),
    ),
    _fact(
        "tray",
        "Tray in the chassis.",
        f"{_PLATFORM}.trayIndex as byte",
        (574, _DEV + "PLATFORM_TRAY_INDEX", ""),
    ),
    _fact(
        "platform_host",
        "Host in the tray.",
        f"{_PLATFORM}.hostId as byte",
        (575, _DEV + "PLATFORM_HOST_ID", ""),
        info=False,
    ),
    _fact(
        "peer_type",
        "What NVLink joins the GPU to.",
        f"{_PLATFORM}.peerType as byte",
        (576, _DEV + "PLATFORM_PEER_TYPE", ""),
        info=False,
    ),
    _fact(
        "module",
        "Number of the module on the baseboard.",
        f"{_PLATFORM}.moduleId as byte",
        (577, _DEV + "PLATFORM_MODULE_ID", ""),
    ),
    _fact(
        "epoch",
        "Changes when the GPU's counters begin again (driver load, reset).",
        "source",
        info=False,
    ),
    Fact("index", "gpu_instance", "Index of the GPU.", "source", info=False),
    Fact("gpu_uuid", "gpu_instance", "UUID of the GPU.", "source", info=False),
    Fact(
        "gpu_instance",
        "gpu_instance",
        "Number of the GPU instance.",
        "nvmlDeviceGetGpuInstanceId()",
        info=False,
    ),
    Fact(
        "profile",
        "gpu_instance",
        "Profile of the instance, such as 1g.10gb.",
        "nvmlDeviceGetName() as profile",
        info=False,
    ),
    Fact("pci_bus_id", "gpu_instance", "PCI address of the GPU.", "source", info=False),
)
