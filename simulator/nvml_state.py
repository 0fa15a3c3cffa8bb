"""What a simulated or scripted NVML answers: a memory-mapped table from question to answer.

Three read it: the simulated client (nvml_client.py), the C stub of libnvidia-ml.so.1 (tests/stub),
and people who debug. Three write it: the simulator's renderer, fault injection, and tests that
script the stub call by call.

File layout, little endian: header of 64 bytes (magic ``TOCNVML1``, u32 capacity, u32 slot size, u64
number of keys), then ``capacity`` slots of 192 bytes: key (88 bytes, NUL-padded), value (8 bytes),
i32 result, i32 type, text (88 bytes, NUL-padded). A key lives in the first free slot from
FNV-1a-64(key) modulo capacity on and never moves. Value is a signed or unsigned 64-bit integer or
the bits of a double, as ``type`` says.

**Keys** are ``<device>/<question>``, the question as the catalogue's ``read`` spells it with
numbers filled in, arguments joined by ``, ``; what belongs to no device has device ``-``; a MIG
instance is ``0.5`` (GPU 0, GPU instance 5)::

    0/nvmlDeviceGetTemperature(0)             a plain value          3/field 138 scope 7    a field value (scope 0 is not spelt)
    0/nvmlDeviceGetUtilizationRates().gpu     member of a struct     0/gpm 2                a GPM metric; 0.5/gpm 2 of an instance
    0/nvmlDeviceGetEccMode()[1]               element of a tuple     -/nvmlSystemGetDriverVersion()
    0/nvmlDeviceGetComputeRunningProcesses().length, ...()[0].pid    a list and what its elements hold
    -/nvmlDeviceGetCount()    -/nvmlDeviceGetHandleByIndex(0)        the value is the device number; absent: INVALID_ARGUMENT
    0/nvmlDeviceGetMigDeviceHandleByIndex(0)                         the value is the GPU instance; absent: NOT_FOUND
    0/timestamp                               unix microseconds of the device's values, for nvmlFieldValue_t.timestamp; absent: now

**Results.** The first of these that is there and not 0 is the answer of a call: ``-/*`` (the
library as a whole), ``0/*`` (the GPU), ``0.5/*`` (the instance), the bare question
``0/nvmlDeviceGetUtilizationRates()``, then the value, members or elements asked for. ``-/*`` and
``0/*`` do not concern nvmlInit, nvmlShutdown and nvmlErrorString; ``-/nvmlInit()`` does.
nvmlDeviceGetHandleByIndex(i) belongs to GPU i, so a lost GPU (``i/*`` = 15) gives no new handle. In
a batch of field values ``0/*`` is the result of the whole call; a field's own code is the result in
its entry. A question that is absent answers NOT_SUPPORTED; a member that is absent while another
member of its struct is there is 0.

**Events** (nvmlEventSetWait) are a ring: number n lies at ``-/event <n mod 64>`` as text ``<GPU>
<eventType> <eventData> <gpuInstanceId> <computeInstanceId>`` (decimal, 4294967295 where there is no
instance), and ``-/events`` holds how many there ever were, written after the text. An event set
sees what comes after its creation, of the GPUs and types registered with it; one that is more than
64 behind goes on with the oldest that is left. Waiting never outlasts timeoutms and ends with
TIMEOUT (10).
"""  # noqa: E501 - an example or a table

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

MAGIC = b"TOCNVML1"
HEADER = 64
SLOT = struct.Struct("<88s8sii88s")
VALUE_OFFSET, RESULT_OFFSET, TYPE_OFFSET, TEXT_OFFSET = 88, 96, 100, 104
KEYS_OFFSET = 16  # of the number of keys in the header
EVENTS = 64  # size of the event ring
NO_INSTANCE = 0xFFFFFFFF  # nvmlEventData_t: the event concerns no MIG instance

# Value types of nvmlFieldValue_t (nvml.h, nvmlValueType_t), and 100 for text.
DOUBLE, UNSIGNED, ULONG, ULONGLONG, SLONGLONG, INT, USHORT, TEXT = 0, 1, 2, 3, 4, 5, 6, 100

# Results beside NVML's own return codes: what the stub does instead of answering.
HANG, ABORT, SEGFAULT = -1, -2, -3
NOT_SUPPORTED = 3


class Answer(NamedTuple):
    """One answer: the native number or text, NVML's return code (or HANG, ABORT,
    SEGFAULT) and the value type.
    """

    value: float | int | str
    result: int = 0
    type: int = ULONGLONG


def fnv1a(key: bytes) -> int:
    """FNV-1a, 64 bit (RFC draft-eastlake-fnv): the same few lines in C."""
    h = 0xCBF29CE484222325
    for byte in key:
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


