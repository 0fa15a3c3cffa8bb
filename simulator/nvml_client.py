"""NVML of a simulated node: pynvml's function names, answered from the table of nvml_state.py.

The driver child opens it in place of pynvml. What one question needs is worked out from the
function's name and arguments, so a new row of the catalogue needs nothing here. No numpy: the child
stays small.
"""

# ruff: noqa: N801, N802, N815 - classes and functions bear pynvml's names

from __future__ import annotations

import ctypes
import os
import signal
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from simulator.nvml_answers import Shape, fill, index_of
from simulator.nvml_events import EventData, EventSet
from simulator.nvml_state import (
    ABORT,
    HANG,
    NOT_SUPPORTED,
    RESULT_OFFSET,
    SEGFAULT,
    VALUE_OFFSET,
    NvmlState,
)

# Return codes of nvml.h (nvmlReturn_t).
INVALID_ARGUMENT, NOT_FOUND, TIMEOUT = 2, 6, 10
_FIELD_VALUE = struct.Struct("<IIqqii8s")  # nvmlFieldValue_t of nvml.h
_TABLE = "nvml.state"  # name of the table inside the directory of a simulated node


class NVMLError(Exception):
    """As pynvml's: ``value`` is NVML's return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class Handle:
    """What NVML hands out for a GPU or a MIG instance; ``key`` is its name in the table."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class c_nvmlFieldValue_t(ctypes.Structure):
    """One field value, laid out as in nvml.h."""

    _fields_ = (
        ("fieldId", ctypes.c_uint),
        ("scopeId", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latencyUsec", ctypes.c_longlong),
        ("valueType", ctypes.c_int),
        ("nvmlReturn", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )


class _GpmMetric(ctypes.Structure):
    _fields_ = (
        ("metricId", ctypes.c_uint),
        ("nvmlReturn", ctypes.c_int),
        ("value", ctypes.c_double),
        ("metricInfo", ctypes.c_char_p * 3),
    )


class c_nvmlGpmMetricsGet_t(ctypes.Structure):
    """A request for GPM metrics between two samples, with pynvml's members."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("numMetrics", ctypes.c_uint),
        ("sample1", ctypes.c_void_p),
        ("sample2", ctypes.c_void_p),
        ("metrics", _GpmMetric * 333),
    )


class SimulatedNvml:
    """Every ``nvml...`` function of pynvml that the table can answer; raises its own NVMLError.

    ``nvmlLib["nvmlDeviceGetFieldValues"](handle, count, buffer)`` fills 40-byte entries and returns
    NVML's code, as the C library.
    """

    NVMLError = NVMLError
    c_nvmlFieldValue_t = c_nvmlFieldValue_t
    c_nvmlGpmMetricsGet_t = c_nvmlGpmMetricsGet_t
    NVML_GPM_METRICS_GET_VERSION = 1
    nvmlEventTypeXidCriticalError = 8  # nvml.h

    def __init__(self, state: NvmlState) -> None:
        self._state = state
        self._shapes: dict[str, Shape] = {}
        self._indexed = -1
        self._samples: dict[int, str] = {}
        self.nvmlLib: Mapping[str, Callable[..., int]] = {
            "nvmlDeviceGetFieldValues": self._field_values
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        function = partial(self._call, name)
        setattr(self, name, function)
        return function

    def nvmlInit(self) -> None:
        """Succeeds unless ``-/nvmlInit()`` says otherwise."""
        self._obey("-/nvmlInit()")

    def nvmlInitWithFlags(self, _flags: int) -> None:
        """As nvmlInit; flags do not matter here."""
        self.nvmlInit()

    def nvmlShutdown(self) -> None:
        """Succeeds unless ``-/nvmlShutdown()`` says otherwise."""
        self._obey("-/nvmlShutdown()")

    def nvmlErrorString(self, result: int) -> str:
        """A short text for a return code."""
        return f"NVML error {result}"

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:
        """Handle of a GPU. A lost GPU gives none."""
        self._obey("-/*", f"{index}/*")
        return Handle(str(self._number(f"-/nvmlDeviceGetHandleByIndex({index})", INVALID_ARGUMENT)))

    def nvmlDeviceGetHandleByUUID(self, uuid: str | bytes) -> Handle:
        """Handle of the GPU with that UUID."""
        return self._find(
            "nvmlDeviceGetUUID()", (uuid.decode() if isinstance(uuid, bytes) else uuid).__eq__
        )

    def nvmlDeviceGetHandleByPciBusId(self, address: str | bytes) -> Handle:
        """Handle of the GPU at that PCI address, whatever the number of digits of its domain."""
        wanted = (address.decode() if isinstance(address, bytes) else address).lower().lstrip("0")
        return self._find(
            "nvmlDeviceGetPciInfo_v3().busId", lambda found: found.lower().lstrip("0") == wanted
        )

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Handle, index: int) -> Handle:
        """Handle of a MIG instance."""
        self._obey_device(gpu.key)
        return Handle(
            f"{gpu.key}"
            f".{self._number(f'{gpu.key}/nvmlDeviceGetMigDeviceHandleByIndex({index})', NOT_FOUND)}"
        )

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, instance: Handle) -> Handle:
        """Handle of the GPU a MIG instance belongs to."""
        return Handle(instance.key.partition(".")[0])

    def nvmlDeviceGetFieldValues(
        self, handle: Handle, fields: Iterable[int | tuple[int, int]]
    ) -> Any:
        """Field values as an array of structs; a field is an id or (id, scope)."""
        wanted = [(f, 0) if isinstance(f, int) else f for f in fields]
        entries = (c_nvmlFieldValue_t * len(wanted))()
        for entry, (number, scope) in zip(entries, wanted, strict=True):
            entry.fieldId, entry.scopeId = number, scope
        if result := self._field_values(handle, len(wanted), entries):
            raise NVMLError(result)
        return entries

    def nvmlGpmSampleAlloc(self) -> ctypes.c_void_p:
        """A place for one GPM sample."""
        number = max(self._samples, default=0) + 1
        self._samples[number] = ""
        return ctypes.c_void_p(number)

    def nvmlGpmSampleFree(self, sample: ctypes.c_void_p) -> None:
        """Give a sample back."""
        self._samples.pop(sample.value or 0, None)

    def nvmlGpmSampleGet(self, handle: Handle, sample: ctypes.c_void_p) -> ctypes.c_void_p:
        """Take a sample of a GPU."""
        self._obey_device(handle.key)
        self._obey(f"{handle.key}/nvmlGpmSampleGet()")
        if not self._read(f"{handle.key}/nvmlGpmQueryDeviceSupport()", ("isSupportedDevice",)):
            raise NVMLError(NOT_SUPPORTED)
        self._samples[sample.value or 0] = handle.key
        return sample

    def nvmlGpmMigSampleGet(
        self, gpu: Handle, instance: int, sample: ctypes.c_void_p
    ) -> ctypes.c_void_p:
        """Take a sample of a MIG instance."""
        self.nvmlGpmSampleGet(gpu, sample)
        self._samples[sample.value or 0] = f"{gpu.key}.{instance}"
        return sample

    def nvmlGpmMetricsGet(self, request: Any) -> Any:
        """Fill the metrics asked for; the table already holds what a real driver works
        out between two samples.
        """
        request = getattr(request, "_obj", request)
        device = self._samples.get(request.sample2 or 0, "")
        if not device or device != self._samples.get(request.sample1 or 0):
            raise NVMLError(INVALID_ARGUMENT)
        self._obey_device(device)
        for metric in request.metrics[: request.numMetrics]:
            answer = self._state.get(f"{device}/gpm {metric.metricId}")
            self._act(answer.result)
            metric.nvmlReturn, metric.value = answer.result, float(answer.value)
        return request

    def nvmlEventSetCreate(self) -> EventSet:
        """An event set that sees what happens from now on."""
        self._obey("-/*")
        return EventSet(self._state)

    def nvmlDeviceRegisterEvents(self, handle: Handle, types: int, events: EventSet) -> None:
        """Let an event set see events of these types of a GPU."""
        self._obey_device(handle.key)
        self._obey(f"{handle.key}/nvmlDeviceRegisterEvents()")
        events.register(handle.key, types)

    def nvmlEventSetWait_v2(self, events: EventSet, timeout_ms: int) -> EventData:
        """The next event; NVMLError TIMEOUT when there is none within ``timeout_ms``."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            self._obey("-/*", "-/nvmlEventSetWait_v2()")
            event = events.next(Handle)
            if event is not None:
                return event
            if time.monotonic() >= deadline:
                raise NVMLError(TIMEOUT)
            time.sleep(min(0.01, max(0.0, deadline - time.monotonic())))

    nvmlEventSetWait = nvmlEventSetWait_v2

    def nvmlEventSetFree(self, events: EventSet) -> None:
        """Let go of an event set."""

    def _call(self, name: str, *args: Any, **named: Any) -> Any:
        """Any other function: its answer is found by its name and its whole-number arguments."""
        given = [*args, *named.values()]
        device = given.pop(0).key if given and isinstance(given[0], Handle) else "-"
        structs = [s for a in given if isinstance(s := getattr(a, "_obj", a), ctypes.Structure)]
        numbers = ", ".join(str(int(a)) for a in given if isinstance(a, int))
        self._obey_device(device)
        answer = self._read(f"{device}/{name}({numbers})")
        return fill(structs[0], answer) if structs else answer

    def _read(self, base: str, path: tuple[str | int, ...] = ()) -> Any:
        at = self._state.offset(base)
        if at is not None:
            self._act_or_raise(self._result(at))
        shape = self._shape(base)
        if shape is None:
            if at is None:
                raise NVMLError(NOT_SUPPORTED)
            return self._state.get(base).value
        answer = shape.read(self._value)
        for part in path:
            answer = getattr(answer, part) if isinstance(part, str) else answer[part]
        return answer

    def _shape(self, base: str) -> Shape | None:
        if self._indexed != self._state.count:
            self._indexed = self._state.count
            self._shapes = index_of(self._state.keys())
        return self._shapes.get(base)

    def _value(self, key: str) -> float | int | str:
        answer = self._state.get(key)
        self._act_or_raise(answer.result)
        return answer.value

    def _number(self, key: str, absent: int) -> int:
        answer = self._state.get(key)
        self._act_or_raise(absent if answer.result == NOT_SUPPORTED else answer.result)
        return int(answer.value)

    def _find(self, question: str, matches: Callable[[str], bool]) -> Handle:
        self._obey("-/*")
        for index in range(self._number("-/nvmlDeviceGetCount()", NOT_SUPPORTED)):
            handle = str(self._number(f"-/nvmlDeviceGetHandleByIndex({index})", INVALID_ARGUMENT))
            if matches(str(self._state.get(f"{handle}/{question}").value)):
                self._obey_device(handle)
                return Handle(handle)
        raise NVMLError(NOT_FOUND)

    def _obey_device(self, device: str) -> None:
        gpu = device.partition(".")[0]
        self._obey("-/*", f"{gpu}/*", *((f"{device}/*",) if device != gpu else ()))

    def _obey(self, *keys: str) -> None:
        for key in keys:
            at = self._state.offset(key)
            if at is not None:
                self._act_or_raise(self._result(at))

    def _result(self, at: int) -> int:
        code: int = struct.unpack_from("<i", self._state.buffer, at + RESULT_OFFSET)[0]
        return code

    def _act_or_raise(self, result: int) -> None:
        if result:
            self._act(result)
            raise NVMLError(result)

    @staticmethod
    def _act(result: int) -> None:
        """Hang forever or die where the table says so."""
        if result == HANG:
            _hang()
        if result == ABORT:
            os.abort()
        if result == SEGFAULT:
            ctypes.string_at(0)

    def _field_values(self, handle: Handle, count: int, buffer: Any) -> int:
        """As the C library's nvmlDeviceGetFieldValues: fills ``count`` entries of 40
        bytes, returns NVML's code.
        """
        try:
            self._obey_device(handle.key)
        except NVMLError as error:
            return error.value
        view, table = _writable(buffer, count * _FIELD_VALUE.size), self._state.buffer
        stamp = int(self._state.get(f"{handle.key}/timestamp").value) or time.time_ns() // 1000
        for at in range(0, count * _FIELD_VALUE.size, _FIELD_VALUE.size):
            number, scope = struct.unpack_from("<II", view, at)
            slot = self._state.offset(
                f"{handle.key}/field {number}" + (f" scope {scope}" if scope else "")
            )
            if slot is None:
                struct.pack_into("<qqii", view, at + 8, stamp, 0, 0, NOT_SUPPORTED)
                continue
            value, result, kind = struct.unpack_from("<8sii", table, slot + VALUE_OFFSET)
            self._act(result)
            _FIELD_VALUE.pack_into(view, at, number, scope, stamp, 0, kind, result, value)
        return 0


def _writable(buffer: Any, size: int) -> memoryview:
    """Bytes behind a ctypes array, ``byref(...)``, a pointer or any writable buffer."""
    buffer = getattr(buffer, "_obj", buffer)
    if isinstance(buffer, int | ctypes.c_void_p) or hasattr(buffer, "contents"):
        address = buffer if isinstance(buffer, int) else ctypes.cast(buffer, ctypes.c_void_p).value
        buffer = (ctypes.c_char * size).from_address(address or 0)
    return memoryview(buffer).cast("B")


def _hang() -> NoReturn:
    """Block forever, as a driver that waits for a GPU that will not answer."""
    while True:
        signal.pause()


def open_client(directory: Path | str) -> SimulatedNvml:
    """NVML of the simulated node in ``directory``.

    FileNotFoundError or ValueError where there is no table.
    """
    return SimulatedNvml(NvmlState(Path(directory) / _TABLE))
