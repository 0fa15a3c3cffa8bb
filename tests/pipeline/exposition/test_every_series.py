"""Every series there is, as one golden page, and how many of them a node has."""

from __future__ import annotations

import pytest

from pipeline.catalog import FACTS, KINDS, METRICS, PROFILES, Profile, agent, fields_of
from pipeline.dcgm import Compat, DcgmDialect, LabelStyle, Options, load
from pipeline.exposition import Exposition
from pipeline.exposition.process import ProcessSamples
from pipeline.frame import Device, Frame
from pipeline.selfmetrics import SelfMetrics
from pipeline.xid.table import critical_codes
from tests import golden
from tests.fakes import FakeClock, observed
from tests.pipeline.exposition.pages import frame, samples

# What a page may cost with one generation of the dialect; `both` adds its second names.
MAX_SERIES: dict[str, int] = {"minimal": 600, "default": 1500, "full": 10_500}
# What an HGX H100 with InfiniBand has not: chip-to-chip links, fans, power smoothing and bit errors
# by lane (Blackwell), retired pages (Ampere and
# later remap rows), Ethernet ports.
NOT_ON_H100 = (
    *(
        "c2c_",
        "fan_",
        "retired_",
        "net_",
        "power_smoothing_",
        "raw_",
        "nvlink_raw_bit",
        "nvlink_raw_err",
    ),
    *("transmit_blocks", "retried_", "nvlink_transmit_blocks", "nvlink_retried_", "data_rate_"),
)
SOURCES = ("nvml", "infiniband", "kmsg", "host", "topology")


def device(kind: str, number: int = 0) -> Device:
    """A device of a kind with every fact known."""
    facts = {fact.name: str(number) for fact in FACTS if fact.kind == kind} | {"gpu_uuid": "gpu-0"}
    return Device("n1", kind, f"{kind}-{number}", facts)


def filled(
    clock: FakeClock, kind: str, count: int = 1, *, without: tuple[str, ...] = ("-",)
) -> Frame:
    """A frame in which every value was observed, but for those whose names begin so."""
    values = {
        f.name: f.states[0][0] if f.states else 7
        for f in fields_of(kind)
        if not f.name.startswith(without)
    }
    return frame(clock, kind, [(device(kind, n), values) for n in range(count)])


def test_the_golden_page_has_every_family() -> None:
    """One device of each kind, all values observed, in the full profile: what a newcomer
    reads to see what there is.
    """
    clock = FakeClock()
    metrics = SelfMetrics()
    page = Exposition(metrics, clock=clock, profile="full")
    page.write(observed(clock, *(filled(clock, kind) for kind in KINDS)), ())
    golden.check("exposition/every-series.prom", page.render().decode())


@pytest.mark.slow
def test_own_metrics_are_shown_under_their_labels() -> None:
    """Each metric of the agent itself that has a value has its series, with the
    labels the catalogue gives it.
    """
    clock = FakeClock()
    metrics = SelfMetrics()
    page = Exposition(metrics, clock=clock, profile="full")
    others = (agent.XID_ERRORS, agent.XID_LAST_SEEN, agent.FINDING_ACTIVE, agent.FINDINGS_OVERFLOW)
    for metric in set(METRICS) - set(others):
        metrics.replace(metric, {tuple(f"a {label}" for label in metric.labels): 1.0})
    for metric in set(METRICS) - set(others):
        wanted = {label: f"a {label}" for label in metric.labels}
        found = [dict(labels) for labels in samples(page, metric.name)]
        assert any(wanted.items() <= labels.items() for labels in found)


class BornXids:
    """The counters every registered GPU is born with."""

    def series(self) -> list[tuple[Device, int, int, int]]:
        return [(device("gpu", n), code, 0, 0) for n in range(8) for code in critical_codes()]


@pytest.mark.slow
@pytest.mark.parametrize("compat", ["dcgm-4.8", "dcgm-4.9"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_keeps_to_its_number_of_series(profile: Profile, compat: Compat) -> None:
    """8 GPUs with 18 links each, 8 ports, the node, the dialect and the agent's own numbers."""
    clock = FakeClock()
    metrics = SelfMetrics()
    for source in SOURCES:
        for metric in METRICS:
            if "source" in metric.labels or "name" in metric.labels:
                metrics.add(metric, *(source for _ in metric.labels))
    dialect = DcgmDialect(Options(load(compat=compat), compat, LabelStyle("n1")), clock)
    page = Exposition(
        metrics,
        clock=clock,
        profile=profile,
        xids=BornXids(),
        dialect=dialect,
        process=ProcessSamples(),
    )
    sizes = {"gpu": 8, "nvlink": 144, "ib_port": 8, "node": 1}
    page.write(
        observed(
            clock,
            *(filled(clock, kind, count, without=NOT_ON_H100) for kind, count in sizes.items()),
        ),
        (),
    )
    shown = [line for line in page.render().decode().splitlines() if not line.startswith("#")]
    assert len(shown) <= MAX_SERIES[profile]
