"""The image: what its recipe says, and the agent under a container's restrictions, made by hand
on a machine of our own.
"""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import child
from tests.deploy.machine import Machine, environment
from tests.deploy.manifests import exporter, pod
from tests.parts import need
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def lines() -> list[str]:
    """Instructions of the Dockerfile, continued lines joined, comments left out."""
    text = "\n".join(
        line
        for line in DOCKERFILE.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    )
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def instruction(word: str) -> str:
    """The last instruction of a kind."""
    return [line.removeprefix(word).strip() for line in lines() if line.startswith(f"{word} ")][-1]


@pytest.mark.slow
def test_hadolint_finds_nothing() -> None:
    """Exceptions stand in the file, each with its reason."""
    judged = child.run(
        [str(Path(sys.executable).with_name("hadolint")), "--no-color", str(DOCKERFILE)],
        timeout_s=PATIENCE_S,
    )
    assert (judged.returncode, judged.stdout.decode()) == (0, "")


def copied() -> list[str]:
    """Paths of the repository that the build gets."""
    return [
        word
        for line in lines()
        if line.startswith("COPY ") and "--from" not in line
        for word in shlex.split(line)[1:-1]
    ]


def test_what_is_copied_exists_and_is_let_through() -> None:
    """Every path of a COPY is in the repository, and .dockerignore does not keep it back."""
    allowed = {
        line[1:]
        for line in Path(f"{DOCKERFILE}.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    paths = copied()
    assert paths
    assert [path for path in paths if not (ROOT / path).exists() or path not in allowed] == []


def test_what_the_build_runs_is_copied() -> None:
    """Every file of the repository that environment.sh names is below a path of a COPY."""
    script = (ROOT / "deploy" / "packages" / "environment.sh").read_text(encoding="utf-8")
    named = set(re.findall(r"\$here/([\w./-]+)", script))
    assert named
    assert [
        file for file in sorted(named) if not any(Path(file).is_relative_to(p) for p in copied())
    ] == []


def test_the_image_runs_as_nobody_and_starts_the_agent() -> None:
    """A number, so that runAsNonRoot can be checked; and the same one that the manifests name."""
    security = pod("base")["securityContext"]
    assert (
        instruction("USER") == f"{security['runAsUser']}:{security['runAsGroup']}" == "65534:65534"
    )
    assert instruction("ENTRYPOINT") == '["tocsin"]'


def test_nothing_in_the_image_is_named_by_a_tag_that_moves_with_us() -> None:
    """The base is an argument, so that a release can give it with its digest."""
    assert re.findall(r"^FROM (\S+)", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE) == [
        "${BASE}",
        "${BASE}",
    ]


def test_every_package_of_the_distribution_is_copied() -> None:
    """A wheel is built without a folder that is missing; the command line then lacks a module."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(packages) <= set(copied())


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with the environment that the image has, below /opt/tocsin."""
    folder = tmp_path_factory.mktemp("node")
    environment(folder)
    need("curl", "curl")
    need("setpriv", "util-linux")
    with Machine(folder) as node:
        node.said(
            "cp -a /srv/tocsin/packages/tocsin /opt/tocsin; mkdir -p /var/lib/tocsin /host/sys"
        )
        yield node


@pytest.mark.integration
@pytest.mark.root
def test_the_agent_runs_as_the_manifests_say(machine: Machine) -> None:
    """Nobody's user, no capability, no new privileges, a read-only root: with the DaemonSet's
    arguments it serves what the probes ask for.
    """
    container = exporter("base")
    probes = {
        container[f"{kind}Probe"]["httpGet"]["path"]
        for kind in ("startup", "liveness", "readiness")
    }
    volumes = " && ".join(
        f"mount -t tmpfs -o mode=1777 tmpfs {path}" for path in ("/var/lib/tocsin", "/tmp")
    )
    restricted = (
        "setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs "
        "--bounding-set=-all --inh-caps=-all"
    )
    # Instead of a driver and fabric, which are not here: the simulated ones.
    command = (
        f"env TOCSIN_SIMULATE__PROFILE=hgx-h100 {restricted} /opt/tocsin/bin/tocsin "
        f"{shlex.join(container['args'])}"
    )
    inside = f"mount -o remount,ro,bind / && {volumes} && exec {command}"
    machine.said(f"unshare -m bash -c {shlex.quote(inside)} >/srv/log 2>&1 & echo $! >/srv/pid")
    asked = " ".join(f"localhost:9401{path}" for path in probes)
    until(
        lambda: machine.run(f"curl -fs --fail-early {asked}").returncode == 0,
        what="the probes",
    )
    assert "tocsin_gpu_visible 8.0" in machine.said("curl -fs localhost:9400/metrics")
    status = machine.said("cat /proc/$(cat /srv/pid)/status")
    assert re.findall(r"^(?:Uid|CapEff|NoNewPrivs):\s+(\S+)", status, re.MULTILINE) == [
        "65534",
        "0" * 16,
        "1",
    ]
    assert machine.said("awk '$5 == \"/\" {print $6}' /proc/$(cat /srv/pid)/mountinfo").startswith(
        "ro,"
    )
    assert (
        machine.run("kill $(cat /srv/pid); tail --pid=$(cat /srv/pid) -f /dev/null").returncode == 0
    )
    assert "Read-only file system" not in machine.said("cat /srv/log")
