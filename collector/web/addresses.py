"""Listen addresses in Prometheus style, and the sockets behind them."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
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
    meets a closed door meanwhile. Another address of the same port is bound beside it: all
    interfaces after one, or one after all. ``[::]`` is all interfaces, as for the exporters in Go,
    where no other address has its port.
    """
    sockets: dict[str, list[socket.socket]] = {}
    beside = tuple(chain.from_iterable(held.values()))
    addresses = tuple(addresses)
    try:
        ports = Counter(parse(address)[1] for address in addresses)
        for address in addresses:
            host, port = parse(address)
            everywhere = not host or (host == "::" and ports[port] == 1)
            sockets.setdefault(address, []).extend(
                [one.dup() for one in held.get(address, ())]
                or ([_everywhere(address, port, beside)] if everywhere else _bind(address, beside))
            )
    except ListenError:
        close(sockets)
        raise
    return sockets


def close(sockets: Bound) -> None:
    """Close all of them."""
    for bound in chain.from_iterable(sockets.values()):
        bound.close()


def _bind(address: str, beside: Sequence[socket.socket]) -> list[socket.socket]:
    host, port = parse(address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror}") from error
    except UnicodeError as error:  # what no name of a host can be is refused before it is looked up
        raise ListenError(f"cannot listen on {address}: {host} is no name of a host") from error
    bound: list[socket.socket] = []
    for family, where in dict.fromkeys((info[0], info[4]) for info in found):
        try:
            bound.append(_socket(family, where, beside))
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


def _everywhere(address: str, port: int, beside: Sequence[socket.socket]) -> socket.socket:
    """One socket for IPv4 and IPv6; IPv4 alone where the host has no IPv6."""
    try:
        if socket.has_dualstack_ipv6():
            return _socket(socket.AF_INET6, ("::", port), beside, dual=True)
        return _socket(socket.AF_INET, ("0.0.0.0", port), beside)  # noqa: S104 - ":port" asks for all interfaces
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {_why(error)}") from error


def _socket(
    family: int, where: tuple[object, ...], beside: Sequence[socket.socket], *, dual: bool = False
) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dual))
        made.setblocking(False)
        own = [one for one in beside if one.getsockname()[1] == where[1]]
        with _one_port((made, *own)) if own else nullcontext():
            made.bind(where)
            made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


@contextmanager
def _one_port(sockets: Iterable[socket.socket]) -> Iterator[None]:
    """Meanwhile the kernel lets these have one port, and no others."""
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        yield
    finally:
        for one in sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use by another process"
    if error.errno == errno.EACCES:
        return "ports below 1024 need a privilege"
    return error.strerror or str(error)
