"""Serves a file system whose files can be opened and never read, on the descriptor that is given.

Started as a script of its own by tests/tenants/fuse.py; only the standard library. Messages:
include/uapi/linux/fuse.h.
"""

from __future__ import annotations

import os
import struct
import sys

LOOKUP, GETATTR, OPEN, READ, FLUSH, INIT, OPENDIR = 1, 3, 14, 15, 25, 26, 27
UNANSWERED = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
ENOSYS = 38
ROOT = 1


def attributes(node: int, user: int) -> bytes:
    """Attributes (struct fuse_attr): a folder for the root, else a file of a megabyte."""
    mode = 0o040755 if node == ROOT else 0o100644
    times = (1_000_000, 1_000_000, 1_000_000, 0, 0, 0)
    return struct.pack("=6Q10I", node, 1 << 20, 8, *times, mode, 1, user, user, 0, 4096, 0)


def reply(opcode: int, node: int, user: int) -> bytes | None:
    """What is answered; None for an error."""
    if opcode == INIT:
        return struct.pack("=4I2H2I2H8I", 7, 31, 4096, 0, 1, 1, 4096, 1, 0, 0, *[0] * 8)
    if opcode == LOOKUP:
        return struct.pack("=4Q2I", 2, 0, 1000, 1000, 0, 0) + attributes(2, user)
    if opcode == GETATTR:
        return struct.pack("=Q2I", 1000, 0, 0) + attributes(node, user)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("=Q2I", 1, 0, 0)
    return None


def main() -> None:
    """Until the connection ends."""
    fd, user, silent = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    ignored = {*UNANSWERED, {"lookup": LOOKUP, "read": READ, "close": FLUSH}[silent]}
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        try:
            request = os.read(fd, 1 << 20)
        except InterruptedError:
            continue
        except OSError:
            return
        _, opcode, unique, node = struct.unpack_from("=IIQQ", request)
        if opcode in ignored:
            continue
        body = reply(opcode, node, user)
        error = -ENOSYS if body is None else 0
        os.write(fd, struct.pack("=IiQ", 16 + len(body or b""), error, unique) + (body or b""))


if __name__ == "__main__":
    main()
