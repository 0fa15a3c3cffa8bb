"""The routes of the page: everything is read once, and needs no thread.

Style and shapes are those of the agent's page.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from aiohttp import web

from collector.version import VERSION
from collector.web.page.assets import ASSETS, Asset
from gateway.page.document import document

MODULES = "/cluster/"  # the folder of the modules, beside the page


def assets() -> dict[str, Asset]:
    """Everything that the document names, by path."""
    here = files(__package__)
    modules = sorted(here.joinpath("modules").iterdir(), key=lambda file: file.name)
    return {
        "/page.css": ASSETS["/page.css"],
        "/cluster.css": Asset("text/css", here.joinpath("cluster.css").read_bytes()),
        **{
            MODULES + file.name: Asset("text/javascript", file.read_bytes())
            for file in modules
            if file.name.endswith(".js")
        },
    }


def paths(metrics_path: str) -> frozenset[str]:
    """Paths of the page, which hold nothing of the cluster: none where the metrics are there."""
    return frozenset(("/", *assets())) - {metrics_path}


def add(app: web.Application, *, metrics_path: str = "/metrics", agent_url: str = "") -> None:
    """Add the page to an application, where the metrics are not in its place.

    ``agent_url``: address of an agent's page, with ``{host}`` for its host; empty: no links.
    """
    if metrics_path == "/":
        return
    page = document(VERSION, agent_url, metrics_path).encode()
    served = {"/": Asset("text/html", page), **assets()}
    for path, asset in served.items():
        app.router.add_get(path, _handler(asset))


def _handler(asset: Asset) -> Callable[[web.Request], Any]:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8")

    return handle
