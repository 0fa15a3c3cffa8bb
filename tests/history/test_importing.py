"""What a site recorded becomes observations that detectors judge as they judge an agent's."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.agent.judge import judge_of
from collector.cli.main import main
from collector.config.settings import Config
from history import importing
from history.gather import columns
from history.importing import STATE, bring, find
from history.meaning.labels import LabelMap
from history.site.http import Http
from history.site.series import Series, SiteError
from pipeline.catalog import fields_of
from pipeline.dcgm.counters import Compat
from pipeline.frame import Frame
from pipeline.gpu_state import GpuState
from pipeline.observation import Event, Observation
from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.infiniband.sysfs import Sysfs
from tests.collector.sources.infiniband.test_contract import read as reader
from tests.fakes import FakeClock
from tests.history.recorded import Recorded, Samples, prometheus
from tests.history.site import BEGIN_MS, HOUR_MS, gpu_labels, node, scrapes
from tests.pipeline.dcgm.nodes import BUSY, Node, busy, gpu
from tests.ports import free_port
from tests.stack.bad_day import node_exporter

HOUR = (BEGIN_MS, BEGIN_MS + HOUR_MS)
TWO = (BEGIN_MS, BEGIN_MS + 2 * HOUR_MS)


def observations(site: Recorded, root: Path, span: tuple[int, int] = HOUR) -> list[Observation]:
    """Everything that an import of a span gives back."""
    bring(site, find(site, *span, None), root, span)
    return [seen[0] for seen in replay(root)]


def frames(found: list[Observation], kind: str = "gpu") -> Iterator[Frame]:
    """Their frames of a kind."""
    return (frame for one in found for frame in one.frames if frame.kind == kind)


def events(found: list[Observation]) -> list[Event]:
    """Their events."""
    return [event for one in found for event in one.events]


@pytest.mark.parametrize("compat", ["dcgm-4.8", "dcgm-4.9"])
def test_a_page_of_dcgm_exporter_gives_the_values_that_the_driver_gave(
    compat: Compat, tmp_path: Path
) -> None:
    """As far as the page has them and can tell them: whole MiB and percent, joules in 4.9."""
    shown = Node(compat=compat).see(
        gpu=[(gpu(i), busy(temperature_celsius=60 + i)) for i in (0, 1)]
    )
    site = Recorded()
    for family in text_string_to_metric_families(_untyped(shown.page())):
        for sample in family.samples:
            site.add(sample.name, sample.labels, [(BEGIN_MS, sample.value)])
    (frame,) = frames(observations(site, tmp_path))
    assert [device.id for device in frame.devices] == [gpu(i).id for i in (0, 1)]
    assert [device.attributes for device in frame.devices] == [gpu(i).attributes for i in (0, 1)]
    for row, device in enumerate(frame.devices):
        for name, value in BUSY.items():
            wanted = 60 + row if name == "temperature_celsius" else value
            got = frame.value(name, row)
            coarse = {"memory": 1 << 20, "energy": 1000}.get(name.partition("_")[0], 0)
            if got is not None:
                assert got == pytest.approx(wanted, rel=1e-12, abs=coarse), (device.id, name)
    seen = {name for name in BUSY if frame.value(name, 0) is not None}
    assert {"power_milliwatts", "energy_millijoules", "tensor_activity_percent"} < seen


@pytest.mark.integration
def test_a_page_of_node_exporter_gives_the_counters_that_our_own_reader_reads(
    tmp_path: Path,
) -> None:
    """The real one over a tree in which each counter has a value of its own."""
    tree = Sysfs(tmp_path / "sys")
    values = {f.name: f.id * 1000 + 1 for f in fields_of("ib_port") if f.type == "counter"}
    tree.add(counters=values)
    port = free_port()
    with node_exporter(tree.root, port, tmp_path / "log") as server:
        http = Http(f"http://127.0.0.1:{port}", sleep=lambda _: None)
        page = server.until(lambda: _page(http), "its page")
    site = Recorded()
    unknown = set()
    for family in text_string_to_metric_families(_untyped(page)):
        for sample in family.samples:
            labels = {**sample.labels, "instance": "n1:9100"}
            site.add(sample.name, labels, [(BEGIN_MS, sample.value)])
            if sample.name.startswith("node_infiniband_") and sample.name not in columns():
                unknown.add(sample.name)
    (imported,) = frames(observations(site, tmp_path / "store"), "ib_port")
    source, _ = reader(tree)
    own = source.read().frames[0]
    source.close()
    for field in fields_of("ib_port"):
        if (got := imported.value(field.name, 0)) is not None:
            assert got == own.value(field.name, 0), field.name
    counters = [f.name for f in fields_of("ib_port") if imported.value(f.name, 0) is not None]
    assert {"link_downed", "receive_words", "state", "rate_bits_per_second"} < set(counters)
    # unicast and multicast packets, and facts of the adapter, are of no detector
    assert all("cast" in name or name == "node_infiniband_info" for name in unknown), unknown


def _untyped(page: str) -> str:
    """Without types: the parser gives a counter without ``_total`` another name."""
    return "".join(line for line in page.splitlines(keepends=True) if not line.startswith("#"))


def _page(http: Http) -> str:
    try:
        return http.get("/metrics").body.decode()
    except SiteError:
        return ""


@pytest.mark.slow
def test_each_scrape_is_a_read_at_its_time(tmp_path: Path) -> None:
    """Two nodes with offsets of their own; the gap stays a gap."""
    site = Recorded()
    first = [ms for ms in scrapes(*HOUR) if not 600_000 <= ms - BEGIN_MS < 660_000]
    node(site, "n1", first)
    node(site, "n2", second := scrapes(*HOUR, offset_ms=7_003))
    found = observations(site, tmp_path)
    for host, times in (("n1", first), ("n2", second)):
        own = [one for one in found if one.host == host]
        assert [one.time_ns // 1_000_000 for one in own] == times
        assert {one.source for one in own} == {"dcgm-exporter"}
        assert [one.seq for one in own] == sorted(one.seq for one in own)


@pytest.mark.slow
def test_a_gpu_that_its_exporter_lists_no_more_is_absent_until_it_is_back(tmp_path: Path) -> None:
    """Also over the hour's end. Where no GPU is listed nothing is known of any."""
    site = Recorded()
    times = scrapes(*TWO)
    gone = [ms for ms in times if not 3_000_000 <= ms - BEGIN_MS < 4_200_000]
    dark = [ms for ms in times if not 6_000_000 <= ms - BEGIN_MS < 6_600_000]
    both = sorted(set(gone) & set(dark))
    for i, own in ((0, dark), (1, both)):
        site.add("DCGM_FI_DEV_GPU_TEMP", gpu_labels("n1", i), [(ms, 50.0) for ms in own])
    states = {
        frame.time_ns // 1_000_000: frame.gauge("state").tolist()
        for frame in frames(observations(site, tmp_path, TWO))
    }
    assert sorted(states) == dark
    for ms in dark:
        wanted = GpuState.OK if ms in gone else GpuState.ABSENT
        assert states[ms] == [GpuState.OK, wanted]


