"""The command on simulated nodes: what its sources read, and who stores the result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from collector.cli import preflight_run
from collector.cli.main import main
from collector.config.load import Inputs, load
from collector.config.settings import Config
from collector.control import Control
from collector.node.inventory import Inventory
from collector.node.state import State
from collector.preflight import gather
from collector.preflight.gather import ask_mounts
from collector.preflight.model import Machine, Row
from collector.preflight.quick import quick
from pipeline import child
from pipeline.frame import Device
from simulator.injection import inject
from simulator.rendering import Rendering
from tests.wait import PATIENCE_S

PROLOG_S = 5.0
FAULTS = {  # what is injected: the check that finds it, in which part
    "remap@gpu0:state=failed": ("gpu_memory", "GPU 0", "remap failed"),
    "remap@gpu1:state=pending": ("gpu_memory", "GPU 1", "remap is pending"),
    "sram_threshold@gpu2": ("gpu_memory", "GPU 2", "SRAM"),
    "pcie_narrow@gpu3": ("gpu_pcie", "GPU 3", "of x16"),
    "power_limit@gpu4": ("gpu_power_limit", "GPU 4", "400 W"),
    "nvlink_down@gpu5": ("nvlink", "GPU 5", "17 NVLinks are up"),
    "nvlink_fabric@gpu6": ("nvlink_fabric", "GPU 6", "unhealthy"),
    "ecc_dbe@gpu7": ("gpu_memory", "GPU 7", "uncorrectable"),
    "ecc_dbe@gpu7:contained=0": ("recovery_action", "GPU 7", "action"),
    "power_brake@gpu1": ("gpu_clocks", "GPU 1", "power brake"),
    "link_down@mlx5_0": ("port", "mlx5_0/1", "is down"),
    "nic_narrow@mlx5_1": ("port", "mlx5_1/1", "of x16"),
    "nic_lost@mlx5_2": ("port", "mlx5_2/1", "is down"),
    "fabric_manager": ("nvlink_fabric", "node", "Fabric Manager"),
    "gpu_lost@gpu5": ("gpu_present", "GPU 5", "is lost"),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rendering]:
    """A node that waits for a job, with what its agent has learned of it."""
    folder = tmp_path_factory.mktemp("preflight")
    rendering = Rendering(folder / "node", "hgx-h100", seed=3)
    rendering.node.workload.drained.add("preflight")
    rendering.step(60.0)
    learn(folder, rendering)
    yield rendering
    rendering.close()


def storage(rendering: Rendering) -> Path:
    """The agent's storage path."""
    return rendering.directory.parent


def learn(folder: Path, rendering: Rendering) -> None:
    """Remember ports as an agent that saw all of them would."""
    machine = gather.gather(load_at(folder), node=str(rendering.directory))
    inventory = Inventory("n1", State(folder / "state"))
    inventory.learn("ib_port", [row.device for row in machine.ports])
    inventory.learn("gpu", [row.device for row in machine.gpus])


def load_at(folder: Path) -> Config:
    """Settings with a storage path."""
    return load(Inputs(environ={"TOCSIN_STORAGE__PATH": str(folder)})).config


@pytest.mark.slow
def test_fifteen_defects_are_found_in_one_look(node: Rendering) -> None:
    """Each in its part, read by the real sources; a healthy node before it shows nothing but the
    state of the test machine's clock. What may wait is given up within the time of a prolog.
    """
    assert gather.DEADLINE_S + gather.MOUNTS_S < PROLOG_S
    config = load_at(storage(node))
    before = quick(gather.gather(config, node=str(node.directory)))
    assert [one for one in before if one.check != "clock"] == []
    for spec in FAULTS:
        if spec != "gpu_lost@gpu5":
            inject(node.node, spec)
    nvswitch = node.directory / "sys/bus/pci/devices/0000:fe:00.0"
    nvswitch.mkdir()
    for name, text in (("vendor", "0x10de"), ("class", "0x068000")):
        (nvswitch / name).write_text(text)
    node.step(20.0)
    outcomes = quick(gather.gather(config, node=str(node.directory)))
    inject(node.node, "gpu_lost@gpu5")
    node.step(5.0)
    outcomes += quick(gather.gather(config, node=str(node.directory)))
    for check, part, words in FAULTS.values():
        assert any(
            one.check == check and one.part.startswith(part) and words in one.why
            for one in outcomes
        ), (check, part, words, outcomes)


