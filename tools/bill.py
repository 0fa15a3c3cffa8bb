"""What the agent is made of: CycloneDX bill of materials, licence list, and what only builds need.

Reads the lock and the metadata of the environment it runs in, which must hold what is locked.
Stand-alone: needs ``packaging`` alone.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.txt", "requirements-dev.txt")  # the second holds what is in the first too
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) (?:\\\n    --hash=\S+ ?)+", re.MULTILINE)
EXTRAS = ("objects", "bus")  # what packages and image bring along beyond the least
# What PyNaCl needs. They are installed without looking for more: a lock names no dependencies.
NEEDED_BY_EXTRAS = ("cffi", "pycparser")
NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562's for URLs

# Classifiers and free texts of packages that give no SPDX expression (PEP 639) yet. Names:
# https://spdx.org/licenses/
SPDX = {
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD-3": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A distribution that the agent runs on.

    ``licence`` is an SPDX expression; ``needs`` are names of other parts.
    """

    name: str
    version: str
    licence: str
    needs: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its name for vulnerability databases (https://github.com/package-url/purl-spec)."""
        return f"pkg:pypi/{self.name}@{self.version}"


def pins() -> dict[str, re.Match[str]]:
    """What is locked: name to its lines, with the version as group 2."""
    text = "".join((ROOT / lock).read_text() for lock in LOCKS)
    return {canonicalize_name(found[1]): found for found in PIN.finditer(text)}


def wanted() -> list[Requirement]:
    """What the project itself asks for, and what its extras do where they are installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    here = {canonicalize_name(one.metadata["Name"]) for one in distributions()}
    extras = [
        Requirement(line) for extra in EXTRAS for line in project["optional-dependencies"][extra]
    ]
    return [Requirement(line) for line in project["dependencies"]] + [
        one for one in extras if canonicalize_name(one.name) in here
    ]


def extras(*more: str) -> str:
    """Lines of the lock for the extras' own distributions, what these need, and ``more``."""
    project, locked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"], pins()
    lines = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    names = [*(Requirement(line).name for line in lines), *NEEDED_BY_EXTRAS, *more]
    return "\n".join(locked[canonicalize_name(name)][0] for name in names)


def parts() -> list[Part]:
    """Everything the agent needs at run time, by name.

    SystemExit where the environment is not what is locked.
    """
    locked, found, asked = pins(), dict[str, Part](), list(wanted())
    while asked:
        name = canonicalize_name(asked.pop().name)
        if name not in found:
            installed = _installed(name)
            if name not in locked or installed.version != locked[name][2]:
                sys.exit(
                    f"{name} is installed as {installed.version}, which is not what is "
                    "locked: make install"
                )
            needs = list(_needs(installed))
            asked += needs
            found[name] = Part(
                name,
                installed.version,
                licence(installed),
                tuple(sorted({canonicalize_name(need.name) for need in needs})),
            )
    return [found[name] for name in sorted(found)]


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        sys.exit(f"{name} is not installed: make install")


def _needs(installed: Distribution) -> Iterator[Requirement]:
    for line in installed.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def licence(installed: Distribution) -> str:
    """SPDX expression of a distribution; SystemExit for one that nobody has looked at yet."""
    meta = installed.metadata
    if meta["License-Expression"]:
        return str(meta["License-Expression"])
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in meta.get_all("Classifier", ())
        if text.startswith("License ::")
    ]
    for text in (*classifiers, meta["License"] or ""):
        if text in SPDX or text in SPDX.values():
            return SPDX.get(str(text), str(text))
    sys.exit(
        f"{meta['Name']}: no licence that is known here ({classifiers or meta['License']!r}): "
        "look, and add it to SPDX"
    )


def sbom() -> dict[str, Any]:
    """The bill of materials as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/); the same
    parts give the same document.
    """
    version = re.search(
        r'^VERSION = "(.+)"$', (ROOT / "collector/version.py").read_text(), re.MULTILINE
    )
    assert version  # noqa: S101 - the build reads the same line
    used = parts()
    us = {"type": "application", "bom-ref": "tocsin", "name": "tocsin", "version": version[1]}
    us_licensed = us | {"licenses": [{"expression": "Apache-2.0"}]}
    refs = {part.name: part.purl for part in used}
    serial = uuid.uuid5(NAMESPACE, "\n".join([version[1], *refs.values()]))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {**_when(), "component": us_licensed},
        "components": [
            {
                "type": "library",
                "bom-ref": part.purl,
                "name": part.name,
                "version": part.version,
                "purl": part.purl,
                "licenses": [{"expression": part.licence}],
            }
            for part in used
        ],
        "dependencies": [
            {
                "ref": "tocsin",
                "dependsOn": sorted({refs[canonicalize_name(need.name)] for need in wanted()}),
            },
            *(
                {"ref": part.purl, "dependsOn": [refs[need] for need in part.needs]}
                for part in used
            ),
        ],
    }


def _when() -> dict[str, str]:
    """The time of the build where the build says it
    (https://reproducible-builds.org/specs/source-date-epoch/).
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return (
        {"timestamp": datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        if epoch
        else {}
    )


def licences() -> str:
    """docs/licences.md: without versions, so that an upgrade changes it only
    where a licence changed.
    """
    rows = "".join(
        f"| [{part.name}](https://pypi.org/project/{part.name}/) | {part.licence} |\n"
        for part in parts()
    )
    return f"""\
# Licences

Tocsin is Apache-2.0. Packages and image hold these Python packages as well, each with its own licence text. Made by `make bill`; the
versions are in `requirements.txt`, and in the bill of materials that lies in packages and image (`/opt/tocsin/share/sbom.cdx.json`).

| Package | Licence |
|---|---|
{rows}"""  # noqa: E501 - text as it is used


def surplus() -> list[str]:
    """Distributions of this environment that the agent does not run on."""
    kept = {part.name for part in parts()} | {"tocsin"}
    return sorted({canonicalize_name(one.metadata["Name"]) for one in distributions()} - kept)


def main() -> None:
    """Write one of them to standard output."""
    makers: dict[str, Callable[[], str]] = {
        "sbom": lambda: json.dumps(sbom(), indent=1),
        "licences": licences,
        "extras": lambda: extras(*sys.argv[2:]),
        "surplus": lambda: "\n".join(surplus()),
    }
    names = sys.argv[1:2]
    if not (names and names[0] in makers and (names == ["extras"] or len(sys.argv) == 2)):
        sys.exit(f"usage: bill.py {'|'.join(makers)} [PACKAGE of the lock, with extras ...]")
    sys.stdout.write(makers[sys.argv[1]]().rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
