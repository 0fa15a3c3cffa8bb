"""The agent under a service manager, seen from the manager's socket."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.agents import AgentProcess
from tests.wait import PATIENCE_S


@pytest.mark.slow
def test_a_manager_hears_of_start_life_reload_and_end_in_this_order(tmp_path: Path) -> None:
    """READY once it serves, WATCHDOG while it reads, RELOADING before READY
    again, STOPPING at the end.
    """
    config = tmp_path / "config.yaml"
    config.write_text("log: {level: debug}\n")
    (tmp_path / "root").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000000"}
        arguments = ("--config.file", str(config), "--path.rootfs", str(tmp_path / "root"))
        with AgentProcess(tmp_path / "s", *arguments, environ=environ) as agent:
            assert manager.recv(4096).decode() == f"READY=1\nSTATUS=Serving {agent.address}"
            assert manager.recv(4096) == b"WATCHDOG=1"
            config.write_text("log: {level: debg}\n")
            agent.process.send_signal(signal.SIGHUP)
            assert first(manager).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert first(manager).endswith(b"new configuration rejected")
            agent.process.send_signal(signal.SIGTERM)
            assert first(manager).startswith(b"STOPPING=1\n")
            assert agent.process.wait(PATIENCE_S) == 0


def first(manager: socket.socket) -> bytes:
    """The next word that is not the watchdog's."""
    while (said := manager.recv(4096)) == b"WATCHDOG=1":
        pass
    return said
