"""Devices by the names that people use: GPU 3, port mlx5_5/1, in place of a UUID or a GUID."""

from __future__ import annotations

from collections.abc import Iterable

from dashboards.queries import facts, measured

NAMED = "named"  # the label that the name is put into
_NODE = "cluster, instance"


def named(series: str, labels: Iterable[str], device: str) -> str:
    """A series with the name of its device in the label ``named``; what has none keeps its id.

    ``labels`` are those of the series' metric, ``device`` the one with the id of the device.
    """
    known = f"({_gpus(device)}) or ({_ports(device)})"
    on = f"{_NODE}, {device}"
    one = f"topk by ({on}) (1, {known})"
    link = f'label_replace({series}, "uuid", "$1", "{device}", "(.+)/[0-9]+")'
    link = f'label_replace({link}, "link", "$1", "{device}", ".+/([0-9]+)")'
    gpu = f"topk by ({_NODE}, uuid) (1, {_gpus('uuid')})"
    of_gpu = f"{link} * on ({_NODE}, uuid) group_left ({NAMED}) {gpu}"
    every = ", ".join((_NODE, *labels))
    return (
        f"{series} * on ({on}) group_left ({NAMED}) {one}"
        f' or on ({every}) label_join({of_gpu}, "{NAMED}", ", NVLink ", "{NAMED}", "link")'
        f' or on ({every}) label_replace({series}, "{NAMED}", "$1", "{device}", "(.*)")'
    )


def _gpus(device: str) -> str:
    """1 for each GPU, also one that is lost, with its id and name."""
    name = (
        f'label_replace({measured("gpu", "state", state="ok")}, "{NAMED}", "GPU $1", "gpu", "(.+)")'
    )
    return _one(f'label_replace({name}, "{device}", "$1", "uuid", "(.+)")', device)


def _ports(device: str) -> str:
    """1 for each port."""
    name = f'label_join({facts("ib_port")}, "{NAMED}", "/", "device", "port")'
    prefixed = f'label_replace({name}, "{NAMED}", "port $1", "{NAMED}", "(.+)")'
    return _one(f'label_replace({prefixed}, "{device}", "$1", "port_guid", "(.+)")', device)


def _one(series: str, device: str) -> str:
    return f"0 * max by ({_NODE}, {device}, {NAMED}) ({series}) + 1"
