"""What results depend on, so that it can be compared with another machine's."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pipeline.code_hash import code_hash

ROOT = Path(__file__).resolve().parents[2]
OURS = ("pipeline", "detectors", "collector", "simulator", "evaluation", "history")
# Whose arithmetic and files results are made of.
PACKAGES = ("tocsin", "numpy", "pyarrow")


def versions() -> dict[str, str]:
    """Versions of packages, and a hash of our code."""
    found = {name: _version(name) for name in PACKAGES}
    return found | {"code": code_hash(ROOT, OURS)}


def difference(own: Mapping[str, str], other: Mapping[str, str]) -> str:
    """What another machine lacks or has otherwise, empty where nothing.

    >>> difference({"numpy": "2.3"}, {"numpy": "2.2"})
    'has numpy 2.2, here is 2.3: install the same'
    >>> difference({"code": "a"}, {"error": "No module named 'pipeline'"})
    "cannot import tocsin: No module named 'pipeline'"
    """
    if "error" in other:
        return f"cannot import tocsin: {other['error']}"
    for name, mine in own.items():
        if other.get(name) != mine:
            what = "tocsin with the code" if name == "code" else name
            return f"has {what} {other.get(name)}, here is {mine}: install the same"
    return ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
