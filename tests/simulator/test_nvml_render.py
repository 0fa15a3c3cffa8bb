"""The table answers every question of the catalogue that the hardware answers, in NVML's types, and
refuses the rest for a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.catalog import FACTS, FIELDS, Fact, Field
from simulator.node import Node
from simulator.nvml_client import NVMLError, open_client
from simulator.nvml_render import NvmlRenderer, refusal
from simulator.nvml_state import DOUBLE, INT, ULONGLONG, UNSIGNED
from simulator.profile import load_profile, profile_names
from tests.simulator.nodes import training

pytestmark = pytest.mark.slow

KINDS = ("gpu", "gpu_instance", "nvlink")
ROWS: tuple[Field | Fact, ...] = (*FIELDS, *FACTS)
READS = [
    (row.kind, row.name, row.read)
    for row in ROWS
    if row.kind in KINDS and row.read not in ("", "source")
]
NOW_NS = 1_800_000_000_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where open_client looks for the table."""
    return tmp_path / "nvml.state"


def _rendered(path: Path, busy: Node) -> NvmlRenderer:
    renderer = NvmlRenderer(path, busy)
    renderer.render(NOW_NS)
    return renderer


@pytest.fixture
def h100(path: Path) -> Iterator[NvmlRenderer]:
    """A training H100 node."""
    renderer = _rendered(path, training())
    yield renderer
    renderer.close()


def _questions(read: str, link: int) -> list[str]:
    """The alternatives of a ``read``, for one link, without codecs."""
    filled = [way.partition(" as ")[0] for way in read.split(" | ")]
    return [
        way.replace("scope link", f"scope {link}")
        .replace("(link", f"({link}")
        .removesuffix(" scope 0")
        for way in filled
    ]


def _answered(keys: set[str], key: str) -> bool:
    return any(candidate in keys for candidate in (key, f"{key}[0]", f"{key}.length"))


@pytest.mark.parametrize("name", profile_names())
def test_every_question_is_answered_or_refused_for_a_reason(path: Path, name: str) -> None:
    """For each field and fact of GPUs, instances and links one way of asking has an answer, or the
    profile lists all as unsupported.
    """
    profile = load_profile(name)
    renderer = _rendered(path, Node(profile, 1))
    keys, refuses = set(renderer.state.keys()), refusal(profile.unsupported)
    instances = sorted(key.partition("/")[0] for key in keys if "." in key.partition("/")[0])
    whole = profile.gpu.count - 1  # a GPU that no profile splits
    missing = []
    for kind, field, read in READS:
        devices = {"gpu": [str(whole)], "nvlink": [str(whole)], "gpu_instance": instances[:1]}[kind]
        for device in devices:
            for link in (0, profile.nvlink.links - 1) if kind == "nvlink" else (0,):
                ways = _questions(read, link)
                owner = {way: "-" if way.startswith("nvmlSystem") else device for way in ways}
                if not any(_answered(keys, f"{owner[way]}/{way}") for way in ways) and not all(
                    map(refuses, ways)
                ):
                    missing.append(f"{kind} {field}: {ways}")
    renderer.close()
    assert missing == []


@pytest.mark.parametrize("name", profile_names())
def test_nothing_is_refused_in_vain(path: Path, name: str) -> None:
    """Every pattern of a profile's refusals fits a question of the catalogue: a stale one
    would hide the next mistake.
    """
    asked = [way for _, _, read in READS for link in (0, 7) for way in _questions(read, link)]
    patterns = [p for patterns in load_profile(name).unsupported.values() for p in patterns]
    idle = [pattern for pattern in patterns if not any(map(refusal({"": [pattern]}), asked))]
    assert idle == []


def test_values_have_the_types_of_nvml(h100: NvmlRenderer) -> None:
    """Energy is unsigned long long, power unsigned int, a T.Limit margin signed
    and negative, GPM a double.
    """
    found = {
        key: h100.state.get(f"0/{key}") for key in ("field 83", "field 186", "field 194", "gpm 5")
    }
    assert [found[key].type for key in found] == [ULONGLONG, UNSIGNED, INT, DOUBLE]
    assert found["field 194"].value == -2
    assert isinstance(found["gpm 5"].value, float)


def test_ways_of_asking_agree(h100: NvmlRenderer) -> None:
    """A getter and the field value of the same quantity give the same number."""
    pairs = {
        "nvmlDeviceGetTotalEnergyConsumption()": "field 83",
        "nvmlDeviceGetEnforcedPowerLimit()": "field 190",
        "nvmlDeviceGetTotalEccErrors(0, 1)": "field 5",
        "nvmlDeviceGetRemappedRows()[1]": "field 143",
        "nvmlDeviceGetPcieReplayCounter()": "field 94",
        "nvmlDeviceGetNvLinkState(3)": "field 165 scope 3",
    }
    for getter, field in pairs.items():
        assert h100.state.get(f"1/{getter}").value == h100.state.get(f"1/{field}").value, getter


