"""Slurm's lists of hosts: ``gpu[001-003,007],login1``, brackets anywhere in a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product

MAX_HOSTS = 65_536  # of one list: more than any cluster has
_ITEM = re.compile(r"(?:[^,\[\]]+|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")


def hosts(text: str) -> Iterator[str]:
    """The names, in order; what is in no form of Slurm's is a name as it stands.

    >>> list(hosts("gpu[01-03,07],login1"))
    ['gpu01', 'gpu02', 'gpu03', 'gpu07', 'login1']
    >>> list(hosts("rack[1-2]-gpu[09-10]n"))
    ['rack1-gpu09n', 'rack1-gpu10n', 'rack2-gpu09n', 'rack2-gpu10n']
    """
    yield from islice((name for item in _ITEM.findall(text) for name in _of(item)), MAX_HOSTS)


def _of(item: str) -> Iterator[str]:
    pieces = [_numbers(ranges) if ranges else [plain] for ranges, plain in _PIECE.findall(item)]
    yield from map("".join, product(*pieces))


def _numbers(ranges: str) -> list[str]:
    found: list[str] = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        if low.isdecimal() and (high or low).isdecimal():
            last = min(int(high or low), int(low) + MAX_HOSTS)
            found += (f"{number:0{len(low)}}" for number in range(int(low), last + 1))
        else:
            found.append(part)
    return found
