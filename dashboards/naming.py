"""Devices by the names that people use: GPU 3, port mlx5_5/1, in place of a UUID or a GUID."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dashboards.queries import facts, measured

NAMED = "named"  # the label that the name is put into
_NODE = ("cluster", "instance")
_ANY_NODE = {"instance": "=~.+"}


def named(series: str, labels: Iterable[str], device: str) -> str:
    """A series with the name of its device in the label ``named``; what has none keeps its id.

    ``labels`` are those of the series' metric, ``device`` the one with the id of the device.
    """
    return _named(series, labels, device, _NODE, {})


def named_anywhere(series: str, labels: Iterable[str], device: str) -> str:
    """As ``named``, of a series that a gateway exports: the device is read at some node of which
    the agent is scraped too.
    """
    return _named(series, labels, device, (), _ANY_NODE)


def _named(
    series: str,
    labels: Iterable[str],
    device: str,
    node: tuple[str, ...],
    where: Mapping[str, str],
) -> str:
    """``node``: labels of the series that name the node of its device; ``where``: matchers of the
    nodes that are looked at.
    """
    on = ", ".join((*node, device))
    known = f"({_gpus(on, device, where)}) or ({_ports(on, device, where)})"
    one = f"topk by ({on}) (1, {known})"
    link = f'label_replace({series}, "uuid", "$1", "{device}", "(.+)/[0-9]+")'
    link = f'label_replace({link}, "link", "$1", "{device}", ".+/([0-9]+)")'
    of = ", ".join((*node, "uuid"))
    gpu = f"topk by ({of}) (1, {_gpus(of, 'uuid', where)})"
    of_gpu = f"{link} * on ({of}) group_left ({NAMED}) {gpu}"
    every = ", ".join((*_NODE, *labels))
    return (
        f"{series} * on ({on}) group_left ({NAMED}) {one}"
        f' or on ({every}) label_join({of_gpu}, "{NAMED}", ", NVLink ", "{NAMED}", "link")'
        f' or on ({every}) label_replace({series}, "{NAMED}", "$1", "{device}", "(.*)")'
    )


def _gpus(by: str, device: str, where: Mapping[str, str]) -> str:
    """1 for each GPU, also one that is lost, with its id and name."""
    every = measured("gpu", "state", state="ok", **where)
    name = f'label_replace({every}, "{NAMED}", "GPU $1", "gpu", "(.+)")'
    return _one(f'label_replace({name}, "{device}", "$1", "uuid", "(.+)")', by)


def _ports(by: str, device: str, where: Mapping[str, str]) -> str:
    """1 for each port."""
    name = f'label_join({facts("ib_port", **where)}, "{NAMED}", "/", "device", "port")'
    prefixed = f'label_replace({name}, "{NAMED}", "port $1", "{NAMED}", "(.+)")'
    return _one(f'label_replace({prefixed}, "{device}", "$1", "port_guid", "(.+)")', by)


def _one(series: str, by: str) -> str:
    return f"0 * max by ({by}, {NAMED}) ({series}) + 1"
