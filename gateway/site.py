"""What the gateway serves beside metrics and health: its API and the cluster's page."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp.web import Application

from collector.config.settings import Web
from gateway import page
from gateway.api import Api


def site(api: Api, web: Web) -> Callable[[Application], None]:
    """Adds them to an application. ``web``: the section of the configuration."""

    def add(app: Application) -> None:
        api.add(app)
        page.add(app, metrics_path=web.telemetry_path, agent_url=web.agent_url)

    return add
