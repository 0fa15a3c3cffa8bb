"""Each exporter's series fill the column that our own reader fills."""

from __future__ import annotations

import pytest

from history.gather import columns
from history.meaning import dcgm_exporter, node_exporter
from pipeline.catalog import fields_of
from pipeline.dcgm.names import AMBIGUOUS, ids


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (("dcgm_gpu_temp", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"), (57, 57, 57)),
        (
            ("dcgm_power_usage", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS"),
            (400.5, 400.5, 400.5),
        ),
        (
            (
                "dcgm_total_energy_consumption",
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
                "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
            ),
            (5_000, 5_000, 5),
        ),
        (("dcgm_fb_used", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED_BYTES"), (1, 1, 1 << 20)),
        (("dcgm_sm_clock", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK_HERTZ"), (1, 1, 1e6)),
    ],
)
def test_generations_differ_in_names_and_units_only(
    names: tuple[str, ...], values: tuple[float, ...]
) -> None:
    """1.x, up to 4.8, and 4.9 give the same native value."""
    known = dcgm_exporter.columns()
    found = {known[name].name for name in names}
    assert len(found) == 1
    natives = {
        value * known[name].per / known[name].times
        for name, value in zip(names, values, strict=True)
    }
    assert len(natives) == 1


def test_every_dcgm_name_of_a_gpus_column_is_understood() -> None:
    """Whatever site exports it; but the one name that means two units."""
    known = dcgm_exporter.columns()
    numbers = {dcgm.id for field in fields_of("gpu") for dcgm in field.dcgm}
    names = {name for name, number in ids().items() if number in numbers}
    assert names - known.keys() == {AMBIGUOUS}
    assert all(known[name].field.kind == "gpu" for name in known)


def test_every_column_of_node_exporter_exists() -> None:
    """A wrong name would be found when it is first seen."""
    for column in node_exporter.COLUMNS.values():
        assert column.field.name == column.name


def test_no_metric_means_two_things() -> None:
    """Names of exporters do not meet."""
    assert not dcgm_exporter.columns().keys() & node_exporter.COLUMNS.keys()
    assert not dcgm_exporter.xid_names() & dcgm_exporter.columns().keys()
    assert dcgm_exporter.xid_names() < columns().keys()
