"""The gateway's HTTP API: read only, from the read model, described by an OpenAPI document."""

from __future__ import annotations

from gateway.api.feed import Pulse
from gateway.api.serving import Api

__all__ = ["Api", "Pulse"]
