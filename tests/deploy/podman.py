"""Podman's API in namespaces of its own, with its storage in memory and no way to a registry."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pipeline import child
from tests.parts import need
from tests.wait import PATIENCE_S, until

# Limits that any machine can set, and no control groups, which a test machine may not have.
CONTAINERS_CONF = """
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
no_pivot_root = true
runtime = "crun"
[network]
network_backend = "netavark"
"""

START = """
set -e
mount -t tmpfs tmpfs /run
mount -t sysfs -o ro sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs "$1/storage"
ip link set lo up
exec podman --root "$1/storage" --runroot /run/storage --tmpdir /run/libpod --storage-driver vfs \\
  --network-config-dir "$1/networks" system service --time=0 "unix://$1/socket"
"""

NAMESPACES = ("--mount", "--pid", "--net", "--cgroup")


class Podman:
    """Start it with ``with``; its containers end with it.

    Where containers cannot be started, it skips, or fails in CI.
    """

    def __init__(self, folder: Path) -> None:
        for program in ("podman", "crun", "iptables"):
            need(program, program)
        self._folder = folder / "podman"
        for name in ("storage", "networks"):
            (self._folder / name).mkdir(parents=True)
        settings = self._folder / "containers.conf"
        settings.write_text(CONTAINERS_CONF, encoding="utf-8")
        self._environ = os.environ | {"CONTAINERS_CONF": str(settings)}
        self._log = folder / "podman.log"
        self.socket = self._folder / "socket"
        argv = [need("unshare", "util-linux"), *NAMESPACES, "--fork", "--mount-proc"]
        argv += ["--kill-child", "bash", "-c", START, "podman", str(self._folder)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
            )

    def __enter__(self) -> Podman:
        try:
            until(
                lambda: self._process.poll() is not None or self.socket.exists(),
                what="podman's API",
            )
        except AssertionError:
            self.__exit__()
            raise
        if self._process.poll() is not None:
            self._unavailable(self._log.read_text(errors="replace"))
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # --kill-child: the containers end with their process namespace
        self._process.wait(PATIENCE_S)

    def run(self, *arguments: str) -> child.Finished:
        """A command of podman's client."""
        return child.run(
            [need("podman", "podman"), "--url", f"unix://{self.socket}", *arguments],
            timeout_s=PATIENCE_S,
            env=self._environ,
        )

    def check(self, image: str) -> None:
        """Start a container with a network and a published port, as Compose will."""
        tried = self.run("run", "--detach", "--name", "tried", "--publish", "127.0.0.1:9:9", image)
        if tried.returncode:
            self._unavailable(tried.stderr.decode())
        self.run("rm", "--force", "--time", "0", "tried")

    @staticmethod
    def _unavailable(why: str) -> None:
        message = f"no containers here: {why[-300:]}"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
