"""The driver library as the child sees it: opened by name, every call announced, every
failure a code of nvml.h.
"""

from __future__ import annotations

import ctypes
from typing import Any

from collector.sources.nvml.callboard import NO_DEVICE, QUICK, SLOW, CallBoard
from collector.sources.nvml.codecs import CODECS
from collector.sources.nvml.questions import Call
from pipeline import plugin

# Return codes (nvml.h, nvmlReturn_t).
INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND, CORRUPTED_INFOROM, LOST, UNKNOWN = (
    2,
    3,
    6,
    13,
    14,
    15,
    999,
)
TIMEOUT = 10
# The GPU or the whole driver is gone (uninitialised 1, driver not loaded 9, versions differ 18): no
# other question is worth asking.
GONE = frozenset({1, 9, LOST, 18})
# A question answered so is asked again rarely (devices.py): wrong scope or id, not this hardware,
# no such function, another struct version (25), retired by the driver (26), not on a vGPU (22).
UNSUPPORTED = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, 22, 25, 26})

# Functions that fill a struct of the caller, and the structs that pynvml
# has for them, newest first.
_FILLED = {
    "nvmlDeviceGetSramEccErrorStatus": ("c_nvmlEccSramErrorStatus_v1_t",),
    "nvmlDeviceGetGpuFabricInfoV": ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"),
    "nvmlDeviceGetPlatformInfo": ("c_nvmlPlatformInfo_v2_t",),
}
_ARGUMENT_VERSION_MISMATCH = 25
# codecs that need the bytes, which ctypes would cut at a zero
_RAW = frozenset({"byte", "hex", "text", "uuid"})


class NvmlError(Exception):
    """A call failed; ``code`` is NVML's."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML error {code}")
        self.code = code


def open_library(spec: str) -> Any:
    """The driver's bindings (pynvml) for ``""``, else what ``MODULE:FUNCTION:ARGUMENT`` returns.

    A simulated node's is ``simulator.nvml_client:open_client:DIR``. ValueError for another form.
    """
    if not spec:
        import pynvml  # noqa: PLC0415 - a simulated node needs no driver bindings

        return pynvml
    module, _, rest = spec.partition(":")
    function, _, argument = rest.partition(":")
    if not argument:
        raise ValueError(
            f"nvml library {spec!r}: give nothing for the driver's own, or MODULE:FUNCTION:ARGUMENT"
        )
    return plugin.load(f"{module}:{function}")(argument)


class Library:
    """Calls into NVML, announced on the call board.

    ``nvml`` is pynvml or something with its names.
    """

    def __init__(self, nvml: Any, board: CallBoard) -> None:
        self.nvml = nvml
        # Beside its own error the bindings raise what a struct or text of another
        # driver version leads to.
        self._failures = (
            nvml.NVMLError,
            ctypes.ArgumentError,
            OSError,
            TypeError,
            ValueError,
            LookupError,
        )
        self._board = board
        self._functions: dict[str, Any] = {}

    def call(
        self, function: str, *arguments: Any, gpu: int = NO_DEVICE, patience: int = QUICK
    ) -> Any:
        """Call a function of pynvml. NvmlError whatever goes wrong."""
        self._board.begin(function, gpu, patience)
        try:
            return self._function(function)(*arguments)
        except AttributeError as error:  # bindings or library without this function
            raise NvmlError(FUNCTION_NOT_FOUND) from error
        except self._failures as error:
            code = getattr(error, "value", None)
            raise NvmlError(code if isinstance(code, int) else UNKNOWN) from error
        finally:
            self._board.end()

    def initialise(self) -> None:
        """nvmlInit; NvmlError 12 without a library, 9 without a driver."""
        self.call("nvmlInit", patience=SLOW)

    def batch(self, gpu: int, handle: Any, count: int, buffer: Any) -> int:
        """Field values into a buffer made once (nvmlDeviceGetFieldValues); the return code."""
        self._board.begin("nvmlDeviceGetFieldValues", gpu)
        try:
            code: int = self._batch()(handle, count, buffer)
        except (AttributeError, KeyError):
            return FUNCTION_NOT_FOUND
        finally:
            self._board.end()
        return code

    def ask(self, gpu: int, handle: Any, call: Call, patience: int = QUICK) -> Any:
        """The whole answer of a getter, before the way into it is followed."""
        if call.function.startswith("nvmlSystem"):  # of the driver, no GPU's
            return self.call(call.function, *call.arguments, patience=patience)
        arguments = (handle, *call.arguments)
        structs = [
            s
            for name in _FILLED.get(call.function, ())
            if (s := getattr(self.nvml, name, None)) is not None
        ]
        if not structs:
            return self.call(call.function, *arguments, gpu=gpu, patience=patience)
        for struct in structs:
            filled = struct()
            try:
                self.call(
                    call.function, *arguments, ctypes.byref(filled), gpu=gpu, patience=patience
                )
            except NvmlError as error:
                if error.code == _ARGUMENT_VERSION_MISMATCH and struct is not structs[-1]:
                    continue
                raise
            break
        return filled

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = getattr(self.nvml, name)
        return self._functions[name]

    def _batch(self) -> Any:
        if "batch" not in self._functions:
            # [] gives an object of our own: pynvml's keeps its argtypes
            function = self.nvml.nvmlLib["nvmlDeviceGetFieldValues"]
            if isinstance(function, ctypes._CFuncPtr):  # type: ignore[attr-defined]  # noqa: SLF001 - the only name of that class
                function.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
            self._functions["batch"] = function
        return self._functions["batch"]


def follow(answer: Any, call: Call) -> Any:
    """The part of an answer that a question is about, decoded.

    NvmlError where the answer has no such part.
    """
    try:
        for step in call.path:
            if step == "length":
                answer = len(answer)
            elif isinstance(step, int):
                answer = answer[step]
            elif call.codec in _RAW and isinstance(answer, ctypes.Structure):
                answer = _bytes(answer, step)
            else:
                answer = getattr(answer, step)
        return CODECS[call.codec](answer) if call.codec else answer
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise NvmlError(NOT_SUPPORTED) from error


def _bytes(struct: ctypes.Structure, member: str) -> bytes:
    place = getattr(type(struct), member)
    return bytes(memoryview(struct).cast("B")[place.offset : place.offset + place.size])
