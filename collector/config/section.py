"""Base of every group of settings."""

from __future__ import annotations

from msgspec import Meta, Struct


def help_text(text: str) -> Meta:
    """The description of a setting, for help and docs/reference.md."""
    return Meta(description=text)


class Section(Struct, frozen=True, kw_only=True):
    """A frozen group of settings."""
