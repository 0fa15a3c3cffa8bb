"""What the agent is made of: the bill of materials and the licence list, from the lock."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import distribution
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipeline import child
from tests.sources import ROOT
from tests.wait import PATIENCE_S

# Licences that ask nothing of who runs the agent; a new one here is a decision, not a formality.
ACCEPTED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
    "Zlib",
}


def bill(what: str) -> str:
    """What tools/bill.py says of the environment that runs the tests."""
    made = child.run([sys.executable, str(ROOT / "tools" / "bill.py"), what], timeout_s=PATIENCE_S)
    assert made.returncode == 0, made.stderr.decode()
    return made.stdout.decode()


@pytest.fixture(scope="module")
def sbom() -> dict[str, Any]:
    """The bill of materials."""
    document: dict[str, Any] = json.loads(bill("sbom"))
    return document


@pytest.mark.slow
def test_the_bill_is_cyclonedx(sbom: dict[str, Any]) -> None:
    """Scanners read it: it keeps to CycloneDX' own schema, strictly."""
    # Importing the validator takes two CPU seconds, which every worker would pay.
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(sbom)) is None


def test_the_bill_names_what_is_imported_and_nothing_of_the_build(sbom: dict[str, Any]) -> None:
    """The project's own requirements and theirs are in it; what builds or
    tests the project is not.
    """
    names = {part["name"] for part in sbom["components"]}
    assert {"numpy", "aiohttp", "multidict", "pyarrow", "nvidia-ml-py"} <= names
    assert not {"hatchling", "pytest", "mypy", "pip-tools"} & names


def test_versions_are_those_of_the_lock(sbom: dict[str, Any]) -> None:
    """Whoever reads the bill reads what pip is told to install."""
    locked = set(
        re.findall(r"^(\S+==\S+) ", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    )
    assert {f"{part['name']}=={part['version']}" for part in sbom["components"]} <= locked


@pytest.mark.slow
def test_the_same_parts_give_the_same_bill(sbom: dict[str, Any]) -> None:
    """No clock and no random number is in it, so that packages can be made again."""
    assert json.loads(bill("sbom")) == sbom


@pytest.mark.slow
def test_the_licence_list_is_fresh() -> None:
    """docs/licences.md is what `make bill` would write now."""
    assert (ROOT / "docs" / "licences.md").read_text(encoding="utf-8") == bill("licences"), (
        "stale: run make bill"
    )


def test_every_licence_was_looked_at(sbom: dict[str, Any]) -> None:
    """Each part may be run and passed on without asking anybody."""
    terms = {
        term
        for part in sbom["components"]
        for term in re.findall(r"[\w.-]+", part["licenses"][0]["expression"])
        if term not in ("AND", "OR", "WITH")
    }
    assert terms <= ACCEPTED


@pytest.mark.slow
def test_what_the_extras_need_is_installed_with_them() -> None:
    """A lock does not say who needs what: nothing that an extra needs may be forgotten."""
    lines = [*bill("extras").splitlines(), *(ROOT / "requirements.txt").read_text().splitlines()]
    locked = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = [Requirement(line).name for name in ("objects", "bus") for line in extras[name]]
    while asked:
        name = canonicalize_name(asked.pop())
        assert name in locked
        needs = [Requirement(line) for line in distribution(name).requires or ()]
        asked += [
            each.name
            for each in needs
            if each.marker is None or each.marker.evaluate({"extra": ""})
        ]
