"""The table of privileges in docs/security.md is what units and manifests hold, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.manifests import Manifest, golden, one, pod
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
SYSTEMD = ROOT / "deploy" / "systemd"
KINDS = ("containers", "initContainers")


def documented() -> dict[str, set[str]]:
    """What holds each capability, as the table has it."""
    table = PAGE.split("## Privileges\n")[1].split("\n## ")[0]
    rows = re.findall(
        r"^\| `CAP_(\w+)` \| ([^|]+) \| [^|]{20,} \| [^|]{20,} \|$", table, re.MULTILINE
    )
    return {name: set(re.findall(r"`([^`]+)`", holders)) for name, holders in rows}


def of_systemd() -> Iterator[tuple[str, str]]:
    """Capability and file of each unit and drop-in; ambient and bounding set are the same."""
    for path in sorted(SYSTEMD.glob("*.[cs]*")):
        text = path.read_text(encoding="utf-8")
        ambient, bounding = (
            {
                word
                for row in re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)
                for word in row.split()
            }
            for key in ("AmbientCapabilities", "CapabilityBoundingSet")
        )
        assert ambient == bounding, path
        yield from ((name.removeprefix("CAP_"), path.name) for name in ambient)


def of_pod(spec: Manifest) -> Iterator[tuple[str, str]]:
    """Capability and container; each drops all others."""
    for kind in KINDS:
        for container in spec.get(kind, ()):
            if "tocsin" not in container["image"]:
                continue  # a site's own
            held = container["securityContext"]["capabilities"]
            assert held["drop"] == ["ALL"]
            yield from ((capability, container["name"]) for capability in held.get("add", ()))


def test_each_capability_is_documented_where_it_is_held() -> None:
    """Units, drop-ins, and the containers of all profiles; with a reason and a loss each."""
    held: dict[str, set[str]] = {}
    for capability, place in of_systemd():
        held.setdefault(capability, set()).add(place)
    for capability, container in (*of_pod(pod("base")), *of_pod(pod("full"))):
        held.setdefault(capability, set()).add(container)
    component = dict(of_pod(pod("full-with-conditions"))).keys() - dict(of_pod(pod("full"))).keys()
    for capability in component:
        held.setdefault(capability, set()).add("namespaces")
    assert held == documented()


@pytest.mark.parametrize("name", ["default", "full", "everything"])
def test_the_chart_holds_what_the_manifests_hold(name: str) -> None:
    """The default profile nothing."""
    path = ROOT / "tests" / "golden" / "chart" / f"{name}.yaml"
    assert path.exists()
    from tests.deploy.test_chart import rendered  # noqa: PLC0415 - takes the validator along

    spec = one(rendered(name), "DaemonSet")["spec"]["template"]["spec"]
    expected = set(of_pod(pod("full-with-conditions"))) if name == "full" else set()
    assert set(of_pod(spec)) == expected


def test_no_profile_asks_for_unconfined_or_privileged_containers() -> None:
    """AppArmor, seccomp and no_new_privs are the runtime's default everywhere."""
    for folder in ("base", "full", "full-with-conditions"):
        text = str(golden(folder))
        assert "Unconfined" not in text
        assert "'privileged': True" not in text
        spec = pod(folder)
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        contexts = [c["securityContext"] for kind in KINDS for c in spec.get(kind, ())]
        assert {c["allowPrivilegeEscalation"] for c in contexts} == {False}
        assert {c["readOnlyRootFilesystem"] for c in contexts} == {True}


def test_the_full_profile_of_the_unit_adds_no_capability_to_the_agent() -> None:
    """It starts the helper, and that is all."""
    text = (SYSTEMD / "tocsin-full.conf").read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row and not row.startswith("#")]
    unit = "tocsin-helper.service"
    assert rows == ["[Unit]", f"Wants={unit}", f"After={unit}"]
    assert Path(SYSTEMD / unit).exists()
