"""What an agent does without is named by privilege."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from collector.config.settings import Config
from collector.node import privileges
from collector.node.helper import client
from collector.node.helper.client import Answer
from collector.node.helper.protocol import Kind
from collector.node.hidepid import Hiding, hiding
from collector.node.privileges import capabilities, hidden_processes, missing, report
from tests.tenants.unprivileged import run_as

STATUS = "Name:\tx\nCapInh:\t0000000000000000\nCapEff:\t{held:016x}\nCapBnd:\t000001ffffffffff\n"
REPORT = """
from collector.config.settings import Config
from collector.node.privileges import report
print(json.dumps(report(Config())))
"""


def test_capabilities_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    """The effective set, of those that are of use; an unreadable file holds none."""
    status = tmp_path / "status"
    status.write_text(STATUS.format(held=1 << 19 | 1 << 34 | 1 << 7), encoding="ascii")
    assert capabilities(status) == {"CAP_SYS_PTRACE", "CAP_SYSLOG"}
    assert capabilities(tmp_path / "absent") == frozenset()


def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: set[str], helper: set[str]) -> str:
    """What is missing, with these capabilities, on a node with a kubelet and an adapter."""
    monkeypatch.setattr(privileges, "capabilities", lambda: frozenset(own))
    monkeypatch.setattr(privileges, "of_helper", lambda: frozenset(helper))
    (tmp_path / "infiniband").mkdir(exist_ok=True)
    (tmp_path / "infiniband" / "umad0").touch()
    kubelet = tmp_path / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(kubelet))  # bound and deaf: refused
        lines = [privilege for privilege, _ in missing(tmp_path / "kmsg", kubelet, tmp_path)]
    kubelet.unlink()
    return "; ".join(lines)


def test_the_helper_counts_as_the_agents_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is the same to read with its help; what neither has is named."""
    both = {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
    without = "CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE; user root"
    assert found(monkeypatch, tmp_path, set(), set()) == without
    monkeypatch.setattr(client, "ask", connected)
    assert found(monkeypatch, tmp_path, set(), both) == "CAP_SYS_ADMIN"
    assert found(monkeypatch, tmp_path, both, {"CAP_SYS_ADMIN"}) == ""


def test_a_helper_that_does_not_reach_the_kubelet_knows_no_pods(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That of the systemd unit is not root: what it may read does not let it connect."""
    both = {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
    assert found(monkeypatch, tmp_path, set(), both) == "CAP_SYS_ADMIN; user root"


def connected(kind: Kind) -> Answer:
    """A helper that reaches the kubelet."""
    assert kind == Kind.KUBELET
    return Answer(b"", os.open("/dev/null", os.O_RDONLY))


def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: str, *own: str) -> str:
    """What hides processes where /proc is mounted with these options, of a user in group 998."""
    monkeypatch.setattr(privileges, "capabilities", lambda: frozenset(own))
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nproc /proc proc rw,relatime{options} 0 0\n")
    found = list(hidden_processes(Path("/proc"), mounts, frozenset({998})))
    assert len(found) < 2
    return " ".join(f"{privilege}: {without}" for privilege, without in found)


@pytest.mark.parametrize(
    "options",
    [
        "",
        ",hidepid=off",
        ",hidepid=0",
        ",gid=998,hidepid=2",
        ",gid=998,hidepid=1",
        ",gid=998,hidepid=invisible",
        ",hidepid=7",
    ],
)
def test_nothing_is_said_where_processes_are_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: str
) -> None:
    """Without hidepid, as a member of its group, and of a mode that nobody knows."""
    assert seen(monkeypatch, tmp_path, options) == ""


@pytest.mark.parametrize(
    ("options", "privilege", "words"),
    [
        (",hidepid=2", "the group root", ("invisible", "with gid= of a group of this user")),
        (",hidepid=1", "the group root", ("noaccess", "with gid= of a group of this user")),
        (",hidepid=invisible", "the group root", ("invisible", "with gid= of a group")),
        (",hidepid=noaccess", "the group root", ("noaccess", "with gid= of a group")),
        (",gid=990,hidepid=2", "the group 990", ("invisible", "SupplementaryGroups=990")),
        (",gid=990,hidepid=invisible", "the group 990", ("invisible", "SupplementaryGroups=990")),
        (",gid=998,hidepid=ptraceable", "CAP_SYS_PTRACE in the agent", ("ptraceable", "invisible")),
        (",gid=998,hidepid=4", "CAP_SYS_PTRACE in the agent", ("ptraceable", "hidepid=invisible")),
    ],
)
def test_a_proc_that_hides_processes_is_reported_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    options: str,
    privilege: str,
    words: tuple[str, str],
) -> None:
    """Its group, or CAP_SYS_PTRACE in the agent itself: under ptraceable gid= has no effect."""
    line = seen(monkeypatch, tmp_path, options)
    assert line.startswith(privilege)
    mode, way_out = words
    assert f"/proc is mounted with hidepid={mode}; " in line
    assert way_out in line.partition("; ")[2]
    assert "NCCL" in line
    assert "\n" not in line
    assert seen(monkeypatch, tmp_path, options, "CAP_SYS_PTRACE") == ""


def test_the_mount_on_top_counts_and_a_proc_that_cannot_be_read_hides_nothing(
    tmp_path: Path,
) -> None:
    """Of the given folder and no other; an unreadable list, or one of another kind, is silence."""
    mounts = tmp_path / "mounts"
    assert hiding(Path("/proc"), mounts) is None
    hides = "proc {} proc rw,hidepid=invisible,gid=7 0 0\n"
    mounts.write_text(hides.format("/proc") + hides.format("/a\\040b/proc") + "x\n")
    assert hiding(Path("/proc"), mounts) == hiding(Path("/a b/proc"), mounts)
    assert hiding(Path("/proc"), mounts) == Hiding("invisible", 7)
    assert hiding(Path("/other"), mounts) is None
    with mounts.open("a") as file:
        file.write("tmpfs /proc tmpfs rw,hidepid=2 0 0\n")
    assert hiding(Path("/proc"), mounts) is None


def test_the_report_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With what is missing beside it."""
    mounts = tmp_path / "mounts"
    mounts.write_text("proc /proc proc rw,hidepid=ptraceable 0 0\n")
    monkeypatch.setattr(privileges, "capabilities", frozenset)
    lines = [line for line in report(Config(), mounts) if "hidepid=ptraceable" in line]
    assert [line.partition(":")[0] for line in lines] == [
        "without CAP_SYS_PTRACE in the agent itself"
    ]


@pytest.mark.root
def test_a_process_without_privilege_reports_what_it_lacks() -> None:
    """For real, as another user without capabilities and without a helper."""
    lines = run_as(64_002, REPORT, {}, Path("/nonexistent"))
    assert any("CAP_SYS_PTRACE" in line and "NCCL" in line for line in lines)
