"""The page: what is on it, what is not any more, and what a hostile value cannot do to it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.samples import Sample

from pipeline.catalog import FACTS, FIELDS, KINDS, PROFILES, Profile, agent, fields_of
from pipeline.exposition import OPENMETRICS, TEXT, Exposition, Snapshot
from pipeline.exposition.process import ProcessSamples
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, frame_of
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, gpu, gpu_frame, observed
from tests.pipeline.exposition.pages import families, frame, lines, samples, shown

TEMPERATURE = "tocsin_gpu_temperature_celsius"


def test_what_was_not_observed_is_absent() -> None:
    """A NaN and an unobserved counter have no sample; zero is a value."""
    clock = FakeClock()
    page = shown(
        clock,
        gpu_frame(
            clock,
            {"temperature_celsius": 0},
            {"temperature_celsius": None, "energy_millijoules": None},
        ),
    )
    assert [dict(labels)["gpu"] for labels in samples(page, TEMPERATURE)] == ["0"]
    assert list(samples(page, TEMPERATURE).values()) == [0.0]
    assert lines(page, "tocsin_gpu_energy_joules_total") == []


def test_a_value_that_vanishes_leaves_no_series_behind() -> None:
    """When a reading stops its series is gone with the next frame, and comes
    back with its own value.
    """
    clock = FakeClock()
    page = shown(clock, gpu_frame(clock, {"temperature_celsius": 41, "energy_millijoules": 5000}))
    for value, energy in ((None, None), (43, 9000), (43, 9000)):
        page.write(
            observed(
                clock,
                gpu_frame(clock, {"temperature_celsius": value, "energy_millijoules": energy}),
            ),
            (),
        )
        assert list(samples(page, TEMPERATURE).values()) == (
            [] if value is None else [float(value)]
        )
        wanted = [] if energy is None else [energy / 1000]
        assert list(samples(page, "tocsin_gpu_energy_joules_total").values()) == wanted


def test_only_the_changed_value_changes() -> None:
    """Kept texts belong to their own devices: each of eight GPUs changes in
    turn and the others stay.
    """
    clock = FakeClock()
    page = shown(
        clock,
        gpu_frame(
            clock, *({"temperature_celsius": 40 + i, "energy_millijoules": i} for i in range(8))
        ),
    )
    values = [40 + i for i in range(8)]
    for i in range(8):
        values[i] += 10
        page.write(
            observed(
                clock,
                gpu_frame(
                    clock, *({"temperature_celsius": v, "energy_millijoules": v} for v in values)
                ),
            ),
            (),
        )
        found = {dict(labels)["gpu"]: value for labels, value in samples(page, TEMPERATURE).items()}
        assert found == {str(n): float(v) for n, v in enumerate(values)}
        joules = {
            dict(labels)["gpu"]: value
            for labels, value in samples(page, "tocsin_gpu_energy_joules_total").items()
        }
        assert joules == {str(n): v / 1000 for n, v in enumerate(values)}


def test_old_readings_are_dropped_and_states_stay() -> None:
    """Past three periods of its source a reading is gone; the GPU's state, the expected and
    the visible count are not.
    """
    clock = FakeClock()
    node = Device("n1", "node", "n1")
    page = shown(
        clock,
        gpu_frame(clock, {"temperature_celsius": 41, "state": 0}),
        frame(clock, "node", [(node, {"gpus_expected": 8, "gpus_visible": 8})]),
    )
    clock.advance(2.9)
    assert samples(page, TEMPERATURE)
    clock.advance(0.2)
    assert samples(page, TEMPERATURE) == {}
    assert samples(page, "tocsin_gpu_state", state="ok").values()
    assert list(samples(page, "tocsin_gpu_expected").values()) == [8.0]
    assert list(samples(page, "tocsin_gpu_visible").values()) == [8.0]
    page.write(observed(clock, gpu_frame(clock, {"temperature_celsius": 42, "state": 0})), ())
    assert list(samples(page, TEMPERATURE).values()) == [42.0]


def test_a_slow_source_is_stale_by_its_own_period() -> None:
    """A source read every minute is fresh for three minutes."""
    clock = FakeClock()
    page = Exposition(SelfMetrics(), clock=clock, periods={"host": 60.0})
    page.write(
        observed(
            clock,
            frame(clock, "node", [(Device("n1", "node", "n1"), {"boot_time_seconds": 5})]),
            source="host",
        ),
        (),
    )
    name = next(f.metric.name for f in fields_of("node") if f.name == "boot_time_seconds")
    clock.advance(179)
    assert samples(page, name)
    clock.advance(2)
    assert samples(page, name) == {}


def test_a_failed_read_keeps_the_last_good_one_until_it_is_old() -> None:
    """One overdue read does not take the page away."""
    clock = FakeClock()
    page = shown(clock, gpu_frame(clock, {"temperature_celsius": 41}))
    clock.advance(1)
    page.write(
        Observation(
            "nvml",
            "n1",
            "b",
            2,
            clock.time_ns(),
            clock.monotonic_ns(),
            0,
            outcome="overdue",
            error="late",
        ),
        (),
    )
    assert samples(page, TEMPERATURE)


def test_two_sources_fill_one_kind() -> None:
    """Families stand once although two sources feed them; a series that both claim
    is shown once and counted.
    """
    clock = FakeClock()
    metrics = SelfMetrics()
    page = Exposition(metrics, clock=clock, profile="full")
    node = Device("n1", "node", "n1")
    page.write(
        observed(clock, frame(clock, "node", [(node, {"gpus_expected": 8})]), source="nvml"), ()
    )
    page.write(
        observed(
            clock,
            frame(clock, "node", [(node, {"boot_time_seconds": 5, "gpus_expected": 7})]),
            source="host",
        ),
        (),
    )
    assert list(samples(page, "tocsin_gpu_expected").values()) == [8.0]
    assert metrics.value(agent.EXPOSITION_DROPPED, "duplicate") == 1
    assert samples(
        page, next(f.metric.name for f in fields_of("node") if f.name == "boot_time_seconds")
    )


def test_families_are_contiguous_and_described_once() -> None:
    """HELP and TYPE stand once, before all samples of their family, over several kinds,
    sources and own numbers.
    """
    clock = FakeClock()
    metrics = SelfMetrics()
    metrics.add(agent.SOURCE_READS, "nvml", "ok")
    metrics.add(agent.STAGE_SECONDS, "source", "nvml")
    metrics.add(agent.SOURCE_READS, "nvml", "failed")
    page = Exposition(metrics, clock=clock, profile="full", process=ProcessSamples())
    page.write(
        observed(clock, gpu_frame(clock, {"temperature_celsius": 1, "energy_millijoules": 5})), ()
    )
    seen: list[str] = []
    for line in page.render().decode().splitlines():
        name = line.split()[2] if line.startswith("#") else line.split("{")[0].split()[0]
        if not seen or seen[-1] != name:
            seen.append(name)
    assert sorted(set(seen)) == sorted(seen)
    text = page.render().decode()
    assert (
        text.count("# HELP tocsin_source_reads_total ")
        == text.count("# TYPE tocsin_source_reads_total ")
        == 1
    )


@pytest.mark.parametrize(
    "value", ['say "hi"', "back\\slash", "new\nline", "a\\", "{}=,", "ü€😀", "\t", "#", " "]
)
def test_hostile_label_values_come_through(value: str) -> None:
    """Quotes, backslashes, newlines and any other character are escaped so that
    a parser gets them back.
    """
    clock = FakeClock()
    for form in (TEXT, OPENMETRICS):
        page = shown(
            clock, frame(clock, "gpu", [(gpu(0, name=value), {"temperature_celsius": 41})])
        )
        info = next(
            f for f in families(page, form).values() if f.name in ("tocsin_gpu_info", "tocsin_gpu")
        )
        assert info.samples[0].labels["name"] == value


def test_what_is_no_character_does_not_break_the_page() -> None:
    """An undecodable byte that a file or a log held is shown as a question mark."""
    clock = FakeClock()
    page = shown(
        clock, frame(clock, "gpu", [(gpu(0, name="bad\udcff"), {"temperature_celsius": 41})])
    )
    page.render(OPENMETRICS).decode("utf-8")
    assert "bad?" in page.render().decode()


def test_an_infinite_gauge_is_shown_and_readable() -> None:
    """The text formats have a word for infinity."""
    clock = FakeClock()
    page = shown(clock, gpu_frame(clock, {"temperature_celsius": float("inf")}))
    assert list(samples(page, TEMPERATURE).values()) == [float("inf")]


def test_a_device_that_changes_an_attribute_changes_its_labels() -> None:
    """After a driver update the info series has the new version, and the old series is gone."""
    clock = FakeClock()
    page = shown(
        clock, frame(clock, "gpu", [(gpu(0, driver_version="570"), {"temperature_celsius": 41})])
    )
    assert samples(page, "tocsin_gpu_info", driver_version="570")
    page.write(
        observed(
            clock,
            frame(clock, "gpu", [(gpu(0, driver_version="580"), {"temperature_celsius": 41})]),
        ),
        (),
    )
    assert samples(page, "tocsin_gpu_info", driver_version="580")
    assert not samples(page, "tocsin_gpu_info", driver_version="570")


def test_a_new_device_joins_the_page() -> None:
    """A GPU that appears later has its series from its first frame on."""
    clock = FakeClock()
    page = shown(clock, gpu_frame(clock, {"temperature_celsius": 41}))
    page.write(
        observed(clock, gpu_frame(clock, {"temperature_celsius": 41}, {"temperature_celsius": 42})),
        (),
    )
    assert list(samples(page, TEMPERATURE).values()) == [41.0, 42.0]


def test_openmetrics_ends_and_names_counters_its_own_way() -> None:
    """`# EOF` closes the page; a counter's family is named without `_total`, its sample with it."""
    clock = FakeClock()
    page = shown(clock, gpu_frame(clock, {"energy_millijoules": 5000}))
    text = page.render(OPENMETRICS).decode()
    assert text.endswith("# EOF\n")
    assert "# TYPE tocsin_gpu_energy_joules counter\n" in text
    assert "\ntocsin_gpu_energy_joules_total{" in text
    assert "# TYPE tocsin_gpu info\n" in text


