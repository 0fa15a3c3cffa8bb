"""A hang in any driver call: for every function that is asked, the GPU is left out
and the others are read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collector.sources.nvml.questions import Call, Way, ways
from collector.sources.nvml.worker import Deadlines
from pipeline.catalog import facts_of, fields_of
from tests.collector.sources.nvml.conftest import Scripted
from tests.collector.sources.nvml.node import frame, states, uuid
from tests.wait import until

pytestmark = pytest.mark.slow

HASTY = Deadlines(call_s=1, slow_s=1, silent_s=20, sweep_s=20)
# a GPU that was never seen has no row yet
BEFORE_THE_UUID = {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"}
AT_ONCE = 6  # GPUs that hang at the same time, each in another function
HANG, NOT_SUPPORTED = -1, 3

# Functions that no question names: how the source finds and samples.
OTHERS = {
    "nvmlDeviceGetFieldValues": "{gpu}/field 83",
    "nvmlGpmSampleGet": "{gpu}/nvmlGpmSampleGet()",
    "nvmlGpmMetricsGet": "{gpu}/gpm 2",
    "nvmlDeviceRegisterEvents": "{gpu}/nvmlDeviceRegisterEvents()",
    "nvmlDeviceGetHandleByIndex": "-/nvmlDeviceGetHandleByIndex({gpu})",
    "nvmlDeviceGetNvLinkState": "{gpu}/nvmlDeviceGetNvLinkState(0)",
    "nvmlDeviceGetMaxMigDeviceCount": "{gpu}/nvmlDeviceGetMaxMigDeviceCount()",
    "nvmlDeviceGetMigDeviceHandleByIndex": "{gpu}/nvmlDeviceGetMigDeviceHandleByIndex(0)",
}


def asked() -> Iterator[Way]:
    """All ways to ask about a GPU."""
    for read in (*(f.read for f in fields_of("gpu")), *(f.read for f in facts_of("gpu"))):
        yield from ways(read)


def functions() -> dict[str, str]:
    """Functions that are called for a GPU, and a key whose result makes each of them hang."""
    keys = dict(OTHERS)
    for way in asked():
        if isinstance(way, Call) and not way.function.startswith("nvmlSystem"):
            keys.setdefault(
                way.function, f"{{gpu}}/{way.function}({', '.join(map(str, way.arguments))})"
            )
    return keys


FUNCTIONS = sorted(functions())
BATCHES = [FUNCTIONS[at : at + AT_ONCE] for at in range(0, len(FUNCTIONS), AT_ONCE)]


def test_the_driver_has_many_calls_to_hang_in() -> None:
    """The list covers getters, batches, GPM, discovery and facts: it cannot
    shrink to nothing unseen.
    """
    assert len(FUNCTIONS) > 60
    assert {
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetPowerUsage",
        "nvmlGpmSampleGet",
    } <= set(FUNCTIONS)


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: batch[0].removeprefix("nvmlDevice"))
def test_a_hang_in_any_call_leaves_out_that_gpu_alone(scripted: Scripted, batch: list[str]) -> None:
    """Each GPU hangs in another function; one after the other is left out,
    and the last one is read.
    """
    node = scripted(len(batch) + 1, deadlines=HASTY)
    keys = functions()
    for gpu, function in enumerate(batch):
        node.table.set(f"{gpu}/nvmlGpmQueryDeviceSupport().isSupportedDevice", 1)
        node.table.set(f"{gpu}/nvmlDeviceGetMigMode()[0]", 1)
        node.table.set(f"{gpu}/field 91", 1)
        for supported in (
            "field 83",
            "nvmlDeviceGetTemperature(0)",
        ):  # so that what is asked instead is asked
            node.table.fail(f"{gpu}/{supported}", NOT_SUPPORTED)
        node.table.fail(keys[function].format(gpu=gpu), HANG)
    hung: list[str] = []

    def all_left_out() -> bool:
        reading = node.read(0.1)
        hung.extend(str(e.attributes["call"]) for e in reading.events if e.kind == "driver_hang")
        return len(hung) >= len(batch)

    until(all_left_out, f"hangs in {batch}")
    assert sorted(hung) == batch
    reading = node.read(0.1)
    named = [device.id for device in frame(reading, "gpu").devices]
    assert dict(zip(named, states(reading), strict=True)) == {
        **{
            uuid(gpu): "hung"
            for gpu, function in enumerate(batch)
            if function not in BEFORE_THE_UUID
        },
        uuid(len(batch)): "ok",
    }
