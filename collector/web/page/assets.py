"""Style and script of the page: files beside this one, read once, served by this
server and by nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is served."""

    content_type: str
    body: bytes


def _read(name: str, content_type: str) -> Asset:
    return Asset(content_type, files(__package__).joinpath(name).read_bytes())


ASSETS: Mapping[str, Asset] = {
    "/page.css": _read("page.css", "text/css"),
    "/page.js": _read("page.js", "text/javascript"),
}
