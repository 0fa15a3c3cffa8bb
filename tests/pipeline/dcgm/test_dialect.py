"""The dialect's rows: labels, values, MIG, what is blank, and what a refused sample costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pipeline.catalog import FACTS, FIELDS, Dcgm, Field
from pipeline.clock import SECOND_NS
from pipeline.dcgm import EXTENDED_FILE, Compat, JobLabels, LabelStyle, load, parse, parse_selection
from pipeline.dcgm.clock_events import ClockEvents
from pipeline.dcgm.names import AMBIGUOUS
from pipeline.dcgm.names import rows as known_rows
from pipeline.frame import Device
from tests.fakes import FakeClock
from tests.pipeline.dcgm import nodes
from tests.pipeline.dcgm.nodes import GIB, Node, busy, gpu, holder, instance
from tests.pipeline.exposition.pages import frame

TEMP, XID = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_XID_ERRORS"


class FakeXids:
    """XIDs that are told."""

    def __init__(self, **last: int) -> None:
        self.codes = {device.replace("_", "-"): code for device, code in last.items()}
        self.window: dict[int, int] = {}
        self.asked: list[tuple[str, int, int]] = []
        self.rows: list[tuple[Device, int, int, int]] = []

    def series(self) -> Iterable[tuple[Device, int, int, int]]:
        return self.rows

    def last(self, device_id: str) -> int:
        return self.codes.get(device_id, 0)

    def recent(self, device_id: str, window_ns: int, now_ns: int) -> Mapping[int, int]:
        self.asked.append((device_id, window_ns, now_ns))
        return self.window


def csv(*rows: str, **options: object) -> Node:
    """A node with these rows as its counters file."""
    return Node(counters=parse("".join(f"{row}\n" for row in rows), "c.csv"), **options)  # type: ignore[arg-type]


def labels(line: str) -> list[str]:
    """Names of a line's labels in order; no value here holds a comma."""
    return [
        pair.partition("=")[0] for pair in line[line.index("{") + 1 : line.rindex("}")].split(",")
    ]


def test_a_line_is_that_of_dcgm_exporter() -> None:
    """The whole line, as the README of dcgm-exporter and public captures show it."""
    (line,) = Node().see(gpu=[(gpu(0), busy())]).lines(XID)
    assert line == (
        'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-5fd4f087-86f3-7a43-b711-4771313afc00",'
        'pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",'
        'Hostname="n1",DCGM_FI_DRIVER_VERSION="570.86.10",err_code="0",err_msg="No Error"} 0'
    )


def test_labels_come_in_dcgm_exporters_order() -> None:
    """Own labels, label-typed fields by name, attributes by name: `container` before
    `err_code` before `namespace`.
    """
    node = csv(
        f"{XID}, gauge, x",
        "DCGM_FI_DEV_SERIAL, label, s",
        "DCGM_FI_DRIVER_VERSION, label, d",
        jobs=JobLabels(kubernetes=True),
    )
    held = [holder(gpu(0), pod="p", namespace="ns", container="c")]
    (line,) = node.see(gpu=[(gpu(0, serial="165"), busy())], device_job=held).lines(XID)
    own = ["gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname"]
    typed = ["DCGM_FI_DEV_SERIAL", "DCGM_FI_DRIVER_VERSION"]
    assert labels(line) == own + typed + ["container", "err_code", "err_msg", "namespace", "pod"]


def test_mig_labels_stand_before_the_host_name() -> None:
    """Profile and instance number follow the model."""
    line = nodes.mig(Node()).lines(TEMP)[0]
    assert labels(line)[4:8] == ["modelName", "GPU_I_PROFILE", "GPU_I_ID", "Hostname"]
    assert 'GPU_I_PROFILE="3g.40gb",GPU_I_ID="1"' in line


@pytest.mark.parametrize(
    ("style", "present", "absent"),
    [
        (LabelStyle("n1", "hostname"), 'hostname="n1"', "Hostname="),
        (LabelStyle(""), 'gpu="0"', "ostname="),
        (LabelStyle("n1", old_namespace=True), 'uuid="GPU-', "UUID="),
        (LabelStyle("n1", replace_blanks=True), 'modelName="NVIDIA-H100-80GB-HBM3"', "NVIDIA H100"),
        (LabelStyle('n"1\n'), 'Hostname="n\\"1\\n"', "\r"),
    ],
)
def test_switches_change_the_labels(style: LabelStyle, present: str, absent: str) -> None:
    """-n, -o, --rbmn and the spelling of the host label; escaping holds in each."""
    (line,) = Node(style=style).see(gpu=[(gpu(0), busy())]).lines(TEMP)
    assert present in line
    assert absent not in line


