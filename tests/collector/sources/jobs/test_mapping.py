"""The mapping of jobs, in dcgm-exporter's form and in that of our prolog: which files count,
and what a bad one costs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.sources.jobs.gpus import Gpus
from collector.sources.jobs.slurm import mapping as job_mapping
from collector.sources.jobs.slurm.mapping import MAX_BYTES, MAX_FILES, MAX_LINES, JobMapping
from pipeline.frame import Device

UUID, INSTANCE = (
    "GPU-1abf74e2-1111-2222-3333-444455556666",
    "MIG-1abf74e2-5555-2222-3333-444455556666",
)
# DCGM counts GPUs by index: here it is not the number of the device file.
GPUS = Gpus(
    [
        Device("n1", "gpu", f"GPU-{n}", {"index": str(n), "minor_number": str(1 - n)})
        for n in range(2)
    ]
)


def held(folder: Path, gpus: Gpus = GPUS) -> list[tuple[str, str, str]]:
    """UUID, instance and job."""
    return [(h.uuid, h.instance, h.facts["mapped"]) for h in JobMapping(folder).holdings(gpus)]


def put(folder: Path, **files: str) -> Path:
    """Files by name; an underscore replaces the point."""
    for name, text in files.items():
        (folder / name.strip("n").replace("_", ".")).write_text(text)
    return folder


def test_a_line_is_a_job_of_the_gpu_with_that_index(tmp_path: Path) -> None:
    """Two jobs on GPU 0, one on instance 5 of GPU 1."""
    put(tmp_path, n0="71\n72\n", n1_5="73\n")
    assert held(tmp_path) == [("GPU-0", "", "71"), ("GPU-0", "", "72"), ("GPU-1", "5", "73")]


def test_a_blank_line_is_no_job(tmp_path: Path) -> None:
    """dcgm-exporter makes hpc_job="" of it; a job that occurs twice is one."""
    put(tmp_path, n0="\n71\n  \n71\n")
    assert held(tmp_path) == [("GPU-0", "", "71")]


def test_a_file_of_our_prolog_is_a_job_with_a_gpu_a_line(tmp_path: Path) -> None:
    """Two jobs share GPU 1, one has another as well; both know only numbers of Slurm's list."""
    alike = Gpus(
        [
            Device("n1", "gpu", f"GPU-{n}", {"index": str(n), "minor_number": str(n)})
            for n in range(2)
        ]
    )
    (tmp_path / "job-71").write_text("0\n1\n")
    (tmp_path / "job-72").write_text("1\n")
    assert held(tmp_path, alike) == [("GPU-0", "", "71"), ("GPU-1", "", "71"), ("GPU-1", "", "72")]


def test_a_number_that_may_be_another_gpu_names_none(tmp_path: Path) -> None:
    """Slurm counts as NVML does or as the device files do.

    Where those differ a job is on no GPU rather than on the wrong one, and that is reported.
    """
    (tmp_path / "job-71").write_text("0\n")
    mapping = JobMapping(tmp_path)
    assert list(mapping.holdings(GPUS)) == []
    assert [(u.reason, u.device) for u in mapping.unread] == [("unknown GPU", "job-71")]


def test_a_number_names_no_gpu_once_one_is_divided(tmp_path: Path) -> None:
    """Slurm's list then has instances in it: 1 may be the second instance of GPU 0."""
    whole = [
        Device("n1", "gpu", f"GPU-{n}", {"index": str(n), "minor_number": str(n)}) for n in range(2)
    ]
    divided = Gpus(
        whole, [Device("n1", "gpu_instance", INSTANCE, {"gpu_uuid": "GPU-0", "gpu_instance": "5"})]
    )
    (tmp_path / "job-71").write_text("1\n")
    assert held(tmp_path, divided) == []


