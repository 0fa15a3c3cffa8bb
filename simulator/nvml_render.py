"""Writes what NVML would answer about a simulated node into the table of
nvml_state.py, tick by tick.

Slots are found once; a tick assigns all values that change, the results of
injected faults, and new events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import translate
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import mig, nvml_questions
from simulator.node import Node
from simulator.nvml_state import NOT_SUPPORTED, ULONGLONG, VALUE_OFFSET, NvmlState
from simulator.readings import Reading, gpu_readings, instance_readings, link_readings


class Column(NamedTuple):
    """Where a reading goes: ``rows`` are its elements (flattened), ``places`` the 8-byte words of
    the table they are written to.
    """

    reading: str
    rows: NDArray[np.intp]
    places: NDArray[np.intp]


def refusal(unsupported: Mapping[str, Iterable[str]]) -> Callable[[str], bool]:
    """Whether a question is one that hardware of a profile does not answer.

    Patterns as in the shell, brackets plain.
    """
    known = [
        re.compile(translate(pattern.replace("[", "[[]")))
        for patterns in unsupported.values()
        for pattern in patterns
    ]
    return lambda question: any(pattern.match(question) for pattern in known)


class NvmlRenderer:
    """The table of one node, at ``path``."""

    def __init__(self, path: Path, node: Node) -> None:
        self._node = node
        self._refuses = refusal(node.profile.unsupported)
        self._instances = mig.instances(node.profile, node.seed)
        n, links = node.profile.gpu.count, node.profile.nvlink.links
        self.state = NvmlState(
            path, create=True, capacity=1 << (2 * n * (400 + 60 * links)).bit_length()
        )
        self._write_node()
        for gpu in range(n):
            self._write_gpu(gpu)
        version = node.profile.nvlink.version
        self._gpu = [
            self._gpu_column(question, *row) for question, row in nvml_questions.GPU.items()
        ]
        self._sums = [
            self._gpu_column(question, *row)
            for question, row in nvml_questions.sums_of_links(version).items()
        ]
        self._links = [
            self._link_column(question, *row)
            for question, row in nvml_questions.of_link(version).items()
        ]
        self._mig = [
            self._instance_column(question, *row)
            for question, row in nvml_questions.INSTANCE.items()
        ]
        stamps = [f"{gpu}/timestamp" for gpu in (*range(n), *(i.key for i in self._instances))]
        self._stamps = self._column("", stamps, ULONGLONG).places
        self._words = np.frombuffer(self.state.buffer, np.uint64)
        self._results: dict[str, int] = {}

    def render(self, time_ns: int) -> None:
        """Write the node as it is now; ``time_ns`` is the unix time of the sample."""
        readings = gpu_readings(self._node)
        self._write(self._gpu, readings)
        links = link_readings(self._node)
        self._write(self._links, links)
        self._write(self._sums, {name: _total(name, values) for name, values in links.items()})
        if self._instances:
            self._write(self._mig, instance_readings(readings, self._instances))
        self._words[self._stamps] = time_ns // 1000
        self._write_results()
        for event in self._node.events:
            self.state.post(*event)
        self._node.events.clear()

    def close(self) -> None:
        """Let go of the table."""
        self._words = np.empty(0, np.uint64)
        self.state.close()

    def _write(self, columns: Iterable[Column], readings: Mapping[str, Reading]) -> None:
        bits = {name: _bits(values) for name, values in readings.items()}
        for name, rows, places in columns:
            self._words[places] = bits[name][rows]

    def _write_results(self) -> None:
        """Let questions fail, hang or kill as faults say, and answer again when they are over."""
        wanted = self._node.results
        for key in {*self._results, *wanted}:
            result = wanted.get(key, 0)
            if result == self._results.get(key, 0):
                continue
            if self.state.offset(key) is None:
                # A bare getter of a struct gets a key of its own; anything else that is absent
                # stays unanswered afterwards.
                known = self.state.keys()
                members = any(k.startswith((f"{key}.", f"{key}[")) for k in known)
                self.state.set(key, 0, result=0 if members else NOT_SUPPORTED)
                self._results.setdefault(f"{key} before", self.state.get(key).result)
            self.state.fail(key, result or self._results.get(f"{key} before", 0))
        self._results = {
            **{k: v for k, v in self._results.items() if k.endswith(" before")},
            **wanted,
        }

    def _write_node(self) -> None:
        profile = self._node.profile
        self.state.set("-/*", 0)
        self.state.set("-/nvmlInit()", 0)
        self.state.set("-/events", 0)
        self.state.set("-/nvmlDeviceGetCount()", profile.gpu.count)
        self.state.set("-/nvmlSystemGetDriverVersion()", profile.host.driver)
        self.state.set(
            "-/nvmlSystemGetNVMLVersion()", f"{profile.host.cuda // 1000}.{profile.host.driver}"
        )
        self.state.set("-/nvmlSystemGetCudaDriverVersion_v2()", profile.host.cuda)
        self.state.set("-/nvmlSystemGetCudaDriverVersion()", profile.host.cuda)

    def _write_gpu(self, gpu: int) -> None:
        profile, node = self._node.profile, self._node
        address = profile.gpu.pci[gpu].split(":")
        identity: dict[str, str | int | float] = {
            "nvmlDeviceGetUUID()": node.uuids[gpu],
            "nvmlDeviceGetSerial()": node.serials[gpu],
            "nvmlDeviceGetPciInfo_v3().busId": (
                f"{int(address[0], 16):08X}:{address[1].upper()}:{address[2].upper()}.0"
            ),
            "nvmlDeviceGetPciInfo_v3().domain": int(address[0], 16),
            "nvmlDeviceGetPciInfo_v3().bus": int(address[1], 16),
            "nvmlDeviceGetPciInfo_v3().device": int(address[2], 16),
            "nvmlDeviceGetGpuFabricInfoV().clusterUuid": node.fabric_uuid,
        }
        answers = {**identity, **nvml_questions.fixed(profile, gpu, int(node.serials[0]))}
        for link in range(profile.nvlink.links):
            answers |= nvml_questions.fixed_of_link(profile, link)
        self.state.set(f"-/nvmlDeviceGetHandleByIndex({gpu})", gpu)
        self.state.set(f"{gpu}/*", 0)
        for question, value in answers.items():
            if self._answers(gpu, question):
                self.state.set(f"{gpu}/{question}", value)
        for question, (value, kind) in nvml_questions.fixed_fields(profile).items():
            if self._answers(gpu, question):
                self.state.set(f"{gpu}/{question}", value, type=kind)
        for instance in (i for i in self._instances if i.gpu == gpu):
            self.state.set(
                f"{gpu}/nvmlDeviceGetMigDeviceHandleByIndex({instance.index})", instance.number
            )
            for question, value in mig.answers(
                instance, str(profile.answers["nvmlDeviceGetName()"])
            ).items():
                self.state.set(f"{instance.key}/{question}", value)

    def _answers(self, gpu: int, question: str) -> bool:
        split = gpu in self._node.profile.mig and question.startswith(nvml_questions.NOT_UNDER_MIG)
        return not split and not self._refuses(question)

    def _gpu_column(self, question: str, reading: str, kind: int) -> Column:
        keys = [
            f"{g}/{question}" if self._answers(g, question) else ""
            for g in range(self._node.profile.gpu.count)
        ]
        return self._column(reading, keys, kind)

    def _link_column(self, question: str, reading: str, kind: int) -> Column:
        profile, keys = self._node.profile, []
        for gpu in range(profile.gpu.count):
            for link in range(profile.nvlink.links):
                # As the key is spelt: scope 0 is left out.
                asked = re.sub(r"\blink\b", str(link), question).removesuffix(" scope 0")
                keys.append(f"{gpu}/{asked}" if self._answers(gpu, asked) else "")
        return self._column(reading, keys, kind)

    def _instance_column(self, question: str, reading: str, kind: int) -> Column:
        return self._column(
            reading,
            [
                f"{i.key}/{question}" if self._answers(i.gpu, question) else ""
                for i in self._instances
            ],
            kind,
        )

    def _column(self, reading: str, keys: list[str], kind: int) -> Column:
        rows, places = [], []
        for row, key in enumerate(keys):
            if key:
                self.state.set(key, 0, type=kind)
                rows.append(row)
                places.append(((self.state.offset(key) or 0) + VALUE_OFFSET) // 8)
        return Column(reading, np.array(rows, np.intp), np.array(places, np.intp))


def _bits(values: Reading) -> NDArray[np.uint64]:
    """The 64 bits of each value, flat: of doubles as they are, of whole
    numbers in two's complement.
    """
    flat = np.ascontiguousarray(values).ravel()
    bits: NDArray[np.uint64] = (
        flat if flat.dtype in (np.float64, np.uint64) else flat.astype(np.int64)
    ).view(np.uint64)
    return bits


def _total(name: str, values: Reading) -> Reading:
    total: Reading = (
        values.max(axis=1) if name == "ber_word" else values.sum(axis=1, dtype=np.uint64)
    )
    return total