def test_runs_of_blanks_become_one_dash() -> None:
    """--rbmn collapses them."""
    (line,) = (
        Node(style=LabelStyle("n1", replace_blanks=True))
        .see(gpu=[(gpu(0, "A  B   C"), busy())])
        .lines(TEMP)
    )
    assert 'modelName="A-B-C"' in line


def test_a_hostile_pod_name_does_not_break_the_page() -> None:
    """A quote and a newline in an attribute come back from the parser as they were."""
    evil = 'p"}\n# HELP x'
    node = Node(jobs=JobLabels(kubernetes=True)).see(
        gpu=[(gpu(0), busy())], device_job=[holder(gpu(0), pod=evil)]
    )
    found = [
        sample.labels["pod"] for family in parse_text(node.page()) for sample in family.samples
    ]
    assert set(found) == {evil}


def test_several_holders_copy_the_series() -> None:
    """Every sample is repeated for each line of the job mapping; a device
    nobody holds has its one row.
    """
    node = Node().see(
        gpu=[(gpu(0), busy()), (gpu(1), busy())],
        device_job=[holder(gpu(0), mapped=job) for job in "12"],
    )
    assert ["hpc_job" in line for line in node.lines(TEMP)] == [True, True, False]


def test_a_holder_that_changes_changes_the_labels() -> None:
    """The next scrape after a job has moved shows the new one alone."""
    node = Node(jobs=JobLabels(kubernetes=True)).see(
        gpu=[(gpu(0), busy())], device_job=[holder(gpu(0), pod="a")]
    )
    assert 'pod="a"' in node.lines(TEMP)[0]
    (line,) = node.see(device_job=[holder(gpu(0), pod="b")]).lines(TEMP)
    assert 'pod="b"' in line


def test_label_typed_fields_that_are_blank_are_absent() -> None:
    """A fact that is unknown makes no label, an empty one neither."""
    node = csv(
        f"{TEMP}, gauge, x", "DCGM_FI_DEV_SERIAL, label, s", "DCGM_FI_DEV_VBIOS_VERSION, label, v"
    )
    (line,) = node.see(gpu=[(gpu(0, serial=""), busy())]).lines(TEMP)
    assert "SERIAL" not in line
    assert "VBIOS" not in line


def test_a_value_that_is_worked_out_may_be_a_label() -> None:
    """It is on every row as DCGM has it: compute capability 9.0 is 9 * 65536, and the share of
    memory in use is the instance's own.
    """
    node = csv(
        f"{TEMP}, gauge, x",
        "DCGM_FI_DEV_CUDA_COMPUTE_CAPABILITY, label, c",
        "DCGM_FI_DEV_COMPUTE_MODE, label, m",
    ).see(gpu=[(gpu(0, compute_capability="9.0"), busy(compute_mode=2)), (gpu(1), busy())])
    first, second = node.lines(TEMP)
    assert 'DCGM_FI_DEV_CUDA_COMPUTE_CAPABILITY="589824"' in first
    assert 'DCGM_FI_DEV_COMPUTE_MODE="1"' in first
    assert "COMPUTE" not in second
    lines = nodes.mig(csv(f"{TEMP}, gauge, x", "DCGM_FI_DEV_FB_USED_PERCENT, label, u")).lines(TEMP)
    assert len({line.partition("FB_USED_PERCENT=")[2] for line in lines}) == 4


def test_a_number_may_be_a_label() -> None:
    """A numeric field of type label is a label on every row and no family; its
    change changes the label.
    """
    node = csv(f"{TEMP}, gauge, x", "DCGM_FI_DEV_MIG_MODE, label, m").see(
        gpu=[(gpu(0), busy(mig_mode_current=0))]
    )
    assert node.page().count("# TYPE") == 1
    assert 'DCGM_FI_DEV_MIG_MODE="0"' in node.lines(TEMP)[0]
    node.see(gpu=[(gpu(0), busy(mig_mode_current=1))])
    assert 'DCGM_FI_DEV_MIG_MODE="1"' in node.lines(TEMP)[0]


