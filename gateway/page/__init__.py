"""The cluster's page: a document, a style and modules; all that it shows is read from /api/v1."""

from __future__ import annotations

from gateway.page.routes import add, paths

__all__ = ["add", "paths"]
