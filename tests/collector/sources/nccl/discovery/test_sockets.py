"""RAS sockets: found by port and owner, in our network namespace and in others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.nccl.discovery.sockets import (
    Listener,
    addresses,
    listeners,
    port_holders,
    ras_clients,
)
from tests.parts import need

HEAD = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   "
    "uid  timeout inode\n"
)


def row(address: str, state: str = "0A", user: int = 1000, inode: int = 55) -> str:
    """One line of the kernel's table (net/ipv4/tcp_ipv4.c)."""
    return (
        f"   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  "
        f"{user}        0 {inode} 1 0000 100 0 0 10 0\n"
    )


def test_listening_sockets_are_read_with_owner_and_inode(tmp_path: Path) -> None:
    """Connections of the same port are not listeners."""
    (tmp_path / "tcp").write_text(
        HEAD + row("0100007F:6D7C") + row("0100007F:6D7C", "01") + "junk\n"
    )
    (tmp_path / "tcp6").write_text(HEAD + row("00000000000000000000000001000000:6D7C", inode=56))
    assert list(listeners(tmp_path)) == [
        Listener("127.0.0.1", 28028, 1000, 55),
        Listener("::1", 28028, 1000, 56),
    ]


@pytest.fixture
def listening() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_listening_process_of_this_machine_is_found(listening: int) -> None:
    """By the real tables of the kernel."""
    found = ras_clients(Path("/proc"), [(os.getpid(), 0, f"localhost:{listening}")])
    assert [(x.host, x.port) for x in found[os.getpid()]] == [("127.0.0.1", listening)]


def test_another_process_on_the_port_is_not_ours(listening: int) -> None:
    """The inode says whose socket it is: the parent of this test does not listen."""
    assert ras_clients(Path("/proc"), [(os.getppid(), 0, f"localhost:{listening}")]) == {}


@pytest.mark.parametrize(
    ("address", "user", "holder"),
    [
        ("", 1000, 1001),
        ("localhost:28028", 1000, 1001),
        ("10.0.0.7:28028", 1000, 1003),
        ("[::1]:28028", 1000, 0),
        ("localhost:28029", 1000, 1002),
        ("localhost:28030", 1000, 0),
        ("", 1001, 0),
        ("localhost:28029", 1001, 0),
        ("node7:28029", 1003, 1002),
    ],
)
def test_a_port_of_another_user_is_named_by_its_uid(
    tmp_path: Path, address: str, user: int, holder: int
) -> None:
    """On the address that the job wants, and where no socket is of its own user: these share."""
    (net := tmp_path / "812/net").mkdir(parents=True)
    (net / "tcp").write_text(
        HEAD
        + row("0100007F:6D7C", user=1001)
        + row("0700000A:6D7C", user=1003)
        + row("00000000:6D7D", user=1002)
        + row("0100007F:6D7D", user=1001)
        + row("0200000A:6D7E", user=1001)
    )
    found = port_holders(tmp_path, [(812, 0, address, user)])
    assert [x.user for x in found.values()] == ([holder] if holder else [])


def test_the_addresses_of_a_namespace_are_read(tmp_path: Path) -> None:
    """Local ones, not networks and broadcasts."""
    (tmp_path / "fib_trie").write_text(
        "Main:\n  +-- 10.0.0.0/24 2 0 2\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- "
        "10.0.0.7\n        /32 host LOCAL\n"
        "     |-- 10.0.0.255\n        /32 link BROADCAST\n"
    )
    (tmp_path / "if_inet6").write_text("fe800000000000000000000000000001 02 40 20 80 eth0\n")
    assert addresses(tmp_path) == {"10.0.0.7", "fe80::1"}


def test_this_machine_has_addresses() -> None:
    """As its kernel shows them."""
    assert "127.0.0.1" in addresses(Path("/proc/self/net"))


@pytest.mark.root
@pytest.mark.integration
def test_a_socket_in_another_network_namespace_is_found() -> None:
    """A pod's listener is in no table of ours, and in that of its process."""
    unshare = need("unshare", "util-linux")
    code = (
        "import socket,sys; s=socket.create_server(('0.0.0.0', 28028)); print('ready', "
        "flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [unshare, "-n", sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            pytest.skip("this machine does not let us make a network namespace")
        found = ras_clients(
            Path("/proc"), [(process.pid, Path(f"/proc/{process.pid}/ns/net").stat().st_ino, "")]
        )
        assert [(x.host, x.port) for x in found[process.pid]] == [("0.0.0.0", 28028)]
        process.communicate()
