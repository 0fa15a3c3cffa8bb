"""A real journald and journalctl, in a mount namespace of their own, on the
machine's real kernel log.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.kmsg import KernelLogSource
from collector.sources.kmsg.lines import Lines
from collector.sources.kmsg.records import KERNEL
from pipeline.catalog import agent
from pipeline.child import Child, run
from pipeline.clock import SystemClock
from pipeline.observation import Event
from tests.collector.sources.kmsg.logs import BOOT, Node, attributes_of, events
from tests.collector.sources.kmsg.real import follow, kernel_log, ours, write, xid
from tests.parts import need
from tests.wait import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.root]

JOURNALD = "/lib/systemd/systemd-journald"
NAMESPACE = (
    "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal /run/log/journal && while :; "
    f"do {JOURNALD}; done"
)


@pytest.fixture
def token() -> Iterator[str]:
    """A process name that no other test uses."""
    with kernel_log() as name:
        yield name


@pytest.fixture
def journald(token: str) -> Iterator[Child]:
    """A journald that is started again when it ends; the process is the shell that does so."""
    need("journalctl", "systemd")
    unshare = need("unshare", "util-linux")
    if run(
        [unshare, "-m", "mount", "-t", "tmpfs", "tmpfs", "/run"], timeout_s=PATIENCE_S
    ).returncode:
        pytest.skip("no right to mount here: journald needs a /run of its own")
    child = Child([unshare, "-m", "sh", "-c", NAMESPACE])
    yield child
    child.kill()
    child.wait(PATIENCE_S)


@pytest.fixture
def journalctl(journald: Child, tmp_path: Path) -> str:
    """Journalctl inside that namespace, and inside journald's root
    directory: we may be in a chroot.
    """
    script = tmp_path / "journalctl"
    script.write_text(
        f'#!/bin/sh\nexec {need("nsenter", "util-linux")} -t {journald.pid} -m -r journalctl "$@"\n'
    )
    script.chmod(0o755)
    until(
        lambda: run([str(script), "-k", "-n", "1", "-o", "cat"], timeout_s=PATIENCE_S).stdout,
        "journald to read the kernel log",
    )
    return str(script)


def source_of(node: Node, journalctl: str) -> KernelLogSource:
    """A source that has no device and finds the journal."""
    return KernelLogSource(
        "n1",
        SystemClock(),
        Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        node.inventory,
        node.state,
        node.metrics,
        path=Path("/nonexistent/kmsg"),
        real=True,
        user_lines=True,
        journalctl=journalctl,
        files=(),
        pstore=(),
    )


OUTPUTS = [
    "short",
    "short-precise",
    "short-iso",
    "short-iso-precise",
    "short-full",
    "short-monotonic",
    "short-delta",
    "short-unix",
    "with-unit",
    "json",
    "json-pretty",
    "json-sse",
    "json-seq",
    "export",
    "verbose",
    "cat",
]


def span(journalctl: str, token: str) -> list[str]:
    """Options for the newest 300 records once journald has imported the kernel's log: by time, as
    others write while one form after the other is printed, and `-n` would count theirs.
    """
    write(f"up to here: {token}")
    newest = [journalctl, "-k", "--no-pager", "-n", "300", "-o", "json"]

    def lines() -> list[bytes]:
        printed = run(newest, timeout_s=PATIENCE_S).stdout.splitlines()
        last = [number for number, line in enumerate(printed) if token.encode() in line]
        return printed[: last[0] + 1] if last else []

    found = until(lines, "journald to import the line")
    first, last = (int(json.loads(found[at])["__REALTIME_TIMESTAMP"]) for at in (0, -1))
    return [
        f"--{name}=@{usec // 1_000_000}.{usec % 1_000_000:06}"
        for name, usec in (("since", first), ("until", last))
    ]


def test_every_output_of_the_real_journalctl(journalctl: str, token: str) -> None:
    """The machine's own kernel lines, saved in each form, are the same records."""
    same = span(journalctl, token)
    texts: dict[str, list[str]] = {}
    # A line of `cat` that begins with a blank may go on with the one before (a call trace), or not.
    lines_of: dict[str, set[str]] = {}
    for output in OUTPUTS:
        printed = run(
            [journalctl, "-k", "--no-pager", *same, "-o", output],
            timeout_s=PATIENCE_S,
        )
        lines = Lines()
        records = [
            record
            for line in printed.stdout.split(b"\n")
            for record in lines.feed(line, SystemClock().time_ns())
        ] + lines.finish()
        assert lines.unread == 0, f"{output}: {lines.example}"
        kernel = [record for record in records if record.facility == KERNEL]
        texts[output] = [" ".join(record.text.split()) for record in kernel]
        lines_of[output] = {" ".join(t.split()) for r in kernel for t in r.text.split("\n")}
        assert output == "cat" or all(r.usec >= 0 or r.time_ns > 0 for r in kernel), output
    assert len(texts["json"]) > 50
    # Where the line does not tell who wrote it, those of programs are there too.
    loose = {"cat", "short-monotonic", "short-delta"}
    assert [one for one in OUTPUTS if one not in loose and texts[one] != texts["json"]] == []
    assert [one for one in loose if not lines_of["json"] <= lines_of[one]] == []


