"""Level standard: bandwidth and matrix multiply of each GPU, in a child with a deadline."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from collector.preflight.model import Machine, Outcome, Row
from pipeline import child

BENCH = Path(__file__).with_name("bench.py")
DEADLINE_S = 45.0
MAX_RESULTS = 4096
MEASURES = {
    "memory_bandwidth": "memory bandwidth",
    "host_to_device": "copies to the GPU",
    "device_to_host": "copies from the GPU",
    "matrix_multiply": "bf16 matrix multiply",
    "all_reduce": "all-reduce over NVLink",
}
NCCL_TEST = "all_reduce_perf"
# Columns of nccl-tests: size, count, type, op, root, then time, algbw, busbw, #wrong twice.
_BUS = re.compile(r"^\s*\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", re.MULTILINE)
Run = Callable[..., child.Finished]


class Measured(NamedTuple):
    """One result: ``device`` is a GPU's UUID, or the host for what all GPUs do together; ``model``
    peers have in common; ``value`` is in base units.
    """

    device: str
    model: str
    measure: str
    value: float


def measure(
    machine: Machine, python: str, run: Run = child.run
) -> tuple[list[Measured], list[Outcome]]:
    """Results, and what could not be measured."""
    program = shutil.which(python)
    if program is None:
        return [], [_unknown(f"{python}: no such program")]
    try:
        done = run([program, "-s", str(BENCH)], timeout_s=DEADLINE_S)
    except OSError as error:
        return [], [_unknown(f"{python}: {error.strerror}")]
    found = list(parsed(done.stdout, machine))
    lacking = []
    if done.timed_out:
        lacking.append(_unknown(f"not finished within {DEADLINE_S:g} s"))
    elif done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
        lacking.append(_unknown(last or f"{python} exited with {done.returncode}"))
    if not any(one.measure == "all_reduce" for one in found) and len(machine.gpus) > 1:
        found += nccl_test(machine, run)
    return found, lacking


def parsed(output: bytes, machine: Machine) -> Iterator[Measured]:
    """The results in a child's output; lines of anything else are passed over."""
    gpus = {row.device.id: row for row in machine.gpus}
    by_index = {row.device.attributes.get("index", ""): row for row in machine.gpus}
    for line in output.splitlines()[:MAX_RESULTS]:
        try:
            given = json.loads(line)
            name, value, uuid = str(given["measure"]), float(given["value"]), str(given["uuid"])
            # a UUID that is no GPU's, such as a MIG instance's, has no GPU's number either
            row = gpus.get(uuid) if uuid else by_index.get(str(given["gpu"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if name not in MEASURES or not (math.isfinite(value) and value > 0):
            continue
        if name == "all_reduce":
            yield Measured(machine.host, _board(machine), name, value)
        elif row is not None:
            yield Measured(row.device.id, row.model, name, value)


def nccl_test(machine: Machine, run: Run = child.run) -> list[Measured]:
    """Bus bandwidth by nccl-tests, where they are installed."""
    program = shutil.which(NCCL_TEST)
    if program is None:
        return []
    argv = [program, "-b", "256M", "-e", "256M", "-g", str(len(machine.gpus)), "-n", "20"]
    try:
        done = run(argv, timeout_s=DEADLINE_S)
    except OSError:
        return []
    rates = [float(text) for text in _BUS.findall(done.stdout.decode(errors="replace"))]
    return [Measured(machine.host, _board(machine), "all_reduce", rates[-1] * 1e9)] if rates else []


def _board(machine: Machine) -> str:
    """What peers of a node have in common: its GPUs and their number."""
    models: Sequence[Row] = machine.gpus
    return f"{len(models)} x {models[0].model}" if models else ""


def _unknown(why: str) -> Outcome:
    return Outcome("measure", "unknown", "node", why)
