"""What is asked of one GPU, MIG instance or NVLink, and in what form its answers go to the parent.

Runs in the driver child.

The first reading finds out which way of asking each question is supported, and drops what none of
its ways can answer. After that a reading is one batched call and the getters that are due, until
what was refused is asked again.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from typing import Any

from collector.sources.nvml.callboard import QUICK, SLOW
from collector.sources.nvml.library import (
    CORRUPTED_INFOROM,
    GONE,
    NOT_SUPPORTED,
    UNSUPPORTED,
    Library,
    NvmlError,
    follow,
)
from collector.sources.nvml.questions import Call, FieldValue, Gpm, Way
from collector.sources.nvml.wire import ENTRY

# Value types (nvml.h, nvmlValueType_t).
_DOUBLE, _UNSIGNED, _SIGNED = 0, 3, 4
_RESULT_WORD, _ENTRY_WORDS = 7, 10  # the return code is the eighth of an entry's ten 32-bit words

# Seconds between two readings of what moves slowly, costs a driver much or blocks
# (nvmlDeviceGetPcieThroughput samples 20 ms; nvmlDeviceValidateInforom reads the ROM). The answer
# before is held in between. Everything else is asked in every sweep.
EVERY_S: Mapping[str, float] = {
    "nvmlDeviceValidateInforom": 600.0,
    "nvmlDeviceGetMaxClockInfo": 60.0,
    "nvmlDeviceGetMaxPcieLinkGeneration": 60.0,
    "nvmlDeviceGetMaxPcieLinkWidth": 60.0,
    "nvmlDeviceGetPowerManagementDefaultLimit": 60.0,
    "nvmlDeviceGetPowerManagementLimitConstraints": 60.0,
    "nvmlDeviceGetRetiredPages": 60.0,
    "nvmlDeviceGetSupportedClocksEventReasons": 60.0,
    "nvmlDeviceGetSupportedClocksThrottleReasons": 60.0,
    "nvmlDeviceGetTemperatureThreshold": 60.0,
    "nvmlGpmQueryDeviceSupport": 60.0,
    "nvmlDeviceGetApplicationsClock": 10.0,
    "nvmlDeviceGetBAR1MemoryInfo": 10.0,
    "nvmlDeviceGetComputeMode": 10.0,
    "nvmlDeviceGetGpuFabricInfoV": 10.0,
    "nvmlDeviceGetMemoryErrorCounter": 10.0,
    "nvmlDeviceGetMigMode": 10.0,
    "nvmlDeviceGetNvLinkErrorCounter": 10.0,
    "nvmlDeviceGetPcieThroughput": 10.0,
    "nvmlDeviceGetPersistenceMode": 10.0,
    "nvmlDeviceGetRepairStatus": 10.0,
    "nvmlDeviceGetRowRemapperHistogram": 10.0,
    "nvmlDeviceGetSramEccErrorStatus": 10.0,
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": 10.0,
    "nvmlDeviceGetCurrPcieLinkGeneration": 5.0,
    "nvmlDeviceGetCurrPcieLinkWidth": 5.0,
    "nvmlDeviceGetDecoderUtilization": 5.0,
    "nvmlDeviceGetEncoderUtilization": 5.0,
    "nvmlDeviceGetFanSpeed": 5.0,
    "nvmlDeviceGetGraphicsRunningProcesses_v2": 5.0,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 5.0,
    "nvmlDeviceGetJpgUtilization": 5.0,
    "nvmlDeviceGetOfaUtilization": 5.0,
    # whose job holds the GPU is right within a tick
    "nvmlDeviceGetComputeRunningProcesses_v2": 1.0,
    "nvmlDeviceGetComputeRunningProcesses_v3": 1.0,
}
_AGAIN_S = 1e-6  # a getter is not asked twice in one reading
_SPREAD = 8  # devices' slow getters are spread over this many parts of their period


class _Question:
    """One column: all ways to ask and those that are left, and its answer as an entry of the wire
    (None before the first).
    """

    __slots__ = ("all_ways", "column", "entry", "ways")

    def __init__(self, column: str, ways: tuple[Way, ...]) -> None:
        self.column, self.all_ways, self.ways = column, ways, ways
        self.entry: bytes | None = None

    def unsupported(self) -> None:
        """Go on to the next way."""
        self.ways, self.entry = self.ways[1:], None

    def ask_again(self) -> bool:
        """Go back to the first way; True where one was refused."""
        refused = len(self.ways) < len(self.all_ways)
        if refused:
            self.ways, self.entry = self.all_ways, None
        return refused


class _Getter:
    """One call, and the questions that its answer answers."""

    __slots__ = ("call", "due", "every", "questions")

    def __init__(self, call: Call, hold: float) -> None:
        self.call = call
        self.every = EVERY_S.get(call.function, 0.0) * hold
        self.due = 0.0
        self.questions: list[_Question] = []


class Target:
    """One GPU, instance or link; ``number`` names it in messages.

    ``layout`` counts arrangements: while it stays, ``columns`` (fields and getters) and
    ``gpm_columns`` stay. ``lists`` holds the last answers that were lists: the processes. ``hold``
    multiplies EVERY_S; 0 asks everything every time. ``shrank``: it answers fewer questions than
    it did.
    """

    def __init__(
        self,
        library: Library,
        number: int,
        gpu: int,
        handle: Any,
        questions: Mapping[str, tuple[Way, ...]],
        *,
        hold: float = 1.0,
    ) -> None:
        self.number, self.gpu, self.handle = number, gpu, handle
        self.layout = 0
        self.columns: list[str] = []
        self.lists: dict[str, list[Any]] = {}
        self._library, self._hold = library, hold
        self._questions = [
            _Question(column, ways)
            for column, ways in questions.items()
            if ways and not isinstance(ways[0], Gpm)
        ]
        self._getters: dict[tuple[str, tuple[int, ...]], _Getter] = {}
        self._batched: list[_Question] = []
        self._raw = bytearray()
        self._changed = True
        self._most = 0

    @property
    def shrank(self) -> bool:
        """What was answered once and is not supported now."""
        return len(self.columns) < self._most

    def ask_again(self) -> None:
        """Ask what was refused once more in the next reading: a refusal may end while the driver
        stays, as that of the utilization while MIG is on. It costs that reading a second batch.
        """
        for question in self._questions:
            self._changed |= question.ask_again()

    def read(self, now: float) -> bytes:
        """Entries of all columns, everything that is due asked again.

        NvmlError where the GPU or the driver is gone.
        """
        while True:
            if self._changed:
                self._arrange()
            self._changed = True  # unless both come through: the GPU may be lost between them
            changed = self._ask_fields()
            self._changed = self._ask_getters(now) or changed
            if not self._changed:
                self._most = max(self._most, len(self.columns))
                return bytes(self._raw) + b"".join(
                    q.entry or b"" for g in self._getters.values() for q in g.questions
                )

    def _arrange(self) -> None:
        """Sort the questions by the way each is asked now: one batch, and getters
        that keep when they are due.
        """
        self._batched = [q for q in self._questions if q.ways and isinstance(q.ways[0], FieldValue)]
        self._raw = bytearray(ENTRY.size * len(self._batched))
        for at, question in enumerate(self._batched):
            way = question.ways[0]
            assert isinstance(way, FieldValue)  # noqa: S101 - for the type checker
            ENTRY.pack_into(self._raw, at * ENTRY.size, way.id, way.scope, 0, 0, 0, 0, bytes(8))
        self._buffer = (ctypes.c_char * len(self._raw)).from_buffer(self._raw)
        self._results = memoryview(self._raw).cast("i")[_RESULT_WORD::_ENTRY_WORDS]
        before, self._getters = self._getters, {}
        for question in self._questions:
            if question.ways and isinstance(call := question.ways[0], Call):
                key = (call.function, call.arguments)
                getter = self._getters.get(key)
                if getter is None:
                    getter = self._getters[key] = before.get(key) or _Getter(call, self._hold)
                    getter.questions = []
                getter.questions.append(question)
                if question.entry is None:
                    getter.due = 0.0
        self.columns = [
            q.column
            for q in (*self._batched, *(q for g in self._getters.values() for q in g.questions))
        ]
        self.layout += 1

    def _ask_fields(self) -> bool:
        """One batched call; True where a field turned out to be unsupported."""
        if not self._batched:
            return False
        code = self._library.batch(self.gpu, self.handle, len(self._batched), self._buffer)
        if code == 0 and not any(self._results):
            return False
        if code:
            for at in range(len(self._batched)):
                struct.pack_into("<i", self._raw, at * ENTRY.size + 4 * _RESULT_WORD, code)
        if gone := GONE.intersection(self._results):
            raise NvmlError(min(gone))
        rejected = [
            q
            for q, result in zip(self._batched, self._results, strict=True)
            if result in UNSUPPORTED
        ]
        for question in rejected:
            question.unsupported()
        return bool(rejected)

    def _ask_getters(self, now: float) -> bool:
        """The getters that are due; True where a question turned out to be unsupported."""
        changed = False
        for getter in self._getters.values():
            if getter.due > now:
                continue
            first = getter.due == 0.0
            getter.due = now + max(
                _AGAIN_S, getter.every * (1 + self.gpu % _SPREAD / _SPREAD if first else 1)
            )
            try:
                answer = self._library.ask(
                    self.gpu, self.handle, getter.call, _patience(getter.call)
                )
            except NvmlError as error:
                changed |= self._refused(getter, error.code)
                continue
            if isinstance(answer, list):
                self.lists[getter.call.function] = answer
            for question in getter.questions:
                changed |= self._answered(question, answer)
        return changed

    @staticmethod
    def _answered(question: _Question, answer: Any) -> bool:
        call = question.ways[0]
        assert isinstance(call, Call)  # noqa: S101 - for the type checker
        try:
            question.entry = _entry(follow(answer, call))
        except NvmlError:
            question.unsupported()
            return True
        return False

    @staticmethod
    def _refused(getter: _Getter, code: int) -> bool:
        if code in GONE:
            raise NvmlError(code)
        for question in getter.questions:
            if code in UNSUPPORTED:
                question.unsupported()
            elif code == CORRUPTED_INFOROM and getter.call.codec == "valid":
                question.entry = _entry(0)
            else:
                question.entry = ENTRY.pack(0, 0, 0, 0, 0, code, bytes(8))
        return code in UNSUPPORTED


def _patience(call: Call) -> int:
    return SLOW if call.function == "nvmlDeviceValidateInforom" else QUICK


def _entry(value: float | str) -> bytes:
    """A getter's number in the form of a field value. NvmlError where it is no number that fits."""
    try:
        if isinstance(value, float):
            return ENTRY.pack(0, 0, 0, 0, _DOUBLE, 0, struct.pack("<d", value))
        number = int(value)
        return ENTRY.pack(
            0,
            0,
            0,
            0,
            _SIGNED if number < 0 else _UNSIGNED,
            0,
            struct.pack("<q" if number < 0 else "<Q", number),
        )
    except (TypeError, ValueError, struct.error) as error:
        raise NvmlError(NOT_SUPPORTED) from error
