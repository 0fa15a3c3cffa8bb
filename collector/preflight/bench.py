"""Measures memory and matrix multiply of each GPU with the PyTorch of whatever Python runs it.

This file stands alone: it imports nothing of ours, and is started in an environment of the user's.
It prints one JSON object per result; the process that started it has a deadline.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

GIB = 1 << 30
SIZE = 8192  # of the matrices: large enough for the peak of current GPUs
ALL_REDUCE_BYTES = 256 << 20
WARM_UP, REPEATS = 3, 20


def main() -> int:
    """Measure all GPUs; 1 without PyTorch or without a GPU, with the reason on standard error."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        sys.stderr.write(f"no PyTorch: {error}\n")
        return 1
    if not torch.cuda.is_available():
        sys.stderr.write("PyTorch sees no GPU\n")
        return 1
    for index in range(torch.cuda.device_count()):
        uuid = getattr(torch.cuda.get_device_properties(index), "uuid", "")
        with torch.cuda.device(index):
            for measure, value in measures(torch):
                write(index, f"GPU-{uuid}" if uuid else "", measure, value)
    all_reduce(torch)
    return 0


def measures(torch: Any) -> Iterator[tuple[str, float]]:
    """Name and value of each, in bytes or operations per second; a GPU with little free memory
    gets smaller buffers.
    """
    free, _ = torch.cuda.mem_get_info()
    size = min(GIB, free // 8)
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    seconds = timed(torch, lambda: target.copy_(source))
    yield "memory_bandwidth", 2 * size / seconds  # read and written
    pinned = torch.empty(size // 4, dtype=torch.uint8, pin_memory=True)
    part = source[: size // 4]
    seconds = timed(torch, lambda: part.copy_(pinned, non_blocking=True))
    yield "host_to_device", len(pinned) / seconds
    seconds = timed(torch, lambda: pinned.copy_(part, non_blocking=True))
    yield "device_to_host", len(pinned) / seconds
    left, right = (torch.randn(SIZE, SIZE, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    seconds = timed(torch, lambda: left @ right)
    yield "matrix_multiply", 2 * SIZE**3 / seconds


def all_reduce(torch: Any) -> None:
    """Bus bandwidth of an all-reduce over all GPUs of the node, in one process (nccl-tests,
    doc/PERFORMANCE.md: 2 (n - 1) / n x size / time).
    """
    count = torch.cuda.device_count()
    if count < 2:
        return
    nccl = importlib.import_module("torch.cuda.nccl")
    parts = [torch.ones(ALL_REDUCE_BYTES // 4, device=f"cuda:{index}") for index in range(count)]
    seconds = timed(torch, lambda: nccl.all_reduce(parts))
    write(-1, "", "all_reduce", 2 * (count - 1) / count * ALL_REDUCE_BYTES / seconds)


def timed(torch: Any, work: Callable[[], Any]) -> float:
    """Median seconds of one run, by events of the device."""
    for _ in range(WARM_UP):
        work()
    found: list[float] = []
    for _ in range(REPEATS):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        work()
        last.record()
        torch.cuda.synchronize()
        found.append(first.elapsed_time(last) / 1000)
    return sorted(found)[REPEATS // 2]


def write(gpu: int, uuid: str, measure: str, value: float) -> None:
    """One result: the GPU by its UUID where PyTorch knows it, else by its number; -1 is all."""
    row = {"gpu": gpu, "uuid": uuid, "measure": measure, "value": value}
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
