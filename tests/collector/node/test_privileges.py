"""What an agent does without is named by privilege."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from collector.node import privileges
from collector.node.privileges import capabilities, missing
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
    assert found(monkeypatch, tmp_path, set(), both) == "CAP_SYS_ADMIN"
    assert found(monkeypatch, tmp_path, both, {"CAP_SYS_ADMIN"}) == ""


@pytest.mark.root
def test_a_process_without_privilege_reports_what_it_lacks() -> None:
    """For real, as another user without capabilities and without a helper."""
    lines = run_as(64_002, REPORT, {}, Path("/nonexistent"))
    assert any("CAP_SYS_PTRACE" in line and "NCCL" in line for line in lines)
