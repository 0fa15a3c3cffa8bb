"""Debian and RPM packages: the same files, the same bytes from the same commit, nothing of
the machine that made them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collector.config.load import Inputs, load
from pipeline import child
from tests.deploy.machine import environment, package
from tests.parts import need
from tests.sources import ROOT
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.integration

SCRIPTS = sorted([*ROOT.glob("deploy/packages/*.sh"), *ROOT.glob("deploy/packages/debian/*")])
CONFIGURATION = "/etc/tocsin/config.yaml"
GATEWAY = "/etc/tocsin/gateway.yaml"


def said(*argv: str) -> str:
    """Standard output of a program that must succeed."""
    ended = child.run(argv, timeout_s=PATIENCE_S)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


@pytest.fixture(scope="module")
def deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Debian package."""
    folder = tmp_path_factory.mktemp("deb")
    return package("deb", "1.2.3", environment(folder), folder)


@pytest.fixture(scope="module")
def rpm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An RPM package."""
    need("rpmbuild", "rpm")
    folder = tmp_path_factory.mktemp("rpm")
    return package("rpm", "1.2.3", environment(folder), folder)


def test_two_builds_of_one_commit_are_equal(deb: Path, tmp_path: Path) -> None:
    """Byte by byte, from another folder: whoever doubts a package can make it again."""
    again = package("deb", "1.2.3", environment(tmp_path), tmp_path)
    assert again.read_bytes() == deb.read_bytes()


def test_both_formats_install_the_same_files(deb: Path, rpm: Path) -> None:
    """Whatever the distribution, what is installed and where is the same; only the places of a
    copyright notice and of zsh's completion are Debian's own.
    """
    listed = {
        line.split()[5].removeprefix(".")
        for line in said("dpkg-deb", "-c", str(deb)).splitlines()
        if line[0] in "-l"
    }
    debian = {
        path.replace("/zsh/vendor-completions/", "/zsh/site-functions/")
        for path in listed
        if not path.startswith("/usr/share/doc/")
    }
    packed = said(
        "rpm", "-qp", "--qf", "[%{FILEMODES:perms} %{FILENAMES}\\n]", str(rpm)
    ).splitlines()
    assert {line.split()[1] for line in packed if line[0] != "d"} == debian
    assert {
        "/usr/lib/systemd/system/tocsin.service",
        "/usr/lib/systemd/system/tocsin-gateway.service",
        "/usr/bin/tocsin",
        "/opt/tocsin/bin/tocsin",
        "/usr/share/man/man1/tocsin.1.gz",
        "/usr/share/bash-completion/completions/tocsin",
        "/usr/share/fish/vendor_completions.d/tocsin.fish",
        "/usr/share/zsh/site-functions/_tocsin",
        CONFIGURATION,
    } <= debian


def test_programs_for_schedulers_are_where_the_documentation_says(deb: Path) -> None:
    """Slurm's and node-problem-detector's configurations name them by these paths,
    and they can be started.
    """
    rows = [line.split() for line in said("dpkg-deb", "-c", str(deb)).splitlines()]
    started = {row[5].removeprefix(".") for row in rows if row[0].startswith("-rwxr-xr-x")}
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    monitor = (ROOT / "deploy" / "npd" / "tocsin-gpu-monitor.json").read_text(encoding="utf-8")
    named = set(re.findall(r"/usr/libexec/tocsin/[\w-]+", page + monitor))
    assert named
    assert named <= started


def test_files_belong_to_root_and_nobody_else_writes_them(deb: Path) -> None:
    """The agent's own user cannot change what it runs."""
    rows = [line.split() for line in said("dpkg-deb", "-c", str(deb)).splitlines()]
    assert {row[1] for row in rows} == {"root/root"}
    assert [
        row for row in rows if row[0][0] != "l" and (row[0][5] == "w" or row[0][8] == "w")
    ] == []


def test_an_edited_configuration_survives_upgrades(deb: Path, rpm: Path) -> None:
    """Both package managers know the file as the administrator's."""
    assert said("dpkg-deb", "-I", str(deb), "conffiles").split() == [CONFIGURATION, GATEWAY]
    assert said("rpm", "-qp", "--configfiles", str(rpm)).split() == [CONFIGURATION, GATEWAY]


def test_the_configuration_that_is_shipped_is_valid_and_listens_on_loopback() -> None:
    """A node on which nobody has decided anything yet shows itself to nobody."""
    shipped = load(Inputs(str(ROOT / "deploy/packages/config.yaml"))).config
    assert shipped == load(Inputs()).config
    assert all(address.startswith("127.0.0.1:") for address in shipped.web.listen_address)


def test_the_gateway_s_configuration_is_valid_beside_an_agent() -> None:
    """It listens on another port of the loopback address, and lacks the servers alone."""
    shipped = load(Inputs(str(ROOT / "deploy/packages/gateway.yaml"))).config
    agent = load(Inputs()).config
    assert all(address.startswith("127.0.0.1:") for address in shipped.web.listen_address)
    assert not {*shipped.web.listen_address} & {*agent.web.listen_address}
    assert shipped.bus.servers == ()


def test_an_agent_that_refuses_its_configuration_ends_no_upgrade(tmp_path: Path) -> None:
    """The package is configured; the unit that does not start is named, and the other one is
    restarted.
    """
    running = tmp_path / "running"
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$*" >>{running}\ntest "$2" != tocsin.service\n')
    systemctl.chmod(0o755)
    (tmp_path / "systemd-sysusers").symlink_to("/bin/true")
    text = (ROOT / "deploy/packages/debian/postinst").read_text(encoding="utf-8")
    script = tmp_path / "postinst"
    script.write_text(text.replace("/run/systemd/system", str(tmp_path)), encoding="utf-8")
    path = f"{tmp_path}:/usr/bin:/bin"
    done = child.run(["sh", str(script), "configure"], timeout_s=PATIENCE_S, env={"PATH": path})
    assert done.returncode == 0
    assert b"tocsin does not start with this version" in done.stderr
    assert running.read_text().splitlines()[-1] == "try-restart tocsin-gateway.service"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_plain_sh(script: Path) -> None:
    """They run as root on every node: shellcheck finds nothing."""
    ended = child.run(
        [need("shellcheck", "shellcheck"), "--shell=sh", str(script)], timeout_s=PATIENCE_S
    )
    assert ended.stdout.decode() == ""
