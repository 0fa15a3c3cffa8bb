"""``python -m tests.fuzz.run``: so many inputs for all targets, each within limits of memory and
CPU time. It ends with 1 and the input at the first that is not.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import sys
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS, Target, counts

# Of one input of at most 16 KiB, on a machine that does other work too: a thousand times the mean.
MAX_CPU_S = 1.0
# Private writable memory beyond what this process has at the start (RLIMIT_DATA), at any time.
MAX_GROWTH_BYTES = 64 << 20
TRACED_EVERY = 997  # inputs: of these the memory is measured by tracemalloc
MAX_TRACED_BYTES = 16 << 20


class FuzzError(AssertionError):
    """An input that a target does not withstand; the message says how to get it again."""


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What was done: inputs, CPU seconds in all and of the slowest, and the largest memory."""

    inputs: int
    cpu_s: float
    slowest_s: float
    largest_bytes: int


def fuzz(target: Target, seed: int, inputs: int) -> Fuzzed:
    """Feed a target. FuzzError."""
    source, corpus, parse = random.Random(f"{target.name}:{seed}"), target.corpus, target.parse
    clock, errors = time.thread_time, target.errors
    slowest_s, largest, began_s = 0.0, 0, clock()
    for number in range(inputs):
        data = mutated(source, corpus)
        traced = number % TRACED_EVERY == 0
        if traced:
            tracemalloc.start()
        before_s = clock()
        try:
            parse(data)
        except errors:
            pass
        except (Exception, MemoryError) as error:
            raise _failure(target, seed, number, data, repr(error)) from error
        used_s = clock() - before_s
        if used_s > slowest_s and not traced:
            slowest_s = used_s
            if used_s > MAX_CPU_S:
                raise _failure(target, seed, number, data, f"{used_s:.2f} CPU s")
        if traced:
            largest = max(largest, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            if largest > MAX_TRACED_BYTES:
                raise _failure(target, seed, number, data, f"{largest} bytes")
    return Fuzzed(inputs, clock() - began_s, slowest_s, largest)


def _failure(target: Target, seed: int, number: int, data: bytes, what: str) -> FuzzError:
    shown = data if len(data) < 400 else data[:400] + b"..."
    return FuzzError(
        f"{target.name}, seed {seed}, input {number} ({len(data)} bytes): {what}: {shown!r}"
    )


def bound_memory() -> None:
    """From now on this process may take ``MAX_GROWTH_BYTES`` more."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (now,) = (int(row.split()[1]) << 10 for row in status if row.startswith("VmData:"))
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (now + MAX_GROWTH_BYTES, hard))


def main(arguments: Sequence[str]) -> int:
    """Fuzz all targets, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("targets", nargs="*")
    given = parser.parse_args(arguments)
    bound_memory()
    gc.freeze()
    shares, total, cpu_s = counts(given.inputs), 0, 0.0
    for target in TARGETS:
        if given.targets and target.name not in given.targets:
            continue
        try:
            done = fuzz(target, given.seed, shares[target.name])
        except FuzzError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        total, cpu_s = total + done.inputs, cpu_s + done.cpu_s
        sys.stdout.write(
            f"{target.name:20} {done.inputs:8} inputs {done.cpu_s:6.1f} CPU s, "
            f"{done.cpu_s / max(done.inputs, 1) * 1e6:6.1f} us each, slowest "
            f"{done.slowest_s * 1e3:6.1f} ms, largest {done.largest_bytes >> 10:6} KiB\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"{total} inputs, {cpu_s:.1f} CPU s, seed {given.seed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