def test_following_the_real_journal_over_a_restart(node: Node, journalctl: str, token: str) -> None:
    """The journal stands in for the device; a restart of the agent goes on at the cursor."""
    write(xid(79, token))
    source = node.track(source_of(node, journalctl))
    found = follow(source, token, 1)
    assert attributes_of(found, "xid", "code", "process", "origin") == [(79, token, "journal")]
    assert found[0].attributes["stream"] != BOOT
    assert node.metrics.value(agent.KERNEL_LOG_MODE, "journal") == 1
    source.close()
    write(xid(48, token), xid(63, token))
    again = node.track(source_of(node, journalctl))
    assert attributes_of(follow(again, token, 2), "xid", "code") == [(48,), (63,)]


def test_restarted_journald_imports_everything_again(
    node: Node, journald: Child, journalctl: str, token: str
) -> None:
    """A journald that lost its place reads the kernel's ring from its
    beginning: no line is told twice.
    """
    write(xid(79, token))
    source = node.track(source_of(node, journalctl))
    follow(source, token, 1)
    forget = ["rm", "/run/systemd/journal/kernel-seqnum"]
    assert (
        run(
            [need("nsenter", "util-linux"), "-t", str(journald.pid), "-m", "-r", *forget],
            timeout_s=PATIENCE_S,
        ).returncode
        == 0
    )
    children = Path(f"/proc/{journald.pid}/task/{journald.pid}/children")
    os.kill(int(children.read_text().split()[0]), signal.SIGKILL)

    def copies() -> int:
        return run(
            [journalctl, "-k", "-o", "cat", "--no-pager"], timeout_s=PATIENCE_S, max_bytes=1 << 24
        ).stdout.count(token.encode())

    until(lambda: copies() == 2, "the second import")
    write(xid(31, token))
    assert attributes_of(follow(source, token, 1), "xid", "code") == [(31,)]


def test_cursor_of_another_journal(node: Node, journalctl: str, token: str) -> None:
    """A journal that was thrown away knows the cursor no more: reading goes
    on by the kernel's time.
    """
    write(xid(79, token))
    source = node.track(source_of(node, journalctl))
    follow(source, token, 1)
    source.close()
    place = node.state.load("kernel_log")
    place["places"]["journal"]["cursor"] = "s=00000000000000000000000000000000;i=1;b=1;m=1;t=1;x=1"
    node.state.save("kernel_log", place)
    write(xid(48, token))
    again = node.track(source_of(node, journalctl))
    found: list[Event] = []

    def told_one() -> bool:
        try:
            found.extend(ours(events(again), token))
        except RuntimeError:
            return False  # the first try, with the cursor
        return bool(found)

    until(told_one, "the journal without its cursor")
    assert attributes_of(found, "xid", "code") == [(48,)]
