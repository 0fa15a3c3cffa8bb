"""Slurm's accounting beside the cluster of tests/slurm.py: MariaDB and slurmdbd, all of Debian."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.parts import need
from tests.servers import Server
from tests.wait import PATIENCE_S

# The munge socket goes where a password would: AuthInfo does not reach this connection.
SLURM_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={directory}/munge/munge.sock
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/none
"""
SLURMDBD_CONF = """\
AuthInfo=socket={directory}/munge/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
LogFile={directory}/slurmdbd.log
PidFile={directory}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=pw
StorageLoc=slurm_acct_db
"""
USER = b"""\
create user 'slurm'@'127.0.0.1' identified by 'pw';
grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1';
"""


def fit() -> None:
    """Skip, or in CI fail, where a package is missing."""
    for program, package in (
        ("slurmdbd", "slurmdbd"),
        ("mariadbd", "mariadb-server"),
        ("mariadb-install-db", "mariadb-server"),
    ):
        need(program, package)


class Accounting:
    """In the cluster's folder, on two ports of 127.0.0.1: ``port`` of slurmdbd, ``database`` of
    MariaDB. Needs root.
    """

    def __init__(self, directory: Path, port: int, database: int) -> None:
        self._directory, self._port, self._database = directory, port, database
        self._socket = directory / "mariadb.sock"
        self._environ = {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "HOME": str(directory)}

    def slurm_conf(self) -> str:
        """Lines of slurm.conf."""
        return SLURM_CONF.format(directory=self._directory, port=self._port)

    @contextlib.contextmanager
    def database(self) -> Iterator[None]:
        """A running MariaDB with an account for slurmdbd."""
        data = self._directory / "database"
        self._run(
            *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
        )
        argv = (
            *("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}"),
            *(f"--socket={self._socket}", "--bind-address=127.0.0.1", f"--port={self._database}"),
            *("--innodb-buffer-pool-size=64M", "--skip-name-resolve"),
            f"--pid-file={self._directory / 'mariadb.pid'}",
        )
        log = self._directory / "output-mariadb"
        with Server(argv, log, env=self._environ) as server:
            server.until(lambda: self._connects(self._database), "MariaDB")
            self._run("mariadb", "--no-defaults", f"--socket={self._socket}", stdin=USER)
            yield

    @contextlib.contextmanager
    def daemon(self) -> Iterator[None]:
        """A running slurmdbd; it may be started again."""
        configuration = self._directory / "slurmdbd.conf"
        configuration.write_text(
            SLURMDBD_CONF.format(
                directory=self._directory,
                host=socket.gethostname().partition(".")[0],
                port=self._port,
                database=self._database,
            ),
            encoding="ascii",
        )
        configuration.chmod(0o600)
        environ = {**self._environ, "SLURM_CONF": str(self._directory / "slurm.conf")}
        log = self._directory / "output-slurmdbd"
        with Server(("slurmdbd", "-D"), log, env=environ) as server:
            server.until(lambda: self._connects(self._port), "slurmdbd")
            yield

    def _connects(self, port: int) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    def _run(self, *argv: str, stdin: bytes = b"") -> None:
        ran = subprocess.run(
            argv,
            env=self._environ,
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ran.returncode == 0, f"{argv}: {(ran.stdout + ran.stderr).decode(errors='replace')}"
