"""HTML that escapes by default: what is not an ``Html`` is text."""

from __future__ import annotations

import re
from html import escape

# What a reader cannot see and a browser obeys: controls, characters that turn the direction of
# text, halves of surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_VOID = frozenset({"input", "link", "meta"})


class Html(str):
    """Markup that is finished."""

    __slots__ = ()


Node = str | None
Value = str | int | bool | None


def text(value: str) -> Html:
    r"""Any string, as text.

    >>> text('<b title="x">\u202efdp')
    '&lt;b title=&quot;x&quot;&gt;\ufffdfdp'
    """
    return Html(escape(_UNSEEN.sub("\ufffd", value)))


def el(name: str, /, *children: Node, **attributes: Value) -> Html:
    """An element.

    Children that are not Html are escaped, None is left out; so are
    attributes that are None or False.

    In names of attributes ``_`` stands for ``-``, and one at the end is for Python's sake.

    >>> el("a", "1 < 2", href="x?a&b", class_="n", aria_hidden="true", hidden=True, title=None)
    '<a href="x?a&amp;b" class="n" aria-hidden="true" hidden>1 &lt; 2</a>'
    """
    head = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    return Html(f"<{name}{head}>" if name in _VOID else f"<{name}{head}>{join(*children)}</{name}>")


def join(*children: Node) -> Html:
    """One after the other."""
    return Html(
        "".join(
            child if isinstance(child, Html) else text(child)
            for child in children
            if child is not None
        )
    )


def _attribute(name: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'
