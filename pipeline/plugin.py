"""Named seams: a function that is chosen by a name, so that its package is imported
only when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any


def load(spec: str) -> Any:
    """The object that ``MODULE:NAME`` names.

    ValueError for another form, ImportError where there is no such thing.

    >>> load("pipeline.plugin:load") is load
    True
    >>> load("banana")
    Traceback (most recent call last):
    ...
    ValueError: 'banana' does not name a function as MODULE:NAME
    """
    module, _, name = spec.partition(":")
    if not module or not name.isidentifier():
        raise ValueError(f"{spec!r} does not name a function as MODULE:NAME")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError as error:
        raise ImportError(f"{module} has no {name}") from error