def test_an_empty_agent_has_a_valid_page() -> None:
    """Before the first reading there is a page: the agent's own numbers."""
    page = Exposition(SelfMetrics(), clock=FakeClock())
    assert families(page)["tocsin_findings_overflow"].samples[0].value == 0
    assert families(page, OPENMETRICS)


def test_the_process_has_its_metrics_once() -> None:
    """CPU, memory and descriptors under the names that every Prometheus client uses,
    without `_created` twins.
    """
    page = Exposition(SelfMetrics(), clock=FakeClock(), process=ProcessSamples())
    found = families(page)
    assert {
        "process_cpu_seconds",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    } <= set(found)
    assert "_created" not in page.render().decode()
    assert families(page, OPENMETRICS)["process_cpu_seconds"].type == "counter"


def finding(
    number: int, severity: str = "ticket", phase: str = "onset", detector: str = "ecc"
) -> Finding:
    """A finding about GPU number N."""
    device = Device("n1", "gpu", f"GPU-{number:08x}")
    return Finding(detector, device, "ecc", phase, severity, number, number, "x", "COMPONENT_RESET")  # type: ignore[arg-type]


def test_a_finding_has_a_series_while_it_stands() -> None:
    """It appears with its onset, stays one series while it goes on, and
    vanishes when it is cleared.
    """
    clock = FakeClock()
    page = Exposition(SelfMetrics(), clock=clock)
    for phase, count in (("onset", 1), ("ongoing", 1), ("cleared", 0)):
        page.write(observed(clock), [finding(1, phase=phase)])
        assert len(samples(page, "tocsin_finding_active")) == count
    page.write(observed(clock), [finding(1)])
    ((labels, value),) = samples(page, "tocsin_finding_active").items()
    assert dict(labels) == {
        "detector": "ecc",
        "kind": "gpu",
        "device": "GPU-00000001",
        "severity": "ticket",
        "action": "COMPONENT_RESET",
    }
    assert value == 1.0


