"""Listening RAS sockets, also those in another network namespace: from /proc/PID/net, which shows
the namespace of that process.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from collector.node.helper import client
from collector.node.helper.protocol import Kind

RAS_PORT = 28028  # NCCL's default (src/ras/ras.cc), on localhost
LISTEN = "0A"
MAX_LINES = 200_000
MAX_DESCRIPTORS = 65_536

_ROW = re.compile(
    r"\s*\d+: (?P<host>[0-9A-F]{8}|[0-9A-F]{32}):(?P<port>[0-9A-F]{4}) (?P<other>\S+) "
    r"(?P<state>[0-9A-F]{2}) .*"
)
_END = re.compile(r"(?P<host>[0-9A-F]{8}|[0-9A-F]{32}):(?P<port>[0-9A-F]{4})")
_NUMBER = re.compile(r"[0-9]{1,18}")
_PORT = re.compile(r"[0-9]{1,5}")

End = tuple[str, int]
"""Address and port of one end of a connection."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening TCP socket: address as text, and the inode by which its owner is found."""

    host: str
    port: int
    user: int
    inode: int


def listeners(net: Path) -> Iterator[Listener]:
    """Of one network namespace: ``net`` is a /proc/PID/net.

    A table that is not there has no rows.
    """
    for name in ("tcp", "tcp6"):
        for line in _lines(net / name):
            if found := listener(line):
                yield found


def listener(line: str) -> Listener | None:
    """A row of /proc/net/tcp or tcp6 that listens; None for any other line."""
    match = _ROW.fullmatch(line.rstrip("\n"))
    if match is None or match["state"] != LISTEN:
        return None
    fields = line.split()
    if len(fields) < 10 or not all(map(_NUMBER.fullmatch, (fields[7], fields[9]))):
        return None
    return Listener(_address(match["host"]), int(match["port"], 16), int(fields[7]), int(fields[9]))


def inode_of(net: Path, local: End, other: End) -> int:
    """Of the connected socket with these ends; 0 where there is none, or it was not accepted yet.
    ``net`` is a /proc/PID/net.
    """
    port = f":{other[1]:04X} "
    for name in ("tcp", "tcp6"):
        for line in _lines(net / name):
            found = connection(line) if port in line else None
            if found is not None and found[:2] == (local, other):
                return found[2]
    return 0


def connection(line: str) -> tuple[End, End, int] | None:
    """Both ends and the inode in a row of /proc/net/tcp or tcp6; None for any other line. IPv4 that
    an IPv6 socket takes is IPv4.
    """
    match, fields = _ROW.fullmatch(line.rstrip("\n")), line.split()
    other = _END.fullmatch(match["other"]) if match else None
    if match is None or other is None or len(fields) < 10 or not _NUMBER.fullmatch(fields[9]):
        return None
    ends = [(_plain(each["host"]), int(each["port"], 16)) for each in (match, other)]
    return ends[0], ends[1], int(fields[9])


def _plain(text: str) -> str:
    return _bare(_address(text))


def _bare(text: str) -> str:
    """An address without its mapping to IPv6.

    >>> _bare("::ffff:127.0.0.1"), _bare("::1")
    ('127.0.0.1', '::1')
    """
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _address(text: str) -> str:
    """The kernel prints each 32-bit word of an address in the byte order of the machine.

    >>> _address("0100007F"), _address("00000000000000000000000001000000")
    ('127.0.0.1', '::1')
    """
    words = (int(text[i : i + 8], 16).to_bytes(4, "little") for i in range(0, len(text), 8))
    return str(ipaddress.ip_address(b"".join(words)))


def addresses(net: Path) -> frozenset[str]:
    """The addresses of a network namespace, as text: by one of them RAS knows the node.

    A table that is not there has none.

    /proc/net/fib_trie has local IPv4 addresses as leaves that are followed by ``/32 host LOCAL``,
    /proc/net/if_inet6 IPv6 ones.
    """
    found = set()
    leaf = ""
    for line in _lines(net / "fib_trie"):
        if "|--" in line:
            leaf = line.split()[-1]
        elif "/32 host LOCAL" in line:
            found.add(leaf)
    for line in _lines(net / "if_inet6"):
        digits = line.partition(" ")[0]
        if re.fullmatch("[0-9a-f]{32}", digits):
            found.add(str(ipaddress.IPv6Address(bytes.fromhex(digits))))
    return frozenset(found)


