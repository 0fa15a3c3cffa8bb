"""The helper inspects processes for an agent without capabilities, within narrow limits."""

from __future__ import annotations

import os
import socket
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.helper.process import Process
from collector.node.helper.protocol import MAX_DATA
from tests.collector.sources.nccl.inspector.lines import line
from tests.tenants.node import ALICE, BOB, MALLORY, MEMORY_MAJOR, UUID, Node, Tenant
from tests.tenants.unprivileged import HELPER, RunningHelper, flooding, run_as

pytestmark = pytest.mark.root

SECRETS: dict[str, Any] = {"AWS_SECRET_ACCESS_KEY": "x", "HF_TOKEN": "x"}
SCAN = f"""
from collector.sources.nccl.discovery.devices import opened_minors
from collector.sources.nccl.discovery.scan import Scanner
scan = Scanner(Path(given["proc"]), lambda p: opened_minors(p, {MEMORY_MAJOR})).scan(1000.0)
found = [[p.pid, p.user, p.job, p.rank, list(p.uuids), p.library.path, p.network > 0,
          dict(p.environment)] for p in scan.processes]
print(json.dumps([found, scan.hidden]))
"""
OPEN = """
import os
from collector.sources import untrusted
def attempt(path):
    root = Path("/proc") / str(given["pid"]) / "root"
    try:
        fd = getattr(untrusted, given.get("by", "open_regular"))(path, root=root, **given["how"])
    except OSError as error:
        return type(error).__name__
    if given.get("by") == "open_fifo":
        return os.write(fd, b"1")
    return os.read(fd, 99).decode(errors="replace")
print(json.dumps([attempt(path) for path in given["paths"]]))
"""
ASK = """
from collector.node.helper.client import ask
from collector.node.helper.protocol import Kind
def attempt(kind, pid, text):
    try:
        return ask(Kind(kind), pid, text).data.decode(errors="replace")
    except OSError as error:
        return type(error).__name__
print(json.dumps([attempt(*one) for one in given["questions"]]))
"""


@pytest.fixture
def helper(node: Node) -> Iterator[RunningHelper]:
    """A helper with the two capabilities of the shipped manifests."""
    made = RunningHelper(node.folder / "helper")
    yield made
    made.close()


def opened(
    helper: RunningHelper, tenant: Tenant, paths: list[str], by: str = "open_regular", **how: Any
) -> list[Any]:
    """What the agent gets of these files of a tenant: content, or the error's name."""
    return list(helper.asked(OPEN, {"pid": tenant.pid, "paths": paths, "by": by, "how": how}))


def test_jobs_are_found_without_a_capability(node: Node, helper: RunningHelper) -> None:
    """Whole: user, job, rank, GPU, NCCL and namespace; without the helper all are hidden."""
    tenant = node.start(ALICE, SLURM_JOB_ID="71", RANK="3", **SECRETS)
    given = {"proc": str(node.proc)}
    environment = {"SLURM_JOB_ID": "71", "RANK": "3"}
    row = [tenant.pid, ALICE, "71", 3, [UUID], str(node.library), True, environment]
    assert helper.asked(SCAN, given) == [[row], 0]
    assert run_as(ALICE + 9, SCAN, given, Path("/nonexistent")) == [[], 1]


def test_only_the_agents_user_is_answered(node: Node, helper: RunningHelper) -> None:
    """Every other local user may connect, and gets nothing."""
    tenant = node.start(ALICE, SLURM_JOB_ID="71")
    questions = {"questions": [[2, tenant.pid, ""], [0, 0, ""]]}
    assert helper.asked(ASK, questions, MALLORY) == ["PermissionError", "PermissionError"]
    assert helper.asked(ASK, questions)[0] == "SLURM_JOB_ID=71"


def test_connections_of_other_users_take_no_place_of_the_agents(
    node: Node, helper: RunningHelper
) -> None:
    """However many there are: else a process whose question has no place would seem hidden."""
    tenant = node.start(ALICE, SLURM_JOB_ID="71")
    with flooding(MALLORY, helper.socket), flooding(BOB, helper.socket):
        answers = helper.asked(ASK, {"questions": [[2, tenant.pid, ""]] * 100})
    assert answers == ["SLURM_JOB_ID=71"] * 100


def test_no_file_of_another_user_is_opened_as_a_library(node: Node, helper: RunningHelper) -> None:
    """One that only its owner may read, in the place of the one that is mapped."""
    tenant = node.start(ALICE, SLURM_JOB_ID="71")
    assert opened(helper, tenant, [str(node.library)])[0].startswith("\0")
    node.library.chmod(0o600)
    assert opened(helper, tenant, [str(node.library)]) == ["PermissionError"]