def test_findings_are_capped_and_the_gravest_are_shown() -> None:
    """A detector gone wild costs 500 series; pages are among them, and the overflow is a number."""
    clock = FakeClock()
    page = Exposition(SelfMetrics(), clock=clock)
    page.write(observed(clock), [finding(i) for i in range(600)] + [finding(9999, "page")])
    assert len(samples(page, "tocsin_finding_active")) == 500
    assert samples(page, "tocsin_finding_active", severity="page")
    assert list(samples(page, "tocsin_findings_overflow").values()) == [101.0]


@pytest.mark.slow
def test_kept_findings_are_bounded() -> None:
    """A million findings that are never cleared do not fill the memory."""
    clock = FakeClock()
    page = Exposition(SelfMetrics(), clock=clock)
    page.write(observed(clock), [finding(i) for i in range(6000)])
    assert len(page.findings()) == 5000


class OneLine:
    """A dialect of one series."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen = 0

    def write(self, observation: Observation) -> None:
        self.seen += 1

    def render(
        self, snapshot: Snapshot, *, openmetrics: bool
    ) -> tuple[bytes, int, Mapping[str, int]]:
        return (
            f"# HELP {self.name} x\n# TYPE {self.name} gauge\n{self.name} 1\n".encode(),
            1,
            {"not_finite": 2},
        )


def test_a_dialect_is_swapped_whole() -> None:
    """Before a reload the page has the old dialect, after it the new one, and at
    no time neither or both.
    """
    clock, metrics = FakeClock(), SelfMetrics()
    page = Exposition(metrics, clock=clock, dialect=OneLine("OLD"))
    page.write(observed(clock, gpu_frame(clock, {"temperature_celsius": 41})), ())
    new = OneLine("NEW")
    assert {"OLD", TEMPERATURE} <= set(families(page))
    page.configure("default", {}, new)
    assert {"NEW", TEMPERATURE} <= set(families(page))
    assert "OLD" not in families(page)
    page.write(observed(clock), ())
    assert new.seen == 1


def test_reload_under_scrape_never_gives_an_empty_page() -> None:
    """One thread swaps dialects and writes frames while others scrape: every page is whole."""
    clock = FakeClock()
    page = Exposition(SelfMetrics(), clock=clock, dialect=OneLine("A"))
    stop = threading.Event()

    def reload() -> None:
        while not stop.is_set():
            page.configure("default", {}, OneLine("A"))
            page.write(observed(clock, gpu_frame(clock, {"temperature_celsius": 41})), ())

    thread = threading.Thread(target=reload)
    thread.start()
    try:
        pages = [page.render() for _ in range(300)]
    finally:
        stop.set()
        thread.join()
    assert all(b"\nA 1\n" in p and p.endswith(b"\n") for p in pages)


def test_what_a_dialect_drops_is_counted() -> None:
    """By reason, page by page, and the reasons are seen from the first page on."""
    metrics = SelfMetrics()
    page = Exposition(metrics, clock=FakeClock(), dialect=OneLine("A"))
    page.render()
    page.render()
    assert metrics.value(agent.EXPOSITION_DROPPED, "not_finite") == 4
    assert metrics.value(agent.EXPOSITION_DROPPED, "duplicate") == 0


class Xids:
    """XID counters of one GPU: one code seen, one only born."""

    def series(self) -> Iterable[tuple[Device, int, int, int]]:
        return [(gpu(0), 79, 2, 1_800_000_000_500_000_000), (gpu(0), 48, 0, 0)]


def test_xid_counters_are_born_at_zero() -> None:
    """A counter per GPU and code, with the time of the last one where there was one."""
    page = Exposition(SelfMetrics(), clock=FakeClock(), xids=Xids())
    found = {
        dict(labels)["xid"]: (dict(labels), v)
        for labels, v in samples(page, "tocsin_gpu_xid_errors_total").items()
    }
    assert found["79"] == ({"gpu": "0", "uuid": "GPU-00000000", "xid": "79"}, 2.0)
    assert found["48"][1] == 0.0
    seen = samples(page, "tocsin_gpu_xid_last_seen_timestamp_seconds")
    assert list(seen.values()) == [1_800_000_000.5]


def hgx(clock: FakeClock) -> list[Frame]:
    """8 GPUs with 18 links each and 8 ports, everything observed."""
    gpus = [gpu(i, name="NVIDIA H100 80GB HBM3", driver_version="580.65.06") for i in range(8)]
    ports = [
        Device("n1", "ib_port", f"p{i}", {"device": f"mlx5_{i}", "port": "1"}) for i in range(8)
    ]
    links = [
        Device(
            "n1",
            "nvlink",
            f"{g.id}/{n}",
            {"index": g.attributes["index"], "gpu_uuid": g.id, "link": str(n)},
        )
        for g in gpus
        for n in range(18)
    ]
    all_of = {"gpu": gpus, "ib_port": ports, "nvlink": links, "node": [Device("n1", "node", "n1")]}
    return [
        frame(clock, kind, [(d, {f.name: 1 for f in fields_of(kind)}) for d in devices])
        for kind, devices in all_of.items()
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_shows_its_own_fields_only(profile: Profile) -> None:
    """Each profile has the families of the smaller ones and its own."""
    clock = FakeClock()
    page = shown(clock, *hgx(clock), profile=profile)
    described = {
        line.split()[2]
        for line in page.render().decode().splitlines()
        if line.startswith("# TYPE ")
    }
    kinds = ("gpu", "ib_port", "nvlink", "node")
    families_of = {
        rank: {f.metric.name for f in FIELDS if f.kind in kinds and f.profile == rank}
        for rank in PROFILES
    }
    wanted = set().union(*(families_of[rank] for rank in PROFILES[: PROFILES.index(profile) + 1]))
    assert described & {f.metric.name for f in FIELDS} == wanted


def test_the_page_equals_the_clients_own_rendering() -> None:
    """The gauges of a frame are byte for byte what prometheus_client makes of the same values."""
    clock = FakeClock()
    rng = np.random.default_rng(7)
    names = [f for f in fields_of("gpu") if f.type == "gauge" and not f.states]
    readings = [
        (
            gpu(i),
            {
                f.name: float(v)
                for f, v in zip(names, rng.uniform(-1e9, 1e9, len(names)), strict=True)
            },
        )
        for i in range(8)
    ]
    page = shown(clock, frame_of("gpu", readings, clock.time_ns(), clock.monotonic_ns()))
    metrics = {f.metric.name: f.metric for f in names}

    class Collector:
        def collect(self) -> Iterable[GaugeMetricFamily]:
            for metric in metrics.values():
                family = GaugeMetricFamily(metric.name, metric.help, labels=None)
                for field in (f for f in names if f.metric == metric):
                    for device, values in readings:
                        labels = {"gpu": device.attributes["index"], "uuid": device.id} | dict(
                            field.labels
                        )
                        family.samples.append(
                            Sample(metric.name, labels, field.base(values[field.name]))
                        )
                yield family

    registry = CollectorRegistry()
    registry.register(Collector())
    wanted = set(generate_latest(registry).decode().splitlines())
    ours = {
        line
        for line in page.render().decode().splitlines()
        if set(line.replace("{", " ").split()[:3]) & metrics.keys()
    }
    assert {unlabelled(line) for line in wanted} == {unlabelled(line) for line in ours}


def unlabelled(line: str) -> str:
    """A line with its labels in order of name: the client sorts them, we
    keep the catalogue's order.
    """
    if line.startswith("#") or "{" not in line:
        return line
    name, _, rest = line.partition("{")
    labels, _, value = rest.rpartition("}")
    return f"{name}{{{','.join(sorted(labels.split(',')))}}}{value}"


def test_every_kind_has_labels_that_the_catalogue_knows() -> None:
    """A label is filled from a fact of its kind or from the identity."""
    facts = {(fact.kind, fact.name) for fact in FACTS}
    for kind in KINDS.values():
        for _, fact in kind.labels:
            assert fact == "@id" or (kind.name, fact) in facts
