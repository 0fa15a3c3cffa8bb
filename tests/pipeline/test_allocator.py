"""Memory that goes back to the kernel, in a process of its own."""

from __future__ import annotations

import sys

import pytest

from pipeline import child
from tests.sources import ROOT
from tests.wait import PATIENCE_S

# Threads that live on, each of which frees what it used; then a block that was larger than any
# before it, and freed, and many of half its size with something small behind each.
PROGRAM = """
import re, threading
from pathlib import Path
from pipeline.allocator import give_back, keep_little
keep_little()

def used():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

def work(done, end):
    for _ in range(3):
        blocks = [bytearray(b"x" * 20_000) for _ in range(200)]
        del blocks
    done.release()
    end.wait()

done, end, before = threading.Semaphore(0), threading.Event(), used()
for _ in range(8):
    threading.Thread(target=work, args=(done, end), daemon=True).start()
for _ in range(8):
    done.acquire()
huge = bytearray(b"x" * (24 << 20))
del huge
pairs = [(bytearray(b"x" * (1 << 20)), bytearray(20_000)) for _ in range(16)]
kept = [small for _, small in pairs]
del pairs
give_back()
print(used() - before)
end.set()
"""


@pytest.mark.slow
def test_what_threads_and_large_blocks_used_goes_back() -> None:
    """8 threads that used 4 MiB each, 24 MiB in one block and 16 of 1 MiB with something behind
    each leave less than 4 MiB.
    """
    argv = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n{PROGRAM}"]
    ran = child.run(argv, timeout_s=PATIENCE_S)
    assert ran.returncode == 0, ran.stderr.decode()
    assert int(ran.stdout) < 4