def test_memory_adds_up(h100: NvmlRenderer) -> None:
    """Used + free + reserved is total, as nvmlDeviceGetMemoryInfo_v2 defines them."""
    parts = [
        int(h100.state.get(f"2/nvmlDeviceGetMemoryInfo(33554472).{part}").value)
        for part in ("used", "free", "reserved", "total")
    ]
    assert sum(parts[:3]) == parts[3]


def test_sums_over_links_are_sums(h100: NvmlRenderer) -> None:
    """The GPU's throughput counter over all links is the sum of its links'."""
    links = [
        int(h100.state.get("0/field 138" + (f" scope {n}" if n else "")).value) for n in range(18)
    ]
    assert all(links)
    assert h100.state.get("0/field 138 scope 4294967295").value == sum(links)


def test_identity_is_that_of_hardware(h100: NvmlRenderer) -> None:
    """UUIDs are distinct, PCI addresses have NVML's eight-digit domain, time stamps
    are those of the sample.
    """
    assert len({h100.state.get(f"{gpu}/nvmlDeviceGetUUID()").value for gpu in range(8)}) == 8
    assert h100.state.get("1/nvmlDeviceGetPciInfo_v3().busId").value == "00000000:43:00.0"
    assert h100.state.get("1/timestamp").value == NOW_NS // 1000


def test_gpu_of_another_pci_domain(path: Path) -> None:
    """GB200 trays have GPUs in domains of their own."""
    renderer = _rendered(path, training("gb200"))
    assert renderer.state.get("1/nvmlDeviceGetPciInfo_v3().busId").value == "00000009:01:00.0"
    renderer.close()


def test_split_gpu_has_instances_with_memory_of_their_own(path: Path, tmp_path: Path) -> None:
    """Instances answer by handle with profile, UUID, memory and GPM; the split GPU refuses
    utilisation, its neighbour does not.
    """
    renderer = _rendered(path, training("hgx-h100-mig"))
    nvml = open_client(tmp_path)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    instances = [nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, n) for n in range(3)]
    assert [nvml.nvmlDeviceGetName(i).rpartition(" ")[2] for i in instances] == [
        "3g.40gb",
        "3g.40gb",
        "1g.10gb",
    ]
    assert len({nvml.nvmlDeviceGetUUID(i) for i in instances} | {nvml.nvmlDeviceGetUUID(gpu)}) == 4
    assert len({nvml.nvmlDeviceGetGpuInstanceId(i) for i in instances}) == 3
    shares = [
        nvml.nvmlDeviceGetMemoryInfo(i).total / nvml.nvmlDeviceGetMemoryInfo(gpu).total
        for i in instances
    ]
    assert shares == pytest.approx([1 / 2, 1 / 2, 1 / 8], rel=0.01)
    assert nvml.nvmlDeviceGetMigMode(gpu) == (1, 1)
    with pytest.raises(NVMLError) as caught:
        nvml.nvmlDeviceGetUtilizationRates(gpu)
    assert caught.value.value == 3
    assert nvml.nvmlDeviceGetUtilizationRates(nvml.nvmlDeviceGetHandleByIndex(2)).gpu >= 95
    renderer.close()


def test_a100_has_no_gpm_and_says_so(path: Path, tmp_path: Path) -> None:
    """Before Hopper nvmlGpmQueryDeviceSupport answers 0 and taking a sample is not supported."""
    renderer = _rendered(path, training("hgx-a100"))
    nvml = open_client(tmp_path)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice == 0
    with pytest.raises(NVMLError):
        nvml.nvmlGpmSampleGet(gpu, nvml.nvmlGpmSampleAlloc())
    renderer.close()


def test_failed_getter_of_a_struct_recovers_whole(path: Path, tmp_path: Path) -> None:
    """A fault on a getter as a whole leaves its members as they were once it is over."""
    busy = training()
    renderer = _rendered(path, busy)
    nvml = open_client(tmp_path)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    busy.results["0/nvmlDeviceGetUtilizationRates()"] = 999
    renderer.render(NOW_NS)
    with pytest.raises(NVMLError) as caught:
        nvml.nvmlDeviceGetUtilizationRates(gpu)
    assert caught.value.value == 999
    busy.results.clear()
    renderer.render(NOW_NS)
    assert nvml.nvmlDeviceGetUtilizationRates(gpu).gpu >= 95
    renderer.close()
