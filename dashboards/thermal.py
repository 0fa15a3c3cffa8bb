"""Thermal and power: where heat or power holds GPUs back, and how near the rest is."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import NONE_IS_WELL, Step
from dashboards.panels import Dashboard, Heatmap, Lines, Query, Row, Stat
from dashboards.queries import family, measured
from dashboards.shared import (
    BY_GPU,
    BY_NODE,
    CLUSTERS,
    INCIDENTS,
    NODES,
    TO_GPU,
    TO_NODE,
    most,
    one,
    rate,
    zero_where,
)

_GPU = "{{instance}} GPU {{gpu}}"
_CORE, _POWER = measured("gpu", "temperature_celsius"), measured("gpu", "power_milliwatts")
_ENFORCED, _DEFAULT = (
    one(BY_GPU, measured("gpu", "power_limit_enforced_milliwatts")),
    one(BY_GPU, measured("gpu", "power_limit_default_milliwatts")),
)
_MARGIN = measured("gpu", "temperature_margin_celsius")
_ENERGY = measured("gpu", "energy_millijoules")
_HELD_BACK = family("gpu", "throttled_power_cap_nanoseconds")
_BRAKES = family("gpu", "throttled_power_cap_nanoseconds", reason="=~hw_thermal|hw_power_brake")
_KWH_J = 3_600_000

NUMBERS = (
    Stat(
        title="Braked now",
        about=(
            "GPUs whose clocks the hardware lowered within the last five minutes, for heat "
            "or by the power brake."
        ),
        queries=(
            Query(zero_where(f"count(sum by ({BY_GPU}) (rate({_BRAKES}[5m])) > 0.01)", _BRAKES)),
        ),
        steps=NONE_IS_WELL,
        width=5,
    ),
    Stat(
        title="Limit lowered",
        about=("GPUs whose power limit an operator or the BMC lowered below the default."),
        queries=(Query(zero_where(f"count({_ENFORCED} < on ({BY_GPU}) {_DEFAULT})", _ENFORCED)),),
        steps=NONE_IS_WELL,
        width=5,
    ),
    Stat(
        title="Headroom now",
        about="Of all GPUs, to the temperature at which they slow down.",
        queries=(Query(f"min({_MARGIN})"),),
        unit="celsius",
        steps=(Step(-50, "red"), Step(1, "orange"), Step(5, "yellow"), Step(10, "green")),
        width=4,
    ),
    Stat(
        title="Power now",
        about="Of all boards; hosts, fans and switches are not included.",
        queries=(Query(f"sum({_POWER})"),),
        unit="watt",
        width=5,
    ),
    Stat(
        title="Energy of the last day",
        about=(
            "Of all boards, from their own energy counters. The facility's meters, where there are "
            "any, show the share of cooling and hosts."
        ),
        queries=(Query(f"sum(increase({_ENERGY}[1d])) / {_KWH_J} * 1000"),),
        unit="watth",
        width=5,
    ),
)

HEAT = (
    Heatmap(
        title="Core temperatures",
        about=(
            "GPUs by temperature. A band that separates from the rest is a node, a "
            "rack or a cold plate."
        ),
        queries=(Query(_CORE),),
        unit="celsius",
        bucket=5,
    ),
    Lines(
        title="Least headroom",
        about="The ten GPUs that are nearest to slowing down.",
        queries=(
            Query(most(_MARGIN, BY_GPU, least=True), _GPU),
            Query(f"0 * max({_MARGIN})", "slowdown limit"),
        ),
        unit="celsius",
        links=(TO_GPU,),
    ),
    Lines(
        title="Hottest of each node",
        about="At the core; several nodes that rise together share air or water.",
        queries=(Query(f"max by ({BY_NODE}) ({_CORE})", "{{instance}}"),),
        unit="celsius",
        links=(TO_NODE,),
    ),
    Lines(
        title="Hotter than peers",
        about=(
            "How much hotter than the median of its node each GPU is, the ten with most. This "
            "includes its position in the air flow: watch the change."
        ),
        queries=(
            Query(
                most(
                    (
                        f"{_CORE} - on (cluster, instance) group_left () quantile by "
                        f"({BY_NODE}) (0.5, {_CORE})"
                    ),
                    BY_GPU,
                ),
                _GPU,
            ),
        ),
        unit="celsius",
        links=(TO_GPU,),
    ),
)

BRAKES = (
    Lines(
        title="Braked by hardware",
        about=(
            "Share of time in which hardware lowered the clocks, for heat or by the power brake: "
            "the ten GPUs with most. One GPU: cold plate, fan. A node: fans, power supply. "
            "A rack: the facility."
        ),
        empty="no GPU is braked, or no agent answers",
        queries=(
            Query(
                most(f"sum by ({BY_GPU}, reason) ({rate(_BRAKES)}) > 0", f"{BY_GPU}, reason"),
                f"{_GPU} {{{{reason}}}}",
            ),
        ),
        unit="percentunit",
        minimum=0,
        links=(TO_GPU,),
        place=places.BRAKES,
    ),
    Lines(
        title="Throttled, by reason",
        about=(
            "Mean share of throttled time over all GPUs. The power cap is normal under load; heat "
            "and the power brake are not."
        ),
        queries=(Query(f"avg by (reason) ({rate(_HELD_BACK)})", "{{reason}}"),),
        unit="percentunit",
        minimum=0,
    ),
)

POWER = (
    Lines(
        title="Power of each node",
        about="All its GPUs together.",
        queries=(Query(f"sum by ({BY_NODE}) ({_POWER})", "{{instance}}"),),
        unit="watt",
        minimum=0,
        stacked=True,
        links=(TO_NODE,),
    ),
    Lines(
        title="Limits below the default",
        about=("Enforced power limit as a share of the default, where it is lower."),
        queries=(Query(f"{_ENFORCED} / on ({BY_GPU}) {_DEFAULT} < 1", _GPU),),
        unit="percentunit",
        minimum=0,
        maximum=1,
        links=(TO_GPU,),
        empty="no limit is lowered, or no agent answers",
        place=places.LIMITS,
    ),
)

THERMAL = Dashboard(
    places.THERMAL,
    "Tocsin / Thermal and power",
    "Where do heat and power hold GPUs back, and how near is the rest?",
    (*NUMBERS, Row("Brakes"), *BRAKES, Row("Heat"), *HEAT, Row("Power"), *POWER),
    (CLUSTERS, NODES),
    incidents=INCIDENTS.replace("}", ', class=~"(thermal|throttle|power|power_limit)(/.*)?"}'),
)
