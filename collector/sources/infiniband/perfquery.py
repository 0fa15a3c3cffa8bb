"""What perfquery prints, as values. Pure: no process is started here.

infiniband-diags prints a block per port: ``# <set> counters: Lid <l> port <p> (...)``, then
``Name:....value`` lines. Its errors stand on standard output too, as one line
``perfquery: iberror: failed: ...`` with exit code 255; a wrong option is exit code 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Answer = Literal["ok", "unsupported", "no_answer", "garbage"]

# PortSelect of the sum over all ports of a node: never a port (IBTA volume 1, 16.1.3.5)
ALL_PORTS = 255
MAX_BLOCKS, MAX_COUNTERS = 256, 256

_HEADER = re.compile(r"# (Port[ \w]*?)\s*counters: Lid (\d{1,5}) port (\d{1,3})(?: .*)?")
_LINE = re.compile(r"([A-Za-z]\w{0,63}):\.*(0x[0-9A-Fa-f]{1,16}|\d{1,20})")
_NO_COUNTERS = frozenset({"PortSelect", "CounterSelect", "CounterSelect2"})
_UNSUPPORTED = re.compile(r"failed: cannot query |not supported")


@dataclass(frozen=True, slots=True)
class Block:
    """Counters of one port: ``set`` as perfquery names it, the port by the LID
    and number that answered.
    """

    set: str
    lid: int
    port: int
    counters: Mapping[str, int]


def parse(text: str) -> tuple[Block, ...]:
    """The ports in an output; the sum over all ports of a node is left out.

    Lines of no block and no form are passed over.
    """
    blocks: list[Block] = []
    counters: dict[str, int] = {}
    for line in text.splitlines():
        header = _HEADER.fullmatch(line.strip())
        if header:
            counters = {}
            if len(blocks) < MAX_BLOCKS:
                blocks.append(
                    Block(
                        header[1].strip(),
                        int(header[2]),
                        int(header[3]),
                        MappingProxyType(counters),
                    )
                )
            continue
        found = _LINE.fullmatch(line.strip())
        if found and found[1] not in _NO_COUNTERS and len(counters) < MAX_COUNTERS:
            value = int(found[2], 0) if found[2].startswith("0x") else int(found[2])
            if value < 2**64:
                counters.setdefault(found[1], value)
    return tuple(block for block in blocks if block.port != ALL_PORTS)


def judge(returncode: int, text: str) -> Answer:
    """What an exit means. Exit code first: the text of a failure stands where the answer would."""
    if returncode == 0:
        return "ok" if _HEADER.search(text) else "garbage"
    if returncode == 2 or _UNSUPPORTED.search(text):
        return "unsupported"
    return "no_answer"
