"""The agent as a user runs it: start, serve, reload, trouble, stop."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from pipeline.observation import Observation
from pipeline.replay import replay
from simulator.nvml_state import HANG, NvmlState
from simulator.rendering import render_once
from tests.agents import AgentProcess
from tests.stub.library import compile_stub, environment
from tests.wait import PATIENCE_S, until

SIMULATED = ("--simulate", "hgx-h100")


@pytest.mark.slow
def test_a_simulated_node_is_served_through_the_real_collectors(tmp_path: Path) -> None:
    """Eight GPUs and eight ports on one page, in our names and dcgm-exporter's, and every output
    says that it is simulated.
    """
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        assert agent.values("tocsin_simulated") == {"": 1}
        assert agent.values("tocsin_gpu_visible") == {"": 8}
        assert len(agent.values("tocsin_ib_port_receive_bytes_total")) == 8
        assert len(agent.values("DCGM_FI_DEV_POWER_USAGE")) == 8
        assert (
            agent.values("tocsin_exposition_series")[""] <= 1500
        )  # what the default profile promises
        assert "This node is simulated" in agent.get("/")[1]
        assert '"simulated":"hgx-h100"' in agent.get("/api/v1/status")[1]
        assert "no real hardware is read" in agent.log


@pytest.mark.slow
def test_sigterm_ends_it_with_0_and_everything_read_can_be_replayed(tmp_path: Path) -> None:
    """What was on the page is in the store, sealed, numbered without a gap."""
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        assert agent.stop() == 0
    seen = [o for o, _ in replay(tmp_path / "s")]
    assert {o.source for o in seen} >= {"nvml", "infiniband", "kmsg", "host"}
    assert [o.seq for o in seen] == list(range(seen[0].seq, seen[0].seq + len(seen)))
    assert not list((tmp_path / "s" / "wal").glob("*.wal"))


@pytest.mark.slow
def test_a_killed_agent_goes_on_where_it_was(tmp_path: Path) -> None:
    """After kill -9 the numbers go on rising, what the first life read is kept,
    and nothing is there twice.
    """
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        agent.stop(signal.SIGKILL)
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        assert agent.values("tocsin_gpu_expected") == {"": 8}
        assert agent.stop() == 0
    # the simulated node's process died too: it has booted again
    lives: dict[str, list[Observation]] = defaultdict(list)
    for observation, _ in replay(tmp_path / "s"):
        lives[observation.boot_id].append(observation)
    first, second = sorted(lives.values(), key=lambda life: life[0].time_ns)
    numbers = [o.seq for o in (*first, *second)]
    assert numbers == sorted(set(numbers))
    assert second[0].seq - first[-1].seq > 1


@pytest.mark.slow
def test_a_second_agent_on_the_same_storage_refuses_to_start(tmp_path: Path) -> None:
    """Two writers would tear the store: the second says who holds it and exits 1."""
    with (
        AgentProcess(tmp_path / "s", *SIMULATED).ready() as first,
        AgentProcess(tmp_path / "s", *SIMULATED) as second,
    ):
        assert second.process.wait(PATIENCE_S) == 1
        assert f"process {first.process.pid}" in second.log


@pytest.mark.slow
def test_an_address_in_use_is_a_clear_error_at_start(tmp_path: Path) -> None:
    """It names the address and exits 1."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with AgentProcess(tmp_path / "s", address=address) as agent:
            assert agent.process.wait(PATIENCE_S) == 1
            assert address in agent.log


@pytest.mark.slow
def test_a_machine_without_driver_and_fabric_is_served_and_says_so(tmp_path: Path) -> None:
    """No NVML, no RDMA device, no kernel log: a state, not a crash."""
    roots = ("--path.sysfs", str(tmp_path / "sys"), "--path.kmsg", str(tmp_path / "kmsg"))
    with AgentProcess(tmp_path / "s", *roots) as agent:
        reported = 'source="nvml",reason="driver library not found"'
        until(
            lambda: agent.values("tocsin_source_unread").get(reported),
            what="the missing driver to be told",
        )
        assert agent.get("/-/healthy")[0] == 200
        until(lambda: agent.values("tocsin_gpu_expected") == {"": 0}, what="no GPU to be expected")
        assert agent.stop() == 0


