"""The simulated NVML answers what the table says, in pynvml's shapes,
errors and deaths included.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from pipeline.child import run
from simulator.nvml_client import NVMLError, SimulatedNvml, open_client
from simulator.nvml_state import (
    ABORT,
    DOUBLE,
    EVENTS,
    HANG,
    SEGFAULT,
    UNSIGNED,
    NvmlState,
)
from tests.wait import PATIENCE_S

XID = 8  # nvmlEventTypeXidCriticalError


@pytest.fixture
def state(tmp_path: Path) -> Iterator[NvmlState]:
    """A table with two GPUs that answer nothing else yet."""
    table = NvmlState(tmp_path / "nvml.state", create=True, capacity=512)
    table.set("-/nvmlDeviceGetCount()", 2)
    for gpu in (0, 1):
        table.set(f"-/nvmlDeviceGetHandleByIndex({gpu})", gpu)
    yield table
    table.close()


@pytest.fixture
def nvml(state: NvmlState, tmp_path: Path) -> SimulatedNvml:
    """A client of that table."""
    return open_client(tmp_path)


def test_plain_struct_tuple_and_list_answers(state: NvmlState, nvml: SimulatedNvml) -> None:
    """Members are attributes, elements are items, a list has its length: as pynvml returns them."""
    state.set("0/nvmlDeviceGetTemperature(0)", 41)
    state.set("0/nvmlDeviceGetUtilizationRates().gpu", 97)
    state.set("0/nvmlDeviceGetUtilizationRates().memory", 53)
    state.set("0/nvmlDeviceGetEccMode()[0]", 1)
    state.set("0/nvmlDeviceGetEccMode()[1]", 0)
    state.set("0/nvmlDeviceGetComputeRunningProcesses().length", 2)
    state.set("0/nvmlDeviceGetComputeRunningProcesses()[1].pid", 4711)
    state.set("0/nvmlDeviceGetName()", "NVIDIA H100 80GB HBM3")
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetTemperature(gpu, 0) == 41
    assert (
        nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
        nvml.nvmlDeviceGetUtilizationRates(gpu).memory,
    ) == (97, 53)
    assert nvml.nvmlDeviceGetEccMode(gpu) == (1, 0)
    assert [getattr(p, "pid", None) for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)] == [
        None,
        4711,
    ]
    assert nvml.nvmlDeviceGetName(gpu) == "NVIDIA H100 80GB HBM3"


def test_named_arguments_are_part_of_the_question(state: NvmlState, nvml: SimulatedNvml) -> None:
    """An argument given by name asks the same as one given by place."""
    state.set("0/nvmlDeviceGetMemoryInfo(33554472).reserved", 7)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetMemoryInfo(gpu, version=33554472).reserved == 7


def test_out_parameter_is_filled(state: NvmlState, nvml: SimulatedNvml) -> None:
    """A struct of the caller, by value or by reference, takes the members the table holds."""
    state.set("0/nvmlDeviceGetSramEccErrorStatus().bThresholdExceeded", 1)
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    assert (
        nvml.nvmlDeviceGetSramEccErrorStatus(
            nvml.nvmlDeviceGetHandleByIndex(0), ctypes.byref(status)
        )
        == 0
    )
    assert status.bThresholdExceeded == 1


def test_absent_question_is_not_supported(nvml: SimulatedNvml) -> None:
    """A question the table does not know raises NOT_SUPPORTED (3)."""
    with pytest.raises(NVMLError) as caught:
        nvml.nvmlDeviceGetFanSpeed(nvml.nvmlDeviceGetHandleByIndex(0))
    assert caught.value.value == 3


def test_question_that_appears_later_is_answered(state: NvmlState, nvml: SimulatedNvml) -> None:
    """A key written after the client first looked is found: drivers learn new answers."""
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(NVMLError):
        nvml.nvmlDeviceGetBAR1MemoryInfo(gpu)
    state.set("0/nvmlDeviceGetBAR1MemoryInfo().bar1Used", 5)
    assert nvml.nvmlDeviceGetBAR1MemoryInfo(gpu).bar1Used == 5


def test_field_values_keep_type_code_scope_and_stamp(state: NvmlState, nvml: SimulatedNvml) -> None:
    """A batch gives each field's bits, type and own code, also beyond 2^53, and
    the device's time stamp.
    """
    state.set("0/timestamp", 1_700_000_000_000_123)
    state.set("0/field 83", 2**64 - 1)
    state.set("0/field 82", 44, type=UNSIGNED)
    state.set("0/field 138 scope 7", 2**53 + 1)
    state.set("0/field 5", 1.25, type=DOUBLE)
    state.fail("0/field 5", 999)
    wanted = [(83, 0), (82, 0), (138, 7), (5, 0), (6, 0)]
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    entries = (pynvml.c_nvmlFieldValue_t * len(wanted))()
    for entry, (entry_id, scope) in zip(entries, wanted, strict=True):
        entry.fieldId, entry.scopeId = entry_id, scope
    assert nvml.nvmlLib["nvmlDeviceGetFieldValues"](gpu, len(wanted), ctypes.byref(entries)) == 0
    assert [e.nvmlReturn for e in entries] == [0, 0, 0, 999, 3]
    assert (entries[0].value.ullVal, entries[1].value.uiVal, entries[2].value.ullVal) == (
        2**64 - 1,
        44,
        2**53 + 1,
    )
    assert entries[0].timestamp == 1_700_000_000_000_123
    assert [v.value for v in nvml.nvmlDeviceGetFieldValues(gpu, [83, (138, 7)])] == [
        2**64 - 1,
        2**53 + 1,
    ]


def test_lost_gpu_fails_every_call_and_only_its_own(state: NvmlState, nvml: SimulatedNvml) -> None:
    """GPU_IS_LOST for one GPU meets handles, getters and batches of that
    GPU; its neighbour answers.
    """
    for gpu in "01":
        state.set(f"{gpu}/nvmlDeviceGetPowerUsage()", 90000)
    lost, well = (nvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    state.set("0/*", 0, result=15)
    with pytest.raises(NVMLError) as caught:
        nvml.nvmlDeviceGetPowerUsage(lost)
    assert caught.value.value == 15
    assert nvml.nvmlLib["nvmlDeviceGetFieldValues"](lost, 0, ctypes.create_string_buffer(40)) == 15
    with pytest.raises(NVMLError):
        nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetPowerUsage(well) == 90000


def test_library_as_a_whole_can_fail(state: NvmlState, nvml: SimulatedNvml) -> None:
    """A driver that is not loaded fails nvmlInit and every other call with its code."""
    state.set("-/nvmlInit()", 0, result=9)
    state.set("-/*", 0, result=9)
    for call in (nvml.nvmlInit, nvml.nvmlDeviceGetCount, nvml.nvmlSystemGetDriverVersion):
        with pytest.raises(NVMLError) as caught:
            call()
        assert caught.value.value == 9


def test_mig_instances_have_their_own_answers(state: NvmlState, nvml: SimulatedNvml) -> None:
    """An instance's handle leads to its own keys, and an index without
    instance is NOT_FOUND (6).
    """
    state.set("0/nvmlDeviceGetMigDeviceHandleByIndex(0)", 5)
    state.set("0.5/nvmlDeviceGetUUID()", "MIG-x")
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)) == "MIG-x"
    with pytest.raises(NVMLError) as caught:
        nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)
    assert caught.value.value == 6


def test_gpm_metrics_of_gpu_and_instance(state: NvmlState, nvml: SimulatedNvml) -> None:
    """Two samples of one device give its metrics with each metric's own code."""
    state.set("0/nvmlGpmQueryDeviceSupport().isSupportedDevice", 1)
    state.set("0/gpm 2", 61.5)
    state.set("0.5/gpm 2", 12.5)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    for take, value in (
        (nvml.nvmlGpmSampleGet, 61.5),
        (lambda g, s: nvml.nvmlGpmMigSampleGet(g, 5, s), 12.5),
    ):
        request = nvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=2)
        request.sample1, request.sample2 = (take(gpu, nvml.nvmlGpmSampleAlloc()) for _ in range(2))
        request.metrics[0].metricId, request.metrics[1].metricId = 2, 3
        nvml.nvmlGpmMetricsGet(request)
        assert (
            request.metrics[0].value,
            request.metrics[0].nvmlReturn,
            request.metrics[1].nvmlReturn,
        ) == (value, 0, 3)