def test_another_code_of_the_last_xid_is_an_event_and_an_old_one_is_none(tmp_path: Path) -> None:
    """The gauge keeps the last code for weeks; what it had at the beginning is of before. The label
    with the error's words ends the series and begins another.
    """
    site = Recorded()
    times = scrapes(*TWO)
    at = {79: times[100], 48: times[300]}
    before = gpu_labels("n1", 0, err_code="31", err_msg="MMU")
    site.add("DCGM_FI_DEV_GPU_TEMP", gpu_labels("n1", 0), [(ms, 50.0) for ms in times])
    name = "DCGM_FI_DEV_XID_ERRORS"
    site.add(name, before, [(ms, 31.0) for ms in times if ms < at[79]])
    for code, since, until in ((79, at[79], at[48]), (48, at[48], times[-1] + 1)):
        labels = gpu_labels("n1", 0, err_code=str(code), err_msg="x")
        site.add(name, labels, [(ms, float(code)) for ms in times if since <= ms < until])
    found = [event for event in events(observations(site, tmp_path, TWO)) if event.kind == "xid"]
    assert [(event.attributes["code"], event.time_ns // 1_000_000) for event in found] == list(
        at.items()
    )
    assert {event.device.id for event in found} == {"GPU-n1-0"}
    assert {event.attributes["pci"] for event in found} == {"00000000:10:00.0"}


@pytest.mark.parametrize("value", [float("inf"), -1.0, 1e300, 2.0**64, 0.5, -0.0])
def test_a_value_that_no_device_has_costs_itself_only(value: float, tmp_path: Path) -> None:
    """In a gauge, a counter, a code."""
    site = Recorded()
    times = scrapes(*HOUR)[:3]
    for name in ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"):
        site.add(name, gpu_labels("n1", 0), [(ms, value) for ms in times])
    site.add("DCGM_FI_DEV_XID_ERRORS", gpu_labels("n1", 0), [(times[0], 0.0), (times[1], value)])
    site.add("DCGM_FI_DEV_GPU_TEMP", gpu_labels("n1", 0), [(ms, 50.0 + ms % 7) for ms in times])
    found = list(frames(observations(site, tmp_path)))
    assert [frame.value("temperature_celsius", 0) for frame in found] == [
        50 + ms % 7 for ms in times
    ]
    for frame in found:
        replays = frame.value("pcie_replays", 0)
        assert replays is None or 0 <= replays < 2**64


@pytest.mark.slow
def test_jobs_start_change_and_end_with_the_labels_of_their_gpus(tmp_path: Path) -> None:
    """Over the hour's end, and without a word while nothing changes."""
    site = Recorded()
    times = scrapes(*TWO)
    start, grow, end = times[20], times[300], times[400]

    def held(i: int, ms: int) -> str:
        return "4711" if (start if i == 0 else grow) <= ms < end else ""

    for i in (0, 1):
        for job in ("", "4711"):
            samples = [(ms, 50.0 + ms % 7) for ms in times if held(i, ms) == job]
            more = {"hpc_job": job} if job else {}
            site.add("DCGM_FI_DEV_GPU_TEMP", gpu_labels("n1", i, **more), samples)
    found = [e for e in events(observations(site, tmp_path, TWO)) if e.kind.startswith("job_")]
    assert [
        (event.kind, event.time_ns // 1_000_000, event.attributes.get("gpus")) for event in found
    ] == [
        ("job_started", start, "GPU-n1-0"),
        ("job_started", grow, "GPU-n1-0 GPU-n1-1"),
        ("job_ended", end, None),
    ]
    assert {event.attributes["job"] for event in found} == {"4711"}


@pytest.mark.slow
def test_a_reboot_begins_another_boot_and_a_corrected_clock_does_not(tmp_path: Path) -> None:
    """The kernel works out the time of the boot from two clocks."""
    site = Recorded()
    times = scrapes(*TWO)
    node(site, "n1", times, gpus=1)
    reboot = times[250]
    boot_s = BEGIN_MS / 1000 - 86_400
    site.add(
        "node_boot_time_seconds",
        {"instance": "10.0.0.1:9100"},
        [
            (ms + 2_000, boot_s + (i % 2) if ms < reboot else ms // 1000 - 40)
            for i, ms in enumerate(times)
        ],
    )
    names = {"instance": "10.0.0.1:9100", "nodename": "n1"}
    site.add("node_uname_info", names, [(ms, 1.0) for ms in times])
    found = observations(site, tmp_path, TWO)
    boots = list(dict.fromkeys(one.boot_id for one in found))
    late = [one for one in found if one.time_ns // 1_000_000 >= reboot + 15_000]
    assert {one.host for one in found} == {"n1"}
    assert len({one.boot_id for one in found if one.time_ns // 1_000_000 < reboot}) == 1
    assert len({one.boot_id for one in late if one.time_ns // 1_000_000 < reboot + 30_000}) == 1
    assert found[0].boot_id != late[0].boot_id
    assert len(boots) >= 2
    first = found[0]
    assert abs(first.mono_ns - (first.time_ns - boot_s * 1e9)) < 2e9


@pytest.mark.slow
def test_the_same_store_whether_in_one_run_or_in_many(tmp_path: Path) -> None:
    """An import that is ended at any question goes on where it was."""
    site = _storied()
    whole = observations(site, tmp_path / "whole", TWO)

    class Ending(Recorded):
        left = 0

        def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
            self.left -= 1
            if self.left < 0:
                raise SiteError("gone")
            return super().read(name, begin_ms, end_ms)

    ending, found = Ending(site.series), find(site, *TWO, None)
    draw = random.Random(7)
    for _ in range(200):
        ending.left = draw.randrange(1, 9)
        try:
            bring(ending, found, tmp_path / "parts", TWO)
            break
        except SiteError as error:
            assert str(error) == "gone"
    else:
        pytest.fail("it never ended")
    assert [seen[0] for seen in replay(tmp_path / "parts")] == whole
    asked = [question for question in ending.asked if question[1] == BEGIN_MS]
    assert asked.count(asked[0]) < 200


def _storied() -> Recorded:
    """Two hours with something of everything."""
    site = Recorded()
    times = scrapes(*TWO)
    node(site, "n1", times[:200], hpc_job="1")
    node(site, "n1", times[200:])
    node(site, "n2", scrapes(*TWO, offset_ms=4_000), prometheus_replica="a")
    node(site, "n2", scrapes(*TWO, offset_ms=9_000), prometheus_replica="b")
    return site


@pytest.mark.slow
def test_a_site_that_grew_is_asked_for_as_much_as_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After empty hours, asked for many at once, come hours of which one is too much: parts of it
    are asked for, and the store is the same.
    """
    grown = (TWO[0] - 30 * HOUR_MS, TWO[1])
    site = _storied()
    whole = observations(site, tmp_path / "whole", TWO)
    samples = 2 * 4 * 240 * 3  # of an hour: GPUs, metrics, scrapes, of n1 and twice n2
    series = 240  # of an hour
    held: Counter[tuple[int, int]] = Counter()

    class Counted(Recorded):
        def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
            for one in super().read(name, begin_ms, end_ms):
                held[begin_ms, end_ms] += len(one.times_ms)
                yield one

    monkeypatch.setattr(importing, "MAX_HELD", samples // 3)
    monkeypatch.setattr(importing, "MAX_PART", samples // 6)
    monkeypatch.setattr(importing, "MAX_ASKED", samples // 10)
    counted = Counted(site.series)
    found = find(site, *grown, None)
    done = bring(counted, found, tmp_path / "parts", grown)
    assert done.account.samples == 2 * samples
    assert max(held.values()) <= samples // 3 + 2 * series
    assert max(end - begin for begin, end in held) == 24 * HOUR_MS
    assert {end - begin for begin, end in held if begin > TWO[0]} < {HOUR_MS // 4, HOUR_MS // 8}
    assert [seen[0] for seen in replay(tmp_path / "parts")] == whole


@pytest.mark.slow
def test_a_store_is_brought_up_to_date_by_a_later_run(tmp_path: Path) -> None:
    """And is not read from the beginning."""
    site = _storied()
    found = find(site, *TWO, None)
    bring(site, found, tmp_path / "later", HOUR)
    site.asked.clear()
    done = bring(site, found, tmp_path / "later", TWO)
    assert min(begin for _, begin, _ in site.asked) == HOUR[1]
    assert done.next_ms == TWO[1]
    whole = observations(site, tmp_path / "whole", TWO)
    assert [seen[0] for seen in replay(tmp_path / "later")] == whole


def test_labels_are_proposed_for_all_nodes_though_few_have_the_first_metric_by_name() -> None:
    """Whatever part of an hour is over when the import begins."""
    site, times = Recorded(), scrapes(*HOUR)
    for number in (1, 2):
        node(site, f"n{number}", times)
        about = {"instance": f"10.0.0.{number}:9100", "nodename": f"n{number}"}
        site.add("node_uname_info", about, [(ms, 1.0) for ms in times])
    rare = gpu_labels("n1", 0)
    site.add("DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", rare, [(ms, 0.0) for ms in times])
    site.add("DCGM_FI_DEV_POWER_USAGE", rare, [(HOUR[1] + 2_000, 400.0)])
    for end_ms in (HOUR[1], HOUR[1] + 5_000):
        labels = find(site, HOUR[0], end_ms, None).labels
        assert labels.nodes == {"10.0.0.1": "n1", "10.0.0.2": "n2"}


@pytest.mark.slow
def test_another_site_or_an_earlier_begin_is_not_mixed_in(tmp_path: Path) -> None:
    """The folder is named."""
    site = _storied()
    found = find(site, *TWO, None)
    bring(site, found, tmp_path, TWO)
    with pytest.raises(SiteError, match="begins later"):
        bring(site, found, tmp_path, (TWO[0] - HOUR_MS, TWO[1]))
    with pytest.raises(SiteError, match="another folder"):
        bring(Recorded(site.series, about="elsewhere"), found, tmp_path, TWO)


@pytest.mark.slow
def test_an_import_goes_on_by_the_labels_by_which_it_began(tmp_path: Path) -> None:
    """Proposals may change with what is found; a node gets no second name. What a mapping of the
    site declares otherwise, or another cluster, belongs into another folder.
    """
    site = _storied()
    found = find(site, *TWO, None)
    bring(site, found, tmp_path, HOUR, cluster="c1")
    other = LabelMap(node=("exported_job",), nodes={"x": "y"})
    done = bring(site, replace(found, labels=other), tmp_path, TWO, cluster="c1")
    assert done.labels == replace(found.labels, nodes={**found.labels.nodes, "x": "y"})
    with pytest.raises(SiteError, match="the mapping is another one"):
        bring(site, replace(found, labels=other, declared=True), tmp_path, TWO, cluster="c1")
    with pytest.raises(SiteError, match="is of the cluster 'c1'"):
        bring(site, found, tmp_path, TWO, cluster="c2")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format":1}', b'{"format":2}'])
def test_a_damaged_record_of_an_import_is_named(damage: bytes, tmp_path: Path) -> None:
    """It is not begun again over what is there."""
    site = _storied()
    found = find(site, *TWO, None)
    bring(site, found, tmp_path, HOUR)
    (tmp_path / STATE).write_bytes(damage)
    with pytest.raises(SiteError, match=r"import\.json"):
        bring(site, found, tmp_path, TWO)


def test_what_is_left_out_is_counted_and_named(tmp_path: Path) -> None:
    """MIG instances, series without a node, fields that are not understood."""
    site = Recorded()
    times = scrapes(*HOUR)
    node(site, "n1", times, gpus=1)
    name = "DCGM_FI_DEV_GPU_TEMP"
    site.add(name, gpu_labels("n1", 0, GPU_I_ID="1"), [(ms, 1.0) for ms in times])
    site.add(name, {"gpu": "0", "UUID": "GPU-x"}, [(ms, 1.0) for ms in times])
    site.add("DCGM_FI_DEV_OF_TOMORROW", gpu_labels("n1", 0), [(ms, 1.0) for ms in times])
    found = find(site, *HOUR, None)
    assert found.strange == ("DCGM_FI_DEV_OF_TOMORROW",)
    account = bring(site, found, tmp_path, HOUR).account
    assert dict(account.skipped) == {
        ("MIG instance", name): len(times),
        ("no node or device", name): len(times),
    }


def test_a_site_without_gpus_is_said_to_have_none() -> None:
    """With the number of metrics that it has."""
    site = Recorded()
    site.add("up", {"instance": "n1:9100"}, [(BEGIN_MS, 1.0)])
    with pytest.raises(SiteError, match="1 metrics"):
        find(site, *HOUR, None)


def rates_of_energy(site: Recorded, folder: Path) -> list[float]:
    """Milliwatts at each read, as the judge that replay makes has them."""
    judge = judge_of(Config(), SelfMetrics(), FakeClock())
    rates = []
    for one in observations(site, folder):
        (frame,) = judge.judge(one).observation.frames
        assert frame.increments is not None
        rates.append(frame.increments.rate(frame.schema.counter_row["energy_millijoules"])[0])
    return rates


@pytest.mark.slow
@pytest.mark.parametrize("step_s", [10, 15, 30, 60])
def test_counters_have_rates_at_every_cadence_of_a_site(step_s: int, tmp_path: Path) -> None:
    """The judge that replay makes knows how far apart an exporter's reads are."""
    site = Recorded()
    times = scrapes(*HOUR, step_ms=step_s * 1000)
    watts = 400.0
    energy = [(ms, (ms - BEGIN_MS) * watts) for ms in times]
    site.add("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", gpu_labels("n1", 0), energy)
    rates = rates_of_energy(site, tmp_path)
    assert np.isnan(rates[0])
    assert rates[1:] == [pytest.approx(watts * 1000)] * (len(times) - 1)


@pytest.mark.slow
def test_a_counter_that_begins_again_has_no_rate_there(tmp_path: Path) -> None:
    """The driver was loaded again, with a gap of a minute: neither a fall nor a jump is a rate."""
    site = Recorded()
    times = [ms for ms in scrapes(*HOUR) if not 600_000 <= ms - BEGIN_MS < 660_000]
    first = [ms for ms in times if ms < BEGIN_MS + 600_000]
    energy = [(ms, (ms - (BEGIN_MS - 10**9 if ms in first else times[0])) * 400.0) for ms in times]
    site.add("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", gpu_labels("n1", 0), energy)
    rates = rates_of_energy(site, tmp_path)
    known = [rate for rate in rates if not np.isnan(rate)]
    assert known == [pytest.approx(400_000.0)] * (len(times) - 2)


@pytest.mark.integration
def test_a_lost_gpu_is_found_in_the_history_of_a_real_prometheus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands as a user types them: import, replay, backtest; one GPU of one node is named."""
    site = Recorded()
    times = scrapes(*TWO)
    node(site, "n1", times, gpus=4)
    lost = times[200]
    for labels, samples in _nodes_series("n2", times):
        name = labels.pop("__name__")
        last = lost + 60_000 if labels["gpu"] == "3" else times[-1] + 1
        kept = [(ms, v) for ms, v in samples if ms < last]
        if name == "DCGM_FI_DEV_XID_ERRORS" and labels["gpu"] == "3":
            kept = [(ms, 79.0 if ms >= lost else 0.0) for ms, _ in kept]
        site.add(name, labels, kept)
    alert = {"alertname": "GpuLost", "alertstate": "firing", "Hostname": "n2"}
    site.add("ALERTS", alert, [(ms, 1.0) for ms in times if ms > lost + 600_000])
    store, report, written = (str(tmp_path / name) for name in ("store", "r.html", "t.yaml"))
    drains = tmp_path / "drains.csv"
    drains.write_text(f"node,opened,cause\nn2,{lost // 1000 + 7200 // 2},GPU fell off the bus\n")
    with prometheus(site, tmp_path) as url:
        span = ["--since", _text(TWO[0]), "--until", _text(TWO[1])]
        beside = ["--known", str(drains), "-o", report, "--write", written]
        assert main(["backtest", "--prometheus", url, *span, *beside]) == 0
        capsys.readouterr()
        command = ["import", url, "--to", store, *span]
        assert main(command) == 0
        said = capsys.readouterr().out
        assert "2 nodes, 8 GPUs" in said
        assert main(command) == 0  # nothing is left to do
        capsys.readouterr()
    assert main(["replay", "--from", store]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    pages = [one for one in found if one["type"] == "finding" and one["severity"] == "page"]
    assert {(one["host"], one["device"]) for one in pages} == {("n2", "GPU-n2-3")}
    assert {one["detector"] for one in pages} == {"xid", "availability"}
    page = Path(report).read_text()
    assert "As installed Tocsin would have sent 1 page and 0 tickets." in page
    assert "1.0 h before" in page
    assert "<b>1 of 1</b>faults had an alert" in page
    assert "<td>GpuLost</td><td>1</td><td>1</td><td>1</td><td>1</td>" in page
    assert "<svg" in page
    assert "not judged: needs the source nccl" in page
    assert Path(written).read_text().startswith("# Written by tocsin backtest")


def _nodes_series(host: str, times: list[int]) -> Iterator[tuple[dict[str, str], Samples]]:
    whole = Recorded()
    node(whole, host, times, gpus=4)
    for labels, samples in whole.series:
        yield dict(labels), samples


def _text(ms: int) -> str:
    return str(np.datetime64(ms, "ms")) + "Z"


def test_a_store_of_an_agent_is_not_written_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only an empty folder, or one of an import."""
    (tmp_path / "wal").mkdir()
    assert main(["import", "http://127.0.0.1:1", "--to", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err


@pytest.mark.slow  # the commands import much
@pytest.mark.parametrize("command", ["import", "backtest --prometheus", "report --prometheus"])
def test_an_address_without_http_is_named_in_a_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`prometheus:9090` is how a scrape configuration has it, and reads as a scheme."""
    to = ["--to", str(tmp_path / "store")] if command == "import" else []
    main([*command.split(), "prometheus:9090", *to, "--since", "1h"])
    assert "prometheus:9090: names no host: expected http://" in capsys.readouterr().err
