"""What to say where a package of an extra is missing (docs/install.md, Extras)."""

from __future__ import annotations


def how_to_add(extra: str) -> str:
    """In one clause. Tocsin is on no index: a name to be installed from one would be a stranger's.

    >>> how_to_add("history")
    'install the extra `history` of Tocsin (docs/install.md, Extras)'
    """
    return f"install the extra `{extra}` of Tocsin (docs/install.md, Extras)"