class NvmlState:
    """The table.

    Writing a value is one aligned 8-byte store: readers in other processes
    see old or new, never half.
    """

    def __init__(self, path: Path, *, create: bool = False, capacity: int = 16384) -> None:
        if create:
            scratch = path.with_name(path.name + ".new")
            with scratch.open("wb") as f:
                f.write(struct.pack("<8sII", MAGIC, capacity, SLOT.size).ljust(HEADER, b"\0"))
                f.truncate(HEADER + capacity * SLOT.size)
            scratch.replace(path)
        with path.open("r+b" if os.access(path, os.W_OK) else "rb") as f:
            access = mmap.ACCESS_WRITE if f.writable() else mmap.ACCESS_READ
            self._map = mmap.mmap(f.fileno(), 0, access=access)
        magic, capacity, slot = struct.unpack_from("<8sII", self._map)
        self.capacity: int = capacity
        if magic != MAGIC or slot != SLOT.size:
            raise ValueError(
                f"{path}: not a table of NVML answers (magic {magic!r}, slot size {slot})"
            )
        self._offsets: dict[str, int] = {}  # of keys once found; a slot never moves

    def offset(self, key: str, *, create: bool = False) -> int | None:
        """Where a key's slot begins; None where it is absent.

        ValueError when the key is too long or the table is full.
        """
        if key in self._offsets:
            return self._offsets[key]
        raw = key.encode()
        if len(raw) > 87:
            raise ValueError(f"key {key!r} is longer than 87 bytes")
        start = fnv1a(raw) % self.capacity
        for step in range(self.capacity):
            at = HEADER + (start + step) % self.capacity * SLOT.size
            stored = self._map[at : at + 88].rstrip(b"\0")
            if stored == raw or (create and not stored):
                if not stored:
                    self._map[at : at + 88] = raw.ljust(88, b"\0")
                    struct.pack_into("<Q", self._map, KEYS_OFFSET, self.count + 1)
                self._offsets[key] = at
                return at
            if not stored:
                return None
        raise ValueError(f"table of {self.capacity} answers is full")

    def set(self, key: str, value: float | str, result: int = 0, type: int | None = None) -> None:  # noqa: A002 - NVML's word
        """Write an answer.

        The type is taken from the Python value unless given: int is ULONGLONG (SLONGLONG below 0).
        """
        text = b""
        if isinstance(value, str):
            kind, raw, text = TEXT, bytes(8), value.encode()[:87]
        elif not isinstance(value, int) or type == DOUBLE:
            kind, raw = DOUBLE, struct.pack("<d", value)
        else:
            kind, raw = (
                (SLONGLONG, struct.pack("<q", value))
                if value < 0
                else (ULONGLONG, struct.pack("<Q", value))
            )
        at = self.offset(key, create=True)
        assert at is not None  # noqa: S101 - create never gives None
        # Part by part: packing a whole slot at once would show readers an empty one for an instant.
        if kind == TEXT:
            self._map[at + TEXT_OFFSET : at + SLOT.size] = text.ljust(88, b"\0")
        self._map[at + VALUE_OFFSET : at + VALUE_OFFSET + 8] = raw
        self._map[at + RESULT_OFFSET : at + RESULT_OFFSET + 8] = struct.pack(
            "<ii", result, kind if type is None else type
        )

    def post(
        self,
        gpu: int,
        event_type: int,
        data: int,
        instance: int = NO_INSTANCE,
        compute: int = NO_INSTANCE,
    ) -> None:
        """Put an event into the ring: what nvmlEventSetWait gives to those who registered."""
        number = self.get("-/events").value
        self.set(
            f"-/event {int(number) % EVENTS}", f"{gpu} {event_type} {data} {instance} {compute}"
        )
        self.set("-/events", int(number) + 1)

    def fail(self, key: str, result: int) -> None:
        """Let a question answer with NVML's return code, or HANG, ABORT,
        SEGFAULT; the value stays.
        """
        at = self.offset(key, create=True)
        assert at is not None  # noqa: S101 - create never gives None
        struct.pack_into("<i", self._map, at + RESULT_OFFSET, result)

    def get(self, key: str) -> Answer:
        """The answer to a question; NOT_SUPPORTED where it is absent."""
        at = self.offset(key)
        if at is None:
            return Answer(0, NOT_SUPPORTED)
        _, raw, result, kind, text = SLOT.unpack_from(self._map, at)
        if kind == TEXT:
            return Answer(text.rstrip(b"\0").decode(errors="replace"), result, kind)
        if kind == DOUBLE:
            return Answer(struct.unpack("<d", raw)[0], result, kind)
        return Answer(
            struct.unpack("<q" if kind in (SLONGLONG, INT) else "<Q", raw)[0], result, kind
        )

    @property
    def count(self) -> int:
        """How many keys there are: when it changes, there are new questions."""
        number: int = struct.unpack_from("<Q", self._map, KEYS_OFFSET)[0]
        return number

    @property
    def buffer(self) -> mmap.mmap:
        """The whole table, for those who write many values at once at offsets they keep."""
        return self._map

    def keys(self) -> list[str]:
        """All keys, in no order."""
        slots = range(HEADER, HEADER + self.capacity * SLOT.size, SLOT.size)
        return [k.decode() for at in slots if (k := self._map[at : at + 88].rstrip(b"\0"))]

    def close(self) -> None:
        """Unmap."""
        self._map.close()
