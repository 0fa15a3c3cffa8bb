"""GPUs and MIG instances.

``read`` of a field is one or more ways to ask NVML, tried in turn until one is supported, joined by `` | ``:

* ``field 83``: nvmlDeviceGetFieldValues with that field id, scope 0 (``field 138 scope 4294967295`` for another scope;
  ``scope link`` is the link number of an nvlink device);
* ``nvmlDeviceGetUtilizationRates().gpu``: the getter of that name, its arguments after the handle as integers (``link`` = link
  number), then the member of the struct (``.gpu``), the element of the tuple (``[0]``), or ``.length`` of a list;
* ``gpm 2``: NVML GPM metric with that id, between this sweep and the last;
* ``source``: worked out by the NVML source itself.

Field ids, scopes and enumerations: nvml.h of driver 580.
"""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Fact, Field, Kind, Metric

KINDS = (
    Kind("gpu", (("gpu", "index"), ("uuid", "@id")), "A GPU, identified by its UUID."),
    Kind(
        "gpu_instance",
        (("gpu", "index"), ("uuid", "gpu_uuid"), ("gpu_instance", "gpu_instance"), ("profile", "profile")),
        "A MIG instance, identified by its MIG UUID.",
    ),
)

GPU_STATES = ((0, "ok"), (1, "lost"), (2, "hung"), (3, "absent"), (4, "unreadable"))

_TEMPERATURE = Metric("tocsin_gpu_temperature_celsius", "gauge", "Temperature by sensor.")
_POWER = Metric("tocsin_gpu_power_watts", "gauge", "Power draw of the board by averaging mode.")

FIELDS = (
    Field(
        1001,
        "state",
        "gpu",
        "gauge",
        Metric("tocsin_gpu_state", "gauge", "1 for the state the GPU is in, 0 for the others.", ("state",)),
        "source",
        states=GPU_STATES,
        profile="minimal",
    ),
    Field(
        1010,
        "temperature_celsius",
        "gpu",
        "gauge",
        _TEMPERATURE,
        "nvmlDeviceGetTemperature(0)",
        labels=(("sensor", "core"),),
        profile="minimal",
        dcgm=(Dcgm(150, "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),),
    ),
    Field(
        1020,
        "power_milliwatts",
        "gpu",
        "gauge",
        _POWER,
        "nvmlDeviceGetPowerUsage()",
        labels=(("mode", "default"),),
        per=1000,
        profile="minimal",
        dcgm=(Dcgm(155, "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", per=1000, whole=False),),
    ),
    Field(
        1030,
        "energy_millijoules",
        "gpu",
        "counter",
        Metric("tocsin_gpu_energy_joules_total", "counter", "Energy used since the driver was loaded."),
        "field 83",
        per=1000,
        profile="minimal",
        dcgm=(
            Dcgm(156, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", successor=1611),
            Dcgm(1611, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", per=1000),
        ),
    ),
)

FACTS = (
    Fact("index", "gpu", "Position of the GPU in PCI order, as NVML and DCGM count.", "nvmlDeviceGetIndex()", info=False),
    Fact("name", "gpu", "Product name.", "nvmlDeviceGetName()"),
    Fact("pci_bus_id", "gpu", "PCI address with eight-digit domain.", "nvmlDeviceGetPciInfo_v3().busId"),
)
