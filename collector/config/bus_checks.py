"""Section ``bus``: addresses, files and packages, before the agent starts."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path as File
from urllib.parse import SplitResult, urlsplit

from collector.config.settings import Bus
from collector.config.tree import Path

PACKAGES = ("nats",)
SCHEMES = ("nats", "tls")


def bus_problems(bus: Bus) -> Iterator[tuple[Path, str]]:
    """Path and problem of everything that does not fit."""
    if not bus.servers:
        return
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        yield ("bus", "servers"), f"the package {missing[0]} is missing: install tocsin[bus]"
    for server in bus.servers:
        parts = _parts(server)
        if parts is None or parts.scheme not in SCHEMES or not parts.hostname or parts.password:
            yield (
                ("bus", "servers"),
                (
                    f"{server.rpartition('@')[2]!r}: wanted an address such as "
                    "tls://nats1.example.com:4222, without a password; several as a list, or the "
                    "flag once for each"
                ),
            )
    if bool(bus.cert_file) != bool(bus.key_file):
        yield ("bus", "cert_file" if bus.cert_file else "key_file"), "needs the other one too"
    for name in ("credentials_file", "ca_file", "cert_file", "key_file"):
        file = getattr(bus, name)
        if file and not os.access(File(file), os.R_OK):
            yield ("bus", name), f"{file} cannot be read"
    if bus.period < 1:
        yield ("bus", "period"), f"{bus.period} is shorter than 1s"


def _parts(server: str) -> SplitResult | None:
    """Of an address whose port is one, or left to the client; None of all else."""
    try:
        parts = urlsplit(server)
        return None if parts.port == 0 else parts
    except ValueError:  # no number, brackets that do not close, or two addresses in one text
        return None
