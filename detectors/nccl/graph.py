"""The wait-for graph: who waits for whom over all communicators of a job,
and where the waiting ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def sinks(edges: Mapping[Node, Iterable[Node]]) -> list[frozenset[Node]]:
    """Strongly connected components that wait for nothing outside themselves, in the order
    in which they are found.

    A component of one node waits for nobody; one of several waits in a circle. Tarjan's algorithm
    (SIAM J. Comput. 1972), without recursion: linear in nodes and edges.

    >>> (
    ...     [sorted(sink) for sink in sinks({"a": ["b"], "b": ["c"]})],
    ...     [sorted(sink) for sink in sinks({"a": ["b"], "b": ["a"], "c": ["a"]})],
    ... )
    ([['c']], [['a', 'b']])
    """
    found: list[frozenset[Node]] = []
    component = _components(edges)
    members: dict[int, list[Node]] = {}
    for node, number in component.items():
        members.setdefault(number, []).append(node)
    for number, nodes in members.items():
        if all(component[target] == number for node in nodes for target in edges.get(node, ())):
            found.append(frozenset(nodes))
    return found


def _components(edges: Mapping[Node, Iterable[Node]]) -> dict[Node, int]:
    """The number of each node's component."""
    component: dict[Node, int] = {}
    order: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    for start in edges:
        if start in order:
            continue
        work = [(start, iter(edges.get(start, ())))]
        order[start] = low[start] = len(order)
        stack.append(start)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    work.append((target, iter(edges.get(target, ()))))
                    break
                if target not in component:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    _close(node, stack, component)
    return component


def _close(node: Node, stack: list[Node], component: dict[Node, int]) -> None:
    number = len(component)
    while True:
        member = stack.pop()
        component[member] = number
        if member == node:
            return
