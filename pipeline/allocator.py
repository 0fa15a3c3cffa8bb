"""glibc's malloc: what is freed goes back to the kernel. Elsewhere (musl) nothing happens."""

from __future__ import annotations

import contextlib
import ctypes

# <malloc.h>
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
# Larger blocks (a page, a snapshot, a report) are mapped singly, and unmapped when freed. It is
# glibc's initial value, which it would raise to the size of the largest block ever freed, 32 MiB at
# most, and then keep as much. The unit sees the difference, not the CPU: docs/performance.md.
MAPPED_BYTES = 128 << 10


def keep_little() -> None:
    """One arena for all threads in place of one each, and large blocks mapped singly.

    Before the first thread starts: a thread keeps the arena that it has.
    """
    with contextlib.suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, 1)
        libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)


def give_back() -> None:
    """Give freed memory back to the kernel (malloc_trim(3))."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
