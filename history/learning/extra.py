"""The extra that learning needs."""

from __future__ import annotations

from pipeline.extras import how_to_add


class NotInstalledError(RuntimeError):
    """A fit needs a package that neither agent nor gateway does."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package} is not installed: {how_to_add('learning')}")