def test_blank_values_are_omitted_with_their_family() -> None:
    """What was not read has no sample; a family without samples has no HELP either."""
    node = Node().see(gpu=[(gpu(0), busy(temperature_celsius=None)), (gpu(1), busy())])
    assert len(node.lines(TEMP)) == 1
    node.see(
        gpu=[(gpu(0), busy(temperature_celsius=None)), (gpu(1), busy(temperature_celsius=None))]
    )
    assert TEMP not in node.page()


@pytest.mark.parametrize("value", [2147483632, 2147483633, 2147483634, 2147483635])
def test_an_honest_counter_is_never_taken_for_a_sentinel(value: int) -> None:
    """DCGM's blank numbers are real values here: they are shown."""
    (line,) = (
        Node()
        .see(gpu=[(gpu(0), busy(energy_millijoules=value))])
        .lines("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
    )
    assert line.endswith(f" {value}")


@pytest.mark.parametrize(
    ("field", "native"), [("temperature_celsius", 201), ("memory_temperature_celsius", 255)]
)
def test_sensor_garbage_is_dropped(field: str, native: int) -> None:
    """DCGM drops temperatures above 200 degrees; 200 itself stands."""
    name = TEMP if field == "temperature_celsius" else "DCGM_FI_DEV_MEMORY_TEMP"
    assert Node().see(gpu=[(gpu(0), busy(**{field: native}))]).values(name) == []
    assert Node().see(gpu=[(gpu(0), busy(**{field: 200}))]).values(name) == [200.0]


def test_a_lost_gpu_leaves_its_xid_row_only() -> None:
    """Its values vanish as with DCGM, its neighbour's stay, and the XID row says why."""
    lost = gpu(1)
    node = nodes.lost(Node(xids=FakeXids(**{lost.id.replace("-", "_"): 79})))
    rows = [line for line in node.page().splitlines() if lost.id in line]
    (line,) = rows
    assert 'err_code="79",err_msg="GPU no longer answers on the PCIe bus"} 79' in line


@pytest.mark.parametrize("state", [3, 5])
def test_a_gpu_that_is_absent_or_in_a_virtual_machine_has_no_rows(state: int) -> None:
    """DCGM does not know it; its own series say where it is."""
    node = Node().see(gpu=[(gpu(0), busy()), (gpu(1), {"state": state})])
    assert gpu(1).id not in node.page()


def test_the_xid_label_changes_with_the_code() -> None:
    """Zero before any event, then the last code with our short text, unknown codes included."""
    xids = FakeXids()
    node = Node(xids=xids).see(gpu=[(gpu(0), busy())])
    assert 'err_code="0",err_msg="No Error"} 0' in node.lines(XID)[0]
    xids.codes[gpu(0).id] = 9999
    (line,) = node.lines(XID)
    assert 'err_code="9999",err_msg="not in the catalogue"} 9999' in line


def test_readings_of_a_silent_source_are_gone() -> None:
    """Three periods without a frame leave nothing but the XID rows."""
    node = nodes.hgx(Node())
    node.clock.advance(4)
    page = node.page()
    assert page.count("# TYPE") == 1
    assert len(node.lines(XID)) == 8


def test_no_gpu_no_page() -> None:
    """Before the first frame the dialect adds nothing."""
    assert Node().page() == ""


# MIG


def test_flex_shows_instances_instead_of_their_gpu() -> None:
    """A GPU with instances has rows for them alone; its neighbour without instances has its own."""
    node = nodes.mig(Node())
    assert [("GPU_I_ID" in line, 'gpu="0"' in line) for line in node.lines(TEMP)] == [
        (True, True)
    ] * 3 + [(False, False)]
    assert [line.partition('GPU_I_ID="')[2].partition('"')[0] for line in node.lines(TEMP)[:3]] == [
        "1",
        "5",
        "13",
    ]


def test_instances_have_their_own_memory_and_their_gpus_temperature() -> None:
    """Fields of GPU level are repeated on each instance, fields of instance level differ."""
    node = nodes.mig(Node())
    assert node.values(TEMP) == [61.0, 61.0, 61.0, 44.0]
    assert node.values("DCGM_FI_DEV_FB_USED") == [
        1.0,
        5.0,
        13.0,
        float(nodes.BUSY["memory_used_bytes"] >> 20),
    ]
    assert node.values("DCGM_FI_PROF_GR_ENGINE_ACTIVE") == [0.01, 0.05, 0.13, 0.96]


def test_an_instance_that_is_gone_gives_its_gpu_back() -> None:
    """When the last instance is destroyed the GPU has its own row again."""
    node = nodes.mig(Node())
    gone: list[tuple[Device, nodes.Values]] = [
        (instance(gpu(0, nodes.A100), n, p), {})
        for n, p in ((1, "3g.40gb"), (5, "1g.10gb"), (13, "1g.10gb"))
    ]
    node.see(gpu=[(gpu(0, nodes.A100), busy()), (gpu(1, nodes.A100), busy())], gpu_instance=gone)
    assert ["GPU_I_ID" in line for line in node.lines(TEMP)] == [False, False]


@pytest.mark.parametrize(
    ("option", "rows"),
    [("g", 2), ("i", 3), ("g+i", 5), ("g:1", 1), ("i:0", 1), ("i:0.5", 1), ("f", 4), ("g:7", 0)],
)
def test_the_device_option_chooses_rows(
    option: str, rows: int, caplog: pytest.LogCaptureFixture
) -> None:
    """-d in all its forms; a GPU that is not there is named once in the log."""
    node = nodes.mig(Node(selection=parse_selection(option)))
    assert len(node.lines(TEMP)) == rows
    node.page()
    said = [record.message for record in caplog.records]
    assert said == (["couldn't find requested GPU ID '7'"] if option == "g:7" else [])


def test_xids_of_an_instance_are_its_own() -> None:
    """An instance's row has the code that the driver reported for it."""
    node = nodes.mig(Node(xids=FakeXids(MIG_5_0=31)))
    assert node.values(XID) == [0.0, 31.0, 0.0, 0.0]


# Values

SCALED = [(f, d) for f in FIELDS if f.kind == "gpu" for d in f.dcgm]


@pytest.mark.parametrize(
    ("field", "dcgm"), SCALED, ids=lambda x: x.name if isinstance(x, Field) else str(x.id)
)
def test_every_field_is_shown_at_dcgms_scale(field: Field, dcgm: Dcgm) -> None:
    """A value that no other field has comes out exactly: whole numbers truncated, the
    others as the nearest float.
    """
    native = 7 * field.id + 3 if dcgm.id not in (140, 150) else 63
    compat: Compat = "dcgm-4.9" if dcgm.name == AMBIGUOUS else "dcgm-4.8"
    counters = parse(f"{dcgm.name}, gauge, x\n", "c.csv", compat)
    node = Node(counters=counters, compat=compat).see(
        gpu=[(gpu(0), {"state": 0, field.name: native})]
    )
    exact = Fraction(native * dcgm.times, dcgm.per)
    (line,) = node.lines(dcgm.name)
    text = line.rpartition(" ")[2]
    if dcgm.whole:
        assert text == str(int(exact))
    else:
        assert float(text) == float(exact)


@pytest.mark.slow
@pytest.mark.parametrize("native", [2**53 + 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize(
    ("field", "dcgm"),
    [(f, d) for f, d in SCALED if f.type == "counter"],
    ids=lambda x: x.name if isinstance(x, Field) else str(x.id),
)
def test_large_counters_are_exact(field: Field, dcgm: Dcgm, native: int) -> None:
    """Values beyond 53 and 63 bits: every digit where the field is whole, the
    nearest float where it is not.
    """
    (line,) = (
        csv(f"{dcgm.name}, counter, x")
        .see(gpu=[(gpu(0), {"state": 0, field.name: native})])
        .lines(dcgm.name)
    )
    text = line.rpartition(" ")[2]
    if dcgm.whole:
        assert text == str(native * dcgm.times // dcgm.per)
    else:
        assert float(text) == float(Fraction(native * dcgm.times, dcgm.per))


@pytest.mark.parametrize(
    ("field", "dcgm"),
    [(f, d) for f in FIELDS if f.kind == "gpu_instance" for d in f.dcgm],
    ids=lambda x: x.name if isinstance(x, Field) else str(x.id),
)
def test_fields_of_an_instance_are_read_from_it(field: Field, dcgm: Dcgm) -> None:
    """The instance's own value, not its GPU's."""
    mine, parents = 5 * field.id, 3
    parent = {"state": 0, field.name: parents}
    node = csv(f"{dcgm.name}, gauge, x")
    node.see(
        gpu=[(gpu(0), parent)], gpu_instance=[(instance(gpu(0), 1, "1g.10gb"), {field.name: mine})]
    )
    exact = Fraction(mine * dcgm.times, dcgm.per)
    (value,) = node.values(dcgm.name)
    assert value == float(int(exact) if dcgm.whole else exact)


@pytest.mark.parametrize(
    ("fact", "name"), [(f.name, d.name) for f in FACTS if f.kind == "gpu" for d in f.dcgm]
)
def test_every_fact_can_be_a_label(fact: str, name: str) -> None:
    """A label row of a fact's field is a label with the fact's text, under
    the name that was written.
    """
    device = Device("n1", "gpu", "GPU-1", {"index": "0", fact: "17"})
    (line,) = csv(f"{TEMP}, gauge, x", f"{name}, label, x").see(gpu=[(device, busy())]).lines(TEMP)
    assert f'{name}="17"' in line


def test_a_fact_with_a_number_may_be_a_value_and_a_text_may_not() -> None:
    """dcgm-exporter prints a text as the value, which breaks the page; here the row is missing."""
    node = csv("DCGM_FI_DEV_MINOR_NUMBER, gauge, x", "DCGM_FI_DEV_SERIAL, gauge, x")
    node.see(gpu=[(gpu(0, minor_number="4", serial="abc"), busy())])
    assert node.values("DCGM_FI_DEV_MINOR_NUMBER") == [4.0]
    assert "SERIAL" not in node.page()


def test_every_row_the_names_know_can_be_rendered() -> None:
    """No field of the tables makes the renderer fail, on a GPU with links, on one
    without, and on an instance.
    """
    everything = "".join(f"{d.name}, gauge, x\n" for d in known_rows().values())
    link = Device("n1", "nvlink", "l", {"index": "0", "gpu_uuid": gpu(0).id, "link": "3"})
    for nvlinks in ([(link, {"state": 1, "crc_flit_errors": 2**53 + 1})], []):
        node = Node(counters=parse(everything, "c.csv"))
        node.see(gpu=[(gpu(0), busy()), (gpu(1), {"state": 1})], nvlink=nvlinks, gpu_instance=[])
        assert list(parse_text(node.page()))


def test_energy_in_joules_is_truncated() -> None:
    """Whole joules, as DCGM's int64 has them."""
    node = csv("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL, counter, x").see(
        gpu=[(gpu(0), busy(energy_millijoules=2999))]
    )
    assert node.values("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL") == [2.0]


# Derived fields


def test_nvlink_bandwidth_is_dcgms_rate() -> None:
    """449: KiB of both directions per second / 1000, truncated; 0 on the first sample.

    The 4.9 field is in bytes.
    """
    node = Node(compat="both").see(
        gpu=[(gpu(0), busy(nvlink_transmit_kibibytes=1000, nvlink_receive_kibibytes=5000))]
    )
    old, new = (
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND",
    )
    assert node.values(old) == [0.0]
    node.clock.advance(2)
    node.see(
        gpu=[
            (
                gpu(0),
                busy(
                    nvlink_transmit_kibibytes=1000 + 3_000_000,
                    nvlink_receive_kibibytes=5000 + 999_998,
                ),
            )
        ]
    )
    assert node.values(old) == [1999.0]  # 3,999,998 KiB in 2 s are 1,999,999 KiB/s
    assert node.values(new) == [1_999_999 * 1024]


def test_nvlink_bandwidth_is_zero_without_nvlink() -> None:
    """As DCGM says it, though we know better."""
    assert nodes.without_nvlink(Node()).values("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL") == [0.0]


@pytest.mark.parametrize(
    ("lane", "number"),
    [(0, 440), (5, 445), (6, 475), (11, 480), (12, 446), (14, 448), (15, 494), (17, 496)],
)
def test_lanes_have_their_rates_and_errors(lane: int, number: int) -> None:
    """A per-lane field is the rate of that link of that GPU; errors are
    its counters, all digits.
    """
    name = f"DCGM_FI_DEV_NVLINK_BANDWIDTH_L{lane}"
    assert known_rows()[number].name == name
    errors = f"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L{lane}"
    ways = [f"DCGM_FI_DEV_NVLINK_{way}_BANDWIDTH_L{lane}" for way in ("TX", "RX")]
    assert [known_rows()[first + lane].name for first in (825, 879)] == ways
    node = csv(*(f"{each}, counter, x" for each in (name, errors, *ways)))

    def link(parent: int, n: int) -> Device:
        return Device(
            "n1",
            "nvlink",
            f"{parent}/{n}",
            {"index": str(parent), "gpu_uuid": gpu(parent).id, "link": str(n)},
        )

    for step in range(2):
        links = [
            (
                link(g, n),
                {
                    "state": 1,
                    "transmit_kibibytes": step * 1000 * (n + 1),
                    "receive_kibibytes": step * 2000 * (n + 1),
                    "crc_flit_errors": 2**53 + n,
                },
            )
            for g in range(2)
            for n in range(18)
        ]
        node.see(gpu=[(gpu(0), busy()), (gpu(1), busy())], nvlink=links)
        node.clock.advance(1)
    assert node.values(name) == [3 * (lane + 1.0)] * 2
    assert [node.values(way) for way in ways] == [[lane + 1.0] * 2, [2 * (lane + 1.0)] * 2]
    assert [line.rpartition(" ")[2] for line in node.lines(errors)] == [str(2**53 + lane)] * 2


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER", "nvlink_effective_bit_error_ratio"),
        ("DCGM_FI_DEV_NVLINK_SYMBOL_BER_RAW", "nvlink_symbol_bit_error_ratio"),
    ],
)
def test_a_bit_error_ratio_is_also_shown_as_its_word(name: str, column: str) -> None:
    """Mantissa and exponent in one number, as NVML gives it."""
    node = csv(f"{name}, gauge, x")
    node.see(gpu=[(gpu(0), busy() | {column: 5e-12}), (gpu(1), busy() | {column: 1.5e-254})])
    assert node.values(name) == [0x50C, 0xFFF]


def test_used_memory_as_a_ratio() -> None:
    """254: used / (total - reserved), per instance where there is one."""
    memory = {
        "memory_total_bytes": 80 * GIB,
        "memory_used_bytes": 20 * GIB,
        "memory_reserved_bytes": 16 * GIB,
    }
    node = csv("DCGM_FI_DEV_FB_USED_PERCENT, gauge, x").see(gpu=[(gpu(0), {"state": 0, **memory})])
    assert node.values("DCGM_FI_DEV_FB_USED_PERCENT") == [20 / 64]
    inside = {"memory_total_bytes": 10 * GIB, "memory_used_bytes": GIB, "memory_reserved_bytes": 0}
    node.see(
        gpu=[(gpu(0), {"state": 0, **memory})],
        gpu_instance=[(instance(gpu(0), 1, "1g.10gb"), inside)],
    )
    assert node.values("DCGM_FI_DEV_FB_USED_PERCENT") == [0.1]


@pytest.mark.parametrize(
    ("name", "values", "facts", "wanted"),
    [
        ("DCGM_FI_DEV_COUNT", {}, {}, 2.0),
        ("DCGM_FI_DEV_CUDA_COMPUTE_CAPABILITY", {}, {"compute_capability": "9.0"}, float(9 << 16)),
        (
            "DCGM_FI_DEV_CUDA_COMPUTE_CAPABILITY",
            {},
            {"compute_capability": "8.6"},
            float((8 << 16) + 6),
        ),
        ("DCGM_FI_DEV_COMPUTE_MODE", {"compute_mode": 0}, {}, 0.0),
        ("DCGM_FI_DEV_COMPUTE_MODE", {"compute_mode": 2}, {}, 1.0),
        ("DCGM_FI_DEV_COMPUTE_MODE", {"compute_mode": 3}, {}, 2.0),
        ("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", {"fabric_state": 2, "fabric_error_code": 0}, {}, 2.0),
        ("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", {"fabric_state": 3, "fabric_error_code": 0}, {}, 3.0),
        (
            "DCGM_FI_DEV_FABRIC_MANAGER_STATUS",
            {"fabric_state": 3, "fabric_error_code": 999},
            {},
            4.0,
        ),
        ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", {}, {}, 0.0),
    ],
)
def test_fields_that_dcgm_encodes_anew(
    name: str, values: dict[str, float], facts: dict[str, str], wanted: float
) -> None:
    """Ids 4, 63, 65, 170 and 526, with DCGM's own numbers."""
    node = csv(f"{name}, gauge, x").see(
        gpu=[(gpu(0, **facts), {**busy(), **values}), (gpu(1), {"state": 1})]
    )
    assert node.values(name) == [wanted]


@pytest.mark.parametrize(
    ("name", "brand", "wanted"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA", [0]),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA", [0]),
        ("GRID A100D-20C", "Grid", []),
        ("NVIDIA A100-1-5C", "NVIDIA", []),
        ("NVIDIA A100-1-5CME", "NVIDIA", []),
        ("GRID P40-2B4", "Grid", []),
        ("NVIDIA L4", "NVIDIA vWS", []),
    ],
)
def test_the_licence_of_a_virtual_gpu_is_not_claimed_to_be_missing(
    name: str, brand: str, wanted: list[float]
) -> None:
    """Id 526 is 0 for a GPU that takes no licence, and absent where it takes one: NVML is not asked
    whether it has it.
    """
    row = "DCGM_FI_DEV_VGPU_LICENSE_STATUS"
    node = csv(f"{row}, gauge, x").see(gpu=[(gpu(0, name, brand=brand), busy())])
    assert node.values(row) == wanted


# Exporter fields


def test_xids_in_the_window_are_counted_by_code() -> None:
    """One series per code with the window in ms, a single 0 without code where there was none."""
    xids = FakeXids()
    name = "DCGM_EXP_XID_ERRORS_COUNT"
    node = csv(f"{name}, gauge, x", xids=xids).see(gpu=[(gpu(0), busy())])
    (line,) = node.lines(name)
    assert labels(line)[-1] == "window_size_in_ms"
    assert line.endswith('window_size_in_ms="300000"} 0')
    assert xids.asked[-1] == (gpu(0).id, 300 * SECOND_NS, node.clock.time_ns())
    xids.window = {31: 2, 79: 1}
    assert [line.partition("window_size")[2] for line in node.lines(name)] == [
        '_in_ms="300000",xid="31"} 2',
        '_in_ms="300000",xid="79"} 1',
    ]


def test_xids_since_the_start_are_counted_by_code() -> None:
    """Codes that never came have no series, and code 0 is no XID."""
    xids = FakeXids()
    xids.rows = [(gpu(0), 79, 3, 1), (gpu(0), 48, 0, 0), (gpu(1), 31, 5, 1), (gpu(0), 0, 4, 1)]
    node = csv("DCGM_EXP_XID_ERRORS_TOTAL, counter, x", xids=xids).see(gpu=[(gpu(0), busy())])
    (line,) = node.lines("DCGM_EXP_XID_ERRORS_TOTAL")
    assert line.endswith('xid="79"} 3')


def test_clock_events_are_counted_in_the_window_and_since_start() -> None:
    """The count is of samples at the collect interval, the total of rising edges; the first
    sample only sets the stage.
    """
    count, total = "DCGM_EXP_CLOCK_EVENTS_COUNT", "DCGM_EXP_CLOCK_EVENTS_TOTAL"
    node = csv(f"{count}, gauge, x", f"{total}, counter, x")
    masks = [0x4, 0x4, 0x0, 0x44] + [0x0] * 27 + [0x4]
    for mask in masks:
        node.see(gpu=[(gpu(0), busy(clock_event_reasons=mask))])
        node.clock.advance(1)
    # Samples at 0 s (0x4) and 30 s (0x0) are those of a 30 s interval.
    assert [line.partition('clock_event="')[2] for line in node.lines(count)] == [
        'power_cap",window_size_in_ms="300000"} 1',
    ]
    assert {line.partition('clock_event="')[2] for line in node.lines(total)} == {
        'power_cap"} 2',
        'hw_thermal"} 1',
    }


def test_a_reading_that_comes_early_is_the_sample_of_its_interval() -> None:
    """With -c 1000 each reading is one, though none comes at exactly a second after the last."""
    events = ClockEvents(window_ns=300 * SECOND_NS, interval_ns=SECOND_NS)
    clock = FakeClock()
    for late_ms in (0, 4, 1, 3, 0, 2):
        clock.advance(late_ms / 1000)
        events.write(frame(clock, "gpu", [(gpu(0), busy(clock_event_reasons=0x4))]))
        clock.advance(1 - late_ms / 1000)
    assert events.counts(gpu(0).id, clock.monotonic_ns()) == {"power_cap": 6}


def test_no_clock_event_is_a_single_zero() -> None:
    """As with XIDs: one row without the event's name."""
    node = csv("DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, x").see(
        gpu=[(gpu(0), busy(clock_event_reasons=0))]
    )
    (line,) = node.lines("DCGM_EXP_CLOCK_EVENTS_COUNT")
    assert "clock_event" not in line.partition("{")[2]
    assert line.endswith(" 0")


# Links


def test_links_have_rows_of_their_own() -> None:
    """Only links that are up, counted from 1 over the GPU's links, with the labels of the link
    template, which spells hostname small in every version.
    """
    name = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_PER_LINK_TOTAL"
    node = csv(f"{name}, counter, x")
    links = [
        (
            Device("n1", "nvlink", f"l{n}", {"index": "0", "gpu_uuid": gpu(0).id, "link": str(n)}),
            {"state": up, "crc_flit_errors": n},
        )
        for n, up in enumerate((1, 0, 1))
    ]
    lines = node.see(gpu=[(gpu(0), busy())], nvlink=links).lines(name)
    assert lines[1] == (
        f'{name}{{nvlink="3",gpu="0",gpu_uuid="{gpu(0).id}",pci_bus_id="00000000:18:00.0",'
        'device="nvidia0",model_name="NVIDIA H100 80GB HBM3",hostname="n1"} 2'
    )
    assert len(lines) == 2


# A page that dcgm-exporter 4.8.3 would refuse never leaves


def test_a_value_that_is_not_finite_is_dropped_and_counted() -> None:
    """One infinite gauge costs its own sample."""
    node = Node().see(gpu=[(gpu(0), busy(power_milliwatts=float("inf"))), (gpu(1), busy())])
    assert len(node.lines("DCGM_FI_DEV_POWER_USAGE")) == 1
    assert node.dropped["not_finite"] == 1


def test_a_negative_counter_is_dropped_and_counted() -> None:
    """A gauge that the file types as a counter may not fall below zero; as a gauge it may."""
    name = "DCGM_FI_DEV_GPU_TEMP_LIMIT"
    field = next(f for f in FIELDS if any(d.name == name for d in f.dcgm)).name
    node = csv(f"{name}, counter, x").see(gpu=[(gpu(0), busy(**{field: -3}))])
    assert node.page() == ""
    assert node.dropped["negative_counter"] == 1
    assert csv(f"{name}, gauge, x").see(gpu=[(gpu(0), busy(**{field: -3}))]).values(name) == [-3.0]


def test_a_series_that_stands_twice_is_dropped_and_counted() -> None:
    """Two copies with equal labels from a mapping gone wrong leave one."""
    twice = [holder(gpu(0), job=job, mapped="7") for job in "ab"]
    node = Node().see(gpu=[(gpu(0), busy())], device_job=twice)
    assert len(node.lines(TEMP)) == 1
    assert node.dropped["duplicate"] > 0


def test_a_gpu_without_index_has_no_rows() -> None:
    """It could not be told apart from another one."""
    node = Node().see(gpu=[(Device("n1", "gpu", "GPU-x", {"name": "?"}), busy()), (gpu(0), busy())])
    assert len(node.lines(TEMP)) == 1


def test_an_alias_is_printed_as_written() -> None:
    """The name on the wire is that of the file, in each generation."""
    for compat in get_args(Compat):
        counters = parse("dcgm_gpu_temp, gauge, t\n", "c.csv", compat)
        node = Node(counters=counters, compat=compat).see(gpu=[(gpu(0), busy())])
        assert node.page().startswith(
            "# HELP dcgm_gpu_temp t\n# TYPE dcgm_gpu_temp gauge\ndcgm_gpu_temp{"
        )
        assert node.page().count("# TYPE") == 1


def test_the_extended_file_renders() -> None:
    """All of it on a busy GPU."""
    node = Node(counters=load(EXTENDED_FILE)).see(gpu=[(gpu(0), busy(clock_event_reasons=4))])
    assert list(parse_text(node.page()))
