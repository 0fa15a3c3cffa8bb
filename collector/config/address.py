"""Listen addresses in Prometheus style."""

from __future__ import annotations

import re

_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^:\[\]\s]*)):(?P<port>\d{1,5})", re.ASCII
)


def parse(address: str) -> tuple[str, int]:
    """Host (empty = all interfaces) and port; ValueError where it is not ``host:port``,
    ``[v6]:port`` or ``:port``.

    >>> parse(":9400"), parse("[::1]:0"), parse("localhost:9400")
    (('', 9400), ('::1', 0), ('localhost', 9400))
    """
    match = _ADDRESS.fullmatch(address.strip())
    if match is None or int(match["port"]) > 65535:
        raise ValueError(
            f"{address!r} is not a listen address: expected host:port, [IPv6]:port or :port"
        )
    return match["v6"] or match["host"] or "", int(match["port"])
