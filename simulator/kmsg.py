"""The kernel log of a simulated node, as records of /dev/kmsg appended to a file
(Documentation/ABI/testing/dev-kmsg).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from simulator.kernel_log import INFO, KernelLine
from simulator.node import Node


class KernelLog:
    """Appends records ``priority,sequence,microseconds,-;text`` with lines of the device
    dictionary; one write each.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644
        )
        self._sequence = 0

    def append(self, lines: Iterable[KernelLine], mono_ns: int) -> None:
        """Write lines with the time of the monotonic clock, which is the kernel log's."""
        for line in lines:
            words = "".join(f" {key}={value}\n" for key, value in line.dictionary)
            record = (
                f"{line.level},{self._sequence},{mono_ns // 1000},-;{_escaped(line.text)}\n{words}"
            )
            os.write(self._fd, record.encode())
            self._sequence += 1

    def close(self) -> None:
        """Close the file; it stays."""
        os.close(self._fd)


def boot_lines(node: Node) -> list[KernelLine]:
    """What the drivers say when the node starts."""
    host, ports = node.profile.host, node.profile.ports
    lines = [KernelLine(INFO, f"Linux version {host.kernel} (simulated) #1 SMP")]
    lines += [
        KernelLine(
            INFO,
            (
                "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  "
                f"{host.driver}  Release Build"
            ),
        )
    ]
    return lines + [
        KernelLine(INFO, f"mlx5_core {pci} {net}: Link up")
        for pci, net in zip(ports.pci, ports.net, strict=True)
    ]


def _escaped(text: str) -> str:
    r"""Bytes below 32, from 127 on and the backslash as ``\xNN``, as the kernel prints them.

    >>> _escaped("a\tb\\é")
    'a\\x09b\\x5c\\xc3\\xa9'
    """
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02x}" for b in text.encode())
