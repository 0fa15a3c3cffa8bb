"""A machine of our own: systemd, really booted in namespaces of its own, over a copy-on-write view
of this machine's files.

Nothing that happens in it reaches the files, services or network of the machine that runs the test;
it has a loopback device and no other.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import subprocess
import sys
import sysconfig
from pathlib import Path

from collector.cli.completion import SHELLS, script
from collector.cli.main import parser
from pipeline import child
from tests.parts import missing, need
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

# Where this environment is found inside, in a place that ProtectHome= does not hide: as a package's
# own interpreter and libraries.
PYTHON, LIBRARIES, REPOSITORY = (
    "/srv/tocsin/python",
    "/srv/tocsin/libraries",
    "/srv/tocsin/repository",
)
PACKAGES = "/srv/tocsin/packages"  # the folder that the machine was made with

BOOT = f"""
set -e
mount -t tmpfs -o size=1g tmpfs "$1"
mkdir -p "$1/upper" "$1/work" "$1/root"
R=$1/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$R"
mkdir -p "$R{PYTHON}" "$R{LIBRARIES}" "$R{REPOSITORY}" "$R{PACKAGES}"
bind() {{ mount --bind "$1" "$2"; mount -o remount,bind,ro "$2"; }}
bind "$2" "$R{PYTHON}"
bind "$3" "$R{LIBRARIES}"
bind "$4" "$R{REPOSITORY}"
bind "$5" "$R{PACKAGES}"
echo "{PYTHON}/lib" >"$R/etc/ld.so.conf.d/00-tests.conf"  # an interpreter with a shared library of its own
chroot "$R" ldconfig
mount -t tmpfs tmpfs "$R/tmp"
for hidden in var/log var/lib/apt/lists var/cache/apt; do mount -t tmpfs tmpfs "$R/$hidden"; done
# What would reach beyond the namespaces: settings and modules of the kernel, device nodes.
for unit in systemd-sysctl.service systemd-modules-load.service systemd-tmpfiles-setup-dev.service systemd-binfmt.service \\
  proc-sys-fs-binfmt_misc.automount; do ln -sf /dev/null "$R/etc/systemd/system/$unit"; done
mount -t proc proc "$R/proc"
bind "$R/proc/sys" "$R/proc/sys"
mount -t sysfs -o ro sysfs "$R/sys"
mkdir -p "$R/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$R/sys/fs/cgroup"
mount --bind /dev "$R/dev"
mount -t tmpfs tmpfs "$R/run"
ip link set lo up
echo n1 >"$R/etc/hostname"
exec chroot "$R" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=tests \\
  /lib/systemd/systemd --system --unit=basic.target --log-target=journal --show-status=no
"""  # noqa: E501 - text as it is used

NAMESPACES = ("-m", "-p", "-n", "-i", "-u", "-C")


class Machine:
    """Boot it with ``with``; what runs in it is killed at the end.

    Skips, or fails in CI, where namespaces are not to be had.
    """

    def __init__(self, folder: Path) -> None:
        need("systemctl", "systemd")
        self._folder = folder / "machine"
        self._folder.mkdir()
        self._log = folder / "boot.log"
        libraries = sysconfig.get_path("purelib")
        binds = [sys.base_prefix, libraries, str(ROOT), str(folder)]
        boot = ["bash", "-c", BOOT, "boot", str(self._folder), *binds]
        with self._log.open("wb") as log:
            argv = [
                need("unshare", "util-linux"),
                *NAMESPACES,
                "-f",
                "--mount-proc",
                "--kill-child",
                *boot,
            ]
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self) -> Machine:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        try:
            until(
                lambda: self._process.poll() is not None or self._up(children),
                what="the machine to boot",
            )
        except AssertionError:
            self.__exit__()
            raise
        if self._process.poll() is not None:
            missing(f"no machine of our own here: {self._log.read_text(errors='replace')[-300:]}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # --kill-child: everything in its namespaces goes with it
        self._process.wait(PATIENCE_S)

    def _up(self, children: Path) -> bool:
        with contextlib.suppress(OSError):  # it has just ended
            for pid in children.read_text(encoding="ascii").split():
                self._init = int(pid)
                return Path(f"/proc/{pid}/comm").read_text() == "systemd\n" and self._state() in (
                    "running",
                    "degraded",
                )
        return False

    def _state(self) -> str:
        return self.run("systemctl is-system-running").stdout.decode().strip()

    def run(self, script: str, *, timeout_s: float = 120.0) -> child.Finished:
        """Run a shell script in it as root, in /srv."""
        enter = [
            "nsenter",
            "-t",
            str(self._init),
            *NAMESPACES,
            "chroot",
            str(self._folder / "root"),
        ]
        return child.run(
            [*enter, "/usr/bin/env", "-C", "/srv", "bash", "-c", script], timeout_s=timeout_s
        )

    def said(self, script: str) -> str:
        """Standard output of a script that must succeed."""
        ended = self.run(script)
        assert ended.returncode == 0, f"{script}\n{ended.stdout.decode()}{ended.stderr.decode()}"
        return ended.stdout.decode()


def environment(folder: Path) -> Path:
    """What environment.sh makes, out of the environment that runs the tests: the same script and
    interpreter, nothing to install.
    """
    made = folder / "tocsin"
    packages = made / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "tests.pth").write_text(f"{LIBRARIES}\n{REPOSITORY}\n", encoding="utf-8")
    (made / "bin").mkdir()
    (made / "bin" / "python").symlink_to(
        f"{PYTHON}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    )
    (made / "bin" / "tocsin").write_bytes((ROOT / "deploy" / "packages" / "tocsin").read_bytes())
    (made / "bin" / "tocsin").chmod(0o755)
    (made / "pyvenv.cfg").write_text(
        f"home = {PYTHON}/bin\ninclude-system-site-packages = false\n", encoding="utf-8"
    )
    (made / "share").mkdir()
    page = runpy.run_path(str(ROOT / "tools" / "man_page.py"))["page"]
    (made / "share" / "tocsin.1").write_text(page(parser(), "2026-11-22"), encoding="utf-8")
    for shell in SHELLS:
        completion = made / "share" / f"completion.{shell}"
        completion.write_text(script(parser(), shell), encoding="utf-8")
    return made


def package(kind: str, version: str, of: Path, folder: Path) -> Path:
    """A package of an environment, made by deploy/packages/build.sh."""
    before = set(folder.glob(f"*.{kind}"))
    environ = {
        "PATH": os.environ["PATH"],
        "ENVIRONMENT": str(of),
        "VERSION": version,
        "COMPRESSION": "none",
        "SOURCE_DATE_EPOCH": "1760000000",
    }
    made = child.run(
        [str(ROOT / "deploy/packages/build.sh"), kind, str(folder)],
        timeout_s=PATIENCE_S,
        env=environ,
    )
    assert made.returncode == 0, made.stderr.decode()
    (new,) = set(folder.rglob(f"*.{kind}")) - before
    return new
