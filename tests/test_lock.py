"""The lock files: complete, in step with pyproject.toml, and silent about where files come from."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.sources import ROOT

LOCKS = ("requirements.txt", "requirements-dev.txt", "requirements-audit.txt")
PIN = re.compile(
    r"^([A-Za-z0-9._-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def pins(lock: str) -> dict[str, tuple[str, int]]:
    """Name to version and number of hashes."""
    text = (ROOT / lock).read_text()
    return {
        canonicalize_name(name): (version, hashes.count("sha256"))
        for name, version, hashes in PIN.findall(text)
    }


def pyproject() -> dict[str, Any]:
    """The project's own file."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def wanted(lock: str) -> list[Requirement]:
    """What pyproject.toml asks for in a lock."""
    groups = pyproject()["dependency-groups"]
    if lock == LOCKS[2]:
        return [Requirement(line) for line in groups["audit"]]
    lines = [
        *pyproject()["project"]["dependencies"],
        *groups["build"],
        *(groups["dev"] if lock == LOCKS[1] else []),
    ]
    return [Requirement(line) for line in lines if isinstance(line, str)]


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_is_pins_and_hashes_only(lock: str) -> None:
    """Nothing but pins with their hashes: no index, no link, no host name, no path of
    the machine that wrote it.
    """
    rest = PIN.sub("", (ROOT / lock).read_text())
    assert [line for line in rest.splitlines() if line and not line.startswith("#")] == []
    assert not re.search(r"://|\bindex\b|find-links|\.(org|com|net|internal|local)\b|/", rest)


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_meets_what_the_project_asks_for(lock: str) -> None:
    """Every requirement of pyproject.toml is pinned to a version it allows."""
    pinned = pins(lock)
    for requirement in wanted(lock):
        version, _ = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), (
            f"{requirement} is locked at {version}: run make lock"
        )


def test_the_locks_of_agent_and_tests_agree() -> None:
    """Tests run on the very versions the agent runs on."""
    base, dev = (pins(lock) for lock in LOCKS[:2])
    assert {name: dev.get(name) for name in base} == base


def test_compiled_packages_are_hashed_for_many_platforms() -> None:
    """One lock serves x86-64 and aarch64 and several Pythons: a compiled package has a hash
    per wheel of its release.
    """
    compiled = (
        "aiohttp",
        "bcrypt",
        "frozenlist",
        "isal",
        "msgspec",
        "multidict",
        "numpy",
        "orjson",
        "polars-runtime-32",
        "propcache",
        "pyarrow",
        "pyyaml",
        "yarl",
    )
    few = {
        name: pins("requirements.txt")[name]
        for name in compiled
        if pins("requirements.txt")[name][1] < 8
    }
    assert few == {}
