"""docker-compose.yml on podman: the newest Compose, and a stand-in for each image."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import child
from tests.deploy.podman import Podman
from tests.parts import need, newer
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

FILE = ROOT / "docker-compose.yml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"]
IMAGES = {service["image"] for service in SERVICES.values()}
PROGRAM = "usr/bin/python"  # the command with images of Python, the entry point of the others
NOBODY = 65534
OF_NOBODY = ("prometheus", "alertmanager")  # folders that their images have for their user


def stand_in(folder: Path) -> Path:
    """A root file system with one program."""
    binary = folder / "stand-in"
    source = Path(__file__).with_name("stand_in.c")
    built = child.run(
        [need("gcc", "gcc"), "-static", "-Os", "-Wall", "-o", str(binary), str(source)],
        timeout_s=PATIENCE_S,
    )
    assert built.returncode == 0, built.stderr.decode()
    archive = folder / "stand-in.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(binary, PROGRAM)
        for name in (*OF_NOBODY, "tmp"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            entry.uid = entry.gid = NOBODY
            tar.addfile(entry)
    return archive


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """An engine that has every image of the stack, and no other."""
    newer("docker-compose", "docker-compose")
    folder = tmp_path_factory.mktemp("engine")
    archive = stand_in(folder)
    with Podman(folder) as engine:
        for image in sorted(IMAGES):
            own = not image.startswith("python:")
            changes = ["--change", f"USER {NOBODY}", "--change", f'ENTRYPOINT ["/{PROGRAM}"]']
            name = image if "/" in image else f"library/{image}"
            made = engine.run("import", *changes * own, str(archive), f"docker.io/{name}")
            assert made.returncode == 0, made.stderr.decode()
        engine.check("docker.io/library/tocsin:local")
        yield engine


def compose(podman: Podman, *arguments: str) -> str:
    """Standard output of a Compose command that must succeed."""
    done = child.run(
        [newer("docker-compose", "docker-compose"), "-f", str(FILE), *arguments],
        timeout_s=PATIENCE_S,
        env=os.environ | {"DOCKER_HOST": f"unix://{podman.socket}"},
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]
    return done.stdout.decode()


def reports(podman: Podman) -> dict[str, set[str]]:
    """What each service has logged."""
    lines = compose(podman, "logs", "--no-color").splitlines()
    logged: dict[str, set[str]] = {}
    for container, _, line in (line.partition("|") for line in lines):
        logged.setdefault(container.strip().removesuffix("-1"), set()).add(line.strip())
    return logged


@pytest.mark.integration
@pytest.mark.root
def test_every_service_starts(podman: Podman) -> None:
    """Each finds its files; the nodes wait for the bucket, and write to nothing but their tmpfs."""
    compose(podman, "up", "--detach", "--no-build")
    logged = until(
        lambda: found if set(found := reports(podman)) == set(SERVICES) else None,
        what="a line of each service",
    )
    assert logged == {name: {"ready"} for name in SERVICES}