def test_a_uuid_is_certain(tmp_path: Path) -> None:
    """Whatever the numbers: a whole GPU, and an instance of another."""
    whole = [
        Device("n1", "gpu", uuid, {"index": str(n), "minor_number": str(1 - n)})
        for n, uuid in enumerate(("GPU-0", UUID))
    ]
    divided = Gpus(
        whole, [Device("n1", "gpu_instance", INSTANCE, {"gpu_uuid": "GPU-0", "gpu_instance": "5"})]
    )
    (tmp_path / "job-71").write_text(f"{INSTANCE}\n{UUID}\n")
    assert held(tmp_path, divided) == [("GPU-0", "5", "71"), (UUID, "", "71")]


def test_other_files_are_nobody_s(tmp_path: Path) -> None:
    """Only numbers count, and only of GPUs that are here: no temporary file of a
    prolog, no GPU of another node.
    """
    put(tmp_path, n0_tmp="71\n", n7="71\n", README="71\n")
    (tmp_path / ".job-71").write_text("0\n")
    (tmp_path / "71.json").write_text("71\n")
    assert held(tmp_path) == []


def test_one_file_that_cannot_be_read_costs_itself(tmp_path: Path) -> None:
    """A link, which would let the agent read what its author may not, is not
    followed; the others are read.
    """
    put(tmp_path, n1="72\n")
    (tmp_path / "0").symlink_to("/etc/passwd")
    mapping = JobMapping(tmp_path)
    assert [h.uuid for h in mapping.holdings(GPUS)] == ["GPU-1"]
    assert [u.device for u in mapping.unread] == ["0"]


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    """Whoever may write there cannot stop the agent."""
    os.mkfifo(tmp_path / "0")
    assert held(tmp_path) == []


@pytest.mark.parametrize(
    "text", ["x" * (MAX_BYTES + 1), "\n".join(map(str, range(10_000)))], ids=["long", "many"]
)
def test_a_huge_file_makes_few_jobs(tmp_path: Path, text: str) -> None:
    """Series are bounded whatever a file contains."""
    put(tmp_path, n0=text)
    assert len(held(tmp_path)) <= MAX_LINES


def reasons(mapping: JobMapping) -> list[tuple[str, str]]:
    """What was not read, and in which file."""
    return [(u.reason, u.device) for u in mapping.unread]


def test_foreign_files_take_no_place_of_a_gpu_s(tmp_path: Path) -> None:
    """Whatever else lies in the folder, and however much of it, every GPU's file is read."""
    for number in range(2 * MAX_FILES):
        (tmp_path / f"{number:03}.tmp").touch()
        (tmp_path / f"{1000 + number}").touch()
    put(tmp_path, n0="71\n", n1="72\n")
    mapping = JobMapping(tmp_path)
    assert [h.uuid for h in mapping.holdings(GPUS)] == ["GPU-0", "GPU-1"]
    assert reasons(mapping) == []


def test_files_beyond_the_most_are_reported(tmp_path: Path) -> None:
    """Series are bounded, and what that costs is no secret."""
    for job in range(MAX_FILES + 1):
        (tmp_path / f"job-{job}").touch()
    mapping = JobMapping(tmp_path)
    list(mapping.holdings(GPUS))
    assert reasons(mapping) == [("too many files", "")]


def test_lines_beyond_the_most_are_reported(tmp_path: Path) -> None:
    """The file is named; one with as many as are read is not."""
    put(tmp_path, n0="\n".join(map(str, range(MAX_LINES + 1))))
    put(tmp_path, n1="\n".join(map(str, range(MAX_LINES))))
    mapping = JobMapping(tmp_path)
    assert len(list(mapping.holdings(GPUS))) == 2 * MAX_LINES
    assert reasons(mapping) == [("too many lines", "0")]


def test_entries_beyond_the_most_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that somebody filled costs a bounded look."""
    monkeypatch.setattr(job_mapping, "MAX_ENTRIES", 3)
    for number in range(4):
        (tmp_path / f"{number}.tmp").touch()
    mapping = JobMapping(tmp_path)
    assert list(mapping.holdings(GPUS)) == []
    assert reasons(mapping) == [("too many entries", "")]


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """The caller decides whether it is missed."""
    with pytest.raises(FileNotFoundError):
        held(tmp_path / "none")
