"""Ids of incidents and findings as users read and type them: short, or any unambiguous prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SHORT = 8  # of 16 characters
LATEST = "latest"
MAX_NAMED = 10  # ids in an error message


class UnknownIdError(LookupError):
    """An id that nothing has, or a prefix that several have; the message lists candidates."""


def short(identity: str) -> str:
    """The form that pages and terminals show.

    >>> short("8f14e45fceea167a")
    '8f14e45f'
    """
    return identity[:SHORT]


def resolve(text: str, known: Mapping[str, str], what: str) -> str:
    """The id that ``text`` is or begins. ``known`` has ids, newest first, and what each is.

    >>> resolve("8f", {"8f14e45fceea167a": "GPU 2", "a0a0a0a0a0a0a0a0": "GPU 3"}, "incident")
    '8f14e45fceea167a'
    """
    found = [one for one in known if one == text] or [one for one in known if one.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = _listed(found, known)
        raise UnknownIdError(f"several have an id that begins with {text!r}: {listed}")
    if not known:
        raise UnknownIdError(f"there is no {what}")
    raise UnknownIdError(f"no {what} {text!r}; the newest: {_listed(known, known)}")


def _listed(ids: Iterable[str], known: Mapping[str, str]) -> str:
    """Ids with as many characters as distinguish them."""
    named = list(ids)[:MAX_NAMED]
    length = SHORT
    while len({one[:length] for one in named}) < len(named):
        length += 1
    more = "" if len(named) == len(list(ids)) else ", ..."
    return ", ".join(f"{one[:length]} ({known[one]})" for one in named) + more
