"""What every group of settings is made of."""

from __future__ import annotations

from msgspec import Meta, Struct


def says(text: str) -> Meta:
    """The meaning of a setting, for help and docs/reference.md."""
    return Meta(description=text)


class Section(Struct, frozen=True, kw_only=True):
    """A frozen group of settings."""