def test_events_reach_those_who_registered_before(state: NvmlState, nvml: SimulatedNvml) -> None:
    """An event set sees registered types of registered GPUs from its creation on, in
    order, then TIMEOUT (10).
    """
    state.post(0, XID, 13)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(gpu, XID, events)
    state.post(1, XID, 31)
    state.post(0, 2, 31)
    state.post(0, XID, 79)
    state.post(0, XID, 154, 3, 1)
    first, second = nvml.nvmlEventSetWait_v2(events, 0), nvml.nvmlEventSetWait_v2(events, 0)
    assert (first.device, first.eventType, first.eventData, first.gpuInstanceId) == (
        gpu,
        XID,
        79,
        0xFFFFFFFF,
    )
    assert (second.eventData, second.gpuInstanceId, second.computeInstanceId) == (154, 3, 1)
    with pytest.raises(NVMLError) as caught:
        nvml.nvmlEventSetWait_v2(events, 0)
    assert caught.value.value == 10


def test_slow_event_reader_goes_on_with_what_is_left(state: NvmlState, nvml: SimulatedNvml) -> None:
    """More events than the ring holds: the oldest are lost, the rest come in order."""
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(gpu, XID, events)
    for number in range(EVENTS + 10):
        state.post(0, XID, number)
    assert [nvml.nvmlEventSetWait_v2(events, 0).eventData for _ in range(EVENTS)] == list(
        range(10, EVENTS + 10)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("result", "death"), [(ABORT, -signal.SIGABRT), (SEGFAULT, -signal.SIGSEGV), (HANG, None)]
)
def test_driver_that_dies_or_hangs_really_does(
    state: NvmlState, tmp_path: Path, result: int, death: int | None
) -> None:
    """SEGFAULT and ABORT end the calling process by their signal; HANG never returns."""
    state.set("0/nvmlDeviceGetPowerUsage()", 1, result=result)
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from pathlib import Path; from simulator.nvml_client import open_client\n"
        f"nvml = open_client(Path({str(tmp_path)!r}))\n"
        "nvml.nvmlDeviceGetPowerUsage(nvml.nvmlDeviceGetHandleByIndex(0))"
    )
    ended = run([sys.executable, "-I", "-c", code], timeout_s=1.5 if death is None else 20)
    assert ended.timed_out if death is None else ended.returncode == death


@pytest.mark.slow
def test_client_needs_no_numpy(tmp_path: Path) -> None:
    """The driver child imports the client and must stay small."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "import simulator.nvml_client\n"
        "sys.exit('numpy' in sys.modules or 'asyncio' in sys.modules)"
    )
    assert run([sys.executable, "-I", "-c", code], timeout_s=PATIENCE_S).returncode == 0
