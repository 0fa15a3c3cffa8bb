"""The HTTP server: metrics, health, readiness, a status page. Read only."""

from __future__ import annotations

from collector.web.addresses import ListenError
from collector.web.pages import AgentPages, Pages
from collector.web.server import Web

__all__ = ["AgentPages", "ListenError", "Pages", "Web"]
