"""Every rule of the settings triage: found over a fake /sys and /proc with a real environment, with
the line to change, and silent where the setting is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from collector.facts.node import node_facts
from collector.nccl_settings.model import Problem
from collector.nccl_settings.ranks import MAX_BYTES, file_settings, ranks_by_job
from collector.nccl_settings.table import JOB_RULES, RULES, problems
from collector.sources.nccl.discovery.scan import Scanner
from tests.collector.facts.tree import Tree
from tests.collector.sources.nccl.discovery.proctree import add_process
from tests.sources import ROOT

TORCHRUN = "RANK={rank} WORLD_SIZE=16 LOCAL_RANK={rank} MASTER_ADDR=n1 MASTER_PORT=29500"
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max stack size            {stack:<20} unlimited            bytes
Max open files            {files:<20} 1048576              files
Max locked memory         {memory:<20} unlimited            bytes
"""
MOUNTS = """\
20 1 8:1 / / rw - ext4 /dev/sda1 rw
30 20 0:26 / /dev/shm rw,nosuid - tmpfs shm rw,size={size}
"""


class Given(NamedTuple):
    """A case: what was set, and what is done to the node before."""

    rule: str
    environ: str
    change: str
    level: str
    prepare: Callable[[Tree], object] = lambda tree: tree
    roce: bool = False
    version: str = "2.27.3"
    stack: str = "8388608"
    files: str = "1048576"
    memory: str = "unlimited"
    shm: str = "16g"
    cpus: str = "0-15"
    capabilities: str = "0000000000000000"


def judged(root: Path, case: Given, *environs: str) -> list[Problem]:
    """The problems of a job on the node, one process per environment, found as live."""
    tree = Tree(root, ethernet=case.roce)
    case.prepare(tree)
    library = f"/venv/nccl/lib/libnccl.so.{case.version}"
    for rank, environ in enumerate(environs or (case.environ,)):
        words = f"{TORCHRUN.format(rank=rank)} {environ}"
        process = add_process(tree.proc, 800 + rank, gpus=(rank,), library=library, environ=words)
        limits = LIMITS.format(stack=case.stack, files=case.files, memory=case.memory)
        (process / "limits").write_text(limits)
        (process / "mountinfo").write_text(MOUNTS.format(size=case.shm))
        with (process / "status").open("a") as file:
            file.write(f"CapEff:\t{case.capabilities}\nCpus_allowed_list:\t{case.cpus}\n")
    found = Scanner(tree.proc).scan(0).processes
    node = node_facts("n1", tree.proc, tree.sysfs)
    jobs = ranks_by_job(tree.proc, node, ((one, case.version) for one in found))
    (ranks,) = jobs.values()
    return problems(ranks)


def no_gpudirect(tree: Tree) -> None:
    """The closed kernel module, and no peer memory."""
    tree.write(tree.proc / "driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel 570.1")


def acs(tree: Tree) -> None:
    """A bridge that sends peer traffic to the root complex."""
    config = bytearray(4096)
    config[0x100:0x104] = (0x000D | 1 << 16).to_bytes(4, "little")
    config[0x106] = 0x1D
    tree.bridge("0000:00:01.0", bytes(config))


def imex_down(tree: Tree) -> None:
    """IMEX channels, and a service without a process."""
    tree.write(tree.proc / "devices", "Character devices:\n 234 nvidia-caps-imex-channels\n")
    tree.write(tree.sysfs / "fs/cgroup/system.slice/nvidia-imex.service/cgroup.procs", "")


def down(tree: Tree) -> None:
    """One port without a link."""
    tree.write(tree.ports("mlx5_3") / "state", "1: DOWN")


def slow_port(tree: Tree) -> None:
    """A storage adapter at a quarter of the rate."""
    at = tree.switch(0) / "0000:06:00.0"
    tree.port("mlx5_bond_0", at, 0, ethernet=True, rate="100 Gb/sec (4X EDR)")