def _lines(path: Path) -> Iterator[str]:
    with contextlib.suppress(OSError), path.open(encoding="ascii", errors="replace") as file:
        for _, line in zip(range(MAX_LINES), file, strict=False):
            yield line


def sockets_of(process: Path) -> frozenset[int]:
    """Inodes of the sockets a process has open; ``process`` is its /proc/PID.

    OSError where it may not be inspected.
    """
    found = set()
    try:
        listing = os.scandir(process / "fd")
    except PermissionError:
        return client.numbers(Kind.SOCKETS, process)
    with listing as descriptors:
        for _, entry in zip(range(MAX_DESCRIPTORS), descriptors, strict=False):
            try:
                target = os.readlink(entry.path)  # noqa: PTH115 - thousands of descriptors: no path object each
            except OSError:
                continue  # closed meanwhile
            if target.startswith("socket:[") and target[8:-1].isdecimal():
                found.add(int(target[8:-1]))
    return frozenset(found)


def ras_port(address: str) -> int:
    """The port of a NCCL_RAS_ADDR (``host:port``, ``[v6]:port``); NCCL's default
    where it is empty or none.

    >>> ras_port(""), ras_port("localhost:30000"), ras_port("[::1]:30001"), ras_port("x")
    (28028, 30000, 30001, 28028)
    """
    port = address.rpartition(":")[2]
    return (
        int(port)
        if _PORT.fullmatch(port) and 0 < int(port) < 65536 and ":" in address
        else RAS_PORT
    )


def ras_clients(
    proc: Path, processes: Iterable[tuple[int, int, str]], tables: SocketTables | None = None
) -> dict[int, tuple[Listener, ...]]:
    """The sockets on which processes take RAS clients, by pid; of each process its pid, network
    namespace and NCCL_RAS_ADDR are given.

    With SO_REUSEPORT every process of a job on a host listens on the same port, and any of them
    answers for the whole job.
    """
    tables = tables or SocketTables(proc)
    found: dict[int, tuple[Listener, ...]] = {}
    for pid, network, address in processes:
        port = ras_port(address)
        candidates = [x for x in tables.of(pid, network) if x.port == port]
        if candidates:
            with contextlib.suppress(OSError):
                own = sockets_of(proc / str(pid))
                found[pid] = tuple(x for x in candidates if x.inode in own)
    return {pid: sockets for pid, sockets in found.items() if sockets}


def port_holders(
    proc: Path, processes: Iterable[tuple[int, int, str, int]], tables: SocketTables | None = None
) -> dict[int, Listener]:
    """Of processes without a RAS socket, given as for ``ras_clients`` with their users: a socket of
    another user that keeps them from having one, by pid.

    SO_REUSEPORT shares a port within one user only; NCCL writes one line where it gets none, and
    goes on without RAS (src/ras/client_support.cc).
    """
    tables = tables or SocketTables(proc)
    found = {}
    for pid, network, address, user in processes:
        port, host = ras_port(address), address.rpartition(":")[0].strip("[]")
        holders = [
            x for x in tables.of(pid, network) if x.port == port and _is_in_the_way(x.host, host)
        ]
        if holders and all(x.user != user for x in holders):
            found[pid] = holders[0]
    return found


def _is_in_the_way(taken: str, wanted: str) -> bool:
    """Whether a socket at one address denies its port at another; of a name, which is not resolved
    here, any does.

    >>> _is_in_the_way("127.0.0.1", ""), _is_in_the_way("0.0.0.0", "10.0.0.7")
    (True, True)
    >>> _is_in_the_way("10.0.0.7", "localhost"), _is_in_the_way("127.0.0.1", "10.0.0.7")
    (False, False)
    """
    if (holder := ipaddress.ip_address(_bare(taken))).is_unspecified:
        return True
    if wanted in {"", "localhost"}:
        return holder.is_loopback
    try:
        own = ipaddress.ip_address(wanted)
    except ValueError:
        return True
    return own.is_unspecified or own == holder


class SocketTables:
    """The listening sockets of network namespaces, each read once; of an unknown one each time."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._known: dict[int, tuple[Listener, ...]] = {}

    def of(self, pid: int, network: int) -> tuple[Listener, ...]:
        """Those of a process's namespace."""
        if network not in self._known or not network:
            self._known[network] = tuple(listeners(self._proc / str(pid) / "net"))
        return self._known[network]
