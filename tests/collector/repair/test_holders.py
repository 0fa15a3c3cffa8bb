"""Who holds a GPU, in a real /proc and in trees as the driver has them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collector.repair import holders
from collector.repair.bundle import Bundles
from collector.repair.holders import UnknownGpuError
from collector.repair.machine_hands import MachineHands

UUID = "GPU-5a1c2b9e-7f64-4a0e-9d6c-1f0f3b6f2c11"


def tree(folder: Path) -> Path:
    """A /proc with one GPU of minor 3, and a process that has its file open."""
    information = folder / "driver" / "nvidia" / "gpus" / "0000:3b:00.0" / "information"
    information.parent.mkdir(parents=True)
    information.write_text(f"GPU UUID: \t {UUID}\nDevice Minor: \t 3\n")
    for pid, unit in ((812, "user.slice/job.scope"), (7, "system.slice/nvidia-dcgm.service")):
        (folder / str(pid) / "fd").mkdir(parents=True)
        (folder / str(pid) / "stat").write_text(f"{pid} (python3) S 1 {' 0' * 30}")
        (folder / str(pid) / "cgroup").write_text(f"0::/{unit}\n")
    return folder


def test_processes_are_named_but_those_of_stopped_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A monitor holds a GPU too, unless its unit is stopped for the reset anyway."""
    proc = tree(tmp_path)
    monkeypatch.setattr(holders, "opened_minors", lambda *_: frozenset({3}))
    assert list(holders.holders(proc, UUID)) == ["python3 (pid 7)", "python3 (pid 812)"]
    assert list(holders.holders(proc, UUID, frozenset({"nvidia-dcgm"}))) == ["python3 (pid 812)"]


def test_another_gpus_file_is_no_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device number decides."""
    monkeypatch.setattr(holders, "opened_minors", lambda *_: frozenset({2, 255}))
    assert list(holders.holders(tree(tmp_path), UUID)) == []


def test_a_mig_instance_is_a_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of an instance has a capability of the GPU open."""
    proc = tree(tmp_path)
    (proc / "devices").write_text("Character devices:\n195 nvidia\n236 nvidia-caps\n")
    (proc / "driver" / "nvidia-caps").mkdir()
    (proc / "driver" / "nvidia-caps" / "mig-minors").write_text(
        "config 1\ngpu3/gi1/access 435\ngpu2/gi1/access 300\n"
    )
    caps = {195: frozenset({255}), 236: frozenset({435})}
    monkeypatch.setattr(holders, "opened_minors", lambda _, major: caps[major])
    assert len(list(holders.holders(proc, UUID))) == 2


def test_who_cannot_be_inspected_may_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not known is no permission."""

    def refuse(*_: object) -> frozenset[int]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(holders, "opened_minors", refuse)
    assert "perhaps pid 7 (Permission denied)" in list(holders.holders(tree(tmp_path), UUID))
    with pytest.raises(UnknownGpuError):
        list(holders.holders(tmp_path, "GPU-other"))


NVIDIA_SMI = """#!{python}
import sys
words = " ".join(sys.argv[1:])
with open("{log}", "a") as log:
    log.write(words + "\\n")
if "mig.mode" in words:
    print("{mig}")
elif "persistence" in words:
    print("Enabled")
elif "--gpu-reset" in words:
    print("In use by another client")
    sys.exit(255)
else:
    print("a report")
"""


def hands(folder: Path, mig: str = "Disabled") -> MachineHands:
    """With an nvidia-smi that does as its manual says, and refuses to reset."""
    script = folder / "bin" / "nvidia-smi"
    script.parent.mkdir(exist_ok=True)
    script.write_text(NVIDIA_SMI.format(python=sys.executable, log=folder / "log", mig=mig))
    script.chmod(0o755)
    path = str(script.parent)
    bundles = Bundles(str(folder / "bundles"), folder / "store", "gpu01", 0.0, path)
    return MachineHands(bundles, proc=tree(folder / "proc"), path=path)


@pytest.mark.slow
def test_the_driver_is_asked_with_deadlines_and_its_refusals_are_words(tmp_path: Path) -> None:
    """A reset of a GPU that is in use fails with nvidia-smi's own words."""
    one = hands(tmp_path)
    assert one.persistence(UUID)
    assert one.set_persistence(UUID, on=False) == ""
    assert one.reset(UUID).endswith("exited with 255: In use by another client")
    assert one.stop(["tocsin"]) == "systemctl is not installed"
    assert (tmp_path / "log").read_text().splitlines()[-2:] == [
        f"-i {UUID} -pm 0",
        f"--gpu-reset -i {UUID}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mig", "says"), [("Enabled", "MIG mode"), ("Broken", "an unknown MIG mode"), ("[N/A]", "")]
)
def test_mig_and_what_is_not_known_of_it_are_holds(tmp_path: Path, mig: str, says: str) -> None:
    """Instances belong to several users."""
    found = hands(tmp_path, mig).blockers(UUID, ())
    assert ("".join(found)).startswith(says) if says else not found
