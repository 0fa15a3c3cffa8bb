"""Listen addresses in Prometheus style, and the sockets behind them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from collector.config.address import parse as read_address

BACKLOG = 128

Bound = Mapping[str, Sequence[socket.socket]]
NOTHING: Bound = MappingProxyType({})


class ListenError(OSError):
    """An address that cannot be listened on; the text names it and says why."""


def parse(address: str) -> tuple[str, int]:
    """Host (empty = all interfaces) and port. ListenError where it is no listen address."""
    try:
        return read_address(address)
    except ValueError as error:
        raise ListenError(str(error)) from None


def shown(bound: socket.socket) -> str:
    """The address a socket is bound to, as ``parse`` reads it."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen(addresses: Iterable[str], held: Bound = NOTHING) -> Bound:
    """Bound sockets by address, or ListenError with none of them left open.

    An address that is ``held`` is not bound again: its sockets are shared, so that not a client
    meets a closed door meanwhile.
    """
    sockets: dict[str, list[socket.socket]] = {}
    try:
        for address in addresses:
            sockets.setdefault(address, []).extend(
                [one.dup() for one in held.get(address, ())] or _bind(address)
            )
    except ListenError:
        close(sockets)
        raise
    return sockets


def close(sockets: Bound) -> None:
    """Close all of them."""
    for bound in chain.from_iterable(sockets.values()):
        bound.close()


def _bind(address: str) -> list[socket.socket]:
    host, port = parse(address)
    if not host:
        return [_everywhere(address, port)]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror}") from error
    bound: list[socket.socket] = []
    for family, where in dict.fromkeys((info[0], info[4]) for info in found):
        try:
            bound.append(_socket(family, where))
        except OSError as error:
            # localhost often has an IPv6 name on a host without IPv6: the other one is enough.
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) and len(found) > 1:
                continue
            for other in bound:
                other.close()
            raise ListenError(f"cannot listen on {address}: {_why(error)}") from error
    if not bound:
        raise ListenError(f"cannot listen on {address}: the host has no such address")
    return bound


def _everywhere(address: str, port: int) -> socket.socket:
    """One socket for IPv4 and IPv6; IPv4 alone where the host has no IPv6."""
    try:
        if socket.has_dualstack_ipv6():
            return _socket(socket.AF_INET6, ("::", port), dual=True)
        return _socket(socket.AF_INET, ("0.0.0.0", port))  # noqa: S104 - ":port" asks for all interfaces
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {_why(error)}") from error


def _socket(family: int, where: tuple[object, ...], *, dual: bool = False) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dual))
        made.setblocking(False)
        made.bind(where)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use by another process"
    if error.errno == errno.EACCES:
        return "ports below 1024 need a privilege"
    return error.strerror or str(error)