ALL = "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3"
CASES = (
    Given("ib_disabled", "NCCL_IB_DISABLE=1", "unset NCCL_IB_DISABLE", "slow"),
    Given("ib_disabled", "NCCL_NET=Socket", "unset NCCL_NET", "slow"),
    Given("hca_absent", "NCCL_IB_HCA=mlx5_9", "export NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", "wrong"),
    Given("hca_absent", "NCCL_IB_HCA==mlx5_0:2", "export NCCL_IB_HCA==mlx5_0:1", "wrong"),
    Given("hca_absent", "NCCL_IB_HCA=^mlx5", "export NCCL_IB_HCA==mlx5_0:1", "wrong"),
    Given("hca_down", ALL, "repair the port", "slow", down),
    Given(
        "hca_prefix",
        "NCCL_IB_HCA=mlx5_1",
        "export NCCL_IB_HCA==mlx5_1",
        "check",
        lambda tree: tree.port("mlx5_10", tree.switch(1) / "0000:16:00.0", 0),
    ),
    Given("hca_left_out", "NCCL_IB_HCA==mlx5_1,mlx5_2,mlx5_3", "NCCL_IB_HCA==mlx5_0:1", "slow"),
    Given("hca_left_out", "NCCL_IB_HCA==mlx5_0,mlx5_1", "NCCL_IB_HCA==mlx5_0:1,mlx5_1", "check"),
    Given("hca_mixed_rates", "NCCL_IB_HCA=mlx5", "NCCL_IB_HCA==mlx5_0:1", "slow", slow_port),
    Given("socket_interface", "NCCL_SOCKET_IFNAME=ens", "NCCL_SOCKET_IFNAME==eth0", "wrong"),
    Given("socket_interface", "NCCL_SOCKET_IFNAME==docker0", "IFNAME==eth0", "wrong"),
    Given(
        "socket_interface",
        "NCCL_SOCKET_IFNAME=eth0",
        "NCCL_SOCKET_IFNAME==",
        "wrong",
        lambda tree: tree.interface("eth0", "down"),
    ),
    Given("numa_affinity", "", "--gpu-bind=closest", "slow", cpus="8-15"),
    Given("gid_index", "NCCL_IB_GID_INDEX=1", "unset NCCL_IB_GID_INDEX", "wrong", roce=True),
    Given("gid_index", "NCCL_IB_GID_INDEX=2", "unset NCCL_IB_GID_INDEX", "wrong", roce=True),
    Given(
        "gid_index",
        "NCCL_IB_GID_INDEX=7",
        "export NCCL_IB_GID_INDEX=3",
        "wrong",
        roce=True,
        version="2.20.5",
    ),
    Given("traffic_class", "", "export NCCL_IB_TC=106", "check", roce=True),
    Given("ib_timeout", "NCCL_IB_TIMEOUT=0", "unset NCCL_IB_TIMEOUT", "wrong"),
    Given("ib_timeout", "NCCL_IB_TIMEOUT=17", "unset NCCL_IB_TIMEOUT", "check"),
    Given("ib_timeout", "NCCL_IB_RETRY_CNT=1", "unset NCCL_IB_TIMEOUT", "check"),
    Given("p2p_disabled", "NCCL_P2P_DISABLE=1", "unset NCCL_P2P_DISABLE", "slow", Tree.nvswitch),
    Given("p2p_disabled", "NCCL_P2P_LEVEL=LOC", "unset NCCL_P2P_LEVEL", "check"),
    Given("shm_disabled", "NCCL_SHM_DISABLE=1", "unset NCCL_SHM_DISABLE", "check"),
    Given("gpudirect", "NCCL_NET_GDR_LEVEL=LOC", "unset NCCL_NET_GDR_LEVEL", "slow"),
    Given("gpudirect", "NCCL_NET_GDR_LEVEL=PXB " + ALL.replace("mlx5_0,", ""), "GDR", "slow"),
    Given("gpudirect", "NCCL_DMABUF_ENABLE=0", "modprobe nvidia_peermem", "slow"),
    Given("gpudirect", "", "modprobe nvidia_peermem", "slow", no_gpudirect),
    Given("nvls_disabled", "NCCL_NVLS_ENABLE=0", "unset NCCL_NVLS_ENABLE", "slow", Tree.nvswitch),
    Given("mnnvl", "NCCL_MNNVL_ENABLE=1", "start nvidia-imex", "wrong", imex_down),
    Given("mnnvl", "NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=0", "unset NCCL_CUMEM", "wrong"),
    Given("acs", "", "ECAP_ACS", "slow", acs),
    Given("memlock", "", "ulimit -l unlimited", "wrong", memory="67108864"),
    Given("shm_size", "", "--shm-size", "wrong", shm="65536k"),
    Given("open_files", "", "ulimit -n 65536", "check", files="1024"),
    Given("stack_size", "", "ulimit -s 8192", "wrong", stack="unlimited"),
    Given("left_over", "NCCL_ALGO=Ring", "unset NCCL_ALGO", "check"),
    Given("left_over", "NCCL_DEBUG=INFO", "export NCCL_DEBUG=WARN", "check"),
    Given("left_over", "CUDA_LAUNCH_BLOCKING=1", "unset CUDA_LAUNCH_BLOCKING", "slow"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.environ[:24]}")
def test_a_wrong_setting_is_found_with_the_line_to_change(tmp_path: Path, case: Given) -> None:
    """Its level, its reason and its reference are given."""
    found = [one for one in judged(tmp_path, case) if one.rule == case.rule]
    assert found, [one.rule for one in judged(tmp_path / "again", case)]
    assert case.change in found[0].change
    assert (found[0].level, found[0].ranks) == (case.level, ("rank 0",))
    assert found[0].why
    assert found[0].reference


def test_every_rule_has_a_case() -> None:
    """A rule without a test does not exist."""
    of_jobs = {"mixed_versions", "unlike_settings"}
    assert {case.rule for case in CASES} | of_jobs == {r.name for r in (*RULES, *JOB_RULES)}


RIGHT = Given("", "", "", "")
HEALTHY = (
    RIGHT,
    RIGHT._replace(environ=ALL),
    RIGHT._replace(environ="NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1 NCCL_DEBUG=WARN"),
    RIGHT._replace(environ="NCCL_IB_HCA=^mlx5_bond NCCL_SOCKET_IFNAME=^docker,lo"),
    RIGHT._replace(environ="NCCL_SOCKET_IFNAME==eth0 NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7"),
    RIGHT._replace(environ="NCCL_IB_DISABLE=0 NCCL_P2P_DISABLE=0 NCCL_NET_GDR_LEVEL=SYS"),
    RIGHT._replace(environ="NCCL_IB_GID_INDEX=3 NCCL_IB_TC=106", roce=True),
    RIGHT._replace(environ="NCCL_NET=AWS_Libfabric NCCL_IB_HCA=efa", roce=True),
    RIGHT._replace(stack="unlimited", version="2.28.3"),
    RIGHT._replace(
        environ=ALL,
        prepare=lambda tree: tree.port("mlx5_storage", tree.switch(0) / "0000:06:00.0", 0),
    ),
    RIGHT._replace(prepare=Tree.nvswitch, cpus="0-3"),
)


@pytest.mark.parametrize("case", HEALTHY, ids=range(len(HEALTHY)))
def test_a_right_setting_is_no_problem(tmp_path: Path, case: Given) -> None:
    """Silence on sites that know what they do."""
    assert judged(tmp_path, case) == []


def test_a_job_on_one_node_needs_no_network(tmp_path: Path) -> None:
    """What it set for RDMA, and what the node lacks for that, changes nothing for it."""
    environ = "WORLD_SIZE=1 NCCL_IB_DISABLE=1 NCCL_IB_HCA=mlx5_9 NCCL_IB_TIMEOUT=0"
    case = RIGHT._replace(environ=environ, memory="65536", prepare=no_gpudirect)
    assert judged(tmp_path, case) == []
    others = {one.rule for one in judged(tmp_path / "b", case._replace(environ=environ[13:]))}
    assert others == {"ib_disabled", "hca_absent"}


def test_ranks_that_set_something_else_are_named(tmp_path: Path) -> None:
    """The odd one out with its value; what rightly differs is passed over."""
    given = ("NCCL_IB_HCA=mlx5", "NCCL_IB_HCA=mlx5", "NCCL_IB_HCA==mlx5_0 NCCL_DEBUG=WARN")
    found = [one for one in judged(tmp_path, RIGHT, *given) if one.rule == "unlike_settings"]
    assert len(found) == 1
    assert "=mlx5_0: rank 2" in found[0].why
    assert "mlx5: rank 0, rank 1" in found[0].why


def test_one_problem_of_all_ranks_is_one_line(tmp_path: Path) -> None:
    """Its ranks are listed; the gravest comes first."""
    given = ["NCCL_IB_TIMEOUT=0 NCCL_ALGO=Ring"] * 4
    found = judged(tmp_path, RIGHT, *given)
    assert [(one.rule, len(one.ranks)) for one in found] == [("ib_timeout", 4), ("left_over", 4)]


def test_values_that_may_be_secret_are_not_shown(tmp_path: Path) -> None:
    """Paths and plug-ins of a user are named without their value; other names are not read."""
    environ = "NCCL_TOPO_FILE=/home/ada/secret NCCL_API_TOKEN=hunter2 AWS_SECRET_ACCESS_KEY=x1y2"
    printed = repr(judged(tmp_path, RIGHT._replace(environ=environ)))
    assert "NCCL_TOPO_FILE" in printed
    assert not any(word in printed for word in ("ada", "hunter2", "x1y2", "TOKEN"))


def test_settings_of_a_pod_are_judged_by_what_the_pod_sees(tmp_path: Path) -> None:
    """Its own interfaces, from its network namespace; its GID table cannot be read from here."""
    environ = "NCCL_SOCKET_IFNAME=net1 NCCL_IB_GID_INDEX=5 NCCL_IB_TC=106"
    case = RIGHT._replace(environ=environ, roce=True)

    def pod(tree: Tree) -> None:
        for pid, name in ((1, "host"), (800, "pod")):
            tree.write(tree.proc / str(pid) / "ns/net", name)
        rows = "Inter-|\n face |\n  lo: 0\nnet1: 0\n"
        tree.write(tree.proc / "800/net/dev", rows)

    assert judged(tmp_path, case._replace(prepare=pod)) == []


def test_a_file_of_the_image_counts_below_the_environment(tmp_path: Path) -> None:
    """/etc/nccl.conf of the process's own root."""

    def image(tree: Tree) -> None:
        text = "# site\nNCCL_IB_DISABLE=1\nNCCL_ALGO = Ring\nSECRET=1\n"
        tree.write(tree.proc / "800/root/etc/nccl.conf", text)

    case = RIGHT._replace(environ="NCCL_IB_DISABLE=0", prepare=image)
    assert [one.rule for one in judged(tmp_path, case)] == ["left_over"]


def test_an_empty_setting_of_a_file_is_not_its_next_line(tmp_path: Path) -> None:
    """And a file of blank lines takes no time: in a pod it is the tenant's, and of all ranks."""
    file = tmp_path / "800/root/etc/nccl.conf"
    file.parent.mkdir(parents=True)
    file.write_text("NCCL_DEBUG =\n\tNCCL_ALGO = Ring \r\nNCCL_PROTO=Simple")
    expected = {"NCCL_DEBUG": "", "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
    assert file_settings(tmp_path / "800") == expected
    file.write_text("\n" * MAX_BYTES)
    began_s = time.process_time()
    assert file_settings(tmp_path / "800") == {}
    assert time.process_time() - began_s < 2


def test_every_rule_is_in_the_documentation() -> None:
    """A reader of a finding looks its rule up."""
    page = (ROOT / "docs/nccl.md").read_text(encoding="utf-8")
    assert [rule.name for rule in (*RULES, *JOB_RULES) if f"`{rule.name}`" not in page] == []


def test_a_pod_that_may_lock_memory_has_no_limit_of_it(tmp_path: Path) -> None:
    """CAP_IPC_LOCK, as the pods of RDMA device plugins have it, whatever ulimit -l says; in a user
    namespace of its own everybody has that, and it counts for nothing.
    """
    case = Given("memlock", "", "", "", memory="65536", capabilities="00000000a80465fb")
    assert [one.rule for one in judged(tmp_path, case)] == []
    mapped = case._replace(prepare=lambda tree: tree.write(tree.proc / "800/uid_map", "0 100000 1"))
    assert [one.rule for one in judged(tmp_path / "mapped", mapped)] == ["memlock"]