def stuck_agent(folder: Path) -> AgentProcess:
    """An agent over a driver whose nvmlInit never returns."""
    NvmlState(folder / "nvml.state", create=True, capacity=64).fail("-/nvmlInit()", HANG)
    (folder / "kmsg").touch()
    roots = ("--path.sysfs", str(folder / "sys"), "--path.kmsg", str(folder / "kmsg"))
    return AgentProcess(
        folder / "s", *roots, environ=environment(compile_stub(folder), folder / "nvml.state")
    )


@pytest.mark.integration
def test_a_driver_that_never_initialises_costs_the_other_sources_no_tick(tmp_path: Path) -> None:
    """While nvmlInit hangs the GPUs' readings wait for their child, and the kernel log and the
    ports are read every second.
    """
    with stuck_agent(tmp_path) as agent:
        skipped, others = (
            "tocsin_source_skipped_ticks_total",
            ('source="infiniband"', 'source="kmsg"', 'source="host"'),
        )
        # The last in the order of first reads: it has waited for the GPUs, once.
        until(
            lambda: agent.values("tocsin_source_success").get('source="host"'),
            what="the first reads",
        )
        at_first = agent.values(skipped)
        until(
            lambda: agent.values(skipped)['source="nvml"'] >= 6,
            what="the GPUs' readings to be late",
        )
        now = agent.values(skipped)
        assert [now[other] for other in others] == [at_first[other] for other in others]


def with_driver(agent: AgentProcess) -> list[Path]:
    """Its children in /proc, once the one that holds the driver is among them."""
    children = [Path(f"/proc/{pid}") for pid in agent.children()]
    with contextlib.suppress(OSError):  # one has just ended
        if any(b"sources.nvml.driver" in (one / "cmdline").read_bytes() for one in children):
            return children
    return []


@pytest.mark.integration
def test_a_driver_child_that_hangs_does_not_outlive_a_killed_agent(tmp_path: Path) -> None:
    """It would hold the GPUs open, and the driver could not be unloaded."""
    with stuck_agent(tmp_path) as agent:
        until(
            lambda: agent.values("tocsin_source_success").get('source="host"'),
            what="the first reads",
        )
        children = until(lambda: with_driver(agent), what="the driver child")
        agent.stop(signal.SIGKILL)
        until(
            lambda: not any((one / "exe").exists() for one in children),
            what="the driver child, and whatever else it started, to end",
        )


@pytest.mark.slow
def test_a_good_reload_takes_the_new_configuration_and_no_scrape_sees_an_empty_page(
    tmp_path: Path,
) -> None:
    """SIGHUP from 4.8 names to 4.9 names under constant scraping."""
    config = tmp_path / "config.yaml"
    config.write_text("exposition: {compat: dcgm-4.8}\n", encoding="utf-8")
    with AgentProcess(tmp_path / "s", *SIMULATED, "--config.file", str(config)).ready() as agent:
        sizes: list[int] = []
        done = threading.Event()

        def scrape() -> None:
            while not done.is_set():
                sizes.append(agent.get()[1].count("\ntocsin_gpu_"))

        scraper = threading.Thread(target=scrape)
        scraper.start()
        try:
            config.write_text("exposition: {compat: dcgm-4.9}\n", encoding="utf-8")
            agent.process.send_signal(signal.SIGHUP)
            until(lambda: agent.values("DCGM_FI_DEV_SM_CLOCK_HERTZ"), what="the new names")
        finally:
            done.set()
            scraper.join(PATIENCE_S)
        assert min(sizes) > 100
        assert agent.values("tocsin_config_last_reload_successful") == {"": 1}
        assert not agent.values("DCGM_FI_DEV_SM_CLOCK")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exposition: {compta: both}\n", "exposition.compta"),
        ("exposition: {counters_file: /nowhere.csv}\n", "/nowhere.csv"),
        ("simulate: {seed: 5}\n", "simulate: cannot change"),
    ],
    ids=["typo", "missing counters file", "fixed setting"],
)
def test_a_bad_reload_keeps_the_old_configuration_and_says_why(
    tmp_path: Path, text: str, reason: str
) -> None:
    """A typo does not switch monitoring off: the metric falls to 0, the log names
    the key, the page stays.
    """
    config = tmp_path / "config.yaml"
    config.write_text("{}\n", encoding="utf-8")
    with AgentProcess(tmp_path / "s", *SIMULATED, "--config.file", str(config)).ready() as agent:
        config.write_text(text, encoding="utf-8")
        agent.process.send_signal(signal.SIGHUP)
        until(
            lambda: agent.values("tocsin_config_last_reload_successful") == {"": 0},
            what="the refusal",
        )
        assert reason in agent.log
        assert agent.values("tocsin_gpu_visible") == {"": 8}


