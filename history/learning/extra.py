"""The extra that learning needs."""

from __future__ import annotations


class NotInstalledError(RuntimeError):
    """A fit needs a package that neither agent nor gateway does."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'tocsin[learning]'")
