"""dcgm-exporter's series, all generations: 1.x (``dcgm_gpu_temp``), 2.x to 4.8
(``DCGM_FI_DEV_GPU_TEMP``) and 4.9 (``DCGM_FI_DEV_GPU_TEMP_CELSIUS``, other units).
"""

from __future__ import annotations

import re
from functools import cache

from history.meaning.column import Column
from pipeline.catalog import fields_of
from pipeline.dcgm.names import AMBIGUOUS, ids

XID = 230  # DCGM_FI_DEV_XID_ERRORS: the code of the last one
# The workload's labels, the error's words and the driver: they change while the device stays. A
# series ends and another begins of the same counter. honorLabels is false in NVIDIA's chart, so
# that the workload's own come as exported_*.
CHANGING = re.compile(
    r"(exported_)?(pod|namespace|container|pod_uid|pod_name|pod_namespace|container_name)"
    r"|hpc_job|err_code|err_msg|DCGM_FI_.*|xid|window_size_in_ms"
)


@cache
def columns() -> dict[str, Column]:
    """Every name that a GPU's column goes by."""
    by_id = {
        dcgm.id: Column("gpu", field.name, dcgm.times, dcgm.per)
        for field in fields_of("gpu")
        for dcgm in field.dcgm
    }
    return {
        name: by_id[number]
        for name, number in ids().items()
        if number in by_id and name != AMBIGUOUS
    }


@cache
def xid_names() -> frozenset[str]:
    """Names of the gauge with the code of the last XID."""
    return frozenset(name for name, number in ids().items() if number == XID)


def is_its(name: str) -> bool:
    """Whether a series looks like one of dcgm-exporter."""
    return name.startswith(("DCGM_FI_", "DCGM_EXP_", "dcgm_"))