@pytest.mark.slow
def test_a_listen_address_can_change_while_it_runs(tmp_path: Path) -> None:
    """The new address answers, the old one no longer does."""
    config = tmp_path / "config.yaml"
    config.write_text("web: {listen_address: ['127.0.0.1:0']}\n", encoding="utf-8")
    with AgentProcess(
        tmp_path / "s", *SIMULATED, "--config.file", str(config), address=""
    ).ready() as agent:
        old = agent.address
        config.write_text("web: {listen_address: ['127.0.0.2:0']}\n", encoding="utf-8")
        agent.process.send_signal(signal.SIGHUP)
        until(lambda: agent.address != old, what="the new address")
        assert agent.get("/-/healthy")[0] == 200
        until(lambda: refused(old), what="the old address to be closed")


def refused(address: str) -> bool:
    """Whether nobody listens there."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


@pytest.mark.slow
def test_the_dead_process_of_a_simulated_node_is_started_again(tmp_path: Path) -> None:
    """A rehearsal outlives its own faults."""
    with AgentProcess(tmp_path / "s", *SIMULATED).ready() as agent:
        simulator = next(
            pid
            for pid in agent.children()
            if b"simulate" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        os.kill(simulator, signal.SIGKILL)
        agent.until(
            lambda: "restarting it" in agent.log,
            what="the simulated node to be started again",
        )
        until(
            lambda: agent.values("tocsin_gpu_visible") == {"": 8},
            what="the GPUs to be back",
        )


@pytest.mark.slow
def test_the_library_on_the_path_is_read_by_the_real_bindings(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH names a libnvidia-ml.so.1: its eight GPUs are shown, a driver that crashes
    costs a child, not the agent.
    """
    stub = compile_stub(tmp_path)
    node = tmp_path / "node"
    render_once(node, "hgx-h100", seconds=600)
    table = NvmlState(node / "nvml.state")
    environ = {"LD_LIBRARY_PATH": str(stub), "NVML_STUB": str(node / "nvml.state")}
    roots = ("--path.sysfs", str(node / "sys"), "--path.kmsg", str(node / "dev" / "kmsg"))
    with AgentProcess(tmp_path / "s", *roots, environ=environ).ready() as agent:
        assert agent.values("tocsin_gpu_visible") == {"": 8}
        assert agent.values("tocsin_simulated") == {"": 0}
        watts = next(
            v for k, v in agent.values("DCGM_FI_DEV_POWER_USAGE").items() if 'gpu="3"' in k
        )
        assert watts == int(table.get("3/nvmlDeviceGetPowerUsage()").value) / 1000
        driver = next(
            pid for pid in agent.children() if b"nvml" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        os.kill(driver, signal.SIGSEGV)
        until(
            lambda: sum(agent.values("tocsin_nvml_child_ends_total").values()) == 1,
            what="the crash to be counted",
        )
        until(
            lambda: agent.values("tocsin_gpu_visible") == {"": 8},
            what="the GPUs to be back",
        )
        assert agent.process.poll() is None