def test_no_secret_and_no_address_leaves_the_helper(node: Node, helper: RunningHelper) -> None:
    """Only variables that the agent uses; of the mappings only device files and NCCL."""
    tenant = node.start(ALICE, SLURM_JOB_ID="71", **SECRETS)
    environ, maps = helper.asked(ASK, {"questions": [[2, tenant.pid, ""], [1, tenant.pid, ""]]})
    assert environ == "SLURM_JOB_ID=71"
    assert len(maps.splitlines()) == 2
    assert all("nvidia" in row or "libnccl" in row for row in maps.splitlines())


def test_mappings_without_end_cost_the_helper_little(tmp_path: Path) -> None:
    """Files with names of 4,000 blanks, or 60,000 that read as NCCL's, all in its one process."""
    begin = b"7f0000000000-7f0000001000 r--p 00000000 08:01 "
    device = begin + b"7 /dev/nvidia0"
    blanks = (begin + b"8 /" + b" " * 4000 + b"x\n") * 100
    libraries = b"".join(begin + b"%d /x/%0200d/libnccl.so.2\n" % (n, n) for n in range(60_000))
    (tmp_path / "maps").write_bytes(device + b"\n" + blanks + libraries)
    fd = os.open(tmp_path, os.O_PATH)
    began_s = time.process_time()
    tracemalloc.start()
    try:
        answer = Process(fd).maps()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        os.close(fd)
    assert answer.startswith(device + b"\n")
    assert len(answer) <= MAX_DATA
    assert peak < 1 << 20
    assert time.process_time() - began_s < 5


def test_a_file_that_is_mapped_a_thousand_times_hides_none_behind_it(tmp_path: Path) -> None:
    """One row of each file is answered: a reply has an end, and the library comes last."""
    row = b"7f0000000000-7f0000001000 r--p 00000000 08:01 "
    library = row + b"9 /usr/lib/libnccl.so.2"
    (tmp_path / "maps").write_bytes((row + b"7 /dev/nvidia-uvm\n") * 2000 + library + b"\n")
    fd = os.open(tmp_path, os.O_PATH)
    answer = Process(fd).maps()
    os.close(fd)
    assert answer == row + b"7 /dev/nvidia-uvm\n" + library


def test_a_file_is_opened_that_the_process_names_and_no_other(
    node: Node, helper: RunningHelper
) -> None:
    """Also one of mode 0600; not another of the same user, a link, or another user's."""
    folder = node.folder / "out"
    prefix = folder / "dump_"
    tenant = node.start(ALICE, SLURM_JOB_ID="71", RANK="0", TORCH_FR_DUMP_TEMP_FILE=str(prefix))
    dump = node.file("out/dump_0", b"the dump", ALICE)
    key = node.file("out/id_rsa", b"a key", ALICE)
    for path in (dump, key):
        path.chmod(0o600)
    names = [str(dump), str(key), "/etc/shadow", f"{prefix}1", f"{folder}/../out/dump_0"]
    denied = ["PermissionError"] * 3 + ["UntrustedFileError"]
    assert opened(helper, tenant, names, owner=ALICE) == ["the dump", *denied]
    dump.unlink()
    dump.symlink_to(key)
    assert opened(helper, tenant, [str(dump)], owner=ALICE) == ["PermissionError"]
    dump.unlink()
    node.file("out/dump_0", b"bob's", BOB).chmod(0o600)
    assert opened(helper, tenant, [str(dump)], owner=ALICE) == ["PermissionError"]


def test_a_dump_is_named_relative_to_the_folder_of_the_process(
    node: Node, helper: RunningHelper
) -> None:
    """Which the helper tells of processes with a GPU; a file of that name elsewhere is none."""
    where: dict[str, Any] = {"runs_in": node.folder, "TORCH_FR_DUMP_TEMP_FILE": "out/dump_"}
    tenant = node.start(ALICE, SLURM_JOB_ID="71", RANK="0", **where)
    daemon = node.start(ALICE, maps=(), RANK="0", **where)
    dump = node.file("out/dump_0", b"the dump", ALICE)
    dump.chmod(0o600)
    asked = [[12, tenant.pid, ""], [12, daemon.pid, ""]]
    assert helper.asked(ASK, {"questions": asked}) == [str(node.folder), "PermissionError"]
    found = opened(helper, tenant, [str(dump), "out/dump_0", "/out/dump_0"], owner=ALICE)
    assert found[0] == "the dump"
    assert "the dump" not in found[1:]


def test_a_process_without_a_gpu_has_no_files_opened(node: Node, helper: RunningHelper) -> None:
    """Whatever its environment says: daemons of the node are none of the agent's business."""
    prefix = node.folder / "out" / "dump_"
    daemon = node.start(ALICE, maps=(), RANK="0", TORCH_FR_DUMP_TEMP_FILE=str(prefix))
    node.file("out/dump_0", b"private", ALICE).chmod(0o600)
    assert opened(helper, daemon, [f"{prefix}0"], owner=ALICE) == ["PermissionError"]


