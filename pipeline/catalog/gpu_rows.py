"""Short forms for the rows of gpu.py and its parts, so that a table of two hundred fields
stays readable as a table.
"""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Field, Metric, Overflow, Profile

# places of a percentage or of MiB/s: the six that dcgm-exporter prints of the ratio
GPM_DECIMALS = 4
# UINT_MAX as scope: the sum over all links (nvml.h, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX)
ALL_LINKS = 4294967295


def gauge(
    number: int,
    name: str,
    metric: Metric,
    read: str,
    *labels: tuple[str, str],
    kind: str = "gpu",
    times: int = 1,
    per: int = 1,
    profile: Profile = "default",
    states: tuple[tuple[int, str], ...] = (),
    dcgm: tuple[Dcgm, ...] = (),
) -> Field:
    """A gauge of a GPU; the constant labels follow the question.

    GPM and bit error ratios alone have fractions.
    """
    gpm = read.startswith("gpm ")
    return Field(
        number,
        name,
        kind,
        "gauge",
        metric,
        read,
        labels,
        times,
        per,
        fraction=gpm or read.endswith("as bit_error_ratio"),
        decimals=GPM_DECIMALS if gpm else 0,
        states=states,
        profile=profile,
        dcgm=dcgm,
    )


def counter(
    number: int,
    name: str,
    metric: Metric,
    read: str,
    *labels: tuple[str, str],
    kind: str = "gpu",
    times: int = 1,
    per: int = 1,
    overflow: Overflow = "resets",
    lifetime: bool = False,
    most: float = 0.0,
    profile: Profile = "default",
    dcgm: tuple[Dcgm, ...] = (),
) -> Field:
    """A counter of a GPU: 64 bits, back to 0 with the driver unless ``lifetime``; ``most`` is its
    physical maximum per second.
    """
    return Field(
        number,
        name,
        kind,
        "counter",
        metric,
        read,
        labels,
        times,
        per,
        overflow=overflow,
        lifetime=lifetime,
        maximum_per_second=most,
        profile=profile,
        dcgm=dcgm,
    )


Scale = tuple[int, int]  # times, per


def renewed(
    old: int, name: str, new: int, new_name: str, scales: tuple[Scale, Scale]
) -> tuple[Dcgm, Dcgm]:
    """A DCGM field and the one with another unit that took its place in the 4.9
    generation; each has its scale.

    An old field is a whole number; a new one is whole where its scale only multiplies.
    """
    old_scale, new_scale = scales
    whole = new_scale[1] == 1
    return (
        Dcgm(old, name, times=old_scale[0], per=old_scale[1], successor=new),
        Dcgm(new, new_name, times=new_scale[0], per=new_scale[1], whole=whole),
    )
