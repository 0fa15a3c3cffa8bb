"""Which port is dead, when many ranks report each other: every failed request is a vote
against the two ends of its edge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from detectors.nccl.clue import COUNTERS_MOVED, VOTED_EDGE, VOTED_PORT, Clue, NodeTarget, PortTarget
from detectors.nccl.verdict import Cause
from pipeline.nccl.hit import Hit

# Work completion statuses (enum ibv_wc_status of infiniband/verbs.h) and what they say.
FOLLOW_UP = 5  # flushed: the queue had failed before
REMOTE_PROCESS = (9, 10, 11)  # the remote side refused: its process has often died
NO_ACKNOWLEDGE = 12  # transport retries exhausted: no answer for about half a minute
NOT_READY = 13  # the receiver does not post: its host is stuck
OWN_ADAPTER = (19, 21)


class Edge(NamedTuple):
    """A request that failed: from a node's port to a peer."""

    host: str
    port: str
    peer: str


def status(hit: Hit) -> int:
    """The completion status of a line, -1 where it bears none."""
    return hit.number("st_a", hit.number("st_b"))


def network_clues(hits: Iterable[Hit], names: dict[str, str] | None = None) -> Iterator[Clue]:
    """What the network's own lines say.

    ``names`` translates addresses of peers to names of nodes, where known.
    """
    known = names or {}
    edges: dict[Edge, Hit] = {}
    remote: dict[str, dict[str, Hit]] = defaultdict(dict)
    closed: dict[str, dict[str, Hit]] = defaultdict(dict)
    for hit in hits:
        if hit.name == "ib_completion":
            code, peer = status(hit), _peer(hit, known)
            if code == NO_ACKNOWLEDGE:
                edges.setdefault(Edge(hit.host, hit.fields.get("hca", ""), peer), hit)
            elif code in (*REMOTE_PROCESS, NOT_READY) and peer:
                remote[peer].setdefault(hit.host, hit)
            elif code in OWN_ADAPTER and hit.host:
                yield _port_clue(
                    hit,
                    VOTED_PORT,
                    "hardware_fault",
                    f"completion status {code}: the adapter itself failed",
                )
        elif hit.name == "sock_closed" and (peer := _peer(hit, known)):
            closed[peer].setdefault(hit.host, hit)
        elif hit.name in ("ib_async_fatal", "ib_fatal"):
            yield _port_clue(hit, VOTED_PORT, "hardware_fault", "the adapter reports a fatal error")
        elif (
            hit.name == "ib_async"
            and hit.fields.get("code", "10") == "10"
            and "error" in hit.fields.get("ev", "")
        ):
            yield _port_clue(hit, COUNTERS_MOVED, "in_flight", "the port went down")
    yield from _edge_clues(edges)
    for peer, reporters in closed.items():
        text = (
            f"{len(reporters)} node(s) saw {peer} close their connection, as at the end of any job"
        )
        yield Clue("network", text, ref=next(iter(reporters.values())).origin)
    for peer, reporters in remote.items():
        text = (
            f"{len(reporters)} node(s) lost their connection to {peer}: a process there has ended, "
            "or does not serve the network"
        )
        first = min(reporters.values(), key=lambda h: h.time_ns)
        yield Clue(
            "network",
            text,
            VOTED_PORT if len(reporters) > 1 else VOTED_EDGE,
            NodeTarget(peer),
            "process_lost",
            first.origin,
        )


def _edge_clues(edges: dict[Edge, Hit]) -> Iterator[Clue]:
    """A port whose requests to several peers fail is dead; a node that several others cannot reach
    is; one edge alone has two ends.
    """
    reached: dict[PortTarget, set[str]] = defaultdict(set)
    missed: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for edge in edges:
        if edge.port:
            reached[PortTarget(edge.host, edge.port)].add(edge.peer)
        missed[edge.peer].add((edge.host, edge.port))
    named = False
    for here, peers in reached.items():
        if len(peers) > 1:
            named = True
            text = (
                f"requests from {_words(here)} to {len(peers)} nodes were never answered "
                "(completion status 12)"
            )
            yield Clue(
                "network", text, VOTED_PORT, here, "in_flight", _origin(edges, here.host, "")
            )
    for peer, reporters in missed.items():
        hosts, rails = {host for host, _ in reporters}, {port for _, port in reporters}
        if peer and len(hosts) > 1:
            named = True
            # Ports of one name are one rail (one leaf switch): where only that rail fails, it is
            # the peer's port on it, not the peer.
            there: PortTarget | NodeTarget = (
                PortTarget(peer, rails.pop())
                if len(rails) == 1 and "" not in rails
                else NodeTarget(peer)
            )
            text = f"{len(hosts)} nodes got no answer from {_words(there)} (completion status 12)"
            yield Clue("network", text, VOTED_PORT, there, "in_flight", _origin(edges, "", peer))
    if named:
        return
    for edge, hit in edges.items():
        port = f"{edge.port} of " if edge.port else ""
        text = (
            f"a request from {port}{edge.host or 'a node'} to {edge.peer or 'a peer'} was never "
            "answered (completion status 12): either end may be at fault"
        )
        end: PortTarget | NodeTarget = (
            PortTarget(edge.host, edge.port) if edge.port else NodeTarget(edge.host)
        )
        yield Clue("network", text, VOTED_EDGE, end, "in_flight", hit.origin)
        if edge.peer:
            yield Clue("network", text, VOTED_EDGE, NodeTarget(edge.peer), "in_flight", hit.origin)


def addresses(hits: Sequence[Hit]) -> dict[str, str]:
    """Names of nodes by their addresses, as far as the lines of RoCE networks have them: a local
    GID is the reporter's, and holds an address. A peer is called by its address in another network,
    and is the node whose GID the line has as the remote one.

    >>> from pipeline.nccl.hit import Hit
    >>> here = {"lgid": "::ffff:192.0.2.59"}
    >>> there = {"rgid": "::ffff:192.0.2.59", "peer": "10.0.0.9"}
    >>> addresses([Hit("ib_completion", "link", "peer", host="n3", fields=here)])
    {'192.0.2.59': 'n3'}
    >>> of = (("n3", here), ("n4", there))
    >>> addresses([Hit("ib_completion", "link", "peer", host=n, fields=f) for n, f in of])
    {'192.0.2.59': 'n3', '10.0.0.9': 'n3'}
    """
    owners = {gid: hit.host for hit in hits if hit.host and (gid := hit.fields.get("lgid"))}
    names = {
        gid.removeprefix("::ffff:"): host
        for gid, host in owners.items()
        if gid.startswith("::ffff:")
    }
    for hit in hits:
        peer, host = hit.fields.get("peer", ""), owners.get(hit.fields.get("rgid", ""), "")
        if peer and host:
            names.setdefault(peer, host)
    return names


def _words(target: PortTarget | NodeTarget) -> str:
    return f"{target.port} of {target.host}" if isinstance(target, PortTarget) else target.host


def _port_clue(hit: Hit, weight: float, cause: Cause, text: str) -> Clue:
    port = hit.fields.get("hca", "")
    return Clue(
        "log",
        f"{text}: {port} of {hit.host}",
        weight,
        PortTarget(hit.host, port) if port else NodeTarget(hit.host),
        cause,
        hit.origin,
    )


def _peer(hit: Hit, names: dict[str, str]) -> str:
    peer = hit.fields.get("peer", "")
    return names.get(peer, peer)


def _origin(edges: dict[Edge, Hit], host: str, peer: str) -> str:
    return next(hit.origin for edge, hit in edges.items() if edge.host == host or edge.peer == peer)