def test_sources_that_do_not_answer_in_time_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that hangs holds up no job: the rest is judged."""
    never = Event()
    monkeypatch.setattr(gather, "DEADLINE_S", 0.05)
    monkeypatch.setattr(gather, "_read", lambda config, node, taken: never.wait())
    machine = gather.gather(load_at(tmp_path), node=str(tmp_path / "none"))
    never.set()
    assert {one.severity for one in quick(machine)} == {"unknown"}
    assert [one.why[:4] for one in quick(machine)] == ["nvml", "infi", "host"]


def test_a_file_system_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """Of the network file systems one does not answer; local ones are not asked."""
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 0 8:1 / / rw - ext4 a rw\n2 1 0:9 / /home rw - nfs4 s:/h rw\n"
        "3 1 0:8 / /data rw - lustre x rw\n"
    )
    asked: list[str] = []

    def run(argv: list[str], *, timeout_s: float) -> child.Finished:
        asked.extend(argv[5:])
        return child.Finished(None, b"begun\n1\n", b"", timed_out=True)

    found = ask_mounts(table, run)
    assert asked == ["/home", "/data"]
    assert [(one.point, one.answered) for one in found] == [("/home", False), ("/data", True)]
    busy = ask_mounts(table, lambda *_, **__: child.Finished(None, b"", b"", timed_out=True))
    assert [one.answered for one in busy] == [None, None]


@pytest.mark.slow
def test_file_systems_are_asked_in_a_child(tmp_path: Path) -> None:
    """A real one: who may not look, or finds nothing there, has an answer all the same."""
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 8:1 / / rw - nfs a rw\n2 1 0:9 / {tmp_path}/gone rw - nfs4 s:/h rw\n")
    found = ask_mounts(table, lambda argv, timeout_s: child.run(argv, timeout_s=PATIENCE_S))
    assert [(one.type, one.answered) for one in found] == [("nfs", True), ("nfs4", True)]


def test_the_result_goes_to_the_running_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over its socket; without an agent the answer is the same, and that is said."""
    machine = Machine("n1", failed={"nvml": "no driver"})
    monkeypatch.setattr(preflight_run, "gather", lambda *_, **__: machine)
    argv = ["preflight", "--format", "json", "--storage.path", str(tmp_path)]
    assert main(argv) == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["verdict"] == "unknown"
    assert "result not stored" in shown.err
    asked: list[dict[str, Any]] = []

    def agent(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {}

    control = Control(tmp_path, agent)
    assert main(argv) == 2
    control.close()
    assert capsys.readouterr().err == ""
    assert (asked[0]["command"], asked[0]["level"], asked[0]["outcome"]) == (
        "preflight",
        "quick",
        "unknown",
    )


@pytest.mark.parametrize(
    ("failed", "codes"),
    [
        (False, {"text": 0, "json": 0, "slurm": 0, "nhc": 0, "npd": 0, "nagios": 0}),
        (True, {"text": 1, "json": 1, "slurm": 1, "nhc": 1, "npd": 1, "nagios": 2}),
        (None, {"text": 2, "json": 2, "slurm": 0, "nhc": 0, "npd": 2, "nagios": 3}),
    ],
    ids=["healthy", "page", "unknown"],
)
def test_exit_codes_are_those_of_check(
    failed: bool | None,
    codes: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A prolog fails for a page alone: what could not be checked never holds up a job."""
    row = Row(Device("n1", "gpu", "GPU-a", {"index": "3"}), {"state": float(bool(failed))})
    lacking = {"nvml": "no driver"} if failed is None else {}
    machine = Machine("n1", (row,) if failed is not None else (), failed=lacking)
    monkeypatch.setattr(preflight_run, "gather", lambda *_, **__: machine)
    for form, code in codes.items():
        assert main(["preflight", "--no-store", "--format", form]) == code, form
        assert len(capsys.readouterr().out.splitlines()) >= 1


def test_the_gpus_of_the_job_come_from_the_prolog(capsys: pytest.CaptureFixture[str]) -> None:
    """SLURM_JOB_GPUS, or the option; what is no list of numbers is a wrong command line."""
    assert preflight_run.chosen(None, {"SLURM_JOB_GPUS": "0,2-3"}) == ("0", "2", "3")
    assert preflight_run.chosen("1", {"SLURM_JOB_GPUS": "0"}) == ("1",)
    assert main(["preflight", "--no-store", "--gpus", "all"]) == 2
    assert "--gpus: expected indices" in capsys.readouterr().err