def test_inspector_logs_of_a_private_folder_are_found_and_read(
    node: Node, helper: RunningHelper
) -> None:
    """By the folder that the process names; other names in it are not opened."""
    folder = node.folder / "inspector"
    switch: dict[str, Any] = {"NCCL_INSPECTOR_ENABLE": "1", "NCCL_INSPECTOR_DUMP_DIR": str(folder)}
    tenant = node.start(ALICE, SLURM_JOB_ID="71", RANK="0", **switch)
    log = node.file(f"inspector/n1-pid{tenant.pid}.log", line(2) + b"\n", ALICE)
    other = node.file("inspector/other.log", b"x", ALICE)
    for path, mode in ((log, 0o600), (other, 0o600), (folder, 0o700)):
        os.chown(path, ALICE, ALICE)
        path.chmod(mode)
    folder.chmod(0o755)  # to list; a private folder's names are not given away
    assert opened(helper, tenant, [str(log)], owner=ALICE)[0].startswith('{"header"')
    assert opened(helper, tenant, [str(other)], owner=ALICE) == ["PermissionError"]
    (names,) = helper.asked(ASK, {"questions": [[6, tenant.pid, ""]]})
    assert names == str(folder)


def test_a_dump_is_asked_for_through_the_fifo_of_the_rank_alone(
    node: Node, helper: RunningHelper
) -> None:
    """Written to if everybody may; no other FIFO of the user is."""
    prefix = node.folder / "out" / "pipe_"
    node.file("out/keep", b"")
    tenant = node.start(ALICE, RANK="0", TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(prefix))
    readers = []
    for name in ("pipe_0.pipe", "other.pipe"):
        path = node.folder / "out" / name
        os.mkfifo(path)
        path.chmod(0o622)
        os.chown(path, ALICE, ALICE)
        readers.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    paths = [f"{prefix}0.pipe", str(node.folder / "out" / "other.pipe")]
    found = opened(helper, tenant, paths, by="open_fifo", owner=ALICE)
    for reader in readers:
        os.close(reader)
    assert found == [1, "PermissionError"]


def test_the_helper_connects_to_a_port_of_the_process_itself_only(
    node: Node, helper: RunningHelper
) -> None:
    """And into no other network namespace, for which it lacks the capability."""
    tenant = node.start_ras(ALICE, "71", 28_071)
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        questions = [[10, tenant.pid, str(foreign.getsockname()[1])], [10, tenant.pid, "28071"]]
        refused = helper.asked(ASK, {"questions": questions})
    assert refused == ["ConnectionRefusedError", "PermissionError"]


def test_a_helper_that_may_enters_the_namespace_of_the_job(node: Node) -> None:
    """With CAP_SYS_ADMIN as the opt-in of the manifests has it: RAS of a pod answers."""
    helper = RunningHelper(node.folder / "wide", "sys_ptrace", "dac_read_search", "sys_admin")
    try:
        tenant = node.start_ras(BOB, "72", 28_072, namespace=True)
        node.answer("72", b'{"x": 1}')
        code = """
from collector.sources.nccl.ras.address import Address
from collector.sources.nccl.ras.client import ask
namespace = f"/proc/{given['pid']}/ns/net"
print(json.dumps(ask(Address("127.0.0.1", 28072, namespace)).decode()))
"""
        assert helper.asked(code, {"pid": tenant.pid}) == '{"x": 1}'
    finally:
        helper.close()


def test_hostile_questions_end_no_helper(node: Node, helper: RunningHelper) -> None:
    """Unknown kinds, kernel threads, dead processes, paths with nulls, texts that are no number."""
    tenant = node.start(ALICE, SLURM_JOB_ID="71")
    code = """
import random, socket
from collector.node.helper.protocol import REQUEST
chance = random.Random(7)
for _ in range(300):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(sys.argv[2])
        kind, pid = chance.randrange(16), chance.choice([0, 1, 2, given["pid"], 4194303])
        text = bytes(chance.randrange(256) for _ in range(chance.randrange(64)))
        connection.send((REQUEST.pack(kind, pid) + text)[chance.randrange(2) :])
        connection.settimeout(10)
        assert len(connection.recv(70000)) >= 2
print(json.dumps("answered"))
"""
    assert helper.asked(code, {"pid": tenant.pid}) == "answered"
    assert helper.asked(ASK, {"questions": [[2, tenant.pid, ""]]}) == ["SLURM_JOB_ID=71"]


def test_the_helper_holds_two_capabilities(helper: RunningHelper) -> None:
    """By the kernel's word and its own; and it is another user's than the agent."""
    status = Path(f"/proc/{helper.pid}/status").read_text(encoding="ascii")
    held = int(status.partition("CapEff:")[2].split()[0], 16)
    assert held == 1 << 19 | 1 << 2  # CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH of capability.h
    assert f"Uid:\t{HELPER}\t" in status
    assert helper.asked(ASK, {"questions": [[0, 0, ""]]}) == ["CAP_DAC_READ_SEARCH CAP_SYS_PTRACE"]
